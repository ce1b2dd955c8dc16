//! The datasets of a pool: their space as a picture and as a table.

use cenote_control::model::{
    ControlError, Dataset, DatasetKind, Depth, KindSet, Part, PropertySelection, Request, Response,
};
use maud::{Markup, html};

use super::graph::{Place, stack, treemap};
use super::layout::{encoded, field, number, pool_path, table};
use super::recorder::Asker;
use crate::context::mismatch;
use crate::format::number::{nicebytes, ratio};

/// Datasets on a page.
const PAGE: usize = 200;
/// Rectangles of the picture; the rest is one.
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

fn bytes(row: &Dataset, name: &str) -> u64 {
    let value = row
        .property(name)
        .and_then(|property| property.value.number());
    value.unwrap_or(0)
}

/// What a dataset takes itself, without those below it.
fn own(row: &Dataset) -> u64 {
    ["usedbydataset", "usedbysnapshots", "usedbyrefreservation"]
        .map(|name| bytes(row, name))
        .iter()
        .fold(0, |sum, more| sum.saturating_add(*more))
}

/// The page.
pub fn page(pool: &str, query: Option<&str>, asker: &Asker<'_>) -> Result<Markup, ControlError> {
    let mut rows = datasets(pool, asker)?;
    rows.sort_by_key(|row| (std::cmp::Reverse(own(row)), row.name.clone()));
    let wanted = query.and_then(|query| field(query, "page"));
    let wanted = wanted.and_then(|word| word.parse::<usize>().ok());
    let pages = rows.len().div_ceil(PAGE).max(1);
    let page = wanted.unwrap_or(1).clamp(1, pages);
    let shown: Vec<&Dataset> = rows.iter().skip((page - 1) * PAGE).take(PAGE).collect();
    Ok(html! {
        p { a href=(pool_path(pool)) { "Back to " (pool) } }
        (picture(pool, &rows))
        (rows_of(pool, &shown))
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

/// A treemap of what datasets take themselves.
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
        sizes.push((format!("{} more datasets", rows.len() - PLACES_MAX), rest));
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

/// Whether a text of 15 units finds room: a character takes some 9 of them.
fn fits(text: &str, place: &Place) -> bool {
    place.height > 28.0 && text.chars().count() as f64 * 9.0 < place.width - 12.0
}

fn rows_of(pool: &str, rows: &[&Dataset]) -> Markup {
    let most = rows
        .iter()
        .map(|row| bytes(row, "used"))
        .max()
        .unwrap_or(0)
        .max(1);
    let share = |row: &Dataset, name: &str| bytes(row, name) as f64 * 100.0 / most as f64;
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
    ];
    html! {
        p aria-hidden="true" {
            span.key { span.swatch.first {} "data " }
            span.key { span.swatch.second {} "snapshots " }
            span.key { span.swatch.third {} "reservation" }
        }
        (table(&format!("Datasets of {pool}, the largest first"), &heads, body))
    }
}

#[cfg(test)]
mod tests {
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
        let text = rows_of("tank", &[&one, &other]).into_string();
        assert!(text.contains("<td class=\"number\">6M</td>"), "{text}");
        assert!(text.contains("width=\"50.00\""), "{text}");
    }
}
