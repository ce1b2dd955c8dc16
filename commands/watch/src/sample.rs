//! The daemon's state at one moment, and the activity between two.
//!
//! `cenote top` and the dashboard show the same rows: pools, vdevs, datasets, clients. A rate is
//! always the growth of a counter between two samples, never a mean since the start. If a counter
//! fell, it belongs to a new owner and began at 0 in between: the pool was imported again, or the
//! volume has another client.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use cenote_control::model::{
    ControlError, Distribution, MetricValue, MountEntry, NbdAct, NbdServer, Part, PoolStatus,
    Request, Response,
};

use super::figures::{Figures, Labelled};
use cenote_words::context::mismatch;

/// Sends a request to the daemon; the second argument receives the parts of the answer.
pub type Ask<'a> =
    &'a mut dyn FnMut(Request, &mut dyn FnMut(Part)) -> Result<Response, ControlError>;

/// Prefixes of the measurements in a sample.
const NAMES: [&str; 12] = [
    "cenote_daemon_",
    "cenote_memory_",
    "cenote_pool_",
    "cenote_vdev_",
    "cenote_dataset_",
    "cenote_arc_",
    "cenote_txg_",
    "cenote_log_",
    "cenote_mount_",
    "cenote_nbd_",
    "cenote_http_",
    "process_",
];

/// The daemon's answers at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When, on the clock for rates.
    pub at: Instant,
    /// The pools, in order of name.
    pub pools: Vec<PoolStatus>,
    /// The measurements.
    pub figures: Figures,
    /// The mounts.
    pub mounts: Vec<MountEntry>,
    /// The servers of volumes with their clients; `None` if the user may not see them.
    pub servers: Option<Vec<NbdServer>>,
}

impl Sample {
    /// Requests all of it. Users that may not see the clients of volumes get the rest.
    pub fn take(ask: Ask<'_>) -> Result<Self, ControlError> {
        let mut figures = Figures::default();
        let names = NAMES.iter().map(|&name| name.to_owned()).collect();
        let at = Instant::now();
        ask(Request::Metrics { names }, &mut |part| {
            if let Part::Metrics(families) = part {
                figures.add(families);
            }
        })?;
        let status = Request::PoolStatus {
            pools: Vec::new(),
            errors: false,
            dedup: false,
        };
        let Response::Statuses { mut pools, .. } = ask(status, &mut |_| {})? else {
            return Err(mismatch());
        };
        pools.sort_by(|one, other| one.name.cmp(&other.name));
        let Response::Mounts { mounts } = ask(Request::MountList, &mut |_| {})? else {
            return Err(mismatch());
        };
        let act = NbdAct::Status;
        let servers = match ask(Request::Nbd { act }, &mut |_| {}) {
            Ok(Response::Nbd { servers }) => Some(servers),
            Ok(_) => return Err(mismatch()),
            Err(ControlError::PermissionDenied) => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            at,
            pools,
            figures,
            mounts,
            servers,
        })
    }
}

/// Activity per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// A client of the daemon: a mount, a connection to a served volume, or a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// `mount`, `nbd` or `http`.
    pub kind: &'static str,
    /// The dataset or the volume; empty for a connection that has not chosen one.
    pub name: String,
    /// The mount points, the address, or the place of a site.
    pub place: String,
    /// Its requests per second. Servers do not count reads and writes of a connection separately:
    /// all its requests are in `reads`.
    pub rates: Option<Rates>,
    /// Requests in a second, of all kinds.
    pub requests: Option<u64>,
    /// Requests that were answered with an error, in a second.
    pub errors: Option<u64>,
    /// The mean time of a request, in nanoseconds.
    pub latency: Option<u64>,
}

/// Two samples; with only one, rates are unknown.
#[derive(Clone, Copy, Debug)]
pub struct Between<'a> {
    /// The later sample.
    pub now: &'a Sample,
    before: Option<&'a Sample>,
}

/// The growth of a counter.
pub fn growth(before: u64, now: u64) -> u64 {
    match now.checked_sub(before) {
        Some(growth) => growth,
        None => now,
    }
}

/// Reads, writes, bytes read and bytes written, by the same key.
fn joined<'a>(columns: [HashMap<&'a str, u64>; 4]) -> HashMap<&'a str, Rates> {
    let mut all: HashMap<&'a str, Rates> = HashMap::new();
    for (column, numbers) in columns.into_iter().enumerate() {
        for (key, number) in numbers {
            let rates = all.entry(key).or_default();
            *match column {
                0 => &mut rates.reads,
                1 => &mut rates.writes,
                2 => &mut rates.read_bytes,
                _ => &mut rates.written_bytes,
            } = number;
        }
    }
    all
}

