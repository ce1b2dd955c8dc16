//! `cenote cp`: files and trees out of a pool.
//!
//! With `-a` a copy has everything of its original that the target can hold. That is contents with
//! holes, links, devices, owners, modes, times to the nanosecond, extended attributes and POSIX
//! access control lists. An interrupted copy resumes when the same command is run again
//! ([`journal`]).

mod attributes;
mod copy;
mod file;
mod journal;
mod report;
mod target;

use crate::reading::failure::{Exit, Failure, complain, ended};
use crate::reading::line::CommandLine;
use crate::reading::options::PoolOptions;
use crate::reading::session::{OpenFileSystem, Session};
use crate::reading::spec::Spec;
use crate::reading::stop::Stop;
use cenote_posix::{FileKind, SymlinkPolicy, Znode};
use cenote_words::command::{Command, Run, flags};
use cenote_words::progress::{Progress, Style};
use copy::{Copier, Settings};
use journal::{Identity, Journal};
use report::Report;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use target::TargetDirectory;

/// A single file smaller than this is copied again instead of resumed.
const JOURNAL_FILE_SIZE_MIN: u64 = 64 << 20;

/// The message if operands are missing.
const MISSING: &str = "give POOL/DATASET:/path and where to copy it";

/// The command.
pub const COMMAND: Command = Command {
    name: "cp",
    summary: "Copy files and trees out of a pool",
    synopsis: "[OPTION]... POOL/DATASET[@SNAPSHOT]:/PATH... TARGET",
    about: "\
Copies files out of a pool. Into a directory TARGET a source goes under its own name; the
root of a dataset has none, and its entries go into TARGET itself. Symbolic links in the
target are never followed. Files appear under their names when they are complete.

A copy that was interrupted (also by loss of power) resumes when the same command is run
again: '.cenote-copy' in the target records what is safely on disk.

Example:
  cenote cp -a -d /dev/sdb tank/home@monday:/ /srv/rescued",
    flags: flags! {
        'a' "archive" _ "directories with all below, and everything that the target can hold:\n\
            owner (as root), mode, times to the nanosecond, holes, hard links,\n\
            symbolic links, devices, pipes, sockets, extended attributes, POSIX ACLs";
        'r' "recursive" _ "directories with all below, without owners, times and attributes";
        'R' "" _ "";
        'k' "keep-going" _ "copy damaged files too: blocks that cannot be read become zeros, and\n\
            each is named on standard error; without -k damaged files are left out";
        'q' "quiet" _ "no progress bar";
        'j' "json" _ "progress as JSON on standard error, a summary as JSON at the end";
    },
    run: Run::Reading(|words| ended(run(words))),
};

#[derive(Debug)]
struct Arguments {
    pool: PoolOptions,
    archive: bool,
    recursive: bool,
    keep_going: bool,
    style: Style,
    specs: Vec<Spec>,
    target: PathBuf,
}

fn parse(line: &CommandLine, pool: PoolOptions) -> Result<Arguments, Failure> {
    let [sources @ .., target] = line.operands.as_slice() else {
        return Err(line.wrong(MISSING));
    };
    if sources.is_empty() {
        return Err(line.wrong(MISSING));
    }
    Ok(Arguments {
        pool,
        archive: line.has("archive"),
        recursive: line.has("recursive") || line.has("R"),
        keep_going: line.has("keep-going"),
        style: line.style(),
        specs: sources
            .iter()
            .map(|text| Spec::parse(text))
            .collect::<Result<_, _>>()?,
        target: target.into(),
    })
}

fn run(words: Vec<OsString>) -> Result<Exit, Failure> {
    let (line, pool) = PoolOptions::read(&COMMAND, &words)?;
    let arguments = parse(&line, pool)?;
    let (specs, target) = (&arguments.specs, &arguments.target);
    if specs.len() > 1 && !target.is_dir() {
        return Err(line.wrong(format!(
            "{} is no directory, as several sources need one",
            target.display()
        )));
    }
    let stop = Stop::on_signals()?;
    let mut report = Report::default();
    let mut session = None;
    for spec in specs {
        let session = Session::reuse(&mut session, &arguments.pool, spec.pool())?;
        let copied = copy(session, spec, target, &arguments, &stop, &mut report);
        if let Err(failure) = copied {
            report.failed(&failure);
        }
        if report.ends() {
            break;
        }
    }
    report.print(arguments.style)
}

/// The last component of a path in the pool.
fn last_component(path: &[u8]) -> &[u8] {
    let mut parts = path.split(|byte| *byte == b'/');
    parts
        .rfind(|part| !part.is_empty() && *part != b"." && *part != b"..")
        .unwrap_or_default()
}

