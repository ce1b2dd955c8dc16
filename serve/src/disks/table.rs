//! The table of disks, with what commands and the property ask for.

use super::disk::{Disk, Place};
use super::label::Label;
use super::links::Links;
use super::seam::{DiskSetup, KernelDisks, KernelFault, LeftDisk};
use crate::volumes::offer::Commanded;
use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, ranks};
use cenote_control::model::{UblkDisk, UblkFailure, UblkLeft, UblkStatus};
use cenote_control::protocol::DisksAtEnd;
use cenote_engine::{Grip, LetsGo, OwnDisks};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) type Key = (u64, ObjectId);

#[derive(Default)]
struct Table {
    disks: BTreeMap<Key, Arc<Disk>>,
    commanded: Vec<Commanded>,
    /// The disks that the property asks for.
    by_property: BTreeSet<Key>,
    /// Whether the property is on anywhere.
    is_on: bool,
    /// Why datasets have no disk or no link.
    failures: BTreeMap<String, String>,
    /// Why there can be no disks, although some are asked for.
    unavailable: Option<String>,
    /// The daemon is ending: no more disks are made.
    is_over: bool,
}

/// The disks.
pub(crate) struct LocalDisks {
    pub(super) kernel: Arc<dyn KernelDisks>,
    pub(super) place: Place,
    table: Mutex<Table, ranks::LocalDisks>,
}

impl LocalDisks {
    pub fn new(setup: DiskSetup, own: &Arc<OwnDisks>) -> Self {
        Self {
            kernel: setup.kernel,
            place: Place {
                links: Links::new(&setup.devices),
                own: Arc::clone(own),
            },
            table: Mutex::default(),
        }
    }

    /// Whether there can be disks.
    pub(super) fn check(&self) -> Result<&dyn KernelDisks, KernelFault> {
        self.kernel.check().map(|()| self.kernel.as_ref())
    }

    /// Whether changes of datasets may affect disks.
    pub fn is_active(&self) -> bool {
        let table = self.table.lock();
        !table.disks.is_empty() || !table.commanded.is_empty() || table.is_on
    }

