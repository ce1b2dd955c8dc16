//! The thread on which requests wait for their answers: all that is asynchronous here.

use cenote_base::rt::process::{self, JoinHandle};
use std::future::Future;
use std::io;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A runtime on a thread of its own, which ends with it.
#[derive(Debug)]
pub(super) struct Runtime {
    handle: Handle,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Runtime {
    /// # Errors
    /// The system's, if there can be no more threads.
    pub(super) fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, is_over) = oneshot::channel::<()>();
        let thread = process::spawn("s3", move || {
            // Either way it is over.
            let _ = runtime.block_on(is_over);
            // Names that are being looked up are not waited for.
            runtime.shutdown_background();
        })?;
        Ok(Self {
            handle,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// Begins a task.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(task));
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}
