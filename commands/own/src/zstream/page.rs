//! The manual page of `zstream`.

use super::{NAME, TOPICS, USAGE};
use cenote_words::manual::{Page, Roff, examples_section, exit_status};

const SECTION: u8 = 8;

/// The page.
pub fn page() -> Page {
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
