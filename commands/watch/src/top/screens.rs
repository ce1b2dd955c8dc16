//! The contents of the screens: tables of pools, vdevs, datasets and clients, and of a single one.

use std::collections::HashMap;
use std::time::Duration;

use cenote_base::rt::job::Progress;
use cenote_control::model::{
    Distribution, PoolHealth, PoolStatus, RunState, Scan, ScanKind, TreatmentState, Vdev, VdevKind,
    VdevNaming, VdevState,
};

use super::super::sample::{Between, Rates, percentile};
use super::table::{Cell, Column, Row, Table, Tone, column};
use cenote_words::format::number::{duration, percent};
use cenote_words::vdev_rows::{self, Section, spare_word, state_word};

/// A screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Screen {
    /// Pools.
    #[default]
    Pools,
    /// Vdevs.
    Devices,
    /// File systems and volumes.
    Datasets,
    /// Mounts, connections to volumes, and sites.
    Clients,
}

impl Screen {
    /// All screens, in the order of their keys.
    pub const ALL: [Self; 4] = [Self::Pools, Self::Devices, Self::Datasets, Self::Clients];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pools => "pools",
            Self::Devices => "devices",
            Self::Datasets => "datasets",
            Self::Clients => "clients",
        }
    }
}

/// What the user has opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A pool, by name.
    Pool(String),
    /// A vdev: its pool, its guid and its name.
    Vdev(String, String, String),
    /// A dataset, by name.
    Dataset(String),
}

impl Scope {
    /// Its display name.
    pub fn name(&self) -> &str {
        match self {
            Self::Pool(name) | Self::Vdev(_, _, name) | Self::Dataset(name) => name,
        }
    }

    /// Its pool.
    pub fn pool(&self) -> &str {
        match self {
            Self::Pool(name) | Self::Vdev(name, ..) => name,
            Self::Dataset(name) => name.split('/').next().unwrap_or(name),
        }
    }
}

const POOLS: &[Column] = &[
    column("POOL", "name", 12, 0),
    column("HEALTH", "health", 9, 0),
    column("CAP", "capacity_percent", 9, 1),
    column("SIZE", "size", 7, 5),
    column("ALLOC", "allocated", 7, 6),
    column("FREE", "free", 7, 5),
    column("READ/s", "reads", 7, 3),
    column("WRITE/s", "writes", 7, 3),
    column("RBYTES/s", "read_bytes", 8, 2),
    column("WBYTES/s", "written_bytes", 8, 2),
    column("HIT", "cache_hit_percent", 5, 7),
    column("ERRORS", "errors", 6, 8),
    column("ACTIVITY", "activity", 28, 4),
];

const DEVICES: &[Column] = &[
    column("DEVICE", "name", 18, 0),
    column("STATE", "state", 9, 0),
    column("CAP", "capacity_percent", 9, 6),
    column("ALLOC", "allocated", 7, 7),
    column("READ/s", "reads", 7, 2),
    column("WRITE/s", "writes", 7, 2),
    column("RBYTES/s", "read_bytes", 8, 1),
    column("WBYTES/s", "written_bytes", 8, 1),
    column("WAIT", "latency_ns", 6, 3),
    column("QUEUE", "queued", 5, 5),
    column("ERRORS", "errors", 6, 4),
    column("ACTIVITY", "activity", 18, 8),
];

const DATASETS: &[Column] = &[
    column("DATASET", "name", 20, 0),
    column("TYPE", "type", 10, 6),
    column("USED", "used", 7, 1),
    column("AVAIL", "available", 7, 5),
    column("REFER", "referenced", 7, 4),
    column("READ/s", "reads", 7, 3),
    column("WRITE/s", "writes", 7, 3),
    column("RBYTES/s", "read_bytes", 8, 2),
    column("WBYTES/s", "written_bytes", 8, 2),
    column("HIT", "cache_hit_percent", 5, 7),
    column("CACHED", "cached", 7, 8),
];

