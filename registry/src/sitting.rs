//! Slow devices of raidz and dRAID that sit out reads: the properties `sit_out` and `autosit`.
//!
//! A disk that is about to die may still answer, but a hundred times slower than the others, and
//! every read waits for it. While it sits out, its data is computed from parity instead.
//!
//! With `autosit` the mean times of the last reads of a vdev's devices are compared, once a second.
//! A device is slow if its mean is far above the others: above the third quartile by many times the
//! distance of the quartiles (Tukey's fence). It must be so for several looks, because a disk is
//! sometimes busy with itself. After some minutes it takes part again, to see how fast it is then.
//! Never do more devices sit out than the parity can replace.

use crate::imported::Imported;
use cenote_base::{Guid, settings};
use cenote_dsl::Stored;
use cenote_ondisk::{VdevConfig, VdevKind};
use cenote_pool::Pool;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The property that a top-level vdev keeps.
pub const AUTOSIT: &str = "autosit";

/// Among fewer devices none is unusual.
const DEVICES_MIN: usize = 5;
/// Reads since the last look whose mean says something.
const READS_MIN: u64 = 8;
/// Looks in a row at which a device must be slow.
const LOOKS: u32 = 5;

/// What is remembered of a device.
#[derive(Debug, Default)]
struct Device {
    /// Reads so far, and the nanoseconds that they took.
    before: (u64, u64),
    /// At how many looks in a row it was slow.
    slow: u32,
    /// When it takes part again.
    until: Option<Duration>,
}

/// What is remembered of all devices, by pool and guid.
#[derive(Debug, Default)]
pub struct Sitting {
    devices: HashMap<(u64, Guid), Device>,
}

/// How many of its devices a top-level vdev can do without; `None` for other kinds.
fn parity(top: &VdevConfig) -> Option<usize> {
    match top.kind {
        VdevKind::Raidz | VdevKind::Draid => usize::try_from(top.parity).ok(),
        _ => None,
    }
}

fn is_automatic(pool: &Pool, top: &VdevConfig) -> bool {
    let stored = top
        .top_zap
        .and_then(|zap| pool.dsl().vdev_properties(zap).ok());
    stored.is_some_and(|set| set.get(AUTOSIT) == Some(&Stored::Number(1)))
}

impl Sitting {
    /// Forgets the devices of pools that are gone.
    pub fn retain(&mut self, is_there: impl Fn(u64) -> bool) {
        self.devices.retain(|(load, _), _| is_there(*load));
    }

    /// Looks at the devices of a pool once more.
    pub fn look(&mut self, imported: &Arc<Imported>, now: Duration) {
        let (pool, load) = (&imported.pool, imported.load_guid);
        self.end(imported, now);
        let tree = pool.vdev_tree();
        let tops = tree.children.iter();
        let tops = tops.filter_map(|top| Some((top, parity(top)?)));
        let tops = tops.filter(|(top, _)| top.children.len() >= DEVICES_MIN);
        let tops: Vec<_> = tops.filter(|(top, _)| is_automatic(pool, top)).collect();
        if tops.is_empty() {
            return;
        }
        let requests = pool.vdevs().leaf_requests();
        for (top, parity) in tops {
            let mut means = Vec::new();
            for leaf in top.leaves().map(|leaf| leaf.guid) {
                let found = requests.iter().find(|(guid, _)| *guid == leaf);
                // Reads that callers wait for come first among the classes.
                let reads = found.and_then(|(_, classes)| classes.first());
                let Some(reads) = reads.map(|class| (class.device.count(), class.device.sum))
                else {
                    continue;
                };
                let device = self.devices.entry((load, leaf)).or_default();
                let count = reads.0.saturating_sub(device.before.0);
                let sum = reads.1.saturating_sub(device.before.1);
                if count >= READS_MIN {
                    device.before = reads;
                    means.push((leaf, sum / count));
                }
            }
            self.judge(imported, (top, parity), &means, now);
        }
    }

    /// Lets devices take part again whose time is over.
    fn end(&mut self, imported: &Imported, now: Duration) {
        for ((load, leaf), device) in &mut self.devices {
            let is_over = device.until.is_some_and(|until| now >= until);
            if *load == imported.load_guid && is_over {
                device.until = None;
                imported.pool.vdevs().set_sits_out(*leaf, false);
                log::info!("pool '{}': device {leaf} is read again", imported.name());
            }
        }
    }

    fn judge(
        &mut self,
        imported: &Imported,
        (top, parity): (&VdevConfig, usize),
        means: &[(Guid, u64)],
        now: Duration,
    ) {
        let vdevs = imported.pool.vdevs();
        let fence = fence(means.iter().map(|(_, mean)| *mean).collect());
        let sitting = top
            .leaves()
            .filter(|leaf| vdevs.sits_out(leaf.guid) == Some(true));
        let mut left = parity.saturating_sub(sitting.count());
        for (leaf, mean) in means {
            let Some(device) = self.devices.get_mut(&(imported.load_guid, *leaf)) else {
                continue;
            };
            match fence.is_some_and(|fence| *mean > fence) {
                true => device.slow += 1,
                false => device.slow = 0,
            }
            if device.slow < LOOKS || left == 0 || vdevs.sits_out(*leaf) != Some(false) {
                continue;
            }
            left -= 1;
            device.slow = 0;
            let pause = Duration::from_secs(settings::SIT_OUT_SECONDS.get());
            device.until = Some(now + pause);
            vdevs.set_sits_out(*leaf, true);
            log::warn!(
                "pool '{}': device {leaf} takes {} ms for a read, much more than the others; it \
                 is not read for {} s",
                imported.name(),
                mean / 1_000_000,
                pause.as_secs()
            );
        }
    }
}

/// What is slower than this is unusual; `None` if there are too few to say.
fn fence(mut means: Vec<u64>) -> Option<u64> {
    if means.len() < DEVICES_MIN {
        return None;
    }
    means.sort_unstable();
    let quartile = |quarter: usize| means[(means.len() - 1) * quarter / 4];
    let (first, third) = (quartile(1), quartile(3));
    let factor = settings::SIT_OUT_INSENSITIVITY.get().max(1);
    // Devices that are all alike would have no distance, and any of them would be unusual.
    let distance = (third - first).max(third.div_ceil(factor));
    Some(third.saturating_add(distance.saturating_mul(factor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_far_above_the_others_is_unusual() {
        let is_slow = |means: &[u64], mean: u64| {
            let mut all = means.to_vec();
            all.push(mean);
            fence(all).map(|fence| mean > fence)
        };
        assert_eq!(is_slow(&[100; 3], 1_000_000), None, "too few");
        let alike = [100; 7];
        assert_eq!(is_slow(&alike, 190), Some(false));
        assert_eq!(is_slow(&alike, 1_000_000), Some(true));
        // Those that differ much have a fence that is far away.
        let mixed = [100, 200, 300, 400, 500, 600, 700];
        assert_eq!(is_slow(&mixed, 5_000), Some(false));
        assert_eq!(is_slow(&mixed, 50_000), Some(true));
    }
}