/// Whether no bucket of a histogram has less than before.
fn contains(now: &Distribution, before: &Distribution) -> bool {
    let of = |index: usize| now.counts.get(index).copied().unwrap_or(0);
    let mut counts = before.counts.iter().enumerate();
    counts.all(|(index, count)| of(index) >= *count)
}

/// The growth of a histogram.
pub fn histogram_growth(before: &Distribution, now: &Distribution) -> Distribution {
    match contains(now, before) {
        true => now.since(before),
        false => now.clone(),
    }
}

/// The percentile of a histogram: the end of its bucket.
pub fn percentile(distribution: &Distribution, percent: u64) -> Option<u64> {
    let total = distribution.count();
    if total == 0 {
        return None;
    }
    let wanted = (u128::from(total) * u128::from(percent)).div_ceil(100);
    let mut sum = 0_u128;
    for (bucket, count) in distribution.counts.iter().enumerate() {
        sum += u128::from(*count);
        if sum >= wanted {
            return Some(1_u64.checked_shl(bucket as u32 + 1).unwrap_or(u64::MAX));
        }
    }
    None
}

impl Rates {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            reads: self.reads.saturating_add(other.reads),
            writes: self.writes.saturating_add(other.writes),
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            written_bytes: self.written_bytes.saturating_add(other.written_bytes),
        }
    }
}

impl<'a> Between<'a> {
    /// The activity since an earlier sample.
    pub fn new(before: Option<&'a Sample>, now: &'a Sample) -> Self {
        Self { now, before }
    }

