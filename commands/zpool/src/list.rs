//! `zpool list`.

use cenote_control::model::{
    PoolRow, PropertySelection, Request, Response, Source, Vdev, VdevKind, VdevNaming, VdevTree,
};

use super::names::{self, Schedule};
use cenote_words::context::{Context, Outcome, mismatch};
use cenote_words::format::json::{Json, Object, document, number};
use cenote_words::format::number::{nicebytes, nicenum, percent, share};
use cenote_words::format::property::{Style, Wanted, json_pair, json_property, show_property};
use cenote_words::format::table;
use cenote_words::program::CommandLine;
use cenote_words::texts::{cannot_open, with_context};
use cenote_words::vdev_rows::{Row, Section, rows, spare_word, state_word};

const DEFAULT: &str = "name,size,allocated,free,checkpoint,expandsize,fragmentation,capacity,\
                       dedupratio,health,altroot";

/// The minimum width of the name column with `-v`.
const VERBOSE_NAME_WIDTH: usize = 9;

struct Options {
    wanted: Vec<Wanted>,
    script: bool,
    verbose: bool,
    json: bool,
    key_guid: bool,
    naming: VdevNaming,
    style: Style,
}

/// `zpool list`.
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let mut parsed = line.parse()?;
    names::check_json(&parsed)?;
    let wanted = names::pool_properties(parsed.last("o").unwrap_or(DEFAULT))?;
    let schedule = Schedule::take(&mut parsed)?;
    let options = Options {
        wanted,
        script: parsed.has("H"),
        verbose: parsed.has("v"),
        json: parsed.has("j"),
        key_guid: parsed.has("json-pool-key-guid"),
        naming: names::naming(&parsed, context),
        style: names::style(&parsed, context),
    };
    let mut report = |context: &mut Context, round| {
        // The header is repeated only if the number of rows varies.
        let header = round == 0 || options.verbose;
        report(&parsed.operands, &options, header, context)
    };
    Ok(schedule.repeat(context, &mut report))
}

fn report(operands: &[String], options: &Options, header: bool, context: &mut Context) -> u8 {
    let (names, bad) = names::names_to_ask(operands, context);
    if names.is_empty() && !operands.is_empty() {
        return 1;
    }
    let mut properties: Vec<String> = options.wanted.iter().map(|w| w.name.clone()).collect();
    properties.retain(|name| name != "name");
    let request = Request::PoolList {
        pools: names,
        properties: PropertySelection::Named(properties),
        vdevs: options.verbose,
    };
    let (pools, failures) = match context.ask(request) {
        Ok(Response::Pools { pools, failures }) => (pools, failures),
        Ok(_) => {
            context.complain(&with_context("cannot list pools", &mismatch()));
            return 1;
        }
        Err(error) => {
            context.complain(&with_context("cannot list pools", &error));
            return 1;
        }
    };
    for (name, error) in &failures {
        context.complain(&cannot_open(name, error));
    }
    if pools.is_empty() {
        if failures.is_empty() && !bad {
            if !options.script && !options.json {
                context.line("no pools available");
            }
            return 0;
        }
        return 1;
    }
    if options.json {
        let json = document("zpool list", "pools", json_pools(&pools, options));
        context.line(&json.to_string());
    } else {
        let text = text_pools(&pools, options, header);
        context.print(&text);
    }
    0
}

fn text_pools(pools: &[PoolRow], options: &Options, header: bool) -> String {
    let cells = |pool: &PoolRow| -> Vec<String> {
        let cell = |wanted: &Wanted| cell(pool, wanted, options);
        options.wanted.iter().map(cell).collect()
    };
    let lines: Vec<Vec<String>> = pools.iter().map(cells).collect();
    let mut columns: Vec<table::Column> = Vec::new();
    for wanted in &options.wanted {
        columns.push(wanted.column(options.style.exact));
    }
    let name_width = verbose_name_width(pools, options);
    if options.verbose {
        for (column, wanted) in columns.iter_mut().zip(&options.wanted) {
            if wanted.name == "name" {
                column.width_min = name_width;
            }
        }
    }
    let widths = table::widths(&columns, &lines);
    let mut text = String::new();
    if header && !options.script {
        let headers: Vec<String> = columns.iter().map(|c| c.header.clone()).collect();
        table::push_row(&mut text, &columns, &widths, &headers);
    }
    for (pool, line) in pools.iter().zip(&lines) {
        if options.script {
            text.push_str(&line.join("\t"));
            text.push('\n');
        } else {
            table::push_row(&mut text, &columns, &widths, line);
        }
        if let Some(tree) = &pool.vdevs {
            push_vdevs(&mut text, tree, name_width, options);
        }
    }
    text
}

