//! `zilstat`: what the intent logs do, with the columns of OpenZFS's zilstat.

use std::time::{Duration, Instant};

use super::figures::Figures;
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, Stop, failed, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "zilstat",
    summary: "Print what intent logs do",
    synopsis: "[-v] [-a | -p POOL | -d DATASET[,DATASET]...] [-f FIELD[,FIELD]...]\n\
               [-s STRING] [-i SECONDS]",
    about: "The columns are those of OpenZFS's zilstat; -v lists them. Without -i the figures\n\
            are sums since the daemon started, with -i what each interval added, a second. A\n\
            figure that Cenote does not have is '-'.",
    flags: flags! {
        'v' "fields" _ "list all columns with their meaning";
        'a' "all" _ "a line for each dataset of all pools";
        'p' "pool" "POOL" "a line for each dataset of this pool";
        'd' "dataset" "DATASET[,DATASET]..." "a line for each of these datasets";
        'f' "columns" "FIELD[,FIELD]..." "print these columns";
        's' "separator" "STRING" "the text between columns; default: two blanks";
        'i' "interval" "SECONDS" "print lines again and again";
    },
    run: Run::Asking(run),
};

/// How a column is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Time,
    Pool,
    Dataset,
    /// The sum of a measurement, with a value of the label `by`.
    Sum(&'static str, Option<&'static str>),
    /// Not measured.
    Unknown,
}

use Figure::{Dataset, Pool, Sum, Time, Unknown};

const COMMITS: &str = "cenote_log_commits_total";

/// The columns of zilstat(1).
const FIELDS: [(&str, Figure, &str); 39] = [
    ("time", Time, "time of day"),
    ("pool", Pool, "pool"),
    ("ds", Dataset, "dataset"),
    ("obj", Unknown, "number of the dataset"),
    ("cc", Sum(COMMITS, None), "commits"),
    ("cwc", Unknown, "commits that wrote"),
    (
        "cec",
        Sum("cenote_log_failures_total", None),
        "failed writes",
    ),
    (
        "csc",
        Sum(COMMITS, Some("group")),
        "commits that waited for the transaction group",
    ),
    ("cSc", Unknown, "commits while suspended"),
    ("cCc", Unknown, "commits after a crash"),
    ("ic", Unknown, "records"),
    ("iic", Unknown, "indirect writes"),
    ("iib", Unknown, "bytes of indirect writes"),
    ("icc", Unknown, "copied writes"),
    ("icb", Unknown, "bytes of copied writes"),
    ("inc", Unknown, "writes copied at the commit"),
    ("inb", Unknown, "bytes of writes copied at the commit"),
    ("idc", Unknown, "writes in the log"),
    ("idb", Unknown, "bytes of writes in the log"),
    ("iwc", Unknown, "writes"),
    ("iwb", Unknown, "bytes of writes"),
    ("imnc", Unknown, "log blocks on data vdevs"),
    ("imnb", Unknown, "bytes of records on data vdevs"),
    ("imnw", Unknown, "bytes written to data vdevs"),
    ("imna", Unknown, "bytes allocated on data vdevs"),
    ("imsc", Unknown, "log blocks on log devices"),
    ("imsb", Unknown, "bytes of records on log devices"),
    ("imsw", Unknown, "bytes written to log devices"),
    ("imsa", Unknown, "bytes allocated on log devices"),
    ("imc", Sum("cenote_log_blocks_total", None), "log blocks"),
    ("imb", Unknown, "bytes of records"),
    ("imw", Sum("cenote_log_bytes_total", None), "bytes written"),
    ("ima", Unknown, "bytes allocated"),
    (
        "se%",
        Unknown,
        "bytes of records, per cent of allocated ones",
    ),
    ("sen%", Unknown, "the same on data vdevs"),
    ("ses%", Unknown, "the same on log devices"),
    ("te%", Unknown, "bytes of records, per cent of written ones"),
    ("ten%", Unknown, "the same on data vdevs"),
    ("tes%", Unknown, "the same on log devices"),
];

