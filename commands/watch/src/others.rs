//! Our measurements under the names of other exporters, for existing dashboards.
//!
//! * `zfs_pool_*` and `zfs_dataset_*` as in pdf/zfs_exporter;
//! * `node_zfs_*` as node_exporter derives them from the kstats: each number of a kstat is a
//!   separate metric.
//!
//! What the daemon does not measure has no series, so that a dashboard shows a gap instead of a
//! wrong zero.

use cenote_control::model::{MetricFamily, MetricKind, MetricSeries, MetricValue};

use super::figures::Figures;
use super::kstat::{Body, Data, Kstat};

/// Measurements that have another name there, but the same value.
const POOLS: [(&str, &str); 8] = [
    ("cenote_pool_allocated_bytes", "allocated_bytes"),
    ("cenote_pool_free_bytes", "free_bytes"),
    ("cenote_pool_size_bytes", "size_bytes"),
    ("cenote_pool_freeing_bytes", "freeing_bytes"),
    ("cenote_pool_leaked_bytes", "leaked_bytes"),
    ("cenote_pool_fragmentation_ratio", "fragmentation_ratio"),
    ("cenote_pool_deduplication_ratio", "deduplication_ratio"),
    ("cenote_pool_readonly", "readonly"),
];

/// The same for measurements of datasets.
const DATASETS: [(&str, &str); 7] = [
    ("cenote_dataset_used_bytes", "used_bytes"),
    ("cenote_dataset_available_bytes", "available_bytes"),
    ("cenote_dataset_referenced_bytes", "referenced_bytes"),
    ("cenote_dataset_written_bytes", "written_bytes"),
    ("cenote_dataset_logical_used_bytes", "logical_used_bytes"),
    ("cenote_dataset_quota_bytes", "quota_bytes"),
    (
        "cenote_dataset_used_by_dataset_bytes",
        "used_by_dataset_bytes",
    ),
];

/// Codes of a pool's health.
const HEALTH: [&str; 7] = [
    "online",
    "degraded",
    "faulted",
    "offline",
    "unavail",
    "removed",
    "suspended",
];

fn family(name: String, help: &str, labels: &[&str], kind: MetricKind) -> MetricFamily {
    MetricFamily {
        name,
        kind,
        help: help.to_owned(),
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
        series: Vec::new(),
    }
}

fn series(labels: &[&str], value: MetricValue) -> MetricSeries {
    MetricSeries {
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
        value,
    }
}

/// pdf/zfs_exporter's names.
pub fn of_zfs_exporter(figures: &Figures) -> Vec<MetricFamily> {
    let mut all = Vec::new();
    for (own, name) in POOLS {
        let name = format!("zfs_pool_{name}");
        let help = format!("As {own}, under the name of zfs_exporter.");
        let mut family = family(name, &help, &["pool"], MetricKind::Gauge);
        for found in figures.series(own, &[]) {
            let labels = [found.label("pool")];
            family.series.push(series(&labels, found.value().clone()));
        }
        all.push(family);
    }
    all.push(health(figures));
    all.extend(scrubs(figures));
    for (own, name) in DATASETS {
        let name = format!("zfs_dataset_{name}");
        let help = format!("As {own}, under the name of zfs_exporter.");
        let labels = ["name", "pool", "type"];
        let mut family = family(name, &help, &labels, MetricKind::Gauge);
        for found in figures.series(own, &[]) {
            let labels = ["dataset", "pool", "type"].map(|label| found.label(label));
            family.series.push(series(&labels, found.value().clone()));
        }
        all.push(family);
    }
    all
}

/// The state of a pool.
fn state<'a>(figures: &'a Figures, pool: &str) -> &'a str {
    let wanted = [("pool", pool)];
    let mut states = figures.series("cenote_pool_state", &wanted);
    let state = states.find(|state| state.number() == 1);
    state.map_or("", |state| state.label("state"))
}

fn health(figures: &Figures) -> MetricFamily {
    let help = "The state of the pool: 0 online, 1 degraded, 2 faulted, 3 offline, 4 unavail, \
                5 removed, 6 suspended.";
    let name = "zfs_pool_health".to_owned();
    let mut family = family(name, help, &["pool"], MetricKind::Gauge);
    for pool in figures.pools() {
        let state = state(figures, &pool);
        if let Some(code) = HEALTH.iter().position(|known| *known == state) {
            let value = MetricValue::Number(code as u64);
            family.series.push(series(&[&pool], value));
        }
    }
    family
}

