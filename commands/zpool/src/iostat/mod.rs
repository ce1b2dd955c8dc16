//! `zpool iostat`: I/O of pools and their devices, per second.
//!
//! The first report is the mean since the import; later ones cover the interval since the previous
//! one. A report is a table of rates, optionally with columns for latencies (`-l`), queues (`-q`)
//! and scripts (`-c`). Or it is a histogram of latencies (`-w`) or request sizes (`-r`) for each
//! pool or vdev.
//! has a histogram of latencies (`-w`) or request sizes (`-r`) for each pool or vdev.

mod columns;
mod histograms;
mod requests;

use cenote_control::model::{
    Counters, PoolRow, PropertySelection, Request, Response, Vdev, VdevNaming,
};
use std::collections::{BTreeMap, HashMap};

use super::names::{self, Schedule};
use super::scripts::{self, Said, Scripts};
use cenote_words::context::{Context, Outcome, Stop, mismatch, usage};
use cenote_words::format::number::nicenum;
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::texts::with_context;
use cenote_words::vdev_rows::{Row, Section, rows, shown_in_status};
use columns::{Group, LATENCIES, PLAIN, QUEUES, Unit, latencies, nicetime, queues, title};
use histograms::{Form, Style};
use requests::Requests;

/// The minimum width of the name column.
const NAME_WIDTH_MIN: usize = 10;
/// Reports without vdevs between two headers.
const HEADER_EVERY: u64 = 20;

/// Additional columns.
#[derive(Clone, Copy, Debug, Default)]
struct More {
    latencies: bool,
    queues: bool,
}

struct Options {
    verbose: bool,
    script: bool,
    exact: bool,
    naming: VdevNaming,
    more: More,
    /// Histograms instead of the table.
    histograms: Vec<Form>,
}

impl Options {
    fn take(parsed: &Parsed, context: &mut Context) -> Result<Self, Stop> {
        let more = More {
            latencies: parsed.has("l"),
            queues: parsed.has("q"),
        };
        let forms = [("w", Form::Latencies), ("r", Form::Sizes)];
        let forms = forms.into_iter().filter(|(letter, _)| parsed.has(letter));
        let histograms: Vec<Form> = forms.map(|(_, form)| form).collect();
        let has_columns = more.latencies || more.queues || parsed.given("c");
        if !histograms.is_empty() && has_columns {
            return usage("[-r|-w] isn't allowed with [-c|-l|-q]");
        }
        if histograms.len() > 1 {
            return usage("only one of [-r|-w] is allowed at a time");
        }
        Ok(Self {
            verbose: parsed.has("v") || parsed.given("c"),
            script: parsed.has("H"),
            exact: parsed.has("p"),
            naming: names::naming(parsed, context),
            more,
            histograms,
        })
    }

    fn groups(&self) -> Vec<&'static Group> {
        let mut groups: Vec<&Group> = PLAIN.iter().collect();
        if self.more.latencies {
            groups.extend(&LATENCIES);
        }
        if self.more.queues {
            groups.extend(&QUEUES);
        }
        groups
    }

    fn width(&self, unit: Unit) -> usize {
        match (self.exact, unit) {
            (false, _) => 5,
            (true, Unit::Number) => 15,
            (true, Unit::Time) => 10,
            (true, Unit::Depth) => 6,
        }
    }
}

/// The counters of the previous report.
#[derive(Default)]
struct Before {
    /// Counters of vdevs by guid.
    counters: HashMap<u64, Counters>,
    requests: Requests,
}

/// A line of the table; `None` where the row has no such figure.
struct Line {
    name: String,
    cells: Vec<Option<u64>>,
    said: Option<Said>,
}

/// Which pools and vdevs to show.
#[derive(Default)]
struct Wanted {
    /// Names of pools; empty for all.
    pools: Vec<String>,
    /// Names of vdevs: if there are any, only these are shown.
    vdevs: Vec<String>,
}