const CLIENTS: &[Column] = &[
    column("SERVES", "name", 20, 0),
    column("KIND", "kind", 5, 1),
    column("REQ/s", "requests", 7, 1),
    column("RBYTES/s", "read_bytes", 8, 2),
    column("WBYTES/s", "written_bytes", 8, 2),
    column("WAIT", "latency_ns", 6, 3),
    column("ERR/s", "errors", 6, 5),
    column("WHERE", "place", 24, 4),
];

const CLASSES: &[Column] = &[
    column("CLASS", "name", 13, 0),
    column("REQ/s", "requests", 7, 1),
    column("BYTES/s", "bytes", 8, 2),
    column("MEAN", "latency_ns", 6, 1),
    column("99%", "latency_99_ns", 6, 2),
    column("DISK", "device_ns", 6, 3),
    column("QUEUE", "queue_ns", 6, 4),
    column("ACTIVE", "active", 6, 5),
    column("PENDING", "pending", 7, 5),
];

const OPERATIONS: &[Column] = &[
    column("OPERATION", "name", 14, 0),
    column("REQ/s", "requests", 7, 1),
    column("MEAN", "latency_ns", 6, 1),
    column("50%", "latency_50_ns", 6, 3),
    column("99%", "latency_99_ns", 6, 2),
];

/// The table of a screen, within a scope.
pub fn table(screen: Screen, scope: Option<&Scope>, between: Between<'_>) -> Table {
    match (screen, scope) {
        (_, Some(Scope::Vdev(pool, guid, _))) => classes(pool, guid, between),
        (_, Some(Scope::Dataset(name))) => operations(name, between),
        (Screen::Pools, _) => pools(scope, between),
        (Screen::Devices, _) => devices(scope, between),
        (Screen::Datasets, _) => datasets(scope, between),
        (Screen::Clients, _) => clients(scope, between),
    }
}

/// The tone of a pool's health.
pub fn health_tone(health: PoolHealth) -> Tone {
    match health {
        PoolHealth::Online => Tone::Good,
        PoolHealth::Degraded => Tone::Warning,
        _ => Tone::Bad,
    }
}

/// The tone of a vdev's state.
pub fn state_tone(state: VdevState) -> Tone {
    match state {
        VdevState::Online => Tone::Good,
        VdevState::Offline | VdevState::Degraded | VdevState::Closed => Tone::Warning,
        _ => Tone::Bad,
    }
}

/// The four cells of rates.
fn rates(rates: Option<Rates>) -> [Cell; 4] {
    [
        Cell::Count(rates.map(|rates| rates.reads)),
        Cell::Count(rates.map(|rates| rates.writes)),
        Cell::BytesRate(rates.map(|rates| rates.read_bytes)),
        Cell::BytesRate(rates.map(|rates| rates.written_bytes)),
    ]
}

/// The progress of a scan: `scrub 12.3%, 1:02:03 left`.
pub fn scan_text(scan: &Scan, now: u64) -> Option<String> {
    let name = match scan.kind {
        ScanKind::Scrub => "scrub",
        ScanKind::Resilver => "resilver",
        ScanKind::ErrorScrub => "error scrub",
    };
    if scan.state != RunState::Running {
        return None;
    }
    let progress = scan_progress(scan, now);
    let share = format!("{name} {:.1}%", progress.percent().min(100.0));
    if scan.pause_time != 0 {
        return Some(format!("{share}, paused"));
    }
    Some(match progress.seconds_left() {
        Some(seconds) if progress.done > 0 => format!("{share}, {} left", duration(seconds)),
        _ => share,
    })
}

/// The progress of a scan, and its speed since this import.
pub fn scan_progress(scan: &Scan, now: u64) -> Progress {
    let elapsed = now.saturating_sub(scan.pass_start);
    let elapsed = elapsed.saturating_sub(scan.paused_seconds).max(1);
    Progress {
        done: scan.issued,
        total: scan.to_examine.saturating_sub(scan.skipped),
        fresh: scan.pass_issued,
        elapsed: Duration::from_secs(elapsed),
    }
}

