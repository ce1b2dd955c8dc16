//! What is done to a pool's devices while it is written to: scrubs, devices that rest, come, go and
//! are replaced.
//!
//! This must not change the contents of the pool, so the thread remembers nothing. Commands may be
//! refused: a device that the pool needs cannot be taken offline.

use crate::disks::Disks;
use crate::machine::actor;
use anyhow::{Result, bail};
use cenote_base::rt::{self, Random};
use cenote_base::{Guid, Txg};
use cenote_ondisk::scan::ScanState;
use cenote_pool::{Attachment, Companion, LookedFor, Offline, Pool, ScanRequest};
use std::time::Duration;

/// The longest pause between two commands.
const PAUSE_MS_MAX: u64 = 30;
/// The longest that a scan of so little takes.
const SCAN_TIME_MAX: Duration = Duration::from_secs(600);

/// A thread that administers the pool's devices.
#[derive(Debug)]
pub struct Keeper {
    pub random: Random,
    /// Disks that the pool does not have, and may get.
    pub free: Vec<usize>,
    /// Whether redundancy may be spent.
    pub is_bold: bool,
}

impl Keeper {
    /// Gives a few commands.
    ///
    /// # Errors
    /// If the pool takes no changes any more.
    pub fn work(&mut self, disks: &Disks, pool: &Pool, commands: usize) -> Result<()> {
        for _ in 0..commands {
            rt::sleep(Duration::from_millis(self.random.below(PAUSE_MS_MAX)));
            let (words, done) = self.command(disks, pool);
            rt::trace!("{words}: {done:?}");
            if let Some(cause) = pool.suspended() {
                bail!("{done:?}: the pool takes no changes: {cause}");
            }
        }
        Ok(())
    }

    fn command(&mut self, disks: &Disks, pool: &Pool) -> (String, Result<()>) {
        let leaves: Vec<Guid> = pool.vdev_tree().leaves().map(|leaf| leaf.guid).collect();
        let leaf = leaves[self.random.index(leaves.len())];
        let actor = actor();
        let by = (&actor, "");
        let drawn = match self.is_bold {
            true => self.random.below(14),
            false => self.random.below(3),
        };
        match drawn {
            0..3 => ("scrub".to_owned(), start_scrub(pool)),
            3..6 => {
                let how = Offline {
                    is_temporary: self.random.happens(50),
                    is_fault: false,
                };
                let done = pool.offline(leaf, how, by);
                (format!("offline {leaf}, {how:?}"), done.map_err(Into::into))
            }
            6..9 => {
                let mut leaves = leaves.into_iter();
                let done = leaves.try_for_each(|leaf| bring_back(pool, leaf));
                ("online all".to_owned(), done)
            }
            9 => {
                let done = pool.detach(leaf, by);
                (format!("detach {leaf}"), done.map_err(Into::into))
            }
            10..12 => self.attach(disks, pool, leaf),
            _ => self.remove_log(pool),
        }
    }

    fn remove_log(&mut self, pool: &Pool) -> (String, Result<()>) {
        let tree = pool.vdev_tree();
        let logs = tree.children.iter().filter(|top| top.is_log);
        let logs: Vec<Guid> = logs.map(|top| top.guid).collect();
        if logs.is_empty() {
            return ("remove no log device".to_owned(), Ok(()));
        }
        let log = logs[self.random.index(logs.len())];
        let done = pool.remove_log(log, (&actor(), ""));
        (format!("remove log {log}"), done.map_err(Into::into))
    }

    fn attach(&mut self, disks: &Disks, pool: &Pool, old: Guid) -> (String, Result<()>) {
        let Some(new) = self.free.pop() else {
            return ("attach nothing".to_owned(), Ok(()));
        };
        let companion = match self.random.happens(50) {
            true => Companion::Side,
            false => Companion::Replacement,
        };
        let request = Attachment {
            old,
            new: disks.leaf(new),
            companion,
            sequential: self.random.happens(30),
            ashift: None,
        };
        let words = format!("attach disk {new} to {old}, {companion:?}");
        let done = pool.attach(&request, (&actor(), ""));
        (words, done.map_err(Into::into))
    }
}

