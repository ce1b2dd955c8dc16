//! The synopsis of each zfs subcommand.

use cenote_words::program::Synopsis;

/// The subcommands, in groups.
#[rustfmt::skip]
pub const GROUPS: &[&[Synopsis]] = &[
    &[
        ("version", &["version [-j]"]),
    ],
    &[
        ("create", &[
            "create [-Pnpuv] [-o property=value] ... <filesystem>",
            "create [-Pnpsv] [-b blocksize] [-o property=value] ... -V <size> <volume>",
        ]),
        ("destroy", &[
            "destroy [-fnpRrv] <filesystem|volume>",
            "destroy [-dnpRrv] <filesystem|volume>@<snap>[%<snap>][,...]",
            "destroy <filesystem|volume>#<bookmark>",
        ]),
    ],
    &[
        ("snapshot", &["snapshot [-r] [-o property=value] ... <filesystem|volume>@<snap> ..."]),
        ("rollback", &["rollback [-rRf] <snapshot>"]),
        ("clone", &["clone [-p] [-o property=value] ... <snapshot> <filesystem|volume>"]),
        ("promote", &["promote <clone-filesystem>"]),
        ("rename", &[
            "rename [-f] <filesystem|volume|snapshot> <filesystem|volume|snapshot>",
            "rename -p [-f] <filesystem|volume> <filesystem|volume>",
            "rename -u [-f] <filesystem> <filesystem>",
            "rename -r <snapshot> <snapshot>",
        ]),
        ("bookmark", &["bookmark <snapshot|bookmark> <newbookmark>"]),
        ("program", &[
            "program [-jn] [-t <instruction limit>] [-m <memory limit (b)>]",
            "    <pool> <program file> [lua args...]",
        ]),
    ],
    &[
        ("list", &[
            "list [-Hp] [-j [--json-int]] [-r|-d max] [-o property[,...]] [-s property]...",
            "    [-S property]... [-t type[,...]] [filesystem|volume|snapshot] ...",
        ]),
    ],
    &[
        ("set", &["set [-u] <property=value> ... <filesystem|volume|snapshot> ..."]),
        ("get", &[
            "get [-rHp] [-j [--json-int]] [-d max] [-o \"all\" | field[,...]]",
            "    [-t type[,...]] [-s source[,...]]",
            "    <\"all\" | property[,...]> [filesystem|volume|snapshot|bookmark] ...",
        ]),
        ("inherit", &["inherit [-rS] <property> <filesystem|volume|snapshot> ..."]),
        ("upgrade", &[
            "upgrade [-v]",
            "upgrade [-r] [-V version] <-a | filesystem ...>",
        ]),
    ],
    &[
        ("userspace", &[
            "userspace [-Hinp] [-o field[,...]] [-s field] ...",
            "    [-S field] ... [-t type[,...]] <filesystem|snapshot|path>",
        ]),
        ("groupspace", &[
            "groupspace [-Hinp] [-o field[,...]] [-s field] ...",
            "    [-S field] ... [-t type[,...]] <filesystem|snapshot|path>",
        ]),
        ("projectspace", &[
            "projectspace [-Hp] [-o field[,...]] [-s field] ...",
            "    [-S field] ... <filesystem|snapshot|path>",
        ]),
    ],
    &[
        ("project", &[
            "project [-d|-r] <directory|file ...>",
            "project -c [-0] [-d|-r] [-p id] <directory|file ...>",
            "project -C [-k] [-r] <directory ...>",
            "project [-p id] [-r] [-s] <directory ...>",
        ]),
    ],
    &[
        ("mount", &[
            "mount [-j]",
            "mount [-flvO] [-o opts] <-a|-R filesystem|filesystem>",
        ]),
        ("unmount", &["unmount [-fu] <-a | filesystem|mountpoint>"]),
        ("share", &["share <-a [nfs|smb] | filesystem>"]),
        ("unshare", &["unshare <-a [nfs|smb] | filesystem|mountpoint>"]),
    ],
    &[
        ("send", &[
            "send [-DLPbcehnpsVvw] [-i|-I snapshot]",
            "     [-R [-X dataset[,dataset]...]]     <snapshot>",
            "send [-DnVvPLecw] [-i snapshot|bookmark] <filesystem|volume|snapshot>",
            "send [-DnPpVvLec] [-i bookmark|snapshot] --redact <bookmark> <snapshot>",
            "send [-nVvPe] -t <receive_resume_token>",
            "send [-PnVv] --saved filesystem",
        ]),
        ("receive", &[
            "receive [-vMnsFhu] [-o <property>=<value>] ... [-x <property>] ...",
            "    <filesystem|volume|snapshot>",
            "receive [-vMnsFhu] [-o <property>=<value>] ... [-x <property>] ...",
            "    [-d | -e] <filesystem>",
            "receive -A <filesystem|volume>",
        ]),
    ],
    &[
        ("allow", &[
            "allow <filesystem|volume>",
            "allow [-ldug] <\"everyone\"|user|group>[,...] <perm|@setname>[,...]",
            "    <filesystem|volume>",
            "allow [-ld] -e <perm|@setname>[,...] <filesystem|volume>",
            "allow -c <perm|@setname>[,...] <filesystem|volume>",
            "allow -s @setname <perm|@setname>[,...] <filesystem|volume>",
        ]),
    ],
    &[
        ("unallow", &[
            "unallow [-rldug] <\"everyone\"|user|group>[,...]",
            "    [<perm|@setname>[,...]] <filesystem|volume>",
            "unallow [-rld] -e [<perm|@setname>[,...]] <filesystem|volume>",
            "unallow [-r] -c [<perm|@setname>[,...]] <filesystem|volume>",
            "unallow [-r] -s @setname [<perm|@setname>[,...]] <filesystem|volume>",
        ]),
    ],
    &[
        ("hold", &["hold [-r] <tag> <snapshot> ..."]),
        ("holds", &["holds [-rHp] <snapshot> ..."]),
        ("release", &["release [-r] <tag> <snapshot> ..."]),
        ("diff", &["diff [-FHth] <snapshot> [snapshot|filesystem]"]),
        ("load-key", &["load-key [-rn] [-L <keylocation>] <-a | filesystem|volume>"]),
        ("unload-key", &["unload-key [-r] <-a | filesystem|volume>"]),
        ("change-key", &[
            "change-key [-l] [-o keyformat=<value>]",
            "    [-o keylocation=<value>] [-o pbkdf2iters=<value>]",
            "    <filesystem|volume>",
            "change-key -i [-l] <filesystem|volume>",
        ]),
        ("redact", &["redact <snapshot> <bookmark> <redaction_snapshot> ..."]),
        ("wait", &["wait [-t <activity>] <filesystem>"]),
        ("zone", &["zone <nsfile> <filesystem>"]),
        ("unzone", &["unzone <nsfile> <filesystem>"]),
    ],
];
