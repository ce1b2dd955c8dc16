//! Every file of every golden file system and snapshot, compared with what OpenZFS saw.

use crate::common;
use cenote_tests::compare::{self, Tolerance};
use cenote_tests::manifest::Dataset;

/// Compares all file systems and snapshots of a pool.
fn check(kind: &str) {
    let Some(pool) = common::open(kind) else {
        return;
    };
    pool.load_keys();
    let mut compared = 0;
    for (name, wanted) in &pool.golden.manifest.datasets {
        if wanted.is_skipped || wanted.entries.is_none() {
            continue;
        }
        let found = Dataset {
            entries: Some(common::entries(&pool.file_system(name))),
            ..Dataset::default()
        };
        let mut tolerance = Tolerance::of(kind, &pool.golden.manifest);
        // The kernel shows these to root only; here nothing is hidden.
        tolerance.hidden_xattrs.clear();
        let mut differences = compare::dataset(wanted, &found, &tolerance);
        if name.contains('@') {
            // OpenZFS shows another inode number for the root of a mounted snapshot.
            differences.retain(|difference| !difference.starts_with("\".\": ino"));
        }
        assert!(
            differences.is_empty(),
            "{kind}: {name}:\n{}",
            differences.join("\n")
        );
        compared += 1;
    }
    assert!(compared > 0, "{kind} has file systems");
}

macro_rules! golden {
    ($($test:ident $kind:literal)*) => {
        $(
            #[test]
            fn $test() {
                check($kind);
            }
        )*
    };
}

golden! {
    single_default "single-default"
    ashift13 "ashift13"
    block_cloning "block-cloning"
    compression "compression"
    checksums "checksums"
    encryption "encryption"
    large_dnodes "large-dnodes"
    legacy_features_off "legacy-features-off"
    legacy_grub2 "legacy-grub2"
    names_folding "names-folding"
    quotas "quotas"
    raidz1_3 "raidz1-3"
    recordsizes "recordsizes"
    snapshots_clones "snapshots-clones"
    special_vdev "special-vdev"
    version28 "version28"
}
