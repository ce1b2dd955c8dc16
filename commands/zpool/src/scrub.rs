//! `zpool scrub` and `zpool resilver`.

use super::activity::{status, wait_for};
use super::writes::all_pools;
use cenote_control::model::{
    Change, CheckpointState, ControlError, Request, Response, ScanCommand,
};
use cenote_words::context::{Context, Outcome, Stop, mismatch, usage};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::texts::{cannot_open, with_context};

/// The scan command for the options, or which of them conflict.
fn command_of(parsed: &Parsed) -> Result<ScanCommand, String> {
    for (one, other) in [("s", "p"), ("e", "C"), ("s", "C"), ("p", "C")] {
        if parsed.has(one) && parsed.has(other) {
            return Err(format!(
                "invalid option combination: -{one} and -{other} are mutually exclusive"
            ));
        }
    }
    let command = match () {
        () if parsed.has("s") => ScanCommand::Stop,
        () if parsed.has("p") => ScanCommand::Pause,
        () if parsed.has("e") => ScanCommand::ErrorScrub,
        () => ScanCommand::Scrub {
            since_last: parsed.has("C"),
        },
    };
    let is_over = matches!(command, ScanCommand::Stop | ScanCommand::Pause);
    match is_over && parsed.has("w") {
        true => Err("invalid option combination: -w cannot be used with -p or -s".to_owned()),
        false => Ok(command),
    }
}

/// `zpool scrub [-e | -s | -p | -C] [-w] <-a | POOL…>`
pub fn scrub(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let command = match command_of(&parsed) {
        Ok(command) => command,
        Err(reason) => return usage(reason),
    };
    let pools = match (parsed.has("a"), parsed.operands.is_empty()) {
        (true, true) => all_pools(context)?,
        (true, false) => return usage("the pool shouldn't be specified with -a"),
        (false, true) => return usage("missing pool name argument"),
        (false, false) => parsed.operands.clone(),
    };
    let verb = match command {
        ScanCommand::Stop => "cannot cancel scrubbing",
        ScanCommand::Pause => "cannot pause scrubbing",
        _ => "cannot scrub",
    };
    let line = context.command.clone();
    let mut is_refused = false;
    for pool in &pools {
        if matches!(command, ScanCommand::Scrub { .. }) {
            warn_of_checkpoint(pool, context);
        }
        is_refused |= !scan(pool, command, verb, &line, context);
    }
    if parsed.has("w") && !is_refused {
        pools
            .iter()
            .try_for_each(|pool| wait_for(pool, &["scrub"], context))?;
    }
    match is_refused {
        true => Err(Stop::Code(1)),
        false => Ok(0),
    }
}

/// Warns that a scrub covers only the newest state, not a checkpoint.
fn warn_of_checkpoint(pool: &str, context: &mut Context) {
    // If there is no status, the scrub itself reports the error.
    let checkpoint = status(pool, context)
        .ok()
        .and_then(|status| status.checkpoint);
    if matches!(checkpoint, Some(CheckpointState::Exists { .. })) {
        context.complain(&format!(
            "warning: will not scrub state that belongs to the checkpoint of pool '{pool}'"
        ));
    }
}

/// `zpool resilver POOL…`
pub fn resilver(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    if parsed.operands.is_empty() {
        return usage("missing pool name argument");
    }
    let line = context.command.clone();
    let mut is_refused = false;
    for pool in &parsed.operands {
        let verb = "cannot restart resilver on";
        is_refused |= !scan(pool, ScanCommand::Resilver, verb, &line, context);
    }
    match is_refused {
        true => Err(Stop::Code(1)),
        false => Ok(0),
    }
}

/// Requests a scan of one pool. Returns false if it was refused, after reporting why.
fn scan(pool: &str, command: ScanCommand, verb: &str, line: &str, context: &mut Context) -> bool {
    let change = Change::Scan {
        pool: pool.to_owned(),
        command,
    };
    let command = line.to_owned();
    let text = match context.ask(Request::Change { change, command }) {
        Ok(Response::Done) => return true,
        Ok(_) => with_context(&format!("{verb} {pool}"), &mismatch()),
        Err(error @ ControlError::NoSuchPool { .. }) => cannot_open(pool, &error),
        Err(error) => with_context(&format!("{verb} {pool}"), &error),
    };
    context.complain(&text);
    false
}
