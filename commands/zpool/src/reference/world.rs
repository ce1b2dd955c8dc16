//! The invented pool, and a daemon that has only this pool.

use std::ops::ControlFlow;

use cenote_control::model::properties::{self, DATASET, POOL, PropertyInfo, Unit};
use cenote_control::model::{
    AllocationClass, Change, Condition, ControlError, Dataset, DatasetKind, Depth, Due, Hold,
    KindSet, MountEntry, Part, PoolHealth, PoolRow, PoolStatus, Property, PropertySelection,
    Request, Response, Source, SpareUse, Value, Vdev, VdevKind, VdevTree,
};
use cenote_control::protocol::{CallError, Interrupt};

use cenote_words::context::Daemon;

/// A pool as its daemon would describe it.
#[derive(Clone)]
pub struct Canned {
    pub pools: Vec<PoolRow>,
    pub statuses: Vec<PoolStatus>,
    pub datasets: Vec<Dataset>,
    pub holds: Vec<Hold>,
    pub mounts: Vec<MountEntry>,
}

impl Canned {
    /// A daemon without pools.
    pub fn empty() -> Self {
        Canned {
            pools: Vec::new(),
            statuses: Vec::new(),
            datasets: Vec::new(),
            holds: Vec::new(),
            mounts: Vec::new(),
        }
    }

    /// The same pool, imported read-only.
    pub fn read_only_tank() -> Self {
        let mut canned = Self::tank();
        for property in &mut canned.pools[0].properties {
            if property.name == "readonly" {
                property.value = "on".into();
            }
        }
        canned
    }

    fn holds_of(&self, snapshot: String) -> Result<Response, CallError> {
        if !self.datasets.iter().any(|row| row.name == snapshot) {
            let dataset = snapshot;
            return Err(ControlError::NoSuchDataset { dataset }.into());
        }
        let mut holds = self.holds.clone();
        holds.retain(|hold| hold.snapshot == snapshot);
        Ok(Response::Holds { holds })
    }

    /// A read-only pool's answer to a change.
    fn change(&self, change: Change) -> Result<Response, CallError> {
        let pool = "tank".to_owned();
        let refused = ControlError::PoolReadOnly { pool };
        let known = |name: &String| self.datasets.iter().any(|row| row.name == *name);
        match change {
            Change::CreateDataset(new) if !new.name.starts_with("tank/") => {
                let pool = new.name.split('/').next().unwrap_or_default().to_owned();
                Err(ControlError::NoSuchPool { pool }.into())
            }
            Change::SetProperties { datasets, .. } | Change::InheritProperty { datasets, .. } => {
                let reason = |dataset: String| match known(&dataset) {
                    true => (dataset, refused.clone()),
                    false => (dataset.clone(), ControlError::NoSuchDataset { dataset }),
                };
                let failures = datasets.into_iter().map(reason).collect();
                Ok(Response::Failures { failures, done: 0 })
            }
            Change::RenameDataset { from, .. } if !known(&from) => {
                Err(ControlError::NoSuchDataset { dataset: from }.into())
            }
            _ => Err(refused.into()),
        }
    }

    /// The pool of the transcripts.
    pub fn tank() -> Self {
        let datasets = include_str!("../../tests/reference/world-zfs.txt");
        let pool = include_str!("../../tests/reference/world-zpool.txt");
        let vdevs = tank_vdevs();
        let row = PoolRow {
            name: "tank".to_owned(),
            guid: 1_234_567_890_123_456_789,
            txg: 45,
            version: 5000,
            health: PoolHealth::Online,
            properties: parse_lines(pool, POOL)
                .into_iter()
                .map(|(_, p)| p)
                .collect(),
            vdevs: Some(vdevs.clone()),
        };
        Canned {
            statuses: vec![status(&row, vdevs)],
            pools: vec![row],
            datasets: parse_datasets(datasets),
            holds: vec![Hold {
                snapshot: "tank/fs@a2".to_owned(),
                tag: "keep".to_owned(),
                time: 1_700_000_000,
            }],
            mounts: Vec::new(),
        }
    }
}

/// The status of an idle pool.
pub fn status(row: &PoolRow, vdevs: VdevTree) -> PoolStatus {
    PoolStatus {
        name: row.name.clone(),
        guid: row.guid,
        txg: row.txg,
        version: row.version,
        health: row.health,
        condition: Some(Condition::FeaturesDisabled),
        scan: None,
        due: Due::default(),
        rebuilds: Vec::new(),
        removal: None,
        checkpoint: None,
        expand: None,
        vdevs,
        error_count: 0,
        errors: Vec::new(),
        intent_logs: Vec::new(),
        dedup: None,
        waiting: Vec::new(),
        injected: 0,
        stores: Vec::new(),
        outsiders: Vec::new(),
        is_writable: false,
        unread: Vec::new(),
    }
}