    /// The earlier sample.
    pub fn earlier(&self) -> Option<&'a Sample> {
        self.before
    }

    /// The time between the samples.
    fn nanoseconds(&self) -> Option<u128> {
        let before = self.before?;
        let passed = self.now.at.saturating_duration_since(before.at);
        Some(passed.as_nanos().max(1))
    }

    /// A rate per second.
    pub fn per_second(&self, events: u64) -> Option<u64> {
        let scaled = u128::from(events) * 1_000_000_000;
        let nanoseconds = self.nanoseconds()?;
        Some(u64::try_from((scaled + nanoseconds / 2) / nanoseconds).unwrap_or(u64::MAX))
    }

    /// The growth per second of the counters with these labels, each computed separately.
    pub fn rate(&self, name: &str, wanted: &[(&str, &str)]) -> Option<u64> {
        self.per_second(self.grown(name, wanted)?)
    }

    /// The growth of the counters with these labels, each computed separately.
    pub fn grown(&self, name: &str, wanted: &[(&str, &str)]) -> Option<u64> {
        let mut sum = 0_u64;
        self.each_grown(name, wanted, |_, grown| sum = sum.saturating_add(grown))?;
        Some(sum)
    }

    /// The growth of each counter with these labels.
    fn each_grown(
        &self,
        name: &str,
        wanted: &[(&str, &str)],
        mut found: impl FnMut(Labelled<'a>, u64),
    ) -> Option<()> {
        let mut old: HashMap<&[String], u64> = HashMap::new();
        for series in self.before?.figures.series(name, wanted) {
            old.insert(series.labels(), series.number());
        }
        for series in self.now.figures.series(name, wanted) {
            let then = old.get(series.labels()).copied().unwrap_or(0);
            found(series, growth(then, series.number()));
        }
        Some(())
    }

    /// The growth per second by the value of a label, in one pass for all datasets or vdevs.
    fn rates_by(
        &self,
        name: &str,
        label: &str,
        wanted: &[(&str, &str)],
    ) -> Option<HashMap<&'a str, u64>> {
        let mut sums: HashMap<&'a str, u64> = HashMap::new();
        self.each_grown(name, wanted, |series, grown| {
            let sum = sums.entry(series.label(label)).or_default();
            *sum = sum.saturating_add(grown);
        })?;
        let rate = |(key, sum)| Some((key, self.per_second(sum)?));
        sums.into_iter().map(rate).collect()
    }

    /// The growth of the histograms with these labels, added up.
    pub fn distribution(&self, name: &str, wanted: &[(&str, &str)]) -> Option<Distribution> {
        let before = self.before?;
        let mut old: HashMap<&[String], &Distribution> = HashMap::new();
        for series in before.figures.series(name, wanted) {
            if let MetricValue::Distribution(found) = series.value() {
                old.insert(series.labels(), found);
            }
        }
        let mut sum = Distribution::default();
        for series in self.now.figures.series(name, wanted) {
            if let MetricValue::Distribution(found) = series.value() {
                match old.get(series.labels()) {
                    Some(then) => sum.add(&histogram_growth(then, found)),
                    None => sum.add(found),
                }
            }
        }
        Some(sum)
    }

    /// Reads and writes of a pool's devices, with their bytes.
    pub fn pool(&self, pool: &str) -> Option<Rates> {
        let wanted = [("pool", pool)];
        Some(Rates {
            reads: self.rate("cenote_pool_blocks_read_total", &wanted)?,
            writes: self.rate("cenote_pool_blocks_written_total", &wanted)?,
            read_bytes: self.rate("cenote_pool_block_bytes_read_total", &wanted)?,
            written_bytes: self.rate("cenote_pool_block_bytes_written_total", &wanted)?,
        })
    }

    /// Reads, writes and their bytes of a pool's vdevs, by guid.
    pub fn vdevs(&self, pool: &str) -> Option<HashMap<&'a str, Rates>> {
        let of = |name: &str, operation: &str| {
            let wanted = [("pool", pool), ("operation", operation)];
            self.rates_by(name, "guid", &wanted)
        };
        Some(joined([
            of("cenote_vdev_operations_total", "read")?,
            of("cenote_vdev_operations_total", "write")?,
            of("cenote_vdev_bytes_total", "read")?,
            of("cenote_vdev_bytes_total", "write")?,
        ]))
    }

    /// The requests of programs to mounted file systems, by dataset.
    pub fn mounts(&self) -> Option<HashMap<&'a str, Rates>> {
        let of = |name: &str, wanted: &[(&str, &str)]| self.rates_by(name, "dataset", wanted);
        let requests = "cenote_mount_request_seconds";
        Some(joined([
            of(requests, &[("operation", "read")])?,
            of(requests, &[("operation", "write")])?,
            of("cenote_mount_read_bytes_total", &[])?,
            of("cenote_mount_written_bytes_total", &[])?,
        ]))
    }

    /// The requests of connected clients to volumes, by name. All requests are in `reads`, because
    /// servers do not count writes separately.
    pub fn volumes(&self) -> Option<HashMap<&'a str, Rates>> {
        let of = |name: &str| self.rates_by(name, "export", &[]);
        Some(joined([
            of("cenote_nbd_requests")?,
            HashMap::new(),
            of("cenote_nbd_read_bytes")?,
            of("cenote_nbd_written_bytes")?,
        ]))
    }

    /// Reads of file systems for sites, by dataset; reads of a snapshot count for its file system.
    pub fn sites(&self) -> Option<HashMap<&'a str, Rates>> {
        let mut sums: HashMap<&'a str, Rates> = HashMap::new();
        let of = |name: &str| self.rates_by(name, "dataset", &[]);
        let found = joined([
            of("cenote_http_site_reads_total")?,
            HashMap::new(),
            of("cenote_http_site_sent_bytes_total")?,
            HashMap::new(),
        ]);
        for (dataset, rates) in found {
            let head = dataset.split('@').next().unwrap_or(dataset);
            let sum = sums.entry(head).or_default();
            *sum = sum.plus(rates);
        }
        Some(sums)
    }

    /// Sites, with the traffic of each.
    fn served_sites(&self) -> Vec<Client> {
        const SENT: &str = "cenote_http_site_sent_bytes_total";
        let mut rows = Vec::new();
        for series in self.now.figures.series(SENT, &[]) {
            let of = |label: &str| series.label(label);
            let wanted = ["server", "site", "dataset"].map(|label| (label, of(label)));
            let rates = || {
                Some(Rates {
                    reads: self.rate("cenote_http_site_reads_total", &wanted)?,
                    read_bytes: self.rate(SENT, &wanted)?,
                    ..Rates::default()
                })
            };
            let rates = rates();
            rows.push(Client {
                kind: "http",
                name: of("dataset").to_owned(),
                place: format!("{} {}", of("server"), of("site")),
                requests: rates.map(|rates| rates.reads),
                rates,
                errors: None,
                latency: None,
            });
        }
        rows
    }

    /// Mounts first, then connections to volumes, then sites.
    pub fn clients(&self) -> Vec<Client> {
        let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for mount in &self.now.mounts {
            let places = places.entry(mount.dataset.as_str()).or_default();
            places.push(&mount.mountpoint);
        }
        let rates = self.mounts();
        let mounts = places.into_iter().map(|(dataset, places)| {
            let wanted = [("dataset", dataset)];
            let times = self.distribution("cenote_mount_request_seconds", &wanted);
            let requests = times.as_ref().map(Distribution::count);
            let mean = times.and_then(|times| times.sum.checked_div(times.count()));
            Client {
                kind: "mount",
                name: dataset.to_owned(),
                place: places.join(" "),
                rates: rates
                    .as_ref()
                    .map(|rates| rates.get(dataset).copied().unwrap_or_default()),
                requests: requests.and_then(|requests| self.per_second(requests)),
                errors: self.rate("cenote_mount_errors_total", &wanted),
                latency: mean,
            }
        });
        let others = self.connections().into_iter().chain(self.served_sites());
        mounts.chain(others).collect()
    }

    /// Connections to volumes, matched between samples by address and volume. Connections on one
    /// unix socket have no address, so they are matched by their order.
    fn connections(&self) -> Vec<Client> {
        let of = |sample: &'a Sample| {
            let mut found: BTreeMap<(&str, &str), Vec<[u64; 3]>> = BTreeMap::new();
            let servers = sample.servers.iter().flatten();
            for client in servers.flat_map(|server| &server.clients) {
                let name = client.export.as_deref().unwrap_or_default();
                let all = found.entry((client.address.as_str(), name)).or_default();
                all.push([client.requests, client.read_bytes, client.written_bytes]);
            }
            found
        };
        let mut old = self.before.map(of).unwrap_or_default();
        let mut rows = Vec::new();
        for ((address, name), clients) in of(self.now) {
            let before = old.remove(&(address, name)).unwrap_or_default();
            // New connections come last. If some have closed, the remaining ones cannot be
            // identified.
            let is_same = before.len() <= clients.len();
            for (index, now) in clients.into_iter().enumerate() {
                let then = before.get(index).copied().unwrap_or_default();
                let grown = |place: usize| match is_same {
                    true => self.per_second(growth(then[place], now[place])),
                    false => None,
                };
                let rates = || {
                    Some(Rates {
                        reads: grown(0)?,
                        writes: 0,
                        read_bytes: grown(1)?,
                        written_bytes: grown(2)?,
                    })
                };
                rows.push(Client {
                    kind: "nbd",
                    name: name.to_owned(),
                    place: address.to_owned(),
                    rates: rates(),
                    requests: grown(0),
                    errors: None,
                    latency: None,
                });
            }
        }
        rows
    }

    /// The share of hits among the demand lookups of a pool's cache, in per cent; `None` without
    /// lookups.
    pub fn hit_percent(&self, pool: Option<&str>) -> Option<u64> {
        let of = |outcome: Option<&str>| {
            let outcome = outcome.map(|outcome| ("outcome", outcome));
            let pool = pool.map(|pool| ("pool", pool));
            let wanted = [Some(("for", "demand")), outcome, pool];
            let wanted: Vec<(&str, &str)> = wanted.into_iter().flatten().collect();
            self.grown("cenote_arc_lookups_total", &wanted)
        };
        let (hits, all) = (of(Some("hit"))?, of(None)?);
        hits.saturating_mul(100).checked_div(all)
    }

    /// The same for each dataset with demand lookups, by name.
    pub fn dataset_hit_percents(&self) -> Option<HashMap<&'a str, u64>> {
        const NAME: &str = "cenote_dataset_cache_lookups_total";
        let mut sums: HashMap<&'a str, [u64; 2]> = HashMap::new();
        self.each_grown(NAME, &[("for", "demand")], |series, grown| {
            let [hits, all] = sums.entry(series.label("dataset")).or_default();
            *all = all.saturating_add(grown);
            if series.label("outcome") == "hit" {
                *hits = hits.saturating_add(grown);
            }
        })?;
        let percent = |(name, [hits, all]): (&'a str, [u64; 2])| {
            Some((name, hits.saturating_mul(100).checked_div(all)?))
        };
        Some(sums.into_iter().filter_map(percent).collect())
    }
}

