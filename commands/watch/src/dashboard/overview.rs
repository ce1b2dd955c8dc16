//! The first page: all pools, and their problems.

use cenote_control::model::{ControlError, PoolStatus, Request, Response};
use maud::{Markup, html};

use super::super::sample::{Between, Rates};
use super::super::top::screens::health_tone;
use super::graph::bar;
use super::layout::{findings, pool_path, state};
use super::recorder::{Asker, Recorder};
use super::views::{findings_of, pool_number, rates_graph, under_way};
use cenote_words::context::mismatch;
use cenote_words::format::number::{duration, nicebytes, nicenum, percent};

/// The status of all pools, or of one.
pub fn statuses(asker: &Asker<'_>, pool: Option<&str>) -> Result<Vec<PoolStatus>, ControlError> {
    let request = Request::PoolStatus {
        pools: pool.map(str::to_owned).into_iter().collect(),
        errors: false,
        dedup: false,
    };
    match asker.ask(request, |_| {})? {
        Response::Statuses { pools, failures } => match failures.into_iter().next() {
            Some((_, error)) if pools.is_empty() => Err(error),
            _ => Ok(pools),
        },
        _ => Err(mismatch()),
    }
}

/// The page.
pub fn overview(recorder: &Recorder, asker: &Asker<'_>) -> Result<Markup, ControlError> {
    let mut pools = statuses(asker, None)?;
    pools.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(html! {
        @if pools.is_empty() {
            p { "No pool is imported. Run 'zpool import' to see which there are." }
        }
        div.cards {
            @for pool in &pools { (card(pool, recorder, asker)) }
        }
        h2 { "This daemon" }
        @if let Some(facts) = recorder.with(daemon) {
            (facts)
        } @else {
            p { "No figures yet." }
        }
    })
}

fn daemon(between: Between<'_>) -> Markup {
    let figures = &between.now.figures;
    let of = |name: &str| figures.sum(name, &[]);
    let (used, limit) = (
        of("cenote_memory_used_bytes"),
        of("cenote_memory_limit_bytes"),
    );
    html! {
        dl {
            dt { "Up for" }
            dd { (duration(of("cenote_daemon_uptime_seconds"))) }
            dt { "Memory for caches and buffers" }
            dd { (nicebytes(used)) " of " (nicebytes(limit)) (bar(used, limit)) }
            dt { "Lookups found in memory" }
            dd {
                @match between.hit_percent(None) {
                    Some(hits) => { (hits) "%" },
                    None => "no lookups in the last 10 seconds",
                }
            }
        }
    }
}

/// The I/O rates of a pool.
pub fn rates_text(rates: Option<Rates>) -> String {
    match rates {
        None => "not known yet".to_owned(),
        Some(rates) => format!(
            "{}/s read ({}/s), {}/s written ({}/s)",
            nicebytes(rates.read_bytes),
            nicenum(rates.reads),
            nicebytes(rates.written_bytes),
            nicenum(rates.writes)
        ),
    }
}

/// A pool's allocated space and size.
pub fn space(recorder: &Recorder, pool: &str) -> (u64, u64) {
    let of = |between: Between<'_>| {
        let number = |name: &str| pool_number(between, name, pool).unwrap_or(0);
        let allocated = number("cenote_pool_allocated_bytes");
        (allocated, number("cenote_pool_size_bytes"))
    };
    recorder.with(of).unwrap_or_default()
}

fn card(pool: &PoolStatus, recorder: &Recorder, asker: &Asker<'_>) -> Markup {
    let (allocated, size) = space(recorder, &pool.name);
    let capacity = (size > 0).then(|| percent(allocated, size));
    let rates = recorder.with(|between| between.pool(&pool.name)).flatten();
    let found = findings_of(pool, capacity, asker);
    html! {
        section.card aria-label={ "Pool " (pool.name) } {
            h2 {
                a href=(pool_path(&pool.name)) { (pool.name) } " "
                (state(pool.health.word(), health_tone(pool.health)))
            }
            (findings(&found))
            dl {
                dt { "Space" }
                dd {
                    @if size > 0 {
                        (nicebytes(allocated)) " of " (nicebytes(size))
                        " (" (percent(allocated, size)) "%)"
                        (bar(allocated, size))
                    } @else { "not known yet" }
                }
                dt { "Now" }
                dd { (rates_text(rates)) }
            }
            (under_way(pool))
            (rates_graph(&recorder.history, &pool.name, 3600))
        }
    }
}
