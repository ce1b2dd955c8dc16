//! Golden pools, imported for reading.

use cenote_base::RealEnv;
use cenote_device::SystemOpener;
use cenote_dsl::{Dataset, DatasetName};
use cenote_pool::{ImportOptions, Pool, assemble, import};
use cenote_tests::golden::Golden;
use cenote_vdev::scan;
use std::path::Path;
use std::sync::Arc;

/// The golden pool of this kind; `None` with a notice when it is not here.
pub fn golden(kind: &str) -> Option<(Pool, Golden)> {
    let golden = Golden::find(kind).expect("the manifest is readable")?;
    let directory = golden.devices().expect("images unpack");
    Some((open(&directory), golden))
}

/// The only pool whose devices are in `directory`.
pub fn open(directory: &Path) -> Pool {
    let found = scan(&[directory.to_owned()], &SystemOpener::default());
    let candidates = assemble(found);
    let [candidate] = candidates.as_slice() else {
        panic!("{} pools", candidates.len());
    };
    let options = ImportOptions::default();
    import(candidate, &options, Arc::new(RealEnv)).expect("it imports")
}

/// A dataset or snapshot.
pub fn dataset(pool: &Pool, name: &str) -> Dataset {
    let name = DatasetName::parse(name).expect("a name");
    pool.dsl().dataset(&name).expect("there")
}
