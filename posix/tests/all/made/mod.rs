//! File systems that are made here, not found.
#![allow(dead_code, reason = "each test file uses a part of it")]

use cenote_base::RealEnv;
use cenote_dataset::Access;
use cenote_dsl::DslError;
use cenote_dsl::write::Format;
use cenote_pool::Pool;
use cenote_posix::write::{FormatParams, WriteSettings, format_new};
use cenote_posix::{FileSystem, PosixError};
use std::sync::Arc;

/// Makes an empty file system of a new pool's root dataset.
pub fn empty() -> Option<Format> {
    Some(Box::new(|set, tx| {
        let made = format_new(set, tx, &FormatParams::default());
        let failed = |error: PosixError| DslError::Format {
            reason: error.to_string(),
        };
        made.map(drop).map_err(failed)
    }))
}

/// The pool's root file system, open for writing.
pub fn open(pool: &Pool) -> Arc<FileSystem> {
    let dataset = pool.dsl().dataset(pool.dsl().pool_name()).expect("exists");
    let gate = pool.gate().expect("writable");
    let access = Access {
        dsl: Arc::clone(pool.dsl()),
        gate: Arc::clone(gate),
        env: Arc::new(RealEnv::new()),
        blocks: Some(Arc::clone(pool.block_writer().expect("writable"))),
        damage: None,
    };
    let open = Arc::new(access.open(&dataset).expect("opens"));
    let settings = WriteSettings {
        posix_acls: true,
        ..WriteSettings::default()
    };
    Arc::new(FileSystem::open_writable(open, settings).expect("opens"))
}
