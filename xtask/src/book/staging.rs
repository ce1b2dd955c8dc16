//! The documents of the repository, laid out for mdBook.

use super::manual::Entry;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use xtask::markdown::{self, joined};

/// Where the table of contents says that the manual pages belong.
const MARKER: &str = "<!-- the manual pages -->";

/// Whether a page belongs to a group.
type Belongs = fn(&Entry) -> bool;

/// The groups of manual pages, and which belong to them.
const GROUPS: [(&str, Belongs); 4] = [
    ("zpool", |page| {
        page.section == "8" && page.name.starts_with("zpool")
    }),
    ("zfs", |page| {
        page.section == "8" && !page.name.starts_with("zpool")
    }),
    ("cenote", |page| page.section == "1"),
    ("Properties, features, settings", |page| {
        page.section == "5" || page.section == "7"
    }),
];

/// Copies all documents of the table of contents below `directory`; how many there are.
pub fn stage(root: &Path, directory: &Path, pages: &[Entry]) -> Result<usize> {
    let source = directory.join("src");
    let contents = fs::read_to_string(root.join("docs/SUMMARY.md"))?;
    // A title of a group leads nowhere.
    let listed = markdown::links(&contents)
        .into_iter()
        .map(|link| link.target);
    let documents: BTreeSet<String> = listed
        .filter(|target| !target.is_empty())
        .map(|target| joined("docs", &target))
        .collect();
    for document in &documents {
        let text = fs::read_to_string(root.join(document)).with_context(|| document.clone())?;
        let to = source.join(as_index(document));
        fs::create_dir_all(to.parent().unwrap_or(&source))?;
        fs::write(to, within(&text, document, &documents))?;
    }
    let contents = markdown::with_links(&contents, |target| match target {
        "" => Some(String::new()),
        target => Some(as_index(&joined("docs", target))),
    });
    ensure!(
        contents.contains(MARKER),
        "docs/SUMMARY.md has no line '{MARKER}'"
    );
    let contents = contents.replace(MARKER, &listing(pages)?);
    fs::write(source.join("SUMMARY.md"), contents)?;
    fs::copy(root.join("docs/book.toml"), directory.join("book.toml"))?;
    Ok(documents.len())
}

/// A path or link as the site has it: what a directory shows first is its index there.
fn as_index(target: &str) -> String {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, format!("#{anchor}")),
        None => (target, String::new()),
    };
    let is_external = markdown::is_external(target);
    match path.strip_suffix("README.md") {
        Some(above) if !is_external => format!("{above}index.md{anchor}"),
        _ => target.to_owned(),
    }
}

/// A document with those links only that lead to something in the book or on the web.
fn within(text: &str, document: &str, documents: &BTreeSet<String>) -> String {
    let above = document.rsplit_once('/').map_or("", |(above, _)| above);
    markdown::with_links(text, |target| {
        let path = target.split('#').next().unwrap_or_default();
        let is_there = markdown::is_external(target)
            || path.is_empty()
            || documents.contains(&joined(above, path));
        is_there.then(|| as_index(target))
    })
}

/// The manual pages as lines of the table of contents.
fn listing(pages: &[Entry]) -> Result<String> {
    let mut text = String::new();
    for (title, belongs) in GROUPS {
        writeln!(text, "- [{title}]()")?;
        for page in pages.iter().filter(|page| belongs(page)) {
            writeln!(
                text,
                "  - [{}]({})",
                page.name,
                format_args!("reference/{}", page.file())
            )?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_leave_the_book_become_text() {
        let documents = ["README.md", "docs/a/x.md"].map(str::to_owned).into();
        let text = "[x](x.md#y), [up](../../README.md#z), [code](../../src/lib.rs), \
                    [web](https://e.org/README.md)";
        assert_eq!(
            within(text, "docs/a/z.md", &documents),
            "[x](x.md#y), [up](../../index.md#z), code, [web](https://e.org/README.md)\n"
        );
    }

    #[test]
    fn every_manual_page_is_in_one_group() {
        let page = |name: &str, section: &str| Entry {
            name: name.to_owned(),
            section: section.to_owned(),
        };
        for page in [
            page("zpool-create", "8"),
            page("zstream", "8"),
            page("mount.zfs", "8"),
            page("cenote-ls", "1"),
            page("zfsprops", "7"),
            page("cenote-settings", "5"),
        ] {
            let groups = GROUPS.iter().filter(|(_, belongs)| belongs(&page));
            assert_eq!(groups.count(), 1, "{page:?}");
        }
    }
}
