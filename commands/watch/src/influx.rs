//! InfluxDB's line protocol, with the measurements and fields of `zpool_influxdb`.
//!
//! Each pool has lines for the whole pool (`vdev=root`) and for each vdev
//! (`vdev=root/mirror-0/disk-1`; a leaf also has its `path`). The figures of a combination are the
//! sums over its devices.

use cenote_control::model::{Distribution, PoolStatus, Vdev, VdevKind, VdevNaming};

use super::exposition::decimal;
use super::figures::Figures;

/// The options of the output.
#[derive(Clone, Debug, Default)]
pub struct Form {
    /// Additional tags of each line, as the user gave them.
    pub tags: Option<String>,
    /// Whether buckets are cumulative.
    pub sums_buckets: bool,
    /// Whether to print histograms.
    pub has_histograms: bool,
}

/// Classes of requests with the protocol's words, and whether they read.
const CLASSES: [(&str, &str, bool); 7] = [
    ("sync_read", "sync_read", true),
    ("sync_write", "sync_write", false),
    ("async_read", "async_read", true),
    ("async_write", "async_write", false),
    ("scrub", "scrub", true),
    ("trim", "trim", false),
    ("initializing", "initializing", false),
];
/// The protocol's words for the queues of these classes.
const QUEUES: [(&str, &str); 6] = [
    ("sync_read", "sync_r"),
    ("sync_write", "sync_w"),
    ("async_read", "async_r"),
    ("async_write", "async_w"),
    ("scrub", "async_scrub"),
    ("trim", "trim_w"),
];

/// The subject of a line: a vdev and the leaves below it. For the root these are all leaves.
#[derive(Default)]
struct Place {
    /// The tag `vdev`.
    vdev: String,
    /// The tag `path`, of a leaf.
    path: Option<String>,
    /// The guids of the leaves; empty for the whole pool.
    leaves: Vec<String>,
}

/// Lines of one pool.
struct Lines<'a> {
    figures: &'a Figures,
    pool: &'a str,
    form: &'a Form,
    place: Place,
    text: String,
}

/// All lines of a pool.
pub fn lines(figures: &Figures, status: &PoolStatus, form: &Form) -> String {
    let mut lines = Lines {
        figures,
        pool: &status.name,
        form,
        place: Place {
            vdev: "root".to_owned(),
            ..Place::default()
        },
        text: String::new(),
    };
    lines.stats();
    lines.scan();
    lines.activity();
    let below = status.vdevs.root.children.iter().chain(&status.vdevs.cache);
    let mut stack: Vec<(String, &Vdev)> = below.map(|vdev| ("root".to_owned(), vdev)).collect();
    stack.reverse();
    while let Some((above, vdev)) = stack.pop() {
        if vdev.kind == VdevKind::Hole {
            continue;
        }
        let place = place_of(&above, vdev);
        let children = vdev.children.iter().rev();
        stack.extend(children.map(|child| (place.vdev.clone(), child)));
        lines.place = place;
        lines.vdev_stats(vdev);
        lines.activity();
    }
    lines.text
}

/// A vdev below another one.
fn place_of(above: &str, vdev: &Vdev) -> Place {
    let is_leaf = vdev.kind.is_leaf();
    let name = match is_leaf {
        true => format!("{}-{}", vdev.kind.word(), vdev.id),
        false => vdev.name(VdevNaming::default()),
    };
    let (mut leaves, mut stack) = (Vec::new(), vec![vdev]);
    while let Some(vdev) = stack.pop() {
        if vdev.kind.is_leaf() {
            leaves.push(vdev.guid.to_string());
        }
        stack.extend(&vdev.children);
    }
    // A combination without leaves has no figures; 0 matches no guid.
    if leaves.is_empty() {
        leaves.push("0".to_owned());
    }
    Place {
        vdev: format!("{above}/{name}"),
        path: vdev.path.clone().filter(|_| is_leaf),
        leaves,
    }
}

/// Escapes a tag's value: these characters would end it.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    for character in value.chars() {
        if matches!(character, ',' | '=' | ' ' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    text
}

