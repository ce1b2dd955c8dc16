//! `cenote approve`: the administrator approves values that came from elsewhere; and the values
//! that wait for approval. `registry::approvals` says what needs one.

use crate::command::{By, note};
use crate::context::Context;
use crate::errors::of_dsl;
use crate::pools::suspension::obey_fail_mode;
use crate::registry::imported::Imported;
use crate::registry::waiting::{Found, named};
use crate::registry::walk::walk_heads;
use cenote_base::Guid;
use cenote_control::model::{ControlError, Response};
use cenote_dsl::DatasetName;
use std::sync::Arc;

/// Lets values act.
pub(crate) fn approve_values(
    context: &Context,
    datasets: &[String],
    recursive: bool,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let mut values = Vec::new();
    let mut failures = Vec::new();
    for name in datasets {
        let names = match context.registry.names_below(name, recursive) {
            Ok(names) => names,
            Err(error) => {
                failures.push((name.clone(), error));
                continue;
            }
        };
        let (imported, _) = context.registry.dataset(&names[0])?;
        let mut found = Vec::new();
        for name in &names {
            match unapproved_of(context, &imported, name) {
                Ok(own) => found.extend(own),
                Err(error) => failures.push((name.as_str().to_owned(), error)),
            }
        }
        if found.is_empty() {
            continue;
        }
        context.registry.approvals.approve(&imported, &found);
        obey_fail_mode(context, &imported);
        note(&imported, by);
        let found = found.into_iter().map(|(_, found)| found);
        values.extend(found.filter_map(|found| named(imported.dsl(), found)));
    }
    Ok(Response::Approved { values, failures })
}

fn unapproved_of(
    context: &Context,
    imported: &Imported,
    name: &DatasetName,
) -> Result<Vec<(Guid, Found)>, ControlError> {
    let head = imported.dsl().dataset(name).map_err(of_dsl)?;
    let pool = context.registry.approvals.of_pool(imported);
    let found = pool.unapproved(&head)?.into_iter();
    Ok(found.map(|found| (head.phys().guid, found)).collect())
}

impl Context {
    /// Looks which values wait for a yes. What is in force in a pool of before there was a record
    /// has it.
    pub fn follow_approvals(&self) {
        self.registry.approvals.reload();
        for imported in self.registry.all() {
            self.follow_approvals_of(&imported);
        }
    }

    fn follow_approvals_of(&self, imported: &Arc<Imported>) {
        let approvals = &self.registry.approvals;
        let mut found = Vec::new();
        walk_heads(imported.dsl(), |head| {
            match approvals.of_pool(imported).unapproved(head) {
                Ok(own) => found.extend(own.into_iter().map(|one| (head.phys().guid, one))),
                Err(error) => log::warn!("{}: its properties: {error}", head.name()),
            }
        });
        if approvals.take_before(imported.pool.guid()) {
            approvals.approve(imported, &found);
            found.clear();
        }
        let found = found.into_iter().map(|(_, found)| found);
        for new in imported.waiting.set(found.collect()) {
            if let Some(new) = named(imported.dsl(), new) {
                log::warn!(
                    "{}: {}={} came from elsewhere and waits for 'cenote approve {}'",
                    new.dataset,
                    new.property,
                    new.value,
                    new.dataset
                );
            }
        }
    }
}
