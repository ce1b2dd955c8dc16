//! Histograms of `zpool iostat`: latencies (`-w`) and request sizes (`-r`).

use cenote_control::model::Distribution;

use super::columns::{self, nicetime};
use super::requests::{Classes, READS, WRITES, Which, together};
use cenote_words::format::number::nicenum;

/// Rows of latencies: from 1 ns to 137 s.
const LATENCY_ROWS: usize = 37;
/// The smallest request: a sector.
const SIZE_FIRST: usize = 9;
/// The last row is 16 MiB, which also counts larger requests.
const SIZE_LAST: usize = 24;

/// Which histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `-w`.
    Latencies,
    /// `-r`.
    Sizes,
}

/// How to print numbers.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// No headers, TABs.
    pub script: bool,
    /// Not rounded.
    pub exact: bool,
}

/// A histogram with its title: one or two columns.
type Columns = (&'static str, Vec<(&'static str, Distribution)>);

fn latencies(classes: &Classes) -> Vec<Columns> {
    let of = |names: &[&str], which| together(classes, names, which);
    let pair = |reads: &[&str], writes: &[&str], which| {
        vec![("read", of(reads, which)), ("write", of(writes, which))]
    };
    let queue = |name: &'static str| vec![("wait", of(&[name], Which::Queue))];
    vec![
        ("total_wait", pair(READS, WRITES, Which::Total)),
        ("disk_wait", pair(READS, WRITES, Which::Device)),
        (
            "syncq_wait",
            pair(&["sync_read"], &["sync_write"], Which::Queue),
        ),
        (
            "asyncq_wait",
            pair(&["async_read"], &["async_write"], Which::Queue),
        ),
        ("scrub", queue("scrub")),
        ("trim", queue("trim")),
        // Rebuild reads count in the scrub class.
        ("rebuild", queue("")),
    ]
}

fn sizes(classes: &Classes) -> Vec<Columns> {
    let names = [
        ("sync_read", "sync_read"),
        ("sync_write", "sync_write"),
        ("async_read", "async_read"),
        ("async_write", "async_write"),
        ("scrub", "scrub"),
        ("trim", "trim"),
        ("rebuild", ""),
    ];
    let pair = |class: &str| {
        vec![
            ("ind", together(classes, &[class], Which::Single)),
            ("agg", together(classes, &[class], Which::Joined)),
        ]
    };
    names.map(|(title, class)| (title, pair(class))).to_vec()
}

/// The names of the rows, with the range of buckets in each: first and one after the last.
fn rows(form: Form, exact: bool) -> Vec<(String, usize, usize)> {
    let (first, last) = match form {
        Form::Latencies => (0, LATENCY_ROWS - 1),
        Form::Sizes => (SIZE_FIRST, SIZE_LAST),
    };
    let row = |bucket: usize| {
        let from = if bucket == first { 0 } else { bucket };
        let to = if bucket == last {
            usize::MAX
        } else {
            bucket + 1
        };
        let name = match form {
            Form::Latencies if exact => ((1_u64 << (bucket + 1)) - 1).to_string(),
            Form::Latencies => nicetime((1_u64 << (bucket + 1)) - 1),
            Form::Sizes if exact => (1_u64 << bucket).to_string(),
            Form::Sizes => nicenum(1 << bucket),
        };
        (name, from, to)
    };
    (first..=last).map(row).collect()
}

/// The histograms of one vdev.
pub fn text(name: &str, classes: &Classes, form: Form, style: Style) -> String {
    let (word, groups) = match form {
        Form::Latencies => ("latency", latencies(classes)),
        Form::Sizes => ("req_size", sizes(classes)),
    };
    let column = if style.exact { 10 } else { 5 };
    let width = name.chars().count().max(10);
    let count = groups.iter().map(|(_, columns)| columns.len()).sum();
    let dashes = format!(
        "{}{}\n",
        "-".repeat(width),
        format!("  {}", "-".repeat(column)).repeat(count)
    );
    let mut text = String::new();
    if !style.script {
        text.push_str(&titles(name, word, &groups, width, column));
        text.push_str(&dashes);
    }
    for (name, from, to) in rows(form, style.exact) {
        let cells = groups
            .iter()
            .flat_map(|(_, columns)| columns)
            .map(|(_, found)| {
                let counts = found.counts.iter().take(to).skip(from);
                let sum = counts.sum();
                if style.exact {
                    u64::to_string(&sum)
                } else {
                    nicenum(sum)
                }
            });
        if style.script {
            let cells: String = cells.map(|cell| format!("\t{cell}")).collect();
            text.push_str(&format!("{name}{cells}\n"));
        } else {
            let cells: String = cells.map(|cell| format!("  {cell:>column$}")).collect();
            text.push_str(&format!("{name:<width$}{cells}\n"));
        }
    }
    if !style.script {
        text.push_str(&dashes);
    }
    text
}

fn titles(name: &str, word: &str, groups: &[Columns], width: usize, column: usize) -> String {
    let mut text = format!("{name:<width$}");
    for (title, members) in groups {
        text.push_str(&columns::title(title, members.len(), column));
    }
    text.push_str(&format!("\n{word:<width$}"));
    for (name, _) in groups.iter().flat_map(|(_, columns)| columns) {
        text.push_str(&format!("  {name:>column$}"));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::model::ClassRequests;

    const PLAIN: Style = Style {
        script: false,
        exact: false,
    };

    fn classes() -> Classes {
        let mut counts = vec![0; 26];
        (counts[3], counts[9], counts[25]) = (1, 2, 4);
        let found = Distribution { counts, sum: 0 };
        let requests = ClassRequests {
            device: found.clone(),
            single_sizes: found,
            ..ClassRequests::default()
        };
        Classes::from([("sync_read".to_owned(), requests)])
    }

    #[test]
    fn latencies_have_openzfs_s_rows() {
        let text = text("tank", &classes(), Form::Latencies, PLAIN);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("tank         total_wait     disk_wait  "),
            "{text}"
        );
        assert!(
            lines[1].starts_with("latency      read  write   read  write"),
            "{text}"
        );
        assert_eq!(lines.len(), 2 + 1 + 37 + 1);
        assert!(
            lines[3].starts_with("1ns ") && lines[39].starts_with("137s "),
            "{text}"
        );
        let cells: Vec<&str> = lines[6].split_whitespace().collect();
        assert_eq!(cells[..5], ["15ns", "0", "0", "1", "0"]);
    }

    #[test]
    fn sizes_end_at_16_mib_which_counts_what_is_larger() {
        let text = text("tank", &classes(), Form::Sizes, PLAIN);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip(3)
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows[0][..3], ["512", "3", "0"], "with what is smaller");
        assert_eq!(rows[15][..3], ["16M", "4", "0"]);
        let script = Style {
            script: true,
            exact: true,
        };
        let script = super::text("tank", &classes(), Form::Sizes, script);
        assert!(script.starts_with("512\t3\t0\t"), "{script}");
    }
}
