//! `cenote nbd serve`.

use super::address::{is_reachable, uris};
use cenote_control::model::{NbdAct, NbdListen, NbdServer, Request, Response};
use cenote_words::command::Arguments;
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use std::path::Path;

/// The addresses on which the daemon is to listen.
fn listen(arguments: &Arguments, context: &Context) -> Result<NbdListen, Stop> {
    let absolute = |name: &str| {
        let given = arguments.last(name);
        given.map(|path| {
            context
                .place(Path::new(path))
                .to_string_lossy()
                .into_owned()
        })
    };
    let tcp = match arguments.last("tcp").map(|address| address.to_str()) {
        None => None,
        Some(Some(address)) if address.contains(':') => Some(address.to_owned()),
        Some(_) => return usage("--tcp: must be ADDRESS:PORT"),
    };
    let listen = NbdListen {
        unix: absolute("unix"),
        tcp,
        tls: absolute("tls-certificates"),
        checks_clients: arguments.has("tls-verify-peer"),
    };
    if listen.checks_clients && listen.tls.is_none() {
        return usage("--tls-verify-peer needs --tls-certificates");
    }
    if listen.tls.is_some() && listen.is_default() {
        return usage("--tls-certificates needs --tcp or --unix");
    }
    Ok(listen)
}

/// Starts serving volumes in the daemon, and prints an address for each.
pub fn run(volumes: &[&str], arguments: &Arguments, context: &mut Context) -> Outcome {
    if volumes.is_empty() {
        return usage("which volumes?");
    }
    let act = NbdAct::Serve {
        volumes: volumes.iter().map(|&name| name.to_owned()).collect(),
        read_only: arguments.has("readonly"),
        listen: listen(arguments, context)?,
    };
    let servers = match context.ask(Request::Nbd { act }) {
        Ok(Response::Nbd { servers }) => servers,
        Ok(_) => return failed(mismatch().to_string()),
        Err(error) => return failed(format!("cannot serve '{}': {error}", volumes.join(" "))),
    };
    for server in &servers {
        warn(server, context);
        for volume in volumes {
            uris(server, volume)
                .iter()
                .for_each(|uri| context.line(uri));
        }
    }
    Ok(0)
}

/// Warns if the server is reachable from other machines without encryption.
fn warn(server: &NbdServer, context: &mut Context) {
    let reachable = server
        .addresses
        .iter()
        .find(|address| is_reachable(address));
    if let Some(address) = reachable.filter(|_| !server.is_encrypted) {
        context.complain(&format!(
            "cenote nbd: anyone who can reach {address} can read and write what is served there; \
             use --tls-certificates and --tls-verify-peer, or a firewall"
        ));
    }
}
