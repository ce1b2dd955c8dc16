//! `cenote find`: files by name, type, size and time.
//!
//! The conditions are those of find(1) that need only a file's attributes. All of them must hold.

use super::find_condition::{Condition, SizeTest, Subject, parse_age, parse_size_test};
use super::ls::{child, with_dataset};
use crate::reading::failure::{Exit, Failure, ended, posix_words};
use crate::reading::options::PoolOptions;
use crate::reading::output::Output;
use crate::reading::place::Place;
use crate::reading::session::{OpenFileSystem, Session, each_place};
use crate::reading::spec::Spec;
use cenote_base::{Env, RealEnv};
use cenote_posix::{FileKind, SymlinkPolicy, Timestamp};
use cenote_words::command::{Command, POOL_FLAGS, Run};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The command.
pub const COMMAND: Command = Command {
    name: "find",
    summary: "Find files by name, type, size or time",
    synopsis: "[OPTION]... POOL/DATASET[@SNAPSHOT][:/PATH]... [CONDITION]...",
    about: "\
Finds files. Conditions are those of find(1); all must hold, '!' or -not turns the next one
round.

  -name PATTERN, -iname PATTERN   the name matches (-iname: in any case of letters)
  -path PATTERN                   the whole path matches
  -type LETTERS                   f file, d directory, l link, b c devices, p pipe, s socket
  -size [+-]N[ckMGT]              so many units of 512 bytes (c: 1, k: 1024, ...), rounded up
  -mtime [+-]N, -mmin [+-]N       modified N days or minutes ago
  -newer FILE|TIME                modified after FILE (here, or POOL/DATASET:/PATH) or TIME
  -empty                          an empty file or directory
  -links, -inum, -uid, -gid [+-]N
  -mindepth N, -maxdepth N

  -print0                         paths end with NUL instead of a new line
  -json                           a JSON object a line

Example:
  cenote find tank/home:/ -name '*.jpg' -size +1M ! -newer 2026-01-01T00:00:00Z",
    flags: &[],
    run: Run::Reading(|words| ended(run(words))),
};

/// The command line.
#[derive(Debug, Default)]
struct Arguments {
    pool: PoolOptions,
    specs: Vec<Spec>,
    /// Each condition, and whether it must hold or must not hold.
    conditions: Vec<(Condition, bool)>,
    /// Files that results must be newer than, each with whether that must hold. They are looked up
    /// later.
    newer: Vec<(OsString, bool)>,
    depth_min: u64,
    depth_max: Option<u64>,
    print0: bool,
    json: bool,
}

/// Words that find(1) spells with one dash. They are removed before the options are parsed.
struct Words {
    words: std::vec::IntoIter<OsString>,
    /// The remaining words, with the pool's options.
    rest: Vec<OsString>,
}

impl Words {
    fn wrong(&self, problem: impl Into<String>) -> Failure {
        Failure::Usage {
            command: COMMAND.name,
            problem: problem.into(),
        }
    }

    fn argument(&mut self, name: &str) -> Result<OsString, Failure> {
        let next = self.words.next();
        next.ok_or_else(|| self.wrong(format!("{name} needs an argument")))
    }

    fn text(&mut self, name: &str) -> Result<String, Failure> {
        let argument = self.argument(name)?;
        let wrong = |_| self.wrong(format!("the argument of {name} is not UTF-8"));
        argument.into_string().map_err(wrong)
    }

    fn number(&mut self, name: &str) -> Result<u64, Failure> {
        let text = self.text(name)?;
        let wrong = |_| self.wrong(format!("{name} {text}: not a number"));
        text.parse().map_err(wrong)
    }

