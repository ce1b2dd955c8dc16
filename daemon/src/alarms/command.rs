//! `cenote alarm`: lists the channels for alarms, and tests them.

use cenote_alarms::{AlarmSource, alarm_ways};
use cenote_base::{Env, RealEnv};
use cenote_control::model::{
    AlarmAct, AlarmOutcome, AlarmWayState, ControlError, Request, Response,
};

use super::config::AlarmFile;
use cenote_words::command::{Arguments, Command, JSON, Run};
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use cenote_words::format::json::{Json, Object};

/// The command.
pub const COMMAND: Command = Command {
    name: "alarm",
    summary: "Show how alarms are sent, or send a test alarm each way",
    synopsis: "[list | test | reload]",
    about: ABOUT,
    flags: &[JSON],
    run: Run::Asking(run),
};

const ABOUT: &str = "\
The daemon sends mail, calls web servers or runs programs when a pool is in
trouble, as /etc/cenote/alarms.toml says; for a daemon of another user than root
$XDG_CONFIG_HOME/cenote/alarms.toml (~/.config), or the file that
'cenote daemon run --alarms' or $CENOTE_ALARMS names. 'test' makes the daemon
read the file again and send one alarm each way; the exit code is 1 if one fails.
'reload' only reads the file.";

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    // Operands that are not UTF-8 are unknown words.
    let words = arguments.operands.iter();
    let words: Vec<&str> = words.map(|word| word.to_str().unwrap_or("?")).collect();
    let act = match words.as_slice() {
        [] | ["list"] => AlarmAct::List,
        ["test"] => AlarmAct::Test,
        ["reload"] => AlarmAct::Reload,
        _ => return usage(""),
    };
    let (file, ways) = ask(act, context)?;
    if arguments.has("json") {
        let document = document(file.as_deref(), &ways);
        context.line(&document.to_string());
    } else {
        match &file {
            Some(file) => context.line(&format!("file  {file}")),
            None => context.line("no alarms are set up: 'cenote help alarm' names the file"),
        }
        for way in &ways {
            context.line(&line(way));
        }
    }
    let is_sent = |way: &AlarmWayState| way.outcome == Some(AlarmOutcome::Sent);
    let is_tried = act == AlarmAct::Test;
    // A test without any channel fails, because alarms would reach no one.
    Ok(u8::from(
        is_tried && (ways.is_empty() || !ways.iter().all(is_sent)),
    ))
}

type Ways = (Option<String>, Vec<AlarmWayState>);

/// The daemon's answer; without a daemon, the contents of the file that it would read.
fn ask(act: AlarmAct, context: &mut Context) -> Result<Ways, Stop> {
    match context.ask(Request::Alarms { act }) {
        Ok(Response::Alarms { file, ways }) => Ok((file, ways)),
        Ok(_) => failed(mismatch().to_string()),
        Err(ControlError::Unreachable { .. }) => {
            context.complain("no daemon is running: one would start with this");
            let plan = AlarmFile::find(None).load();
            let plan = plan.map_err(|error| Stop::Failed(error.to_string()))?;
            let env = RealEnv::new();
            let tried = (act == AlarmAct::Test).then_some(&env as &dyn Env);
            let ways = alarm_ways(&plan, tried);
            Ok((plan.file, ways))
        }
        Err(error) => failed(error.to_string()),
    }
}

fn line(way: &AlarmWayState) -> String {
    let (name, kind, target) = (&way.name, &way.kind, &way.target);
    let what = match name == kind {
        true => format!("{name}  {target}"),
        false => format!("{name}  {kind} {target}"),
    };
    match &way.outcome {
        Some(AlarmOutcome::Sent) => format!("{what}: sent"),
        Some(AlarmOutcome::Failed { reason }) => format!("{what}: FAILED: {reason}"),
        None => {
            let counts = [
                (way.sent, "sent"),
                (way.waiting, "waiting"),
                (way.failed, "failed"),
                (way.dropped, "dropped"),
            ];
            let counts = counts.map(|(number, word)| format!("{number} {word}"));
            let error = way.last_error.as_ref();
            let error = error.map_or(String::new(), |error| format!("; {error}"));
            format!("{what}: {}{error}", counts.join(", "))
        }
    }
}

fn document(file: Option<&str>, ways: &[AlarmWayState]) -> Json {
    let mut document = Object::new();
    if let Some(file) = file {
        document.put("file", file);
    }
    let list = ways.iter().map(|way| {
        let mut entry = Object::new();
        entry.put("name", way.name.as_str());
        entry.put("kind", way.kind.as_str());
        entry.put("target", way.target.as_str());
        entry.put("sent", way.sent);
        entry.put("waiting", way.waiting);
        entry.put("failed", way.failed);
        entry.put("dropped", way.dropped);
        if let Some(error) = &way.last_error {
            entry.put("last_error", error.as_str());
        }
        match &way.outcome {
            Some(AlarmOutcome::Sent) => entry.put("test", "sent"),
            Some(AlarmOutcome::Failed { reason }) => {
                entry.put("test", "failed");
                entry.put("reason", reason.as_str());
            }
            None => {}
        }
        Json::from(entry)
    });
    document.put("ways", list.collect::<Vec<Json>>());
    Json::from(document)
}