impl Wanted {
    /// Parses the operands: pools, a pool and its vdevs, or vdevs.
    fn of(operands: &[String], known: &[PoolRow], naming: VdevNaming) -> Option<Self> {
        let is_pool = |name: &String| known.iter().any(|pool| pool.name == *name);
        if operands.iter().all(is_pool) {
            return Some(Self {
                pools: operands.to_vec(),
                vdevs: Vec::new(),
            });
        }
        let (pools, vdevs) = match operands.split_first() {
            Some((pool, vdevs)) if is_pool(pool) => (vec![pool.clone()], vdevs),
            _ => (Vec::new(), operands),
        };
        let within = known
            .iter()
            .filter(|pool| pools.is_empty() || pools.contains(&pool.name));
        let within: Vec<&PoolRow> = within.collect();
        let is_there = |name: &String| {
            let mut rows = within.iter().flat_map(|pool| all_rows(pool, naming));
            rows.any(|row| is_named(&row, name))
        };
        let found = vdevs.iter().all(is_there);
        found.then(|| Self {
            pools,
            vdevs: vdevs.to_vec(),
        })
    }
}

/// Sections in the order of the table.
const SECTIONS: [Section; 5] = [
    Section::Normal,
    Section::Dedup,
    Section::Special,
    Section::Logs,
    Section::Cache,
];

fn all_rows(pool: &PoolRow, naming: VdevNaming) -> Vec<Row<'_>> {
    let Some(tree) = &pool.vdevs else {
        return Vec::new();
    };
    let all = SECTIONS
        .into_iter()
        .flat_map(|section| rows(section, tree, naming));
    all.filter(shown_in_status).collect()
}

/// Whether an operand names this vdev: by its displayed name, its path or its guid.
fn is_named(row: &Row<'_>, name: &str) -> bool {
    let path = row.vdev.path.as_deref();
    let last = path.and_then(|path| path.rsplit('/').next());
    row.name == name
        || path == Some(name)
        || last == Some(name)
        || row.vdev.guid.to_string() == name
}

/// `zpool iostat`.
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    if line.words.last().is_some_and(|last| last == "-c") {
        scripts::list("iostat", context);
        return Ok(0);
    }
    let mut parsed = line.parse()?;
    if parsed.has("h") {
        return usage("");
    }
    let schedule = Schedule::take(&mut parsed)?;
    let options = Options::take(&parsed, context)?;
    let scripts = match parsed.last("c") {
        Some(names) => Some(Scripts::find(names, context)?),
        None => None,
    };
    let (header_once, skip_first) = (parsed.has("n"), parsed.has("y"));
    let wanted = match wanted(&parsed.operands, options.naming, context) {
        Ok(wanted) => wanted,
        Err(code) => return Ok(code),
    };
    let mut before = Before::default();
    let mut report = |context: &mut Context, round: u64| {
        let pools = match pools(&wanted.pools, context) {
            Ok(pools) => pools,
            Err(code) => return code,
        };
        let requests = Requests::of(&pools);
        if round > 0 || !skip_first || !schedule.repeats() {
            let first = round == u64::from(skip_first && schedule.repeats());
            let again = options.verbose || round.is_multiple_of(HEADER_EVERY);
            let view = View {
                before: &before,
                requests: &requests,
                wanted: &wanted,
                options: &options,
                header: !options.script && (first || (again && !header_once)),
                said: said(scripts.as_ref(), &pools),
            };
            context.print(&view.text(&pools));
        }
        before = Before {
            counters: pools.iter().flat_map(counters_of).collect(),
            requests,
        };
        0
    };
    Ok(schedule.repeat(context, &mut report))
}

/// The pools and vdevs that the operands name; the exit code if that fails.
fn wanted(operands: &[String], naming: VdevNaming, context: &mut Context) -> Result<Wanted, u8> {
    if operands.is_empty() {
        return Ok(Wanted::default());
    }
    let (known, _) = ask(&[], context)?;
    Wanted::of(operands, &known, naming).ok_or_else(|| {
        context.complain("Unable to parse pools/vdevs list.\n");
        1
    })
}

/// The output of scripts for each device.
fn said(scripts: Option<&Scripts>, pools: &[PoolRow]) -> BTreeMap<u64, Said> {
    let trees = pools.iter().filter_map(|pool| pool.vdevs.as_ref());
    let vdevs = trees.flat_map(|tree| [&tree.root].into_iter().chain(&tree.cache));
    scripts.map_or_else(BTreeMap::new, |scripts| scripts.run_below(vdevs))
}