    /// Takes one word of find's own, or appends it to the rest.
    fn take(&mut self, word: OsString, found: &mut Arguments, holds: bool) -> Result<(), Failure> {
        let name = word.to_string_lossy().into_owned();
        let condition = match name.as_str() {
            "-name" => Condition::Name(self.argument(&name)?.as_bytes().to_vec()),
            "-iname" => {
                let pattern = self.argument(&name)?;
                Condition::NameFolded(pattern.as_bytes().to_vec())
            }
            "-path" => Condition::Path(self.argument(&name)?.as_bytes().to_vec()),
            "-type" => self.kinds()?,
            "-size" => {
                let text = self.text(&name)?;
                let test = parse_size_test(&text).ok_or_else(|| {
                    self.wrong(format!(
                        "-size {text}: give a number with c, k, M or G, and + or - before it"
                    ))
                })?;
                Condition::Size(test)
            }
            "-mtime" | "-mmin" => self.age(&name)?,
            "-links" | "-inum" | "-uid" | "-gid" => self.numbered(&name)?,
            "-empty" => Condition::Empty,
            "-newer" => {
                let reference = self.argument(&name)?;
                found.newer.push((reference, holds));
                return Ok(());
            }
            "-maxdepth" => {
                found.depth_max = Some(self.number(&name)?);
                return Ok(());
            }
            "-mindepth" => {
                found.depth_min = self.number(&name)?;
                return Ok(());
            }
            "-print0" => {
                found.print0 = true;
                return Ok(());
            }
            "-print" => return Ok(()),
            "-json" | "--json" => {
                found.json = true;
                return Ok(());
            }
            _ if holds => {
                self.rest.push(word);
                return Ok(());
            }
            _ => return Err(self.wrong(format!("'{name}' is no condition that could be negated"))),
        };
        found.conditions.push((condition, holds));
        Ok(())
    }

    fn kinds(&mut self) -> Result<Condition, Failure> {
        let text = self.text("-type")?;
        let kind = |letter| match letter {
            'f' => Some(FileKind::Regular),
            'd' => Some(FileKind::Directory),
            'l' => Some(FileKind::Symlink),
            'c' => Some(FileKind::CharDevice),
            'b' => Some(FileKind::BlockDevice),
            'p' => Some(FileKind::Fifo),
            's' => Some(FileKind::Socket),
            _ => None,
        };
        let letters = text.chars().filter(|letter| *letter != ',');
        let kinds: Option<Vec<FileKind>> = letters.map(kind).collect();
        match kinds.filter(|kinds| !kinds.is_empty()) {
            Some(kinds) => Ok(Condition::Kinds(kinds)),
            None => Err(self.wrong(format!("-type {text}: the types are f d l c b p s"))),
        }
    }

    fn age(&mut self, name: &str) -> Result<Condition, Failure> {
        let text = self.text(name)?;
        let unit = if name == "-mtime" { 86_400 } else { 60 };
        let now = RealEnv::new().wall_clock().as_secs();
        match parse_age(&text, unit, now) {
            Some(age) => Ok(age),
            None => Err(self.wrong(format!("{name} {text}: not a number"))),
        }
    }

    fn numbered(&mut self, name: &str) -> Result<Condition, Failure> {
        let text = self.text(name)?;
        let Some(test) = SizeTest::of_count(&text) else {
            return Err(self.wrong(format!("{name} {text}: not a number")));
        };
        Ok(match name {
            "-links" => Condition::Links(test),
            "-inum" => Condition::Object(test),
            "-uid" => Condition::User(test),
            _ => Condition::Group(test),
        })
    }
}

fn parse(words: Vec<OsString>) -> Result<Arguments, Failure> {
    let mut found = Arguments::default();
    let mut words = Words {
        words: words.into_iter(),
        rest: Vec::new(),
    };
    let takes = |word: &str| {
        POOL_FLAGS
            .iter()
            .any(|flag| flag.value.is_some() && flag.is(word))
    };
    let mut holds = true;
    while let Some(word) = words.words.next() {
        match word.to_str() {
            Some("!" | "-not") => holds = !holds,
            // The argument of an option must not be taken for a condition.
            Some(option) if takes(option) => {
                words.rest.push(word);
                words.rest.extend(words.words.next());
            }
            _ => {
                words.take(word, &mut found, holds)?;
                holds = true;
            }
        }
    }
    let (line, pool) = PoolOptions::read(&COMMAND, &words.rest)?;
    found.specs = line.specs("give POOL/DATASET[:/path]")?;
    found.pool = pool;
    Ok(found)
}

