//! `cenote daemon`: a process that keeps pools open for all other commands.
//!
//! [`engine`] assembles the daemon. [`resume`] imports and mounts the pools of a dead daemon again.
//! [`restart`] replaces the running daemon. [`guard`] aborts the mounts of a killed one.
//! [`logging`] writes the log, and [`alarms`] sends messages to people. Programs of users that run
//! for events are those of `cenote_zed`.

#![forbid(unsafe_code)]

pub mod alarms;
pub mod disks;
mod endpoint;
mod engine;
mod gauge;
mod guard;
mod logging;
mod mounter;
mod restart;
mod resume;
mod retry;
pub mod settings;
mod settings_files;

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cenote_alarms::{AlarmSetup, AlarmSource};
use cenote_control::model::{
    ControlError, DaemonStatus, DashboardAct, NbdListen, Request, Response, shell_word,
};
use cenote_control::protocol::{
    ServeOptions, Server, Service, clear_left_sockets, socket_of_process,
};
use cenote_control::record::{self, beside_socket};
use cenote_engine::MEMORY_MIN;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use zeroize::Zeroizing;

use alarms::AlarmFile;
use cenote_connect::death;
use cenote_connect::places::{Places, state_directory_of_process};
use cenote_watch::dashboard::{self, Dashboard};
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, DIED, Outcome, Stop, failed, usage};
use cenote_words::format::json::{Json, Object};
use cenote_words::format::number::{counted, duration, nicebytes};
use cenote_words::secrecy;
use cenote_zed::Zedlets;
use endpoint::Endpoint;

/// The command.
pub const COMMAND: Command = Command {
    name: "daemon",
    summary: "Run, look at or stop the process that keeps pools open",
    synopsis: "run | status | stop | restart | resume [POOL...] | forget [POOL...] | log |\n       \
               cenote daemon dashboard [on|off|ADDRESS:PORT]",
    about: "'run' stays in the foreground until it is stopped; 'zpool import' starts one by\n\
            itself, which leaves after its last pool is exported. The socket is $CENOTE_SOCKET,\n\
            else /run/cenote.sock for root and $XDG_RUNTIME_DIR/cenote.sock for others.\n\
            'restart' replaces the daemon by one of the installed program. Pools, mounts, served\n\
            volumes and sites come back. It is refused while file systems or volumes are in use.\n\
            'resume' imports and mounts what a daemon had that died, and after a\n\
            start of the machine the pools in the cache file. A pool that is not there then is\n\
            missing: 'cenote health' and others say so. The daemon tries again when its devices\n\
            appear. 'forget' removes what a dead daemon left, its mounts too, without importing\n\
            anything. 'forget POOL' ends that a missing pool is expected, also at later starts.\n\
            'log' prints the daemon's messages.\n\
            'dashboard' says where the dashboard is served. With ADDRESS:PORT it is served there,\n\
            too, until the daemon ends; 'on' is 127.0.0.1:9134. Anyone with access to the port\n\
            may read. 'off' ends that.",
    flags: flags! {
        'j' "json" _ "print JSON";
        _ "auto" _ "run: leave after the last pool is exported";
        _ "memory" "SIZE" "run: use at most SIZE of memory for caches and buffers of\n\
            all pools; 3/8 of the machine's";
        _ "settings" "FILE" "run: read settings from this file, not from $CENOTE_SETTINGS,\n\
            /etc/modprobe.d/zfs.conf and /etc/cenote/settings.conf\n\
            (may be repeated)";
        _ "alarms" "FILE" "run: send alarms as this file says; 'cenote help alarm'";
        _ "zedlets" "DIRECTORY" "run: run the programs of this directory for events (zed(8));\n\
            /etc/zfs/zed.d; an empty word means none; $CENOTE_ZEDLETS";
        _ "nbd-tcp" "ADDRESS:PORT" "run: serve volumes with cenote:nbd=on on this port, too;\n\
            $CENOTE_NBD_TCP";
        _ "nbd-tls" "DIRECTORY" "run: encrypt that with the certificates in this directory;\n\
            clients need one, too; $CENOTE_NBD_TLS";
        _ "metrics-listen" "ADDRESS:PORT" "run: serve the dashboard and /metrics on this port,\n\
            too; anyone with access to it may read; $CENOTE_METRICS_LISTEN";
        _ "dashboard-token-file" "FILE" "run: users with the token in this file may scrub,\n\
            clear errors and take snapshots from the dashboard;\n\
            $CENOTE_DASHBOARD_TOKEN_FILE";
        _ "others" "WHAT" "run: what other users may look at: 'none', 'pools' (the default:\n\
            status, lists, properties, health) or 'keys' (also where keys\n\
            are); $CENOTE_OTHERS";
        'f' "force" _ "stop, restart: although file systems are busy, and restart: although\n\
            keys have to be typed again; log: the same as --follow";
        _ "follow" _ "log: then wait for new messages (also -f)";
        'n' "lines" "NUMBER" "log: only the last NUMBER lines";
    },
    run: Run::Asking(run),
};

