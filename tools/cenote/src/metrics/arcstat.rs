//! `arcstat`: what the cache did, a line for each interval, with the columns of OpenZFS's arcstat.
//!
//! The cache of Cenote is divided among the pools; the figures are those of all of them.

use std::time::{Duration, Instant};

use cenote_control::model::ControlError;

use super::figures::Figures;
use crate::command::{Arguments, Command, Run, flags};
use crate::context::{Context, Outcome, Stop, failed, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "arcstat",
    summary: "Print what the cache did, a line for each interval",
    synopsis: "[-avxp] [-f FIELD[,FIELD]...] [-o FILE] [-s STRING] [INTERVAL [COUNT]]",
    about: "The columns are those of OpenZFS's arcstat; -v lists them. The first line is the\n\
            mean since the daemon started, as long as there is no INTERVAL. A figure that\n\
            Cenote does not have is '-'.",
    flags: flags! {
        'a' "all" _ "print all columns";
        'v' "fields" _ "list all columns with their meaning";
        'x' "extended" _ "print time,mfu,mru,mfug,mrug,eskip,mtxmis,dread,pread,read";
        'p' "exact" _ "do not round numbers";
        'f' "columns" "FIELD[,FIELD]..." "print these columns";
        'o' "output" "FILE" "write to this file";
        's' "separator" "STRING" "what stands between columns; two blanks";
    },
    run: Run::Asking(run),
};

/// Lookups that a column counts: what they were for and their kind, where that matters.
#[derive(Clone, Copy, Debug, Default)]
struct Lookups {
    wanted_for: Option<&'static str>,
    kind: Option<&'static str>,
}

const ALL: Lookups = Lookups {
    wanted_for: None,
    kind: None,
};

const fn lookups(wanted_for: Option<&'static str>, kind: Option<&'static str>) -> Lookups {
    Lookups { wanted_for, kind }
}

const DEMAND: Lookups = lookups(Some("demand"), None);
const DEMAND_DATA: Lookups = lookups(Some("demand"), Some("data"));
const DEMAND_META: Lookups = lookups(Some("demand"), Some("metadata"));
const PREFETCH: Lookups = lookups(Some("prefetch"), None);
const PREFETCH_DATA: Lookups = lookups(Some("prefetch"), Some("data"));
const PREFETCH_META: Lookups = lookups(Some("prefetch"), Some("metadata"));
const META: Lookups = lookups(None, Some("metadata"));

