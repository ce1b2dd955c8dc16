//! A thread that writes files, and knows which of them are on disk.

use crate::random::Random;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// How many files there are at a time.
const FILES: usize = 24;
const SIZE_MAX: usize = 120_000;

/// Files and what is in them.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Files whose `fsync` succeeded.
    acknowledged: BTreeMap<String, Vec<u8>>,
    /// What was under way when the daemon was killed: there or not, old or new.
    unsure: Vec<String>,
}

impl Files {
    /// Compares the files below a directory with these.
    pub fn check(&self, root: &Path) -> Result<()> {
        for (name, bytes) in &self.acknowledged {
            if self.unsure.contains(name) {
                continue;
            }
            let found = fs::read(root.join(name)).with_context(|| name.clone())?;
            let (length, wanted) = (found.len(), bytes.len());
            ensure!(
                found == *bytes,
                "{name}: {length} bytes differ from {wanted}"
            );
        }
        Ok(())
    }

    /// Writes or removes one file, and returns when that is on disk.
    fn step(&mut self, root: &Path, random: &mut Random) -> io::Result<()> {
        let name = format!("w{}", random.index(FILES));
        let is_removed = random.index(5) == 0 && self.acknowledged.contains_key(&name);
        self.unsure.push(name.clone());
        if is_removed {
            fs::remove_file(root.join(&name))?;
        } else {
            let mut bytes = vec![0; random.index(SIZE_MAX)];
            random.fill(&mut bytes);
            let mut file = File::create(root.join(&name))?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            self.acknowledged.insert(name.clone(), bytes);
        }
        File::open(root)?.sync_all()?;
        if is_removed {
            self.acknowledged.remove(&name);
        }
        self.unsure.retain(|other| *other != name);
        Ok(())
    }
}

/// The thread that writes.
pub(super) struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Files, io::Result<()>)>,
}

impl Writer {
    /// Begins to write below a directory, where these files are.
    pub fn start(root: &Path, mut files: Files, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (root, told) = (root.to_owned(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut random = Random::new(seed);
            let mut done = Ok(());
            while done.is_ok() && !told.load(Ordering::Relaxed) {
                done = files.step(&root, &mut random);
            }
            (files, done)
        });
        Self { stop, thread }
    }

    /// Ends it: the files now. Only where the daemon was killed may something have failed.
    pub fn end(self, was_killed: bool) -> Result<Files> {
        self.stop.store(true, Ordering::Relaxed);
        let (files, done) = self.thread.join().expect("the writer does not panic");
        if !was_killed {
            done.context("the writer")?;
        }
        Ok(files)
    }
}
