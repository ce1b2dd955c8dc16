//! The parts of a page to run.
//!
//! Two kinds of blocks are run. In `sh` blocks each line is a command. In `console` blocks each
//! line after `$ ` is a command, and the lines below are its output. Lines that end with a
//! backslash and here-documents continue in the next line. An HTML comment before a block,
//! invisible to readers, gives instructions:
//!
//! ```text
//! <!-- setup             what only the test needs: made in a shell of its own, before
//! truncate -s 1G /dev/sdb     the blocks that follow
//! -->
//! <!-- exit 1 -->        the last command of the next block ends with this code
//! <!-- not run: needs a second machine -->
//! ```

use anyhow::{Result, bail};

/// A page.
#[derive(Debug)]
pub struct Page {
    /// Its path below the workspace.
    pub name: String,
    /// What is run, in order.
    pub steps: Vec<Step>,
    /// The blocks that are not run: place and reason.
    pub not_run: Vec<String>,
}

/// One command.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// The line of the page, counted from 1.
    pub line: usize,
    /// What a shell gets.
    pub command: String,
    /// Whether it is the test's own, and runs in a shell of its own.
    pub is_setup: bool,
    /// The exit code that it has to have.
    pub code: i32,
    /// What it has to print, if the page shows that.
    pub expected: Option<Vec<String>>,
}

/// The instructions in the comments before a block.
#[derive(Default)]
struct Notes {
    code: i32,
    reason: Option<String>,
}

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// A block has no end, or a comment no block.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let mut page = Page {
            name: name.to_owned(),
            steps: Vec::new(),
            not_run: Vec::new(),
        };
        let mut notes = Notes::default();
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line));
        while let Some((number, line)) = lines.next() {
            let trimmed = line.trim_start();
            if trimmed == "<!-- setup" {
                let script = until(&mut lines, "-->", name, number)?;
                page.steps.push(Step::new(number, join(&script), true));
            } else if let Some(words) = comment(trimmed) {
                page.note(words, &mut notes, number)?;
            } else if let Some(language) = trimmed.strip_prefix("```") {
                let indent = line.len() - trimmed.len();
                let mut block = until(&mut lines, "```", name, number)?;
                for (_, line) in &mut block {
                    *line = line.get(indent..).unwrap_or_default();
                }
                let notes = std::mem::take(&mut notes);
                page.block(language.trim(), &block, notes, number)?;
            }
        }
        match notes.code != 0 || notes.reason.is_some() {
            true => bail!("{name}: the last comment is about no block"),
            false => Ok(page),
        }
    }

    /// The number of commands that readers see and that are run.
    pub fn commands(&self) -> usize {
        self.steps.iter().filter(|step| !step.is_setup).count()
    }

    /// The number of lines of output that are compared.
    pub fn lines(&self) -> usize {
        let expected = self.steps.iter().filter_map(|step| step.expected.as_ref());
        expected.map(Vec::len).sum()
    }

    fn note(&mut self, words: &str, notes: &mut Notes, line: usize) -> Result<()> {
        if let Some(code) = words.strip_prefix("exit ") {
            notes.code = code.parse()?;
        } else if let Some(reason) = words.strip_prefix("not run: ") {
            notes.reason = Some(reason.to_owned());
        } else if words.starts_with("setup") || words.starts_with("not run") {
            bail!("{}:{line}: '{words}' is not understood", self.name);
        }
        Ok(())
    }

    fn block(
        &mut self,
        language: &str,
        block: &[(usize, &str)],
        notes: Notes,
        line: usize,
    ) -> Result<()> {
        let is_run = ["sh", "console"].contains(&language);
        match (is_run, notes.reason) {
            (false, None) => return Ok(()),
            (false, Some(_)) => bail!("{}:{line}: only commands can be left out", self.name),
            (true, Some(reason)) => {
                self.not_run.push(format!("{}:{line}: {reason}", self.name));
                return Ok(());
            }
            (true, None) => {}
        }
        let mut steps = match language {
            "sh" => commands(block),
            _ => session(block),
        };
        match steps.last_mut() {
            Some(last) => last.code = notes.code,
            None => bail!("{}:{line}: the block has no command", self.name),
        }
        self.steps.extend(steps);
        Ok(())
    }
}

