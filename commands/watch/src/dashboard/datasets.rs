//! The datasets of a pool: a picture of their space, and a table with their cache hits.

use std::collections::HashMap;

use cenote_control::model::{
    ControlError, Dataset, DatasetKind, Depth, KindSet, Part, PropertySelection, Request, Response,
};
use maud::{Markup, html};

use super::super::figures::Figures;
use super::graph::{Place, stack, treemap};
use super::layout::{encoded, field, number, pool_path, table};
use super::recorder::Asker;
use cenote_words::context::mismatch;
use cenote_words::format::number::{counted, nicebytes, ratio};

/// Datasets per page.
const PAGE: usize = 200;
/// Rectangles in the picture; the last one is for all remaining datasets.
const PLACES_MAX: usize = 40;

const PROPERTIES: [&str; 9] = [
    "used",
    "available",
    "referenced",
    "usedbydataset",
    "usedbysnapshots",
    "usedbychildren",
    "usedbyrefreservation",
    "compressratio",
    "quota",
];

fn datasets(pool: &str, asker: &Asker<'_>) -> Result<Vec<Dataset>, ControlError> {
    let request = Request::DatasetList {
        roots: vec![pool.to_owned()],
        depth: Depth::All,
        kinds: KindSet::HEADS,
        properties: PropertySelection::Named(PROPERTIES.map(str::to_owned).to_vec()),
    };
    let mut rows = Vec::new();
    let answer = asker.ask(request, |part| {
        if let Part::Datasets(more) = part {
            rows.extend(more);
        }
    })?;
    match answer {
        Response::Failures { failures, .. } => match failures.into_iter().next() {
            Some((_, error)) if rows.is_empty() => Err(error),
            _ => Ok(rows),
        },
        Response::Done => Ok(rows),
        _ => Err(mismatch()),
    }
}

/// A dataset's use of the cache since the pool was imported.
#[derive(Clone, Copy, Debug, Default)]
struct Cached {
    bytes: u64,
    /// Lookups of its readers, and how many of them were hits.
    lookups: u64,
    hits: u64,
}

/// The cache use of each dataset, by name.
fn cached(pool: &str, asker: &Asker<'_>) -> Result<HashMap<String, Cached>, ControlError> {
    let names = vec!["cenote_dataset_cache_".to_owned()];
    let mut figures = Figures::default();
    let answer = asker.ask(Request::Metrics { names }, |part| {
        if let Part::Metrics(families) = part {
            figures.add(families);
        }
    })?;
    match answer {
        Response::Done => Ok(cached_of(pool, &figures)),
        _ => Err(mismatch()),
    }
}

fn cached_of(pool: &str, figures: &Figures) -> HashMap<String, Cached> {
    let mut all: HashMap<String, Cached> = HashMap::new();
    for series in figures.series("cenote_dataset_cache_bytes", &[("pool", pool)]) {
        let one = all.entry(series.label("dataset").to_owned()).or_default();
        one.bytes = one.bytes.saturating_add(series.number());
    }
    let wanted = [("pool", pool), ("for", "demand")];
    for series in figures.series("cenote_dataset_cache_lookups_total", &wanted) {
        let one = all.entry(series.label("dataset").to_owned()).or_default();
        one.lookups = one.lookups.saturating_add(series.number());
        if series.label("outcome") == "hit" {
            one.hits = one.hits.saturating_add(series.number());
        }
    }
    all
}

fn bytes(row: &Dataset, name: &str) -> u64 {
    let value = row
        .property(name)
        .and_then(|property| property.value.number());
    value.unwrap_or(0)
}

/// The space used by a dataset itself, without its descendants.
fn own(row: &Dataset) -> u64 {
    ["usedbydataset", "usedbysnapshots", "usedbyrefreservation"]
        .map(|name| bytes(row, name))
        .iter()
        .fold(0, |sum, more| sum.saturating_add(*more))
}

