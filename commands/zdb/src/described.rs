//! The description of `zdb`: its options, its usage, its manual page.

use cenote_words::command::{Flag, Other, flags};
use cenote_words::manual::{Page, Roff, examples_section, exit_status, options};
use cenote_words::program::{Topic, topic};

/// Its manual section.
const SECTION: u8 = 8;

/// Its name.
pub const NAME: &str = "zdb";

/// The description.
pub const OTHER: Other = Other {
    name: NAME,
    alias: "",
    topics: TOPICS,
    page,
};

/// Its options.
pub(crate) const FLAGS: &[Flag] = flags! {
    'b' "block-stats" _ "Blocks by type; -bb each type, -bbb each level of each type;\n\
        with objects of a dataset, -bbbbbb whole block pointers";
    'c' "checksum" _ "Read and verify all metadata; -cc all data, too";
    'C' "config" _ "The pool's configuration; without a pool, the cache file's";
    'd' "datasets" _ "Datasets; -dd their objects, -dddd what is in them, -ddddd their blocks";
    'i' "intent-logs" _ "Headers of intent logs; -ii their records";
    'l' "label" _ "The labels of a device; -ll statistics, -lll all four";
    'O' "object-lookups" _ "The object at a path in a dataset";
    'r' "copy-object" _ "Copy a file out of a dataset";
    'R' "read-block" _ "Read what is stored at an address";
    'u' "uberblock" _ "The uberblock; with -l those of the labels";
    'v' "verbose" _ "More of everything that is asked for";
    'e' "exported" _ "Search for the pool's devices; it need not be imported";
    'F' "automatic-rewind" _ "If the newest state cannot be opened, an earlier one";
    'k' "checkpointed-state" _ "The state at the checkpoint";
    'K' "key" "KEY" "The key of an encrypted dataset; other users see it in lists of processes";
    'L' "disable-leak-tracking" _ "With -b, do not compare with the space maps";
    'p' "path" "PATH" "With -e, search in this directory, or open this device; repeat for more";
    'P' "parseable" _ "Exact numbers";
    'q' "skip-label" _ "With -l, do not print the labels themselves";
    't' "txg" "TXG" "The newest state up to this transaction group";
    'U' "cachefile" "FILE" "Take the pool's devices from this cache file";
    'X' "extreme-rewind" _ "If the newest state cannot be opened, any earlier one";
};

/// Its forms.
#[rustfmt::skip]
const TOPICS: &[Topic] = &[
    topic(NAME, &[
        "zdb [-bcCdikLPuvFX] [-e [-p PATH]...] [-t TXG] [-U FILE] POOL",
        "zdb -d [-ikPvFX] [-e [-p PATH]...] [-t TXG] [-U FILE] [-K KEY]",
        " POOL[/DATASET|/NUMBER] [OBJECT|START:END[:FLAGS]]...",
        "zdb -C [-U FILE]",
        "zdb -l [-quv] DEVICE",
        "zdb -O [-v] [-e [-p PATH]...] [-K KEY] DATASET PATH",
        "zdb -r [-e [-p PATH]...] [-K KEY] DATASET PATH DESTINATION",
        "zdb -R [-e [-p PATH]...] POOL VDEV:OFFSET:SIZE[:FLAGS]",
    ], "Print what is stored in a pool", "", FLAGS),
];

/// Why an option of OpenZFS's command is not here.
pub(crate) fn refused(option: &str) -> Option<&'static str> {
    Some(match option {
        "-A" => "there are no assertions to ignore; damage is reported and passed over",
        "-B" => "'zfs send' and 'cenote send' make streams",
        "-D" | "-S" | "-T" => "'cenote inspect dedup' shows the tables of shared blocks",
        "-E" => "'cenote inspect bp' shows and checks block pointers",
        "-G" | "-o" => {
            "this is not OpenZFS's kernel code, and has neither its log nor its variables"
        }
        "-h" => "'zpool history -il' and 'cenote inspect history' show the history",
        "-I" => "the number of reads at a time follows the devices",
        "-m" | "-M" => "'cenote inspect spacemaps' shows metaslabs",
        "-s" => "'zpool iostat' shows devices of an imported pool",
        "-V" | "-x" | "-Y" | "-Z" => "not supported",
        "-y" => "'cenote verify' checks the whole pool",
        _ => return None,
    })
}

/// Printed for a wrong command line, and for `--help`.
pub(crate) fn synopsis() -> String {
    TOPICS[0].usage()
}

/// Its manual page.
fn page() -> Page {
    let mut roff = Roff::new(NAME, SECTION, "print what is stored in a pool");
    roff.section("SYNOPSIS");
    roff.lines(TOPICS[0].synopsis.iter().copied());
    roff.section("DESCRIPTION");
    roff.prose(
        "zdb prints what is on the devices of a pool, in the format of OpenZFS's zdb. It is for \
         diagnosis and for learning the format. It never writes, and never asks the daemon to.\n\
         \n\
         Without -e and -U, the pool is one that the daemon has imported. zdb then reads the \
         devices itself, at the newest transaction group on disk when it started, with the keys \
         that the daemon has loaded. If the daemon writes meanwhile, blocks of that state may be \
         used again, and zdb reports them as damaged: run it again, or read a checkpoint (-k). \
         With -e zdb searches for devices: in the directories of -p, or in the usual places.\n\
         \n\
         Without an option that selects a part, zdb prints -C, -u, -d and -b of a pool, and -d of \
         a dataset. What cannot be read is reported on standard error and passed over.",
    );
    options(&mut roff, "OPTIONS", FLAGS);
    roff.section("OBJECTS");
    roff.prose(
        "OBJECT is a number. START:END is a range; END is -1 for no upper bound. FLAGS select \
         types: d directories, f files, m space maps, z ZAPs, A all; - negates the next flag.\n\
         \n\
         VDEV, OFFSET and SIZE of -R are hexadecimal, as in printed block pointers. FLAGS are i \
         (print block pointers) and r (write the bytes).",
    );
    roff.section("LIMITS");
    roff.prose(
        "These options of OpenZFS's zdb are refused, and the message says what to use: -A, -B, -D, \
         -E, -G, -h, -I, -m, -M, -o, -s, -S, -T, -V, -x, -y, -Y, -Z.\n\
         \n\
         -cc reads one good copy of each block. 'cenote verify --all-copies' reads all.",
    );
    exit_status(
        &mut roff,
        &[
            ("0", "Everything was read, and nothing is wrong."),
            ("1", "Something cannot be opened or read, or is damaged."),
            (
                "2",
                "The command line is wrong, or with -l, there is no label.",
            ),
            (
                "3",
                "With -b or -c: blocks are damaged, or do not match the space maps.",
            ),
        ],
    );
    examples_section(&mut roff, NAME);
    roff.see_also(&[
        ("cenote-inspect".to_owned(), 1),
        ("cenote-verify".to_owned(), 1),
        ("zpool-status".to_owned(), 8),
    ]);
    Page {
        name: NAME.to_owned(),
        section: SECTION,
        text: roff.finish(),
    }
}