#[cfg(test)]
pub mod testing {
    //! Samples for tests.

    use super::*;
    use cenote_control::model::{
        Due, MetricFamily, MetricKind, MetricSeries, NbdClient, PoolHealth, Vdev, VdevKind,
        VdevTree,
    };
    use std::time::Duration;

    /// A number with its labels.
    pub fn number(name: &str, labels: &[(&str, &str)], number: u64) -> MetricFamily {
        value(name, labels, MetricValue::Number(number))
    }

    /// A value with its labels.
    pub fn value(name: &str, labels: &[(&str, &str)], value: MetricValue) -> MetricFamily {
        MetricFamily {
            name: name.to_owned(),
            kind: MetricKind::Counter,
            help: String::new(),
            labels: labels
                .iter()
                .map(|(label, _)| (*label).to_owned())
                .collect(),
            series: vec![MetricSeries {
                labels: labels
                    .iter()
                    .map(|(_, value)| (*value).to_owned())
                    .collect(),
                value,
            }],
        }
    }

    /// A pool with a mirror of two disks.
    pub fn pool(name: &str) -> PoolStatus {
        let mut root = Vdev::new(VdevKind::Root, 0, 1);
        let mut mirror = Vdev::new(VdevKind::Mirror, 0, 2);
        for (id, path) in ["/dev/sda", "/dev/sdb"].into_iter().enumerate() {
            let mut disk = Vdev::new(VdevKind::Disk, id as u64, 3 + id as u64);
            disk.path = Some(path.to_owned());
            mirror.children.push(disk);
        }
        mirror.space.total = 1 << 30;
        mirror.space.allocated = 1 << 28;
        root.children.push(mirror);
        PoolStatus {
            name: name.to_owned(),
            guid: 1,
            txg: 7,
            version: 5000,
            health: PoolHealth::Online,
            condition: None,
            scan: None,
            due: Due::default(),
            rebuilds: Vec::new(),
            removal: None,
            checkpoint: None,
            expand: None,
            vdevs: VdevTree {
                root,
                cache: Vec::new(),
                spares: Vec::new(),
            },
            error_count: 0,
            errors: Vec::new(),
            intent_logs: Vec::new(),
            dedup: None,
            waiting: Vec::new(),
            injected: 0,
            stores: Vec::new(),
            outsiders: Vec::new(),
            is_writable: true,
            unread: Vec::new(),
        }
    }

