//! What is run, what is left out, and what is known to fail.

/// The groups of the suite about devices that fail and come back, and about repair.
pub(super) const GROUPS: [&str; 14] = [
    "clean_mirror",
    "cli_root/zpool_attach",
    "cli_root/zpool_clear",
    "cli_root/zpool_detach",
    "cli_root/zpool_offline",
    "cli_root/zpool_online",
    "cli_root/zpool_replace",
    "cli_root/zpool_resilver",
    "cli_root/zpool_scrub",
    "cli_root/zpool_wait/scan",
    "online_offline",
    "redundancy",
    "replacement",
    "scrub_mirror",
];

/// Tests that need what only the kernel module has.
pub(super) const LEFT_OUT: [(&str, &str); 12] = [
    ("resilver_restart_001", ZINJECT),
    ("resilver_restart_002", ZINJECT),
    ("zpool_error_scrub_001_pos", ZINJECT),
    ("zpool_error_scrub_002_pos", ZINJECT),
    ("zpool_error_scrub_003_pos", ZINJECT),
    ("zpool_scrub_multiple_copies", ZINJECT),
    ("zpool_scrub_print_repairing", ZINJECT),
    ("zpool_wait_rebuild", ZINJECT),
    ("zpool_wait_replace", ZINJECT),
    ("zpool_wait_resilver", ZINJECT),
    ("zpool_wait_scrub_basic", ZINJECT),
    (
        "zpool_resilver_concurrent",
        "it makes an ext4 on a volume's block device",
    ),
];

const ZINJECT: &str = "zinject has the kernel module fail requests";

/// Tests that fail, and why.
pub(super) const KNOWN: [(&str, &str); 13] = [
    ("attach_import", NO_REBUILD),
    ("attach_multiple", NO_REBUILD),
    ("attach_rebuild", NO_REBUILD),
    ("rebuild_disabled_feature", NO_REBUILD),
    ("rebuild_multiple", NO_REBUILD),
    ("rebuild_raidz", NO_REBUILD),
    ("replace_import", NO_REBUILD),
    ("replace_rebuild", NO_REBUILD),
    ("scrub_cancel", NO_REBUILD),
    ("replace-o_ashift", NO_LABELS),
    ("replace_prop_ashift", NO_LABELS),
    (
        "zpool_resilver_restart",
        "zpool resilver does not restart a running resilver",
    ),
    (
        "zpool_scrub_001_neg",
        "it is of a release whose zpool scrub has no -a",
    ),
];

const NO_REBUILD: &str = "devices are not rebuilt sequentially (attach -s, replace -s)";
const NO_LABELS: &str = "it clears labels of a device that was replaced; ours has none any more";