/// The options of `run`.
const RUN: &[&str] = &[
    "auto",
    "memory",
    "settings",
    "alarms",
    "zedlets",
    "metrics-listen",
    "dashboard-token-file",
    "others",
    "nbd-tcp",
    "nbd-tls",
];

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let words: Vec<&str> = arguments
        .operands
        .iter()
        .filter_map(|word| word.to_str())
        .collect();
    match words.as_slice() {
        ["run"] | [] => {
            arguments.only(RUN)?;
            serve(arguments)
        }
        // Not for users: the daemon's helper process.
        [guard::OPERAND, thread] => match guard::run(thread) {
            Ok(()) => Ok(0),
            Err(error) => failed(error.to_string()),
        },
        ["status"] => {
            arguments.only(&["json"])?;
            status(arguments, context)
        }
        ["stop"] => {
            arguments.only(&["force"])?;
            stop(arguments, context)
        }
        ["restart"] => {
            arguments.only(&["force"])?;
            restart::run(arguments.has("force"), &socket(), context)
        }
        ["resume", pools @ ..] => {
            arguments.only(&[])?;
            resume::run(pools, context)
        }
        ["forget"] => {
            arguments.only(&[])?;
            forget(context)
        }
        ["forget", pools @ ..] => {
            arguments.only(&[])?;
            resume::forget(pools, &socket(), context)
        }
        ["dashboard", rest @ ..] => {
            arguments.only(&[])?;
            dashboard_command(rest, context)
        }
        ["log"] => {
            arguments.only(&["follow", "force", "lines"])?;
            print_log(arguments, context)
        }
        _ => usage(""),
    }
}

fn socket() -> PathBuf {
    absolute(socket_of_process())
}

/// An absolute path, which stays valid when the process changes its directory.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Leaves the daemon's start directory. Otherwise its file system would stay busy and could never
/// be unmounted.
fn leave_directory() -> Result<(), Stop> {
    let left = std::env::set_current_dir("/");
    left.or_else(|error| failed(format!("cannot change to the directory '/': {error}")))
}

/// What other users may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    None,
    Pools,
    Keys,
}

/// The variable for daemons that are started automatically.
const OTHERS: &str = "CENOTE_OTHERS";

fn others(arguments: &Arguments) -> Result<Others, Stop> {
    let given = arguments.last("others").map(|word| word.to_owned());
    let word = given.or_else(|| std::env::var_os(OTHERS).filter(|word| !word.is_empty()));
    match word.as_ref().map(|word| word.to_str()) {
        None | Some(Some("pools")) => Ok(Others::Pools),
        Some(Some("none")) => Ok(Others::None),
        Some(Some("keys")) => Ok(Others::Keys),
        Some(_) => failed(format!(
            "--others, {OTHERS}: must be 'none', 'pools' or 'keys'"
        )),
    }
}

/// The unix socket for metrics.
fn metrics_socket(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".metrics");
    PathBuf::from(path)
}

/// Opens the endpoint for metrics and the dashboard.
fn metrics_endpoint(arguments: &Arguments, socket: &Path) -> Result<Endpoint, Stop> {
    let given = arguments.last("metrics-listen").map(|word| word.to_owned());
    let variable = || std::env::var_os("CENOTE_METRICS_LISTEN").filter(|word| !word.is_empty());
    let tcp = match given.or_else(variable).map(|word| word.into_string()) {
        None => None,
        Some(Ok(address)) if address.contains(':') => Some(address),
        Some(_) => {
            return failed("--metrics-listen, CENOTE_METRICS_LISTEN: must be ADDRESS:PORT");
        }
    };
    let endpoint = Endpoint::bind(&metrics_socket(socket), tcp.as_deref());
    endpoint.map_err(|why| Stop::Failed(format!("--metrics-listen: {why}")))
}

/// The default address of the dashboard.
const DASHBOARD: &str = "127.0.0.1:9134";

