//! `zpool get`.

use cenote_control::model::properties::{self, POOL, VDEV};
use cenote_control::model::{
    PoolRow, Property, PropertySelection, Request, Response, Source, VdevNaming, VdevRow,
};

use super::list::{json_header, pool_property};
use super::names;
use super::status_json;
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use cenote_words::format::json::{Json, Object, document};
use cenote_words::format::property::{Style, Wanted, json_property, show_property, source_word};
use cenote_words::format::table::{Column, table};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::texts::{check_pool_name, question, with_context};
use cenote_words::vdev_rows::Section;

/// A column of the output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    Property,
    Value,
    Source,
}

struct Options {
    fields: Vec<Field>,
    /// `None` means all.
    wanted: Option<Vec<String>>,
    script: bool,
    json: bool,
    key_guid: bool,
    style: Style,
    naming: VdevNaming,
}

/// `zpool get`.
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    names::check_json(&parsed)?;
    let fields = fields(&parsed)?;
    let Some((list, operands)) = parsed.operands.split_first() else {
        return usage("missing property argument");
    };
    let wanted = match list.as_str() {
        "all" => None,
        "" => return usage("bad property list: no properties specified"),
        list => Some(list.split(',').map(str::to_owned).collect()),
    };
    let options = Options {
        fields,
        wanted,
        script: parsed.has("H"),
        json: parsed.has("j"),
        key_guid: parsed.has("json-pool-key-guid"),
        style: names::style(&parsed, context),
        naming: names::naming(&parsed, context),
    };
    let pools = existing_pools(operands, context)?;
    if operands.len() > 1 && pools.len() < operands.len() {
        // If any of these words is not a pool, all words after the first are vdevs in it.
        return vdevs(&operands[0], &operands[1..], &options, context);
    }
    pools_report(operands, &options, context)
}

fn fields(parsed: &Parsed) -> Result<Vec<Field>, Stop> {
    let all = vec![Field::Name, Field::Property, Field::Value, Field::Source];
    let Some(list) = parsed.last("o") else {
        return Ok(all);
    };
    let mut fields = Vec::new();
    for word in list.split(',') {
        fields.push(match word {
            "all" => return Ok(all),
            "name" => Field::Name,
            "property" => Field::Property,
            "value" => Field::Value,
            "source" => Field::Source,
            _ => {
                let known = ["all", "name", "property", "value", "source"];
                let question = question(word, known);
                return usage(format!("invalid column name '{word}'{question}"));
            }
        });
    }
    Ok(fields)
}

/// The operands that are imported pools; an error unless the first one is.
fn existing_pools(operands: &[String], context: &mut Context) -> Result<Vec<String>, Stop> {
    let Some(first) = operands.first() else {
        return Ok(Vec::new());
    };
    let fits = |name: &&String| check_pool_name(name).is_ok();
    let names: Vec<String> = operands.iter().filter(fits).cloned().collect();
    let request = Request::PoolList {
        pools: names,
        properties: PropertySelection::Named(Vec::new()),
        vdevs: false,
    };
    let found = match context.ask(request) {
        Ok(Response::Pools { pools, .. }) => pools,
        Ok(_) => return failed(with_context("cannot get properties", &mismatch())),
        Err(error) => return failed(with_context("cannot get properties", &error)),
    };
    let names: Vec<String> = found.into_iter().map(|pool| pool.name).collect();
    if !names.contains(first) {
        return failed(format!(
            "Cannot get properties of {first}: no such pool available."
        ));
    }
    Ok(names)
}

fn selection(options: &Options, wanted: &[Wanted]) -> PropertySelection {
    match options.wanted {
        None => PropertySelection::All,
        Some(_) => PropertySelection::Named(wanted.iter().map(|w| w.name.clone()).collect()),
    }
}

