//! `zpool trim`, `zpool initialize` and `zpool wait`.

use super::command_line::command_line;
use crate::context::{Context, Outcome, Stop, failed, mismatch, usage};
use crate::format::number::nicebytes;
use crate::getopt::{Grammar, Parsed};
use crate::texts::{cannot_open, with_context};
use cenote_control::model::{
    Change, CheckpointState, ControlError, PoolStatus, PropertySelection, Request, Response,
    RunState, ScanKind, Treatment, TreatmentCommand, TreatmentKind, TreatmentState, Vdev, VdevKind,
};
use std::time::Duration;

/// How often a waiting command looks.
const POLL: Duration = Duration::from_millis(250);

/// `zpool trim [-dw] [-r RATE] [-c | -s] POOL [DEVICE…]`
pub fn trim(arguments: &[String], context: &mut Context) -> Outcome {
    let grammar = Grammar {
        letters: "dr:cswa",
        long: &[
            ("cancel", "c", false),
            ("secure", "d", false),
            ("rate", "r", true),
            ("suspend", "s", false),
            ("wait", "w", false),
        ],
    };
    let parsed = grammar.parse(arguments)?;
    let rate = match parsed
        .last("r")
        .map(|text| (text, cenote_base::parse_size(text)))
    {
        None => 0,
        Some((_, Ok(rate))) if rate > 0 => rate,
        Some((_, Err(reason))) => return usage(format!("invalid value for rate: {reason}")),
        Some((text, _)) => return usage(format!("invalid value for rate '{text}'")),
    };
    if parsed.has("d") && (parsed.has("c") || parsed.has("s")) {
        return usage("-d cannot be combined with -c or -s");
    }
    if parsed.has("d") {
        return failed("cannot trim: secure trim operations are not supported by this device");
    }
    if parsed.has("r") && (parsed.has("c") || parsed.has("s")) {
        return usage("-r cannot be combined with -c or -s");
    }
    treat(&parsed, TreatmentKind::Trim, rate, arguments, context)
}

/// `zpool initialize [-c | -s | -u] [-w] POOL [DEVICE…]`
pub fn initialize(arguments: &[String], context: &mut Context) -> Outcome {
    let grammar = Grammar {
        letters: "csuw",
        long: &[
            ("cancel", "c", false),
            ("suspend", "s", false),
            ("uninit", "u", false),
            ("wait", "w", false),
        ],
    };
    let parsed = grammar.parse(arguments)?;
    treat(&parsed, TreatmentKind::Initialize, 0, arguments, context)
}

fn treat(
    parsed: &Parsed,
    kind: TreatmentKind,
    rate: u64,
    arguments: &[String],
    context: &mut Context,
) -> Outcome {
    let Some((pool, devices)) = parsed.operands.split_first() else {
        return usage("missing pool name argument");
    };
    let verb = match kind {
        TreatmentKind::Trim => "trim",
        TreatmentKind::Initialize => "initialize",
    };
    let commands = [
        ("c", TreatmentCommand::Cancel),
        ("s", TreatmentCommand::Suspend),
        ("u", TreatmentCommand::Reset),
    ];
    let mut given = commands.iter().filter(|(letter, _)| parsed.has(letter));
    let wanted = match (given.next(), given.next()) {
        (Some((one, _)), Some((other, _))) => {
            return usage(format!("-{one} cannot be combined with -{other}"));
        }
        (Some((letter, _)), None) if parsed.has("w") => {
            return usage(format!("-w cannot be used with -{letter}"));
        }
        (Some((_, command)), None) => *command,
        (None, _) => TreatmentCommand::Start { rate },
    };
    let change = Change::Treat {
        pool: pool.clone(),
        devices: devices.to_vec(),
        kind,
        command: wanted,
    };
    let command = command_line(&format!("zpool {verb}"), arguments);
    let failures = match context.ask(Request::Change { change, command }) {
        Ok(Response::Failures { failures, .. }) => failures,
        Ok(_) => return failed(with_context(&format!("cannot {verb}"), &mismatch())),
        Err(error @ ControlError::NoSuchPool { .. }) => {
            context.complain(&cannot_open(pool, &error));
            return Err(Stop::Code(255));
        }
        Err(error) => return failed(with_context(&format!("cannot {verb} '{pool}'"), &error)),
    };
    for (device, error) in &failures {
        let what = match device.as_str() {
            "" => format!("cannot {verb}"),
            device => format!("cannot {verb} '{device}'"),
        };
        context.complain(&with_context(&what, error));
    }
    if parsed.has("w") && failures.is_empty() {
        wait_for(pool, &[verb], context)?;
    }
    match failures.is_empty() {
        true => Ok(0),
        false => Err(Stop::Code(255)),
    }
}