fn cell(pool: &PoolRow, wanted: &Wanted, options: &Options) -> String {
    match wanted.name.as_str() {
        "name" => pool.name.clone(),
        "health" => pool.health.word().to_owned(),
        _ => show_property(pool.property(&wanted.name), wanted, &options.style),
    }
}

fn verbose_name_width(pools: &[PoolRow], options: &Options) -> usize {
    let mut width = VERBOSE_NAME_WIDTH;
    for pool in pools {
        width = width.max(pool.name.chars().count());
        let Some(tree) = &pool.vdevs else { continue };
        for section in std::iter::once(Section::Normal).chain(Section::CLASSES) {
            for row in rows(section, tree, options.naming) {
                width = width.max(row.width());
            }
        }
    }
    width
}

fn push_vdevs(text: &mut String, tree: &VdevTree, name_width: usize, options: &Options) {
    for row in rows(Section::Normal, tree, options.naming) {
        push_vdev(text, &row, Section::Normal, name_width, options);
    }
    for section in Section::CLASSES {
        let rows = rows(section, tree, options.naming);
        if rows.is_empty() {
            continue;
        }
        let dash = "-";
        let header = match section {
            Section::Spares => "spare",
            other => other.header(),
        };
        // The reference prints the same with -H; tools skip the line by its shape.
        text.push_str(&format!(
            "{header:<name_width$}  {dash:>5}  {dash:>5}  {dash:>5}  {dash:>7}  {dash:>8}  \
             {dash:>5}  {dash:>5}  {dash:>5}  {dash:>8}\n"
        ));
        for row in rows {
            push_vdev(text, &row, section, name_width, options);
        }
    }
}

/// The widths of a vdev row's columns, SIZE to HEALTH.
const VDEV_WIDTHS: [usize; 9] = [5, 5, 5, 7, 8, 5, 5, 5, 8];

fn push_vdev(
    text: &mut String,
    row: &Row<'_>,
    section: Section,
    name_width: usize,
    options: &Options,
) {
    let cells = vdev_cells(row.vdev, section, &options.style);
    if options.script {
        text.push_str(&format!("\t{}\t{}\n", row.name, cells.join("\t")));
        return;
    }
    text.push_str(&row.padded(name_width));
    for (cell, width) in cells.iter().zip(VDEV_WIDTHS) {
        text.push_str(&format!("  {cell:>width$}"));
    }
    text.push('\n');
}

/// SIZE ALLOC FREE CKPOINT EXPANDSZ FRAG CAP DEDUP HEALTH of a vdev.
fn vdev_cells(vdev: &Vdev, section: Section, style: &Style) -> [String; 9] {
    let dash = || "-".to_owned();
    let space = &vdev.space;
    let count = |number: u64| {
        if style.exact {
            number.to_string()
        } else {
            nicenum(number)
        }
    };
    let bytes = |number: u64| match number {
        0 => dash(),
        number if style.exact => number.to_string(),
        number => nicebytes(number),
    };
    // Top-level vdevs have space; vdevs below them show only the size of their device.
    let own = space.total != 0 && vdev.kind != VdevKind::Indirect;
    let size = if space.physical != 0 {
        count(space.physical)
    } else if own {
        count(space.total)
    } else {
        dash()
    };
    let capacity = if style.exact {
        percent(space.allocated, space.total).to_string()
    } else {
        share(space.allocated, space.total)
    };
    let fragmentation = match space.fragmentation.filter(|f| *f != u64::MAX) {
        Some(number) if style.exact => number.to_string(),
        Some(number) => format!("{number}%"),
        None => dash(),
    };
    let if_own = |cell: String| if own { cell } else { dash() };
    let health = match section {
        Section::Spares => spare_word(vdev),
        _ => state_word(vdev),
    };
    [
        size,
        if_own(count(space.allocated)),
        if_own(count(space.total.saturating_sub(space.allocated))),
        if_own(bytes(space.checkpoint)),
        bytes(space.expandable),
        if_own(fragmentation),
        if_own(capacity),
        dash(),
        health.to_owned(),
    ]
}

