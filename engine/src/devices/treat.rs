//! Trims and initializations: which devices, and why one is refused.

use super::tree::{all_vdevs, answers_to, vdev_tree};
use crate::command::By;
use crate::errors::of_sync;
use crate::registry::table::Registry;
use cenote_base::Guid;
use cenote_control::model::{
    ControlError, DeviceRefusal, Response, TreatmentCommand, TreatmentKind, Vdev,
};
use cenote_pool::TreatmentCommand as EngineCommand;
use cenote_pool::TreatmentKind as EngineKind;
use cenote_pool::TreatmentRefusal;

fn refused(refusal: TreatmentRefusal, kind: TreatmentKind) -> DeviceRefusal {
    match refusal {
        TreatmentRefusal::Unavailable => DeviceRefusal::Unavailable,
        TreatmentRefusal::Running => DeviceRefusal::Treated { kind },
        TreatmentRefusal::NotRunning => DeviceRefusal::NotTreated { kind },
        TreatmentRefusal::NotSupported => DeviceRefusal::DoesNotTrim,
    }
}

pub(crate) fn treat(
    registry: &Registry,
    pool: &str,
    devices: &[String],
    (kind, command): (TreatmentKind, TreatmentCommand),
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let imported = registry.writable_pool(pool)?;
    let tree = vdev_tree(&imported.pool);
    let leaves = all_vdevs(&tree);
    let mut failures = Vec::new();
    let mut meant: Vec<(String, Guid)> = Vec::new();
    let is_meant = |leaf: &&&Vdev| leaf.kind.is_leaf() && leaf.children.is_empty();
    for name in devices {
        let found = leaves.iter().find(|vdev| answers_to(vdev, name));
        match found {
            Some(vdev) if is_meant(&vdev) => meant.push((name.clone(), Guid(vdev.guid))),
            Some(_) => failures.push((name.clone(), DeviceRefusal::Group.into())),
            None => failures.push((name.clone(), DeviceRefusal::NotInPool.into())),
        }
    }
    if !failures.is_empty() {
        return Ok(Response::Failures { failures, done: 0 });
    }
    if devices.is_empty() {
        let wanted = leaves.iter().filter(is_meant);
        let wanted = wanted.filter(|leaf| !leaf.trim_unsupported || kind != TreatmentKind::Trim);
        meant = wanted
            .map(|leaf| (leaf.path.clone().unwrap_or_default(), Guid(leaf.guid)))
            .collect();
        if meant.is_empty() {
            failures.push((String::new(), DeviceRefusal::NoneTrims.into()));
            return Ok(Response::Failures { failures, done: 0 });
        }
    }
    let engine_kind = match kind {
        TreatmentKind::Trim => EngineKind::Trim,
        TreatmentKind::Initialize => EngineKind::Initialize,
    };
    let wanted = match command {
        TreatmentCommand::Start { rate, zeros } => EngineCommand::Start { rate, zeros },
        TreatmentCommand::Cancel => EngineCommand::Cancel,
        TreatmentCommand::Suspend => EngineCommand::Suspend,
        TreatmentCommand::Reset => EngineCommand::Reset,
    };
    let guids: Vec<Guid> = meant.iter().map(|(_, guid)| *guid).collect();
    let done = imported
        .pool
        .treat(engine_kind, &guids, wanted, (&by.actor, by.command));
    let refusals = done.map_err(|error| of_sync(pool, error))?;
    for (guid, refusal) in &refusals {
        let name = meant.iter().find(|(_, other)| other == guid);
        let name = name.map(|(name, _)| name.clone()).unwrap_or_default();
        failures.push((name, refused(*refusal, kind).into()));
    }
    let done = (meant.len() - refusals.len()) as u64;
    Ok(Response::Failures { failures, done })
}
