//! `zfs get`.

use cenote_control::model::properties::{self, DATASET, PropertyInfo};
use cenote_control::model::{Dataset, KindSet, Property, PropertySelection, Source};

use super::list::style;
use super::properties::{json_header, properties, value_of};
use super::select::{self, Selection, select};
use cenote_words::context::{Context, Outcome, Stop, usage};
use cenote_words::format::json::{Object, document};
use cenote_words::format::property::{
    Style, Wanted, json_property, show, show_property, source_word,
};
use cenote_words::format::table::{Column, table};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::texts::question;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    Property,
    Value,
    Received,
    Source,
}

/// One line of output.
struct Line<'a> {
    dataset: &'a Dataset,
    wanted: Wanted,
    property: Option<Property>,
}

/// `zfs get`.
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    if parsed.has("json-int") && !parsed.has("j") {
        return usage("'--json-int' only works with '-j' option");
    }
    let depth = select::depth(&parsed)?;
    let fields = fields(&parsed)?;
    let sources = sources(&parsed)?;
    let kinds = match parsed.last("t") {
        Some(list) => select::kinds(list)?,
        None => KindSet::ALL,
    };
    let Some((list, operands)) = parsed.operands.split_first() else {
        return usage("missing property argument");
    };
    let wanted = match list.as_str() {
        "all" => None,
        list => Some(properties(list)?),
    };
    let asked = match &wanted {
        None => PropertySelection::All,
        Some(wanted) => PropertySelection::Named(wanted.iter().map(|w| w.name.clone()).collect()),
    };
    let selection = Selection {
        operands: operands.to_vec(),
        depth,
        kinds,
        operand_kinds: KindSet::NONE,
        paths: true,
        properties: asked,
        keys: Vec::new(),
    };
    let selected = select(&selection, context);
    let code = u8::from(selected.failed);
    let style = style(&parsed, context);
    let mut lines: Vec<Line<'_>> = Vec::new();
    for dataset in &selected.rows {
        lines.extend(lines_of(dataset, wanted.as_deref()));
    }
    // Lines that -s omits still count for the width.
    let value_width = value_width(&lines, wanted.as_deref(), &style);
    if let Some(sources) = sources {
        lines.retain(|line| {
            let source = line.property.as_ref().map_or(&Source::None, |p| &p.source);
            sources.iter().any(|word| word == source_kind(source))
        });
    }
    let script = parsed.has("H");
    if parsed.has("j") {
        if code == 0 {
            let json = json(&lines, &style);
            context.line(&document("zfs get", "datasets", json).to_string());
        }
    } else if !selected.rows.is_empty() {
        let shown = Shown {
            wanted: wanted.as_deref(),
            fields: &fields,
            value_width,
            script,
        };
        let text = text(&lines, &shown, &style);
        context.print(&text);
    }
    Ok(code)
}

fn fields(parsed: &Parsed) -> Result<Vec<Field>, Stop> {
    let Some(list) = parsed.last("o") else {
        return Ok(vec![
            Field::Name,
            Field::Property,
            Field::Value,
            Field::Source,
        ]);
    };
    let mut fields = Vec::new();
    for word in list.split(',') {
        fields.push(match word {
            "name" => Field::Name,
            "property" => Field::Property,
            "value" => Field::Value,
            "received" => Field::Received,
            "source" => Field::Source,
            "all" => {
                return Ok(vec![
                    Field::Name,
                    Field::Property,
                    Field::Value,
                    Field::Received,
                    Field::Source,
                ]);
            }
            _ => {
                let known = ["name", "property", "value", "received", "source", "all"];
                let question = question(word, known);
                return usage(format!("invalid column name '{word}'{question}"));
            }
        });
    }
    Ok(fields)
}

/// The words of `-s`.
fn sources(parsed: &Parsed) -> Result<Option<Vec<String>>, Stop> {
    const KNOWN: [&str; 6] = [
        "default",
        "local",
        "inherited",
        "received",
        "temporary",
        "none",
    ];
    let Some(list) = parsed.last("s") else {
        return Ok(None);
    };
    let words: Vec<String> = list.split(',').map(str::to_owned).collect();
    match words.iter().find(|word| !KNOWN.contains(&word.as_str())) {
        Some(word) => {
            let question = question(word, KNOWN);
            usage(format!("invalid source '{word}'{question}"))
        }
        None => Ok(Some(words)),
    }
}

fn source_kind(source: &Source) -> &'static str {
    match source {
        Source::None => "none",
        Source::Default => "default",
        Source::Local => "local",
        Source::Temporary => "temporary",
        Source::Inherited(_) => "inherited",
        Source::Received => "received",
    }
}

