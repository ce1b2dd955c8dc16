//! The zpool subcommands: what each does, its synopsis in OpenZFS's words, and its options.
//!
//! Command lines are parsed from this table, and help, manual pages and completions are made of it.
//! A test compares each synopsis with the options, and checks that every option is used.

use cenote_words::command::flags;
use cenote_words::program::{Topic, topic};

const VDEVS: &str = "\
A vdev is a disk, a partition, a file, a URL of an object store (s3://BUCKET/PREFIX), an NBD\n\
export (nbd://HOST/NAME), or a group of these: 'mirror', 'raidz', 'raidz2', 'raidz3' or 'draid',\n\
followed by its members. 'log', 'cache', 'spare', 'special' and 'dedup' before a vdev give it\n\
another role.";

/// The subcommands, in the order of the overview.
#[rustfmt::skip]
pub const GROUPS: &[&[Topic]] = &[&[
    topic("version", &["version [-j]"],
        "Print the OpenZFS release whose command line this is",
        "'cenote version' prints the version of Cenote.",
        flags! { 'j' "json" _ "print JSON"; }),
], &[
    topic("create", &[
        "create [-fnd] [-o property=value] ...",
        "    [-O file-system-property=value] ...",
        "    [-m mountpoint] [-R root] <pool> <vdev> ...",
    ], "Create a pool", VDEVS, flags! {
        'f' "" _ "use devices that seem to be in use, and vdevs with different redundancy";
        'n' "" _ "print the layout of the pool and do not create it";
        'd' "" _ "enable no features, except those named with -o feature@...";
        'o' "" "PROPERTY=VALUE" "set a property of the pool (may be repeated)";
        'O' "" "PROPERTY=VALUE" "set a property of the root file system (may be repeated)";
        'm' "" "MOUNTPOINT" "mount the root file system here; the default is /POOL";
        'R' "" "ROOT" "mount everything below this directory; implies cachefile=none";
        't' "" "NAME" "import the new pool under this temporary name" hidden;
    }),
    topic("destroy", &["destroy [-f] <pool>"],
        "Destroy a pool",
        "The devices are free for other use afterwards. 'zpool import -D' can bring the pool back\n\
         as long as nothing has overwritten them.", flags! {
        'f' "" _ "unmount file systems that are in use";
    }),
], &[
    topic("add", &["add [-afgLnP] [-o property=value] <pool> <vdev> ..."],
        "Add vdevs to a pool", VDEVS, flags! {
        'f' "" _ "all three of --allow-...";
        _ "allow-in-use" _ "use devices that seem to be in use" hidden;
        _ "allow-replication-mismatch" _ "add vdevs with different redundancy" hidden;
        _ "allow-ashift-mismatch" _ "add vdevs with another ashift than those of the pool" hidden;
        'g' "" _ "show GUIDs of vdevs instead of device names";
        'L' "" _ "show where symbolic links of device names lead";
        'n' "" _ "print the layout that the pool would have and change nothing";
        'P' "" _ "show full paths of devices";
        'o' "" "PROPERTY=VALUE" "set a property for the new vdevs: ashift";
    }),
    topic("remove", &["remove [-npsw] <pool> <device> ..."],
        "Remove a device from a pool",
        "Removes log, cache and spare devices.", flags! {
        'n' "" _ "print how much memory the map of the removed vdev would need";
        'p' "" _ "print exact numbers";
        's' "" _ "cancel the removal that is running";
        'w' "" _ "wait until the removal is complete";
    }),
], &[
    topic("labelclear", &["labelclear [-f] <vdev>"],
        "Remove ZFS labels from a device",
        "The device must not be part of an imported pool.", flags! {
        'f' "" _ "also clear a device that seems to be part of a pool";
    }),
], &[
    topic("checkpoint", &["checkpoint [-d [-w]] <pool> ..."],
        "Save the state of a pool, to be able to return to it",
        "'zpool import --rewind-to-checkpoint' returns to it. Space that is freed after the\n\
         checkpoint stays in use until the checkpoint is discarded.", flags! {
        'd' "discard" _ "discard the checkpoint";
        'w' "wait" _ "with -d, wait until its space is free";
    }),
    topic("prefetch", &[
        "prefetch -t <type> [<type opts>] <pool>",
        "    -t ddt <pool>",
    ], "Read the tables of a pool into the cache", "", flags! {
        't' "" "TYPE" "which tables: ddt";
    }),
], &[
    topic("list", &[
        "list [-gHLpPv] [-o property[,...]] [-j [--json-int, --json-pool-key-guid]] ...",
        "    [-T d|u] [pool] [interval [count]]",
    ], "List pools with their space and health",
        "With an interval in seconds the list is printed again and again, count times.", flags! {
        'v' "" _ "list the vdevs of each pool, too";
        'o' "" "PROPERTY[,...]" "print these properties";
        'H' "" _ "print no header, and a tab between columns";
        'p' "" _ "print exact numbers";
        'g' "" _ "show GUIDs of vdevs instead of device names";
        'L' "" _ "show where symbolic links of device names lead";
        'P' "" _ "show full paths of devices";
        'T' "" "u|d" "print a time stamp: u in seconds since 1970, d as a date";
        'j' "json" _ "print JSON";
        _ "json-int" _ "with -j, print numbers as numbers";
        _ "json-pool-key-guid" _ "with -j, use GUIDs of pools as keys";
    }),
    topic("iostat", &[
        "iostat [[[-c [script1,script2,...][-lq]]|[-rw]] [-T d | u] [-ghHLpPvy]",
        "    [[pool ...]|[pool vdev ...]|[vdev ...]] [[-n] interval [count]]",
    ], "Print operations and bandwidth of pools and vdevs",
        "The first report is about the time since the pool was imported. With an interval in\n\
         seconds each further report is about the last interval.", flags! {
        'v' "" _ "print each vdev, too";
        'l' "" _ "print average latencies";
        'q' "" _ "print queue lengths";
        'w' "" _ "print histograms of latencies";
        'r' "" _ "print histograms of request sizes";
        'c' "" "SCRIPT[,...]" "add what these scripts print for each vdev";
        'y' "" _ "leave out the report about the time since the import";
        'n' "" _ "print the header once only";
        'H' "" _ "print no header, and a tab between columns";
        'p' "" _ "print exact numbers";
        'g' "" _ "show GUIDs of vdevs instead of device names";
        'L' "" _ "show where symbolic links of device names lead";
        'P' "" _ "show full paths of devices";
        'T' "" "u|d" "print a time stamp: u in seconds since 1970, d as a date";
        'h' "" _ "";
    }),
    topic("status", &[
        "status [--power] [-j [--json-int, --json-flat-vdevs, ...",
        "    --json-pool-key-guid]] [-c [script1,script2,...]] [-dDegiLpPstvx] ...",
        "    [-T d|u] [pool] [interval [count]]",
    ], "Show the health of pools",
        "'cenote health' also says what to do about each problem.", flags! {
        'v' "" _ "name the files with permanent errors";
        'x' "" _ "show only pools with problems";
        'e' "" _ "show only vdevs with problems";
        'c' "" "SCRIPT[,...]" "add what these scripts print for each vdev";
        'D' "" _ "print statistics of the dedup table";
        'd' "" _ "print how many O_DIRECT writes failed their check";
        'i' "" _ "print the state of initializing";
        's' "" _ "print how many requests were slow";
        't' "" _ "print the state of trims";
        'g' "" _ "show GUIDs of vdevs instead of device names";
        'L' "" _ "show where symbolic links of device names lead";
        'P' "" _ "show full paths of devices";
        'p' "" _ "print exact numbers";
        'T' "" "u|d" "print a time stamp: u in seconds since 1970, d as a date";
        'j' "json" _ "print JSON";
        _ "json-int" _ "with -j, print numbers as numbers";
        _ "json-flat-vdevs" _ "with -j, list vdevs without their hierarchy";
        _ "json-pool-key-guid" _ "with -j, use GUIDs of pools as keys";
        _ "power" _ "print whether the slots of disks have power";
    }),
], &[
    topic("online", &["online [--power][-e] <pool> <device> ..."],
        "Use a device of a pool again", "", flags! {
        'e' "" _ "let the vdev grow to the size of the device";
        _ "power" _ "switch on the power of the slot first";
    }),
    topic("offline", &["offline [--power]|[[-f][-t]] <pool> <device> ..."],
        "Stop using a device of a pool",
        "The pool keeps working with what redundancy is left.", flags! {
        'f' "" _ "mark the device as faulted";
        't' "" _ "only until the pool is imported again";
        _ "power" _ "switch off the power of the slot";
    }),
    topic("clear", &["clear [[--power]|[-nF]] <pool> [device]"],
        "Reset error counters, and resume a suspended pool", "", flags! {
        'F' "" _ "go back to an earlier state if the newest cannot be read";
        'n' "" _ "with -F, only say whether that would help";
        'X' "" _ "with -F, search all older states" hidden;
        _ "power" _ "switch on the power of the slots first";
    }),
    topic("reopen", &["reopen [-n] <pool>"],
        "Open all devices of a pool again", "", flags! {
        'n' "" _ "do not restart a scrub that is running";
    }),
], &[
    topic("attach", &["attach [-fsw] [-o property=value] <pool> <device> <new-device>"],
        "Attach a device to make or widen a mirror",
        "The new device gets a copy of the data (a resilver).", flags! {
        'f' "" _ "use a device that seems to be in use";
        'o' "" "PROPERTY=VALUE" "set a property for the new device: ashift";
        's' "" _ "copy in the order of addresses, then scrub";
        'w' "" _ "wait until the resilver is complete";
    }),
    topic("detach", &["detach <pool> <device>"],
        "Detach a device from a mirror", "", flags! {}),
    topic("replace", &["replace [-fsw] [-o property=value] <pool> <device> [new-device]"],
        "Replace a device",
        "Without a new device: the same path holds another disk now.", flags! {
        'f' "" _ "use a device that seems to be in use";
        'o' "" "PROPERTY=VALUE" "set a property for the new device: ashift";
        's' "" _ "copy in the order of addresses, then scrub";
        'w' "" _ "wait until the resilver is complete";
    }),
    topic("split", &[
        "split [-gLnPl] [-R altroot] [-o mntopts]",
        "    [-o property=value] <pool> <newpool> [<device> ...]",
    ], "Make a new pool of one device of each mirror", "", flags! {
        'g' "" _ "show GUIDs of vdevs instead of device names";
        'L' "" _ "show where symbolic links of device names lead";
        'P' "" _ "show full paths of devices";
        'n' "" _ "print the layout of the new pool and change nothing";
        'l' "" _ "with -R, load the keys of encrypted datasets of the new pool";
        'o' "" "PROPERTY=VALUE" "set a property or mount options of the new pool";
        'R' "" "ROOT" "import the new pool and mount it below this directory";
    }),
], &[
    topic("initialize", &["initialize [-c | -s | -u] [-w] <pool> [<device> ...]"],
        "Write to all free space of devices", "", flags! {
        'a' "all" _ "all pools" hidden;
        'c' "cancel" _ "cancel; the next run starts at the beginning";
        's' "suspend" _ "pause; the next run continues here";
        'u' "uninit" _ "forget that the devices were initialized";
        'w' "wait" _ "wait until it is complete";
    }),
    topic("resilver", &["resilver <pool> ..."],
        "Start a resilver now",
        "It replaces one that is running and includes all devices that wait for one.", flags! {}),
    topic("scrub", &["scrub [-e | -s | -p | -C] [-w] <-a | pool> ..."],
        "Read and check all data of pools, and repair it",
        "'zpool status' shows the progress. A paused scrub continues with 'zpool scrub'.", flags! {
        'a' "" _ "all pools";
        'e' "" _ "check only files that are known to be damaged";
        's' "" _ "stop";
        'p' "" _ "pause";
        'C' "" _ "check only what was written since the last scrub";
        'w' "" _ "wait until the scrub is complete";
    }),
    topic("trim", &["trim [-dw] [-r <rate>] [-c | -s] <pool> [<device> ...]"],
        "Tell devices which space is free", "", flags! {
        'a' "all" _ "all pools" hidden;
        'd' "secure" _ "make the devices erase the free space";
        'r' "rate" "BYTES" "trim at most this many bytes a second on each device";
        'c' "cancel" _ "cancel; the next run starts at the beginning";
        's' "suspend" _ "pause; the next run continues here";
        'w' "wait" _ "wait until it is complete";
    }),
], &[
    topic("import", &[
        "import [-d dir] [-D]",
        "import [-o mntopts] [-o property=value] ...",
        "    [-d dir | -c cachefile] [-D] [-l] [-f] [-m] [-N] [-R root] [-F [-n]] -a",
        "import [-o mntopts] [-o property=value] ...",
        "    [-d dir | -c cachefile] [-D] [-l] [-f] [-m] [-N] [-R root] [-F [-n]]",
        "    [--rewind-to-checkpoint] <pool | id> [newpool]",
    ], "Import pools, or list those that can be imported",
        "Without a pool and without -a it lists the pools that it finds. A pool is named by its\n\
         name or its GUID, and may get a new name. With '-o readonly=on' nothing is written to\n\
         any device.", flags! {
        'a' "" _ "import all pools that are found";
        'd' "" "DIRECTORY|DEVICE" "look for devices here (may be repeated)";
        'c' "" "CACHEFILE" "take the list of devices from this file";
        's' "" _ "scan the devices, even if a cache file was named" hidden;
        'o' "" "PROPERTY=VALUE" "set a property of the pool, or mount options (may be repeated)";
        'R' "" "ROOT" "mount everything below this directory; implies cachefile=none";
        'N' "" _ "mount nothing";
        'l' "" _ "load keys of encrypted datasets; asks for passphrases";
        'f' "" _ "import although another system seems to use the pool";
        'm' "" _ "import without a missing log device; its last writes are lost";
        'D' "" _ "look for destroyed pools, too";
        't' "" _ "the new name is temporary; it is not stored in the pool" hidden;
        'F' "" _ "if the newest state cannot be read, go back to one just before it";
        'X' "" _ "with -F, search all older states" hidden;
        'n' "" _ "with -F, only say what would be lost";
        'T' "" "TXG" "go back to this transaction group" hidden;
        _ "rewind-to-checkpoint" _ "go back to the checkpoint; all later changes are lost";
    }),
    topic("export", &["export [-af] <pool> ..."],
        "Export pools: unmount them and release their devices",
        "An exported pool can be imported on another system.", flags! {
        'a' "" _ "all pools";
        'f' "" _ "unmount file systems that are in use";
        'F' "" _ "the same, and keep the pool in its cache file" hidden;
        'n' "" _ "do not wait for uploads to object stores; the next import continues them" hidden;
    }),
    topic("upgrade", &[
        "upgrade",
        "upgrade -v",
        "upgrade [-V version] <-a | pool ...>",
    ], "Enable all features of pools, or list what can be enabled",
        "Older systems may not be able to open the pool afterwards.", flags! {
        'v' "" _ "list all features and versions";
        'V' "" "VERSION" "upgrade to this legacy version only";
        'a' "" _ "all pools";
    }),
    topic("reguid", &["reguid [-g guid] <pool>"],
        "Give a pool a new GUID", "", flags! {
        'g' "" "GUID" "use this GUID instead of a random one";
    }),
], &[
    topic("history", &["history [-il] [<pool>] ..."],
        "Show which commands changed pools", "", flags! {
        'i' "" _ "show events of the system, too";
        'l' "" _ "show user, host and zone";
    }),
    topic("events", &["events [-vHf [pool] | -c]"],
        "Show events of pools", "", flags! {
        'v' "" _ "show all details";
        'H' "" _ "print no header, and a tab between columns";
        'f' "" _ "wait for new events";
        'c' "" _ "clear all events";
    }),
], &[
    topic("get", &[
        "get [-Hp] [-j [--json-int, --json-pool-key-guid]] ...",
        "    [-o \"all\" | field[,...]] <\"all\" | property[,...]> <pool> ...",
    ], "Print properties of pools, vdevs and features", "", flags! {
        'H' "" _ "print no header, and a tab between columns";
        'p' "" _ "print exact numbers";
        'o' "" "FIELD[,...]" "print these columns: name, property, value, source";
        'j' "json" _ "print JSON";
        _ "json-int" _ "with -j, print numbers as numbers";
        _ "json-pool-key-guid" _ "with -j, use GUIDs of pools as keys";
    }),
    topic("set", &[
        "set <property=value> <pool>",
        "set <vdev_property=value> <pool> <vdev>",
    ], "Set a property of a pool or a vdev", "", flags! {}),
    topic("sync", &["sync [pool] ..."],
        "Write all changes to disk now",
        "Returns when they are on disk, as sync(2) should for a mount.", flags! {
        'f' "" _ "write labels and uberblocks even if nothing has changed" hidden;
    }),
], &[
    topic("wait", &["wait [-Hp] [-T d|u] [-t <activity>[,...]] <pool> [interval]"],
        "Wait until work on a pool is complete", "", flags! {
        't' "" "ACTIVITY[,...]" "only for these: discard, free, initialize, raidz_expand, remove,\n\
            replace, resilver, scrub, trim";
        'H' "" _ "print no header, and a tab between columns";
        'p' "" _ "print exact numbers";
        'T' "" "u|d" "print a time stamp: u in seconds since 1970, d as a date";
    }),
], &[
    topic("ddtprune", &["ddtprune -d|-p <amount> <pool>"],
        "Forget old entries of the dedup table that are used once", "", flags! {
        'd' "" "DAYS" "entries older than this";
        'p' "" "PERCENT" "this share of the entries";
    }),
]];
