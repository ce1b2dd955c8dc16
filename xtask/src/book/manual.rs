//! The manual pages as Markdown.
//!
//! `cenote man` writes pages in a few macros of man(7), and nothing else may be in them: a macro
//! that is not known here is an error, so that no page loses something quietly.

use crate::package::output;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A page of the manual in the book.
#[derive(Debug)]
pub struct Entry {
    /// Its name, such as `zpool-create`.
    pub name: String,
    /// Its section.
    pub section: String,
}

impl Entry {
    /// The file of the page.
    pub fn file(&self) -> String {
        format!("{}.{}.md", self.name, self.section)
    }
}

/// Writes all pages that are not only other names of one; their names in order.
pub fn write(program: &Path, to: &Path) -> Result<Vec<Entry>> {
    let scratch = to.with_extension("man");
    output(Command::new(program).args(["man", "--to"]).arg(&scratch))?;
    let mut sources = Vec::new();
    for section in fs::read_dir(&scratch)? {
        for page in fs::read_dir(section?.path())? {
            let path = page?.path();
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            let text = fs::read_to_string(&path)?;
            let (name, section) = file.rsplit_once('.').context("a page has a section")?;
            if !text.trim_start().starts_with(".so ") {
                let (name, section) = (name.to_owned(), section.to_owned());
                sources.push((Entry { name, section }, text));
            }
        }
    }
    sources.sort_by(|(one, _), (other, _)| {
        (&one.section, &one.name).cmp(&(&other.section, &other.name))
    });
    fs::create_dir_all(to)?;
    let is_there = |name: &str, section: &str| {
        sources
            .iter()
            .any(|(page, _)| page.name == name && page.section == section)
    };
    for (page, text) in &sources {
        let text = markdown(text, &is_there).with_context(|| page.file())?;
        fs::write(to.join(page.file()), text)?;
    }
    fs::remove_dir_all(scratch)?;
    Ok(sources.into_iter().map(|(page, _)| page).collect())
}

/// Text as a reader of the page sees it.
fn plain(text: &str) -> Result<String> {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let (shown, length) = match after.as_bytes() {
            [b'e', ..] => ('\\', 1),
            [b'-', ..] => ('-', 1),
            [b'&', ..] => ('\u{200b}', 1),
            [b'(', b'a', b'q', ..] => ('\'', 3),
            [b'(', b'g', b'a', ..] => ('`', 3),
            [b'(', b'h', b'a', ..] => ('^', 3),
            [b'(', b't', b'i', ..] => ('~', 3),
            [b'[', b'u', ..] => {
                let end = after.find(']').context("an escape without its end")?;
                let code = u32::from_str_radix(&after[2..end], 16)?;
                (char::from_u32(code).context("no character")?, end + 1)
            }
            _ => bail!("'\\{after}' is not understood"),
        };
        // What keeps a line from being a macro shows nothing.
        if shown != '\u{200b}' {
            plain.push(shown);
        }
        rest = &after[length..];
    }
    plain.push_str(rest);
    Ok(plain)
}

/// Text in which nothing is a mark of Markdown.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if "\\`*_{}[]<>#|~".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// A page, with links to those that are there.
fn markdown(roff: &str, is_there: &dyn Fn(&str, &str) -> bool) -> Result<String> {
    let mut text = String::new();
    // Lines that stay as they are, and the head of an entry, which the next line is.
    let (mut is_literal, mut is_head) = (false, false);
    for line in roff.lines() {
        let (request, rest) = match line.starts_with('.') {
            true => line.split_once(' ').unwrap_or((line, "")),
            false => ("", line),
        };
        match request {
            ".\\\"" | ".RS" | ".RE" => {}
            ".TH" => {
                let mut words = rest.split('"').skip(1).step_by(2);
                let name = plain(words.next().unwrap_or_default())?.to_lowercase();
                let section = words.next().unwrap_or_default();
                text.push_str(&format!("# {}({section})\n", escaped(&name)));
            }
            ".SH" => text.push_str(&format!("\n## {}\n\n", escaped(&plain(rest)?))),
            ".PP" => text.push('\n'),
            ".nf" => {
                text.push_str("\n```text\n");
                is_literal = true;
            }
            ".fi" => {
                text.push_str("```\n\n");
                is_literal = false;
            }
            ".TP" => {
                text.push('\n');
                is_head = true;
            }
            ".BR" => {
                let (name, section) = rest.split_once(" (").context(".BR without a section")?;
                let (section, comma) = section.split_once(')').context(".BR without its end")?;
                let name = plain(name)?;
                let shown = format!("{}({section})", escaped(&name));
                match is_there(&name, section) {
                    true => text.push_str(&format!("[{shown}]({name}.{section}.md){comma}\n")),
                    false => text.push_str(&format!("{shown}{comma}\n")),
                }
            }
            "" if is_literal => text.push_str(&format!("{}\n", plain(rest)?)),
            "" if is_head => {
                let head = rest.strip_prefix("\\fB").unwrap_or(rest);
                let head = plain(head.strip_suffix("\\fR").unwrap_or(head))?;
                // A code span with a grave accent in it would end there.
                match head.contains('`') {
                    true => text.push_str(&format!("**{}**  \n", escaped(&head))),
                    false => text.push_str(&format!("**`{head}`**  \n")),
                }
                is_head = false;
            }
            "" => text.push_str(&format!("{}\n", escaped(&plain(rest)?))),
            other => bail!("the macro '{other}' is not understood"),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_markdown() {
        let page = ".\\\" Made.\n.TH \"ZFS\\-X\" \"8\" \"\" \"Cenote\" \"\"\n.SH NAME\n\
                    zfs\\-x \\- do *it*\n.SH OPTIONS\n.TP\n\
                    \\fB\\-r, \\-\\-rate SIZE\\fR\nNo more.\n\
                    .PP\n.RS 4\n.nf\na \\-b \\(aqc\\(aq\n.fi\n.RE\n.SH SEE ALSO\n\
                    .BR zfs (8),\n.BR ls (1)\n";
        let text = markdown(page, &|name, _| name == "zfs").expect("a page");
        assert_eq!(
            text,
            "# zfs-x(8)\n\n## NAME\n\nzfs-x - do \\*it\\*\n\n## OPTIONS\n\n\n\
             **`-r, --rate SIZE`**  \nNo more.\n\n\n```text\na -b 'c'\n```\n\n\n\
             ## SEE ALSO\n\n[zfs(8)](zfs.8.md),\nls(1)\n"
        );
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for page in [".IP x\n", "a \\fIb\\fR\n", ".BR zfs\n"] {
            assert!(markdown(page, &|_, _| false).is_err(), "{page}");
        }
        assert_eq!(plain("\\&.so \\[u00E4]\\e").expect("text"), ".so ä\\");
    }
}