/// Puts a disk that the pool does not have in the place of one that it has, and waits until it is.
/// That it is refused is all right.
///
/// # Errors
/// If it does not end.
pub fn exchange(disks: &Disks, pool: &Pool, new: usize, random: &mut Random) -> Result<()> {
    let leaves: Vec<Guid> = pool.vdev_tree().leaves().map(|leaf| leaf.guid).collect();
    let old = leaves[random.index(leaves.len())];
    let done = attach_in_place(disks, pool, old, new);
    rt::trace!("exchange {old} for disk {new}: {done:?}");
    match done {
        Ok(()) => wait_until_gone(pool, old),
        Err(_) => Ok(()),
    }
}

/// Puts a disk in the place of one that the pool has, and waits until it is.
///
/// # Errors
/// If it is refused, or does not end.
pub(crate) fn replace(disks: &Disks, pool: &Pool, old: Guid, new: usize) -> Result<()> {
    attach_in_place(disks, pool, old, new)?;
    wait_until_gone(pool, old)
}

fn attach_in_place(disks: &Disks, pool: &Pool, old: Guid, new: usize) -> Result<()> {
    let request = Attachment {
        old,
        new: disks.leaf(new),
        companion: Companion::Replacement,
        // A rebuild copies without checksums, also from a side that lacks a log block after a cut.
        // That block was not promised.
        sequential: false,
        ashift: None,
    };
    Ok(pool.attach(&request, (&actor(), ""))?)
}

fn wait_until_gone(pool: &Pool, old: Guid) -> Result<()> {
    let begun = rt::Instant::now();
    while pool.vdev_tree().leaves().any(|leaf| leaf.guid == old) {
        if begun.elapsed() > SCAN_TIME_MAX {
            bail!(
                "the exchange of {old} does not end: {:?}",
                pool.scan_status()
            );
        }
        rt::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Uses a device again, as `zpool online` does.
///
/// # Errors
/// Why it cannot be used.
pub fn bring_back(pool: &Pool, leaf: Guid) -> Result<()> {
    if pool.vdevs().silent_leaves().contains(&leaf) {
        pool.clear(&[leaf])?;
    }
    let is_open = pool.vdevs().is_open(leaf);
    let mut looked = match is_open {
        true => LookedFor::default(),
        false => pool.look_for(vec![leaf])?,
    };
    let found = looked.devices.remove(&leaf);
    if found.is_some() || pool.is_out_of_use(leaf) {
        pool.online(leaf, found, (&actor(), ""))?;
    }
    Ok(())
}

fn start_scrub(pool: &Pool) -> Result<()> {
    let (since, until) = (Txg(0), None);
    Ok(pool.start_scan(ScanRequest::Scrub { since, until }, (&actor(), ""))?)
}

/// Scrubs the pool, and waits until that is done.
///
/// # Errors
/// If it cannot begin, or does not end.
pub fn scrub(pool: &Pool) -> Result<()> {
    wait_for_scan(pool)?;
    start_scrub(pool)?;
    wait_for_scan(pool)
}

/// Waits until no device lacks anything.
///
/// # Errors
/// If that does not end.
pub fn bring_what_is_missed(pool: &Pool) -> Result<()> {
    let begun = rt::Instant::now();
    while pool.vdevs().is_resilver_needed().is_some() {
        if begun.elapsed() > SCAN_TIME_MAX {
            bail!("a resilver does not end: {:?}", pool.scan_status());
        }
        wait_for_scan(pool)?;
        pool.look_for_resilver()?;
        rt::sleep(Duration::from_millis(5));
    }
    wait_for_scan(pool)
}

pub(crate) fn wait_for_scan(pool: &Pool) -> Result<()> {
    let begun = rt::Instant::now();
    while begun.elapsed() < SCAN_TIME_MAX {
        let status = pool.scan_status()?;
        if status.is_none_or(|status| status.scan.state != ScanState::Scanning) {
            return Ok(());
        }
        rt::sleep(Duration::from_millis(5));
    }
    bail!("a scan does not end: {:?}", pool.scan_status())
}
