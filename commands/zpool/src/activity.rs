//! `zpool trim`, `zpool initialize` and `zpool wait`.

use super::names::{Schedule, stamp};
use super::writes::all_pools;
use cenote_control::model::{
    Change, CheckpointState, Condition, ControlError, PoolStatus, PropertySelection, Request,
    Response, RunState, ScanKind, Treatment, TreatmentCommand, TreatmentKind, TreatmentState, Vdev,
    VdevKind, VdevState,
};
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use cenote_words::format::number::nicenum;
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::progress::{Progress, Style};
use cenote_words::texts::{cannot_open, question, with_context};
use std::time::Duration;

/// How often a waiting command polls.
const POLL: Duration = Duration::from_millis(250);
/// The interval of its lines in a log: a scrub may take a day.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// How many transaction groups to wait for the removal of a replaced device.
const GROUPS_WAITED_MAX: u32 = 3;

/// `zpool trim [-dw] [-r RATE] [-c | -s] <-a | POOL [DEVICE…]>`
pub fn trim(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
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
    treat(&parsed, TreatmentKind::Trim, rate, context)
}

/// `zpool initialize [-c | -s | -u | -z] [-w] <-a | POOL [DEVICE…]>`
pub fn initialize(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    treat(&parsed, TreatmentKind::Initialize, 0, context)
}

fn treat(parsed: &Parsed, kind: TreatmentKind, rate: u64, context: &mut Context) -> Outcome {
    let (pools, devices) = match (parsed.has("a"), parsed.operands.split_first()) {
        (true, None) => (all_pools(context)?, &[][..]),
        (true, Some(_)) => return usage("the pool shouldn't be specified with -a"),
        (false, Some((pool, devices))) => (vec![pool.clone()], devices),
        (false, None) => return usage("missing pool name argument"),
    };
    let waits = parsed.has("w");
    let zeros = kind == TreatmentKind::Initialize && parsed.has("z");
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
        (Some((letter, _)), None) if zeros => {
            return usage(format!("-z cannot be used with -{letter}"));
        }
        (Some((letter, _)), None) if waits => {
            return usage(format!("-w cannot be used with -{letter}"));
        }
        (Some((_, command)), None) => *command,
        (None, _) => TreatmentCommand::Start { rate, zeros },
    };
    let mut code = 0;
    for pool in &pools {
        code = code.max(treat_pool(pool, devices, (kind, wanted), context));
    }
    if waits && code == 0 {
        for pool in &pools {
            wait_for_treatments(pool, verb(kind), devices, context)?;
        }
    }
    match code {
        0 => Ok(0),
        code => Err(Stop::Code(code)),
    }
}

fn verb(kind: TreatmentKind) -> &'static str {
    match kind {
        TreatmentKind::Trim => "trim",
        TreatmentKind::Initialize => "initialize",
    }
}

/// Requests the treatment of one pool. Returns the exit code, after reporting what was refused.
fn treat_pool(
    pool: &str,
    devices: &[String],
    (kind, wanted): (TreatmentKind, TreatmentCommand),
    context: &mut Context,
) -> u8 {
    let verb = verb(kind);
    let change = Change::Treat {
        pool: pool.to_owned(),
        devices: devices.to_vec(),
        kind,
        command: wanted,
    };
    let command = context.command.clone();
    let (text, code) = match context.ask(Request::Change { change, command }) {
        Ok(Response::Failures { failures, .. }) => {
            for (device, error) in &failures {
                let what = match device.as_str() {
                    "" => format!("cannot {verb}"),
                    device => format!("cannot {verb} '{device}'"),
                };
                context.complain(&with_context(&what, error));
            }
            return if failures.is_empty() { 0 } else { 255 };
        }
        Ok(_) => (with_context(&format!("cannot {verb}"), &mismatch()), 1),
        Err(error @ ControlError::NoSuchPool { .. }) => (cannot_open(pool, &error), 255),
        Err(error) => (with_context(&format!("cannot {verb} '{pool}'"), &error), 1),
    };
    context.complain(&text);
    code
}