const USUAL: &str = "time,pool,ds,cc,csc,cec,imc,imw";
/// Rounds between two headers.
const HEADER_EVERY: u64 = 20;
/// Whose figures there are if no dataset is asked for.
const ALL: &str = "-";

fn columns(list: &str) -> Result<Vec<(&'static str, Figure)>, Stop> {
    let column = |name: &str| {
        let found = FIELDS.iter().find(|(known, ..)| *known == name);
        found
            .map(|(name, figure, _)| (*name, *figure))
            .ok_or_else(|| {
                let names = FIELDS.iter().map(|(name, ..)| *name);
                let question = cenote_base::did_you_mean(name, names);
                let question = question.unwrap_or_else(|| "-v lists all columns".to_owned());
                Stop::Failed(format!("there is no column '{name}': {question}"))
            })
    };
    list.split(',').map(column).collect()
}

/// Whose figures are printed.
enum Scope {
    Sum,
    All,
    Pool(String),
    Datasets(Vec<String>),
}

impl Scope {
    fn of(arguments: &Arguments) -> Result<Self, Stop> {
        let text = |name| {
            let given = arguments.last(name);
            given.map(|given| given.to_string_lossy().into_owned())
        };
        match (arguments.has("all"), text("pool"), text("dataset")) {
            (false, None, None) => Ok(Self::Sum),
            (true, None, None) => Ok(Self::All),
            (false, Some(pool), None) => Ok(Self::Pool(pool)),
            (false, None, Some(list)) => {
                Ok(Self::Datasets(list.split(',').map(str::to_owned).collect()))
            }
            _ => usage("only one of -a, -p and -d can be given"),
        }
    }

    /// Pools and datasets, in order.
    fn rows(&self, figures: &Figures) -> Vec<(String, String)> {
        let all = figures.series(COMMITS, &[]);
        let all = all.map(|series| (series.label("pool"), series.label("dataset")));
        let mut rows: Vec<(String, String)> = match self {
            Self::Sum => return vec![(ALL.to_owned(), ALL.to_owned())],
            Self::All => all.map(owned).collect(),
            Self::Pool(pool) => all.filter(|(of, _)| of == pool).map(owned).collect(),
            Self::Datasets(names) => {
                let is_named = |(_, name): &(&str, &str)| names.iter().any(|known| known == name);
                all.filter(is_named).map(owned).collect()
            }
        };
        rows.sort();
        rows.dedup();
        rows
    }
}

fn owned((pool, dataset): (&str, &str)) -> (String, String) {
    (pool.to_owned(), dataset.to_owned())
}

fn number(figures: &Figures, figure: Figure, dataset: &str) -> Option<u64> {
    let Sum(name, by) = figure else {
        return None;
    };
    let dataset = Some(("dataset", dataset)).filter(|(_, dataset)| *dataset != ALL);
    let wanted = [dataset, by.map(|by| ("by", by))];
    let wanted: Vec<(&str, &str)> = wanted.into_iter().flatten().collect();
    Some(figures.sum(name, &wanted))
}

fn interval(arguments: &Arguments) -> Result<Option<Duration>, Stop> {
    let Some(word) = arguments
        .last("interval")
        .map(|word| word.to_string_lossy())
    else {
        return Ok(None);
    };
    match word.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds < 1e9 => Ok(Some(Duration::from_secs_f64(seconds))),
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
    if !arguments.operands.is_empty() {
        return usage("too many arguments");
    }
    let list = arguments.last("columns").map(|list| list.to_string_lossy());
    let columns = columns(list.as_deref().unwrap_or(USUAL))?;
    let (scope, interval) = (Scope::of(arguments)?, interval(arguments)?);
    let separator = arguments
        .last("separator")
        .map(|text| text.to_string_lossy());
    let separator = separator.unwrap_or("  ".into()).into_owned();
    let mut before: Option<(Instant, Figures)> = None;
    for round in 0.. {
        let at = Instant::now();
        let now = Figures::ask(context, &["cenote_log_"]);
        let now = now.or_else(|error| failed(error.to_string()))?;
        if round % HEADER_EVERY == 0 {
            let titles = columns.iter().map(|(name, figure)| cell(name, *figure));
            context.line(&titles.collect::<Vec<_>>().join(&separator));
        }
        for (pool, dataset) in scope.rows(&now) {
            let cells = columns.iter().map(|(_, figure)| {
                let text = match figure {
                    Time => time(context),
                    Pool => pool.clone(),
                    Dataset => dataset.clone(),
                    figure => grown(before.as_ref(), (at, &now), *figure, &dataset),
                };
                cell(&text, *figure)
            });
            let line = cells.collect::<Vec<_>>().join(&separator);
            context.line(&line);
        }
        context.flush();
        let Some(interval) = interval.filter(|_| !context.output_gone()) else {
            break;
        };
        before = Some((at, now));
        std::thread::sleep(interval);
    }
    Ok(0)
}

