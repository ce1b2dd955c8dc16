//! `zpool iostat`: what pools and their devices do, per second.
//!
//! The first report is the mean since the import, later ones are of the time between two. Only
//! the plain columns exist: latencies and queues are not counted yet.

use cenote_control::model::{
    Counters, PoolRow, PropertySelection, Request, Response, Vdev, VdevNaming,
};
use std::collections::HashMap;

use super::names::{self, Schedule};
use super::vdev_rows::{Section, rows, shown_in_status};
use crate::context::{Context, Outcome, mismatch, usage};
use crate::format::number::nicenum;
use crate::getopt::Grammar;
use crate::texts::with_context;

/// The narrowest name column.
const NAME_WIDTH_MIN: usize = 10;
/// Reports without vdevs between two headers.
const HEADER_EVERY: u64 = 20;

struct Options {
    verbose: bool,
    script: bool,
    exact: bool,
    naming: VdevNaming,
}

impl Options {
    fn column_width(&self) -> usize {
        if self.exact { 15 } else { 5 }
    }
}

/// Counters of vdevs by guid.
type Before = HashMap<u64, Counters>;

/// A line of the table; `None` for what has no such figure.
struct Line {
    name: String,
    cells: [Option<u64>; 6],
}

/// `zpool iostat`.
pub fn run(arguments: &[String], context: &mut Context) -> Outcome {
    let mut parsed = Grammar::letters("c:lqrwT:ghHLnpPvy").parse(arguments)?;
    if parsed.has("h") {
        return usage("");
    }
    if let Some(kind) = ["c", "l", "q", "r", "w"]
        .iter()
        .find(|kind| parsed.has(kind))
    {
        context.complain(&format!(
            "'-{kind}' is not supported: these figures are not counted"
        ));
        return Ok(1);
    }
    let schedule = Schedule::take(&mut parsed)?;
    let options = Options {
        verbose: parsed.has("v"),
        script: parsed.has("H"),
        exact: parsed.has("p"),
        naming: names::naming(&parsed, context),
    };
    let (header_once, skip_first) = (parsed.has("n"), parsed.has("y"));
    let mut before = Before::new();
    let mut report = |context: &mut Context, round: u64| {
        let pools = match pools(&parsed.operands, context) {
            Ok(pools) => pools,
            Err(code) => return code,
        };
        let lines = if round == 0 && skip_first && schedule.repeats() {
            String::new()
        } else {
            let first = round == u64::from(skip_first && schedule.repeats());
            let again = options.verbose || round.is_multiple_of(HEADER_EVERY);
            let header = !options.script && (first || (again && !header_once));
            text(&pools, &before, &options, header)
        };
        context.print(&lines);
        before = pools.iter().flat_map(counters_of).collect();
        0
    };
    Ok(schedule.repeat(context, &mut report))
}

fn pools(operands: &[String], context: &mut Context) -> Result<Vec<PoolRow>, u8> {
    let request = Request::PoolList {
        pools: operands.to_vec(),
        properties: PropertySelection::Named(Vec::new()),
        vdevs: true,
    };
    let (pools, failures) = match context.ask(request) {
        Ok(Response::Pools { pools, failures }) => (pools, failures),
        Ok(_) => {
            context.complain(&with_context("cannot list pools", &mismatch()));
            return Err(1);
        }
        Err(error) => {
            context.complain(&with_context("cannot list pools", &error));
            return Err(1);
        }
    };
    if !failures.is_empty() {
        context.complain("Unable to parse pools/vdevs list.\n");
        return Err(1);
    }
    if pools.is_empty() {
        context.complain("no pools available");
        return Err(0);
    }
    Ok(pools)
}

fn counters_of(pool: &PoolRow) -> Vec<(u64, Counters)> {
    let mut found = Vec::new();
    let mut stack: Vec<&Vdev> = Vec::new();
    if let Some(tree) = &pool.vdevs {
        stack.push(&tree.root);
        stack.extend(tree.cache.iter());
    }
    while let Some(vdev) = stack.pop() {
        found.push((vdev.guid, vdev.counters));
        stack.extend(&vdev.children);
    }
    found
}

/// The figures of a vdev between two looks; `age` is that of the import, in nanoseconds.
fn cells(vdev: &Vdev, seconds: f64, before: &Before) -> [Option<u64>; 6] {
    let now = vdev.counters;
    let then = before.get(&vdev.guid).copied().unwrap_or_default();
    let rate = |now: u64, then: u64| {
        let difference = now.saturating_sub(then) as f64;
        Some((difference / seconds) as u64)
    };
    let has_space = vdev.space.total > 0;
    [
        has_space.then_some(vdev.space.allocated),
        has_space.then(|| vdev.space.total.saturating_sub(vdev.space.allocated)),
        rate(now.read_operations, then.read_operations),
        rate(now.write_operations, then.write_operations),
        rate(now.read_bytes, then.read_bytes),
        rate(now.write_bytes, then.write_bytes),
    ]
}

