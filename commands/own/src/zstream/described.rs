//! The description of `zstream`: its usage, its commands, its manual page.

use cenote_words::command::Other;
use cenote_words::manual::{Page, Roff, examples_section, exit_status};

/// Its manual section.
const SECTION: u8 = 8;

/// The name under which the binary runs it.
pub const NAME: &str = "zstream";
/// An old name of `zstream dump`.
pub const DUMP_NAME: &str = "zstreamdump";

/// The description.
pub const OTHER: Other = Other {
    name: NAME,
    alias: DUMP_NAME,
    topics: &TOPICS,
    page,
};

/// Printed for a wrong command line and for `help`.
pub const USAGE: &str = "\
usage: zstream command args ...
Available commands are:

\tzstream dump [-vCd] FILE
\t... | zstream dump [-vCd]

\tzstream decompress [-v] [OBJECT,OFFSET[,TYPE]] ...

\tzstream recompress [ -l level] TYPE

\tzstream token resume_token

\tzstream redup [-v] FILE | ...
";

/// The commands, and what they do.
pub const TOPICS: [(&str, &str); 5] = [
    (
        "dump",
        "Print the records of a stream. -v: all of them; -d: data, too; -C: check nothing.",
    ),
    (
        "decompress",
        "Decompress blocks of a stream: those named, or with -v saying which.",
    ),
    (
        "recompress",
        "Recompress the blocks of a stream. -l: the level.",
    ),
    ("token", "Print what a resume token says."),
    (
        "redup",
        "Write a stream with deduplicated records as one without.",
    ),
];

/// Its manual page.
fn page() -> Page {
    let mut roff = Roff::new(NAME, SECTION, "look into send streams and change them");
    roff.section("SYNOPSIS");
    let lines = USAGE.lines().filter(|line| line.starts_with('\t'));
    roff.lines(lines.map(str::trim_start));
    roff.section("DESCRIPTION");
    roff.prose(
        "A send stream is what 'zfs send' writes. These commands need neither a pool nor a daemon.",
    );
    roff.section("COMMANDS");
    for (name, text) in TOPICS {
        roff.entry(&format!("zstream {name}"), text);
    }
    exit_status(
        &mut roff,
        &[
            ("0", "Success."),
            ("1", "The stream is damaged, or the command line is wrong."),
        ],
    );
    examples_section(&mut roff, NAME);
    roff.see_also(&[("zfs-send".to_owned(), 8), ("zfs-receive".to_owned(), 8)]);
    Page {
        name: NAME.to_owned(),
        section: SECTION,
        text: roff.finish(),
    }
}