/// The page.
pub fn page(pool: &str, query: Option<&str>, asker: &Asker<'_>) -> Result<Markup, ControlError> {
    let mut rows = datasets(pool, asker)?;
    let cached = cached(pool, asker)?;
    rows.sort_by_key(|row| (std::cmp::Reverse(own(row)), row.name.clone()));
    let wanted = query.and_then(|query| field(query, "page"));
    let wanted = wanted.and_then(|word| word.parse::<usize>().ok());
    let pages = rows.len().div_ceil(PAGE).max(1);
    let page = wanted.unwrap_or(1).clamp(1, pages);
    let shown: Vec<&Dataset> = rows.iter().skip((page - 1) * PAGE).take(PAGE).collect();
    Ok(html! {
        p { a href=(pool_path(pool)) { "Back to " (pool) } }
        (picture(pool, &rows))
        (rows_of(pool, &shown, &cached))
        @if pages > 1 {
            nav aria-label="Pages of the table" {
                ul {
                    @for place in 1..=pages {
                        li {
                            @if place == page {
                                a href={ "?page=" (place) } aria-current="page" { (place) }
                            } @else {
                                a href={ "?page=" (place) } { (place) }
                            }
                        }
                    }
                }
            }
        }
    })
}

/// A treemap of the space that datasets themselves use.
fn picture(pool: &str, rows: &[Dataset]) -> Markup {
    let mut sizes: Vec<(String, u64)> = rows
        .iter()
        .take(PLACES_MAX)
        .map(|row| (row.name.clone(), own(row)))
        .filter(|(_, size)| *size > 0)
        .collect();
    let rest = rows
        .iter()
        .skip(PLACES_MAX)
        .map(own)
        .fold(0, u64::saturating_add);
    if rest > 0 {
        let more = (rows.len() - PLACES_MAX) as u64;
        sizes.push((counted(more, "more dataset"), rest));
    }
    let area = Place {
        x: 1.0,
        y: 1.0,
        width: 998.0,
        height: 298.0,
    };
    let numbers: Vec<u64> = sizes.iter().map(|(_, size)| *size).collect();
    let places = treemap(&numbers, area);
    html! {
        figure {
            figcaption {
                strong { "Space by dataset" } " Data, snapshots and reservations of each dataset, \
                 without those below it. The table has the figures."
            }
            svg.map viewBox="0 0 1000 300" role="img"
                aria-label={ "Space of the datasets of " (pool) ", the largest first" } {
                @for ((name, size), place) in sizes.iter().zip(&places) {
                    @let text = format!("{name}: {}", nicebytes(*size));
                    g {
                        title { (text) }
                        rect x=(format!("{:.1}", place.x)) y=(format!("{:.1}", place.y))
                            width=(format!("{:.1}", place.width))
                            height=(format!("{:.1}", place.height)) {}
                        @if fits(&text, place) {
                            text x=(format!("{:.1}", place.x + 6.0))
                                y=(format!("{:.1}", place.y + 20.0)) { (text) }
                        }
                    }
                }
            }
        }
    }
}

/// Whether a text of 15 units height fits: a character is about 9 units wide.
fn fits(text: &str, place: &Place) -> bool {
    place.height > 28.0 && text.chars().count() as f64 * 9.0 < place.width - 12.0
}

