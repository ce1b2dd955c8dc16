//! `zpool status`.

use cenote_control::model::{IntentLogReport, PoolStatus, Request, Response, SpareUse, Vdev};

use super::names::{self, Schedule};
use super::scripts::{self, Scripts};
use super::status_dedup;
use super::status_options::Options;
use super::status_scan::{self, Clock};
use super::status_texts::{article, paragraph, status};
use super::status_treatment;
use super::unused;
use cenote_words::context::{Context, Outcome, mismatch};
use cenote_words::format::json::document;
use cenote_words::format::number::{nicebytes, nicenum};
use cenote_words::missing;
use cenote_words::program::CommandLine;
use cenote_words::stores;
use cenote_words::texts::{cannot_open, diagnosis_line, place_text, with_context};
use cenote_words::vdev_rows::{
    Row, Section, aux_words, healthy, rows, shown_in_status, spare_word, state_word,
};

use std::collections::BTreeMap;

/// The minimum width of the name column.
const NAME_WIDTH_MIN: usize = 10;

/// `zpool status`.
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    if line.words.last().is_some_and(|last| last == "-c") {
        scripts::list("status", context);
        return Ok(0);
    }
    let mut parsed = line.parse()?;
    names::check_json(&parsed)?;
    let schedule = Schedule::take(&mut parsed)?;
    let scripts = match parsed.last("c") {
        Some(names) => Some(Scripts::find(names, context)?),
        None => None,
    };
    let mut options = Options {
        scripts,
        said: BTreeMap::new(),
        verbose: parsed.has("v"),
        dedup: parsed.has("D"),
        only_unhealthy: parsed.has("x"),
        only_errors: parsed.has("e"),
        slow: parsed.has("s"),
        direct: parsed.has("d"),
        power: parsed.has("power"),
        initialize: parsed.has("i"),
        trim: parsed.has("t"),
        json: parsed.has("j"),
        flat: parsed.has("json-flat-vdevs"),
        key_guid: parsed.has("json-pool-key-guid"),
        naming: names::naming(&parsed, context),
        style: names::style(&parsed, context),
        zone: context.zone.clone(),
    };
    let mut report = |context: &mut Context, _| report(&parsed.operands, &mut options, context);
    Ok(schedule.repeat(context, &mut report))
}

fn report(operands: &[String], options: &mut Options, context: &mut Context) -> u8 {
    let (names, bad) = super::names::names_to_ask(operands, context);
    if names.is_empty() && !operands.is_empty() {
        return 1;
    }
    let request = Request::PoolStatus {
        pools: names,
        errors: options.verbose,
        dedup: options.dedup,
    };
    let (pools, failures) = match context.ask(request) {
        Ok(Response::Statuses { pools, failures }) => (pools, failures),
        Ok(_) => {
            context.complain(&with_context("cannot get status", &mismatch()));
            return 1;
        }
        Err(error) => {
            context.complain(&with_context("cannot get status", &error));
            return 1;
        }
    };
    for (name, error) in &failures {
        context.complain(&cannot_open(name, error));
    }
    let code = u8::from(bad || !failures.is_empty());
    if options.json && code != 0 {
        // As in OpenZFS: no JSON document if a part failed.
        return code;
    }
    let trees = pools.iter().map(|pool| &pool.vdevs);
    let vdevs = trees.flat_map(|tree| {
        let auxiliary = tree.cache.iter().chain(&tree.spares);
        [&tree.root].into_iter().chain(auxiliary)
    });
    if let Some(scripts) = &options.scripts {
        options.said = scripts.run_below(vdevs);
    }
    if options.json {
        let json = super::status_json::pools(&pools, options, &context.zone);
        context.line(&document("zpool status", "pools", json).to_string());
        return code;
    }
    if pools.is_empty() && operands.is_empty() {
        context.complain("no pools available");
        context.complain_of_lost();
        context.complain_of_missing();
        context.complain_of_record();
        return code;
    }
    // If pools are named, missing pools are not reported.
    let missing = match operands.is_empty() {
        true => context.missing(),
        false => Vec::new(),
    };
    let all = operands.is_empty() && missing.is_empty();
    print_pools(&pools, (operands.is_empty(), all), options, context);
    context.complain_of_lost();
    let zone = context.zone.clone();
    for pool in missing {
        context.complain(&missing::text(&pool, &zone));
    }
    context.complain_of_record();
    code
}

/// Metadata that the import could not read.
fn unread(tables: &[String]) -> String {
    if tables.is_empty() {
        return String::new();
    }
    let mut text = String::from("\ndamaged metadata (files can be read without it):\n\n");
    for table in tables {
        text.push_str(&format!("\t{table}\n"));
    }
    text
}

