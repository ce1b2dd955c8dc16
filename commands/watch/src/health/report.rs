//! The findings as text and as JSON.

use super::found::Health;
use cenote_advisor::Severity;
use cenote_control::model::{ErrorKind, ErrorRecord, MissingPool, RunState};
use cenote_words::context::Context;
use cenote_words::format::date::{Form, date};
use cenote_words::format::json::{Json, Object};
use cenote_words::format::number::counted;
use cenote_words::missing;

/// One paragraph per pool, with at most `history` earlier errors; with `quiet` only for pools with
/// findings.
pub fn text(healths: &[Health], quiet: bool, history: u64, context: &Context) -> String {
    let mut text = String::new();
    for health in healths {
        let severity = health.severity();
        if quiet && severity == Severity::Note {
            continue;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&headline(health, severity, context));
        for finding in &health.findings {
            let device = match finding.device.is_empty() {
                true => String::new(),
                false => format!("{}: ", finding.device),
            };
            let word = finding.severity.label();
            text.push_str(&format!("  {word:<9}  {device}{}\n", finding.what));
            if !finding.advice.is_empty() {
                text.push_str(&format!("  {:<9}  -> {}\n", "", finding.advice));
            }
        }
        let listed = usize::try_from(history).unwrap_or(usize::MAX);
        for record in health.history.iter().take(listed) {
            text.push_str(&past(record, context));
        }
    }
    text
}

/// The paragraph about a pool that should be imported and is not.
pub fn missing(pool: &MissingPool, context: &Context) -> String {
    let why = missing::why(pool, &context.zone);
    let advice = missing::advice(pool);
    format!(
        "{}: missing (it should be imported, and is not)\n  {:<9}  {why}\n  {:<9}  -> {advice}\n",
        pool.name,
        Severity::Danger.label(),
        ""
    )
}

/// A line about an earlier error.
fn past(record: &ErrorRecord, context: &Context) -> String {
    let when = date(record.last, Form::Ctime, &context.zone);
    let device = match record.device.is_empty() {
        true => String::new(),
        false => format!("{}: ", record.device),
    };
    format!(
        "  {:<9}  {when}: {device}{}\n",
        "earlier",
        in_words(record.kind)
    )
}

/// A description of an error.
pub fn in_words(kind: ErrorKind) -> String {
    match kind {
        ErrorKind::Errors {
            read,
            write,
            checksum,
        } => {
            let checksum = counted(checksum, "checksum error");
            format!("{read} read, {write} write and {checksum}")
        }
        ErrorKind::State { state } => format!("became {}", state.word()),
        ErrorKind::Data { reads } => {
            format!("data could not be repaired ({})", counted(reads, "read"))
        }
        ErrorKind::Suspended => "the pool was suspended".to_owned(),
    }
}

fn past_json(record: &ErrorRecord) -> Json {
    let mut entry = Object::new();
    entry.put("first", record.first);
    entry.put("last", record.last);
    entry.put("device", record.device.as_str());
    entry.put("guid", record.guid);
    entry.put("what", in_words(record.kind));
    Json::from(entry)
}

fn headline(health: &Health, severity: Severity, context: &Context) -> String {
    let status = &health.status;
    let word = match severity {
        Severity::Note => "well",
        Severity::Attention => "wants attention",
        Severity::Danger => "in danger",
    };
    let full = health
        .capacity
        .map_or(String::new(), |percent| format!(", {percent} % full"));
    let scan = status.scan.as_ref();
    let scanned = match scan.filter(|scan| scan.state == RunState::Finished) {
        Some(scan) => format!(
            ", last scan {}",
            date(scan.end_time, Form::Ctime, &context.zone)
        ),
        None => String::new(),
    };
    let state = status.health.word();
    format!("{}: {word} ({state}{full}{scanned})\n", status.name)
}

/// The findings for programs.
pub fn json(healths: &[Health], missing: &[MissingPool]) -> Json {
    let mut pools = Object::new();
    for health in healths {
        let mut pool = Object::new();
        pool.put("severity", health.severity().word());
        pool.put("state", health.status.health.word());
        if let Some(percent) = health.capacity {
            pool.put("capacity", percent);
        }
        let list = health.findings.iter().map(|finding| {
            let mut entry = Object::new();
            entry.put("severity", finding.severity.word());
            entry.put("device", finding.device.as_str());
            entry.put("what", finding.what.as_str());
            entry.put("advice", finding.advice.as_str());
            Json::from(entry)
        });
        pool.put("findings", list.collect::<Vec<Json>>());
        let history = health.history.iter().map(past_json);
        pool.put("history", history.collect::<Vec<Json>>());
        pools.put(&health.status.name, pool);
    }
    for missing in missing {
        let mut finding = Object::new();
        finding.put("severity", Severity::Danger.word());
        finding.put("device", "");
        finding.put("what", missing.reason.as_str());
        finding.put("advice", missing::advice(missing));
        let mut pool = Object::new();
        pool.put("severity", Severity::Danger.word());
        pool.put("state", "MISSING");
        if let Some(tried) = missing.tried {
            pool.put("tried", tried);
        }
        pool.put("findings", vec![Json::from(finding)]);
        pool.put("history", Vec::<Json>::new());
        pools.put(&missing.name, pool);
    }
    let mut document = Object::new();
    document.put("pools", pools);
    Json::from(document)
}
