//! The description of `zstream`: its usage, its commands, its manual page.

use cenote_words::command::{Other, flags};
use cenote_words::manual::{Page, Roff, examples_section, exit_status};
use cenote_words::program::{Topic, topic};

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
    topics: TOPICS,
    page,
};

/// The commands: what they do, their synopses and options.
#[rustfmt::skip]
pub const TOPICS: &[Topic] = &[
    topic("dump", &["zstream dump [-vCd] FILE", "... | zstream dump [-vCd]"],
        "Print the records of a stream", "", flags! {
        'v' "" _ "all of them";
        'd' "" _ "data, too";
        'C' "" _ "check nothing";
    }),
    topic("decompress", &["zstream decompress [-v] [OBJECT,OFFSET[,TYPE]] ..."],
        "Decompress blocks of a stream: those named", "", flags! {
        'v' "" _ "say which";
    }),
    topic("recompress", &["zstream recompress [ -l level] TYPE"],
        "Recompress the blocks of a stream", "", flags! { 'l' "" "LEVEL" "the level"; }),
    topic("token", &["zstream token resume_token"],
        "Print what a resume token says", "", flags! {}),
    topic("redup", &["zstream redup [-v] FILE | ..."],
        "Write a stream with deduplicated records as one without", "", flags! {
        'v' "" _ "say how many there were";
    }),
];

/// Printed for a wrong command line and for `help`.
pub fn usage() -> String {
    let mut text = "usage: zstream command args ...\nAvailable commands are:\n".to_owned();
    for topic in TOPICS {
        text.push('\n');
        for line in topic.synopsis {
            text.push_str(&format!("\t{line}\n"));
        }
    }
    text
}

/// Its manual page.
fn page() -> Page {
    let mut roff = Roff::new(NAME, SECTION, "look into send streams and change them");
    roff.section("SYNOPSIS");
    roff.lines(TOPICS.iter().flat_map(|topic| topic.synopsis).copied());
    roff.section("DESCRIPTION");
    roff.prose(
        "A send stream is what 'zfs send' writes. These commands need neither a pool nor a daemon.",
    );
    roff.section("COMMANDS");
    for topic in TOPICS {
        roff.entry(&format!("zstream {}", topic.name), &topic.sentences());
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