/// Pools with their vdevs, and whether some names are not pools.
fn ask(names: &[String], context: &mut Context) -> Result<(Vec<PoolRow>, bool), u8> {
    let request = Request::PoolList {
        pools: names.to_vec(),
        properties: PropertySelection::Named(Vec::new()),
        vdevs: true,
    };
    let error = match context.ask(request) {
        Ok(Response::Pools { pools, failures }) => return Ok((pools, !failures.is_empty())),
        Ok(_) => mismatch(),
        Err(error) => error,
    };
    context.complain(&with_context("cannot list pools", &error));
    Err(1)
}

fn pools(names: &[String], context: &mut Context) -> Result<Vec<PoolRow>, u8> {
    let (pools, has_failures) = ask(names, context)?;
    if has_failures {
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

/// The plain figures of a vdev between two reports.
fn cells(vdev: &Vdev, seconds: f64, before: &HashMap<u64, Counters>) -> Vec<Option<u64>> {
    let now = vdev.counters;
    let then = before.get(&vdev.guid).copied().unwrap_or_default();
    let rate = |now: u64, then: u64| {
        let difference = now.saturating_sub(then) as f64;
        Some((difference / seconds) as u64)
    };
    let has_space = vdev.space.total > 0;
    vec![
        has_space.then_some(vdev.space.allocated),
        has_space.then(|| vdev.space.total.saturating_sub(vdev.space.allocated)),
        rate(now.read_operations, then.read_operations),
        rate(now.write_operations, then.write_operations),
        rate(now.read_bytes, then.read_bytes),
        rate(now.write_bytes, then.write_bytes),
    ]
}

/// One report.
struct View<'a> {
    before: &'a Before,
    requests: &'a Requests,
    wanted: &'a Wanted,
    options: &'a Options,
    header: bool,
    said: BTreeMap<u64, Said>,
}

impl View<'_> {
    fn text(&self, pools: &[PoolRow]) -> String {
        match self.options.histograms.first() {
            None => self.table(pools),
            Some(form) => self.histograms(pools, *form),
        }
    }

    fn line(&self, name: String, vdev: &Vdev, seconds: f64) -> Line {
        let more = self.options.more;
        let mut cells = cells(vdev, seconds, &self.before.counters);
        if more.latencies || more.queues {
            let classes = self.requests.since(vdev, &self.before.requests);
            if more.latencies {
                cells.extend(latencies(&classes));
            }
            if more.queues {
                cells.extend(queues(&classes));
            }
        }
        let said = self.said.get(&vdev.guid).cloned();
        Line { name, cells, said }
    }

    fn lines_of(&self, pool: &PoolRow) -> Vec<Line> {
        let (Some(tree), options) = (&pool.vdevs, self.options) else {
            return Vec::new();
        };
        let root = &tree.root;
        let then = self.before.counters.get(&root.guid);
        let then = then.map_or(0, |then| then.age_ns);
        let elapsed = root.counters.age_ns.saturating_sub(then).max(1);
        let seconds = elapsed as f64 / 1e9;
        if !self.wanted.vdevs.is_empty() {
            let rows = all_rows(pool, options.naming).into_iter();
            let is_wanted =
                |row: &Row<'_>| self.wanted.vdevs.iter().any(|name| is_named(row, name));
            let rows = rows.filter(is_wanted);
            return rows
                .map(|row| self.line(row.name, row.vdev, seconds))
                .collect();
        }
        let mut lines = vec![self.line(pool.name.clone(), root, seconds)];
        for section in SECTIONS.into_iter().filter(|_| options.verbose) {
            let rows = rows(section, tree, options.naming);
            if rows.is_empty() {
                continue;
            }
            if section != Section::Normal {
                let columns = options
                    .groups()
                    .iter()
                    .map(|group| group.columns.len())
                    .sum();
                lines.push(Line {
                    name: section.header().to_owned(),
                    cells: vec![None; columns],
                    said: None,
                });
            }
            for row in rows.into_iter().filter(shown_in_status) {
                let name = format!("{}{}", "  ".repeat(row.depth), row.name);
                lines.push(self.line(name, row.vdev, seconds));
            }
        }
        lines
    }

    fn table(&self, pools: &[PoolRow]) -> String {
        let options = self.options;
        let tables: Vec<Vec<Line>> = pools.iter().map(|pool| self.lines_of(pool)).collect();
        let tables: Vec<Vec<Line>> = tables
            .into_iter()
            .filter(|lines| !lines.is_empty())
            .collect();
        let names = tables
            .iter()
            .flatten()
            .map(|line| line.name.chars().count());
        let width = names.fold(NAME_WIDTH_MIN, usize::max);
        let extra = script_columns(&tables, &self.said);
        let dashes = dashes(width, options, &extra);
        let mut text = String::new();
        if self.header {
            let word = if self.wanted.vdevs.is_empty() {
                "pool"
            } else {
                "vdev"
            };
            text.push_str(&titles(word, width, options, &extra));
            text.push_str(&dashes);
        }
        for lines in &tables {
            for line in lines {
                text.push_str(&line_text(line, width, options, &extra));
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

    fn histograms(&self, pools: &[PoolRow], form: Form) -> String {
        let options = self.options;
        let style = Style {
            script: options.script,
            exact: options.exact,
        };
        let mut text = String::new();
        let mut push = |name: &str, vdev: &Vdev| {
            let classes = self.requests.since(vdev, &self.before.requests);
            text.push_str(&histograms::text(name, &classes, form, style));
        };
        for pool in pools {
            let Some(tree) = &pool.vdevs else { continue };
            if self.wanted.vdevs.is_empty() {
                push(&pool.name, &tree.root);
            }
            for row in all_rows(pool, options.naming) {
                let is_wanted = self.wanted.vdevs.iter().any(|name| is_named(&row, name));
                if is_wanted || (options.verbose && self.wanted.vdevs.is_empty()) {
                    push(&row.name, row.vdev);
                }
            }
        }
        text
    }
}

/// The columns of scripts with their widths.
fn script_columns(tables: &[Vec<Line>], said: &BTreeMap<u64, Said>) -> Vec<(String, usize)> {
    let values = |name: &String| {
        let said = tables
            .iter()
            .flatten()
            .filter_map(|line| line.said.as_ref());
        let values = said.flatten().filter(move |(column, _)| column == name);
        values.map(|(_, value)| value.chars().count()).max()
    };
    let columns = scripts::columns(said).into_iter();
    columns
        .map(|name| {
            let width = values(&name).unwrap_or(0).max(name.chars().count()).max(1);
            (name, width)
        })
        .collect()
}

fn dashes(width: usize, options: &Options, extra: &[(String, usize)]) -> String {
    let mut text = "-".repeat(width);
    for group in options.groups() {
        let column = format!("  {}", "-".repeat(options.width(group.unit)));
        text.push_str(&column.repeat(group.columns.len()));
    }
    for (_, width) in extra {
        text.push_str(&format!("  {}", "-".repeat(*width)));
    }
    text.push('\n');
    text
}

/// Two header lines: the groups of columns, and the columns.
fn titles(word: &str, width: usize, options: &Options, extra: &[(String, usize)]) -> String {
    let mut text = " ".repeat(width);
    for group in options.groups() {
        let columns = group.columns.len();
        text.push_str(&title(group.title, columns, options.width(group.unit)));
    }
    text.push_str(&format!("\n{word:<width$}"));
    for group in options.groups() {
        let width = options.width(group.unit);
        for column in group.columns {
            text.push_str(&format!("  {column:>width$}"));
        }
    }
    for (name, width) in extra {
        text.push_str(&format!("  {name:>width$}"));
    }
    text.push('\n');
    text
}

fn line_text(line: &Line, width: usize, options: &Options, extra: &[(String, usize)]) -> String {
    let show = |cell: &Option<u64>, unit: Unit| match (cell, unit) {
        (Some(number), _) if options.exact => number.to_string(),
        (Some(number), Unit::Time) => nicetime(*number),
        (Some(number), _) => nicenum(*number),
        (None, _) if options.script && options.exact => "0".to_owned(),
        (None, _) => "-".to_owned(),
    };
    let groups = options.groups().into_iter();
    let units = groups.flat_map(|group| group.columns.iter().map(|_| group.unit));
    let cells = line.cells.iter().zip(units);
    let said = extra.iter().map(|(name, width)| {
        let said = line
            .said
            .iter()
            .flatten()
            .find(|(column, _)| column == name);
        (said.map_or("-", |(_, value)| value.as_str()), *width)
    });
    if options.script {
        let cells: String = cells
            .map(|(cell, unit)| format!("\t{}", show(cell, unit)))
            .collect();
        let said: String = said.map(|(value, _)| format!("\t{value}")).collect();
        return format!("{}{cells}{said}\n", line.name.trim_start());
    }
    let cells: String = cells
        .map(|(cell, unit)| format!("  {:>1$}", show(cell, unit), options.width(unit)))
        .collect();
    let said: String = said
        .map(|(value, width)| format!("  {value:>width$}"))
        .collect();
    format!("{:<width$}{cells}{said}\n", line.name)
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
        more: More {
            latencies: false,
            queues: false,
        },
        histograms: Vec::new(),
    };

    /// The output of OpenZFS 2.3.2.
    #[test]
    fn titles_and_columns_are_those_of_openzfs() {
        let expected = concat!(
            "                     capacity     operations     bandwidth \n",
            "pool               alloc   free   read  write   read  write\n",
        );
        assert_eq!(titles("pool", 17, &OPTIONS, &[]), expected);
        let line = Line {
            name: "gold_dirtyzilslog".to_owned(),
            cells: [0, 480 << 20, 25, 0, 177 << 10, 0].map(Some).to_vec(),
            said: None,
        };
        let row = "gold_dirtyzilslog      0   480M     25      0   177K      0\n";
        assert_eq!(line_text(&line, 17, &OPTIONS, &[]), row);
        let script = Options {
            script: true,
            ..OPTIONS
        };
        let row = "gold_dirtyzilslog\t0\t480M\t25\t0\t177K\t0\n";
        assert_eq!(line_text(&line, 17, &script, &[]), row);
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let mut vdev = Vdev::new(cenote_control::model::VdevKind::Root, 0, 7);
        vdev.counters.read_operations = 30;
        vdev.counters.read_bytes = 4096;
        assert_eq!(
            cells(&vdev, 2.0, &HashMap::new())[2..],
            [15, 0, 2048, 0].map(Some)
        );
        assert_eq!(
            cells(&vdev, 2.0, &HashMap::new())[0],
            None,
            "no space of its own"
        );
        let then = Counters {
            read_operations: 10,
            ..Counters::default()
        };
        let before = HashMap::from([(7, then)]);
        assert_eq!(cells(&vdev, 2.0, &before)[2], Some(10));
    }

    /// The titles of OpenZFS's manual pages and samples.
    #[test]
    fn latencies_and_queues_have_openzfs_s_titles() {
        let more = More {
            latencies: true,
            queues: true,
        };
        let options = Options { more, ..OPTIONS };
        let found = titles("pool", 10, &options, &[("size".to_owned(), 4)]);
        let lines: Vec<&str> = found.lines().collect();
        let first = concat!(
            "              capacity     operations     bandwidth    total_wait     disk_wait    ",
            "syncq_wait    asyncq_wait  scrub   trim  rebuild",
        );
        assert!(lines[0].starts_with(first), "{found}");
        assert!(
            lines[1].contains("   wait   wait   wait   pend  activ"),
            "{found}"
        );
        assert!(lines[1].ends_with("  activ  size"), "{found}");
        let mut cells = vec![Some(0); 6];
        cells.extend([Some(1_500_000), None]);
        let line = Line {
            name: "tank".to_owned(),
            cells,
            said: Some(vec![("size".to_owned(), "70G".to_owned())]),
        };
        let text = line_text(&line, 10, &options, &[("size".to_owned(), 4)]);
        assert!(text.ends_with("    1ms      -   70G\n"), "{text}");
    }
}
