//! `cenote nbd`: volumes and devices as network block devices.
//!
//! The daemon serves volumes ([`serve`], [`status`]); these subcommands ask it. A device is served
//! by this process ([`device`]) until it ends.

pub mod address;
mod device;
mod serve;
mod status;

use cenote_control::model::{NbdAct, Request};
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, failed, usage};

/// The command.
pub const COMMAND: Command = Command {
    name: "nbd",
    summary: "Serve volumes and devices as network block devices (NBD)",
    synopsis: "serve POOL/VOLUME[@SNAPSHOT]... | status |\n       \
               cenote nbd stop [POOL/VOLUME[@SNAPSHOT]|ADDRESS]...\n       \
               cenote nbd serve --device DEVICE --unix PATH|--tcp ADDRESS:PORT [OPTION]...",
    about: "The daemon serves volumes and snapshots of volumes under their names, to QEMU,\n\
            nbd-client, nbdcopy and other NBD clients. Snapshots are read-only.\n\
            'serve' returns when the server listens, and prints an address for each volume.\n\
            Without --unix and --tcp it is the daemon's own socket, for its user only. What\n\
            'zfs set cenote:nbd=on' says is served there, too: volumes that have or inherit\n\
            it, and their snapshots where snapdev is 'visible'.\n\
            'stop' ends a server, or what 'serve' began; without operands all of that.\n\
            'serve --device' serves a file, a disk, or a URL such as s3://bucket/prefix, until\n\
            it is ended by Ctrl-C. With --stats, SIGUSR1 prints what was counted so far.",
    flags: flags! {
        _ "unix" "PATH" "serve: listen on this unix socket";
        _ "tcp" "ADDRESS:PORT" "serve: listen on this port";
        _ "tls-certificates" "DIRECTORY" "serve: encrypt TCP connections (without --tcp, those of\n\
            the unix socket) with server-cert.pem and server-key.pem of this\n\
            directory";
        _ "tls-verify-peer" _ "serve: clients need a certificate, signed by ca-cert.pem";
        'r' "readonly" _ "serve: clients can only read";
        'f' "force" _ "stop: although clients are connected; serve --device: take over a device\n\
            in a store that its last writer did not release";
        _ "device" "DEVICE" "serve this file, disk or URL instead of volumes";
        _ "export" "NAME" "--device: under this name; the default is the empty one";
        _ "rate" "SIZE" "--device: read and write at most SIZE bytes a second";
        _ "delay" "TIME" "--device: delay each answer by TIME: 500us, 10ms, 2s";
        _ "cow" _ "--device: never change it; changes end with this command";
        _ "cow-file" "FILE" "--device: never change it; changes are kept in this file";
        _ "stats" _ "--device: print sizes, alignments and times of requests at the end";
        'j' "json" _ "status: print JSON";
    },
    run: Run::Asking(run),
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let operands = arguments.operands.iter();
    // Operands that are not UTF-8 do not name a volume.
    let words: Vec<&str> = operands.map(|word| word.to_str().unwrap_or("?")).collect();
    match words.as_slice() {
        ["serve"] if arguments.has("device") => {
            let own = [COMMAND.names_of("serve"), COMMAND.names_of("--device")].concat();
            arguments.only(&[own, vec!["device", "force"]].concat())?;
            device::run(arguments, context)
        }
        ["serve", volumes @ ..] => {
            arguments.only(&COMMAND.names_of("serve"))?;
            serve::run(volumes, arguments, context)
        }
        ["status"] => {
            arguments.only(&COMMAND.names_of("status"))?;
            status::run(arguments, context)
        }
        ["stop", targets @ ..] => {
            arguments.only(&COMMAND.names_of("stop"))?;
            stop(targets, arguments, context)
        }
        _ => usage(""),
    }
}

fn stop(targets: &[&str], arguments: &Arguments, context: &mut Context) -> Outcome {
    let act = NbdAct::Stop {
        targets: targets
            .iter()
            .map(|word| context.name_or_socket(word))
            .collect(),
        force: arguments.has("force"),
    };
    match context.ask(Request::Nbd { act }) {
        Ok(_) => Ok(0),
        Err(error) => failed(format!("cannot stop: {error}")),
    }
}