/// How a column is computed.
#[derive(Clone, Copy, Debug)]
enum Figure {
    /// The time of day.
    Time,
    /// Lookups with this outcome, or all, each second.
    Rate(Lookups, Option<&'static str>),
    /// The share of lookups with this outcome, in percent.
    Share(Lookups, &'static str),
    /// Hits in a list each second.
    List(&'static str),
    /// Hits of what passes through, each second.
    Passing,
    /// Bytes that are cached.
    Size,
    /// Bytes that may be.
    Limit,
    /// Bytes that the daemon may still use.
    Available,
    /// Bytes that the machine has available.
    Free,
    /// Of a second level, which there is not.
    Nothing,
    /// Not measured.
    Unknown,
}

use Figure::{Available, Free, Limit, List, Nothing, Passing, Rate, Share, Size, Time, Unknown};

const HIT: &str = "hit";
const WAIT: &str = "wait";
const MISS: &str = "miss";

/// All columns: name, figure, meaning.
const FIELDS: &[(&str, Figure, &str)] = &[
    ("time", Time, "Current time"),
    ("read", Rate(ALL, None), "Total ARC accesses per second"),
    ("hits", Rate(ALL, Some(HIT)), "ARC hits per second"),
    ("iohs", Rate(ALL, Some(WAIT)), "ARC I/O hits per second"),
    ("miss", Rate(ALL, Some(MISS)), "ARC misses per second"),
    ("hit%", Share(ALL, HIT), "ARC hit percentage"),
    ("ioh%", Share(ALL, WAIT), "ARC I/O hits percentage"),
    ("miss%", Share(ALL, MISS), "ARC miss percentage"),
    ("dread", Rate(DEMAND, None), "Demand accesses per second"),
    ("dhit", Rate(DEMAND, Some(HIT)), "Demand hits per second"),
    (
        "dioh",
        Rate(DEMAND, Some(WAIT)),
        "Demand I/O hits per second",
    ),
    ("dmis", Rate(DEMAND, Some(MISS)), "Demand misses per second"),
    ("dh%", Share(DEMAND, HIT), "Demand hit percentage"),
    ("di%", Share(DEMAND, WAIT), "Demand I/O hit percentage"),
    ("dm%", Share(DEMAND, MISS), "Demand miss percentage"),
    (
        "ddread",
        Rate(DEMAND_DATA, None),
        "Demand data accesses per second",
    ),
    (
        "ddhit",
        Rate(DEMAND_DATA, Some(HIT)),
        "Demand data hits per second",
    ),
    (
        "ddioh",
        Rate(DEMAND_DATA, Some(WAIT)),
        "Demand data I/O hits per second",
    ),
    (
        "ddmis",
        Rate(DEMAND_DATA, Some(MISS)),
        "Demand data misses per second",
    ),
    (
        "ddh%",
        Share(DEMAND_DATA, HIT),
        "Demand data hit percentage",
    ),
    (
        "ddi%",
        Share(DEMAND_DATA, WAIT),
        "Demand data I/O hit percentage",
    ),
    (
        "ddm%",
        Share(DEMAND_DATA, MISS),
        "Demand data miss percentage",
    ),
    (
        "dmread",
        Rate(DEMAND_META, None),
        "Demand metadata accesses per second",
    ),
    (
        "dmhit",
        Rate(DEMAND_META, Some(HIT)),
        "Demand metadata hits per second",
    ),
    (
        "dmioh",
        Rate(DEMAND_META, Some(WAIT)),
        "Demand metadata I/O hits per second",
    ),
    (
        "dmmis",
        Rate(DEMAND_META, Some(MISS)),
        "Demand metadata misses per second",
    ),
    (
        "dmh%",
        Share(DEMAND_META, HIT),
        "Demand metadata hit percentage",
    ),
    (
        "dmi%",
        Share(DEMAND_META, WAIT),
        "Demand metadata I/O hit percentage",
    ),
    (
        "dmm%",
        Share(DEMAND_META, MISS),
        "Demand metadata miss percentage",
    ),
    (
        "pread",
        Rate(PREFETCH, None),
        "Prefetch accesses per second",
    ),
    (
        "phit",
        Rate(PREFETCH, Some(HIT)),
        "Prefetch hits per second",
    ),
    (
        "pioh",
        Rate(PREFETCH, Some(WAIT)),
        "Prefetch I/O hits per second",
    ),
    (
        "pmis",
        Rate(PREFETCH, Some(MISS)),
        "Prefetch misses per second",
    ),
    ("ph%", Share(PREFETCH, HIT), "Prefetch hits percentage"),
    ("pi%", Share(PREFETCH, WAIT), "Prefetch I/O hits percentage"),
    ("pm%", Share(PREFETCH, MISS), "Prefetch miss percentage"),
    (
        "pdread",
        Rate(PREFETCH_DATA, None),
        "Prefetch data accesses per second",
    ),
    (
        "pdhit",
        Rate(PREFETCH_DATA, Some(HIT)),
        "Prefetch data hits per second",
    ),
    (
        "pdioh",
        Rate(PREFETCH_DATA, Some(WAIT)),
        "Prefetch data I/O hits per second",
    ),
    (
        "pdmis",
        Rate(PREFETCH_DATA, Some(MISS)),
        "Prefetch data misses per second",
    ),
    (
        "pdh%",
        Share(PREFETCH_DATA, HIT),
        "Prefetch data hits percentage",
    ),
    (
        "pdi%",
        Share(PREFETCH_DATA, WAIT),
        "Prefetch data I/O hits percentage",
    ),
    (
        "pdm%",
        Share(PREFETCH_DATA, MISS),
        "Prefetch data miss percentage",
    ),
    (
        "pmread",
        Rate(PREFETCH_META, None),
        "Prefetch metadata accesses per second",
    ),
    (
        "pmhit",
        Rate(PREFETCH_META, Some(HIT)),
        "Prefetch metadata hits per second",
    ),
    (
        "pmioh",
        Rate(PREFETCH_META, Some(WAIT)),
        "Prefetch metadata I/O hits per second",
    ),
    (
        "pmmis",
        Rate(PREFETCH_META, Some(MISS)),
        "Prefetch metadata misses per second",
    ),
    (
        "pmh%",
        Share(PREFETCH_META, HIT),
        "Prefetch metadata hits percentage",
    ),
    (
        "pmi%",
        Share(PREFETCH_META, WAIT),
        "Prefetch metadata I/O hits percentage",
    ),
    (
        "pmm%",
        Share(PREFETCH_META, MISS),
        "Prefetch metadata miss percentage",
    ),
    ("mread", Rate(META, None), "Metadata accesses per second"),
    ("mhit", Rate(META, Some(HIT)), "Metadata hits per second"),
    (
        "mioh",
        Rate(META, Some(WAIT)),
        "Metadata I/O hits per second",
    ),
    ("mmis", Rate(META, Some(MISS)), "Metadata misses per second"),
    ("mh%", Share(META, HIT), "Metadata hit percentage"),
    ("mi%", Share(META, WAIT), "Metadata I/O hit percentage"),
    ("mm%", Share(META, MISS), "Metadata miss percentage"),
    ("mfu", List("frequent"), "MFU list hits per second"),
    ("mru", List("recent"), "MRU list hits per second"),
    (
        "mfug",
        List("frequent_ghost"),
        "MFU ghost list hits per second",
    ),
    (
        "mrug",
        List("recent_ghost"),
        "MRU ghost list hits per second",
    ),
    ("unc", Passing, "Uncached list hits per second"),
    ("size", Size, "ARC size"),
    ("arcsz", Size, "Alias for size"),
    ("c", Limit, "ARC target size"),
    ("eskip", Unknown, "evict_skip per second"),
    ("mtxmis", Unknown, "mutex_miss per second"),
    ("grow", Unknown, "ARC grow disabled"),
    ("need", Unknown, "ARC reclaim needed"),
    ("free", Free, "Memory that the machine has available"),
    (
        "avail",
        Available,
        "Memory that the daemon may still use for caches and buffers",
    ),
    ("l2hits", Nothing, "L2ARC hits per second"),
    ("l2miss", Nothing, "L2ARC misses per second"),
    ("l2read", Nothing, "Total L2ARC accesses per second"),
    ("l2hit%", Nothing, "L2ARC access hit percentage"),
    ("l2miss%", Nothing, "L2ARC access miss percentage"),
    ("l2bytes", Nothing, "Bytes read per second from the L2ARC"),
    ("l2size", Nothing, "Size of the L2ARC"),
    ("l2asize", Nothing, "Actual (compressed) size of the L2ARC"),
];

const USUAL: &str = "time,read,ddread,ddh%,dmread,dmh%,pread,ph%,size,c,avail";
const EXTENDED: &str = "time,mfu,mru,mfug,mrug,eskip,mtxmis,dread,pread,read";
/// Lines between two headers.
const HEADER_EVERY: u64 = 20;

type Field = &'static (&'static str, Figure, &'static str);

/// The figures between two looks.
struct Between<'a> {
    before: Option<&'a Figures>,
    now: &'a Figures,
    seconds: f64,
    time: String,
}

impl Between<'_> {
    fn grown(&self, name: &str, wanted: &[(&str, &str)]) -> u64 {
        let before = self.before.map_or(0, |before| before.sum(name, wanted));
        self.now.sum(name, wanted).saturating_sub(before)
    }

    fn lookups(&self, of: Lookups, outcome: Option<&str>) -> u64 {
        let labels = [
            ("for", of.wanted_for),
            ("kind", of.kind),
            ("outcome", outcome),
        ];
        let given = labels
            .iter()
            .filter_map(|(label, value)| Some((*label, (*value)?)));
        let wanted: Vec<(&str, &str)> = given.collect();
        self.grown("cenote_arc_lookups_total", &wanted)
    }

    fn rate(&self, events: u64) -> Cell {
        Cell::Count((events as f64 / self.seconds).round() as u64)
    }

    fn cell(&self, figure: Figure) -> Cell {
        const LISTS: &str = "cenote_arc_list_hits_total";
        match figure {
            Time => Cell::Text(self.time.clone()),
            Rate(of, outcome) => self.rate(self.lookups(of, outcome)),
            Share(of, outcome) => {
                let (part, all) = (self.lookups(of, Some(outcome)), self.lookups(of, None));
                Cell::Count(crate::format::number::percent(part, all))
            }
            List(list) => {
                let kept = ["stored", "decoded"].iter();
                let hits = kept.map(|part| self.grown(LISTS, &[("part", part), ("list", list)]));
                self.rate(hits.sum())
            }
            Passing => {
                let lists = ["recent", "frequent"].iter();
                let wanted =
                    |list: &&str| self.grown(LISTS, &[("part", "passing"), ("list", *list)]);
                self.rate(lists.map(wanted).sum())
            }
            Size => {
                let lists = ["recent", "frequent"].iter();
                let bytes = |list: &&str| self.now.sum("cenote_arc_bytes", &[("list", *list)]);
                Cell::Bytes(lists.map(bytes).sum())
            }
            Limit => Cell::Bytes(self.now.sum("cenote_arc_limit_bytes", &[])),
            Available => {
                let limit = self.now.sum("cenote_memory_limit_bytes", &[]);
                let used = self.now.sum("cenote_memory_used_bytes", &[]);
                Cell::Bytes(limit.saturating_sub(used))
            }
            Free => crate::daemon::memory_available().map_or(Cell::Unknown, Cell::Bytes),
            Nothing => Cell::Count(0),
            Unknown => Cell::Unknown,
        }
    }
}

/// A value of a line.
enum Cell {
    Text(String),
    Count(u64),
    Bytes(u64),
    Unknown,
}

impl Cell {
    fn text(&self, exact: bool) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Count(number) | Cell::Bytes(number) if exact => number.to_string(),
            Cell::Count(number) => scaled(*number, 1000),
            Cell::Bytes(number) => scaled(*number, 1024),
            Cell::Unknown => "-".to_owned(),
        }
    }
}

