//! `cenote top`: the current activity of pools, in a terminal or as text.
//!
//! Samples of the daemon's answers ([`super::sample`]) become tables ([`screens`], [`table`]).
//! [`state`] is what the user sees and what keys do, [`draw`] renders it, [`live`] is the loop.
//! `--batch` prints the same tables.

mod draw;
mod live;
pub mod screens;
mod state;
pub mod table;

use std::io::IsTerminal;
use std::time::Duration;

use super::sample::{Between, Sample};
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, Stop, failed, usage};
use cenote_words::format::date::{Form, date};
use cenote_words::format::json::Object;
use draw::Looks;
use screens::{Scope, Screen};
use state::{INTERVALS, State};
use table::Sort;

/// The command.
pub const COMMAND: Command = Command {
    name: "top",
    summary: "Show what pools, devices, datasets and their clients do now",
    synopsis: "[-i SECONDS] [-s ORDER] [-b ROUNDS] [-j] [POOL]",
    about: "In a terminal: '?' explains the keys. Rates are of the last interval, never means\n\
            since the daemon started. With --batch or --json it prints text. Mounts and\n\
            connections to volumes are the clients; without access to the daemon's socket\n\
            you see mounts only. $NO_COLOR turns colours off.",
    flags: flags! {
        'i' "interval" "SECONDS" "ask the daemon this often; default 2";
        's' "sort" "ORDER" "order of rows: name (the default), operations, bytes, space";
        'b' "batch" "ROUNDS" "print so many rounds as text, then end";
        'j' "json" _ "print a line of JSON for each round; without --batch until it is stopped";
    },
    run: Run::Asking(run),
};

/// The command line.
struct Wanted {
    interval: Duration,
    sort: Sort,
    /// How many rounds to print; `None` for no limit.
    rounds: Option<u64>,
    is_json: bool,
    pool: Option<String>,
}

fn interval(arguments: &Arguments) -> Result<Duration, Stop> {
    let Some(word) = arguments.last("interval") else {
        return Ok(Duration::from_secs(2));
    };
    let seconds = word.to_str().and_then(|word| word.parse::<f64>().ok());
    let interval = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let (least, most) = (INTERVALS[0], INTERVALS[1]);
    interval
        .filter(|interval| (least..=most).contains(interval))
        .ok_or_else(|| {
            let (least, most) = (least.as_secs_f64(), most.as_secs_f64());
            Stop::Usage(format!(
                "--interval: must be from {least} to {most} seconds"
            ))
        })
}

fn wanted(arguments: &Arguments) -> Result<Wanted, Stop> {
    let sort = match arguments.last("sort") {
        None => Sort::Name,
        Some(word) => Sort::ALL
            .into_iter()
            .find(|sort| Some(sort.word()) == word.to_str())
            .ok_or_else(|| {
                let words = Sort::ALL.map(Sort::word).join(", ");
                Stop::Usage(format!("--sort: must be one of {words}"))
            })?,
    };
    let rounds = arguments.number("batch")?;
    if rounds == Some(0) {
        return usage("--batch: must be 1 at least");
    }
    let pool = match arguments.operands.as_slice() {
        [] => None,
        [pool] => Some(pool.to_string_lossy().into_owned()),
        _ => return usage("one POOL at most"),
    };
    Ok(Wanted {
        interval: interval(arguments)?,
        sort,
        rounds,
        is_json: arguments.has("json"),
        pool,
    })
}

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let wanted = wanted(arguments)?;
    if wanted.rounds.is_some() || wanted.is_json {
        return print(&wanted, context);
    }
    let can_draw = context.is_terminal && std::io::stdin().is_terminal();
    let is_dumb = (context.variable)("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    if !can_draw || is_dumb {
        return failed(
            "this is no terminal that can be drawn on. 'cenote top --batch 1' prints text",
        );
    }
    // Check before taking the terminal, so that an error is printed in the shell.
    let sample = sample(context)?;
    check_pool(&sample, &wanted)?;
    let has_colour = (context.variable)("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut state = State::new(wanted.interval, wanted.pool);
    state.sort = wanted.sort;
    if !state.scopes.is_empty() {
        state.screen = Screen::Devices;
    }
    state.take(Ok(sample));
    match live::run(state, Looks { has_colour }, context.connect) {
        Ok(is_stopped) => Ok(if is_stopped { 3 } else { 0 }),
        Err(error) => failed(format!(
            "the terminal failed: {error}. 'cenote top --batch 1' needs none"
        )),
    }
}