/// `cenote daemon dashboard [on|off|ADDRESS:PORT]`.
fn dashboard_command(words: &[&str], context: &mut Context) -> Outcome {
    let act = match words {
        [] => DashboardAct::Status,
        ["on"] => DashboardAct::Listen {
            address: DASHBOARD.to_owned(),
        },
        ["off"] => DashboardAct::Close,
        [address] if address.contains(':') => DashboardAct::Listen {
            address: (*address).to_owned(),
        },
        _ => return usage("'on', 'off' or ADDRESS:PORT"),
    };
    let addresses = match context.ask(Request::Dashboard { act }) {
        Ok(Response::Dashboard { addresses }) => addresses,
        Ok(_) => return failed(cenote_words::context::mismatch().to_string()),
        Err(error) => return failed(error.to_string()),
    };
    for address in &addresses {
        context.line(&match address.strip_prefix("unix:") {
            Some(path) => format!("unix socket {path}"),
            None => format!("http://{address}/"),
        });
    }
    if addresses.is_empty() {
        context.line("the dashboard is served nowhere; the daemon's log says why");
    }
    Ok(0)
}

/// The token for the dashboard's actions.
fn dashboard_token(arguments: &Arguments) -> Result<Option<Zeroizing<String>>, Stop> {
    let given = arguments
        .last("dashboard-token-file")
        .map(|word| word.to_owned());
    let variable = || std::env::var_os("CENOTE_DASHBOARD_TOKEN_FILE");
    let file = given.or_else(|| variable().filter(|word| !word.is_empty()));
    let token = file.map(|file| dashboard::read_token(&absolute(file.into())));
    token.transpose().map_err(Stop::Failed)
}

/// The addresses of the server for volumes with the property `cenote:nbd`.
fn own_server(arguments: &Arguments, socket: &Path) -> Result<NbdListen, Stop> {
    let given = |option: &str, variable: &str| {
        let given = arguments.last(option).map(|word| word.to_owned());
        given.or_else(|| std::env::var_os(variable).filter(|word| !word.is_empty()))
    };
    let tcp = match given("nbd-tcp", "CENOTE_NBD_TCP").map(|word| word.into_string()) {
        None => None,
        Some(Ok(address)) if address.contains(':') => Some(address),
        Some(_) => return failed("--nbd-tcp, CENOTE_NBD_TCP: must be ADDRESS:PORT"),
    };
    let tls = given("nbd-tls", "CENOTE_NBD_TLS");
    let tls = tls.map(|directory| absolute(directory.into()).to_string_lossy().into_owned());
    if tls.is_some() && tcp.is_none() {
        return failed("--nbd-tls is for --nbd-tcp, which is not given");
    }
    let mut unix = socket.as_os_str().to_owned();
    unix.push(".nbd");
    Ok(NbdListen {
        unix: Some(unix.to_string_lossy().into_owned()),
        tcp,
        checks_clients: tls.is_some(),
        tls,
    })
}

/// Sends a notification to systemd, if it wants any (sd_notify(3)).
fn notify_service(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let bytes = path.as_encoded_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let sent = address.and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        socket.send_to_addr(state.as_bytes(), &address)
    });
    if let Err(error) = sent {
        log::warn!("systemd was not told '{state}': {error}");
    }
}

/// Sends systemd the line that `systemctl status` shows.
fn notify_state(state: &str) {
    notify_service(&format!("STATUS={state}"));
}

fn serve(arguments: &Arguments) -> Outcome {
    let memory = arguments.size("memory")?;
    if memory.is_some_and(|memory| memory < MEMORY_MIN) {
        let least = nicebytes(MEMORY_MIN);
        return failed(format!("--memory: {least} is the least that can work"));
    }
    secrecy::keep_out_of_dumps();
    let others = others(arguments)?;
    let auto = arguments.has("auto");
    let notes = settings_files::load(arguments.all("settings").collect()).map_err(Stop::Failed)?;
    let alarms = alarm_setup(arguments)?;
    let socket = socket();
    let own_server = own_server(arguments, &socket)?;
    let bound = Server::bind(&socket).and_then(|server| match others {
        Others::None => Ok(server),
        Others::Pools | Others::Keys => server.with_view(),
    });
    let server = bound.map_err(|error| Stop::Failed(error.to_string()))?;
    let (endpoint, token) = (
        metrics_endpoint(arguments, &socket)?,
        dashboard_token(arguments)?,
    );
    let places = Places::of_process(&socket);
    let zedlets = zedlet_places(arguments, &places);
    leave_directory()?;
    begin_log(&places, &socket, &notes);
    // Read the predecessor's note before it is replaced.
    let before = death::found_at_start(&socket, server.took_over());
    if let Err(error) = server.leave_note(&places.note()) {
        log::warn!("{}.note is not written: {error}", socket.display());
    }
    let stop = stop_on_signals()?;
    let service = engine::service(engine::Wanted {
        memory,
        auto,
        alarms,
        shows_keys: others == Others::Keys,
        own_server,
        socket: socket.clone(),
        places,
        before,
        dashboard: endpoint.switch(),
        measured: endpoint.registry(),
    });
    if auto {
        leave_terminal()?;
    }
    let dashboard = Dashboard::new(Arc::clone(&service), token, state_directory_of_process());
    let zedlets = begin_zedlets(zedlets, &service, &socket)?;
    let served = endpoint.serve(&service, dashboard).map_err(Stop::Failed)?;
    notify_service("READY=1");
    let retry = retry::Retry::begin(Arc::clone(&service), socket, notify_state);
    let options = ServeOptions {
        auto,
        ..ServeOptions::default()
    };
    server.run(service, options, stop);
    drop(retry);
    drop(served);
    notify_service("STOPPING=1");
    if let Some(zedlets) = zedlets {
        zedlets.finish();
    }
    log::info!("the daemon ends");
    log::logger().flush();
    Ok(0)
}

