//! `zfs project`: which projects files and directories belong to.
//!
//! It asks the file system that the files are in, by the system call that `chattr` uses. So it
//! needs no daemon, and the kernel decides which users may change a project.
//!
//! The inherit flag is a directory's: files that are made in it get its project. Files have no such
//! flag, so it is neither set on them nor looked for.

use super::select::reason;
use cenote_device::{Project, project, set_project};
use cenote_words::context::{Context, Outcome, Stop, usage};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use rustix::fs::{Mode, OFlags, open};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The number that stands for none.
const INVALID: u32 = u32::MAX;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    List,
    Check,
    Clear {
        /// The numbers stay (`-k`).
        keeps_numbers: bool,
    },
    Set {
        /// Set the inherit flag of directories (`-s`).
        inherit: bool,
    },
}

/// How far below a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Itself,
    Entries,
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    act: Act,
    reach: Reach,
    /// Only directories have something below them (`-d`, `-r`).
    is_for_directories: bool,
    /// The number of `-p`.
    number: Option<u32>,
    /// `-0`.
    ends_with_nul: bool,
}

impl Wanted {
    fn of(parsed: &Parsed) -> Result<Self, Stop> {
        let (check, clear, inherit) = (parsed.has("c"), parsed.has("C"), parsed.has("s"));
        let (keeps_numbers, ends_with_nul) = (parsed.has("k"), parsed.has("0"));
        let number = match parsed.last("p").map(|text| (text, text.parse::<u32>())) {
            None => None,
            Some((_, Ok(number))) if number != INVALID => Some(number),
            Some((text, _)) => return usage(format!("invalid project ID '{text}'")),
        };
        // The last one counts.
        let depth = parsed.in_order(&["d", "r"]).last();
        let depth = depth.map(|(letter, _)| match letter {
            "d" => Reach::Itself,
            _ => Reach::All,
        });
        if [check, clear, inherit].iter().filter(|is| **is).count() > 1 {
            return usage("only one of -c, -C and -s can be given");
        }
        let (act, near, options): (_, _, &[&str]) = match () {
            () if check => (Act::Check, Reach::Entries, &["c", "0", "d", "r", "p"]),
            () if clear => {
                let act = Act::Clear { keeps_numbers };
                (act, Reach::Itself, &["C", "k", "r"])
            }
            () if inherit || number.is_some() => {
                (Act::Set { inherit }, Reach::Itself, &["s", "p", "r"])
            }
            () => (Act::List, Reach::Entries, &["d", "r"]),
        };
        parsed.only(options)?;
        Ok(Self {
            act,
            reach: depth.unwrap_or(near),
            is_for_directories: depth.is_some(),
            number,
            ends_with_nul,
        })
    }
}

/// `zfs project [-c|-C|-s] [-d|-r] [-k] [-0] [-p ID] FILE|DIRECTORY…`
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let wanted = Wanted::of(&parsed)?;
    if parsed.operands.is_empty() {
        return usage("missing file or directory target(s)");
    }
    let mut is_failed = false;
    for target in &parsed.operands {
        let mut walk = Walk {
            wanted,
            directory: context.directory.clone(),
            is_failed: false,
        };
        if let Err(text) = walk.target(Path::new(target), context) {
            context.complain(&text);
            walk.is_failed = true;
        }
        is_failed |= walk.is_failed;
    }
    match is_failed {
        true => Err(Stop::Code(1)),
        false => Ok(0),
    }
}

/// One operand, and what is below it.
struct Walk {
    wanted: Wanted,
    /// What relative paths begin with.
    directory: PathBuf,
    /// Something was reported.
    is_failed: bool,
}

impl Walk {
    fn target(&mut self, target: &Path, context: &mut Context) -> Result<(), String> {
        let refuse = |why: &str| Err(format!("cannot use '{}': {why}", target.display()));
        let metadata = match self.directory.join(target).metadata() {
            Ok(metadata) => metadata,
            Err(error) => return refuse(&reason(&error)),
        };
        let is_directory = metadata.is_dir();
        if !is_directory && !metadata.is_file() {
            return refuse("only files and directories have a project");
        }
        if !is_directory && self.wanted.is_for_directories {
            return refuse("-d and -r are for directories");
        }
        let is_for_all = self.wanted.reach == Reach::All;
        let own = match self.wanted.act {
            Act::Check => true,
            Act::Set { .. } => is_for_all,
            Act::List | Act::Clear { .. } => false,
        };
        if own && self.wanted.number.is_none() {
            let project = self.project(target, OFlags::empty())?;
            self.wanted.number = Some(project.1.number);
        }
        self.file(target, is_directory, OFlags::empty(), context)?;
        if is_directory && self.wanted.reach != Reach::Itself {
            self.below(target, context);
        }
        Ok(())
    }