    /// Lookups of two datasets: one with three quarters hits, the other with none.
    fn looked_up(name: &str, events: u64) -> MetricFamily {
        let lookups = |dataset: &str, purpose: &str, outcome: &str, count: u64| {
            let labels = [
                ("pool", "tank"),
                ("dataset", dataset),
                ("type", "filesystem"),
                ("for", purpose),
                ("kind", "data"),
                ("outcome", outcome),
            ];
            number(name, &labels, count)
        };
        let mut all = lookups("tank/home", "demand", "hit", events * 3);
        for more in [
            lookups("tank/home", "demand", "wait", events / 2),
            lookups("tank/home", "demand", "miss", events / 2),
            lookups("tank/home", "prefetch", "miss", events * 9),
            lookups("tank/cold", "demand", "miss", events),
            lookups("tank/idle", "demand", "hit", 5),
        ] {
            all.series.extend(more.series);
        }
        all
    }

    /// A sample `seconds` after `start`, in which every counter is at `events`.
    pub fn sample(start: Instant, seconds: u64, events: u64) -> Sample {
        let mut figures = Figures::default();
        let tank = ("pool", "tank");
        let filesystem = [tank, ("dataset", "tank/home"), ("type", "filesystem")];
        let read = [tank, ("dataset", "tank/home"), ("operation", "read")];
        let site = [
            ("server", "0.0.0.0:80"),
            ("site", "/mirror"),
            ("dataset", "tank/home@monday"),
        ];
        let times = Distribution {
            counts: vec![0, 0, 0, events],
            sum: events * 10,
        };
        figures.add(vec![
            number("cenote_daemon_uptime_seconds", &[], 3600 + seconds),
            number("cenote_memory_limit_bytes", &[], 1 << 30),
            number("cenote_memory_used_bytes", &[], 1 << 29),
            number("cenote_pool_info", &[tank, ("guid", "1")], 1),
            number("cenote_pool_size_bytes", &[tank], 1 << 30),
            number("cenote_pool_allocated_bytes", &[tank], 1 << 28),
            number("cenote_pool_free_bytes", &[tank], 3 << 28),
            number("cenote_pool_blocks_read_total", &[tank], events),
            number("cenote_pool_block_bytes_read_total", &[tank], events << 12),
            number("cenote_pool_blocks_written_total", &[tank], 0),
            number("cenote_pool_block_bytes_written_total", &[tank], 0),
            number("cenote_dataset_used_bytes", &filesystem, 5 << 20),
            number("cenote_dataset_available_bytes", &filesystem, 9 << 20),
            number("cenote_dataset_referenced_bytes", &filesystem, 4 << 20),
            looked_up("cenote_dataset_cache_lookups_total", events),
            number("cenote_mount_read_bytes_total", &read[..2], events << 10),
            number("cenote_http_site_reads_total", &site, events / 2),
            number("cenote_http_site_sent_bytes_total", &site, events << 11),
            value(
                "cenote_mount_request_seconds",
                &read,
                MetricValue::Distribution(times),
            ),
        ]);
        let client = |requests: u64| NbdClient {
            address: "unix".to_owned(),
            export: Some("tank/disk".to_owned()),
            requests,
            read_bytes: requests << 9,
            written_bytes: 0,
        };
        Sample {
            at: start + Duration::from_secs(seconds),
            pools: vec![pool("tank")],
            figures,
            mounts: vec![MountEntry {
                dataset: "tank/home".to_owned(),
                mountpoint: "/tank/home".to_owned(),
                own_place: true,
            }],
            servers: Some(vec![NbdServer {
                addresses: vec!["/run/x".to_owned()],
                clients: vec![client(events * 2)],
                ..NbdServer::default()
            }]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::sample;
    use super::*;

    #[test]
    fn rates_are_what_counters_grew_by() {
        let start = Instant::now();
        let (before, now) = (sample(start, 10, 100), sample(start, 12, 300));
        let between = Between::new(Some(&before), &now);
        let rates = between.pool("tank").expect("two samples");
        assert_eq!((rates.reads, rates.read_bytes), (100, 100 << 12));
        assert_eq!(rates.writes, 0);
        let clients = between.clients();
        assert_eq!((clients[0].kind, clients[0].requests), ("mount", Some(100)));
        assert_eq!(clients[0].latency, Some(10));
        assert_eq!(clients[0].place, "/tank/home");
        assert_eq!((clients[1].kind, clients[1].requests), ("nbd", Some(200)));
        // What is read of a snapshot for a site counts for its file system.
        assert_eq!((clients[2].kind, clients[2].requests), ("http", Some(50)));
        let sites = between.sites().expect("two samples");
        assert_eq!(sites["tank/home"].read_bytes, 100 << 11);
        // Prefetch counts neither as hit nor as miss. Without lookups there is no share.
        let hits = between.dataset_hit_percents().expect("two samples");
        assert_eq!(hits, HashMap::from([("tank/home", 75), ("tank/cold", 0)]));
        // One sample has no rates.
        let single = Between::new(None, &now);
        assert_eq!(single.pool("tank"), None);
        assert_eq!(single.clients()[1].requests, None);
    }

    /// The counters of a reimported pool begin at 0: the difference is not a rate, and must not
    /// wrap.
    #[test]
    fn a_counter_that_fell_began_at_zero() {
        let start = Instant::now();
        let (before, now) = (sample(start, 0, 1000), sample(start, 1, 5));
        let between = Between::new(Some(&before), &now);
        assert_eq!(between.pool("tank").map(|rates| rates.reads), Some(5));
        assert_eq!(between.clients()[0].requests, Some(5));
    }

    /// If one of two connections on a unix socket closes, the other one cannot be identified. So it
    /// has no rate.
    #[test]
    fn a_connection_that_left_makes_no_rate() {
        let start = Instant::now();
        let (mut before, now) = (sample(start, 0, 10), sample(start, 1, 5));
        let servers = before.servers.as_mut().expect("servers");
        let more = servers[0].clients[0].clone();
        servers[0].clients.push(more);
        let between = Between::new(Some(&before), &now);
        assert_eq!(between.clients()[1].requests, None);
    }

    #[test]
    fn percentiles_are_the_ends_of_buckets() {
        let found = Distribution {
            counts: vec![0, 90, 9, 1],
            sum: 0,
        };
        assert_eq!(percentile(&found, 50), Some(4));
        assert_eq!(percentile(&found, 99), Some(8));
        assert_eq!(percentile(&found, 100), Some(16));
        assert_eq!(percentile(&Distribution::default(), 50), None);
    }
}