/// Prints the pools. The flags say whether all pools are listed, and whether none is missing.
fn print_pools(
    pools: &[PoolStatus],
    (all, are_there): (bool, bool),
    options: &Options,
    context: &mut Context,
) {
    let mut printed = false;
    for pool in pools {
        let well = pool
            .condition
            .as_ref()
            .is_none_or(|c| c.counts_as_healthy());
        if options.only_unhealthy && well {
            if !all {
                context.line(&format!("pool '{}' is healthy", pool.name));
            }
            continue;
        }
        if printed {
            context.line("");
        }
        printed = true;
        let text = pool_text(pool, options, context);
        context.print(&text);
    }
    if options.only_unhealthy && are_there && !printed {
        context.line("all pools are healthy");
    }
}

fn pool_text(pool: &PoolStatus, options: &Options, context: &Context) -> String {
    let mut text = format!("  pool: {}\n state: {}\n", pool.name, pool.health.word());
    if let Some(condition) = &pool.condition {
        let (status, action) = status(condition);
        text.push_str(&paragraph("status: ", &status));
        text.push_str(&paragraph("action: ", &action));
        if let Some(id) = condition.message_id() {
            text.push_str(&format!("   see: {}\n", article(id)));
        }
    }
    let clock = Clock {
        now: context.now,
        zone: &context.zone,
    };
    text.push_str(&status_scan::lines(pool, clock));
    text.push_str("config:\n\n");
    text.push_str(&config_table(pool, options));
    text.push('\n');
    text.push_str(&errors_text(pool, options));
    if !pool.outsiders.is_empty() {
        text.push_str("\ndevices that are not used:\n\n");
        for outsider in &pool.outsiders {
            text.push_str(&format!("\t{}\n", diagnosis_line(outsider)));
        }
    }
    text.push_str(&unread(&pool.unread));
    text.push_str(&stores::text(&pool.stores));
    if let Some(dedup) = &pool.dedup {
        text.push_str(&status_dedup::text(dedup, options.style.exact));
    }
    text.push_str(&intent_log_text(&pool.intent_logs));
    if pool.is_writable {
        text.push_str(&unused::text(&pool.vdevs));
    }
    text
}

fn config_table(pool: &PoolStatus, options: &Options) -> String {
    let tree = &pool.vdevs;
    let root = Row {
        vdev: &tree.root,
        name: pool.name.clone(),
        depth: 0,
    };
    let mut width = NAME_WIDTH_MIN.max(root.width());
    for section in std::iter::once(Section::Normal).chain(Section::CLASSES) {
        let rows = rows(section, tree, options.naming);
        let shown = rows.iter().filter(|row| shown_in_status(row));
        width = shown.map(Row::width).fold(width, usize::max);
    }
    let mut text = format!("\t{:<width$}  {:<8}", "NAME", "STATE");
    let mut columns = vec!["READ", "WRITE", "CKSUM"];
    let more = [
        (options.slow, "SLOW"),
        (options.power, "POWER"),
        (options.direct, "DIO"),
    ];
    columns.extend(more.iter().filter(|(on, _)| *on).map(|(_, name)| *name));
    for column in columns {
        text.push_str(&format!(" {column:>5}"));
    }
    for (name, width) in scripts::widths(&options.said) {
        text.push_str(&format!("  {name:>width$}"));
    }
    text.push('\n');
    push_row(&mut text, &root, Section::Normal, width, pool, options);
    push_section(&mut text, Section::Normal, width, pool, options);
    for section in Section::CLASSES {
        if section.vdevs(tree).is_empty() {
            continue;
        }
        let tab = match section {
            Section::Cache | Section::Spares => "",
            _ => "\t",
        };
        text.push_str(&format!("\t{}{tab}\n", section.header()));
        push_section(&mut text, section, width, pool, options);
    }
    text
}

fn push_section(
    text: &mut String,
    section: Section,
    width: usize,
    pool: &PoolStatus,
    options: &Options,
) {
    for row in rows(section, &pool.vdevs, options.naming) {
        let hidden = options.only_errors && healthy(row.vdev, options.slow);
        if shown_in_status(&row) && !hidden {
            push_row(text, &row, section, width, pool, options);
        }
    }
}

fn push_row(
    text: &mut String,
    row: &Row<'_>,
    section: Section,
    width: usize,
    pool: &PoolStatus,
    options: &Options,
) {
    let vdev = row.vdev;
    let spare = section == Section::Spares;
    let state = if row.depth == 0 {
        pool.health.word()
    } else if spare {
        spare_word(vdev)
    } else {
        state_word(vdev)
    };
    text.push_str(&format!("\t{}  {state:<8}", row.padded(width)));
    if !spare {
        let counters = &vdev.counters;
        let cell = |number: u64| {
            if options.style.exact {
                number.to_string()
            } else {
                nicenum(number)
            }
        };
        let errors = [
            counters.read_errors,
            counters.write_errors,
            counters.checksum_errors,
        ];
        for number in errors {
            text.push_str(&format!(" {:>5}", cell(number)));
        }
        if options.slow {
            // Only leaf devices can be slow.
            let combined = !vdev.children.is_empty() && !options.style.exact;
            let slow = if combined {
                "-".to_owned()
            } else {
                cell(counters.slow_ios)
            };
            text.push_str(&format!(" {slow:>5}"));
        }
        if options.power {
            text.push_str(&format!(" {:>5}", "-"));
        }
        if options.direct {
            text.push_str(&format!(" {:>5}", counters.direct_errors));
        }
    }
    // As in OpenZFS, only devices have these columns, not the groups.
    if let Some(said) = options.said.get(&vdev.guid) {
        for (name, width) in scripts::widths(&options.said) {
            let said = said.iter().find(|(column, _)| *column == name);
            let value = said.map_or("-", |(_, value)| value.as_str());
            text.push_str(&format!("  {value:>width$}"));
        }
    }
    text.push_str(&notes(vdev, spare, pool, options));
    text.push('\n');
}

