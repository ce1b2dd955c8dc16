//! `cenote nbd serve --device`: serves a device until the command ends.
//!
//! Filters wrap the device in this order, from the inside out: copy-on-write file, delay, rate
//! limit, statistics. So the statistics show what the client sees.

use crate::devices::shown::{Shown, check_free};
use cenote_cloud::is_url;
use cenote_nbd::{
    BlockDevice, Client, Delay, DeviceDisk, ExportEntry, Exports, FileDisk, Filtered, Limits,
    Listener, OpenError, Overlay, Rate, Server, Statistics, TlsPolicy,
};
use cenote_words::command::Arguments;
use cenote_words::context::{Context, Outcome, Stop, failed, usage};
use cenote_words::format::url::escaped;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often to check for a signal.
const POLL: Duration = Duration::from_millis(100);
/// The longest delay: clients time out eventually.
const DELAY_MAX: Duration = Duration::from_secs(60);

/// A server's only device, with its name.
struct One {
    name: String,
    device: Arc<dyn BlockDevice>,
}

impl Exports for One {
    fn list(&self) -> Vec<ExportEntry> {
        vec![ExportEntry {
            name: self.name.clone(),
            description: self.device.description().unwrap_or_default(),
        }]
    }

    fn resolved(&self, name: &str) -> String {
        match name.is_empty() {
            true => self.name.clone(),
            false => name.to_owned(),
        }
    }

    fn open(&self, name: &str, _: &Client) -> Result<Arc<dyn BlockDevice>, OpenError> {
        match name == self.name {
            true => Ok(Arc::clone(&self.device)),
            false => Err(OpenError::Unknown(name.to_owned())),
        }
    }
}

/// `10ms`, `2s`, `500us`.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text[..digits].parse().ok()?;
    let time = match &text[digits..] {
        "us" => Duration::from_micros(number),
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        _ => return None,
    };
    (time <= DELAY_MAX).then_some(time)
}

/// The options besides the device.
struct Asked {
    name: String,
    unix: Option<PathBuf>,
    tcp: Option<String>,
    delay: Option<Duration>,
    rate: Option<u64>,
    cow_file: Option<PathBuf>,
    is_cow: bool,
    is_read_only: bool,
    has_statistics: bool,
}

impl Asked {
    fn of(arguments: &Arguments, context: &Context) -> Result<Self, Stop> {
        let text = |name: &str| -> Result<Option<String>, Stop> {
            match arguments.last(name).map(|word| word.to_str()) {
                None => Ok(None),
                Some(Some(word)) => Ok(Some(word.to_owned())),
                Some(None) => usage(format!("--{name}: not text")),
            }
        };
        let path = |name: &str| {
            let given = arguments.last(name);
            given.map(|path| context.place(Path::new(path)))
        };
        let delay = match text("delay")? {
            None => None,
            Some(word) => match duration(&word) {
                Some(delay) => Some(delay),
                None => return usage("--delay: not a time of at most 60 s, such as 10ms"),
            },
        };
        let rate = arguments.size("rate")?;
        if rate == Some(0) {
            return usage("--rate: must be at least 1 byte a second");
        }
        let asked = Self {
            name: text("export")?.unwrap_or_default(),
            unix: path("unix"),
            tcp: text("tcp")?,
            delay,
            rate,
            cow_file: path("cow-file"),
            is_cow: arguments.has("cow"),
            is_read_only: arguments.has("readonly"),
            has_statistics: arguments.has("stats"),
        };
        if asked.unix.is_none() && asked.tcp.is_none() {
            return usage("where is it to listen? Give --unix PATH or --tcp ADDRESS:PORT");
        }
        if asked.is_cow && asked.cow_file.is_some() {
            return usage("--cow and --cow-file exclude each other");
        }
        Ok(asked)
    }

    fn keeps_changes(&self) -> bool {
        self.is_cow || self.cow_file.is_some()
    }
}

/// The certificates, if connections are encrypted.
fn tls(arguments: &Arguments, context: &Context) -> Result<TlsPolicy, Stop> {
    let checks_clients = arguments.has("tls-verify-peer");
    let Some(directory) = arguments.last("tls-certificates") else {
        return match checks_clients {
            true => usage("--tls-verify-peer needs --tls-certificates"),
            false => Ok(TlsPolicy::Off),
        };
    };
    let directory = context.place(Path::new(directory));
    TlsPolicy::required(&directory, checks_clients)
        .map_err(|error| Stop::Failed(format!("{}: {error}", directory.display())))
}

/// Opens the device for the server. Also returns the handle to close at the end.
fn open(
    name: &str,
    is_read_only: bool,
    is_forced: bool,
) -> Result<(Arc<dyn BlockDevice>, Option<Shown>), String> {
    let path = Path::new(name);
    if !is_url(path) && path.is_file() {
        check_free(name, is_read_only)?;
        let opened = FileDisk::open(path, is_read_only);
        let disk = opened.map_err(|error| format!("cannot serve {name}: {error}"))?;
        return Ok((Arc::new(disk), None));
    }
    let shown = Shown::open(name, is_read_only, is_forced)?;
    let disk = DeviceDisk::new(Arc::clone(&shown.device), is_read_only);
    Ok((Arc::new(disk), Some(shown)))
}

