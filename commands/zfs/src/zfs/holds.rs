//! `zfs holds`.

use cenote_control::model::{ControlError, Hold, Request, Response};

use cenote_words::context::{Context, Outcome, mismatch, usage};
use cenote_words::format::date::{Form, date};
use cenote_words::format::table::{Column, table};
use cenote_words::program::CommandLine;
use cenote_words::texts::{cannot_open, check_name};

/// `zfs holds [-rHp] SNAPSHOT...`
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    if parsed.operands.is_empty() {
        return usage("");
    }
    let is_exact = parsed.has("p");
    let mut holds: Vec<Hold> = Vec::new();
    let mut complaints = Vec::new();
    for operand in &parsed.operands {
        match ask(operand, parsed.has("r"), context) {
            Ok(mut more) => {
                // Datasets come before their descendants.
                let place = |hold: &Hold| hold.snapshot.split('@').next().map(str::to_owned);
                more.sort_by_cached_key(|hold| (place(hold), hold.tag.clone()));
                more.retain(|hold| !holds.contains(hold));
                holds.extend(more);
            }
            Err(message) => complaints.push(message),
        }
    }
    let time = |hold: &Hold| {
        if is_exact {
            hold.time.to_string()
        } else {
            date(hold.time, Form::Hold, &context.zone)
        }
    };
    let row = |hold: &Hold| vec![hold.snapshot.clone(), hold.tag.clone(), time(hold)];
    let rows: Vec<Vec<String>> = holds.iter().map(row).collect();
    let mut columns = vec![
        Column::text("NAME"),
        Column::text("TAG"),
        Column::text("TIMESTAMP"),
    ];
    if complaints.is_empty() {
        // A snapshot without holds still widens its column.
        let widest = parsed.operands.iter().map(String::len).max();
        columns[0].width_min = columns[0].width_min.max(widest.unwrap_or(0));
    }
    context.print(&table(&columns, &rows, parsed.has("H")));
    let failed = !complaints.is_empty();
    for message in complaints {
        context.complain(&message);
    }
    if failed && holds.is_empty() {
        context.complain("no datasets available");
    }
    Ok(u8::from(failed))
}

fn ask(operand: &str, recursive: bool, context: &mut Context) -> Result<Vec<Hold>, String> {
    if !operand.contains('@') {
        return Err(format!("'{operand}' is not a snapshot"));
    }
    if let Err(fault) = check_name(operand, true, false) {
        return Err(format!("cannot open '{operand}': {fault}"));
    }
    let request = Request::Holds {
        snapshot: operand.to_owned(),
        recursive,
    };
    match context.ask(request) {
        Ok(Response::Holds { holds }) => Ok(holds),
        Ok(_) => Err(cannot_open(operand, &mismatch())),
        Err(ControlError::WrongKind { .. }) => Err(format!("'{operand}' is not a snapshot")),
        Err(error) => Err(cannot_open(operand, &error)),
    }
}
