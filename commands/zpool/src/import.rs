//! `zpool import`.

use std::ffi::OsStr;
use std::path::Path;

use cenote_base::is_url;
use cenote_control::model::properties::{self, POOL, VDEV};
use cenote_control::model::{
    ControlError, ImportOptions, ImportPick, IntentLogReport, Request, Response, Rewind, Rewound,
    Search,
};

use super::create::full_name;
use super::import_list::candidate_text;
use super::load_and_mount::load_and_mount;
use super::names;
use cenote_base::listed;
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use cenote_words::format::date::{Form, date};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::texts::{cannot_import, diagnosis_line, with_context};
use cenote_zfs_commands::zfs;

/// Our import property: replay the intent log in memory.
const REPLAY: &str = "cenote:replay";
/// Our import property: where the pool begins in each file or device.
const OFFSET: &str = "cenote:offset";

/// `zpool import`.
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    check(&parsed)?;
    let mut search = search(&parsed, context);
    let options = options(&parsed, &mut search)?;
    let all = parsed.has("a");
    if !all && parsed.operands.is_empty() {
        return list(search, &parsed, context);
    }
    let pick = match parsed.operands.first() {
        None => ImportPick::All,
        Some(word) => match word.parse::<u64>() {
            Ok(guid) if guid != 0 => ImportPick::Guid(guid),
            _ => ImportPick::Name(word.clone()),
        },
    };
    import(search, pick, options, &parsed, context)
}

fn check(parsed: &Parsed) -> Result<(), Stop> {
    if parsed.given("c") && parsed.given("d") {
        return usage("-c is incompatible with -d");
    }
    if (parsed.given("n") || parsed.given("X")) && !parsed.given("F") {
        return usage("-n or -X only meaningful with -F");
    }
    if parsed.given("l") && parsed.given("N") {
        return usage("-l is incompatible with -N");
    }
    if parsed.given("l") && !parsed.given("a") && parsed.operands.is_empty() {
        return usage("-l is only meaningful during an import");
    }
    let most = if parsed.given("a") { 0 } else { 2 };
    if parsed.operands.len() > most {
        return usage("too many arguments");
    }
    Ok(())
}

/// An absolute path, which the daemon can use in any working directory.
fn absolute(path: &str, context: &Context) -> String {
    if is_url(Path::new(path)) {
        return path.to_owned();
    }
    context
        .place(Path::new(path))
        .to_string_lossy()
        .into_owned()
}

fn search(parsed: &Parsed, context: &Context) -> Search {
    let mut paths: Vec<String> = parsed
        .all("d")
        .map(|path| absolute(path, context))
        .collect();
    if paths.is_empty()
        && let Some(list) = (context.variable)("ZPOOL_IMPORT_PATH")
    {
        let set = listed(OsStr::new(&list)).into_iter();
        paths.extend(set.map(|path| absolute(&path.to_string_lossy(), context)));
    }
    Search {
        paths,
        // A scan of the devices (`-s`) uses no cache file.
        cache_file: match (parsed.has("s"), parsed.last("c")) {
            (false, Some(path)) => Some(absolute(path, context)),
            _ => None,
        },
        offset: 0,
        destroyed: parsed.has("D"),
    }
}

fn options(parsed: &Parsed, search: &mut Search) -> Result<ImportOptions, Stop> {
    let mut options = ImportOptions {
        new_name: parsed.operands.get(1).cloned(),
        temporary_name: parsed.has("t"),
        altroot: parsed.last("R").map(str::to_owned),
        force: parsed.has("f"),
        rewind_dry_run: parsed.has("n"),
        checkpoint_rewind: parsed.has("rewind-to-checkpoint"),
        missing_log: parsed.has("m"),
        // With -l, keys are loaded before mounting.
        no_mount: parsed.has("N") || parsed.has("l"),
        ..ImportOptions::default()
    };
    if parsed.has("F") {
        let extreme = parsed.has("X");
        options.rewind = if extreme {
            Rewind::Extreme
        } else {
            Rewind::Recent
        };
    }
    if let Some(word) = parsed.last("T") {
        match word.parse::<u64>() {
            Ok(txg) => options.rewind = Rewind::Txg(txg),
            Err(_) => return usage("invalid txg value"),
        }
    }
    let root = parsed.has("R").then(|| "altroot".to_owned());
    let given = parsed.all("o").filter_map(|word| word.split_once('='));
    let given: Vec<String> = root
        .into_iter()
        .chain(given.map(|(name, _)| full_name(name)))
        .collect();
    if let Some(problem) = zfs::named_twice(&given) {
        return failed(problem);
    }
    for word in parsed.all("o") {
        option(word, &mut options, search)?;
    }
    Ok(options)
}

fn option(word: &str, options: &mut ImportOptions, search: &mut Search) -> Result<(), Stop> {
    let Some((name, value)) = word.split_once('=') else {
        let words = word.split(',').map(str::to_owned);
        options.mount_options.extend(words);
        return Ok(());
    };
    let bad = |name: &str, reason: &str| {
        failed(format!("cannot set property for import: '{name}' {reason}"))
    };
    match full_name(name).as_str() {
        "readonly" => match value {
            "on" => options.readonly = true,
            "off" => options.readonly = false,
            _ => return bad(name, "must be one of 'on | off'"),
        },
        "altroot" => options.altroot = Some(value.to_owned()),
        REPLAY => match value {
            "memory" => options.replay_in_memory = true,
            "off" => options.replay_in_memory = false,
            _ => return bad(name, "must be one of 'memory | off'"),
        },
        OFFSET => match cenote_base::parse_size(value) {
            Ok(offset) => search.offset = offset,
            Err(_) => return bad(name, "must be a number of bytes"),
        },
        _ => {
            let known = properties::find(POOL, name).or_else(|| properties::find(VDEV, name));
            if known.is_none() && !name.starts_with("feature@") {
                return failed(super::create::not_a_property(name));
            }
            let pair = (full_name(name), value.to_owned());
            options.properties.push(pair);
        }
    }
    Ok(())
}

