//! Samples the daemon every ten seconds, and keeps the last two samples and the history.
//!
//! Pages show rates between the last two samples. So a newly opened page has figures at once, and
//! many viewers cost no more than one.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cenote_control::model::{ControlError, Part, Request, Response};
use cenote_control::protocol::{Peer, Reply, Service};

use super::super::figures::Figures;
use super::super::sample::{Between, Sample};
use super::super::top::screens::wall_clock;
use super::history::{History, STEP, Series, Values};

/// The sampled measurements: cheap ones, without datasets, of which there may be many.
const NAMES: [&str; 10] = [
    "cenote_daemon_",
    "cenote_memory_",
    "cenote_pool_",
    "cenote_vdev_operations",
    "cenote_vdev_bytes",
    "cenote_arc_",
    "cenote_txg_",
    "cenote_log_",
    "cenote_mount_",
    "cenote_http_",
];

/// Receives the parts of an answer.
pub struct Parts<'a>(pub &'a mut dyn FnMut(Part));

impl Reply for Parts<'_> {
    fn part(&mut self, part: Part) -> Result<(), ControlError> {
        (self.0)(part);
        Ok(())
    }

    fn cancelled(&self) -> bool {
        false
    }

    fn take_descriptor(&mut self, _index: usize) -> Option<OwnedFd> {
        None
    }
}

/// This process as the sender of a request.
pub fn own_peer() -> Peer {
    Peer {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        pid: rustix::process::getpid().as_raw_nonzero().get(),
    }
}

/// The last two samples.
#[derive(Default)]
struct Looks {
    before: Option<Arc<Sample>>,
    now: Option<Arc<Sample>>,
}

/// Samples the daemon and stores the results.
pub struct Recorder {
    service: Arc<dyn Service>,
    /// The history of pools.
    pub history: History,
    looks: Mutex<Looks>,
}

impl Recorder {
    /// A recorder without samples.
    pub fn new(service: Arc<dyn Service>, history: History) -> Arc<Self> {
        Arc::new(Self {
            service,
            history,
            looks: Mutex::default(),
        })
    }

    /// Starts sampling, until the process ends.
    pub fn start(self: &Arc<Self>) -> std::io::Result<()> {
        let recorder = Arc::clone(self);
        let builder = thread::Builder::new().name("dashboard-looks".to_owned());
        let work = move || {
            loop {
                if let Err(error) = recorder.look() {
                    log::warn!("the dashboard's history has a gap: {error}");
                }
                // On multiples of the step, so that successive daemons write to the same positions.
                let into = wall_clock() % STEP;
                thread::sleep(Duration::from_secs(STEP - into));
            }
        };
        builder.spawn(work).map(drop)
    }

    /// Takes one sample.
    pub fn look(&self) -> Result<(), ControlError> {
        let mut figures = Figures::default();
        let names = NAMES.iter().map(|&name| name.to_owned()).collect();
        let at = Instant::now();
        let mut take = |part| {
            if let Part::Metrics(families) = part {
                figures.add(families);
            }
        };
        self.service
            .look(Request::Metrics { names }, &mut Parts(&mut take))?;
        let sample = Arc::new(Sample {
            at,
            pools: Vec::new(),
            figures,
            mounts: Vec::new(),
            servers: None,
        });
        {
            let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
            looks.before = looks.now.replace(Arc::clone(&sample));
        }
        self.history.add(wall_clock(), &self.values());
        Ok(())
    }

    /// Calls with the last two samples; `None` before the first one.
    pub fn with<T>(&self, call: impl FnOnce(Between<'_>) -> T) -> Option<T> {
        let (before, now) = {
            let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
            (looks.before.clone(), looks.now.clone()?)
        };
        Some(call(Between::new(before.as_deref(), &now)))
    }

    /// The values of the last step, for the history.
    fn values(&self) -> Vec<(String, u64, Values)> {
        let of = |between: Between<'_>| {
            let pools = between.now.figures.series("cenote_pool_info", &[]);
            let each = pools.filter_map(|pool| {
                let name = pool.label("pool");
                let guid = pool.label("guid").parse().ok()?;
                Some((name.to_owned(), guid, values_of(between, name)))
            });
            each.collect()
        };
        self.with(of).unwrap_or_default()
    }
}

/// The values of one pool; unknown ones are NaN.
fn values_of(between: Between<'_>, pool: &str) -> Values {
    let mut values = [f32::NAN; 7];
    let mut put = |series: Series, value: Option<u64>| {
        if let Some(value) = value {
            values[series as usize] = value as f32;
        }
    };
    if let Some(rates) = between.pool(pool) {
        put(Series::Reads, Some(rates.reads));
        put(Series::Writes, Some(rates.writes));
        put(Series::ReadBytes, Some(rates.read_bytes));
        put(Series::WrittenBytes, Some(rates.written_bytes));
    }
    let number = |name: &str| {
        let mut found = between.now.figures.series(name, &[("pool", pool)]);
        found.next().map(|series| series.number())
    };
    put(Series::Allocated, number("cenote_pool_allocated_bytes"));
    put(Series::Size, number("cenote_pool_size_bytes"));
    put(Series::Hits, between.hit_percent(Some(pool)));
    values
}

/// Sends requests for a visitor: owners may read private data.
pub struct Asker<'a> {
    service: &'a dyn Service,
    is_owner: bool,
}

impl<'a> Asker<'a> {
    /// For an owner, or for any other visitor.
    pub fn new(recorder: &'a Recorder, is_owner: bool) -> Self {
        Self {
            service: recorder.service.as_ref(),
            is_owner,
        }
    }

    /// Sends a request whose answer has parts.
    pub fn ask(
        &self,
        request: Request,
        mut part: impl FnMut(Part),
    ) -> Result<Response, ControlError> {
        let mut reply = Parts(&mut part);
        match self.is_owner {
            true => self.service.handle(request, own_peer(), &mut reply),
            false => self.service.look(request, &mut reply),
        }
    }
}
