//! Volumes as disks of this machine, with a kernel that keeps its disks when engines end.

use super::pools::{ask, pool_of};
use crate::disks::seam::{DiskSetup, KernelDisk, KernelDisks, KernelFault, LeftDisk};
use crate::{Serve, ServeSettings};
use cenote_base::RealEnv;
use cenote_base::rt::{Mutex, Unranked};
use cenote_control::model::{
    Change, ControlError, ExportHow, ImportOptions, ImportPick, NbdListen, NbdRefusal, NewDataset,
    NewPool, NewVdev, NewVdevKind, NewVdevRole, NewVolume, Refusal, Request, Response, RollBack,
    Search, SnapshotChange, UblkAct, UblkDisk, UblkRefusal, UblkStatus,
};
use cenote_control::protocol::{DisksAtEnd, Ending, Service};
use cenote_engine::{Engine, EngineSettings, NoMounter, Publisher, ServedVolume};
use cenote_ublk::Counters;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A disk as the kernel has it.
#[derive(Default)]
struct Entry {
    label: String,
    /// The daemon's volume; not set after the daemon died.
    served: Option<ServedVolume>,
    is_open: bool,
    size: u64,
}

/// The kernel, which outlives engines.
#[derive(Clone, Default)]
struct Kernel(Arc<Mutex<BTreeMap<u32, Entry>, Unranked>>, Arc<Switches>);

#[derive(Default)]
struct Switches {
    /// It has no driver.
    is_missing: AtomicBool,
    keeps_sizes: AtomicBool,
    devices: Mutex<PathBuf, Unranked>,
}

struct Disk(Kernel, u32);

fn is_on(switch: &AtomicBool) -> bool {
    switch.load(Ordering::SeqCst)
}

impl Kernel {
    fn set(&self, number: u32, set: impl FnOnce(&mut Entry)) {
        set(self.0.lock().get_mut(&number).expect("it has this disk"));
    }

    fn numbers(&self) -> Vec<u32> {
        self.0.lock().keys().copied().collect()
    }

    fn node(&self, number: u32) -> PathBuf {
        self.1.devices.lock().join(format!("ublkb{number}"))
    }
}

impl KernelDisks for Kernel {
    fn check(&self) -> Result<(), KernelFault> {
        match is_on(&self.1.is_missing) {
            true => Err(KernelFault::Unavailable("no driver".to_owned())),
            false => Ok(()),
        }
    }

    fn start(&self, volume: ServedVolume, label: &str) -> Result<Arc<dyn KernelDisk>, KernelFault> {
        let mut disks = self.0.lock();
        let number = disks.keys().next_back().map_or(0, |last| last + 1);
        let entry = Entry {
            label: label.to_owned(),
            size: volume.volume().size(),
            served: Some(volume),
            is_open: false,
        };
        disks.insert(number, entry);
        drop(disks);
        fs::write(self.node(number), "").expect("a node");
        Ok(Arc::new(Disk(self.clone(), number)))
    }

    fn left(&self) -> Result<Vec<LeftDisk>, KernelFault> {
        let disks = self.0.lock();
        let left = disks.iter().filter(|(_, entry)| entry.served.is_none());
        Ok(left
            .map(|(number, entry)| LeftDisk {
                number: *number,
                label: entry.label.clone(),
            })
            .collect())
    }

    fn recover(
        &self,
        volume: ServedVolume,
        left: &LeftDisk,
    ) -> Result<Arc<dyn KernelDisk>, KernelFault> {
        self.set(left.number, |entry| entry.served = Some(volume));
        Ok(Arc::new(Disk(self.clone(), left.number)))
    }

    fn remove(&self, left: &LeftDisk, force: bool) -> Result<(), KernelFault> {
        if self.0.lock()[&left.number].is_open && !force {
            return Err(KernelFault::Open);
        }
        fs::remove_file(self.node(left.number)).expect("a node");
        self.0.lock().remove(&left.number);
        Ok(())
    }
}

impl KernelDisk for Disk {
    fn number(&self) -> u32 {
        self.1
    }

