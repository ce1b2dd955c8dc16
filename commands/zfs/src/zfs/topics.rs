//! The zfs subcommands: what each does, its synopsis in OpenZFS's words, and its options.
//!
//! Command lines are parsed from this table, and help, manual pages and completions are made of it.
//! A test compares each synopsis with the options, and checks that every option is used.

use cenote_words::command::{Flag, flags};
use cenote_words::program::{Topic, topic};

const SEND: &[Flag] = flags! {
    'i' "" "SNAPSHOT" "send what changed since this snapshot or bookmark";
    'I' "" "SNAPSHOT" "send all snapshots since this one, too";
    'R' "replicate" _ "send all datasets below, with snapshots and properties";
    'X' "exclude" "DATASET[,...]" "with -R, leave these datasets out";
    's' "skip-missing" _ "with -R, leave out datasets without the snapshot";
    'p' "props" _ "send properties, too";
    'b' "backup" _ "send properties as they were received";
    'h' "holds" _ "send holds, too";
    'L' "large-block" _ "send blocks above 128 KiB as they are";
    'e' "embed" _ "send blocks that are stored in their pointers as they are";
    'c' "compressed" _ "send compressed blocks as they are";
    'w' "raw" _ "send encrypted blocks as they are; the receiver needs no key";
    't' "resume" "TOKEN" "resume a send; the token is the receiver's receive_resume_token";
    'S' "saved" _ "send what an interrupted receive left";
    'd' "redact" "BOOKMARK" "leave out what a redaction bookmark names";
    'U' "no-preserve-encryption" _ "send encrypted datasets decrypted, with -R or -p" hidden;
    'n' "dryrun" _ "only estimate the size of the stream";
    'v' "verbose" _ "print progress and sizes";
    'P' "parsable" _ "print sizes for programs";
    'V' "proctitle" _ "show progress in the title of the process";
    'D' "dedup" _ "";
};

const SPACE: &[Flag] = flags! {
    'n' "" _ "print numbers instead of names";
    'H' "" _ "print no header, and a tab between columns";
    'p' "" _ "print exact numbers";
    'o' "" "FIELD[,...]" "print these columns: type, name, used, quota, objused, objquota";
    's' "" "FIELD" "sort by this column (may be repeated)";
    'S' "" "FIELD" "sort by this column, largest first (may be repeated)";
    't' "" "TYPE[,...]" "only these: posixuser, smbuser, posixgroup, smbgroup, all";
    'i' "" _ "translate SIDs";
};

const ALLOW: &[Flag] = flags! {
    'l' "" _ "on the dataset itself";
    'd' "" _ "on all datasets below it";
    'u' "" _ "for users";
    'g' "" _ "for groups";
    'e' "" _ "for everyone";
    'c' "" _ "for the user that creates a dataset";
    's' "" _ "define a set of permissions";
};

const UNALLOW: &[Flag] = flags! {
    'l' "" _ "on the dataset itself";
    'd' "" _ "on all datasets below it";
    'u' "" _ "for users";
    'g' "" _ "for groups";
    'e' "" _ "for everyone";
    'c' "" _ "for the user that creates a dataset";
    's' "" _ "from a set of permissions";
    'r' "" _ "from all datasets below, too";
};

const ABOUT_ALLOW: &str = "\
With a dataset alone, prints the permissions that are delegated there and above. A name is that\n\
of a user if there is one, else of a group; numbers are ids. Without -l and -d the permissions\n\
hold on the dataset and on all below it. A set (@NAME) stands for permissions and other sets.\n\
Permissions of -c go to the creator of a dataset below, on that dataset.";

const ABOUT_UNALLOW: &str = "\
Without permissions, takes back all that were delegated to the user, group or everyone, or\n\
removes the set. Nothing is denied: what a dataset above grants stays in effect.";

const ABOUT_RANGE: &str = "\
A dataset, snapshots of one, or a bookmark. Several snapshots are written as a list and as\n\
ranges: tank/home@a,b or tank/home@a%c.";

