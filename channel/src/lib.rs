//! Channel programs run: `zfs program`.
//!
//! A program is one task of a transaction group: it runs in the syncing thread, and each of its
//! changes is checked and made by the same code as a command's ([`changes`]). So all of them are in
//! that group, or, after a crash before it is on disk, none. Changes of other commands come before
//! or after all of the program's.
//!
//! The syncing thread must not wait for mounts, turns of heads or devices of this machine. So what
//! could be in the way is seen to before the program begins: logs are replayed, heads without
//! users are closed, and nothing new is shown by sites or becomes a disk until it ends. What is in
//! use after that stays, and the change is refused with `EBUSY`, as in OpenZFS. Mounts follow
//! properties afterwards.
//!
//! A program that changes nothing (`-n`) runs beside everything else, unless it asks whether a
//! change is possible (`zfs.check`): only a group can answer that, so then it runs again as a task.

#![forbid(unsafe_code)]

mod changes;
mod datasets;
mod properties;
mod view;

use cenote_base::ObjectId;
use cenote_base::rt;
use cenote_base::settings::{LUA_MAX_INSTRUCTIONS, LUA_MAX_MEMORY};
use cenote_control::model::{
    ControlError, Program, ProgramOutcome, ProgramValue, RawName, Response,
};
use cenote_control::protocol::Reply;
use cenote_dsl::DslError;
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_pool::Actor;
use cenote_program::{Datum, Failure, Limits, run};
use cenote_registry::approvals::ACTING;
use cenote_registry::errors::of_sync;
use cenote_registry::imported::Imported;
use cenote_registry::mounts::change::refresh_mounts;
use cenote_registry::mounts::table::Mounts;
use cenote_registry::table::Registry;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use view::{Followers, View};

/// How often the client's connection is looked at: soon at first, as most programs are short.
const FIRST_INTERVAL: Duration = Duration::from_millis(1);
const LAST_INTERVAL: Duration = Duration::from_millis(20);

/// Bytes of a result that fit into an answer, whatever their form there.
const RESULT_MAX: usize = 2 << 20;

/// A program as a task.
struct ProgramTask {
    program: Program,
    imported: Arc<Imported>,
    /// Heads whose logs wait although they could not be replayed.
    unreplayed: HashSet<ObjectId>,
    mounts: std::sync::Weak<Mounts>,
    is_cancelled: Arc<AtomicBool>,
    followers: Followers,
    outcome: Option<Result<Option<Datum>, Failure>>,
}

impl ProgramTask {
    fn run(&mut self, context: Option<&SyncContext<'_>>) -> Result<(), DslError> {
        let limits = Limits {
            instructions: self.program.instructions,
            memory: self.program.memory,
        };
        let mounts = self.mounts.upgrade();
        let mut view = View {
            imported: &self.imported,
            mounts: mounts.as_deref(),
            context,
            unreplayed: &self.unreplayed,
            is_cancelled: &self.is_cancelled,
            followers: &mut self.followers,
            fatal: None,
        };
        let outcome = run(
            &self.program.source.0,
            &self.program.arguments,
            limits,
            !self.program.is_read_only,
            &mut view,
        );
        let fatal = view.fatal.take();
        self.outcome = Some(outcome);
        fatal.map_or(Ok(()), Err)
    }
}

impl SyncTask for ProgramTask {
    fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        self.run(Some(context))
    }
}

/// Runs a program. `by` is the user and the command line, for the pool's history.
///
/// # Errors
/// If there is no such pool, or it takes no changes; and why nothing is known of the program.
pub fn run_program(
    registry: &Registry,
    mounts: &Mounts,
    program: &Program,
    by: (&Actor, &str),
    reply: &mut dyn Reply,
) -> Result<Response, ControlError> {
    let imported = registry.pool(&program.pool)?;
    if let Some(refusal) = beyond_limits(program) {
        let outcome = ProgramOutcome::Failed(refusal.to_owned());
        return Ok(Response::Program { outcome });
    }
    let task = ProgramTask {
        program: program.clone(),
        imported: Arc::clone(&imported),
        unreplayed: HashSet::new(),
        mounts: mounts.itself(),
        is_cancelled: Arc::new(AtomicBool::new(false)),
        followers: Followers::default(),
        outcome: None,
    };
    let task = match program.is_read_only {
        true => run_beside(task, by, reply)?,
        false => {
            registry.writable_pool(&program.pool)?;
            run_in_group(task, by, reply)?
        }
    };
    follow(registry, mounts, &imported, &task.followers);
    let outcome = task.outcome.unwrap_or(Err(Failure::Cancelled));
    Ok(Response::Program {
        outcome: answer(outcome),
    })
}

/// What OpenZFS says if a program may use more than any may.
fn beyond_limits(program: &Program) -> Option<&'static str> {
    match program.instructions > LUA_MAX_INSTRUCTIONS.get() || program.memory > LUA_MAX_MEMORY.get()
    {
        false => None,
        true if i64::try_from(program.memory).is_err() => Some("Return value too large."),
        true => Some("Invalid instruction or memory limit."),
    }
}