    fn is_open(&self) -> bool {
        self.0.0.lock()[&self.1].is_open
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn resize(&self, size: u64) -> Result<(), KernelFault> {
        if is_on(&self.0.1.keeps_sizes) {
            return Err(KernelFault::Failed("it cannot".to_owned()));
        }
        self.0.set(self.1, |entry| entry.size = size);
        Ok(())
    }

    fn stop(&self, force: bool) -> Result<(), KernelFault> {
        if self.is_open() && !force {
            return Err(KernelFault::Open);
        }
        let gone = self.0.0.lock().remove(&self.1);
        drop(gone);
        fs::remove_file(self.0.node(self.1)).expect("a node");
        Ok(())
    }

    fn leave(&self) -> Result<(), KernelFault> {
        let mut volume = None;
        self.0.set(self.1, |entry| volume = entry.served.take());
        drop(volume);
        Ok(())
    }
}

pub(super) struct Machine {
    pub(super) directory: tempfile::TempDir,
    kernel: Kernel,
    pub(super) engine: Engine,
    published: Arc<dyn Publisher>,
    /// The disk of its pool.
    device: PathBuf,
}

/// A daemon's engine, and what it publishes.
fn engine_of(kernel: &Kernel, directory: &Path) -> (Engine, Arc<dyn Publisher>) {
    *kernel.1.devices.lock() = directory.to_owned();
    let published = ServeSettings {
        disks: DiskSetup {
            kernel: Arc::new(kernel.clone()),
            devices: directory.to_owned(),
            system: directory.join("sys"),
        },
        own_server: NbdListen {
            unix: Some(directory.join("nbd").to_string_lossy().into_owned()),
            ..NbdListen::default()
        },
        dashboard: None,
    };
    let own_disks = published.disks.own_disks();
    let own = Arc::clone(&own_disks);
    let made = Arc::new(OnceLock::<Arc<dyn Publisher>>::new());
    let place = Arc::clone(&made);
    let settings = EngineSettings {
        publish: Some(Box::new(move |registry| {
            let serve = Arc::new(Serve::new(registry, published, &own));
            place.get_or_init(|| serve).clone()
        })),
        own_disks,
        state_directory: Some(directory.join("state")),
        ..EngineSettings::default()
    };
    let engine = Engine::new(Box::new(NoMounter), settings, Arc::new(RealEnv::new()));
    let made = made.get().expect("an engine has a publisher");
    (engine, Arc::clone(made))
}

impl Machine {
    pub(super) fn new() -> Self {
        let machine = Self::with_disk(None);
        pool_of(&machine.engine, machine.directory.path());
        machine
    }

    /// Another machine, which can import the same pool.
    pub(super) fn elsewhere(&self) -> Self {
        Self::with_disk(Some(self.device.clone()))
    }

    fn with_disk(device: Option<PathBuf>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let kernel = Kernel::default();
        let (engine, published) = engine_of(&kernel, directory.path());
        Self {
            engine,
            published,
            device: device.unwrap_or_else(|| directory.path().join("device")),
            directory,
            kernel,
        }
    }

    pub(super) fn try_change(&self, change: Change) -> Result<(), ControlError> {
        let command = "a test".to_owned();
        let done = ask(&self.engine, Request::Change { change, command })?;
        match done.0 {
            Response::Failures { failures, .. } => failures
                .into_iter()
                .next()
                .map_or(Ok(()), |(_, error)| Err(error)),
            _ => Ok(()),
        }
    }

    pub(super) fn change(&self, change: Change) {
        self.try_change(change).expect("done");
    }

    pub(super) fn volume(&self, name: &str, properties: &[(&str, &str)]) {
        let pairs = properties.iter();
        let pairs = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.change(Change::CreateDataset(Box::new(NewDataset {
            name: name.to_owned(),
            properties: pairs.collect(),
            volume: Some(NewVolume {
                size: 8 << 20,
                block_size: None,
                sparse: true,
            }),
            ..NewDataset::default()
        })));
    }

    fn try_set(&self, name: &str, property: &str, value: &str) -> Result<(), ControlError> {
        self.try_change(Change::SetProperties {
            datasets: vec![name.to_owned()],
            properties: vec![(property.to_owned(), value.to_owned())],
            unmounted: false,
        })
    }

    pub(super) fn set(&self, name: &str, property: &str, value: &str) {
        self.try_set(name, property, value).expect("set");
    }

    pub(super) fn snapshot(&self, name: &str) {
        self.change(Change::Snapshots(SnapshotChange::Create {
            names: vec![name.to_owned()],
            recursive: false,
            properties: Vec::new(),
        }));
    }