/// Where alarms are sent.
fn alarm_setup(arguments: &Arguments) -> Result<AlarmSetup, Stop> {
    let file = arguments.last("alarms").map(PathBuf::from);
    let file = AlarmFile::find(file.map(absolute));
    let plan = file.load();
    Ok(AlarmSetup {
        plan: plan.map_err(|error| Stop::Failed(format!("alarms: {error}")))?,
        source: Some(Box::new(file)),
    })
}

/// The directory of users' programs for events, if there is to be one, and the file for events
/// that wait for the next daemon.
fn zedlet_places(arguments: &Arguments, places: &Places) -> Option<(PathBuf, Option<PathBuf>)> {
    let given = arguments.last("zedlets").map(PathBuf::from);
    let is_root = rustix::process::geteuid().is_root();
    let variable = |name: &str| std::env::var_os(name);
    let directory = cenote_zed::directory_of_daemon(given, is_root, &variable)?;
    let record = places.record.as_ref();
    let kept = record.map(|record| record.with_extension("zedlets"));
    Some((absolute(directory), kept))
}

/// Begins to run users' programs for events, if there are to be any.
fn begin_zedlets(
    places: Option<(PathBuf, Option<PathBuf>)>,
    service: &Arc<dyn Service>,
    socket: &Path,
) -> Result<Option<Zedlets>, Stop> {
    let Some((directory, kept)) = places else {
        return Ok(None);
    };
    let begun = Zedlets::begin(Arc::clone(service), directory, socket, kept);
    let begun = begun.map_err(|error| Stop::Failed(format!("zedlets: no thread: {error}")))?;
    Ok(Some(begun))
}

/// Begins the log with earlier messages.
fn begin_log(places: &Places, socket: &Path, notes: &[String]) {
    logging::begin(places.log.clone());
    log::info!(
        "cenote {} starts on {}",
        env!("CARGO_PKG_VERSION"),
        socket.display()
    );
    notes.iter().for_each(|note| log::warn!("{note}"));
}

/// A flag that SIGTERM, SIGINT and SIGHUP set to stop the daemon.
fn stop_on_signals() -> Result<Arc<AtomicBool>, Stop> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let registered = signal_hook::flag::register(signal, Arc::clone(&stop));
        registered.map_err(|error| Stop::Failed(format!("cannot listen for signals: {error}")))?;
    }
    Ok(stop)
}

/// The process that started us stops reading once we listen; a closed pipe must not end us.
fn leave_terminal() -> Result<(), Stop> {
    logging::leave_console();
    let null = std::fs::File::options().write(true).open("/dev/null");
    if let Ok(null) = null
        && let Err(error) = rustix::stdio::dup2_stderr(null)
    {
        return failed(format!("cannot leave the terminal: {error}"));
    }
    Ok(())
}

