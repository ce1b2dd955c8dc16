//! The table and the ways to set what it has.

use super::*;

#[test]
fn no_name_is_listed_twice() {
    let states = list();
    assert!(states.windows(2).all(|pair| pair[0].name < pair[1].name));
    assert!(
        states
            .iter()
            .all(|state| state.name.len() < 64 && !state.effect.is_empty())
    );
}

#[test]
fn a_value_out_of_range_or_no_number_is_refused_by_name() {
    let text = |name: &str, value: &str| {
        let refused = Assignment::new(name, value).expect_err("it is refused");
        refused.to_string()
    };
    assert_eq!(
        text("zfs_txg_timeout", "0"),
        "zfs_txg_timeout: 0 is not between 1 and 4294967295"
    );
    assert_eq!(
        text("zfs_arc_max", "much"),
        "zfs_arc_max: 'much' is not a number"
    );
    let long = "x".repeat(VALUE_LENGTH_MAX + 1);
    assert!(text("l2arc_headroom", &long).starts_with("l2arc_headroom: the value has more"));
    assert!(TXG_TIMEOUT.set(0).is_err());
}

#[test]
fn an_unknown_name_gets_near_ones() {
    let near = |name: &str| match get(name) {
        Err(SettingError::Unknown { near, .. }) => near,
        other => panic!("{other:?}"),
    };
    assert_eq!(near("zfs_arc_mx")[0], "zfs_arc_max");
    assert!(near("async_read_max_active").contains(&"zfs_vdev_async_read_max_active"));
    assert!(near("zzzzzzzz").is_empty());
    assert!(near(&"z".repeat(1 << 20)).is_empty());
    assert!(near("").is_empty());
}

#[test]
fn what_has_no_meaning_is_kept_and_says_why() {
    let assignment = Assignment::new("l2arc_write_max", "anything").expect("accepted");
    assert!(
        assignment
            .note()
            .is_some_and(|note| note.contains("Cache devices"))
    );
    let state = assignment.apply();
    assert_eq!(
        (state.value.as_str(), state.has_effect()),
        ("anything", false)
    );
    let back = Assignment::new("l2arc_write_max", "default").expect("accepted");
    assert_eq!(back.apply().value, "");
}

#[test]
fn values_are_set_and_go_back_to_their_default() {
    let set = |value: &str| {
        let assignment = Assignment::new("zstd_abort_size", value).expect("valid");
        assert_eq!(assignment.note(), None);
        assignment.apply().value
    };
    assert_eq!(set("64K"), "65536");
    assert_eq!(ZSTD_ABORT_SIZE.get(), 64 << 10);
    assert_eq!(set("default"), "131072");
}

#[test]
fn dirty_bytes_follow_the_memory_unless_they_are_set() {
    let memory = memory_bytes();
    set_memory_bytes(10 << 30);
    assert_eq!(dirty_bytes_max(), (10 << 30) / 100 * 10);
    set_memory_bytes(1 << 40);
    assert_eq!(dirty_bytes_max(), 4 << 30, "never more by itself");
    DIRTY_DATA_MAX_MAX.set(16 << 30).expect("in range");
    assert_eq!(dirty_bytes_max(), 16 << 30);
    DIRTY_DATA_MAX_MAX.reset();
    set_memory_bytes(10 << 30);
    DIRTY_DATA_MAX_PERCENT.set(20).expect("in range");
    assert_eq!(dirty_bytes_max(), (10 << 30) / 100 * 20);
    DIRTY_DATA_MAX_MAX_PERCENT.set(15).expect("in range");
    assert_eq!(dirty_bytes_max(), (10 << 30) / 100 * 15);
    DIRTY_DATA_MAX_MAX_PERCENT.reset();
    DIRTY_DATA_MAX_PERCENT.reset();
    DIRTY_DATA_MAX.set(6 << 30).expect("in range");
    assert_eq!(dirty_bytes_max(), 6 << 30);
    set_memory_short(true);
    assert_eq!(dirty_bytes_max(), (6 << 30) / 4);
    set_memory_short(false);
    // A number for a larger machine was believed, and the kernel killed the process.
    DIRTY_DATA_MAX.set(200 << 30).expect("in range");
    let most = (10 << 30) / 4 * 3;
    assert_eq!(dirty_bytes_max(), most);
    assert_eq!(taken("zfs_dirty_data_max"), Some(most));
    assert_eq!((arc_bytes_max(), taken("zfs_arc_max")), (None, None));
    ARC_MAX.set(200 << 30).expect("in range");
    assert_eq!(arc_bytes_max(), Some(most));
    assert_eq!(taken("zfs_arc_max"), Some(most));
    ARC_MAX.set(4 << 30).expect("in range");
    assert_eq!(
        (arc_bytes_max(), taken("zfs_arc_max")),
        (Some(4 << 30), None)
    );
    ARC_MAX.reset();
    // So are these two; the second leaves no more alone than there is.
    for (setting, believed, most) in [
        (&ARC_MIN, arc_bytes_min as fn() -> Option<u64>, most),
        (&ARC_SYS_FREE, free_bytes_min, 10 << 30),
    ] {
        assert_eq!((believed(), taken(setting.name)), (None, None));
        setting.set(500 << 30).expect("in range");
        assert_eq!((believed(), taken(setting.name)), (Some(most), Some(most)));
        setting.set(1 << 30).expect("in range");
        assert_eq!((believed(), taken(setting.name)), (Some(1 << 30), None));
        setting.reset();
    }
    DIRTY_DATA_MAX.set(1).expect("in range");
    assert_eq!(dirty_bytes_max(), 16 << 20, "enough for the largest block");
    DIRTY_DATA_MAX.reset();
    set_memory_bytes(memory);
}

/// Names that are in zfs(4) of OpenZFS 2.4 but not of 2.3, and some of older releases. Regression:
/// a configuration with such names was reported as mistyped.
#[test]
fn parameters_of_other_releases_are_known() {
    let names = [
        "l2arc_dwpd_limit",
        "l2arc_ext_headroom_pct",
        "l2arc_meta_cycles",
        "zfs_spa_flush_txg_time",
        "zfs_spa_note_txg_time",
        "zfs_delete_dentry",
        "zfs_import_defer_txgs",
        "zfs_bclone_strict_properties",
        "zil_special_is_slog",
        "vdev_raidz_outlier_check_interval_ms",
        "zfs_active_allocator",
        "zfs_dirty_data_sync",
        "zio_delay_max",
    ];
    for name in names {
        let state = get(name).expect("known");
        assert!(!state.has_effect(), "{name}");
    }
}
