//! Devices that leave: `zpool detach`.

use super::change::Plan;
use super::done::{DetachReplaced, take_out};
use super::edit::{find_mut, leaf, parent};
use super::error::ChangeError;
use crate::pool::Pool;
use crate::sync::Actor;
use cenote_base::Guid;
use cenote_ondisk::VdevKind;
use std::sync::Arc;

impl Pool {
    /// Takes a device out of the tree. Its labels are taken off, or are those of a spare again.
    ///
    /// # Errors
    /// If the others lack something that it has, or it has no others; then nothing has changed.
    pub fn detach(&self, device: Guid, by: (&Actor, &str)) -> Result<(), ChangeError> {
        self.refuse_with_checkpoint()?;
        let silent = self.ask_all();
        self.change_tree(by, move |root, shape, _| {
            leaf(root, device)?;
            let group = parent(root, device).ok_or(ChangeError::NoDevice)?;
            if !matches!(
                group.kind,
                VdevKind::Mirror | VdevKind::Replacing | VdevKind::Spare
            ) {
                return Err(ChangeError::NotMirrored);
            }
            silent.check(root, shape, device)?;
            let is_for_good = group.kind == VdevKind::Spare
                && group.children.len() == 2
                && group.children.first().map(|child| child.guid) == Some(device);
            let stays = group.children.last().map(|child| child.guid);
            let mut plan = Plan::new(root.clone());
            let detail = take_out(&mut plan.root, device)?;
            if let Some(leaf) = stays
                .filter(|_| is_for_good)
                .and_then(|stays| find_mut(&mut plan.root, stays))
            {
                // It is not a spare any more, but takes the place of the device that it replaced.
                leaf.is_spare = false;
                leaf.state.unspare = false;
                plan.spare_used = stays;
            }
            plan.note = Some(("detach", detail));
            Ok(plan)
        })?;
        // It may have been all that a replacement waited for.
        let syncer = Arc::clone(self.writer()?);
        self.run_task(DetachReplaced { syncer })?;
        Ok(())
    }
}
