//! Tests of redundancy: devices are damaged, return outdated or are replaced while a writer runs,
//! and a scrub or resilver must repair everything.
//!
//! For each layout and each set of devices that it can lose, a file system is filled and a [`Loss`]
//! happens to the devices. The matching command repairs them while a writer runs, and in some cases
//! the daemon is killed at a random moment of it. Then *other* devices are overwritten: all reads
//! now use the repaired ones, and must return the same data. At the end OpenZFS checks the pool.

mod bench;
mod layouts;

use crate::manifest::Entries;
use crate::random::Random;
use crate::site::{Site, same};
use anyhow::{Context, Result, ensure};
use bench::{Bench, MEBIBYTES, Writer};
use layouts::{LAYOUTS, Set, all_sets, groups, some_set};
use std::fs;
use std::time::Duration;

/// The daemon is killed at most so many milliseconds after the repair began.
const CRASH_MS_MAX: u64 = 400;

/// What happens to devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Their space is overwritten with noise; a scrub repairs it.
    Noise,
    /// They were away while the pool was written to, and are resilvered at an import.
    Stale,
    /// They were taken offline and online again.
    Rested,
    /// Blank ones are found in their places, and replace them there.
    Blank,
    /// Blank ones in other places replace them while they are well.
    Exchanged,
}

/// What happens to devices, and whether the daemon is killed during the repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mishap {
    /// What happens.
    pub loss: Loss,
    /// Whether the daemon is killed.
    pub is_crash: bool,
}

impl Mishap {
    /// All there are.
    pub fn all() -> impl Iterator<Item = Self> {
        let losses = [
            Loss::Noise,
            Loss::Stale,
            Loss::Rested,
            Loss::Blank,
            Loss::Exchanged,
        ];
        let both = |loss| [false, true].map(|is_crash| Self { loss, is_crash });
        losses.into_iter().flat_map(both)
    }

    /// One with everything going well otherwise.
    pub fn of(loss: Loss) -> Self {
        let is_crash = false;
        Self { loss, is_crash }
    }

    /// One in whose middle the daemon is killed.
    pub fn with_crash(loss: Loss) -> Self {
        let is_crash = true;
        Self { loss, is_crash }
    }

    fn name(self) -> String {
        let crash = if self.is_crash { "-crash" } else { "" };
        format!("{:?}{crash}", self.loss).to_lowercase()
    }
}

/// What one run does.
#[derive(Clone, Debug)]
pub struct Options {
    /// Layouts and mishaps; without any of a kind all are meant.
    pub words: Vec<String>,
    /// Sets of devices tried for each layout and mishap; `None` for every set there is.
    pub sets: Option<usize>,
    /// Where random choices begin.
    pub seed: u64,
}

/// Makes the loss happen, with the pool exported or as idle as possible.
fn lose(bench: &Bench<'_>, loss: Loss, set: &Set, random: &mut Random) -> Result<()> {
    let site = bench.site;
    match loss {
        Loss::Noise | Loss::Exchanged => Ok(()),
        Loss::Stale => {
            site.export()?;
            let read = |number: &u32| Ok((*number, fs::read(bench.device(*number))?));
            let before: Vec<(u32, Vec<u8>)> = set.iter().map(read).collect::<Result<_>>()?;
            site.import("")?;
            bench.fill_later(random)?;
            site.export()?;
            for (number, bytes) in before {
                fs::write(bench.device(number), bytes)?;
            }
            site.import("")
        }
        Loss::Rested => {
            for number in set {
                site.ok(&format!(
                    "zpool offline tank {}",
                    bench.device(*number).display()
                ))?;
            }
            bench.fill_later(random)
        }
        Loss::Blank => {
            site.export()?;
            bench.blank(set)?;
            site.import("")
        }
    }
}

/// Begins the repair.
fn begin(bench: &mut Bench<'_>, loss: Loss, set: &Set, random: &mut Random) -> Result<()> {
    let site = bench.site;
    match loss {
        Loss::Noise => {
            bench.spoil(set, random)?;
            site.ok("zpool scrub tank")?;
        }
        // It begins at the import.
        Loss::Stale => {}
        Loss::Rested => {
            for number in set {
                let device = bench.device(*number);
                site.ok(&format!("zpool online tank {}", device.display()))?;
            }
        }
        Loss::Blank => {
            for number in set {
                let device = bench.device(*number);
                site.ok(&format!("zpool replace tank {}", device.display()))?;
            }
        }
        Loss::Exchanged => {
            for number in set {
                let old = bench.device(*number);
                let new = bench.exchange(*number)?;
                let (old, new) = (old.display(), new.display());
                site.ok(&format!("zpool replace tank {old} {new}"))?;
            }
        }
    }
    Ok(())
}

/// Waits for the end of the repair.
fn ended(bench: &Bench<'_>, loss: Loss) -> Result<()> {
    let mut status = bench.settled()?;
    let wanted = match loss {
        Loss::Noise => "scan: scrub repaired",
        _ => "scan: resilvered",
    };
    if loss == Loss::Noise && !status.contains(wanted) {
        // A device that missed something was looked after first.
        status = bench.scrubbed()?;
    }
    let is_mended = status.contains(wanted) && status.contains("with 0 errors");
    ensure!(is_mended, "not mended: {status}");
    Ok(())
}

