//! Parts that several pages share: a pool's graphs, and running work.

use cenote_advisor::limits::Limits;
use cenote_advisor::{Facts, Finding, findings};
use cenote_base::rt::job::Progress;
use cenote_control::model::{
    DatasetKind, Depth, KindSet, Part, PoolStatus, PropertySelection, Request, RunState, ScanKind,
};
use maud::{Markup, html};

use super::super::sample::Between;
use super::super::top::screens::{scan_progress, wall_clock};
use super::graph::{Curve, Graph, STEPS, Unit, bar, graph};
use super::history::{History, Series};
use super::recorder::Asker;
use cenote_words::format::number::{duration, nicebytes};

/// The time spans of graphs: their words in queries, names and seconds.
pub const SPANS: [(&str, &str, u64); 5] = [
    ("hour", "hour", 3600),
    ("day", "day", 86_400),
    ("week", "week", 7 * 86_400),
    ("month", "month", 30 * 86_400),
    ("year", "year", 365 * 86_400),
];

/// The span in a query; by default an hour.
pub fn span_of(query: Option<&str>) -> (&'static str, u64) {
    let word = query.and_then(|query| super::layout::field(query, "span"));
    let found = SPANS.iter().find(|(key, ..)| Some(*key) == word.as_deref());
    let (key, _, seconds) = found.unwrap_or(&SPANS[0]);
    (key, *seconds)
}

const RATES: [Curve; 2] = [
    Curve {
        name: "read",
        series: Series::ReadBytes,
    },
    Curve {
        name: "written",
        series: Series::WrittenBytes,
    },
];
const OPERATIONS: [Curve; 2] = [
    Curve {
        name: "reads",
        series: Series::Reads,
    },
    Curve {
        name: "writes",
        series: Series::Writes,
    },
];
const SPACE: [Curve; 2] = [
    Curve {
        name: "allocated",
        series: Series::Allocated,
    },
    Curve {
        name: "size",
        series: Series::Size,
    },
];
const HITS: [Curve; 1] = [Curve {
    name: "found in memory",
    series: Series::Hits,
}];

/// The graph of a pool's throughput, for the overview.
pub fn rates_graph(history: &History, pool: &str, seconds: u64) -> Markup {
    let until = wall_clock();
    let steps = history.steps(pool, until.saturating_sub(seconds), until, STEPS);
    let shown = Graph {
        title: "Data read and written",
        curves: &RATES,
        unit: Unit::BytesRate,
        ends: ends(seconds),
        times: (until.saturating_sub(seconds), until),
    };
    graph(&shown, &steps)
}

fn ends(seconds: u64) -> (String, String) {
    let begin = match seconds {
        3600 => "1 hour ago".to_owned(),
        86_400 => "1 day ago".to_owned(),
        seconds => format!("{} days ago", seconds / 86_400),
    };
    (begin, "now".to_owned())
}

/// All graphs of a pool.
pub fn graphs(history: &History, pool: &str, seconds: u64) -> Markup {
    let until = wall_clock();
    let steps = history.steps(pool, until.saturating_sub(seconds), until, STEPS);
    let all: [(&str, &[Curve], Unit); 4] = [
        ("Data read and written", &RATES, Unit::BytesRate),
        ("Blocks read and written", &OPERATIONS, Unit::Operations),
        ("Space", &SPACE, Unit::Bytes),
        ("Cache hits", &HITS, Unit::Percent),
    ];
    let times = (until.saturating_sub(seconds), until);
    html! {
        div.graphs {
            @for (title, curves, unit) in all {
                (graph(&Graph { title, curves, unit, ends: ends(seconds), times }, &steps))
            }
        }
    }
}

/// A number of a pool.
pub fn pool_number(between: Between<'_>, name: &str, pool: &str) -> Option<u64> {
    let mut found = between.now.figures.series(name, &[("pool", pool)]);
    found.next().map(|series| series.number())
}

/// The findings about a pool, the worst first.
pub fn findings_of(status: &PoolStatus, capacity: Option<u64>, asker: &Asker<'_>) -> Vec<Finding> {
    let facts = Facts {
        capacity,
        created: created(&status.name, asker),
        now: wall_clock(),
    };
    let mut found = findings(status, &facts, Limits::default());
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

/// When a pool was created.
fn created(pool: &str, asker: &Asker<'_>) -> Option<u64> {
    let request = Request::DatasetList {
        roots: vec![pool.to_owned()],
        depth: Depth::Roots,
        kinds: KindSet::of(DatasetKind::Filesystem),
        properties: PropertySelection::Named(vec!["creation".to_owned()]),
    };
    let mut found = None;
    let asked = asker.ask(request, |part| {
        if let Part::Datasets(rows) = part {
            let mut values = rows.iter().filter_map(|row| row.property("creation"));
            found = values.next().and_then(|property| property.value.number());
        }
    });
    asked.ok().and(found)
}

/// Running work.
struct Work {
    name: String,
    progress: Progress,
    is_paused: bool,
    detail: String,
}

impl Work {
    /// The remaining time.
    fn left(&self) -> String {
        match self.progress.seconds_left() {
            _ if self.is_paused => ", paused".to_owned(),
            Some(left) if self.progress.done > 0 => format!(", {} left", duration(left)),
            _ => String::new(),
        }
    }
}

/// Running work in a pool, each with a bar and the remaining time.
pub fn under_way(status: &PoolStatus) -> Markup {
    let works = works(status);
    html! {
        @if works.is_empty() {
            p.faint { "Nothing is under way." }
        }
        @for work in works {
            @let share = work.progress.percent().min(100.0);
            p {
                strong { (work.name) } " " (format!("{share:.1}%"))
                (work.left())
                " (" (work.detail) ")"
                (bar(work.progress.done, work.progress.total))
            }
        }
    }
}

fn works(status: &PoolStatus) -> Vec<Work> {
    let now = wall_clock();
    let since = |begun: u64, done: u64, total: u64| Progress {
        done,
        total,
        fresh: done,
        elapsed: std::time::Duration::from_secs(now.saturating_sub(begun).max(1)),
    };
    let of = |progress: &Progress| {
        let (done, total) = (nicebytes(progress.done), nicebytes(progress.total));
        format!("{done} of {total}")
    };
    let mut works = Vec::new();
    let mut push = |name: String, progress: Progress, is_paused: bool| {
        works.push(Work {
            name,
            detail: of(&progress),
            progress,
            is_paused,
        });
    };
    if let Some(scan) = status
        .scan
        .as_ref()
        .filter(|scan| scan.state == RunState::Running)
    {
        let name = match scan.kind {
            ScanKind::Scrub => "Scrub",
            ScanKind::Resilver => "Resilver",
            ScanKind::ErrorScrub => "Scrub of damaged blocks",
        };
        push(
            name.to_owned(),
            scan_progress(scan, now),
            scan.pause_time != 0,
        );
    }
    let running = status.rebuilds.iter();
    for rebuild in running.filter(|rebuild| rebuild.state == RunState::Running) {
        let name = format!("Rebuild of {}", rebuild.vdev);
        let progress = since(rebuild.start_time, rebuild.issued, rebuild.to_examine);
        push(name, progress, false);
    }
    if let Some(removal) = &status.removal
        && removal.state == RunState::Running
    {
        let progress = since(removal.start_time, removal.copied, removal.to_copy);
        push("Removal of a device".to_owned(), progress, false);
    }
    if let Some(expand) = &status.expand
        && expand.state == RunState::Running
    {
        let progress = since(expand.start_time, expand.reflowed, expand.to_reflow);
        push(format!("Expansion of {}", expand.vdev), progress, false);
    }
    works
}
