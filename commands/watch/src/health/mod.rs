//! `cenote health`: what is wrong with each pool and what to do, on one screen.
//!
//! `zpool status -x` shows only the first condition that applies. It reports a pool as healthy that
//! was never scrubbed, is nearly full, or has no redundancy for repairs. Here each finding has a
//! line of its own, with the device concerned and the command that fixes it. The exit code is that
//! of the worst finding, for cron and monitors.
//!
//! The crate `advisor` derives the findings from the daemon's answers alone. `smart` asks
//! `smartctl`, where that is installed, about the disks' own health.

mod found;
mod report;
mod smart;

pub use report::in_words;

use cenote_advisor::limits::{FULL_PERCENT, Limits, SCRUB_DAYS};
use cenote_advisor::{Facts, Severity, findings};
use cenote_control::model::{
    ControlError, DatasetKind, Depth, ErrorRecord, KindSet, MissingPool, PoolStatus,
    PropertySelection, Request, Response, Value,
};
use found::Health;

use cenote_words::command::{Arguments, Command, JSON, Run, flag, option};
use cenote_words::context::{Context, Outcome, failed, mismatch};

/// The command.
pub const COMMAND: Command = Command {
    name: "health",
    summary: "Say what is wrong with pools and what to do; exit code for cron and monitors",
    synopsis: "[POOL...]",
    about: "Looks at devices and their errors, damaged files, redundancy, space and the age\n\
            of the last scrub, and asks smartctl about disks where it is installed; the last\n\
            errors of each device are listed, those before a restart too. The exit\n\
            code is 0 when all is well, 1 when something wants attention, 2 when data is\n\
            damaged or one more failure would lose some, 3 when the daemon cannot be asked,\n\
            died or may have died, or when a pool that should be imported is missing.",
    flags: &[
        JSON,
        option(
            None,
            "scrub-days",
            "DAYS",
            "a scrub older than this wants attention; 35",
        ),
        option(
            None,
            "full",
            "PERCENT",
            "a pool fuller than this wants attention; 80",
        ),
        option(
            None,
            "history",
            "NUMBER",
            "list so many earlier errors of each pool; 5, and 0 for none",
        ),
        flag(None, "no-smart", "do not ask smartctl"),
        flag(Some('q'), "quiet", "print only pools with findings"),
    ],
    run: Run::Asking(run),
};

/// The exit code if the daemon cannot be asked, or a named pool does not exist.
const UNKNOWN: u8 = 3;

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let limits = Limits {
        scrub_days: arguments.number("scrub-days")?.unwrap_or(SCRUB_DAYS),
        full_percent: arguments.number("full")?.unwrap_or(FULL_PERCENT),
    };
    let (quiet, asks_disks) = (arguments.has("quiet"), !arguments.has("no-smart"));
    let history_max = arguments.number("history")?.unwrap_or(5);
    let mut names = Vec::new();
    for word in &arguments.operands {
        match word.to_str() {
            Some(name) => names.push(name.to_owned()),
            None => return failed(format!("no such pool: {}", word.to_string_lossy())),
        }
    }
    let (pools, unknown) = match ask(&names, context) {
        Ok(answer) => answer,
        Err(message) => {
            context.complain(&message);
            return Ok(UNKNOWN);
        }
    };
    let pools = pools.into_iter();
    let judge = |status| judge(status, (limits, asks_disks), context);
    let mut healths: Vec<Health> = pools.map(judge).collect();
    let missing = missing_of(&names, context);
    if arguments.has("json") {
        if quiet {
            healths.retain(|health| health.severity() != Severity::Note);
        }
        context.line(&report::json(&healths, &missing).to_string());
    } else {
        let mut text = report::text(&healths, quiet, history_max, context);
        for pool in &missing {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            text.push_str(&report::missing(pool, context));
        }
        if text.is_empty() && names.is_empty() && !quiet {
            text.push_str("no pools are imported\n");
        }
        context.print(&text);
    }
    context.complain_of_lost();
    let has_no_record = context.complain_of_record();
    if !unknown.is_empty() {
        let is_told = |message: &String| {
            let mut missing = missing.iter();
            missing.any(|pool| message.starts_with(&format!("{}: ", pool.name)))
        };
        for message in unknown.iter().filter(|message| !is_told(message)) {
            context.complain(&format!("cenote health: {message}"));
        }
        return Ok(UNKNOWN);
    }
    let worst = healths.iter().map(Health::severity).max();
    let code = worst.map_or(0, Severity::exit_code);
    Ok(code.max(if has_no_record {
        Severity::Attention.exit_code()
    } else {
        0
    }))
}

