//! What all streams of one request share.

use super::input::Link;
use super::plan::Plan;
use super::words::of_change;
use crate::command::By;
use crate::context::Context;
use crate::mounts::table::Mounts;
use crate::registry::imported::Imported;
use cenote_control::model::{ControlError, Receive};
use cenote_dsl::DatasetName;
use cenote_history::{Events, WithEvents};

/// One request.
pub(super) struct Session<'a> {
    pub context: &'a Context,
    pub mounts: &'a Mounts,
    pub asked: &'a Receive,
    pub by: &'a By<'a>,
    pub link: &'a Link<'a>,
}

impl Session<'_> {
    /// Refuses a stream that the user may not receive. A new dataset needs the permissions on the
    /// one above it, as creating it does.
    pub fn check_rights(
        &self,
        imported: &Imported,
        target: &DatasetName,
    ) -> Result<(), ControlError> {
        let whole = ["receive", "mount", "create"];
        let limited = ["receive:append", "mount", "create"];
        let is_limited = !self.asked.force && !self.asked.corrective;
        let mut name = target.clone();
        loop {
            let is_there = imported.dsl().dataset(&name).is_ok();
            if is_there || name != *target {
                let checked = self.by.check(imported, &name, &whole);
                match checked {
                    Err(ControlError::PermissionDenied) if is_limited => {
                        self.by.check(imported, &name, &limited)?;
                    }
                    checked => checked?,
                }
            }
            match name.parent() {
                Some(parent) if !is_there => name = parent,
                _ => return Ok(()),
            }
        }
    }

    /// Carries out a task; `is_noted` is the one that the history has.
    pub fn run<T: Events + 'static>(
        &self,
        imported: &Imported,
        plan: &Plan<'_>,
        task: T,
        is_noted: bool,
    ) -> Result<T, ControlError> {
        let command = match is_noted {
            true => self.by.command,
            false => "",
        };
        let actor = self.by.actor.clone();
        let task = WithEvents { task, actor };
        let done = imported.pool.run_command(task, &self.by.actor, command);
        let done = done.map_err(|error| of_change(plan.wants(), &plan.name, error))?;
        Ok(done.task)
    }
}
