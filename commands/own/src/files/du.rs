//! `cenote du`: the space that files and directories take.
//!
//! A file with several names counts once, under the first name that the walk reaches.

use crate::reading::failure::{Exit, Failure, ended, posix_words};
use crate::reading::options::PoolOptions;
use crate::reading::output::{Output, json_bytes};
use crate::reading::place::Place;
use crate::reading::session::{OpenFileSystem, Session, each_place};
use crate::reading::spec::Spec;
use cenote_posix::{FileKind, SymlinkPolicy, Znode};
use cenote_words::command::{Command, Run, flags};
use serde_json::json;
use std::collections::HashSet;
use std::ffi::OsString;

/// The command.
pub const COMMAND: Command = Command {
    name: "du",
    summary: "Show how much space files take",
    synopsis: "[OPTION]... POOL/DATASET[@SNAPSHOT][:/PATH]...",
    about: "\
Adds up the space that is allocated for files, in KiB, for each directory. A file with
several names counts once.",
    flags: flags! {
        'h' "human-readable" _ "sizes with units";
        's' "summarize" _ "only the sum of each argument";
        _ "depth" "N" "show directories down to N levels only (--max-depth)";
        _ "max-depth" "N" "";
        'a' "all" _ "files too";
        'b' "apparent-size" _ "sizes of files in bytes, not what is allocated";
        'j' "json" _ "a JSON object a line";
    },
    run: Run::Reading(|words| ended(run(words))),
};

#[derive(Debug)]
struct Arguments {
    pool: PoolOptions,
    human: bool,
    apparent: bool,
    all: bool,
    json: bool,
    depth: Option<u64>,
    specs: Vec<Spec>,
}

fn parse(words: &[OsString]) -> Result<Arguments, Failure> {
    let (line, pool) = PoolOptions::read(&COMMAND, words)?;
    Ok(Arguments {
        human: line.has("human-readable"),
        apparent: line.has("apparent-size"),
        all: line.has("all"),
        json: line.has("json"),
        depth: match line.last_of(&["summarize", "depth", "max-depth"]) {
            Some("summarize") => Some(0),
            _ => line.number(&["depth", "max-depth"])?,
        },
        specs: line.specs("give POOL/DATASET[:/path]")?,
        pool,
    })
}

fn run(words: Vec<OsString>) -> Result<Exit, Failure> {
    let arguments = parse(&words)?;
    let mut adder = Adder {
        output: Output::new(),
        arguments: &arguments,
        counted: HashSet::new(),
    };
    let (pool, specs) = (&arguments.pool, &arguments.specs);
    each_place(
        pool,
        specs,
        &mut adder,
        |adder| &mut adder.output,
        Adder::spec,
    )?;
    adder.output.finish()
}

struct Adder<'a> {
    output: Output,
    arguments: &'a Arguments,
    /// Objects with several names that are already counted.
    counted: HashSet<(u64, u64)>,
}

/// A directory whose sum is incomplete.
struct Frame {
    path: Vec<u8>,
    bytes: u64,
}

impl Adder<'_> {
    fn spec(&mut self, session: &Session, spec: &Spec) -> Result<(), Failure> {
        let open = session.file_system(spec)?;
        let path = spec.path_or_root();
        let start = open.resolve(path, SymlinkPolicy::FollowParents)?;
        let walk = open.files.walk(start.id());
        let walk = walk.map_err(|source| open.failure(path, source))?;
        let mut stack: Vec<Frame> = Vec::new();
        for item in walk {
            let item = match item {
                Ok(item) => item,
                Err(error) => {
                    let place = Place::new(&open.name, path);
                    self.output
                        .complain(&format!("{place}: {}", posix_words(&error)));
                    continue;
                }
            };
            while stack
                .last()
                .is_some_and(|frame| !is_below(&item.path, &frame.path))
            {
                self.close(&open, path, &mut stack)?;
            }
            let bytes = self.size(&open, &item.znode);
            if item.znode.kind() == FileKind::Directory {
                let path = item.path;
                stack.push(Frame { path, bytes });
                continue;
            }
            let depth = stack.len() as u64;
            match stack.last_mut() {
                Some(frame) => frame.bytes = frame.bytes.saturating_add(bytes),
                None => self.print(&open, path, b"", bytes)?,
            }
            if self.arguments.all && depth > 0 && self.shows(depth) {
                self.print(&open, path, &item.path, bytes)?;
            }
        }
        while !stack.is_empty() {
            self.close(&open, path, &mut stack)?;
        }
        Ok(())
    }

    fn shows(&self, depth: u64) -> bool {
        self.arguments.depth.is_none_or(|limit| depth <= limit)
    }

    /// Ends the innermost directory: prints its sum and adds it to the parent's.
    fn close(
        &mut self,
        open: &OpenFileSystem,
        start: &[u8],
        stack: &mut Vec<Frame>,
    ) -> Result<(), Failure> {
        let Some(frame) = stack.pop() else {
            return Ok(());
        };
        if let Some(above) = stack.last_mut() {
            above.bytes = above.bytes.saturating_add(frame.bytes);
        }
        match self.shows(stack.len() as u64) {
            true => self.print(open, start, &frame.path, frame.bytes),
            false => Ok(()),
        }
    }

    fn size(&mut self, open: &OpenFileSystem, znode: &Znode) -> u64 {
        let stat = open.files.stat(znode);
        let is_directory = stat.kind == FileKind::Directory;
        let key = (open.dataset.objset_id().0, znode.id().0);
        if !is_directory && stat.links > 1 && !self.counted.insert(key) {
            return 0;
        }
        match self.arguments.apparent {
            true if is_directory => 0,
            true => stat.size,
            false => stat.blocks.saturating_mul(512),
        }
    }

    fn print(
        &mut self,
        open: &OpenFileSystem,
        start: &[u8],
        path: &[u8],
        bytes: u64,
    ) -> Result<(), Failure> {
        let whole = match path.is_empty() {
            true => start.to_vec(),
            false => super::ls::child(start, path),
        };
        if self.arguments.json {
            let dataset = open.name.as_str();
            let path = json_bytes(&whole);
            return self
                .output
                .json(&json!({"dataset": dataset, "path": path, "bytes": bytes}));
        }
        let size = match self.arguments.human {
            true => cenote_words::format::number::nicebytes(bytes),
            false if self.arguments.apparent => bytes.to_string(),
            false => bytes.div_ceil(1024).to_string(),
        };
        self.output.text(&format!("{size}\t"))?;
        self.output.name(&whole)?;
        self.output.bytes(b"\n")
    }
}

/// Whether `path` is below `directory`; everything is below the start.
fn is_below(path: &[u8], directory: &[u8]) -> bool {
    directory.is_empty()
        || path
            .strip_prefix(directory)
            .is_some_and(|rest| rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_means_a_slash_between() {
        assert!(is_below(b"a/b", b"a") && is_below(b"a", b""));
        assert!(!is_below(b"ab", b"a") && !is_below(b"a", b"a"));
    }
}