/// The running work in a pool.
pub fn activity(pool: &PoolStatus, now: u64) -> String {
    let mut texts: Vec<String> = Vec::new();
    let share = |done: u64, total: u64| match total {
        0 => "0%".to_owned(),
        total => format!("{:.1}%", (done as f64 * 100.0 / total as f64).min(100.0)),
    };
    texts.extend(pool.scan.iter().filter_map(|scan| scan_text(scan, now)));
    for rebuild in &pool.rebuilds {
        if rebuild.state == RunState::Running {
            let share = share(rebuild.issued, rebuild.to_examine);
            texts.push(format!("rebuild of {} {share}", rebuild.vdev));
        }
    }
    if let Some(removal) = &pool.removal
        && removal.state == RunState::Running
    {
        texts.push(format!(
            "removal {}",
            share(removal.copied, removal.to_copy)
        ));
    }
    if let Some(expand) = &pool.expand
        && expand.state == RunState::Running
    {
        texts.push(format!(
            "expansion {}",
            share(expand.reflowed, expand.to_reflow)
        ));
    }
    texts.join("; ")
}

/// The current time in seconds since 1970.
pub fn wall_clock() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |time| time.as_secs())
}

/// The pools within a scope.
fn within<'a>(scope: Option<&Scope>, between: &Between<'a>) -> Vec<&'a PoolStatus> {
    let pools = between.now.pools.iter();
    let is_in = |pool: &&PoolStatus| scope.is_none_or(|scope| scope.pool() == pool.name);
    pools.filter(is_in).collect()
}

fn pools(scope: Option<&Scope>, between: Between<'_>) -> Table {
    let now = wall_clock();
    let row = |pool: &PoolStatus| {
        let number = |name: &str| {
            let name = format!("cenote_pool_{name}_bytes");
            let mut found = between.now.figures.series(&name, &[("pool", &pool.name)]);
            found.next().map(|series| series.number())
        };
        let (size, allocated) = (number("size"), number("allocated"));
        let health = pool.health;
        let mut cells = vec![
            Cell::Text(pool.name.clone()),
            Cell::State(health.word().to_owned(), health_tone(health)),
            Cell::Share(allocated.unwrap_or(0), size.unwrap_or(0)),
            Cell::Bytes(size),
            Cell::Bytes(allocated),
            Cell::Bytes(number("free")),
        ];
        cells.extend(rates(between.pool(&pool.name)));
        cells.push(Cell::Percent(between.hit_percent(Some(&pool.name))));
        cells.push(Cell::Errors(pool.error_count));
        cells.push(Cell::Text(activity(pool, now)));
        Row {
            key: pool.name.clone(),
            pool: pool.name.clone(),
            depth: 0,
            cells,
        }
    };
    Table {
        columns: POOLS,
        rows: within(scope, &between).into_iter().map(row).collect(),
    }
}

/// The running work on a vdev.
pub fn vdev_activity(vdev: &Vdev) -> String {
    let mut texts = Vec::new();
    if vdev.is_rebuilding {
        texts.push("rebuilding".to_owned());
    } else if vdev.resilver_deferred {
        texts.push("waits for a resilver".to_owned());
    }
    if vdev.removing {
        texts.push("being removed".to_owned());
    }
    for (treatment, word) in [(&vdev.trim, "trim"), (&vdev.initialize, "initialize")] {
        let Some(treatment) = treatment else { continue };
        let share = match treatment.total {
            0 => String::new(),
            total => format!(" {}%", percent(treatment.done, total)),
        };
        match treatment.state {
            TreatmentState::Active => texts.push(format!("{word}{share}")),
            TreatmentState::Suspended => texts.push(format!("{word}{share}, suspended")),
            TreatmentState::Canceled | TreatmentState::Complete => {}
        }
    }
    if let Some(words) = vdev_rows::aux_words(vdev) {
        texts.push(words.to_owned());
    }
    texts.join("; ")
}