/// A number in at most four characters: `999`, `1.2K`, `34M`.
fn scaled(number: u64, base: u64) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let (mut value, mut unit) = (number as f64, 0);
    while value.round() >= base as f64 && unit + 1 < UNITS.len() {
        value /= base as f64;
        unit += 1;
    }
    match unit > 0 && value < 9.95 {
        true => format!("{value:.1}{}", UNITS[unit]),
        false => format!("{value:.0}{}", UNITS[unit]),
    }
}

fn width(field: Field) -> usize {
    match field.1 {
        Time => 8,
        Size | Limit | Available | Free => field.0.len().max(5),
        _ => field.0.len().max(4),
    }
}

/// The columns that are asked for.
fn columns(arguments: &Arguments) -> Result<Vec<Field>, Stop> {
    let given = arguments
        .last("columns")
        .map(|list| list.to_string_lossy().into_owned());
    let list = match given {
        Some(list) => list,
        None if arguments.has("all") => return Ok(FIELDS.iter().collect()),
        None if arguments.has("extended") => EXTENDED.to_owned(),
        None => USUAL.to_owned(),
    };
    let mut columns = Vec::new();
    for name in list.split(',') {
        let Some(field) = FIELDS.iter().find(|field| field.0 == name) else {
            let names = FIELDS.iter().map(|field| field.0);
            let question = cenote_base::did_you_mean(name, names);
            let question = question.unwrap_or_else(|| "-v lists all columns".to_owned());
            return failed(format!("there is no column '{name}': {question}"));
        };
        columns.push(field);
    }
    Ok(columns)
}