    /// Ends disks that nothing asks for and that are closed by now.
    pub fn end_leaving(&self) {
        for disk in self.all().iter().filter(|disk| disk.is_leaving()) {
            if disk.let_go(Grip::UnusedNow).is_ok() {
                self.forget(disk);
            }
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<Disk>> {
        self.table.lock().disks.values().cloned().collect()
    }

    pub(super) fn disk(&self, key: Key) -> Option<Arc<Disk>> {
        self.table.lock().disks.get(&key).cloned()
    }

    /// Adds a disk that is being started; false if its dataset has one, or the daemon is ending.
    pub(super) fn insert(&self, disk: &Arc<Disk>) -> bool {
        let mut table = self.table.lock();
        if table.is_over || table.disks.contains_key(&disk.key) {
            return false;
        }
        table.disks.insert(disk.key, Arc::clone(disk));
        true
    }

    /// Removes a disk that has ended from the table.
    pub(super) fn forget(&self, disk: &Arc<Disk>) {
        let mut table = self.table.lock();
        let found = table.disks.get(&disk.key);
        if found.is_some_and(|found| Arc::ptr_eq(found, disk)) {
            table.disks.remove(&disk.key);
        }
    }

    pub(super) fn commanded(&self) -> Vec<Commanded> {
        self.table.lock().commanded.clone()
    }

    /// Commands asked for these, too.
    pub(super) fn add(&self, new: &[Commanded]) {
        let mut table = self.table.lock();
        let is_new = |old: &Commanded| new.iter().any(|new| new.key() == old.key());
        table.commanded.retain(|old| !is_new(old));
        table.commanded.extend(new);
    }

    /// Commands ask for this no longer.
    pub(super) fn remove(&self, gone: Key) {
        let mut table = self.table.lock();
        table.commanded.retain(|one| one.key() != gone);
    }

    pub(super) fn set_by_property(&self, is_on: bool, by_property: BTreeSet<Key>) {
        let mut table = self.table.lock();
        table.is_on = is_on;
        table.by_property = by_property;
    }

    pub(super) fn is_by_property(&self, key: Key) -> bool {
        self.table.lock().by_property.contains(&key)
    }

    /// Stores the failures; returns messages about new ones.
    pub(super) fn set_failures(&self, failures: BTreeMap<String, String>) -> Vec<String> {
        let mut table = self.table.lock();
        let is_new =
            |(dataset, reason): &(&String, &String)| table.failures.get(*dataset) != Some(*reason);
        let news = failures.iter().filter(is_new);
        let news = news.map(|(dataset, reason)| format!("{dataset}: {reason}"));
        let news = news.collect();
        table.failures = failures;
        news
    }

    pub(super) fn failure(&self, dataset: &str) -> Option<String> {
        self.table.lock().failures.get(dataset).cloned()
    }

    /// Stores why there can be no disks; returns whether disks could be made before.
    pub(super) fn set_unavailable(&self, reason: Option<String>) -> bool {
        let mut table = self.table.lock();
        let is_news = reason.is_some() && table.unavailable.is_none();
        table.unavailable = reason;
        is_news
    }

    /// The disks that earlier daemons left, with their labels.
    pub(super) fn left(&self) -> Vec<(Label, LeftDisk)> {
        let left = self.kernel.left().unwrap_or_else(|fault| {
            log::warn!("disks of earlier daemons cannot be listed: {fault}");
            Vec::new()
        });
        let each = left.into_iter();
        each.filter_map(|left| Some((Label::parse(&left.label)?, left)))
            .collect()
    }

    /// The running disks.
    pub fn running(&self) -> Vec<UblkDisk> {
        let table = self.table.lock();
        let disks: Vec<(Arc<Disk>, bool)> = table
            .disks
            .iter()
            .map(|(key, disk)| {
                let is_commanded = table.commanded.iter().any(|one| one.key() == *key);
                (Arc::clone(disk), !is_commanded)
            })
            .collect();
        drop(table);
        let each = disks.into_iter();
        let mut running: Vec<UblkDisk> = each
            .filter_map(|(disk, is_by_property)| disk.status(is_by_property))
            .collect();
        running.sort_by(|a, b| a.dataset.cmp(&b.dataset));
        running
    }

    pub(super) fn status(&self) -> UblkStatus {
        let unavailable = self.check().err().map(|fault| fault.to_string());
        let left = self.left().into_iter().map(|(label, left)| UblkLeft {
            dataset: label.name,
            device: self.place.links.device(left.number).display().to_string(),
        });
        let left = left.collect();
        let disks = self.running();
        let table = self.table.lock();
        let failures = table.failures.iter();
        let failures = failures.map(|(dataset, reason)| UblkFailure {
            dataset: dataset.clone(),
            reason: reason.clone(),
        });
        UblkStatus {
            disks,
            left,
            failures: failures.collect(),
            unavailable,
            is_wanted: !table.by_property.is_empty(),
        }
    }

    /// Leaves disks to the next daemon, or ends them, as `at_end` says.
    pub fn leave_at_end(&self, at_end: DisksAtEnd) {
        self.table.lock().is_over = true;
        for disk in self.all() {
            let gone = match at_end {
                DisksAtEnd::Go => disk.let_go(Grip::Force),
                DisksAtEnd::Stay => disk.let_go(Grip::Leave),
                DisksAtEnd::OpenStay => disk.let_go(Grip::UnusedNow).or_else(|_| {
                    log::warn!(
                        "the disk of {} is open: requests to it wait until 'cenote daemon resume' \
                         or 'zpool import' brings its pool back",
                        disk.name()
                    );
                    disk.let_go(Grip::Leave)
                }),
            };
            if let Err(error) = gone {
                log::warn!("{}: its disk was not taken away: {error}", disk.name());
            }
            self.forget(&disk);
        }
    }
}