/// A file vdev.
pub fn file(path: &str, id: u64, guid: u64) -> Vdev {
    let mut vdev = Vdev::new(VdevKind::File, id, guid);
    vdev.path = Some(path.to_owned());
    (vdev.ashift, vdev.physical_ashift) = (12, 12);
    vdev.space.physical = 128 << 20;
    vdev
}

fn sized(mut vdev: Vdev, total: u64, allocated: u64) -> Vdev {
    vdev.space.total = total;
    vdev.space.deflated = total;
    vdev.space.replaceable = total;
    vdev.space.allocated = allocated;
    vdev.space.fragmentation = Some(12);
    vdev
}

fn tank_vdevs() -> VdevTree {
    let size = 112 << 20;
    let mut mirror = sized(Vdev::new(VdevKind::Mirror, 0, 10), size, 300 << 10);
    mirror.children = vec![file("/tmp/d0", 0, 11), file("/tmp/d1", 1, 12)];
    let mut log = sized(file("/tmp/l0", 1, 13), size, 0);
    log.class = AllocationClass::Log;
    let mut root = sized(Vdev::new(VdevKind::Root, 0, 1), size, 300 << 10);
    root.children = vec![mirror, log];
    let mut spare = file("/tmp/s0", 0, 14);
    spare.spare = Some(SpareUse::Available);
    VdevTree {
        root,
        cache: vec![sized(file("/tmp/c0", 0, 15), 100 << 20, 1 << 20)],
        spares: vec![spare],
    }
}

/// Parses lines of `get -Hp` (name, property, value, source) into properties.
pub fn parse_lines(text: &str, table: &'static [PropertyInfo]) -> Vec<(String, Property)> {
    let mut parsed = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, property, value, source] = fields.as_slice() else {
            panic!("not a line of four fields: {line:?}");
        };
        let unit = properties::find(table, property).map_or_else(
            || properties::parametric_unit(property).unwrap_or(Unit::Text),
            |info| info.unit,
        );
        let property = Property::new(property, parse_value(value, unit), parse_source(source));
        parsed.push(((*name).to_owned(), property));
    }
    parsed
}

fn parse_value(word: &str, unit: Unit) -> Value {
    match (word, unit) {
        ("-", Unit::BytesOrDash) => Value::Number(0),
        ("-", _) => Value::None,
        (_, Unit::Text) => Value::from(word),
        ("none", Unit::LimitOrNone) | ("auto", Unit::TableQuota) => Value::Number(u64::MAX),
        (_, Unit::Ratio) => Value::Number(
            word.replace('.', "")
                .parse()
                .expect("a ratio with two decimals"),
        ),
        _ => Value::Number(word.parse().expect("an exact number")),
    }
}

fn parse_source(word: &str) -> Source {
    match word {
        "-" => Source::None,
        "default" => Source::Default,
        "local" => Source::Local,
        "temporary" => Source::Temporary,
        "received" => Source::Received,
        word => {
            let from = word.strip_prefix("inherited from ");
            Source::Inherited(from.expect("no other source is left").to_owned())
        }
    }
}

/// Parses the output of `zfs get -Hp all -r` into datasets.
pub fn parse_datasets(text: &str) -> Vec<Dataset> {
    let mut datasets: Vec<Dataset> = Vec::new();
    for (name, property) in parse_lines(text, DATASET) {
        if datasets.last().is_none_or(|row| row.name != name) {
            let kind = match property.value.text() {
                Some("filesystem") => DatasetKind::Filesystem,
                Some("volume") => DatasetKind::Volume,
                Some("snapshot") => DatasetKind::Snapshot,
                Some("bookmark") => DatasetKind::Bookmark,
                _ => panic!("{name} does not begin with its type"),
            };
            datasets.push(Dataset {
                name,
                kind,
                create_txg: 0,
                properties: Vec::new(),
            });
        }
        let row = datasets.last_mut().expect("just pushed");
        match property.name.as_str() {
            "createtxg" => row.create_txg = property.value.number().expect("a number"),
            "type" => {}
            _ => row.properties.push(property),
        }
    }
    datasets
}

fn select(all: &[Property], selection: &PropertySelection) -> Vec<Property> {
    let wanted = |property: &&Property| match selection {
        PropertySelection::All => true,
        PropertySelection::Named(names) => names.contains(&property.name),
    };
    all.iter().filter(wanted).cloned().collect()
}

