//! The options of every command that opens a pool.

use super::failure::Failure;
use super::line::CommandLine;
use cenote_base::Txg;
use cenote_control::model::OpenedPool;
use cenote_pool::{Buffers, ImportOptions, Rewind};
use cenote_words::command::{Command, POOL_FLAGS};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The default of `--memory`, for caches and buffers. With the program itself, its threads and the
/// lists of a walk the process stays below 256 MiB.
const MEMORY_DEFAULT: u64 = 128 << 20;
/// Half of it is for buffers: a block of 16 MiB must fit.
const MEMORY_MIN: u64 = 32 << 20;

/// The location of an encryption root's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOption {
    /// The encryption root; `None` for any that is needed.
    pub dataset: Option<String>,
    /// A path, `file://` and a path, `prompt`, or `-` for standard input.
    pub location: String,
}

/// How to find and open a pool.
#[derive(Clone, Debug, Default)]
pub struct PoolOptions {
    /// Devices, files and directories to search.
    pub devices: Vec<PathBuf>,
    /// Where the pool begins in each device, in bytes.
    pub offset: u64,
    /// Bytes for caches and buffers.
    pub memory: Option<u64>,
    /// The newest txg to open.
    pub txg: Option<u64>,
    /// How far to rewind to find a readable txg.
    pub rewind: Rewind,
    /// Open the checkpoint.
    pub checkpoint: bool,
    /// Open the pool even if log devices are missing.
    pub missing_logs: bool,
    /// Whether to show files as after the intent log's replay; `None` to follow the daemon.
    pub replay: Option<bool>,
    /// The name for the pool, if not its own.
    pub name: Option<String>,
    /// Keys.
    pub keys: Vec<KeyOption>,
}

impl PoolOptions {
    /// Parses the command line of a command that has these options in addition to its own.
    pub fn read(command: &Command, words: &[OsString]) -> Result<(CommandLine, Self), Failure> {
        let line = CommandLine::read(command, POOL_FLAGS, words)?;
        let memory = line.size("memory")?;
        if memory.is_some_and(|memory| memory < MEMORY_MIN) {
            return Err(line.wrong("--memory: 32M is the least that can work"));
        }
        let keys = line.all("key").map(|word| match word.to_str() {
            Some(text) => Ok(parse_key(text)),
            None => Err(not_text(&line, word)),
        });
        let options = Self {
            devices: line.all("device").map(PathBuf::from).collect(),
            offset: line.size("offset")?.unwrap_or(0),
            memory,
            txg: line.number(&["txg"])?,
            rewind: match line.last_of(&["rewind", "extreme-rewind"]) {
                None => Rewind::Never,
                Some("rewind") => Rewind::Recent,
                Some(_) => Rewind::Extreme,
            },
            checkpoint: line.has("checkpoint") || line.has("rewind-to-checkpoint"),
            missing_logs: line.has("missing-log"),
            replay: replay(&line)?,
            name: None,
            keys: keys.collect::<Result<_, _>>()?,
        };
        Ok((line, options))
    }

    /// Whether intent logs are replayed.
    pub fn replays(&self) -> bool {
        self.replay.unwrap_or(false)
    }

    /// Reads what the daemon reads: the same devices and, unless options say otherwise, the same
    /// state.
    pub fn follow(&mut self, opened: &OpenedPool) {
        self.devices = opened.devices.iter().map(PathBuf::from).collect();
        self.offset = opened.offset;
        self.name = Some(opened.name.clone());
        self.missing_logs |= opened.missing_log;
        self.replay = self.replay.or(Some(opened.replay));
        let other_state = self.txg.is_some() || self.rewind != Rewind::Never || self.checkpoint;
        match other_state {
            true => {}
            false if opened.checkpoint => self.checkpoint = true,
            false => self.txg = Some(opened.txg),
        }
    }

