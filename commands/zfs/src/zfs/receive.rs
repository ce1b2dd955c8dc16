//! `zfs receive`: passes the stream's descriptor to the daemon, which sends notes back.

use super::change::{ask, full_name, named_twice, pairs};
use super::material;
use cenote_control::model::{
    Change, ControlError, Part, Receive, ReceiveNaming, ReceiveNote, Refusal, Request, Secret,
};
use cenote_words::context::{Context, Outcome, Said, Stop, failed, usage};
use cenote_words::format::number::nicebytes;
use cenote_words::getopt::Parsed;
use cenote_words::texts::{cannot_open, with_context};
use std::io::IsTerminal;

const FROM_TERMINAL: &str = "Error: Backup stream can not be read from a terminal.\n\
                             You must redirect standard input.";

/// `zfs receive [-vMnsFhuc] [-o P=V]… [-x P]… [-d|-e] TARGET`, and `receive -A DATASET`
pub fn run(parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    let [target] = parsed.operands.as_slice() else {
        return usage("too many arguments");
    };
    if parsed.has("A") {
        return abort(target, parsed, command, context);
    }
    let is_verbose = parsed.has("v");
    let receive = receive_of(target, parsed)?;
    if std::io::stdin().is_terminal() {
        return failed(FROM_TERMINAL);
    }
    let dry_run = receive.dry_run;
    let request = Request::Receive {
        receive: Box::new(receive),
        command,
    };
    let mut code = 0;
    let answer = context.ask_aloud(request, &mut |part| match part {
        Part::Receive(note) => {
            code |= u8::from(matches!(note, ReceiveNote::NotMounted(_)));
            said(note, is_verbose, dry_run)
        }
        _ => Said::default(),
    });
    match answer {
        Ok(_) => Ok(code),
        Err(error) if error.is_of_stream() => failed(error.to_string()),
        Err(error @ (ControlError::NoSuchDataset { .. } | ControlError::NoSuchPool { .. })) => {
            failed(cannot_open(target, &error))
        }
        Err(error) => failed(with_context("cannot receive", &error)),
    }
}

fn receive_of(target: &str, parsed: &Parsed) -> Result<Receive, Stop> {
    let has = |letter: &str| parsed.has(letter);
    if has("c") && ["d", "e", "F", "s", "u", "h"].into_iter().any(has) {
        return usage("-c is incompatible with -d, -e, -F, -s, -u and -h");
    }
    if has("d") && has("e") {
        return usage("invalid option combination: -d and -e are mutually exclusive");
    }
    let mut properties = pairs(parsed)?;
    let is_origin = |pair: &(String, String)| pair.0 == "origin";
    let origin = properties.iter().position(is_origin);
    let origin = origin.map(|at| properties.remove(at).1);
    let excluded: Vec<String> = parsed.all("x").map(full_name).collect();
    let given = properties.iter().map(|(name, _)| name);
    if let Some(problem) = named_twice(given.chain(&excluded)) {
        return usage(problem);
    }
    let key = key(target, &properties)?;
    Ok(Receive {
        target: target.to_owned(),
        naming: match (has("d"), has("e")) {
            (_, true) => ReceiveNaming::LastComponent,
            (true, _) => ReceiveNaming::WithoutPool,
            _ => ReceiveNaming::Below,
        },
        force: has("F"),
        resumable: has("s"),
        dry_run: has("n"),
        unmounted: has("u"),
        force_unmount: has("M"),
        without_holds: has("h"),
        corrective: has("c"),
        origin,
        properties,
        excluded,
        key,
    })
}

/// The key of a new encryption root. It must be in a file, because standard input has the stream.
fn key(target: &str, properties: &[(String, String)]) -> Result<Option<Secret>, Stop> {
    let value = |wanted: &str| {
        let mut pairs = properties.iter();
        let found = pairs.find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.as_str())
    };
    let location = value("keylocation");
    if location == Some("prompt") {
        return failed(
            "cannot receive: keylocation cannot be 'prompt', the standard input has the stream\n\
             give a file, and use 'zfs set keylocation=prompt' afterwards",
        );
    }
    let Some(format) = value("keyformat").filter(|format| *format != "none") else {
        return Ok(None);
    };
    let Some(location) = location else {
        return failed(
            "cannot receive: a new encryption root needs its key from a file\n\
             use '-o keylocation=file:///PATH'",
        );
    };
    match material::read_new(target, format, location) {
        Ok(key) => Ok(Some(key)),
        Err(reason) => failed(format!("cannot receive: {reason}")),
    }
}

fn said(note: ReceiveNote, is_verbose: bool, dry_run: bool) -> Said {
    let out = |text: String| Said {
        out: text,
        ..Said::default()
    };
    match note {
        ReceiveNote::Complaint(text) | ReceiveNote::NotMounted(text) => Said {
            err: text,
            ..Said::default()
        },
        _ if !is_verbose => Said::default(),
        ReceiveNote::Begin { kind, from, to } => {
            let would = match dry_run {
                true => "would receive",
                false => "receiving",
            };
            out(format!("{would} {kind} stream of {from} into {to}"))
        }
        ReceiveNote::End { bytes, nanoseconds } => {
            let seconds = (nanoseconds as f64 / 1e9).max(0.01);
            let rate = (bytes as f64 / seconds) as u64;
            out(format!(
                "received {} stream in {seconds:.2} seconds ({}/sec)",
                nicebytes(bytes),
                nicebytes(rate)
            ))
        }
        ReceiveNote::Detail(text) => out(text),
    }
}

/// `zfs receive -A DATASET`
fn abort(target: &str, parsed: &Parsed, command: String, context: &mut Context) -> Outcome {
    if parsed.only(&["A"]).is_err() {
        return usage("-A must be used alone");
    }
    let dataset = target.to_owned();
    match ask(Change::AbortReceive { dataset }, command, context) {
        Ok(_) => Ok(0),
        Err(ControlError::StreamRefused { reason, .. }) => failed(reason),
        Err(ControlError::Refused(Refusal::Stream { why, .. })) => failed(why.to_string()),
        Err(error @ (ControlError::NoSuchDataset { .. } | ControlError::NoSuchPool { .. })) => {
            usage(cannot_open(target, &error))
        }
        Err(error) => failed(with_context(&format!("cannot destroy '{target}'"), &error)),
    }
}
