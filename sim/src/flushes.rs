//! Flushes that fail, and disks that are away for longer than a pool waits.
//!
//! A disk acknowledges writes from its cache. If a flush fails, or the disk was away, it may have
//! lost its cache, or not. The pool must survive both. [`Weather`] causes such trouble on disks of
//! all kinds (once, for a while, and forever if the pool can do without the disk), ends it, and
//! then runs the administrator's `zpool clear`.
//!
//! The judgement: trouble with a log device never suspends the pool. When the trouble with other
//! disks is over, the pool resumes. What `fsync` promised is there, which the cuts of the power
//! judge that follow.
//!
//! Deliberately absent: spares and cache devices, which have no place in the tree of a pool that
//! does not use them, and so are never asked to flush.

use crate::disk_cache::Trouble;
use crate::disks::Disks;
use crate::machine::Layout;
use crate::wrong::Wrong;
use anyhow::{Result, bail, ensure};
use cenote_base::rt::{self, Instant, Random};
use cenote_pool::Pool;
use std::time::Duration;

/// Troubles while the pool is written to.
const EPISODES: usize = 3;
/// The longest pause before a trouble, and the longest that one lasts.
const PAUSE_MS_MAX: u64 = 40;
const TROUBLE_MS_MAX: u64 = 120;
/// How often an administrator tries.
const CLEARS_MAX: usize = 30;

/// Brings trouble over disks.
#[derive(Debug)]
pub(crate) struct Weather {
    random: Random,
    layout: Layout,
    /// A disk whose trouble does not end.
    broken: Option<usize>,
}

impl Weather {
    pub(crate) fn new(layout: Layout, random: Random) -> Self {
        Self {
            random,
            layout,
            broken: None,
        }
    }

    /// Troubles disks for a while, one after the other, and lets the pool resume.
    ///
    /// # Errors
    /// If the pool is suspended that should not be.
    pub(crate) fn work(&mut self, disks: &Disks, pool: &Pool) -> Result<()> {
        let worked = self.bring_trouble(disks, pool);
        if worked.is_err() {
            // The others wait for the pool, and are to end before this is complained of.
            for disk in 0..self.layout.disks() {
                disks.trouble(disk, Trouble::default());
            }
            let _ = resume(pool);
        }
        worked
    }

    fn bring_trouble(&mut self, disks: &Disks, pool: &Pool) -> Result<()> {
        for episode in 0..EPISODES {
            rt::sleep(Duration::from_millis(self.random.below(PAUSE_MS_MAX)));
            let disk = self.random.index(self.layout.disks());
            let trouble = self.draw();
            let can_break = self.layout.is_log(disk) || self.layout.vdev_of(disk).spare > 0;
            let is_for_ever = episode == 0 && can_break && self.random.happens(30);
            if self.broken == Some(disk) {
                continue;
            }
            rt::trace!("disk {disk}: {trouble:?}, for ever: {is_for_ever}");
            disks.trouble(disk, trouble);
            let watched = self.watch(disk, pool);
            match is_for_ever {
                true => self.broken = Some(disk),
                false => disks.trouble(disk, Trouble::default()),
            }
            rt::trace!("disk {disk}: the trouble is over, unless it is for ever");
            // What is under way meets it, too.
            rt::sleep(Duration::from_millis(10));
            resume(pool)?;
            watched?;
        }
        Ok(())
    }

    fn draw(&mut self) -> Trouble {
        let loses = self.random.happens(50);
        match self.random.below(3) {
            0 => Trouble {
                flushes: 1,
                loses,
                ..Trouble::default()
            },
            1 => Trouble {
                flushes: u64::MAX,
                loses,
                ..Trouble::default()
            },
            _ => Trouble {
                is_away: true,
                loses,
                ..Trouble::default()
            },
        }
    }

    /// Watches the pool while a disk has trouble.
    fn watch(&mut self, disk: usize, pool: &Pool) -> Result<()> {
        let lasts = Duration::from_millis(1 + self.random.below(TROUBLE_MS_MAX));
        let (begun, was_suspended) = (Instant::now(), pool.suspended().is_some());
        while begun.elapsed() < lasts {
            rt::sleep(Duration::from_millis(3));
            let cause = pool.suspended().filter(|_| !was_suspended);
            if let Some(cause) = cause.filter(|_| self.layout.is_log(disk)) {
                bail!(Wrong(format!("a log device suspends the pool: {cause}")));
            }
        }
        Ok(())
    }
}

/// Does what an administrator does when the devices are back.
fn resume(pool: &Pool) -> Result<()> {
    for _ in 0..CLEARS_MAX {
        for leaf in pool.vdevs().resting_logs() {
            let is_back = pool.try_log(leaf);
            rt::trace!("log device {leaf} is back: {is_back:?}");
        }
        if pool.suspended().is_none() {
            return Ok(());
        }
        let cleared = pool.clear(&[]);
        rt::trace!("clear: {cleared:?}");
        rt::sleep(Duration::from_millis(20));
    }
    let cause = pool.suspended();
    ensure!(
        cause.is_none(),
        Wrong(format!("the pool stays suspended: {cause:?}"))
    );
    Ok(())
}