/// A figure, or what it grew since the last round, a second.
fn grown(
    before: Option<&(Instant, Figures)>,
    (at, now): (Instant, &Figures),
    figure: Figure,
    dataset: &str,
) -> String {
    let Some(sum) = number(now, figure, dataset) else {
        return "-".to_owned();
    };
    let Some((then, before)) = before else {
        return sum.to_string();
    };
    let seconds = (at - *then).as_secs_f64().max(1e-3);
    let more = sum.saturating_sub(number(before, figure, dataset).unwrap_or(0));
    ((more as f64 / seconds).round() as u64).to_string()
}

fn cell(text: &str, figure: Figure) -> String {
    match figure {
        Time => format!("{text:<8}"),
        Pool => format!("{text:<12}"),
        Dataset => format!("{text:<24}"),
        Sum(..) | Unknown => format!("{text:>8}"),
    }
}

fn time(context: &Context) -> String {
    let now = jiff::Timestamp::now().to_zoned(context.zone.clone());
    now.strftime("%H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::model::{MetricFamily, MetricKind, MetricSeries, MetricValue};

    fn figures(rows: &[(&str, &str, &str, u64)]) -> Figures {
        let series = rows.iter().map(|(pool, dataset, by, number)| MetricSeries {
            labels: [*pool, *dataset, *by].map(str::to_owned).to_vec(),
            value: MetricValue::Number(*number),
        });
        let mut figures = Figures::default();
        figures.add(vec![MetricFamily {
            name: COMMITS.to_owned(),
            kind: MetricKind::Counter,
            help: String::new(),
            labels: ["pool", "dataset", "by"].map(str::to_owned).to_vec(),
            series: series.collect(),
        }]);
        figures
    }

    #[test]
    fn figures_are_those_of_the_datasets_asked_for() {
        let now = figures(&[
            ("tank", "tank/b", "log", 5),
            ("tank", "tank/b", "group", 2),
            ("tank", "tank/a", "log", 1),
            ("dozer", "dozer", "log", 10),
        ]);
        let names = |scope: Scope| {
            let rows = scope.rows(&now).into_iter();
            rows.map(|(_, dataset)| dataset).collect::<Vec<_>>()
        };
        assert_eq!(names(Scope::All), ["dozer", "tank/a", "tank/b"]);
        assert_eq!(names(Scope::Pool("tank".to_owned())), ["tank/a", "tank/b"]);
        assert_eq!(names(Scope::Sum), [ALL]);
        let (all, by_group) = (Sum(COMMITS, None), Sum(COMMITS, Some("group")));
        assert_eq!(number(&now, all, ALL), Some(18));
        assert_eq!(number(&now, all, "tank/b"), Some(7));
        assert_eq!(number(&now, by_group, "tank/b"), Some(2));
        let then = Instant::now();
        let before = (then, figures(&[("tank", "tank/b", "log", 1)]));
        let at = then + Duration::from_secs(2);
        assert_eq!(grown(Some(&before), (at, &now), all, "tank/b"), "3");
        assert_eq!(grown(None, (at, &now), Unknown, "tank/b"), "-");
        assert!(columns("time,cc,imw").is_ok() && columns("nothing").is_err());
    }
}