fn pools_report(operands: &[String], options: &Options, context: &mut Context) -> Outcome {
    let wanted = match &options.wanted {
        Some(list) => names::pool_properties(&list.join(","))?,
        None => Vec::new(),
    };
    let request = Request::PoolList {
        pools: operands.to_vec(),
        properties: selection(options, &wanted),
        vdevs: false,
    };
    let pools = match context.ask(request) {
        Ok(Response::Pools { pools, .. }) => pools,
        Ok(_) => return failed(with_context("cannot get properties", &mismatch())),
        Err(error) => return failed(with_context("cannot get properties", &error)),
    };
    let mut lines: Vec<(String, Wanted, Option<&Property>)> = Vec::new();
    for pool in &pools {
        for wanted in pool_lines(pool, &wanted, options) {
            let property = pool.property(&wanted.name);
            lines.push((pool.name.clone(), wanted, property));
        }
    }
    if options.json {
        print_pools_json(&pools, &wanted, options, context);
    } else if !pools.is_empty() {
        print_lines(&lines, options, context);
    }
    Ok(0)
}

/// The properties of a pool to print, in order.
fn pool_lines(pool: &PoolRow, wanted: &[Wanted], options: &Options) -> Vec<Wanted> {
    if options.wanted.is_some() {
        // Unknown features are skipped.
        let known =
            |w: &&Wanted| !w.name.starts_with("feature@") || pool.property(&w.name).is_some();
        return wanted.iter().filter(known).cloned().collect();
    }
    let listed = POOL.iter().filter(|info| info.name != "name");
    let mut all: Vec<Wanted> = listed
        .filter(|info| pool.property(info.name).is_some())
        .map(Wanted::of)
        .collect();
    // Features in OpenZFS's order, then features that it does not know, then user properties.
    let place = |name: &str| {
        let feature = name.strip_prefix("feature@");
        let known = feature.and_then(|f| cenote_words::FEATURES.iter().position(|name| *name == f));
        (feature.is_none(), known.unwrap_or(usize::MAX))
    };
    let rest = pool.properties.iter();
    let rest = rest.filter(|p| properties::find(POOL, &p.name).is_none());
    let mut rest: Vec<&Property> = rest.collect();
    rest.sort_by_key(|property| place(&property.name));
    all.extend(rest.into_iter().map(|p| Wanted::named(&p.name)));
    all
}

fn print_lines(
    lines: &[(String, Wanted, Option<&Property>)],
    options: &Options,
    context: &mut Context,
) {
    let value_width = lines.iter().map(|(_, wanted, property)| {
        let column = wanted.column(options.style.exact);
        let shown = show_property(*property, wanted, &options.style);
        let measured = if column.measured { shown.len() } else { 0 };
        column.width_min.max(measured)
    });
    let value = Column {
        header: "VALUE".to_owned(),
        width_min: value_width.max().unwrap_or(0).max(5),
        measured: false,
        right: false,
    };
    let mut columns = Vec::new();
    for field in &options.fields {
        columns.push(match field {
            Field::Name => Column::text("NAME"),
            Field::Property => Column::text("PROPERTY"),
            Field::Value => value.clone(),
            Field::Source => Column::text("SOURCE"),
        });
    }
    let mut rows = Vec::new();
    for (name, wanted, property) in lines {
        let cell = |field: &Field| match field {
            Field::Name => name.clone(),
            Field::Property => wanted.name.clone(),
            Field::Value => show_property(*property, wanted, &options.style),
            Field::Source => source_word(&source_of(*property, wanted)),
        };
        rows.push(options.fields.iter().map(cell).collect());
    }
    context.print(&table(&columns, &rows, options.script));
}

/// The source of an unset user property is `default`, unlike a dataset's.
fn source_of(property: Option<&Property>, wanted: &Wanted) -> Source {
    match property {
        Some(property) => property.source.clone(),
        None if properties::is_user_property(&wanted.name) => Source::Default,
        None => Source::None,
    }
}

fn print_pools_json(
    pools: &[PoolRow],
    wanted: &[Wanted],
    options: &Options,
    context: &mut Context,
) {
    let mut all = Object::new();
    for pool in pools {
        let mut object = json_header(pool, options.style.json_int);
        let mut values = Object::new();
        for wanted in pool_lines(pool, wanted, options) {
            values.put(&wanted.name, pool_property(pool, &wanted, &options.style));
        }
        object.put("properties", values);
        let key = if options.key_guid {
            pool.guid.to_string()
        } else {
            pool.name.clone()
        };
        all.put(&key, object);
    }
    context.line(&document("zpool get", "pools", all).to_string());
}