fn devices(scope: Option<&Scope>, between: Between<'_>) -> Table {
    let mut rows = Vec::new();
    for pool in within(scope, &between) {
        let rates = between.vdevs(&pool.name);
        let row = |vdev: &Vdev, name: String, depth: usize, word: &str| {
            let guid = vdev.guid.to_string();
            vdev_row(&pool.name, vdev, (name, depth, word), between, {
                let found = rates.as_ref();
                found.map(|rates| rates.get(guid.as_str()).copied().unwrap_or_default())
            })
        };
        let mut root = row(&pool.vdevs.root, pool.name.clone(), 0, pool.health.word());
        root.cells[1] = Cell::State(pool.health.word().to_owned(), health_tone(pool.health));
        // The pool's figures are not the sum of those of its vdevs.
        let own = self::rates(between.pool(&pool.name));
        root.cells[4..8].clone_from_slice(&own);
        rows.push(root);
        for section in [Section::Normal].into_iter().chain(Section::CLASSES) {
            for found in vdev_rows::rows(section, &pool.vdevs, VdevNaming::default()) {
                let word = match section {
                    Section::Spares => spare_word(found.vdev),
                    _ => state_word(found.vdev),
                };
                let name = match (section, found.depth) {
                    (Section::Normal, _) | (_, 2..) => found.name.clone(),
                    (section, _) => format!("{} ({})", found.name, section.header()),
                };
                rows.push(row(found.vdev, name, found.depth, word));
            }
        }
    }
    Table {
        columns: DEVICES,
        rows,
    }
}

fn vdev_row(
    pool: &str,
    vdev: &Vdev,
    (name, depth, word): (String, usize, &str),
    between: Between<'_>,
    found: Option<Rates>,
) -> Row {
    let guid = vdev.guid.to_string();
    let wanted = [("pool", pool), ("guid", guid.as_str())];
    let is_leaf = vdev.kind.is_leaf();
    let times = is_leaf
        .then(|| between.distribution("cenote_vdev_request_seconds", &wanted))
        .flatten();
    let mean = times.and_then(|times| times.sum.checked_div(times.count()));
    let depths = || between.now.figures.sum("cenote_vdev_queue_depth", &wanted);
    let counters = &vdev.counters;
    let errors = [
        counters.read_errors,
        counters.write_errors,
        counters.checksum_errors,
    ];
    let space = vdev.space;
    let mut cells = vec![
        Cell::Text(name),
        Cell::State(word.to_owned(), state_tone(vdev.state)),
        Cell::Share(space.allocated, space.total),
        Cell::Bytes((space.total > 0).then_some(space.allocated)),
    ];
    cells.extend(rates(found));
    cells.push(Cell::Time(mean));
    cells.push(Cell::Count(is_leaf.then(depths)));
    cells.push(Cell::Errors(
        errors.iter().fold(0, |sum, more| more.saturating_add(sum)),
    ));
    cells.push(Cell::Text(match vdev.kind {
        VdevKind::Root => String::new(),
        _ => vdev_activity(vdev),
    }));
    Row {
        key: guid,
        pool: pool.to_owned(),
        depth,
        cells,
    }
}

fn datasets(scope: Option<&Scope>, between: Between<'_>) -> Table {
    let figures = &between.now.figures;
    let (mounts, volumes) = (between.mounts(), between.volumes());
    let sites = between.sites().unwrap_or_default();
    let hits = between.dataset_hit_percents().unwrap_or_default();
    let mut cached: HashMap<&str, u64> = HashMap::new();
    for series in figures.series("cenote_dataset_cache_bytes", &[]) {
        *cached.entry(series.label("dataset")).or_default() += series.number();
    }
    let mut rows = Vec::new();
    let column = |name: &str| {
        let found = figures.series(name, &[]);
        let pairs = found.map(|series| (series.label("dataset"), series.number()));
        pairs.collect::<HashMap<&str, u64>>()
    };
    let available = column("cenote_dataset_available_bytes");
    let referenced = column("cenote_dataset_referenced_bytes");
    for series in figures.series("cenote_dataset_used_bytes", &[]) {
        let (name, pool) = (series.label("dataset"), series.label("pool"));
        if scope.is_some_and(|scope| scope.pool() != pool) {
            continue;
        }
        let kind = series.label("type");
        let known = match kind {
            "volume" => &volumes,
            _ => &mounts,
        };
        let found = known.as_ref();
        let found = found.map(|rates| rates.get(name).copied().unwrap_or_default());
        let of_sites = sites.get(name).copied().unwrap_or_default();
        let found = found.map(|rates| rates.plus(of_sites));
        let mut cells = vec![
            Cell::Text(name.to_owned()),
            Cell::Text(kind.to_owned()),
            Cell::Bytes(Some(series.number())),
            Cell::Bytes(available.get(name).copied()),
            Cell::Bytes(referenced.get(name).copied()),
        ];
        cells.extend(rates(found));
        cells.push(Cell::Percent(hits.get(name).copied()));
        cells.push(Cell::Bytes(cached.get(name).copied()));
        rows.push(Row {
            key: name.to_owned(),
            pool: pool.to_owned(),
            depth: 0,
            cells,
        });
    }
    rows.sort_by(|one, other| one.key.cmp(&other.key));
    Table {
        columns: DATASETS,
        rows,
    }
}

