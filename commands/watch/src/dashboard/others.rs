//! The pages about caches, clients, alarms, and a pool's history.

use std::collections::VecDeque;

use cenote_control::model::{
    AlarmAct, ControlError, Event, HistoryBody, HistoryRecord, Part, Request, Response,
};
use maud::{Markup, html};

use super::super::sample::{Between, Client, Sample};
use super::super::top::table::time;
use super::layout::{moment, number, pool_path, table};
use super::recorder::{Asker, Recorder};
use cenote_words::context::mismatch;
use cenote_words::format::number::{nicebytes, nicenum};

/// How many of the newest history records and events to list.
const RECORDS_MAX: usize = 200;

/// The contents of the caches, and their lookups.
pub fn caches(recorder: &Recorder) -> Markup {
    let found = recorder.with(|between| {
        html! {
            (cache_lists(between))
            (cache_lookups(between))
        }
    });
    found.unwrap_or_else(|| html! { p { "No figures yet." } })
}

fn cache_lists(between: Between<'_>) -> Markup {
    let figures = &between.now.figures;
    let body = html! {
        @for pool in figures.pools() {
            @for part in ["stored", "decoded", "passing"] {
                @let of = |list: &str, kind: &str| figures.sum("cenote_arc_bytes", &[
                    ("pool", &pool), ("part", part), ("list", list), ("kind", kind),
                ]);
                @let limit = figures.sum("cenote_arc_limit_bytes", &[
                    ("pool", &pool), ("part", part),
                ]);
                tr {
                    th scope="row" { (pool) }
                    td { (part) }
                    (number(&nicebytes(limit)))
                    @for list in ["recent", "frequent"] {
                        @for kind in ["data", "metadata"] { (number(&nicebytes(of(list, kind)))) }
                    }
                }
            }
        }
    };
    let heads = [
        ("Pool", false),
        ("Part", false),
        ("Limit", true),
        ("Recent data", true),
        ("Recent metadata", true),
        ("Frequent data", true),
        ("Frequent metadata", true),
    ];
    html! {
        h2 { "What is in memory" }
        p.faint {
            "Stored: blocks as they are on disk, compressed. Decoded: copies that are ready to be \
             read. Passing: blocks that are not kept."
        }
        (table("Bytes of the caches of all pools", &heads, body))
    }
}

fn cache_lookups(between: Between<'_>) -> Markup {
    let body = html! {
        @for pool in between.now.figures.pools() {
            @for wanted in ["demand", "prefetch"] {
                @for kind in ["data", "metadata"] {
                    @let of = |outcome: &str| between.rate("cenote_arc_lookups_total", &[
                        ("pool", &pool), ("for", wanted), ("kind", kind), ("outcome", outcome),
                    ]);
                    tr {
                        th scope="row" { (pool) }
                        td { (wanted) } td { (kind) }
                        @for outcome in ["hit", "wait", "miss"] {
                            @match of(outcome) {
                                Some(rate) => { (number(&format!("{}/s", nicenum(rate)))) },
                                None => { (number("not known yet")) },
                            }
                        }
                    }
                }
            }
        }
    };
    let heads = [
        ("Pool", false),
        ("For", false),
        ("Kind", false),
        ("In memory", true),
        ("On its way", true),
        ("Read from devices", true),
    ];
    html! {
        h2 { "What was looked up" }
        p.faint {
            "Demand: a reader waits for it. Prefetch: it is read ahead. On its way: another reader \
             was fetching it."
        }
        (table("Lookups in the last 10 seconds", &heads, body))
    }
}

/// Mounts, sites and, for owners, connections to volumes.
pub fn clients(recorder: &Recorder, asker: &Asker<'_>) -> Result<Markup, ControlError> {
    let Response::Mounts { mounts } = asker.ask(Request::MountList, |_| {})? else {
        return Err(mismatch());
    };
    let act = cenote_control::model::NbdAct::Status;
    let servers = match asker.ask(Request::Nbd { act }, |_| {}) {
        Ok(Response::Nbd { servers }) => Some(servers),
        Ok(_) => return Err(mismatch()),
        Err(ControlError::PermissionDenied) => None,
        Err(error) => return Err(error),
    };
    let is_private = servers.is_none();
    let found = recorder.with(|between| {
        // The current mounts, with the counters of the last two samples.
        let sample = Sample {
            mounts: mounts.clone(),
            ..between.now.clone()
        };
        Between::new(between.earlier(), &sample).clients()
    });
    let found = found.unwrap_or_default();
    let of_kind = |kind: &str| {
        let rows = found.iter().filter(|client| client.kind == kind);
        rows.collect::<Vec<&Client>>()
    };
    let (mounted, sites) = (of_kind("mount"), of_kind("http"));
    let body = html! {
        @for client in mounted {
            tr {
                th scope="row" { (client.name) }
                td { (client.place) }
                (number(&client.requests.map_or_else(|| "-".to_owned(), nicenum)))
                @for bytes in [
                    client.rates.map(|rates| rates.read_bytes),
                    client.rates.map(|rates| rates.written_bytes),
                ] {
                    (number(&bytes.map_or_else(|| "-".to_owned(), per_second)))
                }
                (number(&client.latency.map_or_else(|| "-".to_owned(), time)))
            }
        }
    };
    let heads = [
        ("File system", false),
        ("Where", false),
        ("Requests a second", true),
        ("Read", true),
        ("Written", true),
        ("Mean time", true),
    ];
    Ok(html! {
        h2 { "Mounts" }
        (table("Mounted file systems", &heads, body))
        h2 { "Volumes" }
        @if is_private {
            p { "Clients of volumes are visible only to the daemon's user." }
        } @else {
            (connections(&servers.unwrap_or_default()))
        }
        h2 { "Sites" }
        (served_sites(&sites))
    })
}

