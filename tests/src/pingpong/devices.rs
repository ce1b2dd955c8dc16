//! Devices that come, go and rest while Cenote and OpenZFS take turns.
//!
//! In each of its turns a side may begin a scrub, attach, replace or detach a device, take one out
//! of use or split the pool, and may hand it over half done: what one began the other ends. At the
//! beginning of the next turn everything is ended: then no device lacks anything, and nothing is
//! damaged.

use crate::random::Random;
use crate::referee;
use crate::site::Site;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;

/// Sides that a mirror gets at most.
const SIDES_MAX: usize = 3;

/// Runs the referee, which is known to be there.
fn ask(arguments: &[&str]) -> Result<String> {
    referee::run(arguments)?.context("the referee was there")?
}

/// A top-level vdev in the output of `zpool status`.
struct Top {
    kind: String,
    leaves: Vec<String>,
}

/// What a side does to devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Scrub,
    Attach,
    AttachInOrder,
    Replace,
    ReplaceInOrder,
    Detach,
    Offline,
    Split,
}

/// The devices of the run.
#[derive(Default)]
pub struct Devices {
    made: u64,
    /// Taken out of use, until the other side takes it in.
    offline: Option<String>,
    done: BTreeMap<String, u64>,
}

fn tops(site: &Site) -> Result<(Vec<Top>, bool)> {
    let said = site.ok("zpool status -j tank")?;
    let said: Value = serde_json::from_str(&said)?;
    let pool = &said["pools"]["tank"];
    let mut tops = Vec::new();
    let found = pool["vdevs"]["tank"]["vdevs"].as_object();
    for top in found.context("top-level vdevs")?.values() {
        let kind = top["vdev_type"].as_str().context("a kind")?.to_owned();
        let below = top["vdevs"].as_object();
        let own = below.is_none().then_some(top);
        let leaves = below.into_iter().flat_map(|below| below.values());
        let paths = leaves.chain(own).map(|leaf| leaf["path"].as_str());
        if kind == "replacing" || kind == "spare" {
            continue;
        }
        // A vdev with a replacement below it is none to choose from.
        let Some(leaves) = paths.map(|path| path.map(str::to_owned)).collect() else {
            continue;
        };
        tops.push(Top { kind, leaves });
    }
    let is_plain = ["logs", "special", "dedup"].iter().all(|class| {
        pool[*class]
            .as_object()
            .is_none_or(|vdevs| vdevs.is_empty())
    });
    Ok((tops, is_plain))
}

/// What can be done to a top-level vdev.
fn steps(top: &Top) -> Vec<Step> {
    let mut steps = vec![Step::Scrub, Step::Replace];
    match top.kind.as_str() {
        "file" | "disk" => steps.extend([Step::Attach, Step::AttachInOrder, Step::ReplaceInOrder]),
        "mirror" => {
            steps.extend([Step::Detach, Step::Offline, Step::ReplaceInOrder]);
            if top.leaves.len() < SIDES_MAX {
                steps.extend([Step::Attach, Step::AttachInOrder]);
            }
        }
        "draid" => steps.extend([Step::Offline, Step::ReplaceInOrder]),
        _ => steps.push(Step::Offline),
    }
    steps
}

impl Devices {
    /// How often which step was taken.
    pub fn summary(&self) -> String {
        let steps = self.done.iter();
        let steps: Vec<String> = steps
            .map(|(step, count)| format!("{step} {count}"))
            .collect();
        steps.join(", ")
    }

    fn note(&mut self, who: &str, step: Step, is_half_done: bool) {
        let how = if is_half_done { " (half)" } else { "" };
        *self.done.entry(format!("{who} {step:?}{how}")).or_default() += 1;
    }

    fn new_device(&mut self, site: &Site) -> Result<PathBuf> {
        self.made += 1;
        let path = site.devices().join(format!("new-{}.img", self.made));
        File::create(&path)?.set_len(520 << 20)?;
        Ok(path)
    }

    /// Cenote's step, at the end of its turn.
    pub fn ours(&mut self, site: &Site, random: &mut Random) -> Result<()> {
        if random.below(4) == 0 || self.offline.is_some() {
            return Ok(());
        }
        let checkpoint = site.ok("zpool get -H -o value checkpoint tank")?;
        let (tops, is_plain) = tops(site)?;
        if tops.is_empty() {
            return Ok(());
        }
        let top = random.choose(&tops);
        let mut steps = steps(top);
        if is_plain && tops.iter().all(|top| top.kind == "mirror") {
            steps.push(Step::Split);
        }
        if checkpoint.trim() != "-" {
            steps = vec![Step::Scrub];
        }
        let step = *random.choose(&steps);
        let device = random.choose(&top.leaves).clone();
        let is_half_done = random.below(2) == 0;
        self.take(site, step, &device)
            .with_context(|| format!("{step:?} of {device}"))?;
        if !is_half_done {
            settle(site)?;
        }
        self.note("Cenote", step, is_half_done);
        Ok(())
    }

