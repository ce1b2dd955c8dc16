//! `cenote ls`: lists a directory.

use super::entry::Entry;
use super::show::{Clock, mode_text};
use crate::reading::failure::{Exit, Failure, ended, posix_words};
use crate::reading::options::PoolOptions;
use crate::reading::output::Output;
use crate::reading::place::Place;
use crate::reading::session::{OpenFileSystem, Session, each_place};
use crate::reading::spec::Spec;
use cenote_posix::{DirectoryEntry, FileKind, PosixError, SymlinkPolicy, Znode};
use cenote_words::command::{Command, Run, flags};
use serde_json::Value;
use std::collections::HashSet;
use std::ffi::OsString;
use std::sync::Arc;

/// Files whose attributes are read at once.
const BATCH: usize = 1024;

/// The command.
pub const COMMAND: Command = Command {
    name: "ls",
    summary: "List directories",
    synopsis: "[OPTION]... POOL/DATASET[@SNAPSHOT][:/PATH]...",
    about: "\
Lists directories, in order of names. Owners are shown as numbers, since the names of the
system that wrote the pool are not known here.

Example:
  cenote ls -l -d /mnt/images tank/home@monday:/alice",
    flags: flags! {
        'l' "long" _ "mode (+: has an access control list), links, owner, group, size, time";
        'a' "all" _ "names that begin with a dot, too";
        'R' "recursive" _ "and all directories below";
        'j' "json" _ "a JSON object a line: path, type, mode, times in nanoseconds, ...";
    },
    run: Run::Reading(|words| ended(run(words))),
};

#[derive(Debug)]
struct Arguments {
    pool: PoolOptions,
    long: bool,
    all: bool,
    recursive: bool,
    json: bool,
    specs: Vec<Spec>,
}

fn parse(words: &[OsString]) -> Result<Arguments, Failure> {
    let (line, pool) = PoolOptions::read(&COMMAND, words)?;
    Ok(Arguments {
        long: line.has("long"),
        all: line.has("all"),
        recursive: line.has("recursive"),
        json: line.has("json"),
        specs: line.specs("give POOL/DATASET:/path")?,
        pool,
    })
}

fn run(words: Vec<OsString>) -> Result<Exit, Failure> {
    let arguments = parse(&words)?;
    let mut lister = Lister {
        output: Output::new(),
        clock: Clock::local(),
        is_first: true,
        arguments: &arguments,
    };
    let (pool, specs) = (&arguments.pool, &arguments.specs);
    each_place(
        pool,
        specs,
        &mut lister,
        |lister| &mut lister.output,
        Lister::spec,
    )?;
    lister.output.finish()
}

struct Lister<'a> {
    output: Output,
    clock: Clock,
    is_first: bool,
    arguments: &'a Arguments,
}

/// A file and its name, or its path.
struct Item {
    name: Vec<u8>,
    znode: Arc<Znode>,
}

