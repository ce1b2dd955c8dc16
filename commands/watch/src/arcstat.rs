//! `arcstat`: cache activity, a line for each interval, with the columns of OpenZFS's arcstat.
//!
//! Each pool has a cache of its own here; the figures are sums over all of them.

use std::time::{Duration, Instant};

use cenote_control::model::ControlError;

use super::figures::Figures;
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, Stop, failed, usage};

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
        's' "separator" "STRING" "the text between columns; default: two blanks";
    },
    run: Run::Asking(run),
};

/// The lookups that a column counts: by purpose and, where it matters, by kind.
#[derive(Clone, Copy, Debug, Default)]
struct Lookups {
    wanted_for: Option<&'static str>,
    kind: Option<&'static str>,
}

/// The groups of lookups: the first letters of their columns' names, and a description.
const GROUPS: [(&str, &str, Lookups); 8] = [
    ("", "", lookups(None, None)),
    ("d", "demand ", lookups(Some("demand"), None)),
    ("dd", "demand data ", lookups(Some("demand"), Some("data"))),
    (
        "dm",
        "demand metadata ",
        lookups(Some("demand"), Some("metadata")),
    ),
    ("m", "metadata ", lookups(None, Some("metadata"))),
    ("p", "prefetch ", lookups(Some("prefetch"), None)),
    (
        "pd",
        "prefetch data ",
        lookups(Some("prefetch"), Some("data")),
    ),
    (
        "pm",
        "prefetch metadata ",
        lookups(Some("prefetch"), Some("metadata")),
    ),
];

const fn lookups(wanted_for: Option<&'static str>, kind: Option<&'static str>) -> Lookups {
    Lookups { wanted_for, kind }
}

/// The outcomes of a lookup: the label's value, its description, and the suffixes of columns. The
/// suffixes are those of rates and shares, first for all lookups, then for a group.
const OUTCOMES: [(&str, &str, [[&str; 2]; 2]); 3] = [
    ("hit", "hits", [["hits", "hit%"], ["hit", "h%"]]),
    ("wait", "I/O hits", [["iohs", "ioh%"], ["ioh", "i%"]]),
    ("miss", "misses", [["miss", "miss%"], ["mis", "m%"]]),
];