impl Lines<'_> {
    fn sum(&self, name: &str, more: &[(&str, &str)]) -> u64 {
        let wanted = [("pool", self.pool)];
        let wanted: Vec<(&str, &str)> = wanted.iter().chain(more).copied().collect();
        self.figures.sum(name, &wanted)
    }

    /// The labels of each leaf of the subject, with these in addition.
    fn of_leaves<'b>(&'b self, more: &[(&'b str, &'b str)]) -> Vec<Vec<(&'b str, &'b str)>> {
        let wanted: Vec<(&str, &str)> = [("pool", self.pool)].iter().chain(more).copied().collect();
        if self.place.leaves.is_empty() {
            return vec![wanted];
        }
        let with = |guid: &'b String| {
            let guid = [("guid", guid.as_str())];
            wanted.iter().copied().chain(guid).collect()
        };
        self.place.leaves.iter().map(with).collect()
    }

    /// The sum over these leaves.
    fn leaf_sum(&self, name: &str, more: &[(&str, &str)]) -> u64 {
        let wanted = self.of_leaves(more);
        let sums = wanted.iter().map(|wanted| self.figures.sum(name, wanted));
        sums.fold(0, u64::saturating_add)
    }

    fn distribution(&self, name: &str, more: &[(&str, &str)]) -> Distribution {
        let mut sum = Distribution::default();
        for wanted in self.of_leaves(more) {
            sum.add(&self.figures.distribution(name, &wanted));
        }
        sum
    }

    /// Queues and histograms of the subject.
    fn activity(&mut self) {
        self.queues();
        if self.form.has_histograms {
            self.latencies();
            self.sizes();
        }
    }

    /// Counters of a vdev below the root.
    fn vdev_stats(&mut self, vdev: &Vdev) {
        let (counters, space) = (&vdev.counters, &vdev.space);
        let fields = [
            ("alloc", space.allocated),
            ("free", space.total.saturating_sub(space.allocated)),
            ("size", space.total),
            ("read_bytes", counters.read_bytes),
            ("read_errors", counters.errors_ever[0]),
            ("read_ops", counters.read_operations),
            ("write_bytes", counters.write_bytes),
            ("write_errors", counters.errors_ever[1]),
            ("write_ops", counters.write_operations),
            ("checksum_errors", counters.errors_ever[2]),
            ("fragmentation", space.fragmentation.unwrap_or(0)),
        ];
        let fields = fields.map(|(name, number)| (name.to_owned(), number));
        self.push_of_vdev("zpool_stats", &[("state", vdev.state.word())], &fields);
    }

    /// Appends a line with the subject's tags after these.
    fn push_of_vdev(&mut self, measurement: &str, tags: &[(&str, &str)], fields: &[(String, u64)]) {
        let place = std::mem::take(&mut self.place);
        let path = place.path.iter().map(|path| ("path", path.as_str()));
        let own = path.chain([("vdev", place.vdev.as_str())]);
        let tags: Vec<(&str, &str)> = tags.iter().copied().chain(own).collect();
        self.push(measurement, &tags, fields);
        self.place = place;
    }

    fn push(&mut self, measurement: &str, tags: &[(&str, &str)], fields: &[(String, u64)]) {
        let mut line = measurement.to_owned();
        if let Some(more) = &self.form.tags {
            line.push_str(&format!(",{more}"));
        }
        line.push_str(&format!(",name={}", escaped(self.pool)));
        for (tag, value) in tags {
            line.push_str(&format!(",{tag}={}", escaped(value)));
        }
        let fields = fields
            .iter()
            .map(|(name, number)| format!("{name}={number}i"));
        let fields: Vec<String> = fields.collect();
        self.text
            .push_str(&format!("{line} {}\n", fields.join(",")));
    }

    fn state(&self) -> String {
        let wanted = [("pool", self.pool)];
        let mut states = self.figures.series("cenote_pool_state", &wanted);
        let state = states.find(|state| state.number() == 1);
        state.map_or_else(String::new, |state| {
            state.label("state").to_ascii_uppercase()
        })
    }

    fn stats(&mut self) {
        // I/O counts are those of the leaves; errors count where they were detected.
        let of = |name: &str, label: &str, word: &str| self.sum(name, &[(label, word)]);
        let fragmentation = self.sum("cenote_pool_fragmentation_ratio", &[]) / 10_000_000;
        let fields = [
            ("alloc", self.sum("cenote_pool_allocated_bytes", &[])),
            ("free", self.sum("cenote_pool_free_bytes", &[])),
            ("size", self.sum("cenote_pool_size_bytes", &[])),
            (
                "read_bytes",
                self.sum("cenote_pool_block_bytes_read_total", &[]),
            ),
            (
                "read_errors",
                of("cenote_vdev_errors_total", "error", "read"),
            ),
            ("read_ops", self.sum("cenote_pool_blocks_read_total", &[])),
            (
                "write_bytes",
                self.sum("cenote_pool_block_bytes_written_total", &[]),
            ),
            (
                "write_errors",
                of("cenote_vdev_errors_total", "error", "write"),
            ),
            (
                "write_ops",
                self.sum("cenote_pool_blocks_written_total", &[]),
            ),
            (
                "checksum_errors",
                of("cenote_vdev_errors_total", "error", "checksum"),
            ),
            ("fragmentation", fragmentation),
        ];
        let fields = fields.map(|(name, number)| (name.to_owned(), number));
        let state = self.state();
        self.push_of_vdev("zpool_stats", &[("state", &state)], &fields);
    }

    fn scan(&mut self) {
        let wanted = [("pool", self.pool)];
        let mut states = self.figures.series("cenote_scan_state", &wanted);
        let Some(found) = states.find(|state| state.number() == 1) else {
            return;
        };
        let (kind, state) = (found.label("kind"), found.label("state"));
        let state = if state == "running" {
            "scanning"
        } else {
            state
        };
        let sum = |name: &str| self.sum(&format!("cenote_scan_{name}"), &[]);
        let fields = [
            ("end_ts", sum("end_timestamp_seconds")),
            ("errors", sum("errors")),
            ("examined", sum("examined_bytes")),
            ("issued", sum("issued_bytes")),
            ("processed", sum("repaired_bytes")),
            ("rate", sum("rate_bytes_per_second")),
            ("start_ts", sum("start_timestamp_seconds")),
            ("to_examine", sum("total_bytes")),
        ];
        let fields = fields.map(|(name, number)| (name.to_owned(), number));
        let tags = [("function", kind), ("state", state)];
        self.push("zpool_scan_stats", &tags, &fields);
    }

    fn queues(&mut self) {
        let mut fields = Vec::new();
        for (state, word) in [("active", "active"), ("pending", "pend")] {
            for (class, queue) in QUEUES {
                let wanted = [("class", class), ("state", state)];
                let depth = self.leaf_sum("cenote_vdev_queue_depth", &wanted);
                fields.push((format!("{queue}_{word}_queue"), depth));
            }
        }
        self.push_of_vdev("zpool_vdev_queue", &[], &fields);
    }

    /// A histogram: its series are fields, and each bucket is a line.
    fn histogram(
        &mut self,
        measurement: &str,
        fields: &[(String, Distribution)],
        in_seconds: bool,
    ) {
        let used = fields.iter().map(|(_, found)| found.counts.len()).max();
        let mut sums = vec![0_u64; fields.len()];
        let bound = |bucket: usize| match in_seconds {
            true => decimal(1_u128 << (bucket + 1)),
            false => (1_u128 << (bucket + 1)).to_string(),
        };
        for bucket in 0..used.unwrap_or(0) {
            let mut row = Vec::new();
            for ((name, found), sum) in fields.iter().zip(&mut sums) {
                let count = found.counts.get(bucket).copied().unwrap_or(0);
                *sum = if self.form.sums_buckets {
                    *sum + count
                } else {
                    count
                };
                row.push((name.clone(), *sum));
            }
            self.push_of_vdev(measurement, &[("le", &bound(bucket))], &row);
        }
    }

    fn latencies(&mut self) {
        let mut fields = Vec::new();
        for (measure, word) in [("request", "total"), ("device", "disk")] {
            let name = format!("cenote_vdev_{measure}_seconds");
            for (direction, reads) in [("read", true), ("write", false)] {
                let mut sum = Distribution::default();
                for (class, ..) in CLASSES.iter().filter(|class| class.2 == reads) {
                    sum.add(&self.distribution(&name, &[("class", class)]));
                }
                fields.push((format!("{word}_{direction}"), sum));
            }
        }
        for (class, word, _) in CLASSES {
            let found = self.distribution("cenote_vdev_queue_seconds", &[("class", class)]);
            fields.push((word.to_owned(), found));
        }
        self.histogram("zpool_latency", &fields, true);
    }

    fn sizes(&mut self) {
        let mut fields = Vec::new();
        for (class, word, _) in CLASSES {
            for (blocks, suffix) in [("one", "ind"), ("several", "agg")] {
                let wanted = [("class", class), ("blocks", blocks)];
                let found = self.distribution("cenote_vdev_request_bytes", &wanted);
                fields.push((format!("{word}_{suffix}"), found));
            }
        }
        self.histogram("zpool_io_size", &fields, false);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::testing::{number, pool};
    use super::*;
    use std::collections::BTreeSet;

    use cenote_control::model::{MetricFamily, MetricKind, MetricSeries, MetricValue};

    fn figures() -> Figures {
        let family = |name: &str, labels: &[&str], values: &[&str], value| MetricFamily {
            name: name.to_owned(),
            kind: MetricKind::Gauge,
            help: String::new(),
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
            series: vec![MetricSeries {
                labels: values.iter().map(|&value| value.to_owned()).collect(),
                value,
            }],
        };
        let found = Distribution {
            counts: vec![0, 2, 3],
            sum: 20,
        };
        let labels = ["pool", "class"];
        let mut figures = Figures::default();
        figures.add(vec![
            family(
                "cenote_pool_state",
                &["pool", "state"],
                &["a b", "online"],
                MetricValue::Number(1),
            ),
            family(
                "cenote_vdev_device_seconds",
                &labels,
                &["a b", "scrub"],
                MetricValue::Distribution(found),
            ),
        ]);
        figures
    }

    fn measurements(text: &str) -> BTreeSet<&str> {
        let lines = text.lines();
        lines.filter_map(|line| line.split(',').next()).collect()
    }

    #[test]
    fn lines_are_escaped_and_histograms_have_a_line_for_each_bucket() {
        let form = Form {
            tags: Some("host=h".to_owned()),
            sums_buckets: true,
            has_histograms: true,
        };
        let mut status = pool("a b");
        status.vdevs.root.children.clear();
        let text = lines(&figures(), &status, &form);
        assert!(text.starts_with("zpool_stats,host=h,name=a\\ b,state=ONLINE,vdev=root alloc=0i,"));
        let latencies: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("zpool_latency"))
            .collect();
        assert_eq!(latencies.len(), 3, "{text}");
        assert!(latencies[2].contains("le=0.000000008") && latencies[2].contains("disk_read=5i"));
        assert!(latencies[1].contains("disk_read=2i") && latencies[1].contains("disk_write=0i"));
        let expected = ["zpool_latency", "zpool_stats", "zpool_vdev_queue"];
        assert_eq!(measurements(&text), BTreeSet::from(expected));
    }

    /// Previously, figures of vdevs were not printed at all.
    #[test]
    fn each_vdev_has_its_lines_and_a_mirror_those_of_its_disks() {
        let queue = |guid: &str, depth: u64| {
            let labels = [
                ("pool", "tank"),
                ("guid", guid),
                ("class", "sync_read"),
                ("state", "active"),
            ];
            number("cenote_vdev_queue_depth", &labels, depth)
        };
        let mut figures = Figures::default();
        figures.add(vec![queue("3", 2)]);
        figures.add(vec![queue("4", 5)]);
        let mut status = pool("tank");
        status.vdevs.root.children[0].children[1]
            .counters
            .read_bytes = 77;
        let text = lines(&figures, &status, &Form::default());
        let line = |beginning: &str| {
            let found = text.lines().find(|line| line.starts_with(beginning));
            found.unwrap_or_default()
        };
        let of = |vdev: &str| line(&format!("zpool_vdev_queue,name=tank,{vdev} "));
        assert!(of("vdev=root").contains("sync_r_active_queue=7i"), "{text}");
        assert!(
            of("vdev=root/mirror-0").contains("sync_r_active_queue=7i"),
            "{text}"
        );
        let disk = "path=/dev/sdb,vdev=root/mirror-0/disk-1";
        assert!(of(disk).contains("sync_r_active_queue=5i"), "{text}");
        let stats = line(&format!("zpool_stats,name=tank,state=ONLINE,{disk} "));
        assert!(stats.contains("read_bytes=77i"), "{text}");
    }
}