/// The activities to wait for, in the order of the columns.
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
pub fn wait(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let (pool, interval) = match parsed.operands.as_slice() {
        [] => return usage("missing 'pool' argument"),
        [pool] => (pool, None),
        [pool, interval] => match interval.parse::<f64>() {
            Ok(seconds) if seconds > 0.0 && seconds < 1e9 => (pool, Some(seconds)),
            _ => return usage(format!("invalid interval '{interval}'")),
        },
        _ => return usage("too many arguments"),
    };
    let mut wanted: Vec<&str> = Vec::new();
    for word in parsed.last("t").unwrap_or_default().split(',') {
        match ACTIVITIES.iter().find(|name| **name == word) {
            Some(name) => wanted.push(name),
            None if word.is_empty() => {}
            None => {
                let question = question(word, ACTIVITIES);
                return usage(format!("invalid activity '{word}'{question}"));
            }
        }
    }
    if wanted.is_empty() {
        wanted = ACTIVITIES.to_vec();
    }
    let stamp = stamp(&parsed)?;
    let (script, exact) = (parsed.has("H"), parsed.has("p"));
    let Some(interval) = interval else {
        wait_for(pool, &wanted, context)?;
        return Ok(0);
    };
    let schedule = Schedule {
        interval,
        count: 0,
        stamp,
    };
    if !script {
        let titles = wanted
            .iter()
            .map(|name| format!("{:>12}", name.to_uppercase()));
        context.line(&titles.collect::<Vec<_>>().join("  "));
    }
    let mut is_known = false;
    while let Some(status) = busy_still(pool, is_known, context)? {
        is_known = true;
        let left: Vec<u64> = wanted.iter().map(|name| left(&status, name)).collect();
        schedule.print_stamp(context);
        print_row(&left, (script, exact), context);
        if left.iter().all(|left| *left == 0) || context.output_gone() {
            break;
        }
        refuse_stopped(pool, &status)?;
        std::thread::sleep(Duration::from_secs_f64(interval));
    }
    Ok(0)
}

/// Refuses to wait for activities of a stopped pool: they would never end.
fn refuse_stopped(pool: &str, busy: &Busy) -> Result<(), Stop> {
    match &busy.status.condition {
        Some(Condition::IoFailureStopped(cause)) => failed(format!(
            "cannot wait for '{pool}': it takes no more changes: {cause}"
        )),
        _ => Ok(()),
    }
}

/// Prints what remains of each activity.
fn print_row(left: &[u64], (script, exact): (bool, bool), context: &mut Context) {
    let words = left.iter().map(|left| match exact {
        true => left.to_string(),
        false => nicenum(*left),
    });
    let words: Vec<String> = words.collect();
    match script {
        true => context.line(&words.join("\t")),
        false => {
            let cells = words.iter().map(|word| format!("{word:>12}"));
            context.line(&cells.collect::<Vec<_>>().join("  "));
        }
    }
    context.flush();
}

/// The progress of the activities waited for.
struct Waiting {
    progress: Progress,
    /// The largest number of remaining bytes so far.
    most: u64,
}

impl Waiting {
    fn new() -> Self {
        let progress = Progress::with_interval(Style::Auto, None, LOG_INTERVAL);
        Self { progress, most: 0 }
    }

    /// Shows what remains of each activity.
    fn show(&mut self, pool: &str, left: &[(&str, u64)]) {
        let under_way = || left.iter().filter(|(_, left)| *left > 0);
        let sum = under_way().fold(0_u64, |sum, (_, left)| sum.saturating_add(*left));
        self.most = self.most.max(sum);
        let names: Vec<&str> = under_way().map(|(name, _)| *name).collect();
        let at = format!("{} of {pool}", names.join(", "));
        self.progress.set(self.most - sum, Some(self.most), &at);
    }
}

/// Waits until none of the activities is running; meanwhile shows their progress.
pub(super) fn wait_for(pool: &str, activities: &[&str], context: &mut Context) -> Result<(), Stop> {
    follow(pool, (activities, &[]), context)
}

/// The same for the trims or initializations of these devices, or of all.
fn wait_for_treatments(
    pool: &str,
    activity: &str,
    devices: &[String],
    context: &mut Context,
) -> Result<(), Stop> {
    follow(pool, (&[activity], devices), context)
}

