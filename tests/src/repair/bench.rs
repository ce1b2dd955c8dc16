//! A pool whose devices are damaged, removed and replaced while a writer runs.

use super::layouts::Set;
use crate::random::Random;
use crate::site::Site;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes before and behind the space of a device: two labels and the boot region, two labels.
const LABELS: u64 = 4 << 20;
/// Of each device.
pub(super) const MEBIBYTES: u64 = 128;
const NOISE: usize = 1 << 20;
/// How long a scan of a few MiB may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A pool and the files that are its devices.
pub(super) struct Bench<'a> {
    pub site: &'a Site,
    /// Devices that took another's place, by its number.
    exchanged: BTreeMap<u32, PathBuf>,
}

impl<'a> Bench<'a> {
    pub fn new(site: &'a Site) -> Self {
        let exchanged = BTreeMap::new();
        Self { site, exchanged }
    }

    /// The file of the device with this number.
    pub fn device(&self, number: u32) -> PathBuf {
        let original = || self.site.devices().join(format!("d{number}.img"));
        let exchanged = self.exchanged.get(&number);
        exchanged.cloned().unwrap_or_else(original)
    }

    /// Overwrites the space of devices.
    pub fn spoil(&self, set: &Set, random: &mut Random) -> Result<()> {
        for number in set {
            let file = File::options().write(true).open(self.device(*number))?;
            let mut noise = vec![0; NOISE];
            random.fill(&mut noise);
            let mut offset = LABELS;
            while offset + NOISE as u64 <= (MEBIBYTES << 20) - LABELS {
                file.write_all_at(&noise, offset)?;
                offset += NOISE as u64;
            }
        }
        Ok(())
    }

    /// Puts blank devices in the place of devices.
    pub fn blank(&self, set: &Set) -> Result<()> {
        for number in set {
            let device = self.device(*number);
            fs::remove_file(&device)?;
            File::create(&device)?.set_len(MEBIBYTES << 20)?;
        }
        Ok(())
    }

    /// A blank device in another place, which is that of this number from now on.
    pub fn exchange(&mut self, number: u32) -> Result<PathBuf> {
        let path = self.site.devices().join(format!("n{number}.img"));
        File::create(&path)?.set_len(MEBIBYTES << 20)?;
        self.exchanged.insert(number, path.clone());
        Ok(path)
    }

    /// Small and large files, some of them in a snapshot only.
    pub fn fill(&self, random: &mut Random) -> Result<()> {
        self.site.ok("zfs create -o recordsize=16k tank/fs")?;
        self.site.ok("zfs create tank/w")?;
        let root = self.site.path("tank/fs");
        for number in 0..40 {
            let size = random.index(300_000);
            let mut bytes = vec![0; size];
            random.fill(&mut bytes);
            fs::write(root.join(format!("f{number}")), &bytes)?;
        }
        self.site.ok("zfs snapshot tank/fs@one")?;
        for number in 0..10 {
            fs::remove_file(root.join(format!("f{number}")))?;
        }
        self.site.ok("zpool sync tank")?;
        Ok(())
    }

    /// Files of some later groups.
    pub fn fill_later(&self, random: &mut Random) -> Result<()> {
        let root = self.site.path("tank/fs");
        for number in 0..8 {
            let mut bytes = vec![0; 100_000];
            random.fill(&mut bytes);
            fs::write(root.join(format!("late{number}")), &bytes)?;
            self.site.ok("zpool sync tank")?;
        }
        Ok(())
    }

    /// Waits until nothing is scanned or replaced; the status then.
    pub fn settled(&self) -> Result<String> {
        let began = Instant::now();
        loop {
            let status = self.site.ok("zpool status tank")?;
            let marks = ["in progress", "replacing-", "spare-", "awaiting resilver"];
            if !marks.iter().any(|mark| status.contains(mark)) {
                return Ok(status);
            }
            ensure!(began.elapsed() < PATIENCE, "it does not end: {status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Scrubs to the end; the status then. A device that lacks something is looked after by
    /// itself, and its resilver goes before a scrub.
    pub fn scrubbed(&self) -> Result<String> {
        let began = Instant::now();
        loop {
            let scrub = self.site.cenote().run("zpool", &["scrub", "-w", "tank"])?;
            let is_resilvering = scrub.stderr.contains("currently resilvering");
            let status = self.site.ok("zpool status tank")?;
            if !is_resilvering {
                scrub.success()?;
            }
            if !is_resilvering && status.contains("scan: scrub repaired") {
                return Ok(status);
            }
            ensure!(began.elapsed() < PATIENCE, "no scrub ends: {status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A thread that writes and removes files. Dropping it stops it.
pub(super) struct Writer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Writer {
    /// Begins to write below a directory.
    pub fn start(root: &Path, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (root, told) = (root.to_owned(), Arc::clone(&stop));
        let thread = Some(std::thread::spawn(move || write(&root, &told, seed)));
        Self { stop, thread }
    }

    /// Ends it; all that it did must have worked.
    pub fn end(mut self) -> Result<()> {
        self.join().context("the writer")
    }

    fn join(&mut self) -> std::io::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take() {
            Some(thread) => thread.join().expect("the writer does not panic"),
            None => Ok(()),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The caller fails with another error already.
        let _ = self.join();
    }
}

/// Writes and removes files until it is stopped, at least once.
fn write(root: &Path, stop: &AtomicBool, seed: u64) -> std::io::Result<()> {
    let mut random = Random::new(seed);
    let mut bytes = vec![0; 200_000];
    loop {
        let size = random.index(bytes.len());
        random.fill(&mut bytes[..size]);
        let name = root.join(format!("w{}", random.index(20)));
        let written = match random.index(4) {
            0 if name.exists() => fs::remove_file(name),
            _ => fs::write(name, &bytes[..size]),
        };
        written?;
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}
