//! The synopsis of each zpool subcommand.

use cenote_words::program::Synopsis;

/// The subcommands, in groups.
#[rustfmt::skip]
pub const GROUPS: &[&[Synopsis]] = &[
    &[
        ("version", &["version [-j]"]),
    ],
    &[
        ("create", &[
            "create [-fnd] [-o property=value] ...",
            "    [-O file-system-property=value] ...",
            "    [-m mountpoint] [-R root] <pool> <vdev> ...",
        ]),
        ("destroy", &["destroy [-f] <pool>"]),
    ],
    &[
        ("add", &["add [-afgLnP] [-o property=value] <pool> <vdev> ..."]),
        ("remove", &["remove [-npsw] <pool> <device> ..."]),
    ],
    &[
        ("labelclear", &["labelclear [-f] <vdev>"]),
    ],
    &[
        ("checkpoint", &["checkpoint [-d [-w]] <pool> ..."]),
        ("prefetch", &[
            "prefetch -t <type> [<type opts>] <pool>",
            "    -t ddt <pool>",
        ]),
    ],
    &[
        ("list", &[
            "list [-gHLpPv] [-o property[,...]] [-j [--json-int, --json-pool-key-guid]] ...",
            "    [-T d|u] [pool] [interval [count]]",
        ]),
        ("iostat", &[
            "iostat [[[-c [script1,script2,...][-lq]]|[-rw]] [-T d | u] [-ghHLpPvy]",
            "    [[pool ...]|[pool vdev ...]|[vdev ...]] [[-n] interval [count]]",
        ]),
        ("status", &[
            "status [--power] [-j [--json-int, --json-flat-vdevs, ...",
            "    --json-pool-key-guid]] [-c [script1,script2,...]] [-dDegiLpPstvx] ...",
            "    [-T d|u] [pool] [interval [count]]",
        ]),
    ],
    &[
        ("online", &["online [--power][-e] <pool> <device> ..."]),
        ("offline", &["offline [--power]|[[-f][-t]] <pool> <device> ..."]),
        ("clear", &["clear [[--power]|[-nF]] <pool> [device]"]),
        ("reopen", &["reopen [-n] <pool>"]),
    ],
    &[
        ("attach", &["attach [-fsw] [-o property=value] <pool> <device> <new-device>"]),
        ("detach", &["detach <pool> <device>"]),
        ("replace", &["replace [-fsw] [-o property=value] <pool> <device> [new-device]"]),
        ("split", &[
            "split [-gLnPl] [-R altroot] [-o mntopts]",
            "    [-o property=value] <pool> <newpool> [<device> ...]",
        ]),
    ],
    &[
        ("initialize", &["initialize [-c | -s | -u] [-w] <pool> [<device> ...]"]),
        ("resilver", &["resilver <pool> ..."]),
        ("scrub", &["scrub [-e | -s | -p | -C] [-w] <-a | pool> ..."]),
        ("trim", &["trim [-dw] [-r <rate>] [-c | -s] <pool> [<device> ...]"]),
    ],
    &[
        ("import", &[
            "import [-d dir] [-D]",
            "import [-o mntopts] [-o property=value] ...",
            "    [-d dir | -c cachefile] [-D] [-l] [-f] [-m] [-N] [-R root] [-F [-n]] -a",
            "import [-o mntopts] [-o property=value] ...",
            "    [-d dir | -c cachefile] [-D] [-l] [-f] [-m] [-N] [-R root] [-F [-n]]",
            "    [--rewind-to-checkpoint] <pool | id> [newpool]",
        ]),
        ("export", &["export [-af] <pool> ..."]),
        ("upgrade", &[
            "upgrade",
            "upgrade -v",
            "upgrade [-V version] <-a | pool ...>",
        ]),
        ("reguid", &["reguid [-g guid] <pool>"]),
    ],
    &[
        ("history", &["history [-il] [<pool>] ..."]),
        ("events", &["events [-vHf [pool] | -c]"]),
    ],
    &[
        ("get", &[
            "get [-Hp] [-j [--json-int, --json-pool-key-guid]] ...",
            "    [-o \"all\" | field[,...]] <\"all\" | property[,...]> <pool> ...",
        ]),
        ("set", &[
            "set <property=value> <pool>",
            "set <vdev_property=value> <pool> <vdev>",
        ]),
        ("sync", &["sync [pool] ..."]),
    ],
    &[
        ("wait", &["wait [-Hp] [-T d|u] [-t <activity>[,...]] <pool> [interval]"]),
    ],
    &[
        ("ddtprune", &["ddtprune -d|-p <amount> <pool>"]),
    ],
];