/// Wraps the device in the requested filters.
fn filtered(
    mut device: Arc<dyn BlockDevice>,
    asked: &Asked,
) -> Result<(Arc<dyn BlockDevice>, Arc<Statistics>), Stop> {
    let overlay = match &asked.cow_file {
        Some(path) => Some(Overlay::open(Arc::clone(&device), path).map_err(|error| {
            Stop::Failed(format!(
                "cannot keep changes in {}: {error}",
                path.display()
            ))
        })?),
        None if asked.is_cow => {
            let overlay = Overlay::temporary(Arc::clone(&device));
            let directory = std::env::temp_dir();
            Some(overlay.map_err(|error| {
                let directory = directory.display();
                Stop::Failed(format!("cannot keep changes in {directory}: {error}"))
            })?)
        }
        None => None,
    };
    if let Some(overlay) = overlay {
        device = Arc::new(match asked.is_read_only {
            true => overlay.read_only(),
            false => overlay,
        });
    }
    if let Some(delay) = asked.delay {
        device = Arc::new(Filtered::new(device, Arc::new(Delay(delay))));
    }
    if let Some(rate) = asked.rate {
        device = Arc::new(Filtered::new(device, Arc::new(Rate::new(rate))));
    }
    let statistics = Arc::new(Statistics::default());
    if asked.has_statistics {
        device = Arc::new(Filtered::new(device, Arc::clone(&statistics)));
    }
    Ok((device, statistics))
}

/// Listens on the requested addresses; returns the URIs for clients, too.
fn listen(asked: &Asked, is_encrypted: bool) -> Result<(Vec<Listener>, Vec<String>), Stop> {
    let scheme = if is_encrypted { "nbds" } else { "nbd" };
    let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
    let name = escaped(&asked.name);
    if let Some(path) = &asked.unix {
        let listener = Listener::unix(path);
        listeners.push(listener.map_err(|error| {
            Stop::Failed(format!("cannot listen on {}: {error}", path.display()))
        })?);
        let socket = escaped(&path.to_string_lossy());
        addresses.push(format!("{scheme}+unix:///{name}?socket={socket}"));
    }
    if let Some(address) = &asked.tcp {
        let listener = Listener::tcp(address);
        let listener = listener
            .map_err(|error| Stop::Failed(format!("cannot listen on {address}: {error}")))?;
        // If no port was given, the kernel chose one.
        let bound = listener.port_address();
        let bound = bound.map_or_else(|| address.clone(), |bound| bound.to_string());
        addresses.push(format!("{scheme}://{bound}/{name}"));
        listeners.push(listener);
    }
    Ok((listeners, addresses))
}

/// Serves a device until a signal ends it.
pub fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let asked = Asked::of(arguments, context)?;
    let tls = tls(arguments, context)?;
    let name = arguments.last("device").and_then(|name| name.to_str());
    let Some(name) = name else {
        return usage("--device: not text");
    };
    let (stop, wanted) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    for (signal, flag) in [
        (SIGTERM, &stop),
        (SIGINT, &stop),
        (SIGHUP, &stop),
        (SIGUSR1, &wanted),
    ] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(flag)) {
            return failed(format!("cannot listen for signals: {error}"));
        }
    }
    let is_read_only = asked.is_read_only || asked.keeps_changes();
    let opened = open(name, is_read_only, arguments.has("force"));
    let (inner, shown) = opened.map_err(Stop::Failed)?;
    let served = serve(&inner, &asked, tls, (&stop, &wanted), context);
    let closed = match shown {
        Some(shown) => shown.close(),
        None if is_read_only => Ok(0),
        None => inner
            .flush()
            .map(|()| 0)
            .map_err(|error| Stop::Failed(format!("{name}: {error}"))),
    };
    served.and(closed)
}

fn serve(
    inner: &Arc<dyn BlockDevice>,
    asked: &Asked,
    tls: TlsPolicy,
    (stop, wanted): (&AtomicBool, &AtomicBool),
    context: &mut Context,
) -> Outcome {
    let (device, statistics) = filtered(Arc::clone(inner), asked)?;
    let (listeners, addresses) = listen(asked, !matches!(tls, TlsPolicy::Off))?;
    let exports = Arc::new(One {
        name: asked.name.clone(),
        device: Arc::clone(&device),
    });
    let server = Server::start(exports, listeners, Limits::default(), tls);
    let server = server.map_err(|error| Stop::Failed(format!("cannot serve: {error}")))?;
    addresses.iter().for_each(|address| context.line(address));
    context.flush();
    while !stop.load(Ordering::Relaxed) {
        cenote_base::rt::sleep(POLL);
        if wanted.swap(false, Ordering::Relaxed) && asked.has_statistics {
            context.print(&statistics.report());
            context.flush();
        }
    }
    // Complete pending requests first.
    drop(server);
    let flushed = match asked.keeps_changes() && !asked.is_read_only {
        true => device.flush(),
        false => Ok(()),
    };
    if asked.has_statistics {
        context.print(&statistics.report());
    }
    match flushed {
        Ok(()) => Ok(0),
        Err(error) => failed(format!("changes that were not flushed are lost: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_have_a_unit_and_an_end() {
        assert_eq!(duration("500us"), Some(Duration::from_micros(500)));
        assert_eq!(duration("10ms"), Some(Duration::from_millis(10)));
        assert_eq!(duration("60s"), Some(Duration::from_secs(60)));
        for wrong in [
            "",
            "10",
            "ms",
            "61s",
            "-1s",
            "1.5s",
            "1h",
            "99999999999999999999s",
        ] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }
}