/// The subcommands, in the order of the overview.
#[rustfmt::skip]
pub const GROUPS: &[&[Topic]] = &[&[
    topic("version", &["version [-j]"],
        "Print the OpenZFS release whose command line this is",
        "'cenote version' prints the version of Cenote.",
        flags! { 'j' "json" _ "print JSON"; }),
], &[
    topic("create", &[
        "create [-Pnpuv] [-o property=value] ... <filesystem>",
        "create [-Pnpsv] [-b blocksize] [-o property=value] ... -V <size> <volume>",
    ], "Create a file system or a volume",
        "The new file system is mounted as its properties say.", flags! {
        'p' "" _ "create the datasets above it, too";
        'o' "" "PROPERTY=VALUE" "set a property (may be repeated)";
        'V' "" "SIZE" "create a volume of this size";
        'b' "" "BLOCKSIZE" "volume: size of its blocks; sets volblocksize";
        's' "" _ "volume: reserve no space";
        'u' "" _ "do not mount it";
        'n' "" _ "only check whether it could be created";
        'v' "" _ "print what is created";
        'P' "" _ "print it for programs";
    }),
    topic("destroy", &[
        "destroy [-fnpRrv] <filesystem|volume>",
        "destroy [-dnpRrv] <filesystem|volume>@<snap>[%<snap>][,...]",
        "destroy <filesystem|volume>#<bookmark>",
    ], "Destroy datasets, snapshots or bookmarks", ABOUT_RANGE, flags! {
        'r' "" _ "also everything below; of snapshots, those of datasets below";
        'R' "" _ "also everything that depends on it, clones outside included";
        'f' "" _ "unmount file systems that are in use";
        'd' "" _ "a snapshot that is held or has clones is destroyed as soon as it can be";
        'n' "" _ "only check what would be destroyed";
        'v' "" _ "print what is destroyed, and how much space that frees";
        'p' "" _ "print it for programs";
    }),
], &[
    topic("snapshot", &["snapshot [-r] [-o property=value] ... <filesystem|volume>@<snap> ..."],
        "Take snapshots",
        "All snapshots of one command are taken at the same moment.", flags! {
        'r' "" _ "also of all datasets below";
        'o' "" "PROPERTY=VALUE" "set a user property (may be repeated)";
    }),
    topic("rollback", &["rollback [-rRf] <snapshot>"],
        "Return a dataset to its latest snapshot",
        "All changes since the snapshot are lost.", flags! {
        'r' "" _ "destroy snapshots and bookmarks that are newer";
        'R' "" _ "destroy their clones, too";
        'f' "" _ "with -R, unmount clones that are in use";
    }),
    topic("clone", &["clone [-p] [-o property=value] ... <snapshot> <filesystem|volume>"],
        "Create a dataset with the contents of a snapshot", "", flags! {
        'p' "" _ "create the datasets above it, too";
        'o' "" "PROPERTY=VALUE" "set a property (may be repeated)";
        'u' "" _ "do not mount it" hidden;
    }),
    topic("promote", &["promote <clone-filesystem>"],
        "Make a clone independent of its origin",
        "The snapshots up to the origin become the clone's.", flags! {}),
    topic("rename", &[
        "rename [-f] <filesystem|volume|snapshot> <filesystem|volume|snapshot>",
        "rename -p [-f] <filesystem|volume> <filesystem|volume>",
        "rename -u [-f] <filesystem> <filesystem>",
        "rename -r <snapshot> <snapshot>",
    ], "Rename a dataset or a snapshot", "", flags! {
        'p' "" _ "create the datasets above the new name";
        'r' "" _ "rename the snapshots of all datasets below";
        'u' "" _ "do not mount it at the place that follows from the new name";
        'f' "" _ "unmount file systems that are in use";
    }),
    topic("bookmark", &["bookmark <snapshot|bookmark> <newbookmark>"],
        "Make a bookmark of a snapshot",
        "An incremental send can start from a bookmark when the snapshot is gone.", flags! {
        'r' "" _ "also of all datasets below that have such a snapshot" hidden;
    }),
    topic("program", &[
        "program [-jn] [-t <instruction limit>] [-m <memory limit (b)>]",
        "    <pool> <program file> [lua args...]",
    ], "Run a channel program",
        "A program in Lua. All its changes are in one transaction group.\n\
         What follows the file is passed to the program; - reads it from standard input.\n\
         The functions of the table zfs are described at length in OpenZFS's zfs-program(8).",
    flags! {
        'n' "" _ "change nothing";
        't' "" "LIMIT" "at most LIMIT instructions (10 million)";
        'm' "" "BYTES" "at most BYTES of memory (10 MiB)";
        'j' "json" _ "print JSON";
    }),
], &[
    topic("list", &[
        "list [-Hp] [-j [--json-int]] [-r|-d max] [-o property[,...]] [-s property]...",
        "    [-S property]... [-t type[,...]] [filesystem|volume|snapshot] ...",
    ], "List datasets, snapshots and bookmarks", "", flags! {
        't' "" "TYPE[,...]" "list these: filesystem, volume, snapshot, bookmark, all";
        'r' "" _ "also everything below";
        'd' "" "DEPTH" "also DEPTH levels below";
        'o' "" "PROPERTY[,...]" "print these properties; 'space' means all properties about space";
        's' "" "PROPERTY" "sort by this property (may be repeated)";
        'S' "" "PROPERTY" "sort by this property, largest first (may be repeated)";
        'H' "" _ "print no header, and a tab between columns";
        'p' "" _ "print exact numbers";
        'j' "json" _ "print JSON";
        _ "json-int" _ "with -j, print numbers as numbers";
    }),
], &[
    topic("set", &["set [-u] <property=value> ... <filesystem|volume|snapshot> ..."],
        "Set properties of datasets",
        "See zfsprops(7). A name with a colon is a property of your own.", flags! {
        'u' "" _ "do not mount or unmount anything";
    }),
    topic("get", &[
        "get [-rHp] [-j [--json-int]] [-d max] [-o \"all\" | field[,...]]",
        "    [-t type[,...]] [-s source[,...]]",
        "    <\"all\" | property[,...]> [filesystem|volume|snapshot|bookmark] ...",
    ], "Print properties of datasets", "", flags! {
        'r' "" _ "also of everything below";
        'd' "" "DEPTH" "also of DEPTH levels below";
        't' "" "TYPE[,...]" "of these: filesystem, volume, snapshot, bookmark, all";
        's' "" "SOURCE[,...]" "with these sources: local, default, inherited, temporary,\n\
            received, none";
        'o' "" "FIELD[,...]" "print these columns: name, property, value, received, source, all";
        'H' "" _ "print no header, and a tab between columns";
        'p' "" _ "print exact numbers";
        'j' "json" _ "print JSON";
        _ "json-int" _ "with -j, print numbers as numbers";
    }),
    topic("inherit", &["inherit [-rS] <property> <filesystem|volume|snapshot> ..."],
        "Reset a property, so that it is inherited", "", flags! {
        'r' "" _ "also on all datasets below";
        'S' "" _ "go back to the received value, if there is one";
    }),
    topic("upgrade", &[
        "upgrade [-v]",
        "upgrade [-r] [-V version] <-a | filesystem ...>",
    ], "Upgrade the version of file systems, or list them", "", flags! {
        'a' "" _ "all file systems of all pools";
        'r' "" _ "also all file systems below";
        'V' "" "VERSION" "upgrade to this version only";
        'v' "" _ "list the versions";
    }),
], &[
    topic("userspace", &[
        "userspace [-Hinp] [-o field[,...]] [-s field] ...",
        "    [-S field] ... [-t type[,...]] <filesystem|snapshot|path>",
    ], "Print space used by users, and their quotas", "", SPACE),
    topic("groupspace", &[
        "groupspace [-Hinp] [-o field[,...]] [-s field] ...",
        "    [-S field] ... [-t type[,...]] <filesystem|snapshot|path>",
    ], "Print space used by groups, and their quotas", "", SPACE),
    topic("projectspace", &[
        "projectspace [-Hp] [-o field[,...]] [-s field] ...",
        "    [-S field] ... <filesystem|snapshot|path>",
    ], "Print space used by projects, and their quotas", "", flags! {
        'H' "" _ "print no header, and a tab between columns";
        'p' "" _ "print exact numbers";
        'o' "" "FIELD[,...]" "print these columns: type, name, used, quota, objused, objquota";
        's' "" "FIELD" "sort by this column (may be repeated)";
        'S' "" "FIELD" "sort by this column, largest first (may be repeated)";
    }),
], &[
    topic("project", &[
        "project [-d|-r] <directory|file ...>",
        "project -c [-0] [-d|-r] [-p id] <directory|file ...>",
        "project -C [-k] [-r] <directory ...>",
        "project [-p id] [-r] [-s] <directory ...>",
    ], "Set or list project numbers of files", "", flags! {
        'p' "" "ID" "this project number";
        'r' "" _ "also everything below";
        's' "" _ "set the inherit flag";
        'd' "" _ "the directory itself, not what is in it";
        'c' "" _ "check that numbers and flags agree";
        'C' "" _ "clear numbers and flags";
        'k' "" _ "with -C, keep the numbers";
        '0' "" _ "with -c, end each name with a NUL character";
    }),
], &[
    topic("mount", &[
        "mount [-j]",
        "mount [-flvO] [-o opts] <-a|-R filesystem|filesystem>",
    ], "Mount file systems, or list the mounts",
        "Mounts are made by FUSE. Without operands the mounts are listed.", flags! {
        'a' "" _ "all file systems of all pools";
        'R' "" _ "the file system and all below it";
        'o' "" "OPTION[,...]" "mount options: ro, noatime, nosuid, ...";
        'l' "" _ "load keys of encrypted file systems; asks for passphrases";
        'O' "" _ "mount over a directory that is not empty";
        'f' "" _ "mount although something speaks against it, such as missing redacted data";
        'v' "" _ "print what is mounted";
        'j' "json" _ "print JSON";
    }),
    topic("unmount", &["unmount [-fu] <-a | filesystem|mountpoint>"],
        "Unmount file systems", "", flags! {
        'a' "" _ "all file systems of all pools";
        'f' "" _ "although files are open; programs that have them open get errors";
        'u' "" _ "unload keys that are not needed any more";
    }),
    topic("share", &["share <-a [nfs|smb] | filesystem>"],
        "Share file systems", "", flags! { 'a' "" _ "all file systems"; }),
    topic("unshare", &["unshare <-a [nfs|smb] | filesystem|mountpoint>"],
        "Stop sharing file systems", "", flags! { 'a' "" _ "all file systems"; }),
], &[
    topic("send", &[
        "send [-DLPbcehnpsVvw] [-i|-I snapshot]",
        "     [-R [-X dataset[,dataset]...]]     <snapshot>",
        "send [-DnVvPLecw] [-i snapshot|bookmark] <filesystem|volume|snapshot>",
        "send [-DnPpVvLec] [-i bookmark|snapshot] --redact <bookmark> <snapshot>",
        "send [-nVvPe] -t <receive_resume_token>",
        "send [-PnVv] --saved filesystem",
    ], "Write a snapshot to standard output as a stream",
        "'zfs receive' makes a dataset of it, on this system or another, with Cenote or OpenZFS.\n\
         'cenote send --to FILE' writes to a file and can resume.", SEND),
    topic("receive", &[
        "receive [-vMnsFhu] [-o <property>=<value>] ... [-x <property>] ...",
        "    <filesystem|volume|snapshot>",
        "receive [-vMnsFhu] [-o <property>=<value>] ... [-x <property>] ...",
        "    [-d | -e] <filesystem>",
        "receive -A <filesystem|volume>",
    ], "Create or update a dataset from a stream on standard input", "", flags! {
        'F' "" _ "return the dataset to its latest snapshot first; with a -R stream, also\n\
            destroy what the sender does not have";
        's' "" _ "keep what was received if the stream breaks off, to resume later";
        'u' "" _ "do not mount it";
        'o' "" "PROPERTY=VALUE" "set a property instead of the received value (may be repeated)";
        'x' "" "PROPERTY" "ignore the received value (may be repeated)";
        'd' "" _ "the sender's name without its pool follows the given name";
        'e' "" _ "the last component of the sender's name follows the given name";
        'M' "" _ "unmount the file system by force";
        'h' "" _ "ignore holds";
        'c' "" _ "repair damaged blocks of the snapshot from the stream" hidden;
        'A' "" _ "delete what an interrupted receive left";
        'n' "" _ "only check what would be received";
        'v' "" _ "print what is received";
    }),
], &[
    topic("allow", &[
        "allow <filesystem|volume>",
        "allow [-ldug] <\"everyone\"|user|group>[,...] <perm|@setname>[,...]",
        "    <filesystem|volume>",
        "allow [-ld] -e <perm|@setname>[,...] <filesystem|volume>",
        "allow -c <perm|@setname>[,...] <filesystem|volume>",
        "allow -s @setname <perm|@setname>[,...] <filesystem|volume>",
    ], "Delegate permissions to users", ABOUT_ALLOW, ALLOW),
], &[
    topic("unallow", &[
        "unallow [-rldug] <\"everyone\"|user|group>[,...]",
        "    [<perm|@setname>[,...]] <filesystem|volume>",
        "unallow [-rld] -e [<perm|@setname>[,...]] <filesystem|volume>",
        "unallow [-r] -c [<perm|@setname>[,...]] <filesystem|volume>",
        "unallow [-r] -s @setname [<perm|@setname>[,...]] <filesystem|volume>",
    ], "Take delegated permissions back", ABOUT_UNALLOW, UNALLOW),
], &[
    topic("hold", &["hold [-r] <tag> <snapshot> ..."],
        "Hold snapshots, so that they cannot be destroyed", "", flags! {
        'r' "" _ "also those of all datasets below";
    }),
    topic("holds", &["holds [-rHp] <snapshot> ..."],
        "List holds", "", flags! {
        'r' "" _ "also those of all datasets below";
        'H' "" _ "print no header, and a tab between columns";
        'p' "" _ "print times in seconds since 1970";
    }),
    topic("release", &["release [-r] <tag> <snapshot> ..."],
        "Release holds", "", flags! {
        'r' "" _ "also those of all datasets below";
    }),
    topic("diff", &["diff [-FHth] <snapshot> [snapshot|filesystem]"],
        "List files that differ between a snapshot and a later state",
        "+ was created, - was removed, M was modified, R was renamed.", flags! {
        'F' "" _ "print the type of each file, as ls -F does";
        'H' "" _ "print a tab between columns, and no arrows";
        't' "" _ "print the time of each change";
        'h' "" _ "print names as they are, without escapes";
    }),
    topic("load-key", &["load-key [-rn] [-L <keylocation>] <-a | filesystem|volume>"],
        "Load the key of encrypted datasets",
        "The key is read from where keylocation says, or asked for.", flags! {
        'a' "" _ "all keys of all pools";
        'r' "" _ "also the keys of datasets below";
        'n' "" _ "only check whether the key is right";
        'L' "" "LOCATION" "read the key from here: prompt, file:///PATH or https://ADDRESS";
    }),
    topic("unload-key", &["unload-key [-r] <-a | filesystem|volume>"],
        "Unload the key of encrypted datasets",
        "The file systems must be unmounted.", flags! {
        'a' "" _ "all keys of all pools";
        'r' "" _ "also the keys of datasets below";
    }),
    topic("change-key", &[
        "change-key [-l] [-o keyformat=<value>]",
        "    [-o keylocation=<value>] [-o pbkdf2iters=<value>]",
        "    <filesystem|volume>",
        "change-key -i [-l] <filesystem|volume>",
    ], "Change the key of an encryption root", "", flags! {
        'o' "" "PROPERTY=VALUE" "keyformat, keylocation or pbkdf2iters of the new key";
        'i' "" _ "inherit the key of the dataset above";
        'l' "" _ "load the key first";
    }),
    topic("redact", &["redact <snapshot> <bookmark> <redaction_snapshot> ..."],
        "Make a redaction bookmark",
        "It lists the blocks of the snapshot that none of the redaction snapshots has any more.\n\
         'zfs send --redact' leaves them out. Redaction snapshots are later snapshots, usually of\n\
         clones. The same command resumes an interrupted one.", flags! {}),
    topic("wait", &["wait [-t <activity>] <filesystem>"],
        "Wait until work on a file system is complete", "", flags! {
        't' "" "ACTIVITY" "only for this: deleteq";
    }),
    topic("zone", &["zone <nsfile> <filesystem>"],
        "Give a dataset to a user namespace", "", flags! {}),
    topic("unzone", &["unzone <nsfile> <filesystem>"],
        "Take a dataset back from a user namespace", "", flags! {}),
]];