/// Repairs a mishap while a writer runs.
fn mend(bench: &mut Bench<'_>, mishap: Mishap, set: &Set, random: &mut Random) -> Result<()> {
    let (loss, site) = (mishap.loss, bench.site);
    lose(bench, loss, set, random).context("when it was lost")?;
    let writer = Writer::start(&site.path("tank/w"), random.next_u64());
    begin(bench, loss, set, random).context("when it was to be mended")?;
    if !mishap.is_crash {
        ended(bench, loss)?;
        return writer.end();
    }
    std::thread::sleep(Duration::from_millis(random.below(CRASH_MS_MAX)));
    writer.end()?;
    site.crash()?;
    site.import("-f").context("after the crash")?;
    let writer = Writer::start(&site.path("tank/w"), random.next_u64());
    ended(bench, loss).context("after the crash")?;
    writer.end()
}

/// One layout, one mishap, some set of devices.
///
/// # Errors
/// Data that was lost or not repaired.
pub fn case(layout: &str, mishap: Mishap, seed: u64) -> Result<()> {
    let set = some_set(groups(layout)?, &mut Random::new(seed));
    case_of(layout, mishap, &set, seed)
}

fn case_of(layout: &str, mishap: Mishap, set: &Set, seed: u64) -> Result<()> {
    let site = Site::create(layout, MEBIBYTES, "")?;
    match lose_and_mend(&site, (layout, mishap), set, &mut Random::new(seed)) {
        Ok(()) => site.finish(),
        Err(error) => {
            // The first error counts, so OpenZFS does not check the pool.
            site.abandon();
            Err(error)
        }
    }
}

fn lose_and_mend(
    site: &Site,
    (layout, mishap): (&str, Mishap),
    set: &Set,
    random: &mut Random,
) -> Result<()> {
    let mut bench = Bench::new(site);
    bench.fill(random)?;
    let contents = || -> Result<Entries> { site.walk("tank/fs") };
    let before = contents()?;
    mend(&mut bench, mishap, set, random)?;
    if matches!(mishap.loss, Loss::Noise | Loss::Blank | Loss::Exchanged) {
        same(&before, &contents()?).context("after it was mended")?;
    }
    let all = || -> Result<[Entries; 2]> { Ok([contents()?, site.walk("tank/w")?]) };
    let before = all()?;
    // Nothing that memory has hides what the devices have.
    site.export()?;
    let other = some_set(groups(layout)?, random);
    bench.spoil(&other, random)?;
    site.import("")?;
    for (before, after) in before.iter().zip(&all()?) {
        same(before, after).with_context(|| format!("without {other:?}"))?;
    }
    bench.scrubbed()?;
    let status = bench.scrubbed()?;
    let is_clean = status.contains("scrub repaired 0B") && status.contains("with 0 errors");
    ensure!(is_clean, "{other:?}: {status}");
    // Devices with many checksum errors stay degraded until `zpool clear`.
    site.ok("zpool clear tank")?;
    let status = site.ok("zpool status tank")?;
    ensure!(status.contains("state: ONLINE"), "at last: {status}");
    Ok(())
}

/// Which layouts and mishaps of all are meant.
fn chosen(words: &[String]) -> Result<(Vec<&'static str>, Vec<Mishap>)> {
    let is_meant = |name: &str| words.iter().any(|word| word == name);
    let mut layouts: Vec<&str> = LAYOUTS.iter().map(|(name, _)| *name).collect();
    let mut mishaps: Vec<Mishap> = Mishap::all().collect();
    for word in words {
        let is_known = layouts.contains(&word.as_str());
        let is_mishap = mishaps.iter().any(|mishap| mishap.name() == *word);
        ensure!(is_known || is_mishap, "no layout or mishap '{word}'");
    }
    if layouts.iter().any(|name| is_meant(name)) {
        layouts.retain(|name| is_meant(name));
    }
    if mishaps.iter().any(|mishap| is_meant(&mishap.name())) {
        mishaps.retain(|mishap| is_meant(&mishap.name()));
    }
    Ok((layouts, mishaps))
}

/// All layouts, mishaps and some or all sets of devices each; whether all went well.
///
/// # Errors
/// If words are not understood.
pub fn run(options: &Options) -> Result<bool> {
    let (layouts, mishaps) = chosen(&options.words)?;
    let (mut failed, mut good) = (0, 0);
    println!("seed {}", options.seed);
    for layout in layouts {
        for mishap in &mishaps {
            let groups = groups(layout)?;
            let sets: Vec<(u64, Set)> = match options.sets {
                None => (options.seed..).zip(all_sets(groups)).collect(),
                Some(count) => (options.seed..)
                    .take(count)
                    .map(|seed| (seed, some_set(groups, &mut Random::new(seed))))
                    .collect(),
            };
            for (seed, set) in sets {
                let name = format!("{layout} {} {set:?} seed {seed}", mishap.name());
                match case_of(layout, *mishap, &set, seed) {
                    Ok(()) => {
                        println!("ok   {name}");
                        good += 1;
                    }
                    Err(error) => {
                        println!("FAIL {name}: {error:#}");
                        failed += 1;
                    }
                }
            }
        }
    }
    println!("{good} of {} went well", good + failed);
    Ok(failed == 0)
}
