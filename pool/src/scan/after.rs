//! What happens when a resilver has ended.
//!
//! Its devices are up to date. The steps that waited for that are taken here, in the transaction
//! group that records the end on disk: a step happens with it or not at all.

use crate::devices::detach_replaced;
use crate::sync::Syncer;
use cenote_base::Guid;
use cenote_dsl::DslError;
use cenote_dsl::write::SyncContext;
use std::sync::Arc;

/// A resilver that has ended; the logs of what devices missed are struck off already.
#[derive(Debug)]
pub(crate) struct ResilverEnd {
    /// The leaves that it was for and reached.
    pub leaves: Vec<Guid>,
}

/// One thing that follows. An error suspends the pool: it is for metadata that cannot be read.
type Step = fn(&SyncContext<'_>, &Arc<Syncer>, &ResilverEnd) -> Result<(), DslError>;

/// What follows the end of a resilver, in this order.
const AT_RESILVER_END: &[Step] = &[forget_resilver_txg, end_replacements];

/// Takes all steps.
pub(super) fn resilver_ended(
    context: &SyncContext<'_>,
    syncer: &Arc<Syncer>,
    end: &ResilverEnd,
) -> Result<(), DslError> {
    let mut steps = AT_RESILVER_END.iter();
    steps.try_for_each(|step| step(context, syncer, end))
}

/// A leaf that was new or came back is one like others now (format/1c 7).
fn forget_resilver_txg(
    _: &SyncContext<'_>,
    syncer: &Arc<Syncer>,
    end: &ResilverEnd,
) -> Result<(), DslError> {
    let shape = syncer.vdevs.shape();
    let mut config = syncer.config();
    let mut has_changed = false;
    for guid in &end.leaves {
        if let Some(leaf) = config.leaf_mut(*guid)
            && (leaf.resilver_txg.is_some() || leaf.state.resilver_deferred)
            && shape.dtl(*guid).is_empty()
        {
            leaf.resilver_txg = None;
            leaf.state.resilver_deferred = false;
            has_changed = true;
        }
    }
    if has_changed {
        config.touch();
    }
    Ok(())
}

/// What was replaced leaves, and spares go back.
fn end_replacements(
    context: &SyncContext<'_>,
    syncer: &Arc<Syncer>,
    _: &ResilverEnd,
) -> Result<(), DslError> {
    detach_replaced(context, syncer)
}
