//! The tree of kstats under OpenZFS's names, as in `/proc/spl/kstat/zfs`.
//!
//! It has only what the daemon measures. Tools must expect missing kstats anyway, because they
//! differ between versions of OpenZFS. Where OpenZFS has one cache or one log for all pools, the
//! figures are sums over the pools.

use std::path::{Path, PathBuf};

use cenote_control::model::{
    ControlError, DatasetKind, Depth, GroupRow, KindSet, PropertySelection, Request, Response,
};

use super::figures::Figures;
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "kstat",
    summary: "Print the kstats of OpenZFS, or write them to files",
    synopsis: "[NAME]... | export DIRECTORY",
    about: "NAME is the name of a kstat, such as arcstats or tank/txgs, or a directory of them,\n\
            such as tank. Without one all are printed. 'export' writes each to a file below\n\
            DIRECTORY with the names and the form of /proc/spl/kstat/zfs, for tools that read\n\
            files. Figures that Cenote does not have are left out.",
    flags: flags! {},
    run: Run::Asking(run),
};

/// A value of a kstat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// A number of 64 bits.
    Number(u64),
    /// Words.
    Text(String),
}

/// The contents of a kstat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Values by name.
    Named(Vec<(String, Data)>),
    /// Lines with their own format.
    Raw(String),
    /// A table with its own header.
    Table(String),
}

/// One kstat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kstat {
    /// Its path below `/proc/spl/kstat/zfs`.
    pub path: String,
    /// What is in it.
    pub body: Body,
}

impl Kstat {
    /// The file, in the kernel's format: a line about the kstat itself, then its values.
    pub fn text(&self, number: usize, now: u64) -> String {
        let head = |kind: u8, flags: u8, count: usize, size: usize| {
            format!("{number} {kind} 0x{flags:02x} {count} {size} 0 {now}\n")
        };
        match &self.body {
            Body::Named(rows) => {
                let mut text = head(1, 1, rows.len(), rows.len() * 272);
                text.push_str(&format!("{:<31} {:<4} data\n", "name", "type"));
                for (name, data) in rows {
                    let (kind, value) = match data {
                        Data::Number(number) => (4, number.to_string()),
                        Data::Text(text) => (7, text.clone()),
                    };
                    text.push_str(&format!("{name:<31} {kind:<4} {value}\n"));
                }
                text
            }
            Body::Raw(text) => text.clone(),
            Body::Table(table) => head(0, 1, table.lines().count(), table.len()) + table,
        }
    }
}

fn named(path: &str, rows: Vec<(String, u64)>) -> Kstat {
    let rows = rows.into_iter();
    Kstat {
        path: path.to_owned(),
        body: Body::Named(
            rows.map(|(name, number)| (name, Data::Number(number)))
                .collect(),
        ),
    }
}

/// Outcomes of lookups: the suffix of the name, and the label's value.
const OUTCOMES: [(&str, &str); 3] = [("hits", "hit"), ("iohits", "wait"), ("misses", "miss")];

/// Rows of `arcstats` as they are made.
struct Rows<'a> {
    figures: &'a Figures,
    rows: Vec<(String, u64)>,
}

/// The parts of the cache that keep blocks.
const KEPT: [&str; 2] = ["stored", "decoded"];
/// The lists of blocks in memory.
const LISTS: [&str; 2] = ["recent", "frequent"];