impl Lister<'_> {
    fn spec(&mut self, session: &Session, spec: &Spec) -> Result<(), Failure> {
        let open = session.file_system(spec)?;
        let path = spec.path_or_root();
        let znode = open.resolve(path, SymlinkPolicy::FollowParents)?;
        if znode.kind() != FileKind::Directory {
            let item = Item {
                name: path.to_vec(),
                znode,
            };
            return self.items(&open, path, &[item]);
        }
        let has_titles = self.arguments.recursive || self.arguments.specs.len() > 1;
        let base = path.strip_suffix(b"/").unwrap_or(path).to_vec();
        let mut pending = vec![Item { name: base, znode }];
        let mut seen = HashSet::new();
        while let Some(Item {
            name: path,
            znode: directory,
        }) = pending.pop()
        {
            if !seen.insert(directory.id()) {
                let place = Place::new(&open.name, path.as_slice());
                self.output
                    .complain(&format!("{place}: this directory was listed already"));
                continue;
            }
            if has_titles && !self.arguments.json {
                self.title(&open, &path)?;
            }
            let below = self.directory(&open, &directory, &path)?;
            if self.arguments.recursive {
                pending.extend(below.into_iter().rev());
            }
        }
        Ok(())
    }

    fn title(&mut self, open: &OpenFileSystem, path: &[u8]) -> Result<(), Failure> {
        if !self.is_first {
            self.output.bytes(b"\n")?;
        }
        self.is_first = false;
        self.output.text(&open.name)?;
        self.output.bytes(b":")?;
        self.output
            .name(if path.is_empty() { b"/" } else { path })?;
        self.output.line(":")
    }

    /// Lists one directory in order of its names; returns the directories in it.
    fn directory(
        &mut self,
        open: &OpenFileSystem,
        directory: &Arc<Znode>,
        path: &[u8],
    ) -> Result<Vec<Item>, Failure> {
        let entries = self.names(open, directory, path);
        let mut below = Vec::new();
        for batch in entries.chunks(BATCH) {
            let ids: Vec<_> = batch.iter().map(|entry| entry.target.object).collect();
            let mut items = Vec::with_capacity(batch.len());
            for (entry, znode) in batch.iter().zip(open.files.znodes(&ids)) {
                let name = entry.name.clone();
                match znode {
                    Ok(znode) => items.push(Item { name, znode }),
                    Err(error) => self.path_problem(open, &child(path, &name), &error),
                }
            }
            if self.arguments.recursive {
                let is_below = |item: &&Item| {
                    let is_self = item.name == b"." || item.name == b"..";
                    item.znode.kind() == FileKind::Directory && !is_self
                };
                let found = items.iter().filter(is_below).map(|item| Item {
                    name: child(path, &item.name),
                    znode: Arc::clone(&item.znode),
                });
                below.extend(found);
            }
            self.items(open, path, &items)?;
        }
        Ok(below)
    }

    /// The entries of a directory in order of their names.
    fn names(
        &mut self,
        open: &OpenFileSystem,
        directory: &Arc<Znode>,
        path: &[u8],
    ) -> Vec<DirectoryEntry> {
        let mut entries = Vec::new();
        match open.files.read_directory(directory, 0) {
            Err(error) => self.path_problem(open, path, &error),
            Ok(reader) => {
                for entry in reader {
                    match entry {
                        Ok(entry) if entry.name.starts_with(b".") && !self.arguments.all => {}
                        Ok(entry) => entries.push(entry),
                        Err(error) => self.path_problem(open, path, &error),
                    }
                }
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries
    }

    fn items(
        &mut self,
        open: &OpenFileSystem,
        directory: &[u8],
        items: &[Item],
    ) -> Result<(), Failure> {
        if self.arguments.json {
            for item in items {
                let path = match item.name.starts_with(b"/") {
                    true => item.name.clone(),
                    false => child(directory, &item.name),
                };
                self.json(open, item, &path)?;
            }
            return Ok(());
        }
        if self.arguments.long {
            return self.long(open, items);
        }
        for item in items {
            self.output.name(&item.name)?;
            self.output.bytes(b"\n")?;
        }
        Ok(())
    }

    fn json(&mut self, open: &OpenFileSystem, item: &Item, path: &[u8]) -> Result<(), Failure> {
        match open.stat_entry(&item.znode, path) {
            Ok(entry) => self.output.json(&Value::Object(with_dataset(entry, open))),
            Err(error) => {
                self.path_problem(open, path, &error);
                Ok(())
            }
        }
    }

    fn path_problem(&mut self, open: &OpenFileSystem, path: &[u8], error: &PosixError) {
        let place = Place::new(&open.name, path);
        self.output
            .complain(&format!("{place}: {}", posix_words(error)));
    }

    fn long(&mut self, open: &OpenFileSystem, items: &[Item]) -> Result<(), Failure> {
        let rows: Vec<[String; 5]> = items
            .iter()
            .map(|item| {
                let stat = open.files.stat(&item.znode);
                let size = match stat.kind {
                    FileKind::CharDevice | FileKind::BlockDevice => {
                        format!("{}, {}", stat.device.major, stat.device.minor)
                    }
                    _ => stat.size.to_string(),
                };
                let (uid, gid) = (stat.uid.posix_id(), stat.gid.posix_id());
                let mode = mode_text(stat.kind, stat.mode) + open.acl_mark(&item.znode);
                [
                    mode,
                    stat.links.to_string(),
                    uid.to_string(),
                    gid.to_string(),
                    size,
                ]
            })
            .collect();
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..5).map(width).collect();
        for (row, item) in rows.iter().zip(items) {
            let [mode, links, uid, gid, size] = row;
            let time = self.clock.minutes(item.znode.attributes().modified);
            self.output.text(&format!(
                "{mode:<0$} {links:>1$} {uid:<2$} {gid:<3$} {size:>4$} {time} ",
                widths[0], widths[1], widths[2], widths[3], widths[4]
            ))?;
            self.output.name(&item.name)?;
            if item.znode.kind() == FileKind::Symlink {
                match open.files.read_link(&item.znode) {
                    Ok(target) => {
                        self.output.text(" -> ")?;
                        self.output.name(&target)?;
                    }
                    Err(error) => self.path_problem(open, &item.name, &error),
                }
            }
            self.output.bytes(b"\n")?;
        }
        Ok(())
    }
}

/// `directory/name`.
pub fn child(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    [directory, b"/", name].concat()
}

/// Adds the dataset's name.
pub fn with_dataset(mut entry: Entry, open: &OpenFileSystem) -> Entry {
    entry.insert("dataset".into(), open.name.as_str().into());
    entry
}