impl Canned {
    fn named<T: Clone>(
        names: &[String],
        all: &[T],
        name_of: fn(&T) -> &str,
    ) -> (Vec<T>, Vec<(String, ControlError)>) {
        if names.is_empty() {
            return (all.to_vec(), Vec::new());
        }
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for name in names {
            match all.iter().find(|item| name_of(item) == name) {
                Some(item) => found.push(item.clone()),
                None => {
                    let pool = name.clone();
                    missing.push((name.clone(), ControlError::NoSuchPool { pool }));
                }
            }
        }
        (found, missing)
    }

    /// Lists as the request's documentation says: if a root's kind is not wanted, only its
    /// descendants are listed. Snapshots and bookmarks are one level below their dataset.
    fn list(
        &self,
        roots: &[String],
        depth: Depth,
        kinds: KindSet,
        properties: &PropertySelection,
    ) -> (Vec<Dataset>, Vec<(String, ControlError)>) {
        let mut failures = Vec::new();
        let mut starts = roots.to_vec();
        if roots.is_empty() {
            starts = self.pools.iter().map(|pool| pool.name.clone()).collect();
        }
        let mut rows: Vec<Dataset> = Vec::new();
        for root in &starts {
            if !self.datasets.iter().any(|row| row.name == *root) {
                let name = root.clone();
                let error = if root.contains('#') {
                    ControlError::NoSuchBookmark { bookmark: name }
                } else {
                    ControlError::NoSuchDataset { dataset: name }
                };
                failures.push((root.clone(), error));
                continue;
            }
            for row in &self.datasets {
                let Some(rest) = row.name.strip_prefix(root.as_str()) else {
                    continue;
                };
                if !rest.is_empty() && !rest.starts_with(['/', '@', '#']) {
                    continue;
                }
                let level = rest.matches(['/', '@', '#']).count();
                let level = u64::try_from(level).expect("a few");
                let new = !rows.iter().any(|known| known.name == row.name);
                if depth.reaches(level) && kinds.has(row.kind) && new {
                    let mut row = row.clone();
                    row.properties = select(&row.properties, properties);
                    rows.push(row);
                }
            }
        }
        (rows, failures)
    }
}

impl Daemon for Canned {
    fn call(
        &mut self,
        request: Request,
        on_part: &mut dyn FnMut(Part) -> Interrupt,
    ) -> Result<Response, CallError> {
        let no_dataset = |dataset: String| Err(ControlError::NoSuchDataset { dataset }.into());
        match request {
            Request::PoolList {
                pools,
                properties,
                vdevs,
            } => {
                let (mut pools, failures) = Self::named(&pools, &self.pools, |row| &row.name);
                for pool in &mut pools {
                    pool.properties = select(&pool.properties, &properties);
                    if !vdevs {
                        pool.vdevs = None;
                    }
                }
                Ok(Response::Pools { pools, failures })
            }
            Request::PoolStatus { pools, .. } => {
                let (pools, failures) = Self::named(&pools, &self.statuses, |row| &row.name);
                Ok(Response::Statuses { pools, failures })
            }
            Request::VdevGet { vdevs, .. } => Ok(Response::Vdevs {
                pool: Box::new(self.pools[0].clone()),
                vdevs: Vec::new(),
                unknown: vdevs,
            }),
            Request::DatasetList {
                roots,
                depth,
                kinds,
                properties,
            } => {
                let (rows, failures) = self.list(&roots, depth, kinds, &properties);
                let done = u64::try_from(rows.len()).expect("a few");
                for rows in rows.chunks(3) {
                    assert_eq!(
                        on_part(Part::Datasets(rows.to_vec())),
                        ControlFlow::Continue(())
                    );
                }
                Ok(Response::Failures { failures, done })
            }
            Request::Holds { snapshot, .. } => self.holds_of(snapshot),
            Request::MountList => Ok(Response::Mounts {
                mounts: self.mounts.clone(),
            }),
            Request::Events { .. } => Ok(Response::Done),
            Request::Mount { dataset, .. }
            | Request::UserSpace { dataset, .. }
            | Request::UnloadKey { dataset }
            | Request::Unmount {
                target: dataset, ..
            } => no_dataset(dataset),
            Request::Change { change, .. } => self.change(change),
            Request::Noted { asked, .. } => self.call(*asked, on_part),
            Request::Export { pool, .. } | Request::History { pool } => {
                Err(ControlError::NoSuchPool { pool }.into())
            }
            other => panic!("the transcripts do not ask {other:?}"),
        }
    }
}
