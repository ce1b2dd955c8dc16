//! All measurements of the daemon: names, kinds, labels and one sentence each.
//!
//! `docs/operations/monitoring.md` has this table, and a test compares them. Names are for ever:
//! dashboards of others are made of them.

use cenote_base::metrics::{Kind, Measure};

macro_rules! measures {
    ($($id:ident = $kind:ident $name:literal [$($label:literal)*] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $id: Measure = Measure {
                name: $name,
                kind: Kind::$kind,
                help: $help,
                labels: &[$($label),*],
            };
        )*

        /// All of them, in the order in which they are described.
        pub static MEASURES: &[&Measure] = &[$(&$id),*];
    };
}

measures! {
    DAEMON_INFO = Gauge "cenote_daemon_info" ["version"]
        "Always 1; the label says which version of the daemon runs.";
    DAEMON_UPTIME = Gauge "cenote_daemon_uptime_seconds" []
        "Seconds since the daemon started.";
    MEMORY_LIMIT = Gauge "cenote_memory_limit_bytes" []
        "Memory that caches and buffers of all pools may use.";
    MEMORY_USED = Gauge "cenote_memory_used_bytes" []
        "Memory that caches and buffers of all pools use.";

    POOL_INFO = Gauge "cenote_pool_info" ["pool" "guid"]
        "Always 1; the labels identify an imported pool.";
    POOL_MISSING = Gauge "cenote_pool_missing" ["pool" "guid"]
        "1 for each pool that should be imported, and is not.";
    POOL_STATE = Gauge "cenote_pool_state" ["pool" "state"]
        "1 for the state that the pool is in, 0 for the others.";
    POOL_READ_ONLY = Gauge "cenote_pool_readonly" ["pool"]
        "1 if the pool is imported read-only.";
    POOL_SIZE = Gauge "cenote_pool_size_bytes" ["pool"]
        "Size of the pool as zpool list shows it.";
    POOL_ALLOCATED = Gauge "cenote_pool_allocated_bytes" ["pool"]
        "Space that is allocated.";
    POOL_FREE = Gauge "cenote_pool_free_bytes" ["pool"]
        "Space that is not allocated.";
    POOL_FREEING = Gauge "cenote_pool_freeing_bytes" ["pool"]
        "Space of destroyed datasets that is still to be freed.";
    POOL_LEAKED = Gauge "cenote_pool_leaked_bytes" ["pool"]
        "Space that could not be freed because of damage.";
    POOL_CHECKPOINT = Gauge "cenote_pool_checkpoint_bytes" ["pool"]
        "Space that only the checkpoint still needs.";
    POOL_FRAGMENTATION = Gauge "cenote_pool_fragmentation_ratio" ["pool"]
        "Fragmentation of the free space, from 0 to 1; absent if it is not known.";
    POOL_DEDUP = Gauge "cenote_pool_deduplication_ratio" ["pool"]
        "Data written for each byte that deduplication left.";
    POOL_DATA_ERRORS = Gauge "cenote_pool_data_errors" ["pool"]
        "Entries of the error log: damaged blocks.";
    POOL_TXG = Gauge "cenote_pool_txg" ["pool"]
        "Number of the last transaction group on disk.";
    POOL_BLOCKS_READ = Counter "cenote_pool_blocks_read_total" ["pool"]
        "Blocks that were read from devices because they were not in memory.";
    POOL_BLOCK_BYTES_READ = Counter "cenote_pool_block_bytes_read_total" ["pool"]
        "Stored bytes of the blocks that were read from devices.";
    POOL_BLOCKS_WRITTEN = Counter "cenote_pool_blocks_written_total" ["pool"]
        "Blocks that were written to devices.";
    POOL_BLOCK_BYTES_WRITTEN = Counter "cenote_pool_block_bytes_written_total" ["pool"]
        "Stored bytes of the blocks that were written, each copy once.";
    POOL_UNREADABLE = Counter "cenote_pool_unreadable_blocks_total" ["pool"]
        "Reads of blocks of which no good copy was found.";

    SCAN_STATE = Gauge "cenote_scan_state" ["pool" "kind" "state"]
        "1 for the state of the last scrub or resilver: running, paused, finished, canceled.";
    SCAN_TOTAL = Gauge "cenote_scan_total_bytes" ["pool" "kind"]
        "Bytes that the scan has to examine.";
    SCAN_EXAMINED = Gauge "cenote_scan_examined_bytes" ["pool" "kind"]
        "Bytes that the scan has examined.";
    SCAN_ISSUED = Gauge "cenote_scan_issued_bytes" ["pool" "kind"]
        "Bytes that the scan has read.";
    SCAN_RATE = Gauge "cenote_scan_rate_bytes_per_second" ["pool" "kind"]
        "Bytes that the scan reads each second; absent unless it runs.";
    SCAN_REPAIRED = Gauge "cenote_scan_repaired_bytes" ["pool" "kind"]
        "Bytes that the scan has repaired or resilvered.";
    SCAN_ERRORS = Gauge "cenote_scan_errors" ["pool" "kind"]
        "Blocks that the scan could not repair.";
    SCAN_START = Gauge "cenote_scan_start_timestamp_seconds" ["pool" "kind"]
        "When the scan began, in seconds since 1970.";
    SCAN_END = Gauge "cenote_scan_end_timestamp_seconds" ["pool" "kind"]
        "When the scan ended, in seconds since 1970; absent while it runs.";

    VDEV_STATE = Gauge "cenote_vdev_state" ["pool" "vdev" "guid" "kind" "state"]
        "Always 1; the label says which state the vdev is in.";
    VDEV_SIZE = Gauge "cenote_vdev_size_bytes" ["pool" "vdev" "guid"]
        "Size of a top-level vdev.";
    VDEV_ALLOCATED = Gauge "cenote_vdev_allocated_bytes" ["pool" "vdev" "guid"]
        "Space that is allocated on a top-level vdev.";
    VDEV_OPERATIONS = Counter "cenote_vdev_operations_total" ["pool" "vdev" "guid" "operation"]
        "Reads and writes. Of a leaf: requests to the device; of other vdevs: blocks.";
    VDEV_BYTES = Counter "cenote_vdev_bytes_total" ["pool" "vdev" "guid" "operation"]
        "Bytes of these reads and writes.";
    VDEV_ERRORS = Counter "cenote_vdev_errors_total" ["pool" "vdev" "guid" "error"]
        "Failed reads and writes, wrong checksums, slow requests. 'zpool clear' resets nothing.";
    VDEV_SELF_HEALED = Counter "cenote_vdev_self_healed_bytes_total" ["pool" "vdev" "guid"]
        "Bytes that were repaired because a reader found them wrong.";
    VDEV_SCAN_REPAIRED = Counter "cenote_vdev_scan_repaired_bytes_total" ["pool" "vdev" "guid"]
        "Bytes that scrubs and resilvers wrote.";
    VDEV_TOTAL_SECONDS = Durations "cenote_vdev_request_seconds" ["pool" "vdev" "guid" "class"]
        "Time of requests to a leaf, from the queue to the end.";
    VDEV_DEVICE_SECONDS = Durations "cenote_vdev_device_seconds" ["pool" "vdev" "guid" "class"]
        "Time that the device took for requests.";
    VDEV_QUEUE_SECONDS = Durations "cenote_vdev_queue_seconds" ["pool" "vdev" "guid" "class"]
        "Time that requests waited in the queue.";
    VDEV_REQUEST_BYTES = Sizes "cenote_vdev_request_bytes" ["pool" "vdev" "guid" "class" "blocks"]
        "Sizes of requests to a leaf: for one block, or for several neighbours.";
    VDEV_QUEUE_DEPTH = Gauge "cenote_vdev_queue_depth" ["pool" "vdev" "guid" "class" "state"]
        "Requests that the device carries out (active) or that wait (pending).";

    DATASET_USED = Gauge "cenote_dataset_used_bytes"
        ["pool" "dataset" "type"]
        "Space that the dataset and everything below it use.";
    DATASET_AVAILABLE = Gauge "cenote_dataset_available_bytes"
        ["pool" "dataset" "type"]
        "Space that is available to the dataset.";
    DATASET_REFERENCED = Gauge "cenote_dataset_referenced_bytes"
        ["pool" "dataset" "type"]
        "Space of the data that can be reached through the dataset.";
    DATASET_WRITTEN = Gauge "cenote_dataset_written_bytes"
        ["pool" "dataset" "type"]
        "Space that was written since the last snapshot.";
    DATASET_LOGICAL_USED = Gauge "cenote_dataset_logical_used_bytes"
        ["pool" "dataset" "type"]
        "Used space before compression.";
    DATASET_LOGICAL_REFERENCED = Gauge "cenote_dataset_logical_referenced_bytes"
        ["pool" "dataset" "type"]
        "Referenced space before compression.";
    DATASET_QUOTA = Gauge "cenote_dataset_quota_bytes"
        ["pool" "dataset" "type"]
        "The property quota; 0 if there is none.";
    DATASET_USED_BY_DATASET = Gauge "cenote_dataset_used_by_dataset_bytes"
        ["pool" "dataset" "type"]
        "Space that the dataset itself uses.";
    DATASET_USED_BY_SNAPSHOTS = Gauge "cenote_dataset_used_by_snapshots_bytes"
        ["pool" "dataset" "type"]
        "Space that its snapshots use.";
    DATASET_USED_BY_CHILDREN = Gauge "cenote_dataset_used_by_children_bytes"
        ["pool" "dataset" "type"]
        "Space that the datasets below it use.";
    DATASET_USED_BY_RESERVATION = Gauge "cenote_dataset_used_by_refreservation_bytes"
        ["pool" "dataset" "type"]
        "Space that its reservation holds.";
    DATASET_COMPRESSION = Gauge "cenote_dataset_compression_ratio"
        ["pool" "dataset" "type"]
        "Bytes before compression for each byte after it.";
    DATASET_CACHE_LOOKUPS = Counter "cenote_dataset_cache_lookups_total"
        ["pool" "dataset" "type" "for" "kind" "outcome"]
        "Lookups by the dataset's readers, as in cenote_arc_lookups_total.";
    DATASET_CACHE_BYTES = Gauge "cenote_dataset_cache_bytes"
        ["pool" "dataset" "type" "kind"]
        "Bytes of cached blocks that the dataset's readers and writers brought.";

    ARC_LIMIT = Gauge "cenote_arc_limit_bytes" ["pool" "part"]
        "Memory that a part of the pool's cache may use.";
    ARC_TARGET = Gauge "cenote_arc_recent_target_bytes" ["pool" "part"]
        "Bytes that the list of blocks seen once should have.";
    ARC_BYTES = Gauge "cenote_arc_bytes" ["pool" "part" "list" "kind"]
        "Bytes of cached blocks; of a ghost list, the size of the blocks that it remembers.";
    ARC_BLOCKS = Gauge "cenote_arc_blocks" ["pool" "part"]
        "Blocks that are cached.";
    ARC_LIST_HITS = Counter "cenote_arc_list_hits_total" ["pool" "part" "list"]
        "Blocks that were found in a list; of a ghost list, blocks that were read again.";
    ARC_EVICTED_BLOCKS = Counter "cenote_arc_evicted_blocks_total" ["pool" "part"]
        "Blocks that were dropped to make room.";
    ARC_EVICTED_BYTES = Counter "cenote_arc_evicted_bytes_total" ["pool" "part"]
        "Bytes of the blocks that were dropped to make room.";
    ARC_LOOKUPS = Counter "cenote_arc_lookups_total" ["pool" "for" "kind" "outcome"]
        "Lookups: hit (in memory), wait (another reader brought it), miss (read from a device).";
    ARC_SEQUENTIAL_READS = Counter "cenote_arc_sequential_reads_total" ["pool" "outcome"]
        "Reads that may be read ahead of: hit (went on where one ended), miss (began elsewhere).";
    ARC_READ_AHEAD = Counter "cenote_arc_read_ahead_blocks_total" ["pool"]
        "Blocks that were read from devices ahead of sequential readers.";

    TXG_DIRTY = Gauge "cenote_txg_dirty_bytes" ["pool"]
        "Bytes of changes that are not on disk yet.";
    TXG_DIRTY_MAX = Gauge "cenote_txg_dirty_max_bytes" ["pool"]
        "Bytes of changes beyond which writers wait.";
    TXG_TRANSACTIONS = Counter "cenote_txg_transactions_total" ["pool"]
        "Transactions that entered a group.";
    TXG_DELAYS = Counter "cenote_txg_delayed_transactions_total" ["pool"]
        "Transactions that were delayed because much was dirty.";
    TXG_DELAY_SECONDS = Counter "cenote_txg_delay_seconds_total" ["pool"]
        "Time for which transactions were delayed.";
    TXG_FULL = Counter "cenote_txg_full_waits_total" ["pool"]
        "Transactions that waited because too much was dirty.";
    TXG_LAST_SYNC = Gauge "cenote_txg_last_sync_seconds" ["pool"]
        "Time that it took to write the last group.";

    LOG_COMMITS = Counter "cenote_log_commits_total" ["pool" "dataset" "by"]
        "Commits (fsync, synchronous writes) served by the intent log or by the transaction group.";
    LOG_BLOCKS = Counter "cenote_log_blocks_total" ["pool" "dataset"]
        "Blocks written to the intent log.";
    LOG_BYTES = Counter "cenote_log_bytes_total" ["pool" "dataset"]
        "Bytes written to the intent log.";
    LOG_FLUSHES = Counter "cenote_log_flushes_total" ["pool" "dataset"]
        "Flushes of devices for the intent log.";
    LOG_FAILURES = Counter "cenote_log_failures_total" ["pool" "dataset"]
        "Writes and flushes of the intent log that failed.";

    MOUNT_REQUESTS = Durations "cenote_mount_request_seconds" ["pool" "dataset" "operation"]
        "Requests of the kernel to a mount, and the time that they took.";
    MOUNT_ERRORS = Counter "cenote_mount_errors_total" ["pool" "dataset"]
        "Requests that were answered with an error, a missing name included.";
    MOUNT_READ = Counter "cenote_mount_read_bytes_total" ["pool" "dataset"]
        "Bytes of files that programs read through a mount.";
    MOUNT_WRITTEN = Counter "cenote_mount_written_bytes_total" ["pool" "dataset"]
        "Bytes that programs wrote through a mount.";

    NBD_CLIENTS = Gauge "cenote_nbd_clients" ["server" "export"]
        "Connected clients of served volumes.";
    NBD_REQUESTS = Gauge "cenote_nbd_requests" ["server" "export"]
        "Requests of the connected clients; falls when one leaves.";
    NBD_READ = Gauge "cenote_nbd_read_bytes" ["server" "export"]
        "Bytes that the connected clients read.";
    NBD_WRITTEN = Gauge "cenote_nbd_written_bytes" ["server" "export"]
        "Bytes that the connected clients wrote.";

    DISK_OPEN = Gauge "cenote_disk_open" ["device" "dataset"]
        "Whether a disk of this machine (ublk) is open: 1 or 0.";
    DISK_REQUESTS = Counter "cenote_disk_requests_total" ["device" "dataset"]
        "Requests of the kernel to a disk of this machine.";
    DISK_READ = Counter "cenote_disk_read_bytes_total" ["device" "dataset"]
        "Bytes that were read from a disk of this machine.";
    DISK_WRITTEN = Counter "cenote_disk_written_bytes_total" ["device" "dataset"]
        "Bytes that were written to a disk of this machine.";

    HTTP_CONNECTIONS = Gauge "cenote_http_connections" ["server"]
        "Connections to a server of sites.";
    HTTP_REQUESTS = Counter "cenote_http_requests_total" ["server"]
        "Requests that a server of sites answered.";
    HTTP_FROM_MEMORY = Counter "cenote_http_from_memory_total" ["server"]
        "Requests that were answered at once: no thread waited for the storage.";
    HTTP_SENT = Counter "cenote_http_sent_bytes_total" ["server"]
        "Bytes of bodies that a server of sites sent.";
    HTTP_REFUSED = Counter "cenote_http_refused_total" ["server"]
        "Connections and requests that limits refused.";
    HTTP_UNLOGGED = Counter "cenote_http_unlogged_total" ["server"]
        "Lines of the access log that were dropped because the disk was too slow.";
    HTTP_SITE_READS = Counter "cenote_http_site_reads_total" ["server" "site" "dataset"]
        "Reads of the contents of a site's files.";
    HTTP_SITE_SENT = Counter "cenote_http_site_sent_bytes_total" ["server" "site" "dataset"]
        "Bytes of a site's files that were sent.";
    HTTP_SITE_READ = Counter "cenote_http_site_read_bytes_total" ["server" "site" "dataset"]
        "Bytes of blocks that were read from devices for a site, or ahead of its reads.";
    HTTP_SITE_OPEN = Gauge "cenote_http_site_open_files" ["server" "site" "dataset"]
        "Files of a site that are being sent.";
    HTTP_SITE_UP = Gauge "cenote_http_site_up" ["server" "site" "dataset"]
        "1 if the site shows a state of its dataset, 0 if it cannot.";
    HTTP_SITE_MADE = Gauge "cenote_http_site_snapshot_seconds" ["server" "site" "dataset"]
        "When the snapshot that a site shows was made, in seconds since 1970.";

    STORE_REQUESTS = Counter "cenote_store_requests_total" ["pool" "store" "kind"]
        "Requests to an object store, repetitions included.";
    STORE_FAILURES = Counter "cenote_store_failures_total" ["pool" "store" "kind" "reason"]
        "Requests that failed: transient (they are repeated), denied, or failed.";
    STORE_SENT = Counter "cenote_store_sent_bytes_total" ["pool" "store" "kind"]
        "Bytes that were sent to the store.";
    STORE_RECEIVED = Counter "cenote_store_received_bytes_total" ["pool" "store" "kind"]
        "Bytes that came from the store.";
    STORE_PENDING = Gauge "cenote_store_pending_bytes" ["pool" "store"]
        "Bytes that are not in the store yet.";
    STORE_LOG_USED = Gauge "cenote_store_log_used_bytes" ["pool" "store"]
        "Bytes of the local log in use.";
    STORE_LOG_SIZE = Gauge "cenote_store_log_size_bytes" ["pool" "store"]
        "Size of the local log.";
    STORE_UNREACHABLE = Gauge "cenote_store_unreachable_seconds" ["pool" "store"]
        "For how long the store has not answered; 0 while it does.";
    STORE_DAMAGED = Gauge "cenote_store_damaged_objects" ["pool" "store"]
        "Objects that were found damaged.";

    PROCESS_CPU = Counter "process_cpu_seconds_total" []
        "Processor time that the daemon used.";
    PROCESS_RESIDENT = Gauge "process_resident_memory_bytes" []
        "Memory of the daemon that is resident.";
    PROCESS_VIRTUAL = Gauge "process_virtual_memory_bytes" []
        "Address space of the daemon.";
    PROCESS_THREADS = Gauge "process_threads" []
        "Threads of the daemon.";
    PROCESS_FILES = Gauge "process_open_fds" []
        "Files that the daemon has open.";
    PROCESS_START = Gauge "process_start_time_seconds" []
        "When the daemon started, in seconds since 1970.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// What `promtool check metrics` asks for, beside what a type system can.
    #[test]
    fn names_and_labels_are_as_prometheus_wants_them() {
        let mut names = HashSet::new();
        for measure in MEASURES {
            let name = measure.name;
            assert!(names.insert(name), "{name} is there twice");
            assert_eq!(
                name.ends_with("_total"),
                measure.kind == Kind::Counter,
                "{name}"
            );
            assert!(
                measure.help.ends_with('.') && !measure.help.contains('\n'),
                "{name}"
            );
            let is_word = |word: &str| {
                let mut bytes = word.bytes();
                bytes.all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            };
            assert!(is_word(name) && measure.labels.iter().all(|label| is_word(label)));
            match measure.kind {
                Kind::Durations => assert!(name.ends_with("_seconds"), "{name}"),
                Kind::Sizes => assert!(name.ends_with("_bytes"), "{name}"),
                Kind::Counter | Kind::Gauge => {}
            }
        }
    }
}
