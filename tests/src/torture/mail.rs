//! A storm of small synced files, as a mail server makes them, and states that are replaced.
//!
//! A message is written below `tmp`, synced, moved to its place by a rename or a link, and the
//! directory is synced: then it is acknowledged. Its name describes its contents, so every message
//! can be checked, acknowledged or not: it was synced before it had its name. Some messages are
//! removed again. Besides, each thread replaces a file by newer versions of it.

use super::load::Load;
use crate::random::Random;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

const THREADS: u64 = 4;
const SIZE_MAX: u64 = 20_000;
/// A thread removes messages when it has more than this.
const MESSAGES: usize = 60;

/// The operations acknowledged to a thread.
#[derive(Default)]
struct Ledger {
    messages: BTreeSet<u64>,
    /// The one that is being delivered or removed.
    unsure: Option<u64>,
    /// The version that is on disk for sure, and the one that was written last.
    version: (u64, u64),
}

/// The storm.
pub(super) struct Mail {
    random: Random,
    ledgers: Vec<Ledger>,
    threads: Vec<JoinHandle<Ledger>>,
}

fn contents(message: u64) -> Vec<u8> {
    let mut random = Random::new(message);
    let mut bytes = vec![0; random.below(SIZE_MAX) as usize];
    random.fill(&mut bytes);
    bytes
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

impl Ledger {
    fn deliver(&mut self, place: &Path, random: &mut Random) -> io::Result<()> {
        let message = random.next_u64();
        let (draft, new) = (place.join("tmp/draft"), place.join("new"));
        let target = new.join(message.to_string());
        write_synced(&draft, &contents(message))?;
        self.unsure = Some(message);
        match random.index(2) {
            0 => fs::rename(&draft, &target)?,
            _ => {
                fs::hard_link(&draft, &target)?;
                fs::remove_file(&draft)?;
            }
        }
        sync(&new)?;
        self.messages.insert(message);
        self.unsure = None;
        Ok(())
    }

    fn remove(&mut self, place: &Path) -> io::Result<()> {
        let Some(message) = self.messages.pop_first() else {
            return Ok(());
        };
        self.unsure = Some(message);
        let new = place.join("new");
        fs::remove_file(new.join(message.to_string()))?;
        sync(&new)?;
        self.unsure = None;
        Ok(())
    }

    fn replace(&mut self, place: &Path) -> io::Result<()> {
        let version = self.version.1 + 1;
        self.version.1 = version;
        let (draft, state) = (place.join("state.new"), place.join("state"));
        write_synced(&draft, format!("{version:>5000}").as_bytes())?;
        fs::rename(&draft, &state)?;
        sync(place)?;
        self.version.0 = version;
        Ok(())
    }

    fn work(&mut self, place: &Path, random: &mut Random) -> io::Result<()> {
        // A draft that a crash left may be a second name of a message: to write to it is to change
        // that.
        match fs::remove_file(place.join("tmp/draft")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        loop {
            match random.index(4) {
                0 => self.replace(place)?,
                1 if self.messages.len() > MESSAGES => self.remove(place)?,
                _ => self.deliver(place, random)?,
            }
        }
    }

    fn check(&mut self, place: &Path) -> Result<u64> {
        let mut found = BTreeSet::new();
        let new = place.join("new");
        for entry in fs::read_dir(&new).with_context(|| new.display().to_string())? {
            let entry = entry?;
            let name = entry.file_name();
            let message = name.to_str().and_then(|name| name.parse::<u64>().ok());
            let message = message.with_context(|| format!("{}", entry.path().display()))?;
            let bytes = fs::read(entry.path())?;
            ensure!(
                bytes == contents(message),
                "message {message} has other contents: {} bytes",
                bytes.len()
            );
            found.insert(message);
        }
        for message in &self.messages {
            ensure!(found.contains(message), "message {message} is lost");
        }
        for message in &found {
            let is_known = self.messages.contains(message) || self.unsure == Some(*message);
            ensure!(is_known, "message {message} was removed and is there again");
        }
        let state = place.join("state");
        let (sure, last) = self.version;
        let version = match fs::read_to_string(&state) {
            Ok(text) => text.trim().parse().context("the state is torn")?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error.into()),
        };
        ensure!(
            (sure..=last).contains(&version),
            "the state is of version {version}; {sure} was acknowledged, {last} written"
        );
        self.version = (version, version);
        let acknowledged = self.messages.len() as u64 + sure;
        self.messages = found;
        self.unsure = None;
        Ok(acknowledged)
    }
}

fn place(root: &Path, thread: usize) -> PathBuf {
    root.join(format!("box-{thread}"))
}

impl Mail {
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            ledgers: Vec::new(),
            threads: Vec::new(),
        }
    }
}

impl Load for Mail {
    fn name(&self) -> &'static str {
        "mail"
    }

    fn start(&mut self, root: &Path) -> Result<()> {
        if self.ledgers.is_empty() {
            for thread in 0..THREADS as usize {
                fs::create_dir(place(root, thread))?;
                for name in ["tmp", "new"] {
                    fs::create_dir(place(root, thread).join(name))?;
                }
                sync(&place(root, thread))?;
                self.ledgers.push(Ledger::default());
            }
            sync(root)?;
        }
        for (index, mut ledger) in self.ledgers.drain(..).enumerate() {
            let place = place(root, index);
            let mut random = Random::new(self.random.next_u64());
            self.threads.push(thread::spawn(move || {
                // It ends when the file system does.
                let _ = ledger.work(&place, &mut random);
                ledger
            }));
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        let ends = self.threads.drain(..).map(JoinHandle::join);
        self.ledgers = ends.map(|end| end.expect("no panic")).collect();
        Ok(())
    }

    fn check(&mut self, root: &Path) -> Result<u64> {
        let mut found = 0;
        for (index, ledger) in self.ledgers.iter_mut().enumerate() {
            let place = place(root, index);
            found += ledger
                .check(&place)
                .with_context(|| format!("box {index}"))?;
        }
        Ok(found)
    }
}
