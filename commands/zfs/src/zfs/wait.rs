//! `zfs wait`.

use super::select::{self, Selection};
use cenote_control::model::{
    ControlError, DatasetKind, Depth, KindSet, PropertySelection, Request, Response,
};
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use cenote_words::program::CommandLine;
use cenote_words::texts::{question, with_context};
use std::time::Duration;

/// How often to look.
const POLL: Duration = Duration::from_millis(100);

/// The activities of a file system.
const ACTIVITIES: [&str; 1] = ["deleteq"];

/// `zfs wait [-t ACTIVITY[,…]] FILESYSTEM`
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    for word in parsed.last("t").unwrap_or(ACTIVITIES[0]).split(',') {
        if !ACTIVITIES.contains(&word) {
            let question = question(word, ACTIVITIES);
            return usage(format!("invalid activity '{word}'{question}"));
        }
    }
    let name = match parsed.operands.as_slice() {
        [] => return usage("missing dataset argument"),
        [name] => name,
        _ => return usage("too many arguments"),
    };
    let selection = Selection {
        operands: vec![name.clone()],
        depth: Some(Depth::Roots),
        kinds: KindSet::of(DatasetKind::Filesystem),
        operand_kinds: KindSet::NONE,
        paths: false,
        properties: PropertySelection::Named(Vec::new()),
        keys: Vec::new(),
    };
    if select::select(&selection, context).failed {
        return Err(Stop::Code(1));
    }
    while is_busy(name, context)? {
        std::thread::sleep(POLL);
    }
    Ok(0)
}

/// Whether files that have no name any more wait to be freed. A file system that is not there any
/// more has none.
fn is_busy(name: &str, context: &mut Context) -> Result<bool, Stop> {
    let what = format!("cannot wait for '{name}'");
    let dataset = name.to_owned();
    match context.ask(Request::DeleteQueue { dataset }) {
        Ok(Response::DeleteQueue { files }) => Ok(files > 0),
        Ok(_) => failed(with_context(&what, &mismatch())),
        Err(
            ControlError::NoSuchDataset { .. }
            | ControlError::NoSuchPool { .. }
            | ControlError::Unreachable { .. },
        ) => Ok(false),
        Err(error) => failed(with_context(&what, &error)),
    }
}