fn lines_of(pool: &PoolRow, before: &Before, options: &Options) -> Vec<Line> {
    let Some(tree) = &pool.vdevs else {
        return Vec::new();
    };
    let root = &tree.root;
    let then = before.get(&root.guid).map_or(0, |then| then.age_ns);
    let elapsed = root.counters.age_ns.saturating_sub(then).max(1);
    let seconds = elapsed as f64 / 1e9;
    let mut lines = vec![Line {
        name: pool.name.clone(),
        cells: cells(root, seconds, before),
    }];
    let sections = [
        Section::Normal,
        Section::Dedup,
        Section::Special,
        Section::Logs,
        Section::Cache,
    ];
    for section in sections.into_iter().filter(|_| options.verbose) {
        let rows = rows(section, tree, options.naming);
        if rows.is_empty() {
            continue;
        }
        if section != Section::Normal {
            let name = section.header().to_owned();
            lines.push(Line {
                name,
                cells: [None; 6],
            });
        }
        for row in rows.iter().filter(|row| shown_in_status(row)) {
            let name = format!("{}{}", "  ".repeat(row.depth), row.name);
            let cells = cells(row.vdev, seconds, before);
            lines.push(Line { name, cells });
        }
    }
    lines
}

fn text(pools: &[PoolRow], before: &Before, options: &Options, header: bool) -> String {
    let tables: Vec<Vec<Line>> = pools
        .iter()
        .map(|pool| lines_of(pool, before, options))
        .collect();
    let names = tables
        .iter()
        .flatten()
        .map(|line| line.name.chars().count());
    let width = names.fold(NAME_WIDTH_MIN, usize::max);
    let column = options.column_width();
    let dashes = format!(
        "{}{}\n",
        "-".repeat(width),
        format!("  {}", "-".repeat(column)).repeat(6)
    );
    let mut text = String::new();
    if header {
        text.push_str(&titles(width, column));
        text.push_str(&dashes);
    }
    for lines in &tables {
        for line in lines {
            text.push_str(&line_text(line, width, options));
        }
        if options.verbose && !options.script {
            text.push_str(&dashes);
        }
    }
    if tables.len() > 1 && !options.verbose && !options.script {
        text.push_str(&dashes);
    }
    text
}

/// Two lines: what pairs of columns are, and what each column is.
fn titles(width: usize, column: usize) -> String {
    let mut text = " ".repeat(width);
    for title in ["capacity", "operations", "bandwidth"] {
        let room = 2 * column + 2;
        let left = (room - title.len()).div_ceil(2);
        let right = room - title.len() - left;
        text.push_str(&format!(
            "  {}{title}{}",
            " ".repeat(left),
            " ".repeat(right)
        ));
    }
    text.push_str(&format!("\n{:<width$}", "pool"));
    for title in ["alloc", "free", "read", "write", "read", "write"] {
        text.push_str(&format!("  {title:>column$}"));
    }
    text.push('\n');
    text
}

fn line_text(line: &Line, width: usize, options: &Options) -> String {
    let show = |cell: &Option<u64>| match cell {
        Some(number) if options.exact => number.to_string(),
        Some(number) => nicenum(*number),
        None if options.script && options.exact => "0".to_owned(),
        None => "-".to_owned(),
    };
    let cells = line.cells.iter().map(show);
    if options.script {
        let cells: String = cells.map(|cell| format!("\t{cell}")).collect();
        return format!("{}{cells}\n", line.name.trim_start());
    }
    let column = options.column_width();
    let cells: String = cells.map(|cell| format!("  {cell:>column$}")).collect();
    format!("{:<width$}{cells}\n", line.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: Options = Options {
        verbose: false,
        script: false,
        exact: false,
        naming: VdevNaming {
            guid: false,
            follow_links: false,
            full_path: false,
        },
    };

    /// As OpenZFS 2.3.2 printed it.
    #[test]
    fn titles_and_columns_are_those_of_openzfs() {
        let expected = concat!(
            "                     capacity     operations     bandwidth \n",
            "pool               alloc   free   read  write   read  write\n",
        );
        assert_eq!(titles(17, 5), expected);
        let line = Line {
            name: "gold_dirtyzilslog".to_owned(),
            cells: [0, 480 << 20, 25, 0, 177 << 10, 0].map(Some),
        };
        let row = "gold_dirtyzilslog      0   480M     25      0   177K      0\n";
        assert_eq!(line_text(&line, 17, &OPTIONS), row);
        let script = Options {
            script: true,
            ..OPTIONS
        };
        let row = "gold_dirtyzilslog\t0\t480M\t25\t0\t177K\t0\n";
        assert_eq!(line_text(&line, 17, &script), row);
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let mut vdev = Vdev::new(cenote_control::model::VdevKind::Root, 0, 7);
        vdev.counters.read_operations = 30;
        vdev.counters.read_bytes = 4096;
        assert_eq!(
            cells(&vdev, 2.0, &Before::new())[2..],
            [15, 0, 2048, 0].map(Some)
        );
        assert_eq!(
            cells(&vdev, 2.0, &Before::new())[0],
            None,
            "no space of its own"
        );
        let then = Counters {
            read_operations: 10,
            ..Counters::default()
        };
        let before = Before::from([(7, then)]);
        assert_eq!(cells(&vdev, 2.0, &before)[2], Some(10));
    }
}