fn clients(scope: Option<&Scope>, between: Between<'_>) -> Table {
    let mut rows = Vec::new();
    for (index, client) in between.clients().into_iter().enumerate() {
        let pool = client.name.split(['/', '@']).next().unwrap_or_default();
        if scope.is_some_and(|scope| scope.pool() != pool) {
            continue;
        }
        rows.push(Row {
            key: match client.kind {
                "mount" => client.name.clone(),
                kind => format!("{kind} {} {} {index}", client.name, client.place),
            },
            pool: pool.to_owned(),
            depth: 0,
            cells: vec![
                Cell::Text(client.name),
                Cell::Text(client.kind.to_owned()),
                Cell::Count(client.requests),
                Cell::BytesRate(client.rates.map(|rates| rates.read_bytes)),
                Cell::BytesRate(client.rates.map(|rates| rates.written_bytes)),
                Cell::Time(client.latency),
                Cell::Count(client.errors),
                Cell::Text(client.place),
            ],
        });
    }
    Table {
        columns: CLIENTS,
        rows,
    }
}

/// The values of a label in some series, in order of name.
fn values(between: Between<'_>, name: &str, wanted: &[(&str, &str)], label: &str) -> Vec<String> {
    let found = between.now.figures.series(name, wanted);
    let mut values: Vec<String> = found.map(|series| series.label(label).to_owned()).collect();
    values.sort();
    values.dedup();
    values
}

fn mean(times: &Option<Distribution>) -> Cell {
    let times = times.as_ref();
    Cell::Time(times.and_then(|times| times.sum.checked_div(times.count())))
}

/// The requests to a device by class.
fn classes(pool: &str, guid: &str, between: Between<'_>) -> Table {
    let wanted = [("pool", pool), ("guid", guid)];
    let row = |class: String| {
        let wanted = [wanted[0], wanted[1], ("class", class.as_str())];
        let of = |name: &str| between.distribution(name, &wanted);
        let times = of("cenote_vdev_request_seconds");
        let bytes = of("cenote_vdev_request_bytes").map(|sizes| sizes.sum);
        let depth = |state: &str| {
            let wanted = [wanted[0], wanted[1], wanted[2], ("state", state)];
            between.now.figures.sum("cenote_vdev_queue_depth", &wanted)
        };
        let ninety_nine = times.as_ref().and_then(|times| percentile(times, 99));
        Row {
            key: class.clone(),
            pool: pool.to_owned(),
            depth: 0,
            cells: vec![
                Cell::Text(class.clone()),
                Cell::Count(between.rate("cenote_vdev_request_seconds", &wanted)),
                Cell::BytesRate(bytes.and_then(|bytes| between.per_second(bytes))),
                mean(&times),
                Cell::Time(ninety_nine),
                mean(&of("cenote_vdev_device_seconds")),
                mean(&of("cenote_vdev_queue_seconds")),
                Cell::Count(Some(depth("active"))),
                Cell::Count(Some(depth("pending"))),
            ],
        }
    };
    let classes = values(between, "cenote_vdev_queue_depth", &wanted, "class");
    Table {
        columns: CLASSES,
        rows: classes.into_iter().map(row).collect(),
    }
}

