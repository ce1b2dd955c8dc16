//! `cenote settings`.

use std::ffi::OsString;

use cenote_control::model::{ControlError, Request, Response, SettingRow};
use cenote_engine::settings_list;

use super::settings_files;
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use cenote_words::format::json::{Json, Object};
use cenote_words::format::table::{Column, table};

/// The command.
pub const COMMAND: Command = Command {
    name: "settings",
    summary: "Show or change the daemon's settings",
    synopsis: "list [NAME...] | get NAME... | set NAME=VALUE...",
    about: "Settings have the names of OpenZFS's module parameters. A change applies to all\n\
            pools at once, until the daemon ends. For permanent ones write lines\n\
            'options zfs NAME=VALUE' to /etc/modprobe.d/zfs.conf or /etc/cenote/settings.conf,\n\
            or to the files that 'cenote daemon run --settings' or $CENOTE_SETTINGS name.\n\
            The value 'default' is the default; bytes may have a unit (K, M, G, T).",
    flags: flags! {
        'j' "json" _ "print JSON";
        'H' "scripted" _ "no headers, columns separated by tabs";
        'a' "all" _ "list: also the names that have no effect here";
    },
    run: Run::Asking(run),
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let mut words = Vec::new();
    for word in &arguments.operands {
        match word.to_str() {
            Some(word) => words.push(word.to_owned()),
            None => return not_text(word),
        }
    }
    let mut words = words.into_iter();
    let verb = words.next();
    let rest: Vec<String> = words.collect();
    arguments.only(match verb.as_deref() {
        None | Some("list") => &["json", "scripted", "all"],
        Some("get") => &["json", "scripted"],
        _ => &["json"],
    })?;
    match verb.as_deref() {
        None => list(&[], arguments, context),
        Some("list") => list(&rest, arguments, context),
        Some("get") if !rest.is_empty() => get(&rest, arguments, context),
        Some("set") if !rest.is_empty() => set(&rest, arguments, context),
        _ => usage(""),
    }
}

fn not_text(word: &OsString) -> Outcome {
    failed(format!("'{}' is no setting", word.to_string_lossy()))
}

/// The daemon's settings, or those with which one would start.
fn rows(names: &[String], context: &mut Context) -> Result<Vec<SettingRow>, Stop> {
    let request = Request::SettingsList {
        names: names.to_vec(),
    };
    let found = match context.ask(request) {
        Ok(Response::Settings { settings }) => Ok(settings),
        Ok(_) => Err(mismatch()),
        Err(ControlError::Unreachable { .. }) => {
            context.complain("no daemon is running: one would start with these");
            for note in settings_files::load(Vec::new()).map_err(Stop::Failed)? {
                context.complain(&note);
            }
            settings_list(names)
        }
        Err(error) => Err(error),
    };
    found.map_err(|error| Stop::Failed(error.to_string()))
}

fn list(names: &[String], arguments: &Arguments, context: &mut Context) -> Outcome {
    let mut rows = rows(names, context)?;
    if names.is_empty() && !arguments.has("all") {
        rows.retain(|row| row.range.is_some());
    }
    if arguments.has("json") {
        return print_json(rows, context);
    }
    let columns = ["NAME", "VALUE", "DEFAULT", "UNIT"].map(Column::text);
    let cells = |row: SettingRow| {
        let shown = |text: String| {
            if text.is_empty() {
                "-".to_owned()
            } else {
                text
            }
        };
        vec![row.name, shown(row.value), shown(row.default), row.unit]
    };
    let cells: Vec<Vec<String>> = rows.into_iter().map(cells).collect();
    context.print(&table(&columns, &cells, arguments.has("scripted")));
    Ok(0)
}

fn get(names: &[String], arguments: &Arguments, context: &mut Context) -> Outcome {
    let rows = rows(names, context)?;
    if arguments.has("json") {
        return print_json(rows, context);
    }
    for row in rows {
        if arguments.has("scripted") {
            context.line(&format!("{}\t{}", row.name, row.value));
            continue;
        }
        match row.range {
            Some([least, most]) => {
                let (default, unit) = (&row.default, &row.unit);
                context.line(&format!("{} = {}", row.name, row.value));
                context.line(&format!("  {unit}, {least} to {most}, default {default}"));
                context.line(&format!("  {}", row.effect));
                if let Some(taken) = row.taken {
                    context.line(&format!("  {}", too_much(taken)));
                }
            }
            None => {
                context.line(&format!("{} = {}", row.name, row.value));
                context.line(&format!("  without effect: {}", row.effect));
            }
        }
    }
    Ok(0)
}

fn set(words: &[String], arguments: &Arguments, context: &mut Context) -> Outcome {
    let mut values = Vec::with_capacity(words.len());
    for word in words {
        match word.split_once('=') {
            Some((name, value)) => values.push((name.to_owned(), value.to_owned())),
            None => return usage(format!("'{word}' is not NAME=VALUE")),
        }
    }
    let rows = match context.ask(Request::SettingsSet { values }) {
        Ok(Response::Settings { settings }) => settings,
        Ok(_) => return failed(mismatch().to_string()),
        Err(error) => return failed(error.to_string()),
    };
    for row in rows.iter().filter(|row| row.range.is_none()) {
        let note = format!("{} has no effect: {}", row.name, row.effect);
        context.complain(&format!("cenote settings: {note}"));
    }
    for row in &rows {
        if let Some(taken) = row.taken {
            let note = format!("{}={}: {}", row.name, row.value, too_much(taken));
            context.complain(&format!("cenote settings: {note}"));
        }
    }
    match arguments.has("json") {
        true => print_json(rows, context),
        false => Ok(0),
    }
}

/// The message for a value that needs too much memory.
fn too_much(taken: u64) -> String {
    format!(
        "this is more than the memory of the machine or control group allows: {taken} bytes are \
         used"
    )
}

fn print_json(rows: Vec<SettingRow>, context: &mut Context) -> Outcome {
    let mut all = Object::new();
    for row in rows {
        let mut object = Object::new();
        object.put("value", row.value);
        object.put("default", row.default);
        object.put("unit", row.unit);
        if let Some([least, most]) = row.range {
            object.put("min", least);
            object.put("max", most);
        }
        object.put("has_effect", row.range.is_some());
        object.put("effect", row.effect);
        if let Some(taken) = row.taken {
            object.put("taken", taken);
        }
        all.put(&row.name, object);
    }
    context.line(&Json::from(all).to_string());
    Ok(0)
}
