//! One test for each kind of golden pool, so that a failure names the kind.

/// Makes a module of tests that call `$check(KIND)` for each golden pool.
///
/// The list is written out: a pool that is missing shows as a skipped test, not as none.
#[macro_export]
macro_rules! test_each_golden_pool {
    ($check:path) => {
        $crate::test_golden_pools! { $check =>
            ashift13 "ashift13", ashift9 "ashift9", autotrim "autotrim",
            block_cloning "block-cloning", checkpoint "checkpoint", checksums "checksums",
            compression "compression", dedup "dedup", dedup_legacy "dedup-legacy",
            device_removal "device-removal", dirty_crash "dirty-crash", dirty_zil "dirty-zil",
            dirty_zil_slog "dirty-zil-slog", draid2 "draid2", encryption "encryption",
            large_dnodes "large-dnodes", legacy_features_off "legacy-features-off",
            legacy_grub2 "legacy-grub2", mirror_offline "mirror-offline", mirror2 "mirror2",
            mirror3_degraded "mirror3-degraded", names_folding "names-folding", quotas "quotas",
            raidz_expanded "raidz-expanded", raidz_expanding "raidz-expanding",
            raidz1_3 "raidz1-3", raidz1_5 "raidz1-5", raidz1_ashift9 "raidz1-ashift9",
            raidz2_6 "raidz2-6", raidz2_ashift12_5 "raidz2-ashift12-5", raidz3_8 "raidz3-8",
            recordsizes "recordsizes", single_default "single-default",
            snapshots_clones "snapshots-clones", special_vdev "special-vdev", streams "streams",
            stripe_mixed_sizes "stripe-mixed-sizes", version28 "version28", zvol "zvol",
        }
    };
}

/// Makes a test `$name` that calls `$check($kind)` for each pair; it returns what a test may.
#[macro_export]
macro_rules! test_golden_pools {
    ($check:path => $($name:ident $kind:literal),* $(,)?) => {
        $(
            #[test]
            fn $name() -> impl ::std::process::Termination {
                $check($kind)
            }
        )*
    };
}
