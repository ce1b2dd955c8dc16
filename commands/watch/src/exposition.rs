//! Prometheus' text format (version 0.0.4).
//!
//! Numbers are written exactly, in decimal. Floating point would lose the last digits of large
//! counters.

use cenote_control::model::{Distribution, MetricFamily, MetricKind, MetricSeries, MetricValue};

/// The content type of this format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Buckets of durations below this one (1 µs) are merged, because nothing here is faster.
const DURATION_FIRST: usize = 9;
/// The first bucket of sizes that is shown separately: a sector.
const SIZE_FIRST: usize = 8;

/// All families.
pub fn text(families: &[MetricFamily]) -> String {
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.series.is_empty()) {
        let name = &family.name;
        let kind = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Durations | MetricKind::Sizes => "histogram",
            MetricKind::Untyped => "untyped",
        };
        let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        for series in &family.series {
            push_series(&mut text, family, series);
        }
    }
    text
}

fn push_series(text: &mut String, family: &MetricFamily, series: &MetricSeries) {
    let name = &family.name;
    let pairs = family.labels.iter().zip(&series.labels);
    let labels: Vec<String> = pairs
        .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
        .collect();
    match &series.value {
        MetricValue::Number(number) => {
            text.push_str(&format!("{name}{} {number}\n", braced(&labels, None)));
        }
        MetricValue::Billionths(number) => {
            let number = decimal(u128::from(*number));
            text.push_str(&format!("{name}{} {number}\n", braced(&labels, None)));
        }
        MetricValue::Distribution(distribution) => {
            let of_durations = family.kind == MetricKind::Durations;
            push_histogram(text, name, &labels, distribution, of_durations);
        }
    }
}

fn push_histogram(
    text: &mut String,
    name: &str,
    labels: &[String],
    distribution: &Distribution,
    of_durations: bool,
) {
    let first = if of_durations {
        DURATION_FIRST
    } else {
        SIZE_FIRST
    };
    let (mut sum, total) = (0_u64, distribution.count());
    // Buckets end just below a power of two, which belongs to the next bucket. So the bound is this
    // bucket's largest value.
    for (bucket, count) in distribution.counts.iter().enumerate() {
        sum += count;
        if bucket < first {
            continue;
        }
        let bound = (1_u128 << (bucket + 1)) - 1;
        let bound = match of_durations {
            true => decimal(bound),
            false => bound.to_string(),
        };
        let labels = braced(labels, Some(&bound));
        text.push_str(&format!("{name}_bucket{labels} {sum}\n"));
    }
    let all = braced(labels, Some("+Inf"));
    text.push_str(&format!("{name}_bucket{all} {total}\n"));
    let value = match of_durations {
        true => decimal(u128::from(distribution.sum)),
        false => distribution.sum.to_string(),
    };
    let labels = braced(labels, None);
    text.push_str(&format!(
        "{name}_sum{labels} {value}\n{name}_count{labels} {total}\n"
    ));
}

fn braced(labels: &[String], bound: Option<&str>) -> String {
    let bound = bound.map(|bound| format!("le=\"{bound}\""));
    let all: Vec<&str> = labels.iter().chain(&bound).map(String::as_str).collect();
    match all.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", all.join(",")),
    }
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

/// Billionths as a decimal number without trailing zeros.
pub fn decimal(billionths: u128) -> String {
    let (whole, rest) = (billionths / 1_000_000_000, billionths % 1_000_000_000);
    if rest == 0 {
        return whole.to_string();
    }
    let rest = format!("{rest:09}");
    format!("{whole}.{}", rest.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(kind: MetricKind, value: MetricValue) -> MetricFamily {
        MetricFamily {
            name: "x_seconds".to_owned(),
            kind,
            help: "A \\ in help.".to_owned(),
            labels: vec!["pool".to_owned()],
            series: vec![MetricSeries {
                labels: vec!["a\"b\\c\nd".to_owned()],
                value,
            }],
        }
    }

    #[test]
    fn labels_and_help_are_escaped() {
        let gauge = family(MetricKind::Gauge, MetricValue::Billionths(1_500_000_000));
        let expected = concat!(
            "# HELP x_seconds A \\\\ in help.\n",
            "# TYPE x_seconds gauge\n",
            "x_seconds{pool=\"a\\\"b\\\\c\\nd\"} 1.5\n",
        );
        assert_eq!(text(std::slice::from_ref(&gauge)), expected);
        assert_eq!(text(&[gauge.without_series()]), "");
    }

    #[test]
    fn buckets_are_cumulative_and_end_with_all() {
        let mut counts = vec![0; 12];
        (counts[2], counts[9], counts[11]) = (1, 2, 4);
        let found = Distribution { counts, sum: 9000 };
        let histogram = family(MetricKind::Durations, MetricValue::Distribution(found));
        let text = text(&[histogram]);
        let values: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("x_seconds_"))
            .filter_map(|line| line.rsplit(' ').next())
            .collect();
        assert_eq!(values, ["3", "3", "7", "7", "0.000009", "7"]);
        assert!(text.contains("le=\"0.000001023\"} 3"), "{text}");
        assert!(text.contains("le=\"+Inf\"} 7"), "{text}");
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal(0), "0");
        assert_eq!(decimal(1), "0.000000001");
        assert_eq!(decimal(12_340_000_000), "12.34");
        assert_eq!(decimal(u128::from(u64::MAX)), "18446744073.709551615");
    }
}
