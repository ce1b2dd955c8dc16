//! The settings that have an effect.
//!
//! Each is a static, which the code that obeys it reads. The numbers in brackets are default, least
//! and most. Limits of requests of one class never let it starve: none is below one.

use super::Setting;
use super::Unit::{Bytes, Count, Milliseconds, Nanoseconds, Percent, Seconds, Shift, Switch};

macro_rules! settings {
    ($($place:ident = $name:literal, $unit:ident, $range:expr, $effect:literal;)*) => {
        $(
            #[doc = $effect]
            pub static $place: Setting = Setting::new($name, $unit, $range, $effect);
        )*

        /// All settings that have an effect.
        pub static TABLE: &[&Setting] = &[$(&$place),*];
    };
}

/// The largest number of a setting that is a 32-bit number in OpenZFS.
const WORD: u64 = u32::MAX as u64;
/// More bytes than any machine has.
const BYTES: u64 = 1 << 60;
/// More requests than any device takes at once.
const QUEUE: u64 = 1 << 16;

settings! {
    ARC_MAX = "zfs_arc_max", Bytes, [0, 0, BYTES],
        "Bytes that the caches of all pools have at most; 0 is what the daemon's memory limit \
         leaves to them, and three quarters of the memory are the most. Holds at once; a limit \
         given to the daemon is never exceeded.";
    ARC_MIN = "zfs_arc_min", Bytes, [0, 0, BYTES],
        "Bytes that the caches keep when memory runs short; 0 is a sixteenth of their most. Three \
         quarters of the memory are the most, and never more than the caches have without it.";
    ARC_SYS_FREE = "zfs_arc_sys_free", Bytes, [0, 0, BYTES],
        "While fewer bytes of the machine's memory are available, the caches shrink; 0 is a \
         thirty-second of it, and all of it is the most.";
    ARC_SHRINK_SHIFT = "zfs_arc_shrink_shift", Shift, [2, 1, 20],
        "Each second that memory is short, the caches give back this power of two's part.";
    ARC_LOTSFREE_PERCENT = "zfs_arc_lotsfree_percent", Percent, [10, 0, 100],
        "While a smaller share of the machine's memory is available, only a quarter of \
         zfs_dirty_data_max may be dirty; 0 for never.";
    PREFETCH_DISABLE = "zfs_prefetch_disable", Switch, [0, 0, 1],
        "1: nothing is read ahead of readers that go forward.";
    FETCH_STREAMS_MAX = "zfetch_max_streams", Count, [16, 1, 1024],
        "Readers going forward that are remembered for each dataset.";
    FETCH_DISTANCE_MIN = "zfetch_min_distance", Bytes, [256 << 10, 4 << 10, 1 << 30],
        "Bytes read ahead of a reader that has just begun to go forward.";
    FETCH_DISTANCE_MAX = "zfetch_max_distance", Bytes, [16 << 20, 4 << 10, 1 << 30],
        "Bytes read ahead of a reader at most.";
    TXG_TIMEOUT = "zfs_txg_timeout", Seconds, [5, 1, WORD],
        "Changes are collected for so long before they are written together.";
    DIRTY_AGE_MAX = "cenote_dirty_age_max", Milliseconds, [1000, 0, 3_600_000],
        "Changes are written after so long if the group is small or writes have stopped: the \
         kernel does not pass sync(2) on. Small changes in a large group go to the intent log \
         about then. 0 turns both off; so does a zfs_txg_timeout above 5.";
    DIRTY_DATA_MAX = "zfs_dirty_data_max", Bytes, [0, 0, BYTES],
        "Bytes of changes that a pool has in memory at most; beyond them writers wait. 0 is \
         zfs_dirty_data_max_percent of the memory. Never less than 16 MiB, nor more than three \
         quarters of the memory.";
    DIRTY_DATA_MAX_PERCENT = "zfs_dirty_data_max_percent", Percent, [10, 1, 100],
        "Share of the memory that zfs_dirty_data_max is unless it is set.";
    DIRTY_DATA_MAX_MAX = "zfs_dirty_data_max_max", Bytes, [0, 0, BYTES],
        "What zfs_dirty_data_max is at most when it follows the memory; 0 is \
         zfs_dirty_data_max_max_percent of the memory, at most 4 GiB.";
    DIRTY_DATA_MAX_MAX_PERCENT = "zfs_dirty_data_max_max_percent", Percent, [25, 1, 100],
        "Share of the memory that zfs_dirty_data_max_max is unless it is set.";
    DIRTY_DATA_SYNC_PERCENT = "zfs_dirty_data_sync_percent", Percent, [20, 1, 99],
        "Share of zfs_dirty_data_max at which a transaction group is written before its time, \
         which it is with 64 MiB of contents of files in any case.";
    DELAY_MIN_DIRTY_PERCENT = "zfs_delay_min_dirty_percent", Percent, [60, 0, 100],
        "Share of zfs_dirty_data_max from which writers are delayed.";
    DELAY_SCALE = "zfs_delay_scale", Nanoseconds, [500_000, 1, 100_000_000],
        "Time between transactions when half of the range in which they are delayed is used; \
         it grows without bound towards the end of the range, to 100 ms.";
    MULTIHOST_INTERVAL = "zfs_multihost_interval", Milliseconds, [1000, 100, 0xff_ffff],
        "Time between the heartbeats of a pool with multihost=on; its devices take turns.";
    MULTIHOST_FAIL_INTERVALS = "zfs_multihost_fail_intervals", Count, [10, 0, 0xffff],
        "After so many intervals without a heartbeat that could be written the pool is suspended, \
         since another system may import it then; 0 for never.";
    MULTIHOST_IMPORT_INTERVALS = "zfs_multihost_import_intervals", Count, [20, 1, WORD],
        "An import watches a pool with multihost=on for so many intervals, if the system that had \
         it last promised never to suspend it; otherwise twice as long as that would take.";
    HOST_ID = "spl_hostid", Count, [0, 0, WORD],
        "Identifies this system among those that can reach a pool; 0 uses /etc/hostid. Pools \
         that are imported already keep what they have.";
    VDEV_MAX_ACTIVE = "zfs_vdev_max_active", Count, [1000, 1, QUEUE],
        "Requests of all classes that a device has at once at most.";
    SYNC_READ_MIN_ACTIVE = "zfs_vdev_sync_read_min_active", Count, [10, 1, QUEUE],
        "Reads that a caller waits for: so many go before other classes' surplus.";
    SYNC_READ_MAX_ACTIVE = "zfs_vdev_sync_read_max_active", Count, [10, 1, QUEUE],
        "Reads that a caller waits for: so many at once at most.";
    SYNC_WRITE_MIN_ACTIVE = "zfs_vdev_sync_write_min_active", Count, [10, 1, QUEUE],
        "Writes that a caller waits for: so many go before other classes' surplus.";
    SYNC_WRITE_MAX_ACTIVE = "zfs_vdev_sync_write_max_active", Count, [10, 1, QUEUE],
        "Writes that a caller waits for: so many at once at most.";
    ASYNC_READ_MIN_ACTIVE = "zfs_vdev_async_read_min_active", Count, [1, 1, QUEUE],
        "Reads ahead of need: so many go before other classes' surplus.";
    ASYNC_READ_MAX_ACTIVE = "zfs_vdev_async_read_max_active", Count, [3, 1, QUEUE],
        "Reads ahead of need: so many at once at most.";
    ASYNC_WRITE_MIN_ACTIVE = "zfs_vdev_async_write_min_active", Count, [2, 1, QUEUE],
        "Writes of transaction groups: so many go before other classes' surplus, and so many at \
         once while little is dirty.";
    ASYNC_WRITE_MAX_ACTIVE = "zfs_vdev_async_write_max_active", Count, [10, 1, QUEUE],
        "Writes of transaction groups: so many at once at most.";
    REBUILD_SCRUB = "zfs_rebuild_scrub_enabled", Switch, [1, 0, 1],
        "1: a scrub follows a sequential rebuild, which verifies nothing.";
    SCRUB_MIN_ACTIVE = "zfs_vdev_scrub_min_active", Count, [1, 1, QUEUE],
        "Reads that verify: so many go before other classes' surplus.";
    SCRUB_MAX_ACTIVE = "zfs_vdev_scrub_max_active", Count, [3, 1, QUEUE],
        "Reads that verify: so many at once at most.";
    LUA_MAX_INSTRUCTIONS = "zfs_lua_max_instrlimit", Count, [100_000_000, 1, 100_000_000_000],
        "Instructions that a channel program may be given (zfs program -t).";
    LUA_MAX_MEMORY = "zfs_lua_max_memlimit", Bytes, [100 << 20, 1, 1 << 30],
        "Bytes of memory that a channel program may be given (zfs program -m).";
    SCAN_SUSPEND_PROGRESS = "zfs_scan_suspend_progress", Switch, [0, 0, 1],
        "1: scrubs and resilvers stay where they are, until it is 0 again.";
    TRIM_MIN_ACTIVE = "zfs_vdev_trim_min_active", Count, [1, 1, QUEUE],
        "Discards of free space: so many go before other classes' surplus.";
    TRIM_MAX_ACTIVE = "zfs_vdev_trim_max_active", Count, [2, 1, QUEUE],
        "Discards of free space: so many at once at most.";
    INITIALIZING_MIN_ACTIVE = "zfs_vdev_initializing_min_active", Count, [1, 1, QUEUE],
        "Writes that initialize free space: so many go before other classes' surplus.";
    INITIALIZING_MAX_ACTIVE = "zfs_vdev_initializing_max_active", Count, [1, 1, QUEUE],
        "Writes that initialize free space: so many at once at most.";
    ASYNC_WRITE_MIN_DIRTY_PERCENT = "zfs_vdev_async_write_active_min_dirty_percent", Percent,
        [30, 0, 100],
        "Up to this share of zfs_dirty_data_max, zfs_vdev_async_write_min_active holds, unless \
         a caller waits for the transaction group.";
    ASYNC_WRITE_MAX_DIRTY_PERCENT = "zfs_vdev_async_write_active_max_dirty_percent", Percent,
        [60, 0, 100],
        "From this share of zfs_dirty_data_max on, zfs_vdev_async_write_max_active holds; \
         between the two shares the limit grows evenly.";
    AGGREGATION_LIMIT = "zfs_vdev_aggregation_limit", Bytes, [1 << 20, 0, 16 << 20],
        "Neighbouring writes to a device are joined up to so many bytes, neighbouring reads up \
         to four times as many; 0 joins none.";
    READ_GAP_LIMIT = "zfs_vdev_read_gap_limit", Bytes, [64 << 10, 0, 1 << 20],
        "Reads are joined over gaps of up to so many bytes.";
    AUTO_ASHIFT_MIN = "zfs_vdev_min_auto_ashift", Shift, [9, 9, 16],
        "The least ashift that a new vdev gets when none is given.";
    AUTO_ASHIFT_MAX = "zfs_vdev_max_auto_ashift", Shift, [14, 9, 16],
        "What is believed of a device at most when none is given: some claim nonsense.";
    METASLAB_COUNT_DEFAULT = "zfs_vdev_default_ms_count", Count, [200, 16, 1 << 17],
        "A new vdev has about so many metaslabs, if neither the sizes nor the other counts \
         forbid that.";
    METASLAB_SHIFT_DEFAULT = "zfs_vdev_default_ms_shift", Shift, [29, 24, 34],
        "The least size of metaslabs, as a power of two, on new vdevs that have enough of them.";
    METASLAB_SHIFT_MAX = "zfs_vdev_max_ms_shift", Shift, [34, 24, 44],
        "The most size of metaslabs, as a power of two, unless that makes too many.";
    METASLAB_COUNT_MIN = "zfs_vdev_min_ms_count", Count, [16, 1, 1 << 17],
        "A new vdev has at least so many metaslabs.";
    METASLAB_COUNT_LIMIT = "zfs_vdev_ms_count_limit", Count, [131_072, 16, 1 << 20],
        "A new vdev has at most so many metaslabs.";
    METASLAB_ALIQUOT = "metaslab_aliquot", Bytes, [1 << 20, 4 << 10, 1 << 30],
        "Bytes put on a vdev, for each of its children, before the next one's turn.";
    SLOP_SHIFT = "spa_slop_shift", Shift, [5, 1, 31],
        "A pool keeps back one part in this power of two, so that something can always be freed.";
    ASYNC_FREE_BLOCKS_MAX = "zfs_async_block_max_blocks", Count, [100_000, 1, WORD],
        "Blocks of destroyed datasets that a transaction group frees at most.";
    FREE_LEAK = "zfs_free_leak_on_eio", Switch, [0, 0, 1],
        "1: what cannot be read of a destroyed dataset is given up, with the space below it, and \
         the rest is freed; 0: freeing waits there until the next import, for all datasets.";
    LIVELIST_MAX_ENTRIES = "zfs_livelist_max_entries", Count, [500_000, 1, WORD],
        "Blocks of a clone's own in a part of its livelist, beyond which a new part begins, and a \
         part is shortened that has more entries than that.";
    LIVELIST_MIN_PERCENT_SHARED = "zfs_livelist_min_percent_shared", Percent, [75, 0, 100],
        "A clone that shares no more than this with its origin keeps no livelist.";
    ADMIN_SNAPSHOT = "zfs_admin_snapshot", Switch, [1, 0, 1],
        "1: mkdir, rmdir and mv in .zfs/snapshot make, destroy and rename snapshots. (OpenZFS's \
         default is 0.)";
    TRIM_EXTENT_MAX = "zfs_trim_extent_bytes_max", Bytes, [128 << 20, 1 << 20, 1 << 30],
        "Bytes of a vdev's free space that are discarded at a time at most.";
    TRIM_EXTENT_MIN = "zfs_trim_extent_bytes_min", Bytes, [32 << 10, 0, 1 << 30],
        "Smaller ranges of free space are not discarded.";
    INITIALIZE_CHUNK_SIZE = "zfs_initialize_chunk_size", Bytes, [4 << 20, 512, 64 << 20],
        "Bytes of a device's free space that are initialized at a time at most, in whole sectors.";
    INITIALIZE_VALUE = "zfs_initialize_value", Count, [0xdead_beef_dead_beee, 0, u64::MAX],
        "The word that initializing fills free space with.";
    CLONE_ENABLED = "zfs_bclone_enabled", Switch, [1, 0, 1],
        "0: copies of ranges of files never share blocks.";
    CLONE_WAIT_DIRTY = "zfs_bclone_wait_dirty", Switch, [1, 0, 1],
        "1: a copy of blocks that are not on disk yet waits until they are, to share them; 0: it \
         copies them.";
    NOP_WRITE_ENABLED = "zfs_nopwrite_enabled", Switch, [1, 0, 1],
        "1: a block that is overwritten with what it holds stays where it is, if it is compressed \
         and its checksum is a cryptographic one.";
    ZIL_BLOCK_SIZE_MAX = "zil_maxblocksize", Bytes, [128 << 10, 4 << 10, 128 << 10],
        "Bytes of a block of an intent log at most, in steps of 4 KiB; a record that needs a \
         larger block gets one.";
    ZIL_COPIED_MAX = "zil_maxcopied", Bytes, [32 << 10, 0, 64 << 10],
        "Bytes of a write that are kept in memory for the intent log; those of a longer write \
         are read again when it is committed. (OpenZFS's default is 7680.)";
    ZIL_NO_CACHE_FLUSH = "zil_nocacheflush", Switch, [0, 0, 1],
        "1: devices are not flushed after writes of intent logs. What fsync promised is then \
         lost in a power cut, unless every device keeps its cache without power.";
    SLOW_IO_MS = "zio_slow_io_ms", Milliseconds, [30_000, 0, WORD],
        "A request to a device that takes longer counts as slow (zpool status -s); 0 counts none.";
    SIT_OUT_SECONDS = "vdev_read_sit_out_secs", Seconds, [600, 1, WORD],
        "For so long a device of raidz or dRAID is not read that was found to be slow (vdev \
         property autosit).";
    SIT_OUT_INSENSITIVITY = "vdev_raidz_outlier_insensitivity", Count, [50, 1, 100_000],
        "A device is slow whose reads take longer than those of most others by so many times \
         what these differ.";
    CHECKSUM_EVENTS = "zfs_checksum_events_per_second", Count, [20, 0, WORD],
        "Failed and damaged requests of a pool that have an event each, in a second; the others \
         are only counted.";
    SLOW_IO_EVENTS = "zfs_slow_io_events_per_second", Count, [20, 0, WORD],
        "Slow requests of a device that have an event each (ereport.fs.zfs.delay), in a second.";
    DEADMAN_ENABLED = "zfs_deadman_enabled", Switch, [1, 0, 1],
        "1: requests to devices and transaction groups that hang are reported as events \
         (ereport.fs.zfs.deadman).";
    DEADMAN_ZIOTIME_MS = "zfs_deadman_ziotime_ms", Milliseconds, [300_000, 1, WORD],
        "A request to a device that takes longer hangs.";
    DEADMAN_SYNCTIME_MS = "zfs_deadman_synctime_ms", Milliseconds, [600_000, 1, WORD],
        "A transaction group that takes longer to write hangs.";
    DEADMAN_CHECKTIME_MS = "zfs_deadman_checktime_ms", Milliseconds, [60_000, 1, WORD],
        "Time between two reports of something that still hangs; at least a second.";
    DEADMAN_EVENTS = "zfs_deadman_events_per_second", Count, [1, 0, WORD],
        "Requests of a device that hung and ended that have an event each, in a second.";
    ZEVENT_LEN_MAX = "zfs_zevent_len_max", Count, [1000, 16, 1_000_000],
        "Events that are kept for zpool events; the oldest are forgotten first. (OpenZFS's \
         default is 512.)";
    CLOUD_LOG_BYTES = "cloud_log_bytes", Bytes, [256 << 20, 16 << 20, BYTES],
        "Bytes of the local log that is made for a device in a store: so much may wait to be \
         uploaded.";
    CLOUD_CACHE_BYTES = "cloud_cache_bytes", Bytes, [1 << 30, 0, BYTES],
        "Bytes on this side that the read cache of a device in a store takes at most; 0 for none. \
         Counts when a cache is made.";
    CLOUD_UPLOAD_RATE = "cloud_upload_rate", Bytes, [0, 0, BYTES],
        "Bytes a second that each device sends to its store at most; 0 for no limit. Counts when \
         a pool is imported.";
    CLOUD_DOWNLOAD_RATE = "cloud_download_rate", Bytes, [0, 0, BYTES],
        "Bytes a second that each device fetches from its store at most; 0 for no limit. Counts \
         when a pool is imported.";
    CLOUD_COMMIT_SECONDS = "cloud_commit_seconds", Seconds, [30, 1, 86_400],
        "What is in the local log of a device in a store waits for company for so long before it \
         is uploaded. Counts when a pool is imported.";
    SALT_USES_MAX = "zfs_key_max_salt_uses", Count, [400_000_000, 1, 400_000_000],
        "Blocks encrypted with keys of one salt before the next salt is drawn.";
    ZSTD_EARLY_ABORT = "zstd_earlyabort_pass", Switch, [1, 0, 1],
        "1: faster compression is tried first, and zstd only if that saved something.";
    ZSTD_CUTOFF_LEVEL = "zstd_cutoff_level", Count, [3, 1, 19],
        "The lowest level of zstd for which faster compression is tried first.";
    ZSTD_ABORT_SIZE = "zstd_abort_size", Bytes, [128 << 10, 512, 16 << 20],
        "The smallest block for which faster compression is tried first.";
}