fn number(word: Option<&std::ffi::OsString>) -> Result<Option<f64>, Stop> {
    let Some(word) = word.map(|word| word.to_string_lossy()) else {
        return Ok(None);
    };
    match word.parse::<f64>() {
        Ok(number) if number > 0.0 && number < 1e9 => Ok(Some(number)),
        _ => usage(format!("'{word}' must be a number above 0")),
    }
}

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    if arguments.has("fields") {
        for (name, _, meaning) in FIELDS {
            context.line(&format!("{name:>8} : {meaning}"));
        }
        return Ok(0);
    }
    let (interval, count) = match arguments.operands.as_slice() {
        [] => (None, Some(1)),
        [interval] => (number(Some(interval))?, None),
        [interval, count] => (
            number(Some(interval))?,
            number(Some(count))?.map(|c| c as u64),
        ),
        _ => return usage(""),
    };
    let columns = columns(arguments)?;
    let mut out = Output::open(arguments, context)?;
    let interval = Duration::from_secs_f64(interval.unwrap_or(1.0));
    let mut before: Option<(Instant, Figures)> = None;
    for round in 0.. {
        let (at, now) = (Instant::now(), figures(context)?);
        let uptime = now.sum("cenote_daemon_uptime_seconds", &[]).max(1) as f64;
        let seconds = before
            .as_ref()
            .map_or(uptime, |(then, _)| (at - *then).as_secs_f64());
        if round % HEADER_EVERY == 0 {
            out.line(&columns, context, |field| field.0.to_owned())?;
        }
        let between = Between {
            before: before.as_ref().map(|(_, figures)| figures),
            now: &now,
            seconds: seconds.max(1e-3),
            time: time(context),
        };
        let exact = arguments.has("exact");
        out.line(&columns, context, |field| between.cell(field.1).text(exact))?;
        context.flush();
        if count == Some(round + 1) || context.output_gone() {
            break;
        }
        before = Some((at, now));
        std::thread::sleep(interval);
    }
    Ok(0)
}