/// The findings about a pool.
fn judge(
    status: PoolStatus,
    (limits, asks_disks): (Limits, bool),
    context: &mut Context,
) -> Health {
    let facts = Facts {
        capacity: capacity(&status.name, context),
        created: created(&status.name, context),
        now: context.now,
    };
    let mut found = findings(&status, &facts, limits);
    if asks_disks {
        found.extend(smart::findings(&status.vdevs));
    }
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Health {
        history: history(&status.name, context),
        status,
        capacity: facts.capacity,
        findings: found,
    }
}

/// The pools that should be imported and are not: all, or those with these names.
fn missing_of(names: &[String], context: &mut Context) -> Vec<MissingPool> {
    let mut missing = context.missing();
    if !names.is_empty() {
        missing.retain(|pool| names.contains(&pool.name));
        if missing.is_empty() {
            // The user did not ask about the missing pools, so they do not set the exit code.
            context.forget_death();
        }
    }
    missing
}

/// The states of pools, and messages about the failed ones.
fn ask(names: &[String], context: &mut Context) -> Result<(Vec<PoolStatus>, Vec<String>), String> {
    let request = Request::PoolStatus {
        pools: names.to_vec(),
        errors: true,
        dedup: false,
    };
    match context.ask(request) {
        Ok(Response::Statuses { pools, failures }) => {
            let said = |(name, error)| format!("{name}: {error}");
            Ok((pools, failures.into_iter().map(said).collect()))
        }
        Ok(_) => Err(format!("cenote health: {}", mismatch())),
        // All commands print this message unchanged.
        Err(error @ ControlError::DaemonDied { .. }) => Err(error.to_string()),
        Err(error) => Err(format!("cenote health: {error}")),
    }
}

/// Earlier errors of a pool, the newest first; empty if the daemon does not answer.
fn history(pool: &str, context: &mut Context) -> Vec<ErrorRecord> {
    let request = Request::ErrorHistory {
        pool: pool.to_owned(),
    };
    match context.ask(request) {
        Ok(Response::ErrorHistory { mut records }) => {
            records.sort_by_key(|record| std::cmp::Reverse(record.last));
            records
        }
        _ => Vec::new(),
    }
}

/// Used space of a pool, in per cent.
fn capacity(pool: &str, context: &mut Context) -> Option<u64> {
    let request = Request::PoolList {
        pools: vec![pool.to_owned()],
        properties: PropertySelection::Named(vec!["capacity".to_owned()]),
        vdevs: false,
    };
    let Ok(Response::Pools { pools, .. }) = context.ask(request) else {
        return None;
    };
    match pools.first()?.property("capacity")?.value {
        Value::Number(percent) => Some(percent),
        _ => None,
    }
}

/// When a pool was created, in seconds since the epoch.
fn created(pool: &str, context: &mut Context) -> Option<u64> {
    let request = Request::DatasetList {
        roots: vec![pool.to_owned()],
        depth: Depth::Levels(0),
        kinds: KindSet::of(DatasetKind::Filesystem),
        properties: PropertySelection::Named(vec!["creation".to_owned()]),
    };
    let listing = context.ask_datasets(request).ok()?;
    listing.rows.first()?.property("creation")?.value.number()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::model::Part;
    use cenote_control::protocol::{CallError, Interrupt};
    use cenote_words::context::Daemon;
    use cenote_words::testing::ran;
    use std::ffi::OsString;

    /// No pool is imported.
    struct Empty;

    impl Daemon for Empty {
        fn call(
            &mut self,
            request: Request,
            _on_part: &mut dyn FnMut(Part) -> Interrupt,
        ) -> Result<Response, CallError> {
            let Request::PoolStatus { pools, .. } = request else {
                panic!("{request:?} is asked for")
            };
            let unknown = |pool: String| (pool.clone(), ControlError::NoSuchPool { pool });
            Ok(Response::Statuses {
                pools: Vec::new(),
                failures: pools.into_iter().map(unknown).collect(),
            })
        }
    }

    /// Previously, `cenote health NOPE` first said that no pools are imported.
    #[test]
    fn a_pool_that_is_not_there_is_the_only_thing_said() {
        let health = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let arguments = Arguments::parse(COMMAND.flags, &words).expect("valid");
            ran(Empty, |context| run(&arguments, context).unwrap_or(99))
        };
        let named = health(&["NOPE"]);
        assert_eq!((named.code, named.out.as_str()), (UNKNOWN, ""));
        assert_eq!(named.err, "cenote health: NOPE: no such pool\n");
        let all = health(&[]);
        assert_eq!((all.code, all.out.as_str()), (0, "no pools are imported\n"));
    }
}