    /// What is in a directory; reports what fails there.
    fn below(&mut self, top: &Path, context: &mut Context) {
        let mut directories = vec![top.to_owned()];
        while let Some(directory) = directories.pop() {
            if context.output_gone() {
                return;
            }
            let entries = match std::fs::read_dir(self.directory.join(&directory)) {
                Ok(entries) => entries,
                Err(error) => {
                    self.complain(&directory, &error, context);
                    continue;
                }
            };
            for entry in entries.flatten() {
                let path = directory.join(entry.file_name());
                let kind = match entry.file_type() {
                    Ok(kind) if kind.is_dir() || kind.is_file() => kind,
                    _ => continue,
                };
                if let Err(text) = self.file(&path, kind.is_dir(), OFlags::NOFOLLOW, context) {
                    context.complain(&text);
                    self.is_failed = true;
                }
                if kind.is_dir() && self.wanted.reach == Reach::All {
                    directories.push(path);
                }
            }
        }
    }

    fn complain(&mut self, path: &Path, error: &std::io::Error, context: &mut Context) {
        // It was removed meanwhile.
        if error.kind() != std::io::ErrorKind::NotFound {
            let path = path.display();
            context.complain(&format!("cannot read '{path}': {}", reason(error)));
            self.is_failed = true;
        }
    }

    /// An open file and its project.
    fn project(
        &self,
        path: &Path,
        flags: OFlags,
    ) -> Result<(rustix::fd::OwnedFd, Project), String> {
        // Nothing waits for another end, even if the file became a pipe meanwhile.
        let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = open(self.directory.join(path), flags, Mode::empty());
        let found = file.and_then(|file| project(&file).map(|project| (file, project)));
        found.map_err(|error| {
            let path = path.display();
            format!(
                "cannot read the project of '{path}': {}",
                reason(&error.into())
            )
        })
    }

    /// Does what is wanted with one file or directory.
    fn file(
        &self,
        path: &Path,
        is_directory: bool,
        flags: OFlags,
        context: &mut Context,
    ) -> Result<(), String> {
        let (file, now) = self.project(path, flags)?;
        let changed = match self.wanted.act {
            Act::List => {
                let letter = if now.is_inherited { 'P' } else { '-' };
                print(&format!("{:>5} {letter} ", now.number), path, "\n", context);
                return Ok(());
            }
            Act::Check => {
                self.check(path, is_directory, now, context);
                return Ok(());
            }
            Act::Clear { keeps_numbers } => Project {
                number: if keeps_numbers { now.number } else { 0 },
                is_inherited: false,
            },
            Act::Set { inherit } => Project {
                number: self.wanted.number.unwrap_or(now.number),
                is_inherited: now.is_inherited || inherit && is_directory,
            },
        };
        if changed == now {
            return Ok(());
        }
        set_project(&file, changed).map_err(|error| {
            let path = path.display();
            format!(
                "cannot set the project of '{path}': {}",
                reason(&error.into())
            )
        })
    }

    fn check(&self, path: &Path, is_directory: bool, now: Project, context: &mut Context) {
        let expected = self.wanted.number.unwrap_or(now.number);
        let is_other = now.number != expected;
        let lacks_flag = is_directory && !now.is_inherited;
        if self.wanted.ends_with_nul {
            if is_other || lacks_flag {
                print("", path, "\0", context);
            }
            return;
        }
        if lacks_flag {
            print("", path, " - project inherit flag is not set\n", context);
        }
        if is_other {
            let found = now.number;
            let text = format!(" - project ID is not set properly ({found}/{expected})\n");
            print("", path, &text, context);
        }
    }
}

/// Prints a path with what stands before and after it, as it is: names need not be text.
fn print(before: &str, path: &Path, after: &str, context: &mut Context) {
    context.print(before);
    match path.to_str() {
        Some(path) => context.print(path),
        None => context.print_bytes(path.as_os_str().as_bytes()),
    }
    context.print(after);
}