impl Step {
    fn new(line: usize, command: String, is_setup: bool) -> Self {
        Self {
            line,
            command,
            is_setup,
            code: 0,
            expected: None,
        }
    }
}

/// The words of a comment in one line.
fn comment(line: &str) -> Option<&str> {
    let words = line.strip_prefix("<!--")?.strip_suffix("-->")?;
    Some(words.trim())
}

/// The lines before the one that begins with `end`.
fn until<'a>(
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
    end: &str,
    name: &str,
    begun: usize,
) -> Result<Vec<(usize, &'a str)>> {
    let mut block = Vec::new();
    for (number, line) in lines {
        if line.trim_start().starts_with(end) {
            return Ok(block);
        }
        block.push((number, line));
    }
    bail!("{name}:{begun}: what begins here has no end")
}

fn join(lines: &[(usize, &str)]) -> String {
    lines.iter().map(|(_, line)| format!("{line}\n")).collect()
}

/// The word that ends a here-document which begins in this line.
fn end_of_document(line: &str) -> Option<&str> {
    let (_, word) = line.split_once("<<")?;
    let word = word.trim_start_matches(['-', '\'', '"']);
    let length = word.find(|c: char| !c.is_ascii_uppercase());
    let word = &word[..length.unwrap_or(word.len())];
    (!word.is_empty()).then_some(word)
}

/// The commands of a block `sh`.
fn commands(block: &[(usize, &str)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut is_continued, mut document) = (false, None);
    for &(number, line) in block {
        let is_document = document.is_some();
        if document == Some(line) {
            document = None;
        } else if !is_document {
            document = end_of_document(line);
        }
        match steps.last_mut() {
            Some(last) if is_continued || is_document => {
                last.command.push_str(line);
                last.command.push('\n');
            }
            _ if line.trim().is_empty() || line.starts_with('#') => continue,
            _ => steps.push(Step::new(number, format!("{line}\n"), false)),
        }
        is_continued = line.ends_with('\\');
    }
    steps
}

/// The commands of a block `console`, with what they print.
fn session(block: &[(usize, &str)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_continued = false;
    for &(number, line) in block {
        if let Some(command) = line.strip_prefix("$ ") {
            let mut step = Step::new(number, format!("{command}\n"), false);
            step.expected = Some(Vec::new());
            steps.push(step);
            is_continued = command.ends_with('\\');
        } else if let Some(last) = steps.last_mut() {
            match &mut last.expected {
                Some(expected) if !is_continued => expected.push(line.to_owned()),
                _ => {
                    last.command.push_str(line);
                    last.command.push('\n');
                }
            }
            is_continued = is_continued && line.ends_with('\\');
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
text
<!-- setup
touch a
-->
```sh
# Not a command.
one \\
    more
cat > f <<EOF
two
EOF
three      # why
```
<!-- exit 1 -->
```console
$ four
out
put
$ five
```
<!-- not run: it takes a year -->
```sh
six
```
1. in a list

   ```sh
   seven
   ```
```toml
[table]
```
";

    #[test]
    fn commands_and_their_output_are_found() {
        let page = Page::parse("p.md", PAGE).expect("a page");
        let commands: Vec<&str> = page.steps.iter().map(|step| &*step.command).collect();
        let wanted = [
            "touch a\n",
            "one \\\n    more\n",
            "cat > f <<EOF\ntwo\nEOF\n",
            "three      # why\n",
            "four\n",
            "five\n",
            "seven\n",
        ];
        assert_eq!(commands, wanted);
        let out = page.steps[4].expected.as_ref().expect("shown");
        assert_eq!(out, &["out", "put"]);
        let codes: Vec<i32> = page.steps.iter().map(|step| step.code).collect();
        assert_eq!(codes, [0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(page.not_run, ["p.md:22: it takes a year"]);
        assert_eq!((page.commands(), page.lines()), (6, 2));
    }

    /// A misread comment would exclude a block, or run a block that must not run.
    #[test]
    fn what_is_wrong_is_an_error() {
        for text in [
            "```sh\none\n",
            "<!-- setup\none\n",
            "<!-- not run -->\n```sh\none\n```\n",
            "<!-- not run: why -->\n```toml\none\n```\n",
            "<!-- exit 1 -->\n",
            "```sh\n```\n",
        ] {
            assert!(Page::parse("p.md", text).is_err(), "{text}");
        }
    }
}
