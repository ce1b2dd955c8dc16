//! `cenote http`: the daemon serves files of datasets and snapshots over HTTP.

mod start;
mod status;

use cenote_control::model::{HttpAct, Request};
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, failed, usage};

/// How long downloads may continue after a stop, in seconds.
const GRACE: u64 = 60;

/// The command.
pub const COMMAND: Command = Command {
    name: "http",
    summary: "Serve files of datasets and snapshots over HTTP",
    synopsis: "start [OPTION]... DATASET[@SNAPSHOT]... | status | reload |\n       \
               cenote http stop [--grace SECONDS] [DATASET[@SNAPSHOT]|ADDRESS]...",
    about: "The daemon serves files from its cache, without a mount. It serves what everybody may\n\
            read: files with the mode o+r in directories with o+x. Symbolic links are followed\n\
            within the file system.\n\
            'start' returns when the server listens. One dataset is at '/'; several are at the\n\
            last part of their names, or where --site says. 'start' with an address that a server\n\
            has already adds to what it serves, if its other options are the same.\n\
            With --snapshot latest a new snapshot is shown from the next request on; downloads\n\
            that are under way get the old one to the end. A snapshot cannot be destroyed, and a\n\
            pool cannot be exported without -f, while files of it are being sent. A download\n\
            keeps an old snapshot for a day at most; 'stop' of its name ends it before.\n\
            /status.json says how old each site is, in the form of tunasync.",
    flags: flags! {
        _ "listen" "ADDRESS:PORT" "start: listen there, or on a unix socket: unix:PATH; may be\n\
            given several times; the default is 127.0.0.1:8080";
        _ "site" "HOST[/PATH]=DATASET" "start: serve this dataset or snapshot to clients that ask\n\
            for this host and path; without HOST, for any host";
        _ "snapshot" "latest|PATTERN" "start: show the newest snapshot of each dataset, or the\n\
            newest whose name matches, such as 'sync-*'";
        'r' "recursive" _ "start: with the file systems below each dataset";
        _ "tls-certificate" "FILE" "start: encrypt TCP connections with this certificate chain";
        _ "tls-key" "FILE" "start: and this key";
        _ "hidden" "PATTERN" "start: do not serve names that match, also by links; may be\n\
            given several times; '!PATTERN' makes an exception; the default is '.*' and\n\
            '!.well-known', and '' hides nothing";
        _ "block-agent" "PATTERN" "start: refuse user agents that match; may be given several\n\
            times";
        _ "autoindex" "FORM" "start: list directories as 'html' (the default), 'json', 'xml', or\n\
            not at all: 'off'";
        _ "index" "NAME" "start: a file of this name answers for its directory; may be given\n\
            several times; the default is index.html, and '' stands for none";
        _ "robots" "FILE" "start: the robots.txt of sites that have none";
        _ "style" "FILE" "start: the style sheet of listings";
        _ "access-log" "FILE" "start: write a line for each request, in Apache's combined form";
        _ "limit-connections" "NUMBER" "start: in all";
        _ "limit-address" "NUMBER" "start: connections of one address";
        _ "limit-requests" "NUMBER" "start: requests of one address in a second";
        _ "limit-rate" "SIZE" "start: bytes to one address in a second";
        _ "grace" "SECONDS" "stop: downloads may take so long; the default is 60";
        'j' "json" _ "status: print JSON";
    },
    run: Run::Asking(run),
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let operands = arguments.operands.iter();
    // Operands that are not UTF-8 do not name a dataset.
    let words: Vec<&str> = operands.map(|word| word.to_str().unwrap_or("?")).collect();
    match words.as_slice() {
        ["start", datasets @ ..] => {
            arguments.only(&COMMAND.names_of("start"))?;
            start::run(datasets, arguments, context)
        }
        ["status"] => {
            arguments.only(&COMMAND.names_of("status"))?;
            status::run(arguments, context)
        }
        ["stop", targets @ ..] => {
            arguments.only(&COMMAND.names_of("stop"))?;
            stop(targets, arguments, context)
        }
        ["reload"] => {
            arguments.only(&[])?;
            match context.ask(Request::Http {
                act: HttpAct::Reload,
            }) {
                Ok(_) => Ok(0),
                Err(error) => failed(format!("cannot reload: {error}")),
            }
        }
        _ => usage(""),
    }
}

fn stop(targets: &[&str], arguments: &Arguments, context: &mut Context) -> Outcome {
    let act = HttpAct::Stop {
        targets: targets
            .iter()
            .map(|target| start::address_of(target, context))
            .collect(),
        grace: arguments.number("grace")?.unwrap_or(GRACE),
    };
    match context.ask(Request::Http { act }) {
        Ok(_) => Ok(0),
        Err(error) => failed(format!("cannot stop: {error}")),
    }
}
