//! Examples on manual pages: a command line, and its purpose.
//!
//! They are in `examples.txt`. The name of a page is followed by command lines indented by two
//! spaces. Below each is its purpose, indented by four. A test parses the lines with the options of
//! their commands, and reports pages without examples.

use super::roff::Roff;

const TEXT: &str = include_str!("examples.txt");

/// A command line, and its purpose.
pub type Example = (&'static str, &'static str);

/// The examples of each page.
pub fn all() -> Vec<(&'static str, Vec<Example>)> {
    let mut all: Vec<(&str, Vec<Example>)> = Vec::new();
    let mut command = "";
    for line in TEXT.lines() {
        let text = line.trim_start();
        match (line.len() - text.len(), all.last_mut()) {
            (0, _) => all.push((text, Vec::new())),
            (2, _) => command = text,
            (_, Some((_, examples))) => examples.push((command, text)),
            (_, None) => {}
        }
    }
    all
}

/// The section EXAMPLES of a page, if it has any.
pub fn section(roff: &mut Roff, page: &str) {
    let Some((_, examples)) = all().into_iter().find(|(name, _)| *name == page) else {
        return;
    };
    roff.section("EXAMPLES");
    for (command, text) in examples {
        roff.prose(&format!("{text}\n  {command}\n\n"));
    }
}