    fn take(&mut self, site: &Site, step: Step, device: &str) -> Result<()> {
        let in_order = match step {
            Step::AttachInOrder | Step::ReplaceInOrder => "-s ",
            _ => "",
        };
        match step {
            Step::Scrub => site.ok("zpool scrub tank")?,
            Step::Attach | Step::AttachInOrder | Step::Replace | Step::ReplaceInOrder => {
                let new = self.new_device(site)?;
                let verb = match step {
                    Step::Attach | Step::AttachInOrder => "attach",
                    _ => "replace",
                };
                site.ok(&format!(
                    "zpool {verb} {in_order}tank {device} {}",
                    new.display()
                ))?
            }
            Step::Detach => site.ok(&format!("zpool detach tank {device}"))?,
            Step::Offline => {
                self.offline = Some(device.to_owned());
                site.ok(&format!("zpool offline tank {device}"))?
            }
            Step::Split => {
                site.ok("zpool split tank half")?;
                let devices = site.devices().display().to_string();
                // While the pool itself stays imported; what the two have in common is data only.
                ask(&["check", &devices, "half"])?;
                let line = format!("zpool import -N -d {devices} half");
                site.ok(&line)?;
                site.ok("cenote verify --quiet half")?;
                site.ok("zpool destroy half")?
            }
        };
        Ok(())
    }

    /// OpenZFS ends what Cenote began.
    pub fn end_by_theirs(&mut self, site: &Site) -> Result<()> {
        let devices = site.devices().display().to_string();
        if let Some(device) = self.offline.take() {
            ask(&["online", &devices, "tank", &device])?;
        }
        ask(&["resilver", &devices, "tank"])?;
        Ok(())
    }

    /// OpenZFS's step, at the end of its turn; `tops` are those that Cenote knew.
    pub fn theirs(&mut self, site: &Site, known: &Known, random: &mut Random) -> Result<()> {
        if random.below(3) == 0 {
            return Ok(());
        }
        if known.tops.is_empty() {
            return Ok(());
        }
        let top = random.choose(&known.tops);
        let mut steps = steps(top);
        steps.retain(|step| !matches!(step, Step::Scrub | Step::Split));
        let step = *random.choose(&steps);
        let device = random.choose(&top.leaves).clone();
        let is_half_done = random.below(2) == 0;
        let place = site.devices().display().to_string();
        let verb = match step {
            Step::Attach | Step::AttachInOrder => "attach",
            Step::Replace | Step::ReplaceInOrder => "replace",
            Step::Detach => "detach",
            _ => "offline",
        };
        let mut words = vec![verb, &place, "tank", &device];
        let new;
        if matches!(verb, "attach" | "replace") {
            new = self.new_device(site)?.display().to_string();
            words.push(&new);
            if is_half_done {
                words.push("--no-wait");
            }
            if matches!(step, Step::AttachInOrder | Step::ReplaceInOrder) {
                words.push("--rebuild");
            }
        } else if step == Step::Offline {
            self.offline = Some(device.clone());
        }
        match ask(&words) {
            Err(error) if format!("{error:#}").contains("CHECKPOINT") => {}
            Err(error) => bail!("{words:?}: {error:#}"),
            Ok(_) => self.note("OpenZFS", step, is_half_done),
        }
        Ok(())
    }

    /// Cenote ends what OpenZFS began.
    pub fn end_by_ours(&mut self, site: &Site) -> Result<()> {
        if let Some(device) = self.offline.take() {
            site.ok(&format!("zpool online tank {device}"))?;
        }
        settle(site)
    }

    /// Cenote's view of the vdevs, for OpenZFS's turn.
    pub fn known(&self, site: &Site) -> Result<Known> {
        Ok(Known {
            tops: tops(site)?.0,
        })
    }
}

/// The vdevs as they were at the end of a turn.
pub struct Known {
    tops: Vec<Top>,
}

/// Waits for everything that runs by itself; then the pool has no problems.
fn settle(site: &Site) -> Result<()> {
    site.ok("zpool wait -t resilver,replace,scrub tank")?;
    // A scrub follows a rebuild.
    site.ok("zpool wait -t resilver,replace,scrub tank")?;
    let status = site.ok("zpool status -v tank")?;
    ensure!(status.contains("errors: No known data errors"), "{status}");
    for bad in ["awaiting resilver", "UNAVAIL", "FAULTED", "replacing"] {
        ensure!(!status.contains(bad), "{bad}:\n{status}");
    }
    Ok(())
}

/// Takes away the files of devices that no pool has any more.
pub fn remove_unused(site: &Site) -> Result<()> {
    let status = site.ok("zpool status -P tank")?;
    for entry in fs::read_dir(site.devices())? {
        let path = entry?.path();
        if !status.contains(&path.display().to_string()) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
