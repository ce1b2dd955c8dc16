//! Examples of pages: a command line, and what it is for.
//!
//! They are in `examples.txt`: the name of a page, below it command lines that are indented by two
//! blanks, and below each what it does, indented by four. A test reads the lines with the options
//! of their commands, and looks for pages that have none.

use super::roff::Roff;

const TEXT: &str = include_str!("examples.txt");

/// A command line, and what it does.
pub type Example = (&'static str, &'static str);

/// The examples by the names of pages.
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
