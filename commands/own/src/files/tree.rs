//! `cenote tree`: draws directories and their contents as a tree.

use crate::reading::failure::{Exit, Failure, ended, posix_words};
use crate::reading::options::PoolOptions;
use crate::reading::output::Output;
use crate::reading::place::Place;
use crate::reading::session::{OpenFileSystem, Session, each_place};
use crate::reading::spec::Spec;
use cenote_base::ObjectId;
use cenote_posix::{DirectoryEntry, FileKind, PosixError, SymlinkPolicy, Znode};
use cenote_words::command::{Command, Run, flags};
use std::collections::HashSet;
use std::ffi::OsString;
use std::sync::Arc;

/// The maximum nesting of drawn directories: more do not fit on any screen.
const DEPTH_MAX: usize = 4096;

/// The command.
pub const COMMAND: Command = Command {
    name: "tree",
    summary: "Show a directory and all below it",
    synopsis: "[OPTION]... POOL/DATASET[@SNAPSHOT][:/PATH]...",
    about: "\
Draws a directory and all below it.",
    flags: flags! {
        'a' "all" _ "names that begin with a dot, too";
        'L' "depth" "N" "go down N levels only";
        _ "directories" _ "directories only";
    },
    run: Run::Reading(|words| ended(run(words))),
};

#[derive(Debug)]
struct Arguments {
    pool: PoolOptions,
    all: bool,
    directories: bool,
    depth: Option<u64>,
    specs: Vec<Spec>,
}

fn parse(words: &[OsString]) -> Result<Arguments, Failure> {
    let (line, pool) = PoolOptions::read(&COMMAND, words)?;
    Ok(Arguments {
        all: line.has("all"),
        directories: line.has("directories"),
        depth: line.number(&["depth"])?,
        specs: line.specs("give POOL/DATASET[:/path]")?,
        pool,
    })
}

fn run(words: Vec<OsString>) -> Result<Exit, Failure> {
    let arguments = parse(&words)?;
    let mut drawer = Drawer {
        output: Output::new(),
        arguments: &arguments,
        directories: 0,
        files: 0,
    };
    let (pool, specs) = (&arguments.pool, &arguments.specs);
    each_place(
        pool,
        specs,
        &mut drawer,
        |drawer| &mut drawer.output,
        Drawer::spec,
    )?;
    let (directories, files) = (drawer.directories, drawer.files);
    drawer.output.line(&format!(
        "\n{directories} {}, {files} {}",
        if directories == 1 {
            "directory"
        } else {
            "directories"
        },
        if files == 1 { "file" } else { "files" }
    ))?;
    drawer.output.finish()
}

struct Drawer<'a> {
    output: Output,
    arguments: &'a Arguments,
    directories: u64,
    files: u64,
}

/// A directory being drawn: its remaining entries, the last first.
struct Frame {
    path: Vec<u8>,
    left: Vec<(Vec<u8>, ObjectId)>,
    /// The prefix of its entries' lines.
    prefix: String,
}

impl Drawer<'_> {
    fn problem(&mut self, open: &OpenFileSystem, path: &[u8], error: &PosixError) {
        let place = Place::new(&open.name, path);
        self.output
            .complain(&format!("{place}: {}", posix_words(error)));
    }

    /// Whether to draw an entry. Entries of unknown kind are drawn.
    fn draws(&self, entry: &DirectoryEntry) -> bool {
        let kind = entry.target.kind.unwrap_or(FileKind::Directory);
        let is_hidden = entry.name.starts_with(b".") && !self.arguments.all;
        !is_hidden && (kind == FileKind::Directory || !self.arguments.directories)
    }

    fn spec(&mut self, session: &Session, spec: &Spec) -> Result<(), Failure> {
        let open = session.file_system(spec)?;
        let path = spec.path_or_root();
        let znode = open.resolve(path, SymlinkPolicy::FollowParents)?;
        self.output.text(&open.name)?;
        self.output.bytes(b":")?;
        self.output.name(path)?;
        self.output.bytes(b"\n")?;
        if znode.kind() != FileKind::Directory {
            self.files += 1;
            return Ok(());
        }
        let mut seen = HashSet::from([znode.id()]);
        let mut stack = vec![self.frame(&open, path.to_vec(), &znode, String::new())];
        while let Some(frame) = stack.last_mut() {
            let Some((name, object)) = frame.left.pop() else {
                stack.pop();
                continue;
            };
            let is_last = frame.left.is_empty();
            let branch = if is_last { "└── " } else { "├── " };
            let path = super::ls::child(&frame.path, &name);
            let prefix = format!("{}{}", frame.prefix, if is_last { "    " } else { "│   " });
            self.output.text(&frame.prefix)?;
            self.output.text(branch)?;
            let znode = match open.files.znode(object) {
                Ok(znode) => znode,
                Err(error) => {
                    self.output.name(&name)?;
                    self.output.bytes(b"\n")?;
                    self.problem(&open, &path, &error);
                    continue;
                }
            };
            self.entry(&open, &name, &znode)?;
            if znode.kind() != FileKind::Directory {
                self.files += 1;
                continue;
            }
            self.directories += 1;
            if self.enters(&open, &path, znode.id(), stack.len(), &mut seen) {
                stack.push(self.frame(&open, path, &znode, prefix));
            }
        }
        Ok(())
    }

    /// Whether to draw the contents of a directory.
    fn enters(
        &mut self,
        open: &OpenFileSystem,
        path: &[u8],
        object: ObjectId,
        depth: usize,
        seen: &mut HashSet<ObjectId>,
    ) -> bool {
        if !seen.insert(object) {
            let place = Place::new(&open.name, path);
            self.output
                .complain(&format!("{place}: this directory was drawn already"));
            return false;
        }
        let limit = self.arguments.depth.unwrap_or(u64::MAX);
        (depth as u64) < limit && depth < DEPTH_MAX
    }

    fn entry(&mut self, open: &OpenFileSystem, name: &[u8], znode: &Znode) -> Result<(), Failure> {
        self.output.name(name)?;
        if znode.kind() == FileKind::Symlink {
            match open.files.read_link(znode) {
                Ok(target) => {
                    self.output.text(" -> ")?;
                    self.output.name(&target)?;
                }
                Err(error) => self.problem(open, name, &error),
            }
        }
        self.output.bytes(b"\n")
    }

    fn frame(
        &mut self,
        open: &OpenFileSystem,
        path: Vec<u8>,
        directory: &Arc<Znode>,
        prefix: String,
    ) -> Frame {
        let mut left = Vec::new();
        match open.files.read_directory(directory, 0) {
            Err(error) => self.problem(open, &path, &error),
            // The first two entries are the directory itself and its parent.
            Ok(reader) => {
                for entry in reader.skip(2) {
                    match entry {
                        Ok(entry) if self.draws(&entry) => {
                            left.push((entry.name, entry.target.object));
                        }
                        Ok(_) => {}
                        Err(error) => self.problem(open, &path, &error),
                    }
                }
            }
        }
        left.sort_by(|a, b| b.0.cmp(&a.0));
        Frame { path, left, prefix }
    }
}