impl Rows<'_> {
    fn put(&mut self, name: &str, number: u64) {
        self.rows.push((name.to_owned(), number));
    }

    /// Cached bytes of the series with these labels.
    fn cached(&self, wanted: &[(&str, &str)]) -> u64 {
        let of = |list: &&str| {
            let list = [("list", *list)];
            let wanted: Vec<(&str, &str)> = wanted.iter().copied().chain(list).collect();
            self.figures.sum("cenote_arc_bytes", &wanted)
        };
        LISTS.iter().map(of).sum()
    }

    /// Hits in lists of parts.
    fn list_hits(&self, parts: &[&str], lists: &[&str]) -> u64 {
        let pairs = parts
            .iter()
            .flat_map(|part| lists.iter().map(move |list| (part, list)));
        let of = |(part, list): (&&str, &&str)| {
            let wanted = [("part", *part), ("list", *list)];
            self.figures.sum("cenote_arc_list_hits_total", &wanted)
        };
        pairs.map(of).sum()
    }

    fn lookups(&mut self) {
        const NAME: &str = "cenote_arc_lookups_total";
        for (name, outcome) in OUTCOMES {
            let number = self.figures.sum(NAME, &[("outcome", outcome)]);
            self.put(name, number);
        }
        for wanted_for in ["demand", "prefetch"] {
            for kind in ["data", "metadata"] {
                for (name, outcome) in OUTCOMES {
                    let wanted = [("for", wanted_for), ("kind", kind), ("outcome", outcome)];
                    let number = self.figures.sum(NAME, &wanted);
                    self.put(&format!("{wanted_for}_{kind}_{name}"), number);
                }
            }
        }
    }

    fn lists(&mut self) {
        for (name, list) in [
            ("mru", "recent"),
            ("mru_ghost", "recent_ghost"),
            ("mfu", "frequent"),
            ("mfu_ghost", "frequent_ghost"),
        ] {
            let of = |kind: &str| {
                let parts = KEPT.iter().map(|part| {
                    let wanted = [("part", *part), ("list", list), ("kind", kind)];
                    self.figures.sum("cenote_arc_bytes", &wanted)
                });
                parts.sum::<u64>()
            };
            let (data, metadata) = (of("data"), of("metadata"));
            self.put(&format!("{name}_hits"), self.list_hits(&KEPT, &[list]));
            self.put(&format!("{name}_size"), data + metadata);
            self.put(&format!("{name}_data"), data);
            self.put(&format!("{name}_metadata"), metadata);
        }
    }
}

fn arcstats(figures: &Figures) -> Kstat {
    let rows = Vec::new();
    let mut all = Rows { figures, rows };
    all.lookups();
    all.lists();
    all.put("uncached_hits", all.list_hits(&["passing"], &LISTS));
    let passing = all.cached(&[("part", "passing")]);
    let decoded = all.cached(&[("part", "decoded")]);
    for (name, number) in [
        (
            "deleted",
            figures.sum("cenote_arc_evicted_blocks_total", &[]),
        ),
        ("hash_elements", figures.sum("cenote_arc_blocks", &[])),
        ("c", figures.sum("cenote_arc_limit_bytes", &[])),
        ("c_max", figures.sum("cenote_arc_limit_bytes", &[])),
        ("size", all.cached(&[])),
        ("compressed_size", all.cached(&[("part", "stored")])),
        ("overhead_size", decoded + passing),
        ("data_size", all.cached(&[("kind", "data")])),
        ("metadata_size", all.cached(&[("kind", "metadata")])),
        ("uncached_size", passing),
    ] {
        all.put(name, number);
    }
    // There is no second cache level, so it has neither hits nor misses.
    for name in ["l2_hits", "l2_misses", "l2_size", "l2_asize"] {
        all.put(name, 0);
    }
    named("arcstats", all.rows)
}

fn zil(figures: &Figures) -> Kstat {
    let sum = |name: &str| figures.sum(name, &[]);
    let by_group = figures.sum("cenote_log_commits_total", &[("by", "group")]);
    let rows = [
        ("zil_commit_count", sum("cenote_log_commits_total")),
        ("zil_commit_error_count", sum("cenote_log_failures_total")),
        ("zil_commit_stall_count", by_group),
        (
            "zil_itx_metaslab_normal_count",
            sum("cenote_log_blocks_total"),
        ),
        (
            "zil_itx_metaslab_normal_write",
            sum("cenote_log_bytes_total"),
        ),
    ];
    let rows = rows.map(|(name, number)| (name.to_owned(), number));
    named("zil", rows.to_vec())
}

