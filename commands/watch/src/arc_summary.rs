//! `arc_summary`: a readable report about the cache, the log and transactions.

use super::figures::Figures;
use super::kstat::Sources;
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, failed};
use cenote_words::format::number::{nicebytes, nicenum, share};

/// The command.
pub const COMMAND: Command = Command {
    name: "arc-summary",
    summary: "Report what the cache has and how well it serves",
    synopsis: "[-gr] [-s SECTION]",
    about: "SECTION is arc (what is cached), archits (how lookups ended), dmu (transactions) or\n\
            zil (the intent log). Tunables are in 'cenote settings', devices in\n\
            'zpool iostat -v'.",
    flags: flags! {
        'g' "graph" _ "draw what the cache's memory is used for";
        'r' "raw" _ "print all kstats";
        's' "section" "SECTION" "only this section";
    },
    run: Run::Asking(run),
};

/// Writes a section.
type Section = fn(&Figures, &mut Report);

const SECTIONS: [(&str, Section); 4] = [
    ("arc", arc),
    ("archits", hits),
    ("dmu", transactions),
    ("zil", log),
];
/// Column of the values.
const NAME_WIDTH: usize = 50;
/// Width of the graph in characters.
const GRAPH_WIDTH: u64 = 64;

/// The lines of a report.
#[derive(Default)]
struct Report(String);

impl Report {
    fn title(&mut self, title: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(&format!("{title}:\n"));
    }

    fn row(&mut self, name: &str, share: &str, value: &str) {
        let name = format!("        {name}:");
        self.0
            .push_str(&format!("{name:<NAME_WIDTH$} {share:>8} {value:>10}\n"));
    }

    fn bytes(&mut self, name: &str, part: u64, all: u64) {
        self.row(name, &share(part, all), &nicebytes(part));
    }

    fn count(&mut self, name: &str, part: u64, all: u64) {
        self.row(name, &share(part, all), &nicenum(part));
    }
}

/// Cached bytes of these parts, lists and kinds.
fn cached(figures: &Figures, wanted: &[(&str, &str)]) -> u64 {
    let lists = ["recent", "frequent"].iter();
    let bytes = |list: &&str| {
        let mut wanted = wanted.to_vec();
        wanted.push(("list", list));
        figures.sum("cenote_arc_bytes", &wanted)
    };
    lists.map(bytes).sum()
}

fn arc(figures: &Figures, report: &mut Report) {
    let limit = figures.sum("cenote_arc_limit_bytes", &[]);
    let size = cached(figures, &[]);
    report.title("ARC size");
    report.bytes("Size", size, limit);
    report.bytes("Target size", limit, limit);
    report.title("ARC by contents");
    report.bytes(
        "Blocks as stored",
        cached(figures, &[("part", "stored")]),
        size,
    );
    report.bytes(
        "Decoded copies",
        cached(figures, &[("part", "decoded")]),
        size,
    );
    report.bytes(
        "Blocks that pass through",
        cached(figures, &[("part", "passing")]),
        size,
    );
    report.bytes("Data", cached(figures, &[("kind", "data")]), size);
    report.bytes("Metadata", cached(figures, &[("kind", "metadata")]), size);
    report.title("ARC by list");
    for (name, list) in [
        ("Most recently used (MRU)", "recent"),
        ("Most frequently used (MFU)", "frequent"),
        ("MRU ghost", "recent_ghost"),
        ("MFU ghost", "frequent_ghost"),
    ] {
        let bytes = figures.sum("cenote_arc_bytes", &[("list", list)]);
        report.bytes(name, bytes, size);
    }
    report.title("ARC evictions");
    let blocks = figures.sum("cenote_arc_evicted_blocks_total", &[]);
    report.row("Blocks dropped to make room", "", &nicenum(blocks));
    let bytes = figures.sum("cenote_arc_evicted_bytes_total", &[]);
    report.row("Their size", "", &nicebytes(bytes));
}

fn hits(figures: &Figures, report: &mut Report) {
    let lookups = |wanted: &[(&str, &str)]| figures.sum("cenote_arc_lookups_total", wanted);
    for (title, base) in [
        ("ARC lookups", &[][..]),
        ("Demand data", &[("for", "demand"), ("kind", "data")]),
        (
            "Demand metadata",
            &[("for", "demand"), ("kind", "metadata")],
        ),
        ("Prefetch data", &[("for", "prefetch"), ("kind", "data")]),
        (
            "Prefetch metadata",
            &[("for", "prefetch"), ("kind", "metadata")],
        ),
    ] {
        let all = lookups(base);
        report.title(title);
        report.count("Lookups", all, all);
        for (name, outcome) in [
            ("Hits (in memory)", "hit"),
            ("I/O hits (another reader brought it)", "wait"),
            ("Misses (read from a device)", "miss"),
        ] {
            let mut wanted = base.to_vec();
            wanted.push(("outcome", outcome));
            report.count(name, lookups(&wanted), all);
        }
    }
    report.title("ARC hits by list");
    let hits = |list: &str| figures.sum("cenote_arc_list_hits_total", &[("list", list)]);
    let all: u64 = ["recent", "frequent"].iter().map(|list| hits(list)).sum();
    report.count("Most recently used (MRU)", hits("recent"), all);
    report.count("Most frequently used (MFU)", hits("frequent"), all);
    report.row("MRU ghost", "", &nicenum(hits("recent_ghost")));
    report.row("MFU ghost", "", &nicenum(hits("frequent_ghost")));
    report.title("Device reads");
    let blocks = figures.sum("cenote_pool_blocks_read_total", &[]);
    report.row("Blocks", "", &nicenum(blocks));
    let bytes = figures.sum("cenote_pool_block_bytes_read_total", &[]);
    report.row("Bytes", "", &nicebytes(bytes));
}