    fn destroy(&self, name: &str, force: bool) -> Result<(), ControlError> {
        self.try_change(Change::DestroyDataset {
            dataset: name.to_owned(),
            recursive: true,
            clones: false,
            force,
            dry_run: false,
        })
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), ControlError> {
        self.try_change(Change::RenameDataset {
            from: from.to_owned(),
            to: to.to_owned(),
            parents: false,
            force: false,
            unmounted: false,
        })
    }

    fn act(&self, act: UblkAct) -> Result<UblkStatus, ControlError> {
        match ask(&self.engine, Request::Ublk { act })?.0 {
            Response::Ublk { status } => Ok(status),
            Response::Done => Ok(UblkStatus::default()),
            other => panic!("{other:?}"),
        }
    }

    fn serve(&self, name: &str) -> Result<UblkStatus, ControlError> {
        self.act(UblkAct::Serve {
            volumes: vec![name.to_owned()],
            read_only: false,
        })
    }

    fn stop(&self, targets: &[&str], force: bool) -> Result<UblkStatus, ControlError> {
        self.act(UblkAct::Stop {
            targets: targets.iter().map(|&target| target.to_owned()).collect(),
            force,
        })
    }

    pub(super) fn status(&self) -> UblkStatus {
        self.act(UblkAct::Status).expect("a status")
    }

    /// The names of the disks, each with the target of its link.
    fn disks(&self) -> Vec<(String, u32)> {
        let each = self.status().disks.into_iter();
        each.map(|disk: UblkDisk| {
            let link = disk.link.expect("a link");
            let target = fs::canonicalize(&link).expect("it leads somewhere");
            assert_eq!(target, fs::canonicalize(&disk.device).expect("a node"));
            let name = target
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            let number = name.trim_start_matches("ublkb").parse().expect("a number");
            (disk.dataset, number)
        })
        .collect()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.disks().into_iter().map(|(name, _)| name).collect()
    }

    fn number(&self, name: &str) -> u32 {
        let mut disks = self.disks().into_iter();
        disks.find(|(own, _)| own == name).expect("a disk").1
    }

    fn open(&self, name: &str, is_open: bool) {
        self.kernel
            .set(self.number(name), |entry| entry.is_open = is_open);
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        self.kernel.set(self.number(name), |entry| {
            let served = entry.served.as_ref().expect("it is served");
            served.volume().write(0, bytes).expect("written");
        });
    }

    fn read(&self, name: &str) -> [u8; 4] {
        let mut bytes = [9; 4];
        self.kernel.set(self.number(name), |entry| {
            let served = entry.served.as_ref().expect("it is served");
            served.volume().read(0, &mut bytes).expect("read");
        });
        bytes
    }

    fn has_links(&self) -> bool {
        self.directory.path().join("zvol").exists()
    }

    pub(super) fn export(&self, force: bool) -> Result<(), ControlError> {
        let how = ExportHow {
            force,
            ..ExportHow::default()
        };
        let pool = "heads".to_owned();
        ask(&self.engine, Request::Export { pool, how }).map(drop)
    }

    pub(super) fn import(&self) {
        let request = Request::Import {
            search: Search {
                paths: vec![self.device.to_string_lossy().into()],
                ..Search::default()
            },
            pick: ImportPick::All,
            options: ImportOptions::default(),
        };
        let (response, _) = ask(&self.engine, request).expect("asked");
        let Response::Imported { failures, .. } = response else {
            panic!("{response:?}");
        };
        assert!(failures.is_empty(), "{failures:?}");
    }