/// The cached decoded blocks. OpenZFS keeps them as unreferenced dbufs.
fn dbufstats(figures: &Figures) -> Kstat {
    let decoded = [("part", "decoded")];
    let live = |list| figures.sum("cenote_arc_bytes", &[decoded[0], ("list", list)]);
    let rows = [
        ("cache_count", figures.sum("cenote_arc_blocks", &decoded)),
        ("cache_size_bytes", live("recent") + live("frequent")),
        (
            "cache_target_bytes",
            figures.sum("cenote_arc_limit_bytes", &decoded),
        ),
        (
            "cache_total_evicts",
            figures.sum("cenote_arc_evicted_blocks_total", &decoded),
        ),
    ];
    named(
        "dbufstats",
        rows.map(|(name, number)| (name.to_owned(), number))
            .to_vec(),
    )
}

fn dmu_tx(figures: &Figures) -> Kstat {
    let rows = [
        ("dmu_tx_assigned", "cenote_txg_transactions_total"),
        (
            "dmu_tx_dirty_delay",
            "cenote_txg_delayed_transactions_total",
        ),
        ("dmu_tx_dirty_over_max", "cenote_txg_full_waits_total"),
    ];
    let rows = rows.map(|(name, own)| (name.to_owned(), figures.sum(own, &[])));
    named("dmu_tx", rows.to_vec())
}

/// Sequential readers, and the prefetch for them.
fn zfetchstats(figures: &Figures) -> Kstat {
    let reads = |outcome: &str| {
        let wanted = [("outcome", outcome)];
        figures.sum("cenote_arc_sequential_reads_total", &wanted)
    };
    let blocks = figures.sum("cenote_arc_read_ahead_blocks_total", &[]);
    let rows = [
        ("hits", reads("hit")),
        ("misses", reads("miss")),
        ("io_issued", blocks),
    ];
    let rows = rows.map(|(name, number)| (name.to_owned(), number));
    named("zfetchstats", rows.to_vec())
}

/// The I/O of programs on a mounted dataset, and the traffic of sites that show it.
fn objset(figures: &Figures, pool: &str, dataset: &str, id: u64) -> Kstat {
    let requests = |operations: &[&str]| {
        let of = |operation: &&str| {
            let wanted = [("dataset", dataset), ("operation", *operation)];
            figures.sum("cenote_mount_request_seconds", &wanted)
        };
        operations.iter().map(of).sum::<u64>()
    };
    let bytes = |name: &str| figures.sum(name, &[("dataset", dataset)]);
    // Reads of a snapshot for a site count for its file system.
    let sites = |name: &str| {
        let found = figures.series(name, &[]);
        let own = found.filter(|series| series.label("dataset").split('@').next() == Some(dataset));
        own.map(|series| series.number())
            .fold(0, u64::saturating_add)
    };
    let of_sites = ["reads_total", "sent_bytes_total"];
    let [reads, sent] = of_sites.map(|name| sites(&format!("cenote_http_site_{name}")));
    let rows = [
        ("writes", requests(&["write"])),
        ("nwritten", bytes("cenote_mount_written_bytes_total")),
        ("reads", requests(&["read"]) + reads),
        ("nread", bytes("cenote_mount_read_bytes_total") + sent),
        ("nunlinks", requests(&["unlink", "rmdir"])),
    ];
    let name = ("dataset_name".to_owned(), Data::Text(dataset.to_owned()));
    let rows = rows.map(|(name, number)| (name.to_owned(), Data::Number(number)));
    Kstat {
        path: format!("{pool}/objset-0x{id:x}"),
        body: Body::Named([name].into_iter().chain(rows).collect()),
    }
}

fn txgs(pool: &str, groups: &[GroupRow]) -> Kstat {
    let mut text = format!(
        "{:<8} {:<16} {:<5} {:<12} {:<12} {:<12} {:<8} {:<8} {:<12} {:<12} {:<12} {:<12}\n",
        "txg",
        "birth",
        "state",
        "ndirty",
        "nread",
        "nwritten",
        "reads",
        "writes",
        "otime",
        "qtime",
        "wtime",
        "stime"
    );
    for group in groups {
        text.push_str(&format!(
            "{:<8} {:<16} {:<5} {:<12} {:<12} {:<12} {:<8} {:<8} {:<12} {:<12} {:<12} {:<12}\n",
            group.txg,
            group.opened,
            group.state,
            group.dirty,
            group.read_bytes,
            group.written_bytes,
            group.reads,
            group.writes,
            group.open,
            group.quiesce,
            // A transaction group is written as soon as it is quiesced, without waiting.
            0,
            group.sync
        ));
    }
    Kstat {
        path: format!("{pool}/txgs"),
        body: Body::Table(text),
    }
}