fn transactions(figures: &Figures, report: &mut Report) {
    let sum = |name: &str| figures.sum(name, &[]);
    let all = sum("cenote_txg_transactions_total");
    report.title("Transactions");
    report.count("Transactions", all, all);
    let delayed = sum("cenote_txg_delayed_transactions_total");
    report.count("Delayed because much was dirty", delayed, all);
    let full = sum("cenote_txg_full_waits_total");
    report.count("Waited because too much was dirty", full, all);
    let (dirty, most) = (
        sum("cenote_txg_dirty_bytes"),
        sum("cenote_txg_dirty_max_bytes"),
    );
    report.bytes("Dirty now", dirty, most);
}

fn log(figures: &Figures, report: &mut Report) {
    let by = |by: &str| figures.sum("cenote_log_commits_total", &[("by", by)]);
    let all = by("log") + by("group");
    report.title("Intent log (ZIL)");
    report.count("Commit requests", all, all);
    report.count("Served by the log", by("log"), all);
    report.count("Waited for a transaction group", by("group"), all);
    let sum = |name: &str| figures.sum(name, &[]);
    report.row(
        "Blocks written",
        "",
        &nicenum(sum("cenote_log_blocks_total")),
    );
    report.row(
        "Bytes written",
        "",
        &nicebytes(sum("cenote_log_bytes_total")),
    );
    report.row("Flushes", "", &nicenum(sum("cenote_log_flushes_total")));
    report.row("Failures", "", &nicenum(sum("cenote_log_failures_total")));
}

/// A bar of memory use: `F` frequent, `R` recent, `P` passing, blank free.
fn graph(figures: &Figures) -> String {
    let limit = figures.sum("cenote_arc_limit_bytes", &[]).max(1);
    let parts = ["stored", "decoded"];
    let of = |list: &str| {
        let parts = parts.iter();
        let bytes =
            |part: &&str| figures.sum("cenote_arc_bytes", &[("part", *part), ("list", list)]);
        parts.map(bytes).sum::<u64>()
    };
    let width = |bytes: u64| {
        let width = u128::from(bytes) * u128::from(GRAPH_WIDTH) / u128::from(limit);
        usize::try_from(width).unwrap_or(0)
    };
    let passing = cached(figures, &[("part", "passing")]);
    let mut bar = String::new();
    for (letter, bytes) in [("F", of("frequent")), ("R", of("recent")), ("P", passing)] {
        bar.push_str(&letter.repeat(width(bytes)));
    }
    let line = format!("+{}+\n", "-".repeat(GRAPH_WIDTH as usize));
    let size = cached(figures, &[]);
    format!(
        "ARC: {} of {} (MFU {}, MRU {}, passing {})\n{line}|{bar:<room$}|\n{line}\
         F MFU, R MRU, P passing through\n",
        nicebytes(size),
        nicebytes(limit),
        nicebytes(of("frequent")),
        nicebytes(of("recent")),
        nicebytes(passing),
        room = GRAPH_WIDTH as usize,
    )
}

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let section = arguments
        .last("section")
        .map(|word| word.to_string_lossy().into_owned());
    let is_known = |word: &String| SECTIONS.iter().any(|(name, _)| name == word);
    if let Some(word) = section.as_ref().filter(|word| !is_known(word)) {
        return failed(format!(
            "there is no section '{word}'. The sections are arc, archits, dmu and zil"
        ));
    }
    let sources = Sources::ask(context).or_else(|error| failed(error.to_string()))?;
    if arguments.has("raw") {
        for (number, kstat) in sources.tree().iter().enumerate() {
            context.line(&format!("{}:", kstat.path));
            context.print(&kstat.text(number, 0));
        }
        return Ok(0);
    }
    if arguments.has("graph") {
        context.print(&graph(&sources.figures));
        return Ok(0);
    }
    let mut report = Report::default();
    for (name, write) in SECTIONS {
        if section.as_deref().is_none_or(|wanted| wanted == name) {
            write(&sources.figures, &mut report);
        }
    }
    context.print(&report.0);
    Ok(0)
}
