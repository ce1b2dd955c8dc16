//! Additional columns of `zpool iostat`: latencies (`-l`) and queues (`-q`).

use cenote_control::model::ClassRequests;

use super::requests::{Classes, READS, WRITES, Which, together};

/// What a column shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, or events each second.
    Number,
    /// A mean duration in nanoseconds.
    Time,
    /// Requests in a queue.
    Depth,
}

/// Columns under one title.
pub struct Group {
    /// The title.
    pub title: &'static str,
    /// The columns below it.
    pub columns: &'static [&'static str],
    /// What they show.
    pub unit: Unit,
}

const fn group(title: &'static str, columns: &'static [&'static str], unit: Unit) -> Group {
    Group {
        title,
        columns,
        unit,
    }
}

const DIRECTIONS: &[&str] = &["read", "write"];
const WAIT: &[&str] = &["wait"];
const DEPTHS: &[&str] = &["pend", "activ"];

/// The columns of every report.
pub const PLAIN: [Group; 3] = [
    group("capacity", &["alloc", "free"], Unit::Number),
    group("operations", DIRECTIONS, Unit::Number),
    group("bandwidth", DIRECTIONS, Unit::Number),
];

/// With `-l`.
pub const LATENCIES: [Group; 7] = [
    group("total_wait", DIRECTIONS, Unit::Time),
    group("disk_wait", DIRECTIONS, Unit::Time),
    group("syncq_wait", DIRECTIONS, Unit::Time),
    group("asyncq_wait", DIRECTIONS, Unit::Time),
    group("scrub", WAIT, Unit::Time),
    group("trim", WAIT, Unit::Time),
    group("rebuild", WAIT, Unit::Time),
];

/// With `-q`.
pub const QUEUES: [Group; 7] = [
    group("syncq_read", DEPTHS, Unit::Depth),
    group("syncq_write", DEPTHS, Unit::Depth),
    group("asyncq_read", DEPTHS, Unit::Depth),
    group("asyncq_write", DEPTHS, Unit::Depth),
    group("scrubq_read", DEPTHS, Unit::Depth),
    group("trimq_write", DEPTHS, Unit::Depth),
    group("rebuildq_write", DEPTHS, Unit::Depth),
];

/// Mean latencies in nanoseconds, in the order of the columns; `None` without requests.
pub fn latencies(classes: &Classes) -> Vec<Option<u64>> {
    let mean = |names: &[&str], which| {
        let found = together(classes, names, which);
        found.sum.checked_div(found.count())
    };
    vec![
        mean(READS, Which::Total),
        mean(WRITES, Which::Total),
        mean(READS, Which::Device),
        mean(WRITES, Which::Device),
        mean(&["sync_read"], Which::Queue),
        mean(&["sync_write"], Which::Queue),
        mean(&["async_read"], Which::Queue),
        mean(&["async_write"], Which::Queue),
        mean(&["scrub"], Which::Queue),
        mean(&["trim"], Which::Queue),
        // Rebuild reads count in the scrub class.
        None,
    ]
}

/// Pending and active requests, in the order of the columns.
pub fn queues(classes: &Classes) -> Vec<Option<u64>> {
    let names = [
        "sync_read",
        "sync_write",
        "async_read",
        "async_write",
        "scrub",
        "trim",
        // Rebuild reads count in the scrub class.
        "",
    ];
    let depths = |name: &&str| {
        let class = classes.get(*name);
        let depth = |of: fn(&ClassRequests) -> u64| Some(class.map_or(0, of));
        [depth(|class| class.waiting), depth(|class| class.active)]
    };
    names.iter().flat_map(depths).collect()
}

/// A title that spans several columns.
pub fn title(title: &str, columns: usize, width: usize) -> String {
    let room = columns * width + 2 * (columns - 1);
    let left = room.saturating_sub(title.len()).div_ceil(2);
    let right = room.saturating_sub(title.len() + left);
    format!("  {}{title}{}", " ".repeat(left), " ".repeat(right))
}

/// A duration as OpenZFS rounds it: `7ns`, `12us`, `3ms`, `1s`.
pub fn nicetime(nanoseconds: u64) -> String {
    const UNITS: [&str; 4] = ["ns", "us", "ms", "s"];
    let (mut number, mut unit) = (nanoseconds, 0);
    while number >= 1000 && unit + 1 < UNITS.len() {
        number /= 1000;
        unit += 1;
    }
    format!("{number}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::model::Distribution;

    #[test]
    fn durations_are_whole_units() {
        let expected = [
            (0, "0ns"),
            (999, "999ns"),
            (1023, "1us"),
            (137_438_953_471, "137s"),
        ];
        for (number, text) in expected {
            assert_eq!(nicetime(number), text);
        }
    }

    #[test]
    fn there_is_a_figure_for_each_column() {
        let counts = |groups: &[Group]| {
            groups
                .iter()
                .map(|group| group.columns.len())
                .sum::<usize>()
        };
        let mut classes = Classes::new();
        let queue = Distribution {
            counts: vec![0, 2],
            sum: 5,
        };
        let requests = ClassRequests {
            waiting: 4,
            queue,
            ..ClassRequests::default()
        };
        classes.insert("async_write".to_owned(), requests);
        let (times, depths) = (latencies(&classes), queues(&classes));
        assert_eq!(
            (times.len(), depths.len()),
            (counts(&LATENCIES), counts(&QUEUES))
        );
        assert_eq!((times[7], times[0]), (Some(2), None));
        assert_eq!((depths[6], depths[7]), (Some(4), Some(0)));
    }
}