fn follow(pool: &str, wanted: (&[&str], &[String]), context: &mut Context) -> Result<(), Stop> {
    let mut waiting = Waiting::new();
    let waited = follow_with(pool, wanted, &mut waiting, context);
    waiting.progress.finish();
    waited
}

fn follow_with(
    pool: &str,
    (activities, devices): (&[&str], &[String]),
    waiting: &mut Waiting,
    context: &mut Context,
) -> Result<(), Stop> {
    let (mut is_known, mut moved_devices) = (false, false);
    while let Some(status) = busy_still(pool, is_known, context)? {
        is_known = true;
        let left = |name: &str| left_on(&status, name, devices);
        let each = activities.iter().map(|name| (*name, left(name)));
        let each: Vec<(&str, u64)> = each.collect();
        if each.iter().all(|(_, left)| *left == 0) {
            return match moved_devices {
                true => wait_for_devices(pool, context),
                false => Ok(()),
            };
        }
        refuse_stopped(pool, &status)?;
        let moving = ["replace", "resilver"];
        moved_devices |= each
            .iter()
            .any(|(name, left)| moving.contains(name) && *left > 0);
        waiting.show(pool, &each);
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Waits until the devices that a finished activity no longer needs are released.
///
/// A replaced device leaves the pool in a transaction group after its resilver. Once that group is
/// on disk, the device's labels are cleared and it can be used otherwise.
pub(super) fn wait_for_devices(pool: &str, context: &mut Context) -> Result<(), Stop> {
    for _ in 0..GROUPS_WAITED_MAX {
        let change = Change::SyncPools {
            pools: vec![pool.to_owned()],
            force: false,
        };
        let command = String::new();
        // Users with read-only access cannot request a sync. The pool may also be exported; both
        // end the wait.
        if context.ask(Request::Change { change, command }).is_err() {
            return Ok(());
        }
        match busy_still(pool, true, context)? {
            Some(busy) if has(&busy.status, &[VdevKind::Replacing]) => {}
            _ => return Ok(()),
        }
    }
    // A device stays if its resilver did not finish the replacement.
    Ok(())
}

/// What a pool is working on.
struct Busy {
    status: PoolStatus,
    /// Bytes to be freed.
    freeing: u64,
}

/// The pool's activities; `None` if the pool was known and is gone: then everything has ended.
fn busy_still(pool: &str, is_known: bool, context: &mut Context) -> Result<Option<Busy>, Stop> {
    let request = Request::PoolStatus {
        pools: vec![pool.to_owned()],
        errors: false,
        dedup: false,
    };
    let status = match context.ask(request) {
        Ok(Response::Statuses { pools, failures }) => {
            match (pools.into_iter().next(), failures.first()) {
                (Some(status), _) => status,
                (None, Some((_, ControlError::NoSuchPool { .. }))) if is_known => return Ok(None),
                (None, Some((name, error))) => return failed(cannot_open(name, error)),
                (None, None) => return failed(with_context("cannot list pools", &mismatch())),
            }
        }
        Ok(_) => return failed(with_context("cannot list pools", &mismatch())),
        // A daemon may exit with its last pool.
        Err(ControlError::Unreachable { .. }) if is_known => return Ok(None),
        Err(error) => return failed(with_context("cannot list pools", &error)),
    };
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
    Ok(Some(Busy { status, freeing }))
}

/// The status of one pool.
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

/// The remaining bytes of an activity; at least 1 while it is running.
fn left(busy: &Busy, activity: &str) -> u64 {
    left_on(busy, activity, &[])
}

/// The same, of trims and initializations only those of some devices, if any is named.
fn left_on(busy: &Busy, activity: &str, devices: &[String]) -> u64 {
    let status = &busy.status;
    match activity {
        "free" => busy.freeing,
        "discard" => match status.checkpoint {
            Some(CheckpointState::Discarding { space }) => space.max(1),
            _ => 0,
        },
        "trim" => treatments_left(status, devices, |vdev| vdev.trim),
        "initialize" => treatments_left(status, devices, |vdev| vdev.initialize),
        // A requested scrub that has not started counts, too.
        "scrub" => {
            scan_left(status, |kind| kind != ScanKind::Resilver).max(u64::from(status.due.scrub))
        }
        "resilver" => resilver_left(status),
        // A device whose resilver did not finish the replacement is not being worked on.
        "replace" if has(status, &[VdevKind::Replacing, VdevKind::Spare]) => resilver_left(status),
        "remove" => removal_left(status),
        "raidz_expand" => expansion_left(status),
        _ => 0,
    }
}

/// The remaining bytes of a running scan of this kind.
fn scan_left(status: &PoolStatus, is_meant: impl Fn(ScanKind) -> bool) -> u64 {
    let scan = status.scan.as_ref();
    let scan = scan.filter(|scan| scan.state == RunState::Running && scan.pause_time == 0);
    scan.filter(|scan| is_meant(scan.kind))
        .map_or(0, |scan| scan.to_examine.saturating_sub(scan.issued).max(1))
}

/// The bytes that remain to be resilvered.
fn resilver_left(status: &PoolStatus) -> u64 {
    let left = scan_left(status, |kind| kind == ScanKind::Resilver);
    left.max(rebuild_left(status))
        .max(u64::from(status.due.resilver))
}

/// The remaining bytes of running rebuilds.
fn rebuild_left(status: &PoolStatus) -> u64 {
    let running = status.rebuilds.iter();
    let running = running.filter(|rebuild| rebuild.state == RunState::Running);
    let left = running.map(|rebuild| rebuild.to_examine.saturating_sub(rebuild.issued).max(1));
    left.sum()
}

/// The remaining bytes of a top-level vdev that is being removed.
fn removal_left(status: &PoolStatus) -> u64 {
    let running = status.removal.as_ref();
    let running = running.filter(|removal| removal.state == RunState::Running);
    running.map_or(0, |removal| {
        removal.to_copy.saturating_sub(removal.copied).max(1)
    })
}

/// The bytes that an expanding raidz vdev has yet to move.
fn expansion_left(status: &PoolStatus) -> u64 {
    let running = status.expand.as_ref();
    let running = running.filter(|expand| expand.state == RunState::Running);
    running.map_or(0, |expand| {
        expand.to_reflow.saturating_sub(expand.reflowed).max(1)
    })
}

/// Whether there is a vdev of one of these kinds.
fn has(status: &PoolStatus, kinds: &[VdevKind]) -> bool {
    let mut stack = vec![&status.vdevs.root];
    while let Some(vdev) = stack.pop() {
        if kinds.contains(&vdev.kind) {
            return true;
        }
        stack.extend(&vdev.children);
    }
    false
}

fn treatments_left(
    status: &PoolStatus,
    devices: &[String],
    of: impl Fn(&Vdev) -> Option<Treatment>,
) -> u64 {
    let is_meant = |vdev: &Vdev| {
        // On a device that is not in use, it rests until the device is back.
        let is_in_use = matches!(vdev.state, VdevState::Online | VdevState::Degraded);
        let is_named = || devices.iter().any(|name| vdev.answers_to(name));
        is_in_use && (devices.is_empty() || is_named())
    };
    let mut sum = 0;
    let mut stack = vec![&status.vdevs.root];
    while let Some(vdev) = stack.pop() {
        if let Some(treatment) = of(vdev)
            && treatment.state == TreatmentState::Active
            && is_meant(vdev)
        {
            sum += treatment.total.saturating_sub(treatment.done).max(1);
        }
        stack.extend(&vdev.children);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::model::{Due, PoolHealth, RaidzExpand, Rebuild, RemovalActivity, VdevTree};

    fn idle() -> Busy {
        let status = PoolStatus {
            name: "tank".to_owned(),
            guid: 1,
            txg: 10,
            version: 5000,
            health: PoolHealth::Online,
            condition: None,
            scan: None,
            due: Due::default(),
            rebuilds: Vec::new(),
            removal: None,
            checkpoint: None,
            expand: None,
            vdevs: VdevTree {
                root: Vdev::new(VdevKind::Root, 0, 1),
                cache: Vec::new(),
                spares: Vec::new(),
            },
            error_count: 0,
            errors: Vec::new(),
            intent_logs: Vec::new(),
            dedup: None,
            waiting: Vec::new(),
            injected: 0,
            stores: Vec::new(),
            outsiders: Vec::new(),
            is_writable: false,
            unread: Vec::new(),
        };
        Busy { status, freeing: 0 }
    }

    /// The running activities, with their remaining bytes.
    fn under_way(busy: &Busy) -> Vec<(&'static str, u64)> {
        let all = ACTIVITIES.into_iter().map(|name| (name, left(busy, name)));
        all.filter(|(_, left)| *left > 0).collect()
    }

    #[test]
    fn each_activity_is_waited_for_while_it_runs() {
        let mut busy = idle();
        assert_eq!(under_way(&busy), []);
        busy.freeing = 5;
        busy.status.checkpoint = Some(CheckpointState::Discarding { space: 0 });
        assert_eq!(under_way(&busy), [("discard", 1), ("free", 5)]);
        busy = idle();
        busy.status.removal = Some(RemovalActivity {
            state: RunState::Running,
            vdev_id: 0,
            vdev: None,
            start_time: 1,
            end_time: 0,
            to_copy: 100,
            copied: 40,
            mapping_memory: 0,
        });
        busy.status.expand = Some(RaidzExpand {
            state: RunState::Running,
            vdev: "raidz1-0".to_owned(),
            start_time: 1,
            end_time: 0,
            to_reflow: 50,
            reflowed: 49,
            waiting_for_resilver: false,
        });
        assert_eq!(under_way(&busy), [("remove", 60), ("raidz_expand", 1)]);
        if let Some(removal) = &mut busy.status.removal {
            removal.state = RunState::Finished;
        }
        assert_eq!(under_way(&busy), [("raidz_expand", 1)]);
        busy = idle();
        busy.status.rebuilds.push(Rebuild {
            vdev: "mirror-0".to_owned(),
            state: RunState::Running,
            start_time: 1,
            end_time: 0,
            elapsed_ms: 1,
            to_examine: 10,
            examined: 9,
            issued: 8,
            rebuilt: 8,
            errors: 0,
        });
        assert_eq!(under_way(&busy), [("resilver", 2)]);
        let replacing = Vdev::new(VdevKind::Replacing, 0, 2);
        busy.status.vdevs.root.children.push(replacing);
        assert_eq!(under_way(&busy), [("replace", 2), ("resilver", 2)]);
    }

    /// `zpool trim -w POOL DEVICE` waited for the trims of all devices.
    #[test]
    fn trims_are_waited_for_where_they_were_begun() {
        let mut busy = idle();
        for (id, path) in [(0, "/dev/sda"), (1, "/dev/sdb")] {
            let mut disk = Vdev::new(VdevKind::Disk, id, 10 + id);
            disk.path = Some(path.to_owned());
            disk.trim = Some(Treatment {
                state: TreatmentState::Active,
                time: 1,
                done: id,
                total: 100,
            });
            busy.status.vdevs.root.children.push(disk);
        }
        let left = |busy: &Busy, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            left_on(busy, "trim", &names)
        };
        assert_eq!(left(&busy, &[]), 199);
        assert_eq!(left(&busy, &["sda"]), 100);
        assert_eq!(left(&busy, &["/dev/sdb", "10"]), 199);
        // It may be offline for good.
        busy.status.vdevs.root.children[0].state = VdevState::Offline;
        assert_eq!(left(&busy, &["sda"]), 0);
        assert_eq!(left(&busy, &[]), 99);
    }

    /// Previously, `zpool replace -w` with a hot spare returned while the spare was resilvering.
    /// And requests during a resilver did not count until they started.
    #[test]
    fn spares_and_what_has_not_begun_are_waited_for() {
        let mut busy = idle();
        busy.status.due.resilver = true;
        assert_eq!(under_way(&busy), [("resilver", 1)]);
        let spare = Vdev::new(VdevKind::Spare, 0, 2);
        busy.status.vdevs.root.children.push(spare);
        assert_eq!(under_way(&busy), [("replace", 1), ("resilver", 1)]);
        busy.status.due.resilver = false;
        assert_eq!(under_way(&busy), [], "the spare has everything");
        busy.status.due.scrub = true;
        assert_eq!(under_way(&busy), [("scrub", 1)]);
    }
}