/// The directory and the name under which a source is copied.
///
/// A root directory has no name: its entries are copied into the target itself.
fn destination(
    target: &Path,
    source: &[u8],
    is_directory: bool,
) -> Result<(PathBuf, Vec<u8>), Failure> {
    let name = last_component(source);
    if target.is_dir() {
        return Ok((target.to_owned(), name.to_vec()));
    }
    let own = target.file_name().map(OsStr::as_bytes);
    let ends_with_slash = target.as_os_str().as_bytes().ends_with(b"/");
    match own {
        Some(own) if is_directory || !ends_with_slash => {
            let parent = target
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            Ok((parent.to_owned(), own.to_vec()))
        }
        _ => Err(Failure::Absent {
            what: target.display().to_string(),
            problem: "there is no such directory".into(),
        }),
    }
}

fn copy(
    session: &Session,
    spec: &Spec,
    target: &Path,
    arguments: &Arguments,
    stop: &Stop,
    report: &mut Report,
) -> Result<(), Failure> {
    let open = session.file_system(spec)?;
    let source = spec.path_or_root();
    let policy = match arguments.archive || arguments.recursive {
        true => SymlinkPolicy::FollowParents,
        false => SymlinkPolicy::Follow,
    };
    let znode = open.resolve(source, policy)?;
    let is_directory = znode.kind() == FileKind::Directory;
    if is_directory && !arguments.archive && !arguments.recursive {
        return Err(Failure::Absent {
            what: format!("{}:{}", open.name, String::from_utf8_lossy(source)),
            problem: "is a directory; copy it with -a, or with -r without its attributes".into(),
        });
    }
    let (parent, name) = destination(target, source, is_directory)?;
    let top = TargetDirectory::open_top(&parent).map_err(Failure::file(&parent, "open"))?;
    let settings = Settings {
        attributes: arguments.archive,
        keep_going: arguments.keep_going,
    };
    let whole = parent.join(OsStr::from_bytes(&name));
    let (top, shown) = match is_directory && !name.is_empty() {
        true => {
            let made = top.make(&name, arguments.archive);
            (
                made.map_err(Failure::file(&whole, "make this directory"))?,
                whole,
            )
        }
        false => (top, parent),
    };
    let identity = identity(session, &open, &znode, arguments);
    let is_large = is_directory || znode.attributes().size >= JOURNAL_FILE_SIZE_MIN;
    let is_free =
        !is_directory || matches!(open.files.lookup(&znode, journal::JOURNAL_NAME), Ok(None));
    let journal = match is_large && is_free {
        true => {
            let directory = top.open_path(b"").map_err(Failure::file(&shown, "open"))?;
            let journal = Journal::open(directory, identity);
            if journal.goes_on() {
                complain("resuming this copy where it was interrupted");
            }
            Some(journal)
        }
        false => None,
    };
    let progress = Progress::new(arguments.style, total(&open, &znode));
    let mut copier = Copier::new(&open, settings, &progress, stop, report, shown, journal);
    let outcome = match is_directory {
        true => copier.tree(top, &znode),
        false => copier.single(top, &znode, &name),
    };
    progress.finish();
    outcome
}

/// The number of bytes to copy, if known beforehand.
fn total(open: &OpenFileSystem, znode: &Arc<Znode>) -> Option<u64> {
    match znode.kind() {
        FileKind::Regular => Some(znode.attributes().size),
        _ if znode.id() == open.files.root() => Some(open.dataset.phys().uncompressed_bytes),
        _ => None,
    }
}

fn identity(
    session: &Session,
    open: &OpenFileSystem,
    znode: &Znode,
    arguments: &Arguments,
) -> Identity {
    Identity {
        pool_guid: session.pool().guid().0,
        objset: open.dataset.objset_id().0,
        txg: session.pool().txg().0,
        replay: arguments.pool.replays(),
        start: znode.id().0,
        attributes: arguments.archive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_find_their_place() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        let place = |target: &Path, source: &str, is_directory| {
            let found = destination(target, source.as_bytes(), is_directory);
            found.map(|(parent, name)| (parent, String::from_utf8(name).unwrap()))
        };
        let into = |name: &str| (here.to_owned(), name.to_owned());
        assert_eq!(place(here, "/a/b/", true).unwrap(), into("b"));
        assert_eq!(place(here, "/", true).unwrap(), into(""));
        assert_eq!(place(&here.join("new"), "/a", false).unwrap(), into("new"));
        assert_eq!(place(&here.join("new"), "/", true).unwrap(), into("new"));
        assert_eq!(place(&here.join("new/"), "/a", true).unwrap(), into("new"));
        assert!(place(&here.join("new/"), "/a", false).is_err());
        let (parent, name) = place(Path::new("no-such-name"), "/a", false).unwrap();
        assert_eq!((parent, name), (PathBuf::from("."), "no-such-name".into()));
    }
}
