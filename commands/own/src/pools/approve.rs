//! `cenote approve`: enables property values that came with a stream or a pool from elsewhere.

use cenote_control::model::{
    Change, ControlError, PoolStatus, Request, Response, WaitingValue, shell_word,
};
use cenote_words::command::{Arguments, Command, JSON, Run, flag};
use cenote_words::context::{Context, Outcome, failed, mismatch, usage};
use cenote_words::format::json::{Json, Object};
use cenote_words::format::table::{Column, table};

/// The command.
pub const COMMAND: Command = Command {
    name: "approve",
    summary: "Put properties into effect that came with a stream or a pool from elsewhere",
    synopsis: "[-r] DATASET...",
    about: "Some properties make this machine do something: 'cenote:nbd' and 'cenote:ublk' serve\n\
            volumes, with 'volmode' and 'snapdev'; 'cenote:upstream' is published with a site;\n\
            'failmode=panic' of a pool ends the daemon.\n\
            A value that came with 'zfs receive' or a pool from another machine has no effect\n\
            until it is approved with this command or set with 'zfs set'.\n\
            Without operands the command lists the values that wait for approval. With operands\n\
            it approves and prints the values of these datasets, with -r also of datasets below.\n\
            An approval is for these values of these datasets. It survives an export and a\n\
            restart; a different value waits again. 'zfs set' and 'zfs inherit' revoke it.",
    flags: &[
        flag(Some('r'), "recursive", "also all datasets below"),
        JSON,
    ],
    run: Run::Asking(run),
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    if arguments.operands.is_empty() {
        if arguments.has("recursive") {
            return usage("-r needs a dataset");
        }
        return list(arguments, context);
    }
    let mut datasets = Vec::new();
    for word in &arguments.operands {
        match word.to_str() {
            Some(name) => datasets.push(name.to_owned()),
            None => return failed(format!("no such dataset: {}", word.to_string_lossy())),
        }
    }
    let words: Vec<String> = datasets
        .iter()
        .map(|name| shell_word(name).into_owned())
        .collect();
    let option = if arguments.has("recursive") {
        "-r "
    } else {
        ""
    };
    let command = format!("cenote approve {option}{}", words.join(" "));
    let change = Change::ApproveValues {
        datasets,
        recursive: arguments.has("recursive"),
    };
    let (values, failures) = match context.ask(Request::Change { change, command }) {
        Ok(Response::Approved { values, failures }) => (values, failures),
        Ok(_) => return failed(mismatch().to_string()),
        Err(error) => return failed(error.to_string()),
    };
    print(&values, "nothing waits there", arguments, context);
    complain(&failures, context);
    Ok(u8::from(!failures.is_empty()))
}

type Failures = Vec<(String, ControlError)>;

/// The values in all pools that wait for approval.
fn waiting(context: &mut Context) -> Result<(Vec<WaitingValue>, Failures), ControlError> {
    let request = Request::PoolStatus {
        pools: Vec::new(),
        errors: false,
        dedup: false,
    };
    match context.ask(request)? {
        Response::Statuses { pools, failures } => {
            let values = pools.into_iter().flat_map(|pool: PoolStatus| pool.waiting);
            Ok((values.collect(), failures))
        }
        _ => Err(mismatch()),
    }
}

/// Prints which values of a property wait for approval, for commands that show its effects.
pub fn point_out(property: &str, context: &mut Context) {
    // The caller's command is about something else, so failures are not reported here.
    let (values, _) = waiting(context).unwrap_or_default();
    for value in values.iter().filter(|value| value.property == property) {
        let (dataset, word) = (&value.dataset, shell_word(&value.dataset));
        let line = format!(
            "{dataset}: {property}={} waits for 'cenote approve {word}'",
            value.value
        );
        context.line(&line);
    }
}

/// Lists the waiting values of all pools.
fn list(arguments: &Arguments, context: &mut Context) -> Outcome {
    let (values, failures) = match waiting(context) {
        Ok(answer) => answer,
        Err(error) => return failed(error.to_string()),
    };
    print(&values, "nothing waits for approval", arguments, context);
    complain(&failures, context);
    Ok(u8::from(!failures.is_empty()))
}

fn complain(failures: &[(String, ControlError)], context: &mut Context) {
    for (name, error) in failures {
        context.complain(&format!("cenote approve: {name}: {error}"));
    }
}

fn print(values: &[WaitingValue], none: &str, arguments: &Arguments, context: &mut Context) {
    if arguments.has("json") {
        let json = |value: &WaitingValue| {
            let mut object = Object::new();
            object.put("dataset", value.dataset.as_str());
            object.put("property", value.property.as_str());
            object.put("value", value.value.as_str());
            Json::from(object)
        };
        let values: Vec<Json> = values.iter().map(json).collect();
        let mut object = Object::new();
        object.put("values", values);
        context.line(&Json::from(object).to_string());
        return;
    }
    if values.is_empty() {
        context.line(none);
        return;
    }
    let columns = ["DATASET", "PROPERTY", "VALUE"].into_iter();
    let columns: Vec<Column> = columns.map(Column::text).collect();
    let row = |value: &WaitingValue| {
        vec![
            value.dataset.clone(),
            value.property.clone(),
            value.value.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = values.iter().map(row).collect();
    for line in table(&columns, &rows, false).lines() {
        context.line(line.trim_end());
    }
}
