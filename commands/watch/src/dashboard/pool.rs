//! The page of a pool: its health, vdevs, graphs, cache, log, stores, errors and actions.

use std::collections::HashMap;

use cenote_control::model::{
    ControlError, ErrorRecord, PoolStatus, Request, Response, RunState, ScanKind, Vdev, VdevNaming,
};
use maud::{Markup, html};

use super::super::sample::{Between, Rates};
use super::super::top::screens::{health_tone, state_tone, vdev_activity};
use super::access::Visitor;
use super::graph::bar;
use super::layout::{encoded, findings, moment, number, pool_path, state, table};
use super::overview::{rates_text, space, statuses};
use super::recorder::{Asker, Recorder};
use super::views::{SPANS, findings_of, graphs, pool_number, span_of, under_way};
use crate::health::in_words;
use cenote_words::format::number::{duration, nicebytes, nicenum, percent};
use cenote_words::stores;
use cenote_words::vdev_rows::{Section, rows, spare_word, state_word};

/// Maximum number of earlier errors to list.
const ERRORS_MAX: usize = 20;

/// The page.
pub fn pool(
    name: &str,
    query: Option<&str>,
    recorder: &Recorder,
    (asker, visitor): (&Asker<'_>, &Visitor),
) -> Result<Markup, ControlError> {
    let statuses = statuses(asker, Some(name))?;
    let Some(status) = statuses.first() else {
        let pool = name.to_owned();
        return Err(ControlError::NoSuchPool { pool });
    };
    let (allocated, size) = space(recorder, name);
    let capacity = (size > 0).then(|| percent(allocated, size));
    let found = findings_of(status, capacity, asker);
    let rates = recorder.with(|between| between.pool(name)).flatten();
    Ok(html! {
        p {
            (state(status.health.word(), health_tone(status.health))) " · "
            @if size > 0 {
                (nicebytes(allocated)) " of " (nicebytes(size))
                " (" (percent(allocated, size)) "%) · "
            }
            "now " (rates_text(rates)) " · "
            a href={ (pool_path(name)) "/datasets" } { "Datasets" }
            @if visitor.is_owner {
                " · " a href={ (pool_path(name)) "/history" } { "History" }
            }
        }
        (findings(&found))
        h2 { "Under way" }
        (under_way(status))
        @if let Some(form) = &visitor.form { (actions(status, form)) }
        h2 { "Devices" }
        (devices(status, recorder))
        (self::graphs_section(name, query, recorder))
        @if let Some(parts) = recorder.with(|between| figures(between, name)) { (parts) }
        @if !status.stores.is_empty() { (stores(status)) }
        h2 { "Errors of the past" }
        (errors(name, asker))
    })
}

fn graphs_section(name: &str, query: Option<&str>, recorder: &Recorder) -> Markup {
    let (span, seconds) = span_of(query);
    html! {
        h2 { "The last " (span) }
        nav aria-label="Span of the graphs" {
            ul {
                @for (key, word, _) in SPANS {
                    li {
                        @if key == span {
                            a href={ "?span=" (key) } aria-current="true" { (word) }
                        } @else {
                            a href={ "?span=" (key) } { (word) }
                        }
                    }
                }
            }
        }
        (graphs(&recorder.history, name, seconds))
    }
}

/// A button for an action.
fn button(pool: &str, form: &str, action: &str, text: &str) -> Markup {
    html! {
        form method="post" action="/action" {
            input type="hidden" name="form" value=(form);
            input type="hidden" name="pool" value=(pool);
            input type="hidden" name="action" value=(action);
            button type="submit" { (text) }
        }
    }
}

fn actions(status: &PoolStatus, form: &str) -> Markup {
    let pool = &status.name;
    let scrub = status
        .scan
        .as_ref()
        .filter(|scan| scan.kind == ScanKind::Scrub);
    let running = scrub.filter(|scan| scan.state == RunState::Running);
    let is_paused = running.is_some_and(|scan| scan.pause_time != 0);
    html! {
        section aria-label="Actions" {
            div.actions {
                @if running.is_none() { (button(pool, form, "scrub", "Start a scrub")) }
                @if is_paused { (button(pool, form, "scrub", "Continue the scrub")) }
                @if running.is_some() && !is_paused {
                    (button(pool, form, "pause", "Pause the scrub"))
                }
                @if running.is_some() { (button(pool, form, "stop", "Stop the scrub")) }
                (button(pool, form, "clear", "Clear errors"))
            }
            form.actions method="post" action="/action" {
                input type="hidden" name="form" value=(form);
                input type="hidden" name="pool" value=(pool);
                input type="hidden" name="action" value="snapshot";
                div {
                    label for="dataset" { "Dataset" }
                    input id="dataset" name="dataset" value=(pool) required autocomplete="off";
                }
                div {
                    label for="snapshot" { "Name of the snapshot" }
                    input id="snapshot" name="snapshot" required autocomplete="off";
                }
                div {
                    input id="recursive" type="checkbox" name="recursive" value="on";
                    label for="recursive" { "of all datasets below, too" }
                }
                button type="submit" { "Take a snapshot" }
            }
        }
    }
}

/// Read, write and checksum errors of a vdev.
fn error_cells(vdev: &Vdev) -> Markup {
    let counters = &vdev.counters;
    html! {
        @for errors in [counters.read_errors, counters.write_errors, counters.checksum_errors] {
            td.number {
                @if errors > 0 { strong.bad { (nicenum(errors)) } } @else { "0" }
            }
        }
    }
}

fn devices(status: &PoolStatus, recorder: &Recorder) -> Markup {
    let found: HashMap<u64, Rates> = recorder
        .with(|between| {
            let rates = between.vdevs(&status.name)?;
            let rates = rates.into_iter();
            Some(
                rates
                    .filter_map(|(guid, rates)| Some((guid.parse().ok()?, rates)))
                    .collect(),
            )
        })
        .flatten()
        .unwrap_or_default();
    let sections = [Section::Normal].into_iter().chain(Section::CLASSES);
    let naming = VdevNaming::default();
    let all = sections.flat_map(|section| {
        let rows = rows(section, &status.vdevs, naming).into_iter();
        rows.map(move |row| (section, row))
    });
    let body = html! {
        @for (section, row) in all {
            @let vdev = row.vdev;
            @let rates = found.get(&vdev.guid).copied().unwrap_or_default();
            @let depth = row.depth.clamp(1, 5) - 1;
            @let word = match section {
                Section::Spares => spare_word(vdev),
                _ => state_word(vdev),
            };
            tr {
                th scope="row" {
                    span.{ "depth-" (depth) } {
                        (row.name)
                        @if section != Section::Normal && row.depth == 1 {
                            " (" (section.header()) ")"
                        }
                    }
                }
                td { (state(word, state_tone(vdev.state))) }
                td { (vdev_activity(vdev)) }
                td {
                    @if vdev.space.total > 0 {
                        (percent(vdev.space.allocated, vdev.space.total)) "% of "
                        (nicebytes(vdev.space.total))
                        (bar(vdev.space.allocated, vdev.space.total))
                    }
                }
                (number(&format!("{}/s", nicebytes(rates.read_bytes))))
                (number(&format!("{}/s", nicebytes(rates.written_bytes))))
                (error_cells(vdev))
            }
        }
    };
    let heads = [
        ("Device", false),
        ("State", false),
        ("What is the matter", false),
        ("Space", false),
        ("Read", true),
        ("Written", true),
        ("Read errors", true),
        ("Write errors", true),
        ("Checksum errors", true),
    ];
    table(&format!("Devices of {}", status.name), &heads, body)
}

/// Cache, transaction groups and intent log in figures.
fn figures(between: Between<'_>, pool: &str) -> Markup {
    let now = |name: &str| pool_number(between, name, pool).unwrap_or(0);
    let wanted = [("pool", pool)];
    let rate = |name: &str, more: &[(&str, &str)]| {
        let wanted: Vec<(&str, &str)> = wanted.iter().chain(more).copied().collect();
        between
            .rate(name, &wanted)
            .map_or_else(|| "not known yet".to_owned(), nicenum)
    };
    let (dirty, most) = (
        now("cenote_txg_dirty_bytes"),
        now("cenote_txg_dirty_max_bytes"),
    );
    let sync = now("cenote_txg_last_sync_seconds") / 1_000_000;
    let live = [("list", "recent"), ("list", "frequent")];
    let cached = live.map(|list| {
        between
            .now
            .figures
            .sum("cenote_arc_bytes", &[wanted[0], list])
    });
    let log_bytes = between.rate("cenote_log_bytes_total", &wanted);
    html! {
        h2 { "Cache, transaction groups and log" }
        div.cards {
            section.card aria-label="Cache" {
                h2 { "Cache" }
                dl {
                    dt { "Blocks seen once" } dd { (nicebytes(cached[0])) }
                    dt { "Blocks seen again" } dd { (nicebytes(cached[1])) }
                    dt { "Lookups found in memory" }
                    dd {
                        @match between.hit_percent(Some(pool)) {
                            Some(hits) => { (hits) "%" },
                            None => "no lookups",
                        }
                    }
                    dt { "Blocks read from devices" }
                    dd { (rate("cenote_pool_blocks_read_total", &[])) "/s" }
                }
            }
            section.card aria-label="Transaction groups" {
                h2 { "Transaction groups" }
                dl {
                    dt { "Not on disk yet" }
                    dd { (nicebytes(dirty)) " of " (nicebytes(most)) (bar(dirty, most)) }
                    dt { "The last group took" } dd { (sync) " ms" }
                    dt { "Delayed writes" }
                    dd { (rate("cenote_txg_delayed_transactions_total", &[])) "/s" }
                }
            }
            section.card aria-label="Intent log" {
                h2 { "Intent log" }
                dl {
                    dt { "Commits by the log" }
                    dd { (rate("cenote_log_commits_total", &[("by", "log")])) "/s" }
                    dt { "Written to the log" }
                    dd { (nicebytes(log_bytes.unwrap_or(0))) "/s" }
                    dt { "Failed writes" }
                    dd { (between.now.figures.sum("cenote_log_failures_total", &wanted)) }
                }
            }
        }
    }
}

fn stores(status: &PoolStatus) -> Markup {
    html! {
        h2 { "Object stores" }
        div.cards {
            @for store in &status.stores {
                section.card aria-label={ "Store " (store.place) } {
                    h2 { (store.place) }
                    dl {
                        dt { "Not uploaded yet" }
                        dd {
                            (nicebytes(store.pending_bytes))
                            @if let Some(seconds) = store.pending_seconds {
                                ", for " (duration(seconds))
                            }
                        }
                        @if let (Some(used), Some(size)) = (store.log_used, store.log_size) {
                            dt { "Local log" }
                            dd { (nicebytes(used)) " of " (nicebytes(size)) (bar(used, size)) }
                        }
                    }
                    ul { @for line in stores::lines(store) { li { (line) } } }
                }
            }
        }
    }
}

fn errors(pool: &str, asker: &Asker<'_>) -> Markup {
    let request = Request::ErrorHistory {
        pool: pool.to_owned(),
    };
    let mut records: Vec<ErrorRecord> = match asker.ask(request, |_| {}) {
        Ok(Response::ErrorHistory { records }) => records,
        Ok(_) => Vec::new(),
        Err(error) => return html! { p.bad { "They cannot be read: " (error.to_string()) } },
    };
    if records.is_empty() {
        return html! { p { "None are recorded." } };
    }
    records.sort_by_key(|record| std::cmp::Reverse(record.last));
    let body = html! {
        @for record in records.iter().take(ERRORS_MAX) {
            tr {
                td { (moment(record.last)) }
                td {
                    @if record.device.is_empty() { "the pool" } @else { (record.device) }
                }
                td { (in_words(record.kind)) }
            }
        }
    };
    let heads = [("When", false), ("Device", false), ("What", false)];
    table(&format!("Errors of {pool}, the newest first"), &heads, body)
}

/// The path of a page that shows the result of an action.
pub fn done_path(pool: &str, text: &str) -> String {
    format!("{}?done={}", pool_path(pool), encoded(text))
}
