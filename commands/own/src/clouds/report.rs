//! `cenote cloud status`.

use super::target::{ask, open};
use cenote_cloud::location::is_location;
use cenote_control::model::{StoreAct, StoreReport, StoreRequests, StoreStatus};
use cenote_words::command::Arguments;
use cenote_words::context::{Context, Outcome, Stop};
use cenote_words::format::json::{Json, Object};
use cenote_words::format::number::nicebytes;
use cenote_words::progress::Style;
use cenote_words::stores::{json_of as store_json, lines as store_lines};
use std::path::Path;

pub fn run(target: &str, arguments: &Arguments, context: &mut Context) -> Outcome {
    let reports = reports(target, context)?;
    if arguments.has("json") {
        print_json(&reports, context);
        return Ok(0);
    }
    for report in &reports {
        context.line(&report.status.place);
        for line in store_lines(&report.status) {
            context.line(&format!("  {line}"));
        }
        lines(report).iter().for_each(|line| context.line(line));
    }
    Ok(0)
}

/// The reports about a pool's devices, or about the device with this name.
pub fn reports(target: &str, context: &mut Context) -> Result<Vec<StoreReport>, Stop> {
    if !is_location(Path::new(target)) {
        return ask(target, StoreAct::Status, Style::Quiet, context);
    }
    let devices = open(target)?.into_iter();
    let reports = devices.map(|(place, device)| {
        let (status, space) = (device.status(), device.space());
        StoreReport {
            status: StoreStatus {
                place,
                uuid: status.uuid.to_string(),
                size: status.size,
                commit: status.commit.0,
                host: status.host,
                written: status.written,
                released: status.is_released,
                read_only: true,
                ..StoreStatus::default()
            },
            live_bytes: space.live,
            live_exact: space.is_live_exact,
            stored_bytes: space.stored,
            map_memory: space.map_memory,
            ..StoreReport::default()
        }
    });
    Ok(reports.collect())
}

fn lines(report: &StoreReport) -> Vec<String> {
    let most = if report.live_exact { "" } else { "at most " };
    let mut lines = vec![format!(
        "  {} of {} are stored, of which {most}{} are needed",
        nicebytes(report.stored_bytes),
        nicebytes(report.status.size),
        nicebytes(report.live_bytes)
    )];
    if report.requests.is_empty() {
        return lines;
    }
    lines.push(format!(
        "  since it was opened: {} commits, {} checkpoints, {} compacted, {} objects removed",
        report.commits,
        report.checkpoints,
        nicebytes(report.compacted_bytes),
        report.deleted
    ));
    let made = report.requests.iter().filter(|kind| kind.requests > 0);
    let rows: Vec<&StoreRequests> = made.collect();
    if rows.is_empty() {
        return lines;
    }
    lines.push(format!(
        "  {:<7} {:>9} {:>7} {:>8} {:>8} {:>9} {:>9}",
        "request", "number", "failed", "sent", "received", "half in", "all in"
    ));
    for row in rows {
        let failed = row.transient + row.denied + row.failed;
        let (sent, received) = (nicebytes(row.sent), nicebytes(row.received));
        let time = |percent| match quantile(&row.latencies, percent) {
            Some(milliseconds) => format!("{milliseconds}ms"),
            None => "-".to_owned(),
        };
        lines.push(format!(
            "  {:<7} {:>9} {failed:>7} {sent:>8} {received:>8} {:>9} {:>9}",
            row.kind,
            row.requests,
            time(50),
            time(100)
        ));
    }
    lines
}

/// The upper bound of the slot in which this percentile lies.
fn quantile(slots: &[u64], percent: u64) -> Option<u64> {
    let total: u64 = slots.iter().sum();
    let wanted = (total * percent).div_ceil(100);
    let mut seen = 0;
    let slot = slots.iter().position(|count| {
        seen += count;
        seen >= wanted && wanted > 0
    });
    slot.map(|slot| 1u64.checked_shl(slot as u32).unwrap_or(u64::MAX))
}

pub fn print_json(reports: &[StoreReport], context: &mut Context) {
    let mut all = Object::new();
    for report in reports {
        let mut object = store_json(&report.status);
        object.put("stored_bytes", report.stored_bytes);
        object.put("live_bytes", report.live_bytes);
        object.put("live_exact", report.live_exact);
        object.put("map_memory", report.map_memory);
        object.put("commits", report.commits);
        object.put("checkpoints", report.checkpoints);
        object.put("compacted_bytes", report.compacted_bytes);
        object.put("deleted", report.deleted);
        let mut requests = Object::new();
        for row in &report.requests {
            let mut kind = Object::new();
            kind.put("requests", row.requests);
            kind.put("transient", row.transient);
            kind.put("denied", row.denied);
            kind.put("failed", row.failed);
            kind.put("sent", row.sent);
            kind.put("received", row.received);
            kind.put("sizes", numbers(&row.sizes));
            kind.put("latencies", numbers(&row.latencies));
            requests.put(&row.kind, kind);
        }
        object.put("requests", requests);
        all.put(&report.status.place, object);
    }
    let mut document = Object::new();
    document.put("stores", all);
    context.line(&Json::from(document).to_string());
}

fn numbers(numbers: &[u64]) -> Vec<Json> {
    numbers.iter().map(|number| Json::from(*number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_borders_of_slots() {
        let mut slots = vec![0; 32];
        assert_eq!(quantile(&slots, 50), None);
        slots[3] = 9;
        slots[7] = 1;
        assert_eq!(quantile(&slots, 50), Some(8));
        assert_eq!(quantile(&slots, 100), Some(128));
    }
}