fn figures(context: &mut Context) -> Result<Figures, Stop> {
    let asked = Figures::ask(
        context,
        &["cenote_arc_", "cenote_memory_", "cenote_daemon_"],
    );
    asked.or_else(|error: ControlError| failed(error.to_string()))
}

fn time(context: &Context) -> String {
    let now = jiff::Timestamp::now().to_zoned(context.zone.clone());
    now.strftime("%H:%M:%S").to_string()
}

/// Where lines go.
struct Output {
    file: Option<std::fs::File>,
    separator: String,
}

impl Output {
    fn open(arguments: &Arguments, context: &Context) -> Result<Self, Stop> {
        let separator = arguments.last("separator");
        let separator = separator.map_or("  ".into(), |given| given.to_string_lossy());
        let file = match arguments.last("output") {
            None => None,
            Some(name) => {
                let place = context.directory.join(name);
                let file = std::fs::File::create(&place);
                let failed = |error| Stop::Failed(format!("{}: {error}", place.display()));
                Some(file.map_err(failed)?)
            }
        };
        Ok(Self {
            file,
            separator: separator.into_owned(),
        })
    }

    fn line(
        &mut self,
        columns: &[Field],
        context: &mut Context,
        cell: impl Fn(Field) -> String,
    ) -> Result<(), Stop> {
        use std::io::Write;
        let cells = columns.iter().map(|field| {
            let width = width(field);
            format!("{:>width$}", cell(field))
        });
        let line = cells.collect::<Vec<String>>().join(&self.separator);
        match &mut self.file {
            None => context.line(&line),
            Some(file) => {
                let written = writeln!(file, "{line}");
                written.or_else(|error| failed(format!("cannot write the output: {error}")))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_four_characters() {
        let expected = [
            (0, "0"),
            (999, "999"),
            (1000, "1.0K"),
            (12_345, "12K"),
            (9_960_000, "10M"),
        ];
        for (number, text) in expected {
            assert_eq!(scaled(number, 1000), text);
        }
        assert_eq!(scaled(3 << 30, 1024), "3.0G");
        assert_eq!(scaled(u64::MAX, 1024), "16E");
    }

    #[test]
    fn every_list_of_columns_has_known_names_only() {
        for list in [USUAL, EXTENDED] {
            for name in list.split(',') {
                assert!(FIELDS.iter().any(|field| field.0 == name), "{name}");
            }
        }
        for (index, field) in FIELDS.iter().enumerate() {
            assert!(
                FIELDS[..index].iter().all(|known| known.0 != field.0),
                "{}",
                field.0
            );
        }
    }
}
