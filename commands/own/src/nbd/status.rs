//! `cenote nbd status`.

use crate::pools::approve;
use cenote_control::model::{
    ControlError, NbdAct, NbdClient, NbdExport, NbdServer, Request, Response,
};
use cenote_words::command::Arguments;
use cenote_words::context::{Context, DIED, Outcome, failed, mismatch};
use cenote_words::format::json::{Json, Object};
use cenote_words::format::number::nicebytes;
use cenote_words::format::table::{Column, table};

/// Prints which volumes the daemon serves, on which addresses, and its clients.
pub fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let act = NbdAct::Status;
    let servers = match context.ask(Request::Nbd { act }) {
        Ok(Response::Nbd { servers }) => servers,
        Ok(_) => return failed(mismatch().to_string()),
        Err(error @ ControlError::DaemonDied { .. }) => {
            context.complain(&error.to_string());
            return Ok(DIED);
        }
        Err(error) => return failed(error.to_string()),
    };
    let has_failed = servers.iter().any(|server| server.failure.is_some());
    if arguments.has("json") {
        let servers: Vec<Json> = servers.iter().map(json).collect();
        let mut object = Object::new();
        object.put("servers", servers);
        context.line(&Json::from(object).to_string());
        return Ok(u8::from(has_failed));
    }
    if servers.is_empty() {
        context.line("no volumes are served");
    }
    for (index, server) in servers.iter().enumerate() {
        if index > 0 {
            context.line("");
        }
        print(server, context);
    }
    approve::point_out("cenote:nbd", context);
    Ok(u8::from(has_failed))
}

fn print(server: &NbdServer, context: &mut Context) {
    if let Some(failure) = &server.failure {
        context.complain(&format!(
            "cenote nbd: volumes with cenote:nbd=on are not served: {failure}"
        ));
        return;
    }
    let notes = [
        (server.is_default, "the daemon's own"),
        (server.is_encrypted, "TLS"),
        (server.is_ending, "ending"),
    ];
    let notes = notes.into_iter().filter(|(is_so, _)| *is_so);
    let notes: Vec<&str> = notes.map(|(_, note)| note).collect();
    let kind = match notes.is_empty() {
        true => String::new(),
        false => format!(" ({})", notes.join("; ")),
    };
    context.line(&format!("server {}{kind}", server.addresses.join(" and ")));
    let columns = [
        "EXPORT", "SIZE", "ACCESS", "BY", "CLIENTS", "READ", "WRITTEN",
    ];
    let columns: Vec<Column> = columns.into_iter().map(Column::text).collect();
    let rows: Vec<Vec<String>> = server.exports.iter().map(|one| row(server, one)).collect();
    for line in table(&columns, &rows, false).lines() {
        context.line(&format!("  {}", line.trim_end()));
    }
}

fn row(server: &NbdServer, export: &NbdExport) -> Vec<String> {
    let has_it = |client: &&NbdClient| client.export.as_ref() == Some(&export.name);
    let clients: Vec<&NbdClient> = server.clients.iter().filter(has_it).collect();
    let sum = |of: fn(&NbdClient) -> u64| nicebytes(clients.iter().map(|client| of(client)).sum());
    vec![
        export.name.clone(),
        export.size.map_or_else(|| "-".to_owned(), nicebytes),
        if export.is_read_only {
            "read-only"
        } else {
            "read-write"
        }
        .to_owned(),
        if export.is_by_property {
            "property"
        } else {
            "command"
        }
        .to_owned(),
        clients.len().to_string(),
        sum(|client| client.read_bytes),
        sum(|client| client.written_bytes),
    ]
}

fn json(server: &NbdServer) -> Json {
    let mut object = Object::new();
    let texts = |list: &[String]| -> Vec<Json> {
        list.iter().map(|text| Json::from(text.as_str())).collect()
    };
    object.put("addresses", texts(&server.addresses));
    object.put("own", server.is_default);
    object.put("tls", server.is_encrypted);
    object.put("ending", server.is_ending);
    if let Some(failure) = &server.failure {
        object.put("failure", failure.as_str());
    }
    let export = |export: &NbdExport| {
        let mut object = Object::new();
        object.put("name", export.name.as_str());
        if let Some(size) = export.size {
            object.put("size", size);
        }
        object.put("read_only", export.is_read_only);
        object.put("by_property", export.is_by_property);
        Json::from(object)
    };
    let exports: Vec<Json> = server.exports.iter().map(export).collect();
    object.put("exports", exports);
    let client = |client: &NbdClient| {
        let mut object = Object::new();
        object.put("address", client.address.as_str());
        if let Some(export) = &client.export {
            object.put("export", export.as_str());
        }
        object.put("requests", client.requests);
        object.put("read_bytes", client.read_bytes);
        object.put("written_bytes", client.written_bytes);
        Json::from(object)
    };
    let clients: Vec<Json> = server.clients.iter().map(client).collect();
    object.put("clients", clients);
    Json::from(object)
}
