//! `zfs redact`: a bookmark of the blocks of a snapshot that none of some later snapshots has.

use cenote_control::model::{ControlError, Redact, Request};
use cenote_words::context::{Context, Outcome, Stop, failed};
use cenote_words::getopt::Parsed;
use cenote_words::texts::{cannot_open, with_context};

/// `zfs redact SNAPSHOT BOOKMARK REDACTION_SNAPSHOT…`
pub fn run(parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    let (snapshot, bookmark) = (&parsed.operands[0], &parsed.operands[1]);
    let by = parsed.operands[2..].to_vec();
    let is_full = |name: &String| {
        name.split_once('@')
            .is_some_and(|(head, _)| !head.is_empty())
    };
    if !by.iter().all(is_full) {
        return failed("potentially invalid redaction snapshot; full dataset names required");
    }
    if bookmark.contains('#') {
        return failed("redaction bookmark name must not contain '#'");
    }
    let redact = Redact {
        snapshot: snapshot.clone(),
        bookmark: bookmark.clone(),
        by,
    };
    let what = format!("cannot redact '{snapshot}'");
    match context.ask(Request::Redact { redact, command }) {
        Ok(_) => Ok(0),
        Err(ControlError::NoSuchDataset { dataset }) if dataset == *snapshot => {
            context.complain(&format!("provided snapshot {dataset} does not exist"));
            Err(Stop::Code(2))
        }
        Err(ControlError::NoSuchDataset { dataset }) => {
            let error = ControlError::NoSuchDataset {
                dataset: dataset.clone(),
            };
            failed(cannot_open(&dataset, &error))
        }
        Err(ControlError::SnapshotRefused { reason, .. }) => failed(reason),
        Err(error) => failed(with_context(&what, &error)),
    }
}
