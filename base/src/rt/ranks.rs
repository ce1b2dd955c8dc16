//! The order of locks, outermost first.
//!
//! A thread that holds a lock may take only locks that stand further down, so no two threads can
//! wait for each other. Debug builds check it at each lock and panic with both names and both
//! places. A rank has flags:
//!
//! - `nested`: several locks of this rank may be held at once, for example a parent and a child.
//!   The code that takes them says in which order.
//! - `no_io`: no device I/O while it is held; `device` calls [`super::assert_io_allowed`].
//! - `leaf`: nothing is taken or waited for while it is held. Locks in statics are leaves,
//!   because all worlds of a process share them.
//!
//! To place a new lock: run the tests with `CENOTE_LOCK_ORDER=FILE`, which records each pair of
//! locks that a thread held at once, and put the rank below all that were held when it was taken.

use super::rank::{Rank, RankInfo};

macro_rules! ranks {
    ($($owner:ident { $($name:ident [$($flag:ident)*] $guards:literal;)* })*) => {
        #[expect(clippy::enum_variant_names, reason = "they are ranks' names")]
        #[repr(u16)]
        enum Place { $($($name,)*)* }

        $($(
            #[doc = $guards]
            #[derive(Debug)]
            pub enum $name {}

            impl Rank for $name {
                const INFO: &'static RankInfo = &RankInfo {
                    $($flag: true,)*
                    ..RankInfo::new(
                        stringify!($name),
                        stringify!($owner),
                        $guards,
                        Some(Place::$name as u16),
                    )
                };
            }
        )*)*

        /// All ranks, outermost first.
        pub static TABLE: &[&RankInfo] = &[$($(<$name as Rank>::INFO,)*)*];
    };
}

