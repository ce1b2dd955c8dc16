//! `zfs clone` and `zfs promote`.

use super::change::{ask, pairs};
use cenote_control::model::{Change, ControlError, Response, SnapshotChange};
use cenote_words::context::{Context, Outcome, failed, usage};
use cenote_words::getopt::Parsed;
use cenote_words::texts::{cannot_open, check_name, with_context};

/// `zfs clone [-pu] [-o P=V]… SNAPSHOT DATASET`
pub fn clone(parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    let [origin, name] = parsed.operands.as_slice() else {
        return usage("too many arguments");
    };
    super::select::require(std::slice::from_ref(origin), context)?;
    let what = format!("cannot create '{name}'");
    if let Err(fault) = check_name(name, false, false) {
        return failed(format!("{what}: {fault}"));
    }
    if !origin.contains('@') {
        return failed(format!(
            "cannot open '{origin}': operation not applicable to datasets of this type"
        ));
    }
    let change = Change::Snapshots(SnapshotChange::Clone {
        origin: origin.clone(),
        name: name.clone(),
        properties: pairs(parsed)?,
        parents: parsed.has("p"),
        unmounted: parsed.has("u"),
    });
    match ask(change, command, context) {
        Ok(Response::Failures { failures, .. }) => {
            for (name, error) in &failures {
                context.complain(&with_context(&format!("cannot mount '{name}'"), error));
            }
            Ok(u8::from(!failures.is_empty()))
        }
        Ok(_) => Ok(0),
        Err(error) => failed(with_context(&what, &error)),
    }
}

/// `zfs promote DATASET`
pub fn promote(parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    let [name] = parsed.operands.as_slice() else {
        return usage("too many arguments");
    };
    let dataset = name.clone();
    let change = Change::Snapshots(SnapshotChange::Promote { dataset });
    match ask(change, command, context) {
        Ok(_) => Ok(0),
        Err(error @ (ControlError::NoSuchDataset { .. } | ControlError::NoSuchPool { .. })) => {
            failed(cannot_open(name, &error))
        }
        Err(error) => failed(with_context(&format!("cannot promote '{name}'"), &error)),
    }
}