fn sample(context: &mut Context) -> Result<Sample, Stop> {
    let sample = Sample::take(&mut |request, part| context.ask_in_parts(request, part));
    sample.or_else(|error| failed(error.to_string()))
}

fn check_pool(sample: &Sample, wanted: &Wanted) -> Result<(), Stop> {
    let is_there = |name: &String| sample.pools.iter().any(|pool| pool.name == *name);
    match wanted.pool.as_ref().filter(|name| !is_there(name)) {
        None => Ok(()),
        Some(name) => failed(format!(
            "cannot open '{name}': no such pool. 'zpool list' shows the imported pools"
        )),
    }
}

/// Prints rounds as text or as lines of JSON.
fn print(wanted: &Wanted, context: &mut Context) -> Outcome {
    let scope = wanted.pool.clone().map(Scope::Pool);
    let mut before = sample(context)?;
    check_pool(&before, wanted)?;
    let mut round = 0;
    while wanted.rounds.is_none_or(|rounds| round < rounds) && !context.output_gone() {
        std::thread::sleep(wanted.interval);
        let now = sample(context)?;
        let between = Between::new(Some(&before), &now);
        match wanted.is_json {
            true => context.line(&json(between, scope.as_ref(), wanted.sort)),
            false => {
                let text = text(between, scope.as_ref(), wanted.sort);
                let time = date(screens::wall_clock(), Form::Locale, &context.zone);
                context.print(&format!("{time}\n\n{text}"));
            }
        }
        context.flush();
        before = now;
        round += 1;
    }
    Ok(0)
}

fn text(between: Between<'_>, scope: Option<&Scope>, sort: Sort) -> String {
    let mut text = String::new();
    for screen in Screen::ALL {
        let mut table = screens::table(screen, scope, between);
        table.sort(sort, false);
        text.push_str(&table.text());
        text.push('\n');
    }
    text
}

fn json(between: Between<'_>, scope: Option<&Scope>, sort: Sort) -> String {
    let mut object = Object::new();
    object.put("time", screens::wall_clock());
    for screen in Screen::ALL {
        let mut table = screens::table(screen, scope, between);
        table.sort(sort, false);
        object.put(screen.name(), table.json());
    }
    cenote_words::format::json::Json::Object(object).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::sample::testing::sample;
    use super::*;
    use std::ffi::OsString;
    use std::time::Instant;

    fn parse(words: &[&str]) -> Result<Wanted, Stop> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        wanted(&Arguments::parse(COMMAND.flags, &words).expect("known options"))
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for words in [
            &["-i", "0"][..],
            &["-i", "nan"],
            &["-i", "-3"],
            &["-i", "1e300"],
            &["-b", "0"],
            &["-s", "size"],
            &["a", "b"],
        ] {
            let refused = matches!(parse(words), Err(Stop::Usage(_)));
            assert!(refused, "{words:?}");
        }
        let wanted = parse(&["-i", "0.5", "-s", "bytes", "-b", "3", "tank"]).expect("valid");
        assert_eq!(wanted.interval, Duration::from_millis(500));
        assert_eq!((wanted.sort, wanted.rounds), (Sort::Bytes, Some(3)));
        assert_eq!(wanted.pool.as_deref(), Some("tank"));
    }

    #[test]
    fn rounds_have_all_screens() {
        let start = Instant::now();
        let (before, now) = (sample(start, 0, 0), sample(start, 2, 2000));
        let between = Between::new(Some(&before), &now);
        let text = text(between, None, Sort::Name);
        for header in ["POOL ", "DEVICE ", "DATASET ", "SERVES "] {
            let found = text.lines().any(|line| line.starts_with(header));
            assert!(found, "{header}: {text}");
        }
        let line = json(between, None, Sort::Name);
        let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(value["pools"][0]["reads"], 1000);
        assert_eq!(value["devices"][2]["depth"], 2);
        assert_eq!(value["clients"][1]["kind"], "nbd");
    }
}
