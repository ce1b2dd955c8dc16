//! `cenote ublk status`.

use crate::pools::approve;
use cenote_control::model::{
    ControlError, Request, Response, UblkAct, UblkDisk, UblkStatus, shell_word,
};
use cenote_words::command::Arguments;
use cenote_words::context::{Context, DIED, Outcome, failed, mismatch};
use cenote_words::format::json::{Json, Object};
use cenote_words::format::number::nicebytes;
use cenote_words::format::table::{Column, table};

/// Prints which volumes are block devices of this machine, and which should be.
pub fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let act = UblkAct::Status;
    let status = match context.ask(Request::Ublk { act }) {
        Ok(Response::Ublk { status }) => status,
        Ok(_) => return failed(mismatch().to_string()),
        Err(error @ ControlError::DaemonDied { .. }) => {
            context.complain(&error.to_string());
            return Ok(DIED);
        }
        Err(error) => return failed(error.to_string()),
    };
    let is_missing = status.is_wanted && status.unavailable.is_some();
    let code = u8::from(is_missing || !status.failures.is_empty());
    if arguments.has("json") {
        context.line(&Json::from(json(&status)).to_string());
        return Ok(code);
    }
    if status.disks.is_empty() {
        context.line("no volume is a disk of this machine");
    } else {
        print(&status, context);
    }
    for left in &status.left {
        context.line(&format!(
            "{}: left by a daemon that died; requests to it wait. Importing the pool of {} brings \
             it back; 'cenote ublk stop {}' removes it",
            left.device,
            left.dataset,
            shell_word(&left.device)
        ));
    }
    approve::point_out("cenote:ublk", context);
    if let Some(reason) = &status.unavailable {
        let line = match status.is_wanted {
            true => format!("cenote ublk: volumes with cenote:ublk=on have no disk: {reason}"),
            false => format!("cenote ublk: {reason}"),
        };
        context.complain(&line);
    }
    for failure in &status.failures {
        context.complain(&format!(
            "cenote ublk: {}: {}",
            failure.dataset, failure.reason
        ));
    }
    Ok(code)
}

fn print(status: &UblkStatus, context: &mut Context) {
    let columns = [
        "DISK", "DEVICE", "SIZE", "ACCESS", "BY", "OPEN", "READ", "WRITTEN",
    ];
    let columns: Vec<Column> = columns.into_iter().map(Column::text).collect();
    let rows: Vec<Vec<String>> = status.disks.iter().map(row).collect();
    for line in table(&columns, &rows, false).lines() {
        context.line(line.trim_end());
    }
}

fn row(disk: &UblkDisk) -> Vec<String> {
    let access = match disk.is_read_only {
        true => "read-only",
        false => "read-write",
    };
    let by = match (disk.is_leaving, disk.is_by_property) {
        (true, _) => "nothing (goes when closed)",
        (false, true) => "property",
        (false, false) => "command",
    };
    let name = disk.link.as_ref().unwrap_or(&disk.dataset);
    vec![
        name.clone(),
        disk.device.clone(),
        nicebytes(disk.size),
        access.to_owned(),
        by.to_owned(),
        if disk.is_open { "yes" } else { "no" }.to_owned(),
        nicebytes(disk.read_bytes),
        nicebytes(disk.written_bytes),
    ]
}

fn json(status: &UblkStatus) -> Object {
    let mut object = Object::new();
    let disk = |disk: &UblkDisk| {
        let mut object = Object::new();
        object.put("dataset", disk.dataset.as_str());
        object.put("device", disk.device.as_str());
        if let Some(link) = &disk.link {
            object.put("link", link.as_str());
        }
        object.put("size", disk.size);
        object.put("read_only", disk.is_read_only);
        object.put("by_property", disk.is_by_property);
        object.put("open", disk.is_open);
        object.put("leaving", disk.is_leaving);
        object.put("requests", disk.requests);
        object.put("read_bytes", disk.read_bytes);
        object.put("written_bytes", disk.written_bytes);
        Json::from(object)
    };
    let disks: Vec<Json> = status.disks.iter().map(disk).collect();
    object.put("disks", disks);
    let pair = |(dataset, name, text): (&String, &str, &String)| {
        let mut object = Object::new();
        object.put("dataset", dataset.as_str());
        object.put(name, text.as_str());
        Json::from(object)
    };
    let left = status.left.iter();
    let left: Vec<Json> = left
        .map(|left| pair((&left.dataset, "device", &left.device)))
        .collect();
    object.put("left", left);
    let failures = status.failures.iter();
    let failures: Vec<Json> = failures
        .map(|failure| pair((&failure.dataset, "reason", &failure.reason)))
        .collect();
    object.put("failures", failures);
    object.put("wanted", status.is_wanted);
    if let Some(reason) = &status.unavailable {
        object.put("unavailable", reason.as_str());
    }
    object
}
