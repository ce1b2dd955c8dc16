//! `cenote nbd`: volumes as network block devices.
//!
//! The daemon serves them ([`serve`], [`status`]); what is asked of it here is said to it.

mod address;
mod serve;
mod status;

use crate::command::{Arguments, Command, Run, flags};
use crate::context::{Context, Outcome, failed, usage};
use cenote_control::model::{NbdAct, Request};

/// The command.
pub const COMMAND: Command = Command {
    name: "nbd",
    summary: "Serve volumes as network block devices (NBD)",
    synopsis: "serve POOL/VOLUME[@SNAPSHOT]... | status |\n       \
               cenote nbd stop [POOL/VOLUME[@SNAPSHOT]|ADDRESS]...",
    about: "The daemon serves volumes and snapshots of volumes under their names, to QEMU,\n\
            nbd-client, nbdcopy and other NBD clients. Snapshots are read-only.\n\
            'serve' returns when the server listens, and prints an address for each volume.\n\
            Without --unix and --tcp it is the daemon's own socket, for its user only. What\n\
            'zfs set cenote:nbd=on' says is served there, too: volumes that have or inherit\n\
            it, and their snapshots where snapdev is 'visible'.\n\
            'stop' ends a server, or what 'serve' began; without operands all of that.",
    flags: flags! {
        _ "unix" "PATH" "serve: listen on this unix socket";
        _ "tcp" "ADDRESS:PORT" "serve: listen on this port";
        _ "tls-certificates" "DIRECTORY" "serve: encrypt TCP connections (without --tcp, those of\n\
            the unix socket) with server-cert.pem and server-key.pem of this\n\
            directory";
        _ "tls-verify-peer" _ "serve: clients need a certificate, signed by ca-cert.pem";
        'r' "readonly" _ "serve: clients can only read";
        'f' "force" _ "stop: although clients are connected";
        'j' "json" _ "status: print JSON";
    },
    run: Run::Asking(run),
};

/// The options of `serve`.
const SERVE: &[&str] = &[
    "unix",
    "tcp",
    "tls-certificates",
    "tls-verify-peer",
    "readonly",
];

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let operands = arguments.operands.iter();
    // What is no text is no name of a volume.
    let words: Vec<&str> = operands.map(|word| word.to_str().unwrap_or("?")).collect();
    match words.as_slice() {
        ["serve", volumes @ ..] => {
            arguments.only(SERVE)?;
            serve::run(volumes, arguments, context)
        }
        ["status"] => {
            arguments.only(&["json"])?;
            status::run(arguments, context)
        }
        ["stop", targets @ ..] => {
            arguments.only(&["force"])?;
            stop(targets, arguments, context)
        }
        _ => usage(""),
    }
}

fn stop(targets: &[&str], arguments: &Arguments, context: &mut Context) -> Outcome {
    let act = NbdAct::Stop {
        targets: targets.iter().map(|&target| target.to_owned()).collect(),
        force: arguments.has("force"),
    };
    match context.ask(Request::Nbd { act }) {
        Ok(_) => Ok(0),
        Err(error) => failed(format!("cannot stop: {error}")),
    }
}