/// The notes after the counters.
fn notes(vdev: &Vdev, spare: bool, pool: &PoolStatus, options: &Options) -> String {
    let mut text = String::new();
    let mut note = |words: &str| {
        text.push_str("  ");
        text.push_str(words);
    };
    if let (true, Some(path)) = (vdev.not_present, &vdev.path) {
        note(&format!("was {path}"));
    } else if let (true, Some(SpareUse::InUseBy(other))) = (spare, &vdev.spare) {
        note(&format!("in use by pool '{other}'"));
    } else if spare && vdev.spare == Some(SpareUse::InUse) {
        note("currently in use");
    } else if let Some(words) = aux_words(vdev) {
        note(words);
    } else if vdev.children.is_empty() && !spare && vdev.ashift < vdev.physical_ashift {
        let bytes = |shift: u64| {
            1u64.checked_shl(u32::try_from(shift).unwrap_or(64))
                .unwrap_or(0)
        };
        let (configured, native) = (bytes(vdev.ashift), bytes(vdev.physical_ashift));
        note(&format!(
            "block size: {configured}B configured, {native}B native"
        ));
    }
    if vdev.removing {
        note("(removing)");
    } else if vdev.no_allocation {
        note("(non-allocating)");
    }
    let waits = vdev.children.is_empty() && vdev.resilver_deferred;
    let scanning = pool.scan.as_ref();
    let scanning = scanning.filter(|s| s.state == cenote_control::model::RunState::Running);
    if vdev.is_rebuilding {
        note("(resilvering)");
    } else if waits {
        note("(awaiting resilver)");
    } else if vdev.children.is_empty()
        && let Some(scan) = scanning
    {
        let resilver = scan.kind == cenote_control::model::ScanKind::Resilver;
        if vdev.scan_processed > 0 {
            note(if resilver {
                "(resilvering)"
            } else {
                "(repairing)"
            });
        }
    }
    if vdev.children.is_empty() && vdev.kind.is_leaf() {
        let details = (options.initialize, options.trim);
        for words in status_treatment::notes(vdev, details, &options.zone) {
            note(&words);
        }
    }
    text
}

fn errors_text(pool: &PoolStatus, options: &Options) -> String {
    if pool.error_count == 0 && pool.errors.is_empty() {
        return "errors: No known data errors\n".to_owned();
    }
    if !options.verbose {
        let count = pool.error_count;
        return format!("errors: {count} data errors, use '-v' for a list\n");
    }
    if pool.errors.is_empty() {
        let count = pool.error_count;
        return format!("errors: {count} data errors; the daemon's user and root can list them\n");
    }
    let mut text =
        "errors: Permanent errors have been detected in the following files:\n\n".to_owned();
    for error in &pool.errors {
        text.push_str(&format!("        {}\n", place_text(&error.place)));
    }
    text
}

/// Records in the intent log after a crash: OpenZFS would replay them at the next writable import.
fn intent_log_text(reports: &[IntentLogReport]) -> String {
    if reports.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nintent log:\n\n");
    let width = reports.iter().map(|report| report.dataset.len()).max();
    let width = width.unwrap_or(0);
    for report in reports {
        if let (0, Some(reason)) = (report.records, &report.broken) {
            text.push_str(&format!(
                "\t{:<width$}  unreadable: {reason}\n",
                report.dataset
            ));
            continue;
        }
        let state = match (report.replayed, report.applied) {
            (true, Some(_)) => "replayed in memory",
            (true, None) => "replayed in memory once it is opened",
            (false, _) => "not replayed",
        };
        text.push_str(&format!(
            "\t{:<width$}  {} records in {} blocks ({}), {state}",
            report.dataset,
            report.records,
            report.blocks,
            nicebytes(report.bytes)
        ));
        if let Some(reason) = &report.stopped {
            let applied = report.applied.unwrap_or(0);
            text.push_str(&format!("; stopped after {applied} at {reason}"));
        }
        if let Some(reason) = &report.broken {
            text.push_str(&format!("; unreadable after that: {reason}"));
        }
        text.push('\n');
    }
    text
}