fn list(search: Search, parsed: &Parsed, context: &mut Context) -> Outcome {
    let naming = names::naming(parsed, context);
    let (candidates, unreadable) = match context.ask(Request::ImportSearch { search }) {
        Ok(Response::Candidates {
            candidates,
            unreadable,
        }) => (candidates, unreadable),
        Ok(_) => return failed(with_context("cannot search for pools", &mismatch())),
        Err(error) => return failed(with_context("cannot search for pools", &error)),
    };
    let only_destroyed = parsed.has("D");
    let mut first = true;
    for candidate in candidates.iter().filter(|c| c.destroyed == only_destroyed) {
        if !first {
            context.line("");
        }
        first = false;
        context.print(&candidate_text(candidate, naming));
    }
    if first {
        context.complain("no pools available to import");
    }
    warn_of(&unreadable, context);
    Ok(0)
}

fn warn_of(lines: &[String], context: &mut Context) {
    for line in lines {
        context.complain(&format!("warning: {line}"));
    }
}

/// Warns about unreadable devices if a pool was not found.
fn warn_of_search(search: Search, context: &mut Context) {
    let answer = context.ask(Request::ImportSearch { search });
    if let Ok(Response::Candidates { unreadable, .. }) = answer {
        warn_of(&unreadable, context);
    }
}

fn import(
    search: Search,
    pick: ImportPick,
    options: ImportOptions,
    parsed: &Parsed,
    context: &mut Context,
) -> Outcome {
    let named = parsed.operands.first().cloned();
    let dry_run = options.rewind_dry_run;
    let request = Request::Import {
        search: search.clone(),
        pick,
        options,
    };
    let (pools, failures, rewound, warnings) = match context.ask_noted(request) {
        Ok(Response::Imported {
            pools,
            failures,
            rewound,
            diagnoses,
            cut_short,
            unread,
        }) => {
            let diagnoses = diagnoses.iter().map(diagnosis_line);
            let cut_short = cut_short.iter().map(cut_short_line);
            let unread = unread.iter().map(|(pool, text)| format!("{pool}: {text}"));
            let warnings: Vec<String> = diagnoses.chain(cut_short).chain(unread).collect();
            (pools, failures, rewound, warnings)
        }
        Ok(_) => return failed(with_context("cannot import", &mismatch())),
        Err(error) => {
            let name = named.unwrap_or_else(|| "all".to_owned());
            context.complain(&cannot_import(&name, &error, &context.zone));
            if matches!(error, ControlError::NoSuchCandidate { .. }) {
                warn_of_search(search, context);
            }
            return Ok(1);
        }
    };
    complain_of(&failures, &pools, context);
    warn_of(&warnings, context);
    context.complain_of_record();
    if pools.is_empty() && failures.is_empty() && !dry_run {
        return match named {
            Some(name) => {
                let error = ControlError::NoSuchCandidate { pool: name.clone() };
                failed(cannot_import(&name, &error, &context.zone))
            }
            None => {
                context.complain("no pools available to import");
                warn_of_search(search, context);
                Ok(0)
            }
        };
    }
    if let Some(rewound) = rewound {
        report_rewind(&pools, named.as_deref(), &rewound, dry_run, context);
    }
    if !pools.is_empty() && !dry_run {
        zfs::tell_of_unshared(&pools, "warning: not shared:", context);
    }
    let mut code = u8::from(!failures.is_empty());
    if parsed.has("l") {
        for pool in &pools {
            code = code.max(load_and_mount(pool, context));
        }
    }
    Ok(code)
}

/// Reports which pools were not imported, and which file systems of the others are not mounted.
fn complain_of(failures: &[(String, ControlError)], pools: &[String], context: &mut Context) {
    for (name, error) in failures {
        let pool = name.split('/').next().unwrap_or(name);
        let text = match pools.iter().any(|imported| imported == pool) {
            true => with_context(&format!("cannot mount '{name}'"), error),
            false => cannot_import(name, error, &context.zone),
        };
        context.complain(&text);
    }
}

/// A message about a replay that did not reach the end of the intent log.
fn cut_short_line(log: &IntentLogReport) -> String {
    let (dataset, applied) = (&log.dataset, log.applied.unwrap_or(0));
    match (&log.stopped, &log.broken) {
        (Some(reason), _) => format!(
            "{dataset}: the replay of the intent log stopped after {applied} of {} records, \
             at {reason}",
            log.records
        ),
        (None, reason) => format!(
            "{dataset}: the intent log cannot be read to its end: {}",
            reason.as_deref().unwrap_or("")
        ),
    }
}

fn report_rewind(
    pools: &[String],
    named: Option<&str>,
    rewound: &Rewound,
    dry_run: bool,
    context: &mut Context,
) {
    let pool = pools
        .first()
        .map(String::as_str)
        .or(named)
        .unwrap_or("pool");
    let when = date(rewound.time, Form::Ctime, &context.zone);
    let lost = rewound.lost_seconds;
    let verb = if dry_run {
        format!("Would be able to return {pool} to its state as of {when}.")
    } else {
        format!("Pool {pool} returned to its state as of {when}.")
    };
    context.line(&verb);
    let discard = if dry_run {
        "Would discard"
    } else {
        "Discarded"
    };
    context.line(&format!(
        "{discard} approximately {lost} seconds of transactions."
    ));
}