fn vdev_property(name: &str) -> Result<Wanted, Stop> {
    match properties::find(VDEV, name) {
        Some(info) => Ok(Wanted::of(info)),
        None if properties::is_user_property(name) => Ok(Wanted::named(name)),
        None => {
            let question = cenote_words::texts::property_question(name, VDEV);
            usage(format!(
                "bad property list: invalid property '{name}'{question}"
            ))
        }
    }
}

fn vdevs(pool: &str, words: &[String], options: &Options, context: &mut Context) -> Outcome {
    let mut wanted = Vec::new();
    for name in options.wanted.iter().flatten() {
        wanted.push(vdev_property(name)?);
    }
    let all = words.len() == 1 && words[0] == "all-vdevs";
    let request = Request::VdevGet {
        pool: pool.to_owned(),
        vdevs: if all { Vec::new() } else { words.to_vec() },
        properties: selection(options, &wanted),
    };
    let (row, found, unknown) = match context.ask(request) {
        Ok(Response::Vdevs {
            pool,
            vdevs,
            unknown,
        }) => (pool, vdevs, unknown),
        Ok(_) => return failed(with_context("cannot get vdev properties", &mismatch())),
        Err(error) => return failed(with_context("cannot get vdev properties", &error)),
    };
    if !unknown.is_empty() {
        let mut text = format!("Expected a list of vdevs in \"{pool}\", but got:");
        for name in &unknown {
            text.push_str(&format!("\n\t{name} (unknown)"));
        }
        text.push('\n');
        return usage(text);
    }
    let mut lines = Vec::new();
    for vdev in &found {
        for wanted in vdev_lines(vdev, &wanted, options) {
            let property = vdev.properties.iter().find(|p| p.name == wanted.name);
            lines.push((vdev.vdev.name(options.naming), wanted, property));
        }
    }
    if options.json {
        print_vdevs_json(&row, &found, &wanted, options, context);
    } else {
        print_lines(&lines, options, context);
    }
    Ok(0)
}

fn vdev_lines(vdev: &VdevRow, wanted: &[Wanted], options: &Options) -> Vec<Wanted> {
    if options.wanted.is_some() {
        return wanted.to_vec();
    }
    let has = |name: &str| vdev.properties.iter().any(|p| p.name == name);
    let listed = VDEV.iter().filter(|info| info.name != "name");
    let mut all: Vec<Wanted> = listed
        .filter(|info| has(info.name))
        .map(Wanted::of)
        .collect();
    let rest = vdev.properties.iter();
    let rest = rest.filter(|p| properties::find(VDEV, &p.name).is_none());
    all.extend(rest.map(|p| Wanted::named(&p.name)));
    all
}

fn print_vdevs_json(
    pool: &PoolRow,
    vdevs: &[VdevRow],
    wanted: &[Wanted],
    options: &Options,
    context: &mut Context,
) {
    let style = &options.style;
    let mut all = Object::new();
    for row in vdevs {
        let mut object = Object::new();
        let name = row.vdev.name(options.naming);
        object.put("name", name.as_str());
        object.put("type", "VDEV");
        let section = Section::Normal;
        let identity = status_json::vdev_identity(&row.vdev, section, options.naming, style);
        object.extend_without("name", identity);
        object.put("state", status_json::list_state(&row.vdev));
        let mut values = Object::new();
        for wanted in vdev_lines(row, wanted, options) {
            let property = row.properties.iter().find(|p| p.name == wanted.name);
            values.put(&wanted.name, json_property(property, &wanted, style));
        }
        object.put("properties", values);
        all.put(&name, object);
    }
    let header = json_header(pool, style.json_int);
    let mut document = document_of(header);
    document.put("vdevs", all);
    context.line(&Json::from(document).to_string());
}

/// `output_version` and `pool`, to which the vdevs are added.
fn document_of(pool: Object) -> Object {
    match document("zpool get", "pool", pool) {
        Json::Object(object) => object,
        _ => Object::new(),
    }
}