ranks! {
    control {
        ServerIdle [] "When the last client of the control socket left.";
        ServerViewers [] "Requests of each user on the read-only socket.";
    }
    daemon {
        MetricsText [] "The last answer to /metrics, held while the next one is collected.";
        Zedlets [] "Events that wait for zedlets, and how many of these run.";
    }
    engine {
        HeldStores [] "Devices in stores that an import holds.";
        Leaving [] "Held by the thread that exports the pool.";
    }
    fuse {
        FuseInterrupt [] "How to interrupt a worker of a mount.";
        FuseOverdue [] "Requests that take long.";
        FuseTurns [] "Workers that wait for their turn.";
    }
    nbd {
        NbdListeners [] "Threads of listeners, until they have ended.";
        NbdConnections [] "Connections of a server of network block devices.";
        NbdReceive [] "Held by the thread that reads the next request of a connection.";
        NbdSend [] "Held by the thread that sends a reply on a connection.";
        NbdWorkers [] "Workers of a connection.";
    }
    ublk {
        UblkDevice [] "Held by the thread that stops a device of the kernel.";
        UblkWorkers [] "Requests of the kernel that wait for workers.";
        UblkWindow [] "How the data of the kernel's requests is reached.";
        UblkFinished [] "Answers that go to the kernel next.";
    }
    serve {
        DiskGate [] "Requests to a disk of this machine, and its volume.";
        UnflushedWrites [] "Held while a write that is not flushed is kept below /run.";
    }
    daemon {
        DashboardServers [] "Where the dashboard and /metrics are served.";
    }
    http {
        HttpRules [] "Settings of a server of files that may change while it runs.";
        HttpConnections [] "Connections of a server of files.";
        HttpAddresses [] "What clients' addresses did.";
        HttpWaiting [] "Requests that wait for a thread that may wait.";
    }
    fuse {
        FuseSlots [] "Free slots for workers.";
    }
    engine {
        Clouds [] "Devices in stores that are open.";
        MemoryShares [] "Memory divided among pools.";
        MountsElsewhere [] "Mounts that only other mount namespaces have.";
        PoolChecks [] "When pools were last checked.";
        Alarms [] "What alarms were sent about.";
        AlarmQueue [] "Alarms that wait for a way.";
        DaemonRecord [] "The daemon's record on disk.";
        CacheFileName [] "The cache file named at import.";
        DeviceAgent [] "Device events that were answered.";
        MountTurns [] "Datasets that are being mounted.";
        Mounts [] "Mounts of all pools.";
    }
    serve {
        Servers [] "Servers of volumes, or of sites.";
        SiteFollows [] "Held while a server's sites keep up with their datasets.";
        SiteLists [] "Which sites a server has.";
        SiteStates [] "Which tree a site shows.";
        ServedExports [] "What a server of volumes exports because of a command.";
        LocalDisks [] "Disks of this machine.";
        LocalDisk [] "The state of a disk of this machine.";
    }
    daemon {
        MountedSwitches [] "The options that a mount has now.";
    }
    fuse {
        FuseWorkers [] "Workers of a mount.";
    }
    engine {
        PoolChanges [] "What was last seen of a pool.";
        ArrivingPools [] "Names of pools that are being imported or created.";
        Injections [] "Faults that are injected on purpose.";
        Registry [] "The pools of the daemon.";
        OpenHeads [] "Which heads are open for writing.";
        ReplayResults [] "How the last replay of each intent log ended.";
        SeenStores [] "Devices in stores that were examined.";
        SentSnapshots [] "Snapshots that are being sent.";
        Approvals [] "Which values of properties may act on this machine.";
        WaitingValues [] "Values of a pool that wait for a yes.";
        ServedVolumes [] "Clients that have volumes open.";
        SiteTrees [] "Trees that sites have open.";
        VerifyProgress [] "How far a verification is.";
    }
    files {
        Exchanges [] "Files that were open and gone after an exchange.";
        Ghosts [] "Attributes of open files that are gone.";
        HeadTree [] "The head that a mount shows.";
        MountGate [] "Requests of a mount, and the threads that block them.";
        OpenFiles [] "How files are open.";
        SnapshotTrees [] "Snapshots that are open below .zfs.";
    }
    stream {
        SendAhead [] "A group of blocks that is read ahead.";
    }
    posix {
        DirectoryMoves [] "Held by renames of directories: two of them could make a loop.";
        DirectoryViewers [] "The readers of each directory.";
        DirectoryWalks [] "Where readers of directories are.";
        NameIndex [] "The names of the last directory.";
        ObjectLocks [nested] "Files and directories that an operation changes.";
    }
    volume {
        VolumeRanges [nested] "Ranges of a volume that a change writes and logs.";
    }
    engine {
        Ereports [] "How many error reports a vdev made lately.";
    }
    serve {
        SiteHandles [] "Files of sites that clients have open.";
        SiteNames [] "What paths of sites name.";
    }
    posix {
        DeleteQueue [] "Held while the delete queue changes.";
        HeldFiles [] "Files in use beyond their names.";
        NewAttributes [] "Held while attributes or layouts are registered.";
        OwnersInFlight [] "What is in flight for owners that have limits.";
        QuotaTables [] "The tables of quotas.";
        ReplayClock [] "The time of the record that is replayed.";
        ReplayTails [] "Files with bytes behind their end in their last block.";
        StoringTimes [] "Held by the thread that stores access times.";
        ToldToLog [no_io] "Records of an operation that go to the log once it has succeeded.";
        AccessTimes [] "Access times that are not stored yet.";
        AttributeTables [] "Numbers and layouts of attributes.";
        WriteSettings [] "Properties of a file system.";
        ZnodeCache [] "Znodes that are in memory.";
    }
    pool {
        Autotrim [] "Held while autotrim begins or ends.";
        Away [] "The last groups of absent devices.";
        Chronicle [] "Roots of recent groups.";
        DedupTables [] "Dedup tables by checksum.";
        DedupQuota [] "Whether the quota of dedup tables is reached.";
        DeferredFrees [] "Frees that wait for a later group.";
        Heartbeat [] "Held while multihost heartbeats begin or end.";
        MaybeShared [] "Blocks that may have other references.";
        MosExchange [] "Blocks of the meta object set that a pass wrote.";
        MosFailure [] "Why the meta object set could not be written.";
        Obsolete [] "What was freed of removed vdevs.";
        Outsiders [] "Devices with our labels that are not used.";
        FoundDevices [] "Where devices were found.";
        Rebuilds [] "Sequential rebuilds.";
        RepairSpace [] "Blocks that are being repaired.";
        SyncThread [] "The syncing thread.";
        TreatmentCommands [] "Held by a command from the threads that it stops to its own.";
        SyncTask [] "A task that is carried out in a group.";
        SpaceRecorder [] "What a sync notes about space.";
        SpaceConflict [no_io] "The first contradiction in the space maps.";
        ErrorNotes [] "Damaged blocks that are to be noted.";
        LeftDevices [] "Devices that left with the group that is being written.";
        Scans [] "Scrubs and resilvers.";
        SpaceRotors [no_io] "Where allocation goes next.";
        SyncTasks [no_io] "Tasks that wait for a group.";
        SyncTicket [no_io] "How a sync task ended.";
        TreatmentTurns [] "Held with a range, which another leaf must not take for used.";
        SpaceTops [no_io] "The allocators of top-level vdevs.";
        SpaceFigures [no_io] "Figures of space as they were last.";
        TopSpace [nested no_io] "The allocator of a top-level vdev.";
        SpaceCommitted [no_io] "The meta object set that space maps are read from.";
        SpaceFreedTo [no_io] "The receiver of freed ranges of space.";
        SpaceHolds [no_io] "Ranges of space that are held.";
        Treatments [] "Trims and initializations.";
        Uberblock [no_io] "The newest uberblock.";
    }
    dsl {
        DirectoryNames [no_io] "Names of directories that were looked up by number.";
        EndingLogs [] "Intent logs to be freed, by group.";
        HeadFeatures [] "Features in use that the next sync notes.";
        HeadPolicy [] "Properties of a head that its writes obey.";
        HeadSums [] "Space that the blocks of a sync take and free.";
        DeflateRatios [no_io] "Ratios of raw to usable space by vdev.";
        Heads [] "Heads that are open for writing.";
        LoadedKeys [] "Keys of encryption roots that are loaded.";
        OpenSets [no_io] "Object sets that are open.";
        ResumePoints [] "How far receives came, by group.";
        Room [no_io] "How much datasets may still grow.";
        SharedBlocks [] "The tables of deduplicated and cloned blocks.";
        SpaceFacts [no_io] "What the pool says about its space.";
        TreeChange [] "Which thread changes the tree of datasets.";
    }
    dmu {
        DnodeScans [no_io] "Readers that go through dnodes in order.";
        ObjectNumbers [] "Where to look for free object numbers.";
        BlockMemo [no_io] "Blocks of an object that were used last.";
        Recount [no_io] "A count of what owners use that is under way.";
        CommittedSet [no_io] "The state of an object set on disk.";
        FreshObjects [no_io] "Allocated objects that are not on disk yet.";
        LiveShard [] "Changed objects of an object set, in shards.";
        LiveObject [] "The open and frozen changes of an object.";
        DirtyList [no_io] "Objects that a group has changed.";
        PrefetchStreams [no_io] "Sequential readers of an object.";
        SetHeader [] "A new intent log header or flags for the next sync.";
        RawSet [] "Facts about a set that is received as it is stored elsewhere.";
        TransactionUndo [no_io] "What a transaction changed, as it was before.";
    }
    cache {
        CachedDatasets [no_io] "The counters of each dataset's readers.";
        ArcShard [no_io] "A shard of the ARC.";
        ReadFlights [no_io] "Blocks that are being read, and how many wait for each.";
    }
    io {
        BlockKeys [] "Keys of blocks by salt.";
        HealQueue [no_io] "Blocks to be repaired.";
        PendingWrites [] "Writes that are not waited for yet.";
        WritingAgain [] "Held while what is not flushed is written again.";
    }
    engine {
        EventLog [] "Events, for clients that follow them.";
    }
    pool {
        KnownConfig [no_io] "The newest configuration that was read.";
        LiveConfig [no_io] "The configuration that a sync writes.";
    }
    dsl {
        Features [no_io] "The tables of features.";
    }
    intent_log {
        LogWriter [] "Records that wait for a commit, and the chain of log blocks.";
    }
    dmu {
        TxgGate [no_io] "Open and closing transaction groups.";
    }
    io {
        RandomPool [] "Random bytes for IVs and salts.";
        Suspension [no_io] "Whether the pool is suspended, and the requests that wait.";
        Unflushed [no_io] "Devices that were written to since the last flush.";
        WorkItems [no_io] "Items that workers divide among themselves.";
        WorkQueue [no_io] "Jobs that wait for workers.";
        WriteCountdown [no_io] "Parts of a write that are under way.";
        WritingSalt [] "The salt for new blocks, and how many were written with it.";
    }
    vdev {
        Shape [no_io] "The tree of vdevs at this moment.";
        IndirectMapping [no_io] "The mapping of a removed vdev.";
        TopClass [no_io] "The class of a top-level vdev.";
        VdevAccess [] "Whether the devices are closed to writes.";
        VdevCourtesy [no_io] "How much background work a device takes.";
        VdevQueue [no_io] "Requests of a leaf.";
        WriteFailures [no_io] "Parts of a write that failed.";
        LeafWrites [] "Writes of a leaf that are not durable yet.";
        MissedWrites [no_io] "Groups that each leaf missed.";
    }
    cloud {
        CloudUnaligned [] "Held while a write of parts of sectors reads, changes and writes.";
        CloudWork [] "The uploads of a device in a store, held by the thread that makes them.";
        CloudCacheDisk [] "The index of the read cache on disk.";
        CloudCacheMemory [] "The read cache in memory.";
        CloudOrder [] "The order of changes in the local log and the queue.";
        CloudState [] "The queue and map of a device in a store.";
        CloudPayload [] "Bytes of the local log on their way to the store.";
        S3KeyRing [] "The credentials in use.";
        S3Progress [] "When a transfer moved last.";
        S3Server [] "What a server's answers said about itself.";
        SimulatedEnv [] "The clock of a simulated store.";
        SimulatedPlace [] "The local files of a simulated store.";
        SimulatedStore [] "The objects of a simulated store.";
        SimulatedConnection [] "Requests until a simulated connection is cut.";
        StoreAwaited [] "Objects that are requested again and again.";
        StoreDamage [] "Objects of a store that are damaged.";
        StoreHealth [] "Whether a store answers, and since when not.";
        StorePace [] "When the bandwidth limit lets the next request through.";
        StorePatience [] "How long requests to a store are tried.";
        VolatileDevice [] "A local log device that can lose its cache.";
    }
    nbd_client {
        NbdUnaligned [] "Held while a write of parts of blocks reads, changes and writes.";
        NbdSizeAsked [] "When a server was last asked for the size of its export.";
        NbdRequests [] "Requests of a network block device, and what is not flushed.";
        NbdLinkSend [] "Held by the thread that sends a request on a connection.";
        NbdAnswer [] "The answer to a request of a network block device.";
        NbdTlsReceive [] "Bytes that came over TLS and were not decrypted yet.";
        NbdTlsSend [] "Held by the thread that sends over TLS.";
        NbdTls [] "The state of a TLS connection.";
    }
    injection {
        InjectedFaults [no_io] "The faults that a drill makes in a leaf, or in a pool's blocks.";
    }
    device {
        DeviceClaim [] "A block device that is kept from others.";
        DeviceFaults [] "The faults that a faulty device makes on purpose.";
        DeviceUnaligned [] "Held while a write off 4 KiB borders reads, changes and writes.";
        MemoryDevice [] "The bytes of a device in memory.";
    }
    base {
        Channel [no_io] "The queue of a channel.";
        Job [no_io] "Whether long work is wanted, and its thread.";
        MeasuredParts [no_io] "Parts that have figures of their own.";
        MemoryWaiters [no_io] "The number of threads that wait for leases of a memory budget.";
    }
    device {
        BufferPool [leaf] "Aligned buffers to be used again.";
        PageArena [leaf] "Pages for blocks.";
    }
    sim {
        SimBase [leaf] "The disks as they were when the recording began.";
        SimCache [leaf] "What a simulated disk has not made durable.";
        SimDisk [leaf] "The bytes of a simulated disk.";
        SimNames [leaf] "Which simulated disk each name leads to.";
        SimRandom [leaf] "How long a simulated disk takes.";
        SimRecord [leaf] "What happened to the simulated disks.";
    }
    daemon {
        GuardPipe [leaf] "Held while a mount is reported to the process that guards mounts.";
    }
    engine {
        OwnDisks [leaf no_io] "Numbers of the disks of this machine that are volumes here.";
    }
    base {
        UnusedSettings [leaf no_io] "Values of settings without a meaning.";
    }
}

/// The rank of locks that have none yet: it is checked against nothing.
#[derive(Debug)]
pub enum Unranked {}

impl Rank for Unranked {
    const INFO: &'static RankInfo = &RankInfo::new(
        "Unranked",
        "any",
        "Anything: the lock has no place yet.",
        None,
    );
}

/// The rank of initialisers that run once: they may take any lock.
#[derive(Debug)]
pub enum Once {}

impl Rank for Once {
    const INFO: &'static RankInfo =
        &RankInfo::new("Once", "base", "A value while it is made.", None);
}
