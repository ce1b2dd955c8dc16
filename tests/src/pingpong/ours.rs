//! What Cenote does in its turn to snapshots, clones and the pool's checkpoint, its own and those
//! that OpenZFS made.

use super::kept::{DATASET, Kept, changed};
use crate::manifest::Entries;
use crate::random::Random;
use crate::site::Site;
use anyhow::{Context, Result};
use std::sync::Arc;

/// Clones of ours; with more, one is destroyed first.
const CLONES_MAX: usize = 4;

/// What Cenote made so far.
#[derive(Default)]
pub struct Ours {
    made: u64,
    /// Snapshots by what follows the `@`, the oldest first, and whether they are held.
    snapshots: Vec<(String, bool)>,
    clones: Vec<String>,
    /// The clone that has the snapshots now; it gives them back with the next turn.
    promoted: Option<String>,
}

impl Ours {
    /// How much was done.
    pub fn summary(&self) -> String {
        format!(
            "{} snapshots of Cenote's, of which {} and {} clones are left",
            self.made,
            self.snapshots.len(),
            self.clones.len()
        )
    }

    /// Before any check: the promoted clone becomes a clone again.
    pub fn begin(&mut self, site: &Site) -> Result<()> {
        match self.promoted.take() {
            Some(_) => site.ok(&format!("zfs promote {DATASET}")).map(drop),
            None => Ok(()),
        }
    }

    /// Snapshots `files`, which are in the file system, and works on what there is of snapshots
    /// and clones.
    pub fn turn(
        &mut self,
        site: &Site,
        kept: &mut Kept,
        files: &Entries,
        random: &mut Random,
    ) -> Result<()> {
        self.made += 1;
        let short = format!("ours-{}", self.made);
        let full = format!("{DATASET}@{short}");
        site.ok(&format!("zfs snapshot {full}"))?;
        site.ok(&format!("zfs bookmark {full} {DATASET}#{short}"))?;
        let files = Arc::new(files.clone());
        kept.keep_snapshot(&short, &files);
        let is_held = random.below(3) == 0;
        if is_held {
            site.ok(&format!("zfs hold kept {full}"))?;
        }
        self.snapshots.push((short, is_held));
        if self.clones.len() >= CLONES_MAX {
            self.destroy_clone(site, kept, random)?;
        }
        let clone = format!("tank/clone-{}", self.made);
        site.ok(&format!("zfs clone -o canmount=noauto {full} {clone}"))?;
        kept.keep_clone(&clone, &files);
        self.clones.push(clone);
        let clone = random.choose(&self.clones).clone();
        there_and_back(site, kept, &clone, random)?;
        self.destroy_snapshot(site, kept)?;
        kept.destroy_foreign_clone(site, &self.clones, random)
    }

    /// Promotes a clone, and often the file system again. With `stays` it may remain so until the
    /// next turn: a promoted clone becomes the encryption root.
    pub fn end(&mut self, site: &Site, stays: bool, random: &mut Random) -> Result<()> {
        if random.below(2) == 0 {
            return Ok(());
        }
        let clone = random.choose(&self.clones);
        site.ok(&format!("zfs promote {clone}"))?;
        if stays && random.below(2) == 0 {
            self.promoted = Some(clone.clone());
            return Ok(());
        }
        site.ok(&format!("zfs promote {DATASET}")).map(drop)
    }

    fn destroy_clone(&mut self, site: &Site, kept: &mut Kept, random: &mut Random) -> Result<()> {
        let name = self.clones[random.index(self.clones.len())].clone();
        // OpenZFS may have cloned it.
        if kept.destroy(site, &name)? {
            self.clones.retain(|clone| *clone != name);
        }
        Ok(())
    }

    /// Destroys the oldest snapshot that no clone needs.
    fn destroy_snapshot(&mut self, site: &Site, kept: &mut Kept) -> Result<()> {
        for index in 0..self.snapshots.len() {
            let (short, is_held) = &self.snapshots[index];
            let full = format!("{DATASET}@{short}");
            let clones = site.ok(&format!("zfs list -H -o clones {full}"))?;
            if !["", "-"].contains(&clones.trim()) {
                continue;
            }
            if *is_held {
                site.fails(&format!("zfs destroy {full}"))?;
                site.ok(&format!("zfs release kept {full}"))?;
            }
            site.ok(&format!("zfs destroy {full}"))?;
            kept.forget_snapshot(short);
            self.snapshots.remove(index);
            break;
        }
        Ok(())
    }
}

/// Changes a clone and rolls it back; the result is checked with everything else.
fn there_and_back(site: &Site, kept: &Kept, clone: &str, random: &mut Random) -> Result<()> {
    let files = kept.clone_files(clone).context("a clone of ours")?;
    site.ok(&format!("zfs snapshot {clone}@back"))?;
    changed(site, clone, &files, random)?;
    site.ok(&format!("zfs rollback {clone}@back"))?;
    site.ok(&format!("zfs destroy {clone}@back")).map(drop)
}
