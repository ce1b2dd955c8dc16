//! The lines of `zpool status` about a pool's activities: `scan:`, `remove:`, `checkpoint:`,
//! `expand:`.

use cenote_base::rt::job::Progress;
use cenote_control::model::{
    CheckpointState, PoolStatus, RaidzExpand, Rebuild, RemovalActivity, RunState, Scan, ScanKind,
};
use jiff::tz::TimeZone;
use std::time::Duration;

use cenote_words::format::date::{Form, date};
use cenote_words::format::number::{duration, nicebytes, nicenum};

/// The current time and the time zone.
#[derive(Clone, Copy)]
pub struct Clock<'a> {
    /// Seconds since the epoch.
    pub now: u64,
    /// The user's time zone.
    pub zone: &'a TimeZone,
}

impl Clock<'_> {
    fn at(&self, seconds: u64) -> String {
        date(seconds, Form::Ctime, self.zone)
    }

    fn since(&self, seconds: u64) -> u64 {
        self.now.saturating_sub(seconds).max(1)
    }

    /// The progress of something that began at `begun`.
    fn progress(&self, (done, total): (u64, u64), begun: u64) -> Progress {
        Progress {
            done,
            total,
            fresh: done,
            elapsed: Duration::from_secs(self.since(begun)),
        }
    }
}

/// The lines for all activities of a pool.
pub fn lines(status: &PoolStatus, clock: Clock<'_>) -> String {
    let mut text = String::new();
    if let Some(scan) = &status.scan {
        text.push_str(&scan_lines(scan, clock));
    }
    for rebuild in &status.rebuilds {
        text.push_str(&rebuild_lines(rebuild, clock));
    }
    if let Some(removal) = &status.removal {
        text.push_str(&removal_lines(removal, clock));
    }
    match status.checkpoint {
        Some(CheckpointState::Exists { time, space }) => {
            let (time, space) = (clock.at(time), nicebytes(space));
            text.push_str(&format!("checkpoint: created {time}, consumes {space}\n"));
        }
        Some(CheckpointState::Discarding { space }) => {
            let space = nicebytes(space);
            text.push_str(&format!("checkpoint: discarding, {space} remaining.\n"));
        }
        None => {}
    }
    if let Some(expand) = &status.expand {
        text.push_str(&expand_lines(expand, clock));
    }
    text
}

fn scan_lines(scan: &Scan, clock: Clock<'_>) -> String {
    if scan.kind == ScanKind::ErrorScrub {
        return error_scrub_lines(scan, clock);
    }
    let (name, past) = match scan.kind {
        ScanKind::Resilver => ("resilver", "resilvered"),
        _ => ("scrub", "repaired"),
    };
    let (start, end) = (clock.at(scan.start_time), clock.at(scan.end_time));
    let verb = match scan.kind {
        ScanKind::Resilver => "resilvered",
        _ => "scrub repaired",
    };
    match scan.state {
        RunState::Finished => {
            let took = scan.end_time.saturating_sub(scan.start_time);
            let took = duration(took);
            let (size, errors) = (nicebytes(scan.processed), scan.errors);
            format!("  scan: {verb} {size} in {took} with {errors} errors on {end}\n")
        }
        RunState::Canceled => format!("  scan: {name} canceled on {end}\n"),
        RunState::Running if scan.pause_time != 0 => {
            let paused = clock.at(scan.pause_time);
            format!("  scan: {name} paused since {paused}\n\t{name} started on {start}\n")
                + &scan_progress(scan, past, true, clock)
        }
        RunState::Running => {
            format!("  scan: {name} in progress since {start}\n")
                + &scan_progress(scan, past, false, clock)
        }
    }
}

/// No remaining time is predicted below this rate: 10 MiB/s.
const RATE_PREDICTED_MIN: u64 = 10 << 20;

fn scan_progress(scan: &Scan, past: &str, paused: bool, clock: Clock<'_>) -> String {
    let total = nicebytes(scan.to_examine);
    let to_issue = scan.to_examine.saturating_sub(scan.skipped);
    let elapsed = clock.since(scan.pass_start);
    let elapsed = elapsed.saturating_sub(scan.paused_seconds).max(1);
    let progress = Progress {
        done: scan.issued,
        total: to_issue,
        fresh: scan.pass_issued,
        elapsed: Duration::from_secs(elapsed),
    };
    let (examined_rate, issued_rate) = (scan.pass_examined / elapsed, progress.rate());
    let rate = |rate: u64| match rate {
        0 => String::new(),
        _ if paused => String::new(),
        rate => format!(" at {}/s", nicebytes(rate)),
    };
    let share = progress.percent();
    let is_predicted = issued_rate >= RATE_PREDICTED_MIN && share > 0.0;
    let left = match progress.seconds_left().filter(|_| is_predicted) {
        _ if paused => String::new(),
        Some(seconds) => format!(", {} to go", duration(seconds)),
        None => ", no estimated completion time".to_owned(),
    };
    format!(
        "\t{} / {total} scanned{}, {} / {} issued{}\n\t{} {past}, {share:.2}% done{left}\n",
        nicebytes(scan.examined),
        rate(examined_rate),
        nicebytes(scan.issued),
        nicebytes(to_issue),
        rate(issued_rate),
        nicebytes(scan.processed),
    )
}

