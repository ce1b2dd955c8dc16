//! `zfs list`.

use cenote_control::model::properties::DATASET;
use cenote_control::model::{Dataset, DatasetKind, KindSet, PropertySelection, Request, Response};

use super::properties::{json_header, properties, property, value_of};
use super::select::{self, Selection, select};
use super::sort::SortKey;
use cenote_words::context::{Context, Outcome, Stop, usage};
use cenote_words::format::json::{Object, document};
use cenote_words::format::property::{Style, Wanted, json_property, show_property};
use cenote_words::format::table::{Column, table};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::texts::property_question;

const DEFAULT: &str = "name,used,available,referenced,mountpoint";
const SPACE: &str = "name,avail,used,usedsnap,usedds,usedrefreserv,usedchild";

/// How to format values.
pub fn style(parsed: &Parsed, context: &Context) -> Style {
    Style {
        exact: parsed.has("p") || parsed.has("json-int"),
        json_int: parsed.has("json-int"),
        zone: context.zone.clone(),
    }
}

/// `zfs list`.
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    if parsed.has("json-int") && !parsed.has("j") {
        return usage("'--json-int' only works with '-j' option");
    }
    let depth = select::depth(&parsed)?;
    let kinds = match parsed.last("t") {
        Some(list) => Some(select::kinds(list)?),
        None => None,
    };
    let keys = sort_keys(&parsed)?;
    let wanted = columns(parsed.last("o").unwrap_or(DEFAULT))?;
    let shown = kinds.unwrap_or(KindSet::HEADS);
    let snapshot_pools = match (kinds, parsed.last("o")) {
        (None, list) if list != Some("space") => pools_listing_snapshots(&parsed, context),
        _ => Vec::new(),
    };
    let snapshots = KindSet::of(DatasetKind::Snapshot);
    let selection = Selection {
        operands: parsed.operands.clone(),
        depth,
        kinds: if snapshot_pools.is_empty() {
            shown
        } else {
            shown.union(snapshots)
        },
        operand_kinds: if kinds.is_none() {
            snapshots
        } else {
            KindSet::NONE
        },
        paths: true,
        properties: asked(&wanted, &keys),
        keys,
    };
    let mut selected = select(&selection, context);
    if kinds.is_none() {
        // Without an explicit request, omit snapshots of pools with listsnapshots=off.
        let asked = |row: &Dataset| parsed.operands.contains(&row.name);
        let listed = |row: &Dataset| snapshot_pools.iter().any(|pool| pool == row.pool());
        let is_head = |row: &Dataset| row.kind != DatasetKind::Snapshot;
        selected
            .rows
            .retain(|row| is_head(row) || asked(row) || listed(row));
    }
    let code = u8::from(selected.failed);
    let style = style(&parsed, context);
    let is_script = parsed.has("H");
    if parsed.has("j") {
        if code == 0 {
            let json = json(&selected.rows, &wanted, &style);
            context.line(&document("zfs list", "datasets", json).to_string());
        }
    } else if !selected.rows.is_empty() {
        let text = text(&selected.rows, &wanted, is_script, &style);
        context.print(&text);
    }
    if selected.rows.is_empty() && code == 0 && !is_script {
        context.complain("no datasets available");
    }
    Ok(code)
}

fn columns(list: &str) -> Result<Vec<Wanted>, Stop> {
    match list {
        "space" => properties(SPACE),
        "all" => Ok(DATASET
            .iter()
            .filter(|p| p.name == "name" || !p.values.is_empty()))
        .map(|all| all.map(Wanted::of).collect()),
        list => properties(list),
    }
}

fn sort_keys(parsed: &Parsed) -> Result<Vec<SortKey>, Stop> {
    let mut keys = Vec::new();
    for (option, name) in parsed.in_order(&["s", "S"]) {
        let Some(wanted) = property(name) else {
            let question = property_question(name, DATASET);
            return usage(format!("invalid property '{name}'{question}"));
        };
        keys.push(SortKey {
            wanted,
            descending: option == "S",
        });
    }
    Ok(keys)
}

fn asked(wanted: &[Wanted], keys: &[SortKey]) -> PropertySelection {
    let mut names: Vec<String> = Vec::new();
    for wanted in wanted.iter().chain(keys.iter().map(|key| &key.wanted)) {
        if wanted.name != "name" && !names.contains(&wanted.name) {
            names.push(wanted.name.clone());
        }
    }
    PropertySelection::Named(names)
}

/// Pools whose property listsnapshots is on.
fn pools_listing_snapshots(parsed: &Parsed, context: &mut Context) -> Vec<String> {
    if !parsed.operands.is_empty() && !parsed.has("r") && !parsed.has("d") {
        return Vec::new();
    }
    let request = Request::PoolList {
        pools: Vec::new(),
        properties: PropertySelection::Named(vec!["listsnapshots".to_owned()]),
        vdevs: false,
    };
    let Ok(Response::Pools { pools, .. }) = context.ask(request) else {
        // The listing itself will report the error.
        return Vec::new();
    };
    let on = pools.into_iter().filter(|pool| {
        let property = pool.property("listsnapshots");
        property.and_then(|p| p.value.text()) == Some("on")
    });
    on.map(|pool| pool.name).collect()
}

fn text(rows: &[Dataset], wanted: &[Wanted], script: bool, style: &Style) -> String {
    let columns: Vec<Column> = wanted.iter().map(|w| w.column(style.exact)).collect();
    let cells = |row: &Dataset| -> Vec<String> {
        let cell = |wanted: &Wanted| show_property(value_of(row, wanted).as_ref(), wanted, style);
        wanted.iter().map(cell).collect()
    };
    let lines: Vec<Vec<String>> = rows.iter().map(cells).collect();
    table(&columns, &lines, script)
}

fn json(rows: &[Dataset], wanted: &[Wanted], style: &Style) -> Object {
    let mut all = Object::new();
    for row in rows {
        let mut object = json_header(row, style.json_int);
        let mut values = Object::new();
        for wanted in wanted.iter().filter(|w| w.name != "name") {
            let property = value_of(row, wanted);
            values.put(
                &wanted.name,
                json_property(property.as_ref(), wanted, style),
            );
        }
        object.put("properties", values);
        all.put(&row.name, object);
    }
    all
}