/// Runs a program that changes nothing, in a group if it must be.
fn run_beside(
    mut task: ProgramTask,
    by: (&Actor, &str),
    reply: &mut dyn Reply,
) -> Result<ProgramTask, ControlError> {
    let cancelled = Arc::clone(&task.is_cancelled);
    task = while_connected(reply, &cancelled, move || {
        // What it reads in vain is an error of the program.
        let _ = task.run(None);
        task
    })?;
    if task.outcome != Some(Err(Failure::NeedsGroup)) {
        return Ok(task);
    }
    task.followers = Followers::default();
    run_in_group(task, (by.0, ""), reply)
}

/// Runs a program as a task of a transaction group.
fn run_in_group(
    mut task: ProgramTask,
    by: (&Actor, &str),
    reply: &mut dyn Reply,
) -> Result<ProgramTask, ControlError> {
    let imported = Arc::clone(&task.imported);
    if !task.program.is_read_only {
        task.unreplayed = replay_all(&imported)?;
        imported.close_unused_heads()?;
    }
    let _held = imported.hold_new_users()?;
    let cancelled = Arc::clone(&task.is_cancelled);
    let (actor, command) = (by.0.clone(), by.1.to_owned());
    let pool = Arc::clone(&imported.pool);
    let done = while_connected(reply, &cancelled, move || {
        pool.run_command(task, &actor, &command)
    })?;
    done.map_err(|error| of_sync(imported.name(), error))
}

/// Works in a thread of its own, and says so if the client goes.
fn while_connected<T: Send + 'static>(
    reply: &mut dyn Reply,
    cancelled: &AtomicBool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ControlError> {
    let worker = rt::spawn("program", work);
    let worker = worker.map_err(|error| ControlError::Io {
        place: format!("no thread for the program: {error}"),
    })?;
    let mut interval = FIRST_INTERVAL;
    while !worker.is_finished() {
        if reply.cancelled() {
            cancelled.store(true, Ordering::Relaxed);
        }
        rt::sleep(interval);
        interval = (interval * 2).min(LAST_INTERVAL);
    }
    worker.join().map_err(|_| ControlError::Io {
        place: "an internal error (a panic) ended the program".to_owned(),
    })
}

/// Replays all logs that wait since the import. Returns the heads for which that is not possible.
fn replay_all(imported: &Imported) -> Result<HashSet<ObjectId>, ControlError> {
    let mut unreplayed = HashSet::new();
    for head in imported.pool.waiting_logs() {
        let Ok(dataset) = imported.dsl().dataset_of(*head) else {
            continue;
        };
        let name = dataset.name().clone();
        if imported.replay_waiting(&[name]).is_err() {
            unreplayed.insert(*head);
        }
    }
    Ok(unreplayed)
}

/// Lets mounts and records follow what a program changed.
fn follow(registry: &Registry, mounts: &Mounts, imported: &Arc<Imported>, done: &Followers) {
    for message in &done.messages {
        log::info!(
            "pool '{}': a channel program says: {message}",
            imported.name()
        );
    }
    if done.has_snapshots {
        mounts.forget_snapshots(imported.name());
    }
    let approvals = &registry.approvals;
    for guid in &done.destroyed {
        approvals.forget(imported.pool.guid(), *guid);
    }
    if done.inherited.is_empty() {
        return;
    }
    imported.refresh_settings();
    for (name, property) in &done.inherited {
        if ACTING.contains(&property.as_str()) {
            approvals.said(imported, name, &[(property.clone(), None)]);
        }
        if let Err(error) = refresh_mounts(mounts, imported, name) {
            log::warn!("{name}: its mount keeps '{property}' as it was: {error}");
        }
    }
}

fn answer(outcome: Result<Option<Datum>, Failure>) -> ProgramOutcome {
    match outcome {
        Err(failure) => ProgramOutcome::Failed(failure.to_string()),
        Ok(None) => ProgramOutcome::Returned(None),
        Ok(Some(datum)) => {
            let value = value_of(datum);
            match size_of_value(&value) > RESULT_MAX {
                true => ProgramOutcome::Failed("Return value too large.".to_owned()),
                false => ProgramOutcome::Returned(Some(value)),
            }
        }
    }
}

fn value_of(datum: Datum) -> ProgramValue {
    match datum {
        Datum::Nil => ProgramValue::Nil,
        Datum::Boolean(value) => ProgramValue::Boolean(value),
        Datum::Number(number) => ProgramValue::Number(number),
        Datum::Text(text) => ProgramValue::Text(RawName(text)),
        Datum::Table(entries) => {
            let entries = entries.into_iter();
            let entries = entries.map(|(name, datum)| (RawName(name), value_of(datum)));
            ProgramValue::Table(entries.collect())
        }
    }
}

/// The bytes of a value, with a number of them for each part.
fn size_of_value(value: &ProgramValue) -> usize {
    const PART: usize = 16;
    PART + match value {
        ProgramValue::Nil | ProgramValue::Boolean(_) | ProgramValue::Number(_) => 0,
        ProgramValue::Text(text) => text.0.len(),
        ProgramValue::Table(entries) => {
            let entries = entries.iter();
            let sizes = entries.map(|(name, value)| name.0.len() + size_of_value(value));
            sizes.sum()
        }
    }
}
