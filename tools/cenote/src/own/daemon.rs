//! `cenote daemon`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cenote_control::model::{ControlError, Request, Response};
use cenote_control::protocol::{ServeOptions, Server, socket_path};
use cenote_engine::{AlarmSetup, AlarmSource, MEMORY_MIN};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::Command;
use super::arguments::{Arguments, flag, option};
use super::{engine, guard, settings_files};
use crate::alarms::AlarmFile;
use crate::context::{Context, Outcome, failed, usage};
use crate::format::json::{Json, Object};
use crate::format::number::{duration, nicebytes};

/// The command.
pub const COMMAND: Command = Command {
    name: "daemon",
    summary: "Run, look at or stop the process that keeps pools open",
    synopsis: "run | status | stop",
    about: "'run' stays in the foreground until it is stopped; 'zpool import' starts one by\n\
            itself, which leaves after its last pool is exported. The socket is $CENOTE_SOCKET,\n\
            else $XDG_RUNTIME_DIR/cenote.sock, else /run/cenote.sock.",
    flags: &[
        flag(None, "auto", "run: leave after the last pool is exported"),
        option(
            None,
            "memory",
            "SIZE",
            "run: use at most so much memory for caches and buffers of\n\
             all pools; 3/8 of the machine's",
        ),
        option(
            None,
            "settings",
            "FILE",
            "run: read settings from this file, not from $CENOTE_SETTINGS,\n\
             /etc/modprobe.d/zfs.conf and /etc/cenote/settings.conf\n\
             (may be repeated)",
        ),
        option(
            None,
            "alarms",
            "FILE",
            "run: send alarms as this file says; 'cenote help alarm'",
        ),
        flag(Some('f'), "force", "stop: although file systems are busy"),
    ],
    opens_pools: false,
    run,
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let words: Vec<&str> = arguments
        .operands
        .iter()
        .filter_map(|word| word.to_str())
        .collect();
    match words.as_slice() {
        ["run"] | [] => serve(arguments),
        // Not for people: the daemon's own helper.
        [guard::OPERAND, thread] => match guard::run(thread) {
            Ok(()) => Ok(0),
            Err(error) => failed(error.to_string()),
        },
        ["status"] => status(arguments, context),
        ["stop"] => stop(arguments, context),
        _ => usage(""),
    }
}

fn socket() -> PathBuf {
    absolute(socket_path(|name| std::env::var_os(name)))
}

/// A path that means the same wherever the process goes.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Leaves the directory that the daemon was started in: on a file system of its own it would keep
/// that busy, and keep it from ever being unmounted.
fn leave_directory() -> std::io::Result<()> {
    std::env::set_current_dir("/")
}

fn serve(arguments: &Arguments) -> Outcome {
    if arguments.memory.is_some_and(|memory| memory < MEMORY_MIN) {
        let least = nicebytes(MEMORY_MIN);
        return failed(format!("--memory: {least} is the least that can work"));
    }
    match settings_files::load(arguments.all("settings")) {
        Ok(notes) => notes.iter().for_each(|note| eprintln!("cenote: {note}")),
        Err(message) => return failed(message),
    }
    let alarms = arguments.last("alarms").map(PathBuf::from);
    let alarms = AlarmFile::find(alarms.map(absolute));
    let plan = match alarms.load() {
        Ok(plan) => plan,
        Err(error) => return failed(format!("alarms: {error}")),
    };
    let server = match Server::bind(&socket()) {
        Ok(server) => server,
        Err(error) => return failed(error.to_string()),
    };
    if let Err(error) = leave_directory() {
        return failed(format!("cannot change to the directory '/': {error}"));
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&stop)) {
            return failed(format!("cannot listen for signals: {error}"));
        }
    }
    let auto = arguments.has("auto");
    let alarms = AlarmSetup {
        plan,
        source: Some(Box::new(alarms)),
    };
    let service = engine::service(arguments.memory, auto, alarms);
    if auto {
        // Whoever started us stops reading once we listen; a closed pipe must not end us.
        let null = std::fs::File::options().write(true).open("/dev/null");
        if let Ok(null) = null
            && let Err(error) = rustix::stdio::dup2_stderr(null)
        {
            return failed(format!("cannot leave the terminal: {error}"));
        }
    }
    let options = ServeOptions {
        auto,
        ..ServeOptions::default()
    };
    server.run(service, options, stop);
    Ok(0)
}

fn status(arguments: &Arguments, context: &mut Context) -> Outcome {
    let status = match context.ask(Request::DaemonStatus) {
        Ok(Response::Status { status }) => status,
        Ok(_) => return failed("the daemon gave an answer to another question"),
        Err(ControlError::Unreachable { reason }) => {
            context.line(&format!("{reason} ({})", socket().display()));
            return Ok(3);
        }
        Err(error) => return failed(error.to_string()),
    };
    if arguments.has("json") {
        let mut object = Object::new();
        object.put("version", status.version.as_str());
        object.put("pid", u64::from(status.pid));
        object.put("socket", socket().to_string_lossy().into_owned());
        object.put("auto", status.auto);
        object.put("uptime", status.uptime);
        object.put("memory_limit", status.memory_limit);
        object.put("memory_used", status.memory_used);
        let mut pools = Object::new();
        for pool in &status.pools {
            let mut entry = Object::new();
            entry.put("health", pool.health.word());
            entry.put("mounts", pool.mounts);
            pools.put(&pool.name, entry);
        }
        object.put("pools", pools);
        context.line(&Json::from(object).to_string());
        return Ok(0);
    }
    let kind = if status.auto {
        ", leaves after its last pool"
    } else {
        ""
    };
    context.line(&format!(
        "cenote {} is running as process {} for {}{kind}",
        status.version,
        status.pid,
        duration(status.uptime)
    ));
    context.line(&format!("socket  {}", socket().display()));
    context.line(&format!(
        "memory  {} of {}",
        nicebytes(status.memory_used),
        nicebytes(status.memory_limit)
    ));
    for pool in &status.pools {
        let (health, mounts) = (pool.health.word(), pool.mounts);
        context.line(&format!("pool    {}  {health}, {mounts} mounts", pool.name));
    }
    Ok(0)
}

fn stop(arguments: &Arguments, context: &mut Context) -> Outcome {
    let request = Request::DaemonStop {
        force: arguments.has("force"),
    };
    match context.ask(request) {
        Ok(_) => Ok(0),
        Err(ControlError::Unreachable { reason }) => {
            context.line(&format!("{reason} ({})", socket().display()));
            Ok(0)
        }
        Err(error) => failed(format!("cannot stop the daemon: {error}")),
    }
}
