//! `notes`: joins the notes of single changes into a section of CHANGELOG.md.
//!
//! Each change that a user notices leaves a file in `changelog/`, `NAME.KIND.md`, with the text of
//! one entry. Two changes made at the same time thus never touch the same lines. `cargo xtask
//! notes` moves all of them below the version of Cargo.toml, and `release` uses that section.

use crate::package::version;
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The kinds of notes, in the order of the changelog, and their titles.
const KINDS: [(&str, &str); 4] = [
    ("added", "Added"),
    ("changed", "Changed"),
    ("fixed", "Fixed"),
    ("removed", "Removed"),
];

/// What the new section is written above: the first section that is there.
const SECTION: &str = "\n## ";

/// `notes [--draft]`: writes the section and removes the files; with `--draft` prints it.
pub fn run(arguments: &[String]) -> Result<bool> {
    let is_draft = match arguments {
        [] => false,
        [word] if word == "--draft" => true,
        _ => bail!("usage: cargo xtask notes [--draft]"),
    };
    let pending = Pending::read(&directory())?;
    if is_draft {
        print!("{}", pending.text());
        return Ok(true);
    }
    ensure!(!pending.files.is_empty(), "changelog/ has no notes");
    let path = workspace::root().join("CHANGELOG.md");
    let changes = std::fs::read_to_string(&path)?;
    let title = format!("## {} - {}", version(), today()?);
    let joined = insert(&changes, &title, &pending.text())?;
    std::fs::write(&path, joined)?;
    for file in &pending.files {
        std::fs::remove_file(file)?;
    }
    println!("CHANGELOG.md: {title}, {} notes", pending.files.len());
    Ok(true)
}

/// The notes that no release has yet, as the text of a section.
pub fn pending() -> Result<String> {
    Ok(Pending::read(&directory())?.text())
}

fn directory() -> PathBuf {
    workspace::root().join("changelog")
}

fn today() -> Result<String> {
    let date = crate::package::output(std::process::Command::new("date").args(["--utc", "+%F"]))?;
    Ok(date.trim().to_owned())
}

/// The notes of single changes.
#[derive(Debug, Default)]
struct Pending {
    files: Vec<PathBuf>,
    /// The texts by the position of their kind, in the order of their names.
    by_kind: BTreeMap<usize, Vec<String>>,
}

impl Pending {
    fn read(directory: &Path) -> Result<Self> {
        let entries = std::fs::read_dir(directory)
            .with_context(|| format!("cannot list {}", directory.display()))?;
        let mut files: Vec<PathBuf> = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<std::io::Result<_>>()?;
        files.retain(|path| path.file_name().is_some_and(|name| name != "README.md"));
        files.sort();
        let mut by_kind: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for path in &files {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let kind = kind(&name).with_context(|| {
                let kinds = KINDS.map(|(word, _)| word).join(", ");
                format!("changelog/{name}: the name is NAME.KIND.md, with a kind of {kinds}")
            })?;
            let text = std::fs::read_to_string(path)?;
            let text = text.trim();
            ensure!(!text.is_empty(), "changelog/{name} is empty");
            by_kind.entry(kind).or_default().push(text.to_owned());
        }
        Ok(Self { files, by_kind })
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (kind, entries) in &self.by_kind {
            text += &format!("\n### {}\n\n", KINDS[*kind].1);
            for entry in entries {
                let entry = entry.strip_prefix("- ").unwrap_or(entry);
                let indented: Vec<&str> = entry.lines().map(str::trim).collect();
                text += &format!("- {}\n", indented.join("\n  "));
            }
        }
        text
    }
}

/// The position of the kind in `NAME.KIND.md`.
fn kind(name: &str) -> Option<usize> {
    let (name, kind) = name.strip_suffix(".md")?.rsplit_once('.')?;
    let position = KINDS.iter().position(|(word, _)| *word == kind)?;
    (!name.is_empty()).then_some(position)
}

/// The changelog with a new section above all others.
fn insert(changes: &str, title: &str, text: &str) -> Result<String> {
    let wanted = title.split(" - ").next().unwrap_or(title);
    let is_taken = changes
        .lines()
        .any(|line| line.split(" - ").next() == Some(wanted));
    ensure!(
        !is_taken,
        "CHANGELOG.md has a section '{wanted}' already: raise the version in Cargo.toml first"
    );
    let at = changes.find(SECTION).unwrap_or(changes.len());
    let (head, rest) = changes.split_at(at);
    Ok(format!("{}\n\n{title}\n{text}{rest}", head.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_joined_by_kind_and_put_above_older_sections() -> Result<()> {
        let directory = tempfile::tempdir()?;
        for (name, text) in [
            ("README.md", "How notes are written.\n"),
            ("b.fixed.md", "- A fault.\n"),
            ("c.added.md", "Second.\n  It has two lines.\n"),
            ("a.added.md", "First.\n"),
        ] {
            std::fs::write(directory.path().join(name), text)?;
        }
        let pending = Pending::read(directory.path())?;
        assert_eq!(pending.files.len(), 3);
        let text = "\n### Added\n\n- First.\n- Second.\n  It has two lines.\n\
                    \n### Fixed\n\n- A fault.\n";
        assert_eq!(pending.text(), text);
        let changes = "# Changelog\n\nAbout it.\n\n## 0.1.0 - 2026-01-01\n\nOld.\n";
        let joined = insert(changes, "## 0.2.0 - 2026-02-01", text)?;
        let expected = "# Changelog\n\nAbout it.\n\n## 0.2.0 - 2026-02-01\n\n### Added\n\n\
                        - First.\n- Second.\n  It has two lines.\n\n### Fixed\n\n- A fault.\n\
                        \n## 0.1.0 - 2026-01-01\n\nOld.\n";
        assert_eq!(joined, expected);
        assert!(insert(&joined, "## 0.2.0 - 2026-03-01", text).is_err());
        for name in ["odd.md", ".added.md", "a.better.md"] {
            assert_eq!(kind(name), None, "{name}");
        }
        Ok(())
    }
}
