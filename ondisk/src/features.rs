//! Feature flags: what a pool of version 5000 may use, and what this software can read.
//!
//! Source: format/1b 2 and 3. A pool keeps two ZAPs from a feature's guid to a count of its
//! uses: `features_for_read` (without knowing these, do not open the pool) and
//! `features_for_write` (without knowing these, open it read-only). 0 means enabled and not in
//! use. The features needed to read the MOS itself are also named in the labels.

/// Properties of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The name on disk.
    pub guid: &'static str,
    /// The name in `feature@name`.
    pub name: &'static str,
    /// Not knowing it does not prevent reading.
    pub read_only_compatible: bool,
    /// Needed to read the MOS: named in the labels while active.
    pub needed_for_mos: bool,
    /// Active as soon as it is enabled.
    pub active_when_enabled: bool,
    /// Uses are counted by dataset.
    pub per_dataset: bool,
    /// Guids of the features that it builds on.
    pub dependencies: &'static [&'static str],
    /// One line.
    pub description: &'static str,
    /// Whether this software can read pools where it is active.
    pub readable: bool,
}

const EXTENSIBLE: &str = "com.delphix:extensible_dataset";
const BOOKMARKS: &str = "com.delphix:bookmarks";
const BOOKMARK_V2: &str = "com.datto:bookmark_v2";
const NONE: &[&str] = &[];
const EXT: &[&str] = &[EXTENSIBLE];
const BOOKMARK_PARENTS: &[&str] = &[BOOKMARK_V2, EXTENSIBLE, BOOKMARKS];

/// A row of the table. `flags` is of the letters of the format chapter: R read-only compatible,
/// M needed for the MOS, A active when enabled, D per dataset; X: this software cannot read it.
const fn row(
    guid: &'static str,
    name: &'static str,
    flags: &'static str,
    dependencies: &'static [&'static str],
    description: &'static str,
) -> Feature {
    Feature {
        guid,
        name,
        read_only_compatible: has(flags, b'R'),
        needed_for_mos: has(flags, b'M'),
        active_when_enabled: has(flags, b'A'),
        per_dataset: has(flags, b'D'),
        dependencies,
        description,
        readable: !has(flags, b'X'),
    }
}

const fn has(flags: &str, flag: u8) -> bool {
    let flags = flags.as_bytes();
    let mut i = 0;
    while i < flags.len() {
        if flags[i] == flag {
            return true;
        }
        i += 1;
    }
    false
}