/// The code of the state of the last scrub or resilver.
fn scrub_state(kind: &str, state: &str) -> u64 {
    match (kind, state) {
        ("resilver", "running" | "paused") => 5,
        ("resilver", _) => 6,
        (_, "running") => 1,
        (_, "finished") => 2,
        (_, "canceled") => 3,
        (_, "paused") => 4,
        _ => 0,
    }
}

fn scrubs(figures: &Figures) -> Vec<MetricFamily> {
    const NAMES: [(&str, &str); 8] = [
        (
            "state",
            "The last scrub or resilver: 0 none, 1 scrub runs, 2 scrub finished, 3 scrub \
             canceled, 4 scrub paused, 5 resilver runs, 6 resilver finished.",
        ),
        ("errors", "Blocks that it could not repair."),
        ("repaired_bytes", "Bytes that it repaired."),
        (
            "last_completed_timestamp_seconds",
            "When it finished, in seconds since 1970; 0 if it did not.",
        ),
        (
            "total_bytes",
            "Bytes that it has to look at; 0 unless it runs.",
        ),
        (
            "scanned_bytes",
            "Bytes that it has looked at; 0 unless it runs.",
        ),
        ("issued_bytes", "Bytes that it has read; 0 unless it runs."),
        (
            "rate_bytes_per_second",
            "Bytes that it reads each second; 0 unless it runs.",
        ),
    ];
    let mut all: Vec<MetricFamily> = NAMES
        .iter()
        .map(|(name, help)| {
            let name = format!("zfs_pool_scrub_{name}");
            family(name, help, &["pool"], MetricKind::Gauge)
        })
        .collect();
    for pool in figures.pools() {
        let numbers = scrub(figures, &pool);
        for (family, number) in all.iter_mut().zip(numbers) {
            let value = MetricValue::Number(number);
            family.series.push(series(&[&pool], value));
        }
    }
    all
}

/// The figures of a pool's last scan, in the order of the names above.
fn scrub(figures: &Figures, pool: &str) -> [u64; 8] {
    let wanted = [("pool", pool)];
    let mut states = figures.series("cenote_scan_state", &wanted);
    let Some(found) = states.find(|state| state.number() == 1) else {
        return [0; 8];
    };
    let (kind, state) = (found.label("kind"), found.label("state"));
    let sum = |name: &str| figures.sum(name, &wanted);
    let is_running = matches!(state, "running" | "paused");
    let while_running = |number: u64| if is_running { number } else { 0 };
    let issued = sum("cenote_scan_issued_bytes");
    let ended = match state {
        "finished" => sum("cenote_scan_end_timestamp_seconds"),
        _ => 0,
    };
    [
        scrub_state(kind, state),
        sum("cenote_scan_errors"),
        sum("cenote_scan_repaired_bytes"),
        ended,
        while_running(sum("cenote_scan_total_bytes")),
        while_running(sum("cenote_scan_examined_bytes")),
        while_running(issued),
        while_running(sum("cenote_scan_rate_bytes_per_second")),
    ]
}

/// node_exporter's names.
pub fn of_node_exporter(figures: &Figures, tree: &[Kstat]) -> Vec<MetricFamily> {
    const WHOLE: [(&str, &str); 5] = [
        ("arcstats", "arc"),
        ("dbufstats", "dbuf"),
        ("zil", "zil"),
        ("dmu_tx", "dmu_tx"),
        ("zfetchstats", "zfetch"),
    ];
    let mut all = Vec::new();
    for (kstat, subsystem) in WHOLE {
        let Some(Body::Named(rows)) = tree
            .iter()
            .find(|known| known.path == kstat)
            .map(|k| &k.body)
        else {
            continue;
        };
        for (name, data) in rows {
            let Data::Number(number) = data else { continue };
            let help = format!("kstat.zfs.misc.{kstat}.{name}");
            let name = format!("node_zfs_{subsystem}_{name}");
            let mut family = family(name, &help, &[], MetricKind::Untyped);
            family
                .series
                .push(series(&[], MetricValue::Number(*number)));
            all.push(family);
        }
    }
    all.extend(objsets(tree));
    let help = "kstat.zfs.misc.state";
    let name = "node_zfs_zpool_state".to_owned();
    let mut states = family(name, help, &["zpool", "state"], MetricKind::Gauge);
    for pool in figures.pools() {
        let now = state(figures, &pool);
        for known in HEALTH {
            let value = MetricValue::Number(u64::from(known == now));
            states.series.push(series(&[&pool, known], value));
        }
    }
    all.push(states);
    all
}