/// The requests to a mounted file system by operation.
fn operations(dataset: &str, between: Between<'_>) -> Table {
    const NAME: &str = "cenote_mount_request_seconds";
    let row = |operation: String| {
        let wanted = [("dataset", dataset), ("operation", operation.as_str())];
        let times = between.distribution(NAME, &wanted);
        let at = |percent| times.as_ref().and_then(|times| percentile(times, percent));
        Row {
            key: operation.clone(),
            pool: String::new(),
            depth: 0,
            cells: vec![
                Cell::Text(operation.clone()),
                Cell::Count(between.rate(NAME, &wanted)),
                mean(&times),
                Cell::Time(at(50)),
                Cell::Time(at(99)),
            ],
        }
    };
    let operations = values(between, NAME, &[("dataset", dataset)], "operation");
    Table {
        columns: OPERATIONS,
        rows: operations.into_iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::testing::sample;
    use super::*;
    use std::time::Instant;

    fn text(screen: Screen, scope: Option<&Scope>) -> String {
        let start = Instant::now();
        let (before, now) = (sample(start, 0, 0), sample(start, 2, 2000));
        table(screen, scope, Between::new(Some(&before), &now)).text()
    }

    fn words(text: &str, line: usize) -> Vec<&str> {
        let line = text.lines().nth(line).unwrap_or_default();
        line.split_whitespace().collect()
    }

    #[test]
    fn every_screen_has_its_rows() {
        let pools = text(Screen::Pools, None);
        let row = words(&pools, 1);
        assert_eq!(row[..6], ["tank", "ONLINE", "25%", "1G", "256M", "768M"]);
        assert_eq!(row[6..10], ["1000", "0", "3.91M", "0B"], "{pools}");
        let devices = text(Screen::Devices, None);
        let names: Vec<&str> = devices
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(names, ["DEVICE", "tank", "mirror-0", "sda", "sdb"]);
        assert!(devices.contains("\n    sda"), "{devices}");
        let datasets = text(Screen::Datasets, None);
        let row = words(&datasets, 1);
        assert_eq!(
            row[..6],
            ["tank/home", "filesystem", "5M", "9M", "4M", "1.46K"]
        );
        assert_eq!(row[9..], ["75%", "-"], "{datasets}");
        let clients = text(Screen::Clients, None);
        assert_eq!(words(&clients, 1)[..3], ["tank/home", "mount", "1000"]);
        assert_eq!(words(&clients, 2)[..3], ["tank/disk", "nbd", "1.95K"]);
        let site = words(&clients, 3);
        assert_eq!(site[..4], ["tank/home@monday", "http", "500", "1.95M"]);
        assert!(clients.contains("0.0.0.0:80 /mirror"), "{clients}");
        let other = Scope::Pool("other".to_owned());
        for screen in Screen::ALL {
            assert_eq!(text(screen, Some(&other)).lines().count(), 1);
        }
    }

    #[test]
    fn a_dataset_shows_its_operations() {
        let scope = Scope::Dataset("tank/home".to_owned());
        let text = text(Screen::Datasets, Some(&scope));
        assert_eq!(words(&text, 1), ["read", "1000", "10ns", "16ns", "16ns"]);
        assert_eq!(scope.pool(), "tank");
    }

    #[test]
    fn a_scan_says_how_long_it_still_takes() {
        let mut scan = Scan {
            kind: ScanKind::Scrub,
            state: RunState::Running,
            start_time: 100,
            end_time: 0,
            to_examine: 1000,
            examined: 600,
            skipped: 0,
            processed: 0,
            errors: 0,
            pass_examined: 600,
            pass_start: 100,
            pause_time: 0,
            paused_seconds: 0,
            pass_issued: 250,
            issued: 250,
        };
        let text = scan_text(&scan, 150).expect("running");
        assert_eq!(text, format!("scrub 25.0%, {} left", duration(150)));
        scan.pause_time = 140;
        assert_eq!(
            scan_text(&scan, 150).as_deref(),
            Some("scrub 25.0%, paused")
        );
        scan.state = RunState::Finished;
        assert_eq!(scan_text(&scan, 150), None);
    }
}