/// Every feature through OpenZFS 2.4, and one beyond.
pub const FEATURES: &[Feature] = &[
    row(
        "com.delphix:async_destroy",
        "async_destroy",
        "R",
        NONE,
        "Destroys file systems in the background",
    ),
    row(
        "com.delphix:empty_bpobj",
        "empty_bpobj",
        "R",
        NONE,
        "Snapshots share one empty list of dead blocks",
    ),
    row(
        "org.illumos:lz4_compress",
        "lz4_compress",
        "A",
        NONE,
        "LZ4 compression",
    ),
    row(
        "com.joyent:multi_vdev_crash_dump",
        "multi_vdev_crash_dump",
        "",
        NONE,
        "Crash dumps to pools of several devices",
    ),
    row(
        "com.delphix:spacemap_histogram",
        "spacemap_histogram",
        "R",
        NONE,
        "Space maps keep histograms of free space",
    ),
    row(
        "com.delphix:enabled_txg",
        "enabled_txg",
        "R",
        NONE,
        "Records when features were enabled",
    ),
    row(
        "com.delphix:hole_birth",
        "hole_birth",
        "MA",
        &["com.delphix:enabled_txg"],
        "Holes keep their birth txg for faster sends",
    ),
    row(
        EXTENSIBLE,
        "extensible_dataset",
        "",
        NONE,
        "Datasets can carry further fields",
    ),
    row(
        "com.delphix:embedded_data",
        "embedded_data",
        "MA",
        NONE,
        "Small blocks are stored in their block pointers",
    ),
    row(
        BOOKMARKS,
        "bookmarks",
        "R",
        EXT,
        "Bookmarks: the \"zfs bookmark\" command",
    ),
    row(
        "com.joyent:filesystem_limits",
        "filesystem_limits",
        "R",
        EXT,
        "Limits on the number of file systems and snapshots",
    ),
    row(
        "org.open-zfs:large_blocks",
        "large_blocks",
        "D",
        EXT,
        "Blocks larger than 128 KiB",
    ),
    row(
        "org.zfsonlinux:large_dnode",
        "large_dnode",
        "D",
        EXT,
        "Dnodes larger than 512 bytes",
    ),
    row(
        "org.illumos:sha512",
        "sha512",
        "D",
        EXT,
        "SHA-512/256 checksums",
    ),
    row("org.illumos:skein", "skein", "D", EXT, "Skein checksums"),
    row("org.illumos:edonr", "edonr", "D", EXT, "Edon-R checksums"),
    row("org.openzfs:blake3", "blake3", "D", EXT, "BLAKE3 checksums"),
    row(
        "org.zfsonlinux:userobj_accounting",
        "userobj_accounting",
        "RD",
        EXT,
        "Objects are counted by user and group",
    ),
    row(
        "com.datto:encryption",
        "encryption",
        "D",
        &[EXTENSIBLE, BOOKMARK_V2],
        "Encryption of datasets",
    ),
    row(
        "org.zfsonlinux:project_quota",
        "project_quota",
        "RD",
        EXT,
        "Space and objects are counted by project",
    ),
    row(
        "com.delphix:device_removal",
        "device_removal",
        "M",
        NONE,
        "Top-level devices can be removed",
    ),
    row(
        "com.delphix:obsolete_counts",
        "obsolete_counts",
        "R",
        &[EXTENSIBLE, "com.delphix:device_removal"],
        "Keeps memory small after a device was removed",
    ),
    row(
        "com.delphix:zpool_checkpoint",
        "zpool_checkpoint",
        "R",
        NONE,
        "Checkpoints of the whole pool",
    ),
    row(
        "com.delphix:spacemap_v2",
        "spacemap_v2",
        "RA",
        NONE,
        "Space map entries for large runs",
    ),
    row(
        "org.zfsonlinux:allocation_classes",
        "allocation_classes",
        "R",
        NONE,
        "Devices for metadata, small blocks and dedup tables",
    ),
    row(
        "com.datto:resilver_defer",
        "resilver_defer",
        "R",
        NONE,
        "Resilvers wait for the current one to end",
    ),
    row(
        BOOKMARK_V2,
        "bookmark_v2",
        "",
        &[EXTENSIBLE, BOOKMARKS],
        "Larger bookmarks",
    ),
    row(
        "com.delphix:redaction_bookmarks",
        "redaction_bookmarks",
        "",
        BOOKMARK_PARENTS,
        "Bookmarks that keep what to redact from sends",
    ),
    row(
        "com.delphix:redacted_datasets",
        "redacted_datasets",
        "D",
        EXT,
        "Datasets received from redacted sends",
    ),
    row(
        "com.delphix:bookmark_written",
        "bookmark_written",
        "",
        BOOKMARK_PARENTS,
        "Bookmarks know the space written since: written#bookmark",
    ),
    row(
        "com.delphix:log_spacemap",
        "log_spacemap",
        "R",
        &["com.delphix:spacemap_v2"],
        "Changes of free space are logged for the whole pool",
    ),
    row(
        "com.delphix:livelist",
        "livelist",
        "R",
        EXT,
        "Clones are destroyed faster",
    ),
    row(
        "org.openzfs:device_rebuild",
        "device_rebuild",
        "R",
        NONE,
        "Mirrors and draid can be rebuilt sequentially",
    ),
    row(
        "org.freebsd:zstd_compress",
        "zstd_compress",
        "D",
        EXT,
        "Zstandard compression",
    ),
    row(
        "org.openzfs:draid",
        "draid",
        "M",
        NONE,
        "Parity with distributed spares",
    ),
    row(
        "org.openzfs:zilsaxattr",
        "zilsaxattr",
        "RD",
        EXT,
        "Extended attributes are in the intent log",
    ),
    row(
        "com.delphix:head_errlog",
        "head_errlog",
        "A",
        NONE,
        "The error log is by dataset",
    ),
    row(
        "com.fudosecurity:block_cloning",
        "block_cloning",
        "R",
        NONE,
        "Files can share blocks",
    ),
    row(
        "com.klarasystems:vdev_zaps_v2",
        "vdev_zaps_v2",
        "M",
        NONE,
        "The root device has properties",
    ),
    row(
        "com.delphix:redaction_list_spill",
        "redaction_list_spill",
        "",
        &["com.delphix:redaction_bookmarks"],
        "Redaction against more snapshots",
    ),
    row(
        "org.openzfs:raidz_expansion",
        "raidz_expansion",
        "M",
        NONE,
        "Devices can be attached to raidz",
    ),
    row(
        "com.klarasystems:fast_dedup",
        "fast_dedup",
        "R",
        NONE,
        "Faster dedup tables",
    ),
    row(
        "org.zfsonlinux:longname",
        "longname",
        "D",
        EXT,
        "File names up to 1023 bytes",
    ),
    row(
        "com.klarasystems:large_microzap",
        "large_microzap",
        "RD",
        &[EXTENSIBLE, "org.open-zfs:large_blocks"],
        "Directories of one block may exceed 128 KiB",
    ),
    row(
        "com.klarasystems:dynamic_gang_header",
        "dynamic_gang_header",
        "M",
        NONE,
        "Gang headers larger than 512 bytes",
    ),
    row(
        "com.truenas:block_cloning_endian",
        "block_cloning_endian",
        "R",
        NONE,
        "Clone tables are independent of byte order",
    ),
    row(
        "com.truenas:physical_rewrite",
        "physical_rewrite",
        "RD",
        EXT,
        "Rewritten blocks keep their logical birth",
    ),
    row(
        "com.seagate:draid_failure_domains",
        "draid_failure_domains",
        "MX",
        &["org.openzfs:draid"],
        "Draid spreads rows over failure domains",
    ),
];