/// What can be waited for, in the order of the columns.
const ACTIVITIES: [&str; 9] = [
    "discard",
    "free",
    "initialize",
    "replace",
    "remove",
    "resilver",
    "scrub",
    "trim",
    "raidz_expand",
];

/// `zpool wait [-Hp] [-T d|u] [-t ACTIVITY[,…]] POOL [INTERVAL]`
pub fn wait(arguments: &[String], context: &mut Context) -> Outcome {
    let parsed = Grammar::letters("HpT:t:").parse(arguments)?;
    let (pool, interval) = match parsed.operands.as_slice() {
        [] => return usage("missing 'pool' argument"),
        [pool] => (pool, None),
        [pool, interval] => match interval.parse::<f64>() {
            Ok(seconds) if seconds > 0.0 && seconds < 1e9 => {
                (pool, Some(Duration::from_secs_f64(seconds)))
            }
            _ => return usage(format!("invalid interval '{interval}'")),
        },
        _ => return usage("too many arguments"),
    };
    let mut wanted: Vec<&str> = Vec::new();
    for word in parsed.last("t").unwrap_or_default().split(',') {
        match ACTIVITIES.iter().find(|name| **name == word) {
            Some(name) => wanted.push(name),
            None if word.is_empty() => {}
            None => return usage(format!("invalid activity '{word}'")),
        }
    }
    if wanted.is_empty() {
        wanted = ACTIVITIES.to_vec();
    }
    let Some(interval) = interval else {
        wait_for(pool, &wanted, context)?;
        return Ok(0);
    };
    if !parsed.has("H") {
        let titles = wanted
            .iter()
            .map(|name| format!("{:>12}", name.to_uppercase()));
        context.line(&titles.collect::<Vec<_>>().join("  "));
    }
    loop {
        let status = busy(pool, context)?;
        let left: Vec<u64> = wanted.iter().map(|name| left(&status, name)).collect();
        let words = left.iter().map(|left| match parsed.has("p") {
            true => left.to_string(),
            false => nicebytes(*left),
        });
        let words: Vec<String> = words.collect();
        match parsed.has("H") {
            true => context.line(&words.join("\t")),
            false => {
                let cells = words.iter().map(|word| format!("{word:>12}"));
                context.line(&cells.collect::<Vec<_>>().join("  "));
            }
        }
        context.flush();
        if left.iter().all(|left| *left == 0) {
            return Ok(0);
        }
        std::thread::sleep(interval);
    }
}

/// Returns once none of the activities is under way.
pub(super) fn wait_for(pool: &str, activities: &[&str], context: &mut Context) -> Result<(), Stop> {
    loop {
        let status = busy(pool, context)?;
        if activities.iter().all(|name| left(&status, name) == 0) {
            return Ok(());
        }
        std::thread::sleep(POLL);
    }
}

/// What a pool is doing.
struct Busy {
    status: PoolStatus,
    /// Bytes that are to be freed.
    freeing: u64,
}

