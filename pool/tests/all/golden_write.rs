//! Pools that OpenZFS made, opened for writing, changed a little, and judged by OpenZFS.

use crate::common;
use cenote_base::RealEnv;
use cenote_pool::{ImportError, Pool};
use std::path::Path;
use std::sync::Arc;

fn import(dir: &Path) -> Result<Pool, ImportError> {
    let candidates = common::candidates(dir);
    let options = cenote_pool::ImportOptions {
        force: true,
        ..common::options()
    };
    cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new()))
}

/// Copies a golden pool's devices; `None` where they are not unpacked.
fn copy(kind: &str) -> Option<tempfile::TempDir> {
    let unpacked = std::env::var_os("CENOTE_GOLDEN_UNPACKED")?;
    let from = Path::new(&unpacked).join(kind);
    let dir = tempfile::tempdir().expect("a temporary directory");
    for entry in std::fs::read_dir(from).ok()?.flatten() {
        if entry
            .path()
            .extension()
            .is_some_and(|extension| extension == "img")
        {
            let to = dir.path().join(entry.file_name());
            std::fs::copy(entry.path(), to).expect("copied");
        }
    }
    Some(dir)
}

#[test]
fn a_few_groups() {
    let Some(kinds) = std::env::var_os("CENOTE_GOLDEN_KINDS") else {
        eprintln!("skipped: no golden pools are named");
        return;
    };
    let kinds = kinds.into_string().expect("names");
    let mut failed = Vec::new();
    for kind in kinds.split(',') {
        let Some(dir) = copy(kind) else { continue };
        let pool = match import(dir.path()) {
            Ok(pool) => pool,
            Err(error) => {
                eprintln!("{kind}: {error}");
                continue;
            }
        };
        let name = pool.name().to_owned();
        let written = (|| {
            for round in 0..4 {
                common::change(&pool, round)?;
            }
            pool.export()
        })();
        drop(pool);
        if let Err(error) = written {
            eprintln!("{kind}: {error}");
            failed.push(kind);
            continue;
        }
        let judged = std::panic::catch_unwind(|| common::referee(dir.path(), &name));
        eprintln!("{kind}: {}", if judged.is_ok() { "good" } else { "BAD" });
        if judged.is_err() {
            failed.push(kind);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