    /// The daemon ends, and another one starts.
    pub(super) fn restart(&mut self, disks: DisksAtEnd) {
        let force = true;
        self.engine.shutdown(Ending { force, disks }).expect("ends");
        (self.engine, self.published) = engine_of(&self.kernel, self.directory.path());
    }
}

fn is_busy(result: Result<(), ControlError>) {
    assert!(
        matches!(result, Err(ControlError::DatasetBusy { .. })),
        "{result:?}"
    );
}

fn ublk(result: Result<UblkStatus, ControlError>) -> UblkRefusal {
    match result {
        Err(ControlError::Refused(Refusal::Ublk(refusal))) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_command_makes_a_disk_and_ends_it() {
    let machine = Machine::new();
    machine.volume("heads/vol", &[]);
    let served = machine.serve("heads/vol").expect("served");
    assert_eq!(served.disks.len(), 1);
    assert_eq!(machine.disks(), [("heads/vol".to_owned(), 0)]);
    machine.serve("heads/vol").expect("it is served already");
    assert_eq!(machine.kernel.numbers(), [0]);
    assert!(matches!(
        machine.serve("heads/one"),
        Err(ControlError::Refused(Refusal::Nbd(
            NbdRefusal::NotVolume { .. }
        )))
    ));
    assert!(machine.serve("heads/none").is_err());
    machine.open("heads/vol", true);
    let refused = ublk(machine.stop(&["heads/vol"], false));
    assert!(matches!(refused, UblkRefusal::InUse { .. }), "{refused}");
    let read_only = UblkAct::Serve {
        volumes: vec!["heads/vol".to_owned()],
        read_only: true,
    };
    let refused = ublk(machine.act(read_only.clone()));
    assert!(matches!(refused, UblkRefusal::InUse { .. }), "{refused}");
    machine.open("heads/vol", false);
    let served = machine.act(read_only).expect("served again");
    assert!(served.disks[0].is_read_only);
    let link = served.disks[0].link.clone().expect("a link");
    machine.stop(&[&link], false).expect("by its link");
    assert_eq!(machine.kernel.numbers(), [0; 0]);
    assert!(!machine.has_links());
    let refused = ublk(machine.stop(&["heads/vol"], false));
    assert!(matches!(refused, UblkRefusal::Unknown { .. }), "{refused}");
    machine.serve("heads/vol").expect("served");
    machine.open("heads/vol", true);
    machine.stop(&[], true).expect("by force");
    assert_eq!(machine.names(), [""; 0]);
}

#[test]
fn the_property_makes_disks_of_what_is_below() {
    let machine = Machine::new();
    machine.set("heads/one", "cenote:ublk", "on");
    assert!(machine.try_set("heads/one", "cenote:ublk", "yes").is_err());
    machine.volume("heads/one/a", &[]);
    machine.volume("heads/b", &[("cenote:ublk", "on")]);
    machine.volume("heads/c", &[]);
    assert_eq!(machine.names(), ["heads/b", "heads/one/a"]);
    assert!(
        machine
            .status()
            .disks
            .iter()
            .all(|disk| disk.is_by_property)
    );
    let refused = ublk(machine.stop(&["heads/b"], false));
    assert!(
        matches!(refused, UblkRefusal::ByProperty { .. }),
        "{refused}"
    );
    machine.snapshot("heads/one/a@s");
    assert_eq!(machine.names(), ["heads/b", "heads/one/a"]);
    machine.set("heads/one", "snapdev", "visible");
    assert_eq!(machine.names(), ["heads/b", "heads/one/a", "heads/one/a@s"]);
    assert!(machine.status().disks[2].is_read_only);
    machine.snapshot("heads/one/a@t");
    machine.set("heads/b", "volmode", "none");
    assert_eq!(
        machine.names(),
        ["heads/one/a", "heads/one/a@s", "heads/one/a@t"]
    );
    machine
        .rename("heads/one/a", "heads/one/new")
        .expect("renamed");
    let renamed = ["heads/one/new", "heads/one/new@s", "heads/one/new@t"];
    assert_eq!(machine.names(), renamed);
    machine.change(Change::Snapshots(SnapshotChange::Destroy {
        names: vec!["heads/one/new@s".to_owned()],
        defer: false,
    }));
    assert_eq!(machine.names(), ["heads/one/new", "heads/one/new@t"]);
    machine.set("heads/one", "readonly", "on");
    assert!(machine.status().disks.iter().all(|disk| disk.is_read_only));
    machine.export(false).expect("they are not in use");
    assert_eq!(machine.kernel.numbers(), [0; 0]);
    assert!(!machine.has_links());
    machine.import();
    assert_eq!(machine.names(), ["heads/one/new", "heads/one/new@t"]);
    machine.destroy("heads/one", false).expect("destroyed");
    assert_eq!(machine.names(), [""; 0]);
    assert!(!machine.has_links());
}

#[test]
fn an_open_disk_makes_its_volume_busy_and_one_that_is_not_open_does_not() {
    let machine = Machine::new();
    machine.set("heads", "cenote:ublk", "on");
    machine.volume("heads/vol", &[]);
    machine.snapshot("heads/vol@s");
    machine.write("heads/vol", b"old!");
    machine.open("heads/vol", true);
    is_busy(machine.destroy("heads/vol", false));
    is_busy(machine.rename("heads/vol", "heads/new"));
    is_busy(machine.export(false));
    let roll_back = |force: bool| {
        machine.try_change(Change::RollBack(RollBack {
            snapshot: "heads/vol@s".to_owned(),
            newer: Vec::new(),
            clones: Vec::new(),
            force,
        }))
    };
    is_busy(roll_back(false));
    assert_eq!(machine.names(), ["heads/vol"], "nothing happened to it");
    machine.open("heads/vol", false);
    roll_back(false).expect("rolled back");
    assert_eq!(machine.read("heads/vol"), [0; 4]);
    machine.rename("heads/vol", "heads/new").expect("renamed");
    assert_eq!(machine.names(), ["heads/new"]);
    machine.open("heads/new", true);
    machine.destroy("heads/new", true).expect("by force");
    assert_eq!(machine.kernel.numbers(), [0; 0]);
}

/// A disk that is no longer requested stays while it is mounted.
#[test]
fn a_disk_that_is_open_goes_when_it_is_closed() {
    let machine = Machine::new();
    machine.volume("heads/vol", &[("cenote:ublk", "on")]);
    machine.open("heads/vol", true);
    machine.set("heads/vol", "cenote:ublk", "off");
    assert!(machine.status().disks[0].is_leaving);
    machine.engine.tick();
    assert_eq!(machine.names(), ["heads/vol"]);
    machine.set("heads/vol", "cenote:ublk", "on");
    assert!(!machine.status().disks[0].is_leaving);
    machine.set("heads/vol", "cenote:ublk", "off");
    machine.open("heads/vol", false);
    machine.published.look();
    assert_eq!(machine.kernel.numbers(), [0; 0]);
}

#[test]
fn a_disk_gets_the_size_of_its_volume_or_it_is_said_that_it_cannot() {
    let machine = Machine::new();
    machine.volume("heads/vol", &[]);
    machine.serve("heads/vol").expect("served");
    machine.set("heads/vol", "volsize", "16M");
    assert_eq!(machine.status().disks[0].size, 16 << 20);
    machine
        .kernel
        .set(0, |entry| assert_eq!(entry.size, 16 << 20));
    let switch = &machine.kernel.1.keeps_sizes;
    switch.store(true, Ordering::SeqCst);
    let refused = machine.try_set("heads/vol", "volsize", "24M");
    let text = refused.expect_err("refused").to_string();
    assert!(text.contains("volume has its new size, but"), "{text}");
    assert!(text.contains("cenote ublk stop heads/vol"), "{text}");
    assert_eq!(machine.status().disks[0].size, 16 << 20);
}

#[test]
fn without_a_driver_pools_are_imported_and_the_reason_is_said() {
    let machine = Machine::new();
    let switch = &machine.kernel.1.is_missing;
    switch.store(true, Ordering::SeqCst);
    machine.volume("heads/vol", &[("cenote:ublk", "on")]);
    let status = machine.status();
    assert_eq!(status.unavailable.as_deref(), Some("no driver"));
    assert!(status.is_wanted && status.disks.is_empty());
    let refused = ublk(machine.serve("heads/vol"));
    assert_eq!(refused.to_string(), "no driver");
    machine.export(false).expect("exported");
    machine.import();
    // The driver is loaded; the next change creates the disk.
    switch.store(false, Ordering::SeqCst);
    machine.volume("heads/other", &[]);
    assert_eq!(machine.names(), ["heads/vol"]);
}

/// Regression: a disk that was taken over counted as requested by a command, and stayed when the
/// property was switched off.
#[test]
fn a_disk_that_was_taken_over_goes_with_its_property() {
    let mut machine = Machine::new();
    machine.volume("heads/prop", &[("cenote:ublk", "on")]);
    machine.restart(DisksAtEnd::Stay);
    machine.import();
    assert_eq!(machine.names(), ["heads/prop"]);
    machine.set("heads/prop", "cenote:ublk", "off");
    assert!(machine.names().is_empty());
    assert!(!machine.has_links());
}

/// The kernel keeps a disk whose daemon died, and file systems on it wait.
#[test]
fn the_next_daemon_takes_disks_over() {
    let mut machine = Machine::new();
    machine.volume("heads/cmd", &[]);
    machine.volume("heads/prop", &[("cenote:ublk", "on")]);
    machine.snapshot("heads/cmd@s");
    machine.serve("heads/cmd@s").expect("served");
    machine.serve("heads/cmd").expect("served");
    machine.write("heads/cmd", b"kept");
    let before = machine.disks();
    assert_eq!(before.len(), 3);
    machine.open("heads/cmd", true);
    machine.restart(DisksAtEnd::Stay);
    assert_eq!(machine.status().left.len(), 3, "until the pool is imported");
    machine.import();
    assert_eq!(machine.disks(), before, "the same disks");
    assert_eq!(machine.read("heads/cmd"), *b"kept");
    is_busy(machine.destroy("heads/cmd", false));
    machine
        .kernel
        .set(0, |entry| assert!(entry.label.ends_with(".rw heads/prop")));
    assert!(machine.status().disks[1].is_read_only, "the snapshot");
    // A signal: only what is open stays.
    machine.restart(DisksAtEnd::OpenStay);
    let left = machine.status().left;
    assert_eq!((left.len(), left[0].dataset.as_str()), (1, "heads/cmd"));
    // Its volume is destroyed, and another one gets the name: the disk does not belong to that one.
    machine.import();
    machine.restart(DisksAtEnd::OpenStay);
    machine
        .kernel
        .set(2, |entry| entry.label = entry.label.replacen('.', ".9", 1));
    machine.import();
    assert_eq!(machine.names(), ["heads/prop"]);
    machine.serve("heads/cmd").expect("another disk");
    let (left, running) = (machine.status().left, machine.number("heads/cmd"));
    assert_ne!(
        left[0].device,
        format!("{}", machine.kernel.node(running).display())
    );
    let refused = ublk(machine.stop(&[&left[0].device], false));
    assert!(matches!(refused, UblkRefusal::InUse { .. }), "{refused}");
    machine.stop(&[&left[0].device], true).expect("removed");
    assert!(machine.status().left.is_empty());
    assert_eq!(machine.names(), ["heads/cmd", "heads/prop"]);
    machine.restart(DisksAtEnd::Go);
    assert_eq!(machine.kernel.numbers(), [0; 0]);
}

#[test]
fn a_name_that_is_taken_is_no_reason_to_have_no_disk() {
    let machine = Machine::new();
    machine.volume("heads/vol", &[]);
    let place = machine.directory.path().join("zvol/heads");
    fs::create_dir_all(&place).expect("made");
    fs::write(place.join("vol"), "a file").expect("written");
    machine.serve("heads/vol").expect("served");
    let status = machine.status();
    assert_eq!(status.disks[0].link, None);
    assert!(
        status.failures[0].reason.contains("is there already"),
        "{status:?}"
    );
    fs::remove_file(place.join("vol")).expect("removed");
    machine.set("heads/vol", "compression", "off");
    assert_eq!(machine.names(), ["heads/vol"]);
}

/// A daemon that stores a pool on its own disk waits for itself.
#[test]
fn no_pool_is_made_on_an_own_disk() {
    let machine = Machine::new();
    machine.volume("heads/vol", &[]);
    machine.serve("heads/vol").expect("served");
    let file = machine.directory.path().join("other");
    fs::File::create(&file)
        .and_then(|file| file.set_len(128 << 20))
        .expect("a file");
    let made = |name: &str| {
        machine.try_change(Change::CreatePool(Box::new(NewPool {
            name: name.to_owned(),
            vdevs: vec![NewVdev {
                role: NewVdevRole::Normal,
                kind: NewVdevKind::Disk,
                devices: vec![file.to_string_lossy().into_owned()],
            }],
            dataset_properties: vec![("mountpoint".to_owned(), "none".to_owned())],
            ..NewPool::default()
        })))
    };
    // The kernel says that the file's file system is on it.
    let device = file.metadata().expect("there").dev();
    let name = format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    );
    let sys = machine.directory.path().join("sys");
    fs::create_dir_all(sys.join("dev/block")).expect("made");
    fs::create_dir_all(sys.join("ublkb0")).expect("made");
    symlink(sys.join("ublkb0"), sys.join("dev/block").join(name)).expect("made");
    let text = made("own").expect_err("refused").to_string();
    assert!(text.contains("would wait for itself"), "{text}");
    machine.stop(&[], false).expect("stopped");
    made("own").expect("it is free now");
}
