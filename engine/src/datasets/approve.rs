//! `cenote approve`: the administrator approves values that came from elsewhere; and the values
//! that wait for approval. `registry::approvals` says what needs one.

use crate::command::{By, note};
use crate::context::Context;
use crate::errors::of_dsl;
use crate::pools::suspension::obey_fail_mode;
use crate::registry::approvals::{ACTING, FAIL_MODE};
use crate::registry::imported::Imported;
use crate::registry::waiting::{Found, named};
use crate::registry::walk::walk_heads;
use cenote_base::Guid;
use cenote_control::model::{Change, ControlError, Request, Response, SnapshotChange};
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

/// Whether a request may change which values act on this machine, or what waits for a yes.
pub(crate) fn may_change_acting_values(request: &Request) -> bool {
    let is_named = |name: &str| ACTING.contains(&name);
    let are_named = |pairs: &[(String, String)]| pairs.iter().any(|(name, _)| is_named(name));
    match request {
        Request::Import { .. } | Request::Export { .. } | Request::Receive { .. } => true,
        // What it destroys or inherits is not known before.
        Request::Program { program, .. } => !program.is_read_only,
        Request::Noted { asked, .. } => may_change_acting_values(asked),
        Request::Change { change, .. } => match change {
            Change::SetProperties { properties, .. } => are_named(properties),
            Change::InheritProperty { property, .. } => is_named(property),
            Change::SetPoolProperty { property, .. } => property == FAIL_MODE,
            Change::CreateDataset(new) => are_named(&new.properties),
            Change::CreatePool(new) => are_named(&new.dataset_properties),
            Change::Snapshots(SnapshotChange::Clone { properties, .. }) => are_named(properties),
            Change::DestroyPool { .. }
            | Change::RenameDataset { .. }
            | Change::SplitPool(_)
            | Change::ApproveValues { .. } => true,
            _ => false,
        },
        _ => false,
    }
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
        let since = imported.waiting.moment();
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
        for new in imported.waiting.set(since, found.collect()) {
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
