//! Small changes go to the intent logs when their group is late.
//!
//! A group is late while one busy writer makes it large, or while devices are slow to take the one
//! before it. A job looks after that: while the oldest change waits for longer than it should, all
//! logs take what is small, about once in `cenote_dirty_age_max` (`cenote_intent_log`). It pauses
//! for several times as long as the logs took, so that it leaves busy devices to others.

use super::syncer::Syncer;
use cenote_base::rt::job::{Control, Job, Next, guarded};
use cenote_base::settings;
use cenote_intent_log::Aged;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Pauses are so many times as long as what the logs took.
const PAUSE_FACTOR: u32 = 4;
/// How often it is looked for changes while there are none, or while they may be as old as they
/// like.
const IDLE: Duration = Duration::from_secs(1);
/// Pauses are not shorter, whatever the setting.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// Begins, as `job`.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn begin_aging(job: &Job, syncer: &Arc<Syncer>) -> std::io::Result<()> {
    let pool = Arc::downgrade(syncer);
    let work = move |control: &Control| step(&pool, control);
    job.start(
        "log_aging",
        guarded(work, syncer.guard("the writing of logs")),
    )
}

fn step(syncer: &Weak<Syncer>, control: &Control) -> Next {
    let Some(syncer) = syncer.upgrade() else {
        return Next::Done;
    };
    let age = Duration::from_millis(settings::DIRTY_AGE_MAX.get()).max(PAUSE_MIN);
    match syncer.gate.until_late() {
        None => return Next::After(age.min(IDLE)),
        Some(left) if !left.is_zero() => return Next::After(left.clamp(PAUSE_MIN, IDLE)),
        Some(_) => {}
    }
    // Without devices nothing is written, and a commit would wait for them.
    let is_waiting = syncer.pipeline.suspension().cause().is_some();
    if is_waiting || syncer.gate.suspended().is_some() {
        return Next::After(IDLE);
    }
    let started = syncer.env.monotonic();
    let mut needs_group = false;
    for head in syncer.dsl.open_heads() {
        if control.is_interrupted() {
            break;
        }
        if let Some(writer) = head.log() {
            needs_group |= writer.commit_aged() == Aged::NeedsGroup;
        }
    }
    if needs_group {
        syncer.gate.request_sync();
    }
    let took = syncer.env.monotonic().saturating_sub(started);
    Next::After(age.max(took * PAUSE_FACTOR))
}