/// The I/O of programs on each dataset.
fn objsets(tree: &[Kstat]) -> Vec<MetricFamily> {
    let mut all: Vec<MetricFamily> = Vec::new();
    for kstat in tree {
        let (Some((pool, file)), Body::Named(rows)) = (kstat.path.split_once('/'), &kstat.body)
        else {
            continue;
        };
        let dataset = rows.iter().find_map(|(name, data)| match data {
            Data::Text(text) if name == "dataset_name" => Some(text.as_str()),
            _ => None,
        });
        let (true, Some(dataset)) = (file.starts_with("objset-"), dataset) else {
            continue;
        };
        for (name, data) in rows {
            let Data::Number(number) = data else { continue };
            let full = format!("node_zfs_zpool_dataset_{name}");
            let place = all.iter().position(|family| family.name == full);
            let place = place.unwrap_or_else(|| {
                let help = format!("kstat.zfs.misc.objset.{name}");
                let labels = ["zpool", "dataset"];
                all.push(family(full, &help, &labels, MetricKind::Untyped));
                all.len() - 1
            });
            let value = MetricValue::Number(*number);
            all[place].series.push(series(&[pool, dataset], value));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let mut figures = Figures::default();
        let number = MetricValue::Number;
        let mut info = family(
            "cenote_pool_info".to_owned(),
            "",
            &["pool"],
            MetricKind::Gauge,
        );
        info.series.push(series(&["tank"], number(1)));
        let labels = ["pool", "state"];
        let mut states = family(
            "cenote_pool_state".to_owned(),
            "",
            &labels,
            MetricKind::Gauge,
        );
        states.series.push(series(&["tank", "online"], number(0)));
        states.series.push(series(&["tank", "degraded"], number(1)));
        let labels = ["pool", "kind", "state"];
        let mut scan = family(
            "cenote_scan_state".to_owned(),
            "",
            &labels,
            MetricKind::Gauge,
        );
        scan.series
            .push(series(&["tank", "scrub", "running"], number(0)));
        scan.series
            .push(series(&["tank", "scrub", "paused"], number(1)));
        let labels = ["pool", "dataset", "type"];
        let name = "cenote_dataset_used_bytes".to_owned();
        let mut used = family(name, "", &labels, MetricKind::Gauge);
        let labels = ["tank", "tank/a", "filesystem"];
        used.series.push(series(&labels, number(77)));
        figures.add(vec![info, states, scan, used]);
        figures
    }

    #[test]
    fn states_become_the_codes_of_zfs_exporter() {
        let all = of_zfs_exporter(&figures());
        let of = |name: &str| {
            let family = all.iter().find(|family| family.name == name);
            family
                .map(|family| family.series.clone())
                .unwrap_or_default()
        };
        let one = |labels: &[&str], value| vec![series(labels, MetricValue::Number(value))];
        assert_eq!(of("zfs_pool_health"), one(&["tank"], 1));
        assert_eq!(of("zfs_pool_scrub_state"), one(&["tank"], 4));
        let labels = ["tank/a", "tank", "filesystem"];
        assert_eq!(of("zfs_dataset_used_bytes"), one(&labels, 77));
    }

    #[test]
    fn kstats_become_metrics_of_node_exporter() {
        let objset = Kstat {
            path: "tank/objset-0x36".to_owned(),
            body: Body::Named(vec![
                ("dataset_name".to_owned(), Data::Text("tank/a".to_owned())),
                ("reads".to_owned(), Data::Number(5)),
            ]),
        };
        let all = of_node_exporter(&figures(), &[objset]);
        let reads = &all[0];
        assert_eq!(reads.name, "node_zfs_zpool_dataset_reads");
        let expected = series(&["tank", "tank/a"], MetricValue::Number(5));
        assert_eq!(reads.series, [expected]);
        let states = all.last().expect("states");
        let degraded = series(&["tank", "degraded"], MetricValue::Number(1));
        assert!(states.series.contains(&degraded));
    }
}