/// Forgets what a dead daemon had, and unmounts its dead mounts.
fn forget(context: &mut Context) -> Outcome {
    let socket = socket();
    let death = death::of_socket(&socket).or_else(|| death::before_this(&socket));
    match context.ask(Request::DaemonForget) {
        Ok(_) => {}
        // No daemon runs. One that starts now reads the record only after it has the socket's lock.
        Err(ControlError::Unreachable { .. }) => {
            if death.is_some() {
                forget_traces(&socket)?;
            }
        }
        Err(error) => return failed(error.to_string()),
    }
    let mut code = 0;
    let loss = death.map(|death| death.loss);
    let recorded = loss.iter().flat_map(|loss| &loss.pools);
    let recorded = recorded.flat_map(|pool| pool.mounts.iter().rev().map(|mount| &mount.place));
    for place in recorded {
        let cleared = cenote_fuse::clear_stale_mounts(Path::new(place));
        let failed = match cleared {
            Ok(cleared) => cleared.failed,
            Err(error) => vec![(PathBuf::from(place), error)],
        };
        for (place, error) in failed {
            let place = place.display();
            context.complain(&format!("a dead mount stays at {place}: {error}"));
            code = 1;
        }
    }
    disks::complain_of_left(context);
    for pool in context.missing() {
        let name = shell_word(&pool.name);
        context.complain(&format!(
            "pool '{}' stays in the cache file, and is imported at the next start of the machine; \
             'cenote daemon forget {name}' ends that",
            pool.name
        ));
    }
    context.forget_death();
    // These are in no record; they may belong to a daemon on another socket.
    for place in loss.iter().flat_map(|loss| &loss.dead_mounts) {
        context.complain(&format!(
            "a dead mount stays at {place}; 'cenote unmount {}' takes it away",
            shell_word(place)
        ));
    }
    Ok(code)
}

/// Removes a dead daemon's traces: its record, even if unreadable, and its socket.
fn forget_traces(socket: &Path) -> Result<(), Stop> {
    let beside = beside_socket(socket);
    let file = Places::of_socket(socket).record;
    for file in file.iter().chain([&beside]) {
        let removed = record::remove(file);
        // If it is not a regular file, it is not ours, and is only moved aside.
        let removed = removed.or_else(|_| record::set_aside(file).map(drop));
        removed.or_else(|error| failed(format!("{}: {error}", file.display())))?;
    }
    let _ = std::fs::remove_file(metrics_socket(socket));
    let cleared = clear_left_sockets(socket);
    cleared.or_else(|error| failed(format!("{}: {error}", socket.display())))
}

fn print_log(arguments: &Arguments, context: &mut Context) -> Outcome {
    let count = arguments.number("lines")?;
    let count = count.map_or(usize::MAX, |count| {
        usize::try_from(count).unwrap_or(usize::MAX)
    });
    let follow = arguments.has("follow") || arguments.has("force");
    match Places::of_socket(&socket()).log {
        Some(file) => logging::show(&file, count, follow, context),
        None => failed("there is no log: $CENOTE_STATE is empty or $HOME is not set"),
    }
}

/// The output of `status -j`.
fn status_json(status: &DaemonStatus) -> Json {
    let mut object = Object::new();
    object.put("version", status.version.as_str());
    object.put("pid", u64::from(status.pid));
    object.put("socket", socket().to_string_lossy().into_owned());
    object.put("auto", status.auto);
    object.put("uptime", status.uptime);
    object.put("memory_limit", status.memory_limit);
    object.put("memory_used", status.memory_used);
    if let Some(failure) = &status.record_failure {
        object.put("record_failure", failure.as_str());
    }
    if !status.cache_failures.is_empty() {
        let failures = status
            .cache_failures
            .iter()
            .map(|line| Json::from(line.as_str()));
        object.put(
            "cache_failures",
            Json::from(failures.collect::<Vec<Json>>()),
        );
    }
    let mut pools = Object::new();
    for pool in &status.pools {
        let mut entry = Object::new();
        entry.put("health", pool.health.word());
        entry.put("mounts", pool.mounts);
        pools.put(&pool.name, entry);
    }
    object.put("pools", pools);
    Json::from(object)
}

fn status(arguments: &Arguments, context: &mut Context) -> Outcome {
    let status = match context.ask(Request::DaemonStatus) {
        Ok(Response::Status { status }) => status,
        Ok(_) => return failed("the daemon gave an answer to another question"),
        Err(ControlError::Unreachable { reason }) => {
            context.line(&format!("{reason} ({})", socket().display()));
            return Ok(3);
        }
        Err(error @ ControlError::DaemonDied { .. }) => {
            context.complain(&error.to_string());
            return Ok(DIED);
        }
        Err(error) => return failed(error.to_string()),
    };
    context.complain_of_lost();
    context.complain_of_missing();
    context.complain_of_record();
    if arguments.has("json") {
        context.line(&status_json(&status).to_string());
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
        let mounts = counted(mounts, "mount");
        context.line(&format!("pool    {}  {health}, {mounts}", pool.name));
    }
    Ok(0)
}

fn stop(arguments: &Arguments, context: &mut Context) -> Outcome {
    let request = Request::DaemonStop {
        force: arguments.has("force"),
        is_restart: false,
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
