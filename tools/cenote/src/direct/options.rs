//! The options that every command has which opens a pool.

use super::failure::Failure;
use super::line::CommandLine;
use cenote_base::Txg;
use cenote_control::model::OpenedPool;
use cenote_pool::{Buffers, ImportOptions, Rewind};
use std::path::PathBuf;

/// Memory for caches and buffers unless `--memory` says otherwise. With the program itself, its
/// threads and the lists of a walk the process stays below 256 MiB.
const MEMORY_DEFAULT: u64 = 128 << 20;
/// Half of it is for what is being read: a block of 16 MiB must fit.
const MEMORY_MIN: u64 = 32 << 20;

/// Where the key of an encryption root is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOption {
    /// The encryption root; `None` for whichever is needed.
    pub dataset: Option<String>,
    /// A path, `file://` and a path, `prompt`, or `-` for standard input.
    pub location: String,
}

/// How to find and open a pool.
#[derive(Clone, Debug, Default)]
pub struct PoolOptions {
    /// Devices, files and directories to look at.
    pub devices: Vec<PathBuf>,
    /// Where in each device the pool's begins, in bytes.
    pub offset: u64,
    /// Bytes for caches and buffers.
    pub memory: Option<u64>,
    /// The newest txg to open.
    pub txg: Option<u64>,
    /// How far back to go for one that can be read.
    pub rewind: Rewind,
    /// Open the checkpoint.
    pub checkpoint: bool,
    /// Do without missing log devices.
    pub missing_logs: bool,
    /// Show files as after the intent log's replay; not said, as the daemon does.
    pub replay: Option<bool>,
    /// The name to know the pool by, if not its own.
    pub name: Option<String>,
    /// Keys.
    pub keys: Vec<KeyOption>,
}

impl PoolOptions {
    /// Takes `option` if it is one of these; otherwise it is unknown.
    pub fn take(&mut self, option: &str, line: &mut CommandLine) -> Result<(), Failure> {
        match option {
            "-d" | "--device" => self.devices.push(line.value()?.into()),
            "--offset" => self.offset = line.size()?,
            "--memory" => {
                let memory = line.size()?;
                if memory < MEMORY_MIN {
                    return Err(line.wrong("--memory: 32M is the least that can work"));
                }
                self.memory = Some(memory);
            }
            "-T" | "--txg" => self.txg = Some(line.number()?),
            "-F" | "--rewind" => self.rewind = Rewind::Recent,
            "-X" | "--extreme-rewind" => self.rewind = Rewind::Extreme,
            "--checkpoint" | "--rewind-to-checkpoint" => self.checkpoint = true,
            "-m" | "--missing-log" => self.missing_logs = true,
            "--replay" => self.replay = Some(true),
            "-o" => self.take_property(line)?,
            "--key" => {
                let text = line.text()?;
                self.keys.push(parse_key(text));
            }
            _ => return Err(line.unknown(option)),
        }
        Ok(())
    }

    /// `-o NAME=VALUE`, as `zpool import` has it, for the names that mean something here.
    fn take_property(&mut self, line: &mut CommandLine) -> Result<(), Failure> {
        let text = line.text()?;
        match text.as_str() {
            "cenote:replay=memory" => self.replay = Some(true),
            "cenote:replay=off" => self.replay = Some(false),
            "readonly=on" => {}
            _ => {
                return Err(line.wrong(format!(
                    "-o {text}: only cenote:replay=memory|off and readonly=on mean something here"
                )));
            }
        }
        Ok(())
    }

    /// Whether intent logs are replayed.
    pub fn replays(&self) -> bool {
        self.replay.unwrap_or(false)
    }

    /// Reads what the daemon reads: the same devices, and unless other things were asked for the
    /// same state.
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

    /// What the import is asked for.
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
            // A quarter for blocks to be read again, half for what is being read: files are
            // mostly read once here. The last quarter is for what nobody counts.
            cache_bytes: memory / 4,
            buffers: Buffers::new(memory / 2),
            ..ImportOptions::default()
        }
    }
}

/// `DATASET=LOCATION`, or a location alone. A path that holds `=` is told from a dataset by its
/// beginning.
fn parse_key(text: String) -> KeyOption {
    let is_location = |text: &str| text.starts_with(['/', '.']) || text.starts_with("file:");
    match text.split_once('=') {
        Some((dataset, location)) if !is_location(&text) => KeyOption {
            dataset: Some(dataset.into()),
            location: location.into(),
        },
        _ => KeyOption {
            dataset: None,
            location: text,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::Word;
    use super::*;
    use std::ffi::OsString;

    fn parse(words: &[&str]) -> Result<PoolOptions, Failure> {
        let words = words.iter().map(OsString::from).collect();
        let mut line = CommandLine::new("ls", words);
        let mut options = PoolOptions::default();
        while let Some(word) = line.next()? {
            if let Word::Option(option) = word {
                options.take(&option, &mut line)?;
            }
        }
        Ok(options)
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
            let key = parse_key(text.into());
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