fn error_scrub_lines(scan: &Scan, clock: Clock<'_>) -> String {
    let (start, end) = (clock.at(scan.start_time), clock.at(scan.end_time));
    match scan.state {
        RunState::Finished => {
            let seconds = scan.end_time.saturating_sub(scan.start_time);
            let (days, rest) = (seconds / 86_400, seconds % 86_400);
            let took = format!("{days} days {}", duration(rest));
            let blocks = scan.examined;
            format!(" scrub: scrubbed {blocks} error blocks in {took} on {end}\n")
        }
        RunState::Canceled => format!(" scrub: error scrub canceled on {end}\n"),
        RunState::Running => format!(" scrub: error scrub in progress since {start}\n"),
    }
}

fn rebuild_lines(rebuild: &Rebuild, clock: Clock<'_>) -> String {
    let name = &rebuild.vdev;
    let (start, end) = (clock.at(rebuild.start_time), clock.at(rebuild.end_time));
    match rebuild.state {
        RunState::Finished => {
            let took = duration(rebuild.elapsed_ms / 1000);
            let (size, errors) = (nicebytes(rebuild.rebuilt), rebuild.errors);
            format!("  scan: resilvered ({name}) {size} in {took} with {errors} errors on {end}\n")
        }
        RunState::Canceled => format!("  scan: resilver ({name}) canceled on {end}\n"),
        RunState::Running => {
            let total = nicebytes(rebuild.to_examine);
            let share = rebuild.issued as f64 * 100.0 / rebuild.to_examine.max(1) as f64;
            format!(
                "  scan: resilver ({name}) in progress since {start}\n\
                 \t{} / {total} scanned, {} / {total} issued\n\
                 \t{} resilvered, {share:.2}% done, no estimated completion time\n",
                nicebytes(rebuild.examined),
                nicebytes(rebuild.issued),
                nicebytes(rebuild.rebuilt),
            )
        }
    }
}

/// Rate, remaining seconds and hundredths done, for activities that always have a prediction; the
/// rate is at least one byte per second.
fn predicted(progress: &Progress) -> (u64, u64, f64) {
    let left = progress.seconds_left();
    let left = left.unwrap_or(progress.total.saturating_sub(progress.done));
    (progress.rate().max(1), left, progress.percent())
}

/// `1h5m`, the format for removals.
fn hours_minutes(seconds: u64) -> String {
    format!("{}h{}m", seconds / 3600, seconds / 60 % 60)
}

fn removal_lines(removal: &RemovalActivity, clock: Clock<'_>) -> String {
    let (id, copied) = (removal.vdev_id, nicebytes(removal.copied));
    let mut text = match removal.state {
        RunState::Finished => {
            let took = removal.end_time.saturating_sub(removal.start_time);
            let (took, end) = (hours_minutes(took), clock.at(removal.end_time));
            format!("remove: Removal of vdev {id} copied {copied} in {took}, completed on {end}\n")
        }
        RunState::Canceled => {
            let end = clock.at(removal.end_time);
            match &removal.vdev {
                Some(name) => format!("remove: Removal of {name} canceled on {end}\n"),
                None => format!("remove: Removal of vdev {id} canceled on {end}\n"),
            }
        }
        RunState::Running => {
            let name = removal.vdev.clone().unwrap_or_else(|| format!("vdev {id}"));
            let figures = (removal.copied, removal.to_copy);
            let progress = clock.progress(figures, removal.start_time);
            let (rate, left, share) = predicted(&progress);
            format!(
                "remove: Evacuation of {name} in progress since {}\n\
                 \t{copied} copied out of {} at {}/s, {share:.2}% done, {} to go\n",
                clock.at(removal.start_time),
                nicebytes(removal.to_copy),
                nicebytes(rate),
                hours_minutes(left),
            )
        }
    };
    if removal.mapping_memory > 0 {
        let memory = nicenum(removal.mapping_memory);
        text.push_str(&format!(
            "\t{memory} memory used for removed device mappings\n"
        ));
    }
    text
}

fn expand_lines(expand: &RaidzExpand, clock: Clock<'_>) -> String {
    let name = &expand.vdev;
    let start = clock.at(expand.start_time);
    match expand.state {
        RunState::Finished | RunState::Canceled => {
            let took = expand.end_time.saturating_sub(expand.start_time);
            let (took, end) = (duration(took), clock.at(expand.end_time));
            let size = nicebytes(expand.reflowed);
            format!("expand: expanded {name} copied {size} in {took}, on {end}\n")
        }
        RunState::Running => {
            let figures = (expand.reflowed, expand.to_reflow);
            let progress = clock.progress(figures, expand.start_time);
            let (rate, left, share) = predicted(&progress);
            let left = if expand.waiting_for_resilver {
                ", paused for resilver or clear".to_owned()
            } else {
                format!(", {} to go", duration(left))
            };
            format!(
                "expand: expansion of {name} in progress since {start}\n\
                 \t{} / {} copied at {}/s, {share:.2}% done{left}\n",
                nicebytes(expand.reflowed),
                nicebytes(expand.to_reflow),
                nicebytes(rate),
            )
        }
    }
}
