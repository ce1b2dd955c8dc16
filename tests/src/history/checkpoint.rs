//! Checkpoints of the whole pool, between the other steps.
//!
//! What the pool goes back to is the model as it was when the checkpoint was made. Where OpenZFS
//! takes turns, the pool never goes back: OpenZFS would miss what it wrote since.

use super::model::Model;
use super::session::Session;
use anyhow::{Context, Result, ensure};

/// Of so many steps one has something to do with a checkpoint before it.
const INTERVAL: u64 = 40;

impl Session {
    /// Before some steps: makes a checkpoint, gives it up, or goes back to it.
    pub(super) fn some_checkpoint(&mut self) -> Result<()> {
        if self.chance.below(INTERVAL) > 0 {
            return Ok(());
        }
        let Some(kept) = self.checkpoint.clone() else {
            self.count("checkpoint");
            self.checkpoint = Some(self.model.clone());
            self.site.fails("zpool checkpoint -d tank")?;
            self.site.ok("zpool checkpoint tank")?;
            return Ok(());
        };
        match self.chance.below(4) {
            0 => {
                self.count("discard");
                self.site.ok("zpool checkpoint -d -w tank")?;
                self.checkpoint = None;
            }
            1 | 2 if self.foreign.operations == 0 => self.rewind(kept)?,
            _ => {
                self.site.fails("zpool checkpoint tank")?;
                let status = self.site.ok("zpool status tank")?;
                ensure!(status.contains("checkpoint: created "), "{status}");
            }
        }
        Ok(())
    }

    fn rewind(&mut self, kept: Model) -> Result<()> {
        self.count("rewind");
        self.site.export()?;
        self.import("--rewind-to-checkpoint")?;
        // Numbers that were given since are given again.
        let made = kept.made;
        self.referenced.retain(|id, _| *id <= made);
        self.model = kept;
        self.checkpoint = None;
        // A command that reads the devices itself.
        self.site.ok("cenote ls tank")?;
        self.compare().context("after a rewind")
    }
}
