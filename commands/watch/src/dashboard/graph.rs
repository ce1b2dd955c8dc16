//! Graphs and pictures of space as SVG.
//!
//! Lines are drawn in a box of fixed units that the page stretches. Text is outside of it, in HTML,
//! so that it keeps its size on any screen. The label describes the picture, and the figures are in
//! the caption or in an adjacent table.

use maud::{Markup, html};

use super::history::{Series, Values};
use super::layout::zone;
use cenote_words::format::date::{Form, date};
use cenote_words::format::number::{nicebytes, nicenum};

/// Units of a graph: one for each step of time.
pub const STEPS: usize = 240;
const HEIGHT: f32 = 100.0;

/// The unit of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Operations per second.
    Operations,
    /// Bytes per second.
    BytesRate,
    /// Bytes.
    Bytes,
    /// Per cent: the graph's maximum is 100.
    Percent,
}

impl Unit {
    fn text(self, value: f32) -> String {
        let whole = if value.is_finite() {
            value.max(0.0)
        } else {
            0.0
        } as u64;
        match self {
            Self::Operations => format!("{}/s", nicenum(whole)),
            Self::BytesRate => format!("{}/s", nicebytes(whole)),
            Self::Bytes => nicebytes(whole),
            Self::Percent => format!("{whole}%"),
        }
    }
}

/// A line of a graph.
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    /// The legend.
    pub name: &'static str,
    /// The values.
    pub series: Series,
}

/// A graph.
pub struct Graph<'a> {
    /// Its heading.
    pub title: &'a str,
    /// Its lines, at most two.
    pub curves: &'a [Curve],
    /// The unit.
    pub unit: Unit,
    /// The labels of the start and the end of time.
    pub ends: (String, String),
    /// The start and the end in seconds since 1970.
    pub times: (u64, u64),
}

/// The text for each step, for the script that shows the values under the pointer.
fn values_in_words(graph: &Graph<'_>, steps: &[Option<Values>]) -> String {
    let (from, until) = graph.times;
    let width = u128::from(until.saturating_sub(from));
    let zone = zone();
    let words = steps.iter().enumerate().map(|(step, values)| {
        let Some(values) = values else {
            return String::new();
        };
        let begin = width * step as u128 / steps.len().max(1) as u128;
        let begin = from + u64::try_from(begin).unwrap_or(0);
        let known = graph.curves.iter().filter_map(|curve| {
            let value = values[curve.series as usize];
            let text = graph.unit.text(value);
            value.is_finite().then(|| format!("{} {text}", curve.name))
        });
        let known: Vec<String> = known.collect();
        format!("{}: {}", date(begin, Form::Minute, &zone), known.join(", "))
    });
    words.collect::<Vec<String>>().join("|")
}

/// The mean, the largest and the last value of a curve; `None` if there are none.
fn summary(steps: &[Option<Values>], curve: Curve) -> Option<[f32; 3]> {
    let values = steps
        .iter()
        .flatten()
        .map(|values| values[curve.series as usize]);
    let known: Vec<f32> = values.filter(|value| value.is_finite()).collect();
    let last = *known.last()?;
    let sum: f64 = known.iter().map(|value| f64::from(*value)).sum();
    let most = known.iter().copied().fold(0.0, f32::max);
    Some([(sum / known.len() as f64) as f32, most, last])
}

/// The path of a curve: a stroke for each run of steps with values.
fn path(steps: &[Option<Values>], curve: Curve, top: f32) -> String {
    let mut path = String::new();
    let mut is_open = false;
    for (step, values) in steps.iter().enumerate() {
        let value = values.map(|values| values[curve.series as usize]);
        let Some(value) = value.filter(|value| value.is_finite()) else {
            is_open = false;
            continue;
        };
        let y = HEIGHT - (value / top).clamp(0.0, 1.0) * HEIGHT;
        match is_open {
            true => path.push_str(&format!("V{y:.1}h1")),
            false => path.push_str(&format!("M{step} {y:.1}h1")),
        }
        is_open = true;
    }
    path
}