    /// The options of the import.
    pub fn import_options(&self) -> ImportOptions {
        let memory = self.memory.unwrap_or(MEMORY_DEFAULT);
        ImportOptions {
            read_only: true,
            rewind: self.rewind,
            txg: self.txg.map(Txg),
            missing_logs: self.missing_logs,
            rewind_to_checkpoint: self.checkpoint,
            replay_in_memory: self.replays(),
            new_name: self.name.clone(),
            // A quarter caches blocks that are read again; half is for buffers, because files here
            // are mostly read once. The last quarter is for memory that is not accounted.
            cache_bytes: memory / 4,
            buffers: Buffers::new(memory / 2),
            ..ImportOptions::default()
        }
    }
}

/// Whether to replay, from `--replay` or `-o NAME=VALUE` as in `zpool import`. Only the names that
/// have a meaning here are accepted.
fn replay(line: &CommandLine) -> Result<Option<bool>, Failure> {
    let mut replay = None;
    for (name, word) in line.in_order(&["replay", "o"]) {
        replay = match word.to_str() {
            _ if name == "replay" => Some(true),
            Some("cenote:replay=memory") => Some(true),
            Some("cenote:replay=off") => Some(false),
            Some("readonly=on") => replay,
            Some(text) => {
                return Err(line.wrong(format!(
                    "-o {text}: only cenote:replay=memory|off and readonly=on mean something here"
                )));
            }
            None => return Err(not_text(line, word)),
        };
    }
    Ok(replay)
}

fn not_text(line: &CommandLine, word: &OsStr) -> Failure {
    line.wrong(format!("'{}' is not UTF-8", word.to_string_lossy()))
}

/// `DATASET=LOCATION`, or only a location. The beginning shows whether it is a path, even if the
/// path contains `=`.
fn parse_key(text: &str) -> KeyOption {
    let is_location = |text: &str| text.starts_with(['/', '.']) || text.starts_with("file:");
    match text.split_once('=') {
        Some((dataset, location)) if !is_location(text) => KeyOption {
            dataset: Some(dataset.into()),
            location: location.into(),
        },
        _ => KeyOption {
            dataset: None,
            location: text.into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::failure::Exit;
    use cenote_words::command::Run;

    fn parse(words: &[&str]) -> Result<PoolOptions, Failure> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let command = Command {
            name: "ls",
            summary: "",
            synopsis: "",
            about: "",
            flags: &[],
            run: Run::Reading(|_| Exit::Good),
        };
        PoolOptions::read(&command, &words).map(|(_, options)| options)
    }

    /// Of contradicting options the last one counts.
    #[test]
    fn the_last_option_counts() {
        let replays = |words: &[&str]| parse(words).expect("good options").replay;
        assert_eq!(
            replays(&["--replay", "-o", "cenote:replay=off"]),
            Some(false)
        );
        assert_eq!(
            replays(&["-ocenote:replay=off", "-oreadonly=on", "--replay"]),
            Some(true)
        );
        let rewind = |words: &[&str]| parse(words).expect("good options").rewind;
        assert_eq!(rewind(&["-XF"]), Rewind::Recent);
        assert_eq!(rewind(&["-F", "--extreme-rewind"]), Rewind::Extreme);
    }

    #[test]
    fn options_are_taken() {
        let options = parse(&[
            "-d",
            "a",
            "-db",
            "--memory",
            "64M",
            "-o",
            "readonly=on",
            "-m",
        ]);
        let options = options.expect("good options");
        assert_eq!(options.devices, [PathBuf::from("a"), PathBuf::from("b")]);
        assert!(options.missing_logs && !options.replays());
        assert_eq!(options.import_options().cache_bytes, 16 << 20);
        assert!(parse(&["--nosuch"]).is_err());
        assert!(parse(&["--memory", "31M"]).is_err());
        assert!(parse(&["-o", "altroot=/x"]).is_err());
    }

    #[test]
    fn keys_name_their_dataset_or_do_not() {
        let key = |text: &str| {
            let key = parse_key(text);
            (key.dataset, key.location)
        };
        assert_eq!(
            key("t/e=file:///k"),
            (Some("t/e".into()), "file:///k".into())
        );
        assert_eq!(key("t/e=/a=b"), (Some("t/e".into()), "/a=b".into()));
        assert_eq!(key("/a=b"), (None, "/a=b".into()));
        assert_eq!(key("-"), (None, "-".into()));
    }
}
