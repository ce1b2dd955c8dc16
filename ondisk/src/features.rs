//! Feature flags: what a pool of version 5000 may use, and what this software can read.
//!
//! Source: format/1b 2 and 3. A pool keeps two ZAPs from a feature's guid to a count of its
//! uses: `features_for_read` (without knowing these, do not open the pool) and
//! `features_for_write` (without knowing these, open it read-only). 0 means enabled and not in
//! use. The features needed to read the MOS itself are also named in the labels.

/// The version with feature flags, to which all later pools keep.
pub const FEATURE_VERSION: u64 = 5000;
/// Versions of pools from before features.
pub const OLD_VERSIONS: std::ops::RangeInclusive<u64> = 1..=28;

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

/// The guids, which is how the rest of the code calls a feature.
mod guids {
    #![expect(missing_docs, reason = "each is named as its feature")]
    pub const ASYNC_DESTROY: &str = "com.delphix:async_destroy";
    pub const EMPTY_BPOBJ: &str = "com.delphix:empty_bpobj";
    pub const LZ4_COMPRESS: &str = "org.illumos:lz4_compress";
    pub const MULTI_VDEV_CRASH_DUMP: &str = "com.joyent:multi_vdev_crash_dump";
    pub const SPACEMAP_HISTOGRAM: &str = "com.delphix:spacemap_histogram";
    pub const ENABLED_TXG: &str = "com.delphix:enabled_txg";
    pub const HOLE_BIRTH: &str = "com.delphix:hole_birth";
    pub const EXTENSIBLE_DATASET: &str = "com.delphix:extensible_dataset";
    pub const EMBEDDED_DATA: &str = "com.delphix:embedded_data";
    pub const BOOKMARKS: &str = "com.delphix:bookmarks";
    pub const FILESYSTEM_LIMITS: &str = "com.joyent:filesystem_limits";
    pub const LARGE_BLOCKS: &str = "org.open-zfs:large_blocks";
    pub const LARGE_DNODE: &str = "org.zfsonlinux:large_dnode";
    pub const SHA512: &str = "org.illumos:sha512";
    pub const SKEIN: &str = "org.illumos:skein";
    pub const EDONR: &str = "org.illumos:edonr";
    pub const BLAKE3: &str = "org.openzfs:blake3";
    pub const USEROBJ_ACCOUNTING: &str = "org.zfsonlinux:userobj_accounting";
    pub const ENCRYPTION: &str = "com.datto:encryption";
    pub const PROJECT_QUOTA: &str = "org.zfsonlinux:project_quota";
    pub const DEVICE_REMOVAL: &str = "com.delphix:device_removal";
    pub const OBSOLETE_COUNTS: &str = "com.delphix:obsolete_counts";
    pub const ZPOOL_CHECKPOINT: &str = "com.delphix:zpool_checkpoint";
    pub const SPACEMAP_V2: &str = "com.delphix:spacemap_v2";
    pub const ALLOCATION_CLASSES: &str = "org.zfsonlinux:allocation_classes";
    pub const RESILVER_DEFER: &str = "com.datto:resilver_defer";
    pub const BOOKMARK_V2: &str = "com.datto:bookmark_v2";
    pub const REDACTION_BOOKMARKS: &str = "com.delphix:redaction_bookmarks";
    pub const REDACTED_DATASETS: &str = "com.delphix:redacted_datasets";
    pub const BOOKMARK_WRITTEN: &str = "com.delphix:bookmark_written";
    pub const LOG_SPACEMAP: &str = "com.delphix:log_spacemap";
    pub const LIVELIST: &str = "com.delphix:livelist";
    pub const DEVICE_REBUILD: &str = "org.openzfs:device_rebuild";
    pub const ZSTD_COMPRESS: &str = "org.freebsd:zstd_compress";
    pub const DRAID: &str = "org.openzfs:draid";
    pub const ZILSAXATTR: &str = "org.openzfs:zilsaxattr";
    pub const HEAD_ERRLOG: &str = "com.delphix:head_errlog";
    pub const BLOCK_CLONING: &str = "com.fudosecurity:block_cloning";
    pub const VDEV_ZAPS_V2: &str = "com.klarasystems:vdev_zaps_v2";
    pub const REDACTION_LIST_SPILL: &str = "com.delphix:redaction_list_spill";
    pub const RAIDZ_EXPANSION: &str = "org.openzfs:raidz_expansion";
    pub const FAST_DEDUP: &str = "com.klarasystems:fast_dedup";
    pub const LONGNAME: &str = "org.zfsonlinux:longname";
    pub const LARGE_MICROZAP: &str = "com.klarasystems:large_microzap";
    pub const DYNAMIC_GANG_HEADER: &str = "com.klarasystems:dynamic_gang_header";
    pub const BLOCK_CLONING_ENDIAN: &str = "com.truenas:block_cloning_endian";
    pub const PHYSICAL_REWRITE: &str = "com.truenas:physical_rewrite";
    pub const DRAID_FAILURE_DOMAINS: &str = "com.seagate:draid_failure_domains";
}