/// Sites that are served over HTTP.
fn served_sites(sites: &[&Client]) -> Markup {
    let body = html! {
        @for site in sites {
            tr {
                th scope="row" { (site.name) }
                td { (site.place) }
                (number(&site.requests.map_or_else(|| "-".to_owned(), nicenum)))
                @let sent = site.rates.map(|rates| rates.read_bytes);
                (number(&sent.map_or_else(|| "-".to_owned(), per_second)))
            }
        }
    };
    let heads = [
        ("Dataset", false),
        ("Where", false),
        ("Reads a second", true),
        ("Sent", true),
    ];
    table("Files served over HTTP", &heads, body)
}

fn per_second(bytes: u64) -> String {
    format!("{}/s", nicebytes(bytes))
}

fn connections(servers: &[cenote_control::model::NbdServer]) -> Markup {
    let body = html! {
        @for client in servers.iter().flat_map(|server| &server.clients) {
            tr {
                th scope="row" { (client.export.as_deref().unwrap_or("none chosen yet")) }
                td { (client.address) }
                (number(&nicenum(client.requests)))
                (number(&nicebytes(client.read_bytes)))
                (number(&nicebytes(client.written_bytes)))
            }
        }
    };
    let heads = [
        ("Volume", false),
        ("Client", false),
        ("Requests", true),
        ("Read", true),
        ("Written", true),
    ];
    table("Connections to volumes, since each began", &heads, body)
}

/// The channels of alarms.
pub fn alarms(asker: &Asker<'_>) -> Result<Markup, ControlError> {
    let act = AlarmAct::List;
    let Response::Alarms { file, ways } = asker.ask(Request::Alarms { act }, |_| {})? else {
        return Err(mismatch());
    };
    let body = html! {
        @for way in &ways {
            tr {
                th scope="row" { (way.name) }
                td { (way.kind) }
                td { (way.target) }
                @for count in [way.sent, way.failed, way.dropped, way.waiting] {
                    (number(&nicenum(count)))
                }
                td { (way.last_error.as_deref().unwrap_or("none")) }
            }
        }
    };
    let heads = [
        ("Name", false),
        ("Kind", false),
        ("Where to", false),
        ("Sent", true),
        ("Failed", true),
        ("Dropped", true),
        ("Waiting", true),
        ("Last error", false),
    ];
    Ok(html! {
        @match &file {
            Some(file) => p { "Configured in " code { (file) } "." },
            None => p { "No alarms are configured. 'cenote help alarm' says how." },
        }
        @if !ways.is_empty() { (table("Ways by which alarms leave this machine", &heads, body)) }
    })
}

/// The history of a pool's commands, and its events.
pub fn history(pool: &str, asker: &Asker<'_>) -> Result<Markup, ControlError> {
    let (mut records, mut events) = (VecDeque::new(), VecDeque::new());
    let request = Request::History {
        pool: pool.to_owned(),
    };
    asker.ask(request, |part| {
        if let Part::History(more) = part {
            more.into_iter()
                .for_each(|record| keep(&mut records, record));
        }
    })?;
    let request = Request::Events {
        pool: Some(pool.to_owned()),
        follow: false,
    };
    asker.ask(request, |part| {
        if let Part::Events(more) = part {
            more.into_iter().for_each(|event| keep(&mut events, event));
        }
    })?;
    let commands = html! {
        @for record in records.iter().rev() {
            @if let Some(command) = command_of(record) {
                tr { td { (moment(record.time)) } td { (command) } }
            }
        }
    };
    let happened = html! {
        @for event in events.iter().rev() {
            tr { td { (moment(event.seconds)) } td { (event.class) } td { (details(event)) } }
        }
    };
    Ok(html! {
        p { a href=(pool_path(pool)) { "Back to " (pool) } }
        h2 { "Commands" }
        (table(
            &format!("The last commands that changed {pool}, the newest first"),
            &[("When", false), ("Command", false)],
            commands,
        ))
        h2 { "Events" }
        (table(
            &format!("The last events of {pool}, the newest first"),
            &[("When", false), ("Class", false), ("Details", false)],
            happened,
        ))
    })
}

/// Adds the newest element and drops the oldest.
fn keep<T>(kept: &mut VecDeque<T>, fresh: T) {
    if kept.len() == RECORDS_MAX {
        kept.pop_front();
    }
    kept.push_back(fresh);
}

fn command_of(record: &HistoryRecord) -> Option<&str> {
    match &record.body {
        HistoryBody::Command(command) => Some(command),
        _ => None,
    }
}

/// The first details of an event.
fn details(event: &Event) -> String {
    let pairs = event
        .details
        .iter()
        .filter(|(name, _)| name != "class" && name != "time");
    let pairs = pairs.take(6).map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<String>>().join(" ")
}
