//! Golden pools, imported for reading.

use cenote_base::RealEnv;
use cenote_device::SystemOpener;
use cenote_dsl::{Dataset, DatasetName};
use cenote_pool::{ImportOptions, Pool, assemble, import};
use cenote_tests::golden::Golden;
use cenote_tests::manifest::Key;
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

/// Loads the keys in the manifest.
pub fn load_keys(pool: &Pool, golden: &Golden) {
    for (name, key) in &golden.manifest.keys {
        let head = dataset(pool, name);
        let material = match key {
            Key::Passphrase(text) => text.as_bytes().to_vec(),
            Key::Hex(digits) => digits.as_bytes().to_vec(),
            Key::Raw(bytes) => bytes.clone(),
        };
        let loaded = pool.dsl().load_key(head.directory(), &material, false);
        loaded.expect("it is the key");
    }
}