/// The feature with this guid, if it is known.
pub fn by_guid(guid: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|feature| feature.guid == guid)
}

/// The feature with this short name, if it is known.
pub fn by_name(name: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|feature| feature.name == name)
}

/// Whether this software can read a pool where the feature with this guid is active.
pub fn is_readable(guid: &str) -> bool {
    by_guid(guid).is_some_and(|feature| feature.readable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_consistent() {
        assert_eq!(FEATURES.len(), 48);
        for feature in FEATURES {
            let (_, suffix) = feature.guid.split_once(':').expect("domain:name");
            assert_eq!(suffix, feature.name, "{}", feature.guid);
            for dependency in feature.dependencies {
                assert!(by_guid(dependency).is_some(), "{dependency}");
            }
            let same = FEATURES.iter().filter(|other| other.guid == feature.guid);
            assert_eq!(same.count(), 1, "{} is there twice", feature.guid);
            assert!(feature.description.len() <= 60 && !feature.description.ends_with('.'));
        }
    }

    #[test]
    fn what_is_readable() {
        assert!(is_readable("com.klarasystems:fast_dedup"));
        assert!(!is_readable("com.seagate:draid_failure_domains"));
        assert!(!is_readable("org.example:unknown"));
        let hole_birth = by_name("hole_birth").expect("known");
        assert!(hole_birth.needed_for_mos && hole_birth.active_when_enabled);
        assert!(!hole_birth.read_only_compatible);
        let microzap = by_name("large_microzap").expect("known");
        assert!(microzap.read_only_compatible && microzap.per_dataset);
    }
}
