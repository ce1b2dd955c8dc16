//! Grants changed and shown.

use crate::command::{By, run};
use crate::errors::{of_dsl, parse_name};
use crate::registry::table::Registry;
use cenote_control::model::{ControlError, DatasetGrants, Delegation, Response, permission};
use cenote_delegation::{Grant, Grantee, Scope, is_set_name};
use cenote_dsl::write::Delegate;

/// Changes the grants of a dataset, and with `recursive` of all below it.
pub(crate) fn delegate(
    registry: &Registry,
    delegation: &Delegation,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let name = parse_name(&delegation.dataset)?;
    let (imported, dataset) = registry.dataset(&name)?;
    if dataset.is_snapshot() {
        let dataset = delegation.dataset.clone();
        return Err(ControlError::WrongKind { dataset });
    }
    let check = |grant: &Grant| checked(grant).ok_or_else(invalid);
    let granted = delegation.granted.iter().map(check);
    let granted = granted.collect::<Result<Vec<_>, _>>()?;
    if granted.iter().any(|grant| grant.names.is_empty()) {
        return Err(invalid());
    }
    let revoked = delegation.revoked.iter().map(check);
    let task = Delegate {
        names: registry.names_below(name.as_str(), delegation.recursive)?,
        granted,
        revoked: revoked.collect::<Result<_, _>>()?,
    };
    run(&imported, task, by)?;
    Ok(Response::Done)
}

fn invalid() -> ControlError {
    ControlError::BadValue {
        name: "permission".to_owned(),
        reason: "invalid permission".to_owned(),
    }
}

/// A grant with the full names of properties; `None` if it cannot be one.
fn checked(grant: &Grant) -> Option<Grant> {
    let fits = match &grant.grantee {
        Grantee::Set(name) => grant.scope == Scope::None && is_set_name(name),
        Grantee::Creator => grant.scope == Scope::None,
        _ => grant.scope != Scope::None,
    };
    let full = |name: &String| match is_set_name(name) {
        true => Some(name.clone()),
        false => permission(name).map(str::to_owned),
    };
    let names = grant.names.iter().map(full).collect::<Option<_>>()?;
    fits.then(|| Grant {
        names,
        ..grant.clone()
    })
}

/// The grants of a dataset, and of those above it.
pub(crate) fn grants(registry: &Registry, dataset: &str) -> Result<Response, ControlError> {
    let name = parse_name(dataset)?;
    let (_, found) = registry.dataset(&name)?;
    if found.is_snapshot() {
        let dataset = dataset.to_owned();
        return Err(ControlError::WrongKind { dataset });
    }
    let mut levels = Vec::new();
    for directory in found.directory().ancestry() {
        let grants = directory.grants().map_err(of_dsl)?;
        if !grants.is_empty() {
            levels.push(DatasetGrants {
                dataset: directory.name().as_str().to_owned(),
                grants: grants.all(),
            });
        }
    }
    Ok(Response::Grants { levels })
}
