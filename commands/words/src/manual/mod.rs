//! Manual pages, generated from the tables for parsing command lines and printing help.
//!
//! Manual pages written by hand go out of date. So the repository has none. `cenote man` generates
//! all of them, under the names that users type. They come from the table of each command
//! ([`crate::command::Command`], [`crate::program::Topic`]), and from the tables of properties,
//! features and settings. Texts that only the pages need are in a table here, which a test compares
//! with the code: [`property_texts`].
//!
//! Deliberately absent: tutorials. They are in `docs/`.

mod commands;
mod examples;
mod files;
pub mod page;
mod properties;
mod property_texts;
mod roff;

use std::path::{Path, PathBuf};

use crate::command::{Arguments, Command, Run, Table, flags};
use crate::context::{Context, Outcome, failed, usage};

pub use commands::{exit_status, options};
pub use examples::{all as examples, section as examples_section};
pub use page::Page;
pub use roff::Roff;

/// The command.
pub const COMMAND: Command = Command {
    name: "man",
    summary: "Print a manual page, or write all pages to a directory",
    synopsis: "PAGE | --list | --to DIRECTORY",
    about: "Pages have the names that man(1) knows: zpool-create, zfs-send, cenote-verify,\n\
            zfsprops. To read one without installing it:\n\
            \n\
            \x20 cenote man zpool-create | man -l -\n\
            \n\
            --to writes the pages below DIRECTORY/man1, DIRECTORY/man5, DIRECTORY/man7 and\n\
            DIRECTORY/man8, which is a directory for $MANPATH.",
    flags: flags! {
        _ "to" "DIRECTORY" "write all pages here";
        _ "list" _ "print the names of all pages";
    },
    run: Run::Describing(run),
};

/// All pages.
pub fn pages(table: &Table) -> Vec<Page> {
    let mut pages = commands::of_programs(table);
    pages.extend(commands::of_cenote(table.own));
    pages.extend(properties::pages());
    pages.extend(files::pages());
    pages.sort_by(|one, other| (&one.name, one.section).cmp(&(&other.name, other.section)));
    pages
}

fn run(table: &Table, arguments: &Arguments, context: &mut Context) -> Outcome {
    let pages = pages(table);
    if arguments.has("list") {
        arguments.only(&["list"])?;
        for page in &pages {
            context.line(&format!("{}({})", page.name, page.section));
        }
        return Ok(0);
    }
    if let Some(directory) = arguments.last("to") {
        if !arguments.operands.is_empty() {
            return usage("--to writes all pages; leave the name out");
        }
        let directory = context.directory.join(PathBuf::from(directory));
        return match write(&pages, &directory) {
            Ok(()) => Ok(0),
            Err((path, error)) => failed(format!(
                "cannot write {}: {error}; choose another directory",
                path.display()
            )),
        };
    }
    let [name] = arguments.operands.as_slice() else {
        return usage("");
    };
    let name = name.to_string_lossy();
    match pages.iter().find(|page| page.name == name) {
        Some(page) => {
            context.print(&page.text);
            Ok(0)
        }
        None => {
            let known = pages.iter().map(|page| page.name.as_str());
            let question = crate::texts::question(&name, known);
            let advice = "'cenote man --list' prints the names";
            failed(format!("there is no page '{name}'; {advice}{question}"))
        }
    }
}

/// Writes the pages. The error names the file that failed, and why.
fn write(pages: &[Page], directory: &Path) -> Result<(), (PathBuf, std::io::Error)> {
    for page in pages {
        let (name, section) = (&page.name, page.section);
        let below = directory.join(format!("man{section}"));
        std::fs::create_dir_all(&below).map_err(|error| (below.clone(), error))?;
        let path = below.join(format!("{name}.{section}"));
        std::fs::write(&path, &page.text).map_err(|error| (path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
