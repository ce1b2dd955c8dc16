//! Random commands on a pool's devices.

use super::tree::{Tree, Vdev};
use crate::random::Random;
use anyhow::Result;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Bytes of a device.
pub(super) const DEVICE: u64 = 128 << 20;

/// Draws commands.
pub(super) struct Draw<'a> {
    pub devices: &'a Path,
    pub random: &'a mut Random,
    /// New devices that were made.
    pub made: &'a mut u32,
}

impl Draw<'_> {
    /// A new blank device.
    fn blank(&mut self) -> Result<PathBuf> {
        *self.made += 1;
        let path = self.devices.join(format!("n{}.img", self.made));
        File::create(&path)?.set_len(DEVICE)?;
        Ok(path)
    }

    fn leaf<'t>(&mut self, tree: &'t Tree, is_meant: impl Fn(&Vdev) -> bool) -> Option<&'t str> {
        let mut leaves = tree.leaves();
        leaves.retain(|leaf| leaf.name.starts_with('/') && !leaf.name.ends_with("/old"));
        let meant: Vec<&Vdev> = leaves
            .iter()
            .copied()
            .filter(|leaf| is_meant(leaf))
            .collect();
        let from = if meant.is_empty() { leaves } else { meant };
        (!from.is_empty()).then(|| &self.random.choose(&from).name[..])
    }

    /// The next command; `None` if what was drawn does not suit the pool.
    pub fn command(&mut self, tree: &Tree) -> Result<Option<String>> {
        let is_online = |leaf: &Vdev| leaf.state == "ONLINE";
        let sequential = *self.random.choose(&["", "-s "]);
        let any = self.leaf(tree, |_| true).unwrap_or_default().to_owned();
        Ok(Some(match self.random.index(20) {
            0..=3 => {
                let how = *self.random.choose(&["", "", "-t ", "-f "]);
                let leaf = self.leaf(tree, is_online).unwrap_or_default();
                format!("offline {how}tank {leaf}")
            }
            4..=8 => {
                let leaf = self.leaf(tree, |leaf| !is_online(leaf));
                format!("online tank {}", leaf.unwrap_or_default())
            }
            9 | 10 => format!("replace {sequential}tank {any} {}", self.blank()?.display()),
            11 => {
                let suits = |top: &&Vdev| top.is_mirror() || top.children.is_empty();
                if !tree.tops.iter().any(|top| suits(&top)) {
                    return Ok(None);
                }
                format!("attach {sequential}tank {any} {}", self.blank()?.display())
            }
            12 => format!("detach tank {any}"),
            13 => (*self
                .random
                .choose(&["scrub tank", "scrub -s tank", "scrub -p tank"]))
            .into(),
            14 => "resilver tank".into(),
            15 | 16 if !tree.spares.is_empty() => {
                let spare = &self.random.choose(&tree.spares).name;
                match self.random.index(3) {
                    0 => format!("detach tank {spare}"),
                    _ => format!("replace {sequential}tank {any} {spare}"),
                }
            }
            17 => "clear tank".into(),
            18 => "reopen tank".into(),
            19 => "sync tank".into(),
            _ => return Ok(None),
        }))
    }
}