fn lines_of<'a>(dataset: &'a Dataset, wanted: Option<&[Wanted]>) -> Vec<Line<'a>> {
    let chosen: Vec<Wanted> = match wanted {
        Some(wanted) => wanted.to_vec(),
        None => every_property(dataset),
    };
    let mut lines = Vec::new();
    for wanted in chosen {
        let property = value_of(dataset, &wanted);
        lines.push(Line {
            dataset,
            wanted,
            property,
        });
    }
    lines
}

/// All properties with a value, in the order of the table, then user properties.
fn every_property(dataset: &Dataset) -> Vec<Wanted> {
    let mut all = Vec::new();
    for info in DATASET.iter().filter(|info| info.name != "name") {
        let wanted = Wanted::of(info);
        // `type` and `createtxg` are fields of each row; others are shown only if the answer has
        // them.
        let shown = match info.name {
            "type" | "createtxg" => true,
            name => dataset.property(name).is_some_and(|p| !p.value.is_none()),
        };
        if shown {
            all.push(wanted);
        }
    }
    let others = dataset.properties.iter();
    let others = others.filter(|p| properties::find(DATASET, &p.name).is_none());
    all.extend(others.map(|p| Wanted::named(&p.name)));
    all
}

/// The properties that determine the widths of `get all`.
fn listed() -> impl Iterator<Item = &'static PropertyInfo> {
    DATASET.iter().filter(|info| !info.values.is_empty())
}

/// The width of VALUE: the widest that a listing would need for any of the properties.
fn value_width(lines: &[Line<'_>], wanted: Option<&[Wanted]>, style: &Style) -> usize {
    let whole: Vec<Wanted> = match wanted {
        Some(wanted) => wanted.to_vec(),
        None => listed().map(Wanted::of).collect(),
    };
    let least = whole.iter().map(|w| w.column(style.exact).width_min);
    let least = least.max().unwrap_or(0).max("VALUE".len());
    let measured = lines.iter().map(|line| {
        let column = line.wanted.column(style.exact);
        let shown = show_property(line.property.as_ref(), &line.wanted, style);
        let width = if column.measured {
            shown.chars().count()
        } else {
            0
        };
        width.max(column.width_min)
    });
    measured.fold(least, usize::max)
}

/// The columns to print.
struct Shown<'a> {
    wanted: Option<&'a [Wanted]>,
    fields: &'a [Field],
    value_width: usize,
    script: bool,
}

fn text(lines: &[Line<'_>], shown: &Shown<'_>, style: &Style) -> String {
    let least = match shown.wanted {
        Some(wanted) => wanted.iter().map(|w| w.name.len()).max(),
        None => listed().map(|info| info.name.len()).max(),
    };
    let fixed = |header: &str, width: usize| Column {
        header: header.to_owned(),
        width_min: width.max(header.len()),
        measured: header != "VALUE",
        right: false,
    };
    let column = |field: &Field| match field {
        Field::Name => Column::text("NAME"),
        Field::Property => fixed("PROPERTY", least.unwrap_or(0)),
        Field::Value => fixed("VALUE", shown.value_width),
        Field::Received => Column::text("RECEIVED"),
        Field::Source => Column::text("SOURCE"),
    };
    let columns: Vec<Column> = shown.fields.iter().map(column).collect();
    let mut rows = Vec::new();
    for line in lines {
        let property = line.property.as_ref();
        let cell = |field: &Field| match field {
            Field::Name => line.dataset.name.clone(),
            Field::Property => line.wanted.name.clone(),
            Field::Value => show_property(property, &line.wanted, style),
            Field::Received => {
                let received = property.and_then(|p| p.received.as_ref());
                received.map_or("-".to_owned(), |v| show(v, line.wanted.unit(), style))
            }
            Field::Source => source_word(property.map_or(&Source::None, |p| &p.source)),
        };
        rows.push(shown.fields.iter().map(cell).collect());
    }
    table(&columns, &rows, shown.script)
}

fn json(lines: &[Line<'_>], style: &Style) -> Object {
    let mut all = Object::new();
    for lines in lines.chunk_by(|a, b| std::ptr::eq(a.dataset, b.dataset)) {
        let mut values = Object::new();
        for line in lines {
            let property = line.property.as_ref();
            values.put(
                &line.wanted.name,
                json_property(property, &line.wanted, style),
            );
        }
        let Some(first) = lines.first() else { continue };
        let mut object = json_header(first.dataset, style.json_int);
        object.put("properties", values);
        all.put(&first.dataset.name, object);
    }
    all
}
