//! `cenote http status`.

use cenote_control::model::{
    ControlError, HttpAct, HttpClient, HttpServer, HttpSiteStatus, Request, Response,
};
use cenote_words::command::Arguments;
use cenote_words::context::{Context, DIED, Outcome, failed, mismatch};
use cenote_words::format::date::{Form, date};
use cenote_words::format::json::{Json, Object};
use cenote_words::format::number::{counted, nicebytes, share};
use cenote_words::format::table::{Column, table};

/// Prints which sites the daemon serves, on which addresses, and their traffic.
pub fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let act = HttpAct::Status;
    let servers = match context.ask(Request::Http { act }) {
        Ok(Response::Http { servers }) => servers,
        Ok(_) => return failed(mismatch().to_string()),
        Err(error @ ControlError::DaemonDied { .. }) => {
            context.complain(&error.to_string());
            return Ok(DIED);
        }
        Err(error) => return failed(error.to_string()),
    };
    let sites = || servers.iter().flat_map(|server| &server.sites);
    let has_failed = sites().any(|site| site.problem.is_some());
    if arguments.has("json") {
        let servers: Vec<Json> = servers.iter().map(json).collect();
        let mut object = Object::new();
        object.put("servers", servers);
        context.line(&Json::from(object).to_string());
        return Ok(u8::from(has_failed));
    }
    if servers.is_empty() {
        context.line("no sites are served");
    }
    for (index, server) in servers.iter().enumerate() {
        if index > 0 {
            context.line("");
        }
        print(server, context);
    }
    for site in sites() {
        if let Some(problem) = &site.problem {
            let dataset = &site.site.dataset;
            context.complain(&format!("cenote http: '{dataset}' is not shown: {problem}"));
        }
    }
    Ok(u8::from(has_failed))
}

fn print(server: &HttpServer, context: &mut Context) {
    let kind = match (server.is_encrypted, server.is_ending) {
        (true, true) => " (TLS; ending)",
        (true, false) => " (TLS)",
        (false, true) => " (ending)",
        (false, false) => "",
    };
    context.line(&format!("server {}{kind}", server.addresses.join(" and ")));
    let figures = &server.figures;
    context.line(&format!(
        "  {}, {} ({} at once), {} sent, {} refused",
        counted(figures.connections, "connection"),
        counted(figures.requests, "request"),
        share(figures.from_memory, figures.requests),
        nicebytes(figures.sent_bytes),
        figures.refused
    ));
    let columns = ["SITE", "DATASET", "SHOWN", "MADE", "OPEN", "SENT", "CACHED"];
    let columns: Vec<Column> = columns.into_iter().map(Column::text).collect();
    let zone = context.zone.clone();
    let rows = server.sites.iter().map(|site| {
        // Whole blocks are read even if only a part of them is sent.
        let cached = site.sent_bytes.saturating_sub(site.read_bytes);
        let host = site.site.host.as_deref().unwrap_or_default();
        vec![
            format!("{host}{}", site.site.path),
            site.site.dataset.clone(),
            site.shown.clone().unwrap_or_else(|| "-".to_owned()),
            site.made
                .map_or_else(|| "-".to_owned(), |made| date(made, Form::Minute, &zone)),
            site.open_files.to_string(),
            nicebytes(site.sent_bytes),
            share(cached, site.sent_bytes),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    for line in table(&columns, &rows, false).lines() {
        context.line(&format!("  {}", line.trim_end()));
    }
}

fn site_json(status: &HttpSiteStatus) -> Json {
    let mut object = Object::new();
    if let Some(host) = &status.site.host {
        object.put("host", host.as_str());
    }
    object.put("path", status.site.path.as_str());
    object.put("dataset", status.site.dataset.as_str());
    if let Some(shown) = &status.shown {
        object.put("shown", shown.as_str());
    }
    if let Some(made) = status.made {
        object.put("made", made);
    }
    object.put("open_files", status.open_files);
    object.put("reads", status.reads);
    object.put("sent_bytes", status.sent_bytes);
    object.put("read_bytes", status.read_bytes);
    if let Some(problem) = &status.problem {
        object.put("problem", problem.as_str());
    }
    Json::from(object)
}

fn client_json(client: &HttpClient) -> Json {
    let mut object = Object::new();
    object.put("address", client.address.as_str());
    object.put("connections", client.connections);
    object.put("requests", client.requests);
    object.put("sent_bytes", client.sent_bytes);
    Json::from(object)
}

fn json(server: &HttpServer) -> Json {
    let mut object = Object::new();
    let addresses: Vec<Json> = server
        .addresses
        .iter()
        .map(|one| Json::from(one.as_str()))
        .collect();
    object.put("addresses", addresses);
    object.put("tls", server.is_encrypted);
    object.put("ending", server.is_ending);
    let figures = &server.figures;
    object.put("connections", figures.connections);
    object.put("requests", figures.requests);
    object.put("from_memory", figures.from_memory);
    object.put("sent_bytes", figures.sent_bytes);
    object.put("refused", figures.refused);
    object.put("unlogged", figures.unlogged);
    let sites: Vec<Json> = server.sites.iter().map(site_json).collect();
    object.put("sites", sites);
    let clients: Vec<Json> = figures.clients.iter().map(client_json).collect();
    object.put("clients", clients);
    Json::from(object)
}