/// How a column is computed.
#[derive(Clone, Copy, Debug)]
enum Figure {
    /// The time of day.
    Time,
    /// Lookups with this outcome, or all, each second.
    Rate(Lookups, Option<&'static str>),
    /// Hits in a list per second.
    Share(Lookups, &'static str),
    /// Hits in a list each second.
    List(&'static str),
    /// Hits of passing data, per second.
    Passing,
    /// Bytes that are cached.
    Size,
    /// The limit of cached bytes.
    Limit,
    /// Bytes that the daemon may still allocate.
    Available,
    /// Bytes that the machine has available.
    Free,
    /// About a second-level cache, which does not exist here.
    Nothing,
    /// Not measured.
    Unknown,
}

use Figure::{Available, Free, Limit, List, Nothing, Passing, Rate, Share, Size, Time, Unknown};

/// Columns that are not about lookups.
const OTHERS: [(&str, Figure, &str); 33] = [
    ("time", Time, "time of day"),
    ("size", Size, "bytes in the cache"),
    ("arcsz", Size, "the same as size"),
    ("c", Limit, "bytes that the cache may have"),
    ("avail", Available, "bytes that the daemon may still use"),
    (
        "free",
        Free,
        "bytes of memory that the machine has available",
    ),
    ("need", Unknown, "bytes that others want back"),
    ("grow", Unknown, "whether the cache is kept from growing"),
    (
        "mfu",
        List("frequent"),
        "hits in the list of frequent blocks a second",
    ),
    (
        "mru",
        List("recent"),
        "hits in the list of recent blocks a second",
    ),
    (
        "mfug",
        List("frequent_ghost"),
        "frequent blocks read again a second",
    ),
    (
        "mrug",
        List("recent_ghost"),
        "recent blocks read again a second",
    ),
    (
        "unc",
        Passing,
        "hits among blocks that only pass through a second",
    ),
    (
        "eskip",
        Unknown,
        "blocks that could not be dropped a second",
    ),
    ("mtxmis", Unknown, "locks that were busy a second"),
    ("l2read", Nothing, "second level: lookups a second"),
    ("l2hits", Nothing, "second level: hits a second"),
    ("l2hit%", Nothing, "second level: hits, per cent"),
    ("l2miss", Nothing, "second level: misses a second"),
    ("l2miss%", Nothing, "second level: misses, per cent"),
    ("l2bytes", Nothing, "second level: bytes read a second"),
    ("l2size", Nothing, "second level: bytes before compression"),
    ("l2asize", Nothing, "second level: bytes on its devices"),
    ("l2pref", Nothing, "second level: prefetched bytes"),
    (
        "l2pref%",
        Nothing,
        "second level: prefetched bytes, per cent",
    ),
    ("l2mfu", Nothing, "second level: bytes of frequent blocks"),
    (
        "l2mfu%",
        Nothing,
        "second level: bytes of frequent blocks, per cent",
    ),
    ("l2mru", Nothing, "second level: bytes of recent blocks"),
    (
        "l2mru%",
        Nothing,
        "second level: bytes of recent blocks, per cent",
    ),
    ("l2data", Nothing, "second level: bytes of data"),
    ("l2data%", Nothing, "second level: bytes of data, per cent"),
    ("l2meta", Nothing, "second level: bytes of metadata"),
    (
        "l2meta%",
        Nothing,
        "second level: bytes of metadata, per cent",
    ),
];

/// A column.
#[derive(Clone, Debug)]
struct Field {
    name: String,
    figure: Figure,
    meaning: String,
}

/// All columns. Names of columns about lookups follow a rule, which generates them.
fn fields() -> Vec<Field> {
    let others = OTHERS.iter().map(|(name, figure, meaning)| Field {
        name: (*name).to_owned(),
        figure: *figure,
        meaning: (*meaning).to_owned(),
    });
    let mut fields: Vec<Field> = others.collect();
    for (letters, words, of) in GROUPS {
        fields.push(Field {
            name: format!("{letters}read"),
            figure: Rate(of, None),
            meaning: format!("{words}lookups a second"),
        });
        for (outcome, plural, endings) in OUTCOMES {
            let [rate, share] = endings[usize::from(!letters.is_empty())];
            fields.push(Field {
                name: format!("{letters}{rate}"),
                figure: Rate(of, Some(outcome)),
                meaning: format!("{words}{plural} a second"),
            });
            fields.push(Field {
                name: format!("{letters}{share}"),
                figure: Share(of, outcome),
                meaning: format!("{words}{plural}, per cent of {words}lookups"),
            });
        }
    }
    fields
}

const USUAL: &str = "time,read,ddread,ddh%,dmread,dmh%,pread,ph%,size,c,avail";
const EXTENDED: &str = "time,mfu,mru,mfug,mrug,eskip,mtxmis,dread,pread,read";
/// Lines between two headers.
const HEADER_EVERY: u64 = 20;

/// The change of the figures between two samples.
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
                Cell::Count(cenote_words::format::number::percent(part, all))
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
            Free => crate::memory::memory_available().map_or(Cell::Unknown, Cell::Bytes),
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

/// A column is as wide as its header and as the widest value that it rounds to.
fn width(field: &Field) -> usize {
    let widest = match field.figure {
        Time => "23:59:59".to_owned(),
        Share(..) => "100".to_owned(),
        Size | Limit | Available | Free => scaled(1023 << 20, 1024),
        Rate(..) | List(_) | Passing | Nothing | Unknown => scaled(999_000, 1000),
    };
    field.name.len().max(widest.len())
}

/// The requested columns.
fn columns(arguments: &Arguments) -> Result<Vec<Field>, Stop> {
    let given = arguments
        .last("columns")
        .map(|list| list.to_string_lossy().into_owned());
    let list = match given {
        Some(list) => list,
        None if arguments.has("all") => return Ok(fields()),
        None if arguments.has("extended") => EXTENDED.to_owned(),
        None => USUAL.to_owned(),
    };
    let (known, mut columns) = (fields(), Vec::new());
    for name in list.split(',') {
        let Some(field) = known.iter().find(|field| field.name == name) else {
            let names = known.iter().map(|field| field.name.as_str());
            let question = cenote_base::did_you_mean(name, names);
            let question = question.unwrap_or_else(|| "-v lists all columns".to_owned());
            return failed(format!("there is no column '{name}': {question}"));
        };
        columns.push(field.clone());
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
        for Field { name, meaning, .. } in fields() {
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
            out.line(&columns, context, |field| field.name.clone())?;
        }
        let between = Between {
            before: before.as_ref().map(|(_, figures)| figures),
            now: &now,
            seconds: seconds.max(1e-3),
            time: time(context),
        };
        let exact = arguments.has("exact");
        out.line(&columns, context, |field| {
            between.cell(field.figure).text(exact)
        })?;
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

/// Where to print lines.
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
        cell: impl Fn(&Field) -> String,
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

    /// The names of arcstat(1).
    #[test]
    fn the_columns_of_the_manual_page_are_known_and_no_others() {
        const NAMES: &str = "c dh% di% dm% ddh% ddi% ddm% dmh% dmi% dmm% mfu mh% mi% mm% mru ph% \
            pi% pm% pdh% pdi% pdm% pmh% pmi% pmm% dhit dioh dmis ddhit ddioh ddmis dmhit dmioh \
            dmmis hit% hits ioh% iohs mfug mhit mioh miss mmis mrug phit pioh pmis pdhit pdioh \
            pdmis pmhit pmioh pmmis read time size arcsz unc dread ddread dmread eskip miss% \
            mread pread pdread pmread l2hit% l2hits l2miss l2read l2pref l2pref% l2mfu l2mfu% \
            l2mru l2mru% l2data l2data% l2meta l2meta% l2size mtxmis l2bytes l2miss% l2asize \
            grow need free avail";
        let mut expected: Vec<&str> = NAMES.split_whitespace().collect();
        let fields = fields();
        let mut names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        expected.sort_unstable();
        names.sort_unstable();
        assert_eq!(names, expected);
        for list in [USUAL, EXTENDED] {
            assert!(list.split(',').all(|name| names.contains(&name)), "{list}");
        }
    }

    #[test]
    fn columns_hold_their_values() {
        let width_of = |name: &str| {
            let fields = fields();
            let field = fields.iter().find(|field| field.name == name);
            width(field.expect("a column"))
        };
        assert_eq!(width_of("time"), "23:59:59".len());
        assert_eq!((width_of("mh%"), width_of("miss%")), (3, 5));
        assert_eq!((width_of("read"), width_of("c")), (4, 5));
    }
}