fn rows_of(pool: &str, rows: &[&Dataset], cached: &HashMap<String, Cached>) -> Markup {
    let most = rows
        .iter()
        .map(|row| bytes(row, "used"))
        .max()
        .unwrap_or(0)
        .max(1);
    let share = |row: &Dataset, name: &str| bytes(row, name) as f64 * 100.0 / most as f64;
    let of = |row: &Dataset| cached.get(&row.name).copied().unwrap_or_default();
    let body = html! {
        @for row in rows {
            tr id={ "dataset-" (encoded(&row.name)) } {
                th scope="row" {
                    (row.name)
                    @if row.kind == DatasetKind::Volume { span.faint { " volume" } }
                }
                td {
                    (stack(&[
                        ("own", share(row, "usedbydataset")),
                        ("snapshots", share(row, "usedbysnapshots")),
                        ("reserved", share(row, "usedbyrefreservation")),
                    ]))
                }
                (number(&nicebytes(bytes(row, "used"))))
                (number(&nicebytes(bytes(row, "usedbydataset"))))
                (number(&nicebytes(bytes(row, "usedbysnapshots"))))
                (number(&nicebytes(bytes(row, "usedbychildren"))))
                (number(&nicebytes(bytes(row, "available"))))
                td.number {
                    @match bytes(row, "quota") { 0 => "none", quota => (nicebytes(quota)) }
                }
                (number(&format!("{}x", ratio(bytes(row, "compressratio")))))
                (number(&nicebytes(of(row).bytes)))
                td.number {
                    @match of(row).hits.saturating_mul(100).checked_div(of(row).lookups) {
                        Some(hits) => { (hits) "%" },
                        None => "no lookups",
                    }
                }
            }
        }
    };
    let heads = [
        ("Dataset", false),
        ("Share", false),
        ("Used", true),
        ("Data", true),
        ("Snapshots", true),
        ("Below", true),
        ("Available", true),
        ("Quota", true),
        ("Compression", true),
        ("Cached", true),
        ("Found in memory", true),
    ];
    html! {
        p aria-hidden="true" {
            span.key { span.swatch.first {} "data " }
            span.key { span.swatch.second {} "snapshots " }
            span.key { span.swatch.third {} "reservation" }
        }
        p.faint {
            "Cached: memory of the blocks that the dataset's readers and writers brought. Found in \
             memory: of what its readers looked up since the pool was imported."
        }
        (table(&format!("Datasets of {pool}, the largest first"), &heads, body))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::testing::number as sample;
    use super::*;
    use cenote_control::model::Property;

    fn row(name: &str, own: u64) -> Dataset {
        Dataset {
            name: name.to_owned(),
            kind: DatasetKind::Filesystem,
            create_txg: 1,
            properties: vec![
                Property::read_only("used", own * 2),
                Property::read_only("usedbydataset", own),
            ],
        }
    }

    #[test]
    fn the_picture_has_the_largest_and_one_for_the_rest() {
        let rows: Vec<Dataset> = (0..PLACES_MAX as u64 + 9)
            .map(|place| row(&format!("tank/<{place}>"), 1 << 20))
            .collect();
        let text = picture("tank", &rows).into_string();
        assert_eq!(text.matches("<rect").count(), PLACES_MAX + 1);
        assert!(text.contains("9 more datasets: 9M"), "{text}");
        assert!(
            text.contains("tank/&lt;0&gt;: 1M") && !text.contains("<0>"),
            "{text}"
        );
        let empty = picture("tank", &[row("tank", 0)]).into_string();
        assert!(!empty.contains("<rect"), "{empty}");
    }

    #[test]
    fn rows_have_their_figures() {
        let (one, other) = (row("tank", 3 << 20), row("tank/a", 1 << 20));
        let mut figures = Figures::default();
        let tank = [("pool", "tank"), ("dataset", "tank/a")];
        for (kind, bytes) in [("data", 2 << 20), ("metadata", 5 << 20)] {
            let labels = [tank[0], tank[1], ("kind", kind)];
            figures.add(vec![sample("cenote_dataset_cache_bytes", &labels, bytes)]);
        }
        for (purpose, outcome, count) in [
            ("demand", "hit", 3),
            ("demand", "miss", 1),
            ("prefetch", "miss", 90),
        ] {
            let labels = [tank[0], tank[1], ("for", purpose), ("outcome", outcome)];
            let name = "cenote_dataset_cache_lookups_total";
            figures.add(vec![sample(name, &labels, count)]);
        }
        let cached = cached_of("tank", &figures);
        let text = rows_of("tank", &[&one, &other], &cached).into_string();
        assert!(
            text.contains(">7M</td><td class=\"number\">75%</td>"),
            "{text}"
        );
        assert!(text.contains("no lookups"), "{text}");
        assert!(text.contains("<td class=\"number\">6M</td>"), "{text}");
        assert!(text.contains("width=\"50.00\""), "{text}");
    }
}
