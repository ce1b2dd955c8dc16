//! The page `/metrics` for Prometheus.

use cenote_base::metrics::{Kind, Measure};

use super::exposition;
use super::kstat::Sources;
use super::others;

/// The number of answered requests.
pub static SCRAPES: Measure = Measure {
    name: "cenote_metrics_requests_total",
    kind: Kind::Counter,
    help: "Requests for /metrics and pages of the dashboard.",
    labels: &[],
};
/// The number of refused connections.
pub static TURNED_AWAY: Measure = Measure {
    name: "cenote_metrics_turned_away_total",
    kind: Kind::Counter,
    help: "Connections for /metrics and the dashboard that were refused: too many were open.",
    labels: &[],
};

/// Measurements of the endpoint itself, for the table of all.
pub static MEASURES: [&Measure; 2] = [&SCRAPES, &TURNED_AWAY];

/// The whole page: our names, then those of other exporters.
pub fn all(sources: &Sources) -> String {
    let figures = &sources.figures;
    let mut text = exposition::text(figures.families());
    text.push_str(&exposition::text(&others::of_zfs_exporter(figures)));
    let tree = sources.tree();
    text.push_str(&exposition::text(&others::of_node_exporter(figures, &tree)));
    text
}