fn json_pools(pools: &[PoolRow], options: &Options) -> Object {
    let mut all = Object::new();
    for pool in pools {
        let mut object = json_header(pool, options.style.json_int);
        let mut properties = Object::new();
        for wanted in options.wanted.iter().filter(|w| w.name != "name") {
            properties.put(&wanted.name, pool_property(pool, wanted, &options.style));
        }
        object.put("properties", properties);
        if let Some(tree) = &pool.vdevs {
            object.put("vdevs", json_vdevs(tree, options));
        }
        let key = if options.key_guid {
            pool.guid.to_string()
        } else {
            pool.name.clone()
        };
        all.put(&key, object);
    }
    all
}

/// The first members of every pool's JSON object.
pub fn json_header(pool: &PoolRow, bare: bool) -> Object {
    let mut object = Object::new();
    object.put("name", pool.name.as_str());
    object.put("type", "POOL");
    object.put("state", pool.health.word());
    object.put("pool_guid", number(pool.guid, bare));
    object.put("txg", number(pool.txg, bare));
    object.put("spa_version", number(pool.version, bare));
    object.put("zpl_version", number(5, bare));
    object
}

/// A pool's property in JSON; health comes from the pool itself.
pub fn pool_property(pool: &PoolRow, wanted: &Wanted, style: &Style) -> Json {
    match wanted.name.as_str() {
        "health" => json_pair(Json::from(pool.health.word()), &Source::None),
        _ => json_property(pool.property(&wanted.name), wanted, style),
    }
}

fn json_vdevs(tree: &VdevTree, options: &Options) -> Object {
    let mut object = Object::new();
    for vdev in Section::Normal.vdevs(tree) {
        let key = vdev.name(options.naming);
        object.put(&key, json_vdev(vdev, Section::Normal, options));
    }
    for section in Section::CLASSES {
        let mut members = Object::new();
        for vdev in section.vdevs(tree) {
            let key = vdev.name(options.naming);
            members.put(&key, json_vdev(vdev, section, options));
        }
        if !members.is_empty() {
            object.put(super::status_json::section_key(section), members);
        }
    }
    object
}

/// The depth of a vdev tree is bounded by its decoder: a root, a top-level vdev, a spare or
/// replacing vdev in it, leaves.
fn json_vdev(vdev: &Vdev, section: Section, options: &Options) -> Object {
    let style = &options.style;
    let mut object = super::status_json::vdev_identity(vdev, section, options.naming, style);
    object.put("state", super::status_json::list_state(vdev));
    let names = [
        "size",
        "allocated",
        "free",
        "checkpoint",
        "expandsize",
        "fragmentation",
        "capacity",
        "dedupratio",
        "health",
    ];
    let mut properties = Object::new();
    for (name, cell) in names.iter().zip(vdev_cells(vdev, section, style)) {
        let value = match cell.parse::<u64>() {
            Ok(number) if style.json_int => Json::Number(number),
            _ => Json::Text(cell),
        };
        properties.put(name, json_pair(value, &Source::None));
    }
    object.put("properties", properties);
    if !vdev.children.is_empty() {
        let mut children = Object::new();
        for child in &vdev.children {
            let key = child.name(options.naming);
            children.put(&key, json_vdev(child, section, options));
        }
        object.put("vdevs", children);
    }
    object
}
