//! `zpool history`.

use cenote_control::model::{
    ControlError, HistoryBody, HistoryRecord, Part, PropertySelection, Request, Response,
};
use jiff::tz::TimeZone;

use cenote_words::context::{Context, Outcome, failed, mismatch};
use cenote_words::format::date::{Form, date};
use cenote_words::program::CommandLine;
use cenote_words::texts::{cannot_open, with_context};
use cenote_zfs_commands::accounts::Accounts;

/// `zpool history [-il] [POOL]...`
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let (internal, long) = (parsed.has("i"), parsed.has("l"));
    let (names, bad) = super::names::names_to_ask(&parsed.operands, context);
    if names.is_empty() && !parsed.operands.is_empty() {
        return Ok(1);
    }
    let request = Request::PoolList {
        pools: names,
        properties: PropertySelection::Named(Vec::new()),
        vdevs: false,
    };
    let (pools, failures) = match context.ask(request) {
        Ok(Response::Pools { pools, failures }) => (pools, failures),
        Ok(_) => return failed(with_context("cannot list pools", &mismatch())),
        Err(error) => return failed(with_context("cannot list pools", &error)),
    };
    let mut code = u8::from(bad || !failures.is_empty());
    for (name, error) in &failures {
        context.complain(&cannot_open(name, error));
    }
    if pools.is_empty() && parsed.operands.is_empty() {
        context.complain("no pools available");
    }
    for pool in &pools {
        if let Err(error) = print_history(&pool.name, internal, long, context) {
            let what = format!("cannot get history for pool '{}'", pool.name);
            context.complain(&with_context(&what, &error));
            code = 1;
            continue;
        }
        context.line("");
    }
    Ok(code)
}

fn print_history(
    pool: &str,
    internal: bool,
    long: bool,
    context: &mut Context,
) -> Result<(), ControlError> {
    let mut records = Vec::new();
    let request = Request::History {
        pool: pool.to_owned(),
    };
    context.ask_in_parts(request, &mut |part| {
        if let Part::History(more) = part {
            records.extend(more);
        }
    })?;
    context.line(&format!("History for '{pool}':"));
    for record in &records {
        if let Some(line) = record_line(record, internal, long, &context.zone) {
            context.line(&line);
        }
    }
    Ok(())
}

fn record_line(
    record: &HistoryRecord,
    internal: bool,
    long: bool,
    zone: &TimeZone,
) -> Option<String> {
    if !internal && !matches!(record.body, HistoryBody::Command(_)) {
        return None;
    }
    let mut line = date(record.time, Form::History, zone);
    match &record.body {
        HistoryBody::Command(command) => {
            // Users with delegated permissions say themselves what their command was.
            let shown = |c: char| if c.is_control() { '?' } else { c };
            line.push(' ');
            line.extend(command.chars().map(shown));
        }
        HistoryBody::Internal {
            event,
            txg,
            dataset,
            detail,
        } => {
            line.push_str(&format!(" [txg:{txg}] {event}"));
            if let Some((name, object)) = dataset {
                line.push_str(&format!(" {name} ({object})"));
            }
            line.push_str(&format!(" {detail}"));
        }
        HistoryBody::Ioctl { name, details } => {
            line.push_str(&format!(" ioctl {name}"));
            for detail in details {
                line.push_str(&format!("\n    {detail}"));
            }
        }
        HistoryBody::Numbered { event, txg, detail } => {
            line.push_str(&format!(" [internal event {event} txg:{txg}] {detail}"));
        }
    }
    if long && let Some(who) = who(record) {
        line.push_str(&format!(" [{who}]"));
    }
    Some(line)
}

/// `user 0 (root) on host:linux`, as far as known.
fn who(record: &HistoryRecord) -> Option<String> {
    let user = record.user?;
    let mut text = match Accounts::Users.name(user) {
        Some(name) => format!("user {user} ({name})"),
        None => format!("user {user}"),
    };
    if let Some(host) = &record.host {
        text.push_str(&format!(" on {host}"));
        if let Some(zone) = &record.zone {
            text.push_str(&format!(":{zone}"));
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(body: HistoryBody) -> HistoryRecord {
        HistoryRecord {
            time: 1_700_000_000,
            body,
            user: Some(0),
            host: Some("attic".to_owned()),
            zone: Some("linux".to_owned()),
        }
    }

    #[test]
    fn commands_are_shown_and_internal_records_on_request() {
        let command = record(HistoryBody::Command("zpool create tank /tmp/d0".to_owned()));
        let line = record_line(&command, false, true, &TimeZone::UTC).expect("a line");
        let expected = "2023-11-14.22:13:20 zpool create tank /tmp/d0 \
                        [user 0 (root) on attic:linux]";
        assert_eq!(line, expected);
        let forged = record(HistoryBody::Command("zfs snap\n2026\u{1b}[31m".to_owned()));
        let line = record_line(&forged, false, false, &TimeZone::UTC).expect("a line");
        assert!(line.ends_with(" zfs snap?2026?[31m"), "{line}");
        let internal = record(HistoryBody::Internal {
            event: "create".to_owned(),
            txg: 5,
            dataset: Some(("tank/fs".to_owned(), 54)),
            detail: String::new(),
        });
        assert_eq!(record_line(&internal, false, false, &TimeZone::UTC), None);
        let line = record_line(&internal, true, false, &TimeZone::UTC).expect("a line");
        assert_eq!(line, "2023-11-14.22:13:20 [txg:5] create tank/fs (54) ");
    }
}