fn busy(pool: &str, context: &mut Context) -> Result<Busy, Stop> {
    let status = status(pool, context)?;
    let request = Request::PoolList {
        pools: vec![pool.to_owned()],
        properties: PropertySelection::Named(vec!["freeing".to_owned()]),
        vdevs: false,
    };
    let freeing = match context.ask(request) {
        Ok(Response::Pools { pools, .. }) => {
            let properties = pools.first().map(|row| row.properties.as_slice());
            let freeing = properties.unwrap_or_default().first();
            freeing.and_then(|property| property.value.number())
        }
        _ => None,
    };
    let freeing = freeing.unwrap_or(0);
    Ok(Busy { status, freeing })
}

/// What the daemon says of one pool.
pub(super) fn status(pool: &str, context: &mut Context) -> Result<PoolStatus, Stop> {
    let request = Request::PoolStatus {
        pools: vec![pool.to_owned()],
        errors: false,
        dedup: false,
    };
    match context.ask(request) {
        Ok(Response::Statuses { pools, failures }) => {
            match (pools.into_iter().next(), failures.first()) {
                (Some(status), _) => Ok(status),
                (None, Some((name, error))) => failed(cannot_open(name, error)),
                (None, None) => failed(with_context("cannot list pools", &mismatch())),
            }
        }
        Ok(_) => failed(with_context("cannot list pools", &mismatch())),
        Err(error) => failed(with_context("cannot list pools", &error)),
    }
}

/// Bytes that an activity has before it; at least 1 while it is under way.
fn left(busy: &Busy, activity: &str) -> u64 {
    let status = &busy.status;
    match activity {
        "free" => busy.freeing,
        "discard" => match status.checkpoint {
            Some(CheckpointState::Discarding { space }) => space.max(1),
            _ => 0,
        },
        "trim" => treatments_left(status, |vdev| vdev.trim),
        "initialize" => treatments_left(status, |vdev| vdev.initialize),
        "scrub" => scan_left(status, |kind| kind != ScanKind::Resilver),
        "resilver" => {
            let resilver = scan_left(status, |kind| kind == ScanKind::Resilver);
            resilver.max(rebuild_left(status))
        }
        // A replacement that its resilver did not finish is not being worked on.
        "replace" if is_replacing(status) => {
            let resilver = scan_left(status, |kind| kind == ScanKind::Resilver);
            resilver.max(rebuild_left(status))
        }
        // Nothing of this kind is done here.
        _ => 0,
    }
}

/// Bytes that a running scan of such a kind has before it.
fn scan_left(status: &PoolStatus, is_meant: impl Fn(ScanKind) -> bool) -> u64 {
    let scan = status.scan.as_ref();
    let scan = scan.filter(|scan| scan.state == RunState::Running && scan.pause_time == 0);
    scan.filter(|scan| is_meant(scan.kind))
        .map_or(0, |scan| scan.to_examine.saturating_sub(scan.issued).max(1))
}

/// Bytes that running rebuilds have before them.
fn rebuild_left(status: &PoolStatus) -> u64 {
    let running = status.rebuilds.iter();
    let running = running.filter(|rebuild| rebuild.state == RunState::Running);
    running
        .map(|rebuild| rebuild.to_examine.saturating_sub(rebuild.issued).max(1))
        .sum()
}

/// Whether a device stands beside the one that takes its place.
fn is_replacing(status: &PoolStatus) -> bool {
    let mut stack = vec![&status.vdevs.root];
    while let Some(vdev) = stack.pop() {
        if vdev.kind == VdevKind::Replacing {
            return true;
        }
        stack.extend(&vdev.children);
    }
    false
}

fn treatments_left(status: &PoolStatus, of: impl Fn(&Vdev) -> Option<Treatment>) -> u64 {
    let mut sum = 0;
    let mut stack = vec![&status.vdevs.root];
    while let Some(vdev) = stack.pop() {
        if let Some(treatment) = of(vdev)
            && treatment.state == TreatmentState::Active
        {
            sum += treatment.total.saturating_sub(treatment.done).max(1);
        }
        stack.extend(&vdev.children);
    }
    sum
}