/// The numbers of all file systems' object sets.
fn object_sets(context: &mut Context) -> Result<Vec<(String, u64)>, ControlError> {
    let request = Request::DatasetList {
        roots: Vec::new(),
        depth: Depth::All,
        kinds: KindSet::of(DatasetKind::Filesystem),
        properties: PropertySelection::Named(vec!["objsetid".to_owned()]),
    };
    let rows = context.ask_datasets(request)?.rows;
    let number = |row: &cenote_control::model::Dataset| {
        let id = row.property("objsetid")?.value.number()?;
        Some((row.name.clone(), id))
    };
    Ok(rows.iter().filter_map(number).collect())
}

/// The data for the tree.
#[derive(Debug, Default)]
pub struct Sources {
    /// All measurements.
    pub figures: Figures,
    /// Groups by pool.
    pub groups: Vec<(String, Vec<GroupRow>)>,
    /// Numbers of object sets by file system.
    pub object_sets: Vec<(String, u64)>,
}

impl Sources {
    /// Asks the daemon.
    pub fn ask(context: &mut Context) -> Result<Self, ControlError> {
        let figures = Figures::ask(context, &[])?;
        let mut groups = Vec::new();
        for pool in figures.pools() {
            let request = Request::PoolGroups { pool: pool.clone() };
            match context.ask(request) {
                Ok(Response::Groups { groups: rows }) => groups.push((pool, rows)),
                Ok(_) => return Err(mismatch()),
                // The pool was just exported.
                Err(ControlError::NoSuchPool { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            object_sets: object_sets(context)?,
            figures,
            groups,
        })
    }

    /// All kstats, in the order of their paths.
    pub fn tree(&self) -> Vec<Kstat> {
        let figures = &self.figures;
        let mut all = vec![
            arcstats(figures),
            dbufstats(figures),
            dmu_tx(figures),
            zfetchstats(figures),
            zil(figures),
        ];
        for pool in figures.pools() {
            for (dataset, id) in &self.object_sets {
                if dataset.split('/').next() == Some(&pool) {
                    all.push(objset(figures, &pool, dataset, *id));
                }
            }
            let states = [("pool", pool.as_str())];
            let mut states = figures.series("cenote_pool_state", &states);
            if let Some(state) = states.find(|state| state.number() == 1) {
                let word = state.label("state").to_ascii_uppercase();
                all.push(Kstat {
                    path: format!("{pool}/state"),
                    body: Body::Raw(format!("{word}\n")),
                });
            }
            let groups = self.groups.iter().filter(|(name, _)| *name == pool);
            all.extend(groups.map(|(pool, groups)| txgs(pool, groups)));
        }
        all
    }
}

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let words: Vec<String> = arguments
        .operands
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let sources = Sources::ask(context).or_else(|error| failed(error.to_string()))?;
    let (tree, now) = (sources.tree(), now(&sources.figures));
    match words
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["export"] => usage("'export' needs the directory to write to"),
        ["export", directory] => export(&tree, now, &context.directory.join(directory)),
        names => print(&tree, now, names, context),
    }
}

/// The current time, in nanoseconds since the daemon started.
fn now(figures: &Figures) -> u64 {
    let uptime = figures.sum("cenote_daemon_uptime_seconds", &[]);
    uptime.saturating_mul(1_000_000_000)
}