/// A graph of these steps.
pub fn graph(graph: &Graph<'_>, steps: &[Option<Values>]) -> Markup {
    let found: Vec<(Curve, [f32; 3])> = graph
        .curves
        .iter()
        .filter_map(|curve| Some((*curve, summary(steps, *curve)?)))
        .collect();
    let most = found
        .iter()
        .map(|(_, [_, most, _])| *most)
        .fold(0.0, f32::max);
    let top = match graph.unit {
        Unit::Percent => 100.0,
        _ if most > 0.0 => most,
        _ => 1.0,
    };
    let words = |(curve, [mean, most, last]): &(Curve, [f32; 3])| {
        let unit = graph.unit;
        format!(
            "{}: now {}, mean {}, most {}",
            curve.name,
            unit.text(*last),
            unit.text(*mean),
            unit.text(*most)
        )
    };
    let spoken: Vec<String> = found.iter().map(words).collect();
    let label = match spoken.is_empty() {
        true => format!("{}: no figures yet", graph.title),
        false => format!("{}. {}", graph.title, spoken.join("; ")),
    };
    html! {
        figure.graph {
            figcaption {
                strong { (graph.title) }
                @for (place, words) in spoken.iter().enumerate() {
                    span.key { span.swatch.(curve_class(place)) aria-hidden="true" {} (words) }
                }
                @if spoken.is_empty() { span.key { "no figures yet" } }
            }
            div.plot data-values=(values_in_words(graph, steps)) {
                span.top aria-hidden="true" { (graph.unit.text(top)) }
                svg viewBox={ "0 0 " (STEPS) " 100" } preserveAspectRatio="none" role="img"
                    aria-label=(label) {
                    @for y in [0, 50, 100] {
                        path.grid d={ "M0 " (y) "H" (STEPS) } {}
                    }
                    @for (place, (curve, _)) in found.iter().enumerate() {
                        path.(curve_class(place)) d=(path(steps, *curve, top)) {}
                    }
                    path.marker d="" {}
                }
            }
            div.ends aria-hidden="true" {
                span { (graph.ends.0) }
                span { (graph.ends.1) }
            }
            div.readout aria-hidden="true" {}
        }
    }
}

fn curve_class(place: usize) -> &'static str {
    match place {
        0 => "first",
        _ => "second",
    }
}

/// A progress bar. Its value must be in an adjacent text.
pub fn bar(part: u64, total: u64) -> Markup {
    let filled = match total {
        0 => 0.0,
        total => part.min(total) as f64 * 100.0 / total as f64,
    };
    stack(&[("own", filled)])
}

/// A bar of several parts, each in per cent of the bar's width.
pub fn stack(parts: &[(&'static str, f64)]) -> Markup {
    let mut places = Vec::new();
    let mut x = 0.0;
    for (class, width) in parts {
        places.push((*class, x, width.clamp(0.0, 100.0 - x)));
        x += width.clamp(0.0, 100.0 - x);
    }
    html! {
        svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
            rect.rest x="0" y="0" width="100" height="10" {}
            @for (class, x, width) in places {
                @if width > 0.0 {
                    rect.(class) x=(format!("{x:.2}")) y="0" width=(format!("{width:.2}"))
                        height="10" {}
                }
            }
        }
    }
}

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// From the left.
    pub x: f64,
    /// From the top.
    pub y: f64,
    /// To the right.
    pub width: f64,
    /// Down.
    pub height: f64,
}

/// Rectangles with areas in proportion to these sizes, the largest first, as square as rows allow
/// (squarified treemaps: rows are filled along the shorter side while that makes them squarer).
pub fn treemap(sizes: &[u64], area: Place) -> Vec<Place> {
    let total: f64 = sizes.iter().map(|size| *size as f64).sum();
    if total <= 0.0 {
        return Vec::new();
    }
    let scale = area.width * area.height / total;
    let areas: Vec<f64> = sizes.iter().map(|size| *size as f64 * scale).collect();
    let (mut places, mut rest, mut next) = (Vec::new(), area, 0);
    while next < areas.len() {
        let side = rest.width.min(rest.height).max(1e-9);
        let mut count = 1;
        while next + count < areas.len()
            && worst(&areas[next..=next + count], side) <= worst(&areas[next..next + count], side)
        {
            count += 1;
        }
        rest = lay(&areas[next..next + count], rest, &mut places);
        next += count;
    }
    places
}