fn run(words: Vec<OsString>) -> Result<Exit, Failure> {
    let arguments = parse(words)?;
    let mut output = Output::new();
    let (pool, specs) = (&arguments.pool, &arguments.specs);
    each_place(
        pool,
        specs,
        &mut output,
        |output| output,
        |output, session, spec| find(session, spec, &arguments, output),
    )?;
    output.finish()
}

/// The modification time of the file that `-newer` names, in the pool or on this system.
fn reference_time(
    session: &Session,
    open: &OpenFileSystem,
    reference: &OsStr,
) -> Result<Timestamp, Failure> {
    let is_place = reference.as_bytes().windows(2).any(|pair| pair == b":/");
    if is_place {
        let spec = Spec::parse(reference)?;
        let other = session.file_system(&spec)?;
        let znode = other.resolve(spec.path_or_root(), SymlinkPolicy::Follow)?;
        return Ok(znode.attributes().modified);
    }
    if let Ok(metadata) = std::fs::metadata(reference) {
        use std::os::unix::fs::MetadataExt;
        let nanoseconds = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
        return Ok(Timestamp {
            seconds: metadata.mtime(),
            nanoseconds,
        });
    }
    let text = reference.to_string_lossy();
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => Ok(Timestamp {
            seconds: time.as_second(),
            nanoseconds: u32::try_from(time.subsec_nanosecond()).unwrap_or(0),
        }),
        Err(_) => Err(Failure::Absent {
            what: format!("-newer {text}"),
            problem: format!(
                "neither a file here nor a time such as 2026-11-21T12:00:00Z; \
                 a file in the pool is {}:/path",
                open.name
            ),
        }),
    }
}

fn find(
    session: &Session,
    spec: &Spec,
    arguments: &Arguments,
    output: &mut Output,
) -> Result<(), Failure> {
    let open = session.file_system(spec)?;
    let mut conditions = arguments.conditions.clone();
    for (reference, holds) in &arguments.newer {
        let time = reference_time(session, &open, reference)?;
        conditions.push((Condition::ModifiedAfter(time), *holds));
    }
    let path = spec.path_or_root();
    let start = open.resolve(path, SymlinkPolicy::FollowParents)?;
    let walk = open.files.walk(start.id());
    let mut walk = walk.map_err(|source| open.failure(path, source))?;
    while let Some(item) = walk.next() {
        let item = match item {
            Ok(item) => item,
            Err(error) => {
                let place = Place::new(&open.name, path);
                output.complain(&format!("{place}: {}", posix_words(&error)));
                continue;
            }
        };
        let depth = match item.path.is_empty() {
            true => 0,
            false => 1 + item.path.iter().filter(|byte| **byte == b'/').count() as u64,
        };
        if arguments.depth_max.is_some_and(|limit| depth >= limit) {
            walk.skip_children();
        }
        let whole = match depth {
            0 => path.to_vec(),
            _ => child(path, &item.path),
        };
        let subject = Subject {
            path: &whole,
            znode: &item.znode,
        };
        let all = conditions
            .iter()
            .all(|(condition, holds)| condition.holds(&subject) == *holds);
        let is_deep = depth >= arguments.depth_min;
        if all && is_deep && arguments.depth_max.is_none_or(|limit| depth <= limit) {
            print(&open, arguments, &subject, output)?;
        }
    }
    Ok(())
}

fn print(
    open: &OpenFileSystem,
    arguments: &Arguments,
    subject: &Subject<'_>,
    output: &mut Output,
) -> Result<(), Failure> {
    if arguments.json {
        let entry = open.stat_entry(subject.znode, subject.path);
        let entry = entry.map_err(|source| open.failure(subject.path, source))?;
        return output.json(&Value::Object(with_dataset(entry, open)));
    }
    if arguments.print0 {
        output.bytes(subject.path)?;
        return output.bytes(b"\0");
    }
    output.name(subject.path)?;
    output.bytes(b"\n")
}