pub use guids::*;

const NONE: &[&str] = &[];
const EXT: &[&str] = &[EXTENSIBLE_DATASET];
const BOOKMARK_PARENTS: &[&str] = &[BOOKMARK_V2, EXTENSIBLE_DATASET, BOOKMARKS];

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
        ASYNC_DESTROY,
        "async_destroy",
        "R",
        NONE,
        "Destroys file systems in the background",
    ),
    row(
        EMPTY_BPOBJ,
        "empty_bpobj",
        "R",
        NONE,
        "Snapshots share one empty list of dead blocks",
    ),
    row(LZ4_COMPRESS, "lz4_compress", "A", NONE, "LZ4 compression"),
    row(
        MULTI_VDEV_CRASH_DUMP,
        "multi_vdev_crash_dump",
        "",
        NONE,
        "Crash dumps to pools of several devices",
    ),
    row(
        SPACEMAP_HISTOGRAM,
        "spacemap_histogram",
        "R",
        NONE,
        "Space maps keep histograms of free space",
    ),
    row(
        ENABLED_TXG,
        "enabled_txg",
        "R",
        NONE,
        "Records when features were enabled",
    ),
    row(
        HOLE_BIRTH,
        "hole_birth",
        "MA",
        &[ENABLED_TXG],
        "Holes keep their birth txg for faster sends",
    ),
    row(
        EXTENSIBLE_DATASET,
        "extensible_dataset",
        "",
        NONE,
        "Datasets can carry further fields",
    ),
    row(
        EMBEDDED_DATA,
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
        FILESYSTEM_LIMITS,
        "filesystem_limits",
        "R",
        EXT,
        "Limits on the number of file systems and snapshots",
    ),
    row(
        LARGE_BLOCKS,
        "large_blocks",
        "D",
        EXT,
        "Blocks larger than 128 KiB",
    ),
    row(
        LARGE_DNODE,
        "large_dnode",
        "D",
        EXT,
        "Dnodes larger than 512 bytes",
    ),
    row(SHA512, "sha512", "D", EXT, "SHA-512/256 checksums"),
    row(SKEIN, "skein", "D", EXT, "Skein checksums"),
    row(EDONR, "edonr", "D", EXT, "Edon-R checksums"),
    row(BLAKE3, "blake3", "D", EXT, "BLAKE3 checksums"),
    row(
        USEROBJ_ACCOUNTING,
        "userobj_accounting",
        "RD",
        EXT,
        "Objects are counted by user and group",
    ),
    row(
        ENCRYPTION,
        "encryption",
        "D",
        &[EXTENSIBLE_DATASET, BOOKMARK_V2],
        "Encryption of datasets",
    ),
    row(
        PROJECT_QUOTA,
        "project_quota",
        "RD",
        EXT,
        "Space and objects are counted by project",
    ),
    row(
        DEVICE_REMOVAL,
        "device_removal",
        "M",
        NONE,
        "Top-level devices can be removed",
    ),
    row(
        OBSOLETE_COUNTS,
        "obsolete_counts",
        "R",
        &[EXTENSIBLE_DATASET, DEVICE_REMOVAL],
        "Keeps memory small after a device was removed",
    ),
    row(
        ZPOOL_CHECKPOINT,
        "zpool_checkpoint",
        "R",
        NONE,
        "Checkpoints of the whole pool",
    ),
    row(
        SPACEMAP_V2,
        "spacemap_v2",
        "RA",
        NONE,
        "Space map entries for large runs",
    ),
    row(
        ALLOCATION_CLASSES,
        "allocation_classes",
        "R",
        NONE,
        "Devices for metadata, small blocks and dedup tables",
    ),
    row(
        RESILVER_DEFER,
        "resilver_defer",
        "R",
        NONE,
        "Resilvers wait for the current one to end",
    ),
    row(
        BOOKMARK_V2,
        "bookmark_v2",
        "",
        &[EXTENSIBLE_DATASET, BOOKMARKS],
        "Larger bookmarks",
    ),
    row(
        REDACTION_BOOKMARKS,
        "redaction_bookmarks",
        "",
        BOOKMARK_PARENTS,
        "Bookmarks that keep what to redact from sends",
    ),
    row(
        REDACTED_DATASETS,
        "redacted_datasets",
        "D",
        EXT,
        "Datasets received from redacted sends",
    ),
    row(
        BOOKMARK_WRITTEN,
        "bookmark_written",
        "",
        BOOKMARK_PARENTS,
        "Bookmarks know the space written since: written#bookmark",
    ),
    row(
        LOG_SPACEMAP,
        "log_spacemap",
        "R",
        &[SPACEMAP_V2],
        "Changes of free space are logged for the whole pool",
    ),
    row(
        LIVELIST,
        "livelist",
        "R",
        EXT,
        "Clones are destroyed faster",
    ),
    row(
        DEVICE_REBUILD,
        "device_rebuild",
        "R",
        NONE,
        "Mirrors and draid can be rebuilt sequentially",
    ),
    row(
        ZSTD_COMPRESS,
        "zstd_compress",
        "D",
        EXT,
        "Zstandard compression",
    ),
    row(DRAID, "draid", "M", NONE, "Parity with distributed spares"),
    row(
        ZILSAXATTR,
        "zilsaxattr",
        "RD",
        EXT,
        "Extended attributes are in the intent log",
    ),
    row(
        HEAD_ERRLOG,
        "head_errlog",
        "A",
        NONE,
        "The error log is by dataset",
    ),
    row(
        BLOCK_CLONING,
        "block_cloning",
        "R",
        NONE,
        "Files can share blocks",
    ),
    row(
        VDEV_ZAPS_V2,
        "vdev_zaps_v2",
        "M",
        NONE,
        "The root device has properties",
    ),
    row(
        REDACTION_LIST_SPILL,
        "redaction_list_spill",
        "",
        &[REDACTION_BOOKMARKS],
        "Redaction against more snapshots",
    ),
    row(
        RAIDZ_EXPANSION,
        "raidz_expansion",
        "M",
        NONE,
        "Devices can be attached to raidz",
    ),
    row(FAST_DEDUP, "fast_dedup", "R", NONE, "Faster dedup tables"),
    row(
        LONGNAME,
        "longname",
        "D",
        EXT,
        "File names up to 1023 bytes",
    ),
    row(
        LARGE_MICROZAP,
        "large_microzap",
        "RD",
        &[EXTENSIBLE_DATASET, LARGE_BLOCKS],
        "Directories of one block may exceed 128 KiB",
    ),
    row(
        DYNAMIC_GANG_HEADER,
        "dynamic_gang_header",
        "M",
        NONE,
        "Gang headers larger than 512 bytes",
    ),
    row(
        BLOCK_CLONING_ENDIAN,
        "block_cloning_endian",
        "R",
        NONE,
        "Clone tables are independent of byte order",
    ),
    row(
        PHYSICAL_REWRITE,
        "physical_rewrite",
        "RD",
        EXT,
        "Rewritten blocks keep their logical birth",
    ),
    row(
        DRAID_FAILURE_DOMAINS,
        "draid_failure_domains",
        "MX",
        &[DRAID],
        "Draid spreads rows over failure domains",
    ),
];

/// Features that came after OpenZFS 2.3.
pub const AFTER_2_3: [&str; 4] = [
    DYNAMIC_GANG_HEADER,
    BLOCK_CLONING_ENDIAN,
    PHYSICAL_REWRITE,
    DRAID_FAILURE_DOMAINS,
];

/// The features that a new pool has: all of OpenZFS 2.3.
pub fn default_features() -> Vec<&'static Feature> {
    let is_old = |feature: &&Feature| !AFTER_2_3.contains(&feature.guid);
    FEATURES.iter().filter(is_old).collect()
}

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