/// How far the worst rectangle of a row is from a square.
fn worst(row: &[f64], side: f64) -> f64 {
    let sum: f64 = row.iter().sum();
    let depth = (sum / side).max(1e-12);
    let ratio = |area: &f64| {
        let length = (area / depth).max(1e-12);
        (length / depth).max(depth / length)
    };
    row.iter().map(ratio).fold(0.0, f64::max)
}

/// Places a row along the shorter side; returns the remaining area.
fn lay(row: &[f64], rest: Place, places: &mut Vec<Place>) -> Place {
    let sum: f64 = row.iter().sum();
    let is_column = rest.width >= rest.height;
    let side = rest.width.min(rest.height).max(1e-9);
    let depth = sum / side;
    let mut along = 0.0;
    for area in row {
        let length = if depth > 0.0 { area / depth } else { 0.0 };
        places.push(match is_column {
            true => Place {
                x: rest.x,
                y: rest.y + along,
                width: depth,
                height: length,
            },
            false => Place {
                x: rest.x + along,
                y: rest.y,
                width: length,
                height: depth,
            },
        });
        along += length;
    }
    match is_column {
        true => Place {
            x: rest.x + depth,
            width: (rest.width - depth).max(0.0),
            ..rest
        },
        false => Place {
            y: rest.y + depth,
            height: (rest.height - depth).max(0.0),
            ..rest
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READS: Curve = Curve {
        name: "reads",
        series: Series::Reads,
    };

    fn steps(values: &[f32]) -> Vec<Option<Values>> {
        let values = values.iter();
        let step = |value: &f32| value.is_finite().then_some([*value; 7]);
        values.map(step).collect()
    }

    #[test]
    fn gaps_stay_gaps() {
        let path = path(&steps(&[1.0, 2.0, f32::NAN, 4.0]), READS, 4.0);
        assert_eq!(path, "M0 75.0h1V50.0h1M3 0.0h1");
    }

    #[test]
    fn a_picture_says_in_words_what_it_shows() {
        let shown = Graph {
            title: "Operations <b>",
            curves: &[READS],
            unit: Unit::Operations,
            ends: ("12:00".to_owned(), "now".to_owned()),
            times: (1_800_000_000, 1_800_000_120),
        };
        let text = graph(&shown, &steps(&[1.0, 3.0])).into_string();
        assert!(
            text.contains("reads: now 3/s, mean 2/s, most 3/s"),
            "{text}"
        );
        assert!(
            text.contains("role=\"img\"") && !text.contains("<b>"),
            "{text}"
        );
        let words = values_in_words(&shown, &steps(&[1.0, f32::NAN, 3.0]));
        let words: Vec<&str> = words.split('|').collect();
        assert!(
            words[0].ends_with(": reads 1/s") && words[1].is_empty(),
            "{words:?}"
        );
        assert!(
            words[2].ends_with(": reads 3/s") && words[2] > words[0],
            "{words:?}"
        );
        let empty = graph(&shown, &steps(&[f32::NAN])).into_string();
        assert!(empty.contains("no figures yet"), "{empty}");
    }

    #[test]
    fn areas_are_in_proportion_and_fill_the_place() {
        let area = Place {
            x: 0.0,
            y: 0.0,
            width: 200.0,
            height: 100.0,
        };
        let sizes = [600, 600, 400, 300, 200, 200, 100, 0];
        let places = treemap(&sizes, area);
        assert_eq!(places.len(), sizes.len());
        let total: f64 = sizes.iter().map(|size| *size as f64).sum();
        for (place, size) in places.iter().zip(sizes) {
            let share = place.width * place.height / 20_000.0;
            assert!((share - size as f64 / total).abs() < 1e-6, "{place:?}");
            assert!(place.x >= -1e-6 && place.x + place.width <= 200.0 + 1e-6);
            assert!(place.y >= -1e-6 && place.y + place.height <= 100.0 + 1e-6);
        }
        assert!(treemap(&[0, 0], area).is_empty());
        assert_eq!(treemap(&[u64::MAX], area)[0], area);
    }

    #[test]
    fn bars_end_at_their_end() {
        let text = stack(&[("own", 70.0), ("snapshots", 70.0)]).into_string();
        assert!(
            text.contains("x=\"70.00\" y=\"0\" width=\"30.00\""),
            "{text}"
        );
        let empty = bar(5, 0).into_string();
        assert!(!empty.contains("class=\"own\""), "{empty}");
    }
}