fn print(tree: &[Kstat], now: u64, names: &[&str], context: &mut Context) -> Outcome {
    let is_of = |kstat: &Kstat, name: &str| {
        let rest = kstat.path.strip_prefix(name.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    for name in names {
        if !tree.iter().any(|kstat| is_of(kstat, name)) {
            let known: Vec<&str> = tree.iter().map(|kstat| kstat.path.as_str()).collect();
            let question = cenote_base::did_you_mean(name, known);
            let question = question.unwrap_or_else(|| "'cenote kstat' prints all".to_owned());
            return failed(format!("there is no kstat '{name}': {question}"));
        }
    }
    for (number, kstat) in tree.iter().enumerate() {
        if names.is_empty() || names.iter().any(|name| is_of(kstat, name)) {
            if names.len() != 1 || kstat.path != names[0] {
                context.line(&format!("{}:", kstat.path));
            }
            context.print(&kstat.text(number, now));
        }
    }
    Ok(0)
}

/// Writes each kstat to its file. Readers see either the old file or the new one.
fn export(tree: &[Kstat], now: u64, directory: &Path) -> Outcome {
    for (number, kstat) in tree.iter().enumerate() {
        // Pool names have no slash and are not `.` or `..`, so the file stays below the directory.
        let file = directory.join(&kstat.path);
        write(&file, &kstat.text(number, now)).map_err(|error| {
            let file = file.display();
            Stop::Failed(format!(
                "cannot write {file}: {error}. Check that DIRECTORY is a directory that you may \
                 write to"
            ))
        })?;
    }
    Ok(0)
}

fn write(file: &Path, text: &str) -> std::io::Result<()> {
    if let Some(parent) = file.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    std::fs::write(&new, text)?;
    std::fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoded_blocks_are_dbufs() {
        use super::super::sample::testing::number;
        let labels = |list| [("pool", "tank"), ("part", "decoded"), ("list", list)];
        let mut figures = Figures::default();
        figures.add(vec![number("cenote_arc_blocks", &labels("")[..2], 7)]);
        figures.add(vec![number("cenote_arc_bytes", &labels("recent"), 10)]);
        figures.add(vec![number("cenote_arc_bytes", &labels("frequent"), 5)]);
        figures.add(vec![number(
            "cenote_arc_bytes",
            &labels("recent_ghost"),
            900,
        )]);
        let text = dbufstats(&figures).text(1, 2);
        let row = |name: &str| text.lines().find(|line| line.starts_with(name));
        assert!(
            row("cache_count ").is_some_and(|row| row.ends_with(" 7")),
            "{text}"
        );
        assert!(
            row("cache_size_bytes ").is_some_and(|row| row.ends_with(" 15")),
            "{text}"
        );
    }

    #[test]
    fn reads_that_go_forward_are_hits() {
        use super::super::sample::testing::number;
        let mut figures = Figures::default();
        for (pool, outcome, count) in [("a", "hit", 5), ("b", "hit", 2), ("a", "miss", 3)] {
            let labels = [("pool", pool), ("outcome", outcome)];
            let name = "cenote_arc_sequential_reads_total";
            figures.add(vec![number(name, &labels, count)]);
        }
        let name = "cenote_arc_read_ahead_blocks_total";
        figures.add(vec![number(name, &[("pool", "a")], 9)]);
        let rows = ["hits", "misses", "io_issued"].into_iter().zip([7, 3, 9]);
        let rows = rows.map(|(name, count)| (name.to_owned(), Data::Number(count)));
        assert_eq!(zfetchstats(&figures).body, Body::Named(rows.collect()));
    }

    #[test]
    fn files_have_the_kernel_s_form() {
        let kstat = Kstat {
            path: "tank/objset-0x36".to_owned(),
            body: Body::Named(vec![
                ("dataset_name".to_owned(), Data::Text("tank".to_owned())),
                ("writes".to_owned(), Data::Number(7)),
            ]),
        };
        let expected = concat!(
            "3 1 0x01 2 544 0 99\n",
            "name                            type data\n",
            "dataset_name                    7    tank\n",
            "writes                          4    7\n",
        );
        assert_eq!(kstat.text(3, 99), expected);
        let group = GroupRow {
            txg: 12,
            state: "C".to_owned(),
            sync: 5,
            ..GroupRow::default()
        };
        let text = txgs("tank", &[group]).text(1, 2);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows[1].len(), 12);
        assert_eq!(
            rows[2],
            "12 0 C 0 0 0 0 0 0 0 0 5".split(' ').collect::<Vec<_>>()
        );
    }
}
