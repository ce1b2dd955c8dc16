//! Which datasets and snapshots go into a package, and in which order.

use super::options::PackageOptions;
use crate::error::StreamError;
use crate::send::unreadable;
use cenote_base::{Guid, ObjectId};
use cenote_dsl::property::{Class, Format, Stored, StoredProperties, TABLE};
use cenote_dsl::{Bookmark, ChildEntry, Dataset, DatasetName, Directory, SnapshotEntry};
use cenote_ondisk::stream::package::{Package, PackageDataset, PackageSnapshot};
use cenote_ondisk::{NvList, NvValue};
use cenote_redaction::List;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a package is made of.
#[derive(Debug)]
pub struct Gathered {
    /// What its header says.
    pub package: Package,
    /// The datasets, in the header's order.
    pub members: Vec<Member>,
    /// Older datasets that are left out because they lack the snapshot.
    pub skipped: Vec<DatasetName>,
    /// Whether every snapshot in between is sent.
    has_intermediates: bool,
}

/// A dataset of a package.
#[derive(Debug)]
pub struct Member {
    /// Its head.
    head: Dataset,
    /// The snapshot of its parent that has to be there first; 0 for the topmost.
    parent: Guid,
    /// The snapshot that it was cloned from.
    origin: Option<Dataset>,
    /// All snapshots up to the one that is sent.
    snapshots: Vec<Dataset>,
    /// Of those, the first that may be sent, and what the receiver has before it.
    first: usize,
    base: Option<Dataset>,
}

/// A stream of a package.
#[derive(Debug)]
pub struct Sent {
    /// The snapshot.
    pub snapshot: Dataset,
    /// What the receiver has then.
    pub base: Option<Dataset>,
    /// A bookmark of what the receiver has, if there is no base.
    pub bookmark: Option<Bookmark>,
    /// What is left out of it.
    pub redaction: Option<List>,
}

/// The property of a key that is not set at creation only.
const KEY_LOCATION: &str = "keylocation";
/// Directories below one another, at most: as many as a name has room for.
const DEPTH_MAX: usize = 128;

/// Everything that goes into the package.
///
/// # Errors
/// If a dataset lacks the snapshot, or something cannot be read.
pub fn gather(
    target: &Dataset,
    base: Option<&Dataset>,
    options: &PackageOptions,
) -> Result<Gathered, StreamError> {
    let snapshot = short_name(target)?;
    let mut gathering = Gathering {
        options,
        to: snapshot.clone(),
        from: match base {
            Some(base) => Some(short_name(base)?),
            None => None,
        },
        target_txg: target.phys().creation_txg,
        members: Vec::new(),
        datasets: Vec::new(),
        skipped: Vec::new(),
    };
    gathering.add(target.directory(), Guid(0), base)?;
    if options.recursive {
        gathering.add_below(target.directory())?;
    }
    let package = Package {
        to_snapshot: snapshot,
        from_snapshot: gathering.from.clone(),
        recursive: options.recursive,
        raw: options.blocks.raw,
        datasets: gathering.datasets,
    };
    let members = gathering.members;
    Ok(Gathered {
        package,
        members,
        skipped: gathering.skipped,
        // A tree from nothing is sent with all that ever was.
        has_intermediates: options.intermediates || (options.recursive && base.is_none()),
    })
}

struct Gathering<'a> {
    options: &'a PackageOptions,
    to: Vec<u8>,
    from: Option<Vec<u8>>,
    target_txg: cenote_base::Txg,
    members: Vec<Member>,
    datasets: Vec<PackageDataset>,
    skipped: Vec<DatasetName>,
}

impl Gathering<'_> {
    /// The datasets below a directory that is in the package.
    fn add_below(&mut self, top: &Arc<Directory>) -> Result<(), StreamError> {
        let mut stack = vec![(Arc::clone(top), None, self.parent_snapshot())];
        // Children are visited in the order of their names, each with all below it. Some come and
        // go meanwhile, so that the last one visited is known by its name.
        while let Some((directory, last, parent)) = stack.pop() {
            let children = directory.children_listed_now().map_err(unreadable)?;
            // What is destroyed while the package is put together is not in it.
            let mut children = children.unwrap_or_default();
            children.sort_by(|a, b| a.component.cmp(&b.component));
            let next = |child: &&ChildEntry| last.as_ref().is_none_or(|l| child.component > *l);
            let Some(child) = children.iter().find(next) else {
                continue;
            };
            let visited = Some(child.component.clone());
            stack.push((Arc::clone(&directory), visited, parent));
            let Some(child) = directory.child_now(child).map_err(unreadable)? else {
                continue;
            };
            let name = child.name().as_str();
            if self
                .options
                .excluded
                .iter()
                .any(|left_out| left_out == name)
            {
                continue;
            }
            if self.add(&child, parent, None)? && stack.len() < DEPTH_MAX {
                let parent = self.parent_snapshot();
                stack.push((child, None, parent));
            }
        }
        Ok(())
    }

    /// The snapshot of the dataset added last that its children follow: the base if it has that.
    fn parent_snapshot(&self) -> Guid {
        let Some(member) = self.members.last() else {
            return Guid(0);
        };
        let base = member
            .base
            .as_ref()
            .filter(|base| base.directory().id() == member.head.directory().id());
        let last = base.or(member.snapshots.last());
        last.map_or(Guid(0), |snapshot| snapshot.phys().guid)
    }

    /// Adds a dataset; whether it is in the package.
    fn add(
        &mut self,
        directory: &Arc<Directory>,
        parent: Guid,
        base: Option<&Dataset>,
    ) -> Result<bool, StreamError> {
        let Some(head) = directory.head_now().map_err(unreadable)? else {
            return Ok(false);
        };
        let Some(mut entries) = head.snapshots_listed_now().map_err(unreadable)? else {
            return Ok(false);
        };
        let end = entries.iter().position(|entry| entry.name == self.to);
        entries.truncate(end.map_or(0, |end| end + 1));
        let mut snapshots = Vec::with_capacity(entries.len());
        let mut there = Vec::with_capacity(entries.len());
        for entry in entries {
            if let Some(snapshot) = head.snapshot_now(&entry).map_err(unreadable)? {
                snapshots.push(snapshot);
                there.push(entry);
            }
        }
        let entries = there;
        let Some(end) = entries.iter().position(|entry| entry.name == self.to) else {
            let is_newer = head.phys().creation_txg > self.target_txg;
            if is_newer {
                return Ok(false);
            }
            if self.options.skips_missing {
                self.skipped.push(head.name().clone());
                return Ok(false);
            }
            let dataset = head.name().clone();
            let snapshot = String::from_utf8_lossy(&self.to).into_owned();
            return Err(StreamError::NoSnapshot { dataset, snapshot });
        };
        let origin = match directory.origin() {
            Some(origin) => Some(head.dsl().dataset_of(origin).map_err(unreadable)?),
            None => None,
        };
        let (first, base) = self.begin(&head, &entries, base)?;
        let mut member = Member {
            head,
            parent,
            origin,
            snapshots,
            first,
            base,
        };
        if member.base.is_none() && !self.options.recursive && !self.options.intermediates {
            member.first = end;
        }
        self.datasets.push(self.describe(&member)?);
        self.members.push(member);
        Ok(true)
    }

    /// The first snapshot that is not there yet, and what is there.
    fn begin(
        &self,
        head: &Dataset,
        entries: &[SnapshotEntry],
        base: Option<&Dataset>,
    ) -> Result<(usize, Option<Dataset>), StreamError> {
        let Some(from) = &self.from else {
            return Ok((0, None));
        };
        if let Some(base) = base
            && base.directory().id() != head.directory().id()
        {
            let base = head.dsl().dataset_of(base.id()).map_err(unreadable)?;
            return Ok((0, Some(base)));
        }
        match entries.iter().position(|entry| entry.name == *from) {
            Some(index) => {
                let base = head.open_snapshot(&entries[index]).map_err(unreadable)?;
                Ok((index + 1, Some(base)))
            }
            None => Ok((0, None)),
        }
    }

    fn describe(&self, member: &Member) -> Result<PackageDataset, StreamError> {
        let directory = member.head.directory();
        let options = self.options;
        let wants_properties = options.recursive || options.properties || options.received_only;
        let key = directory.crypto_key().map_err(unreadable)?;
        let is_decrypted = key.is_some() && !options.blocks.raw;
        if is_decrypted && options.has_list() && !options.decrypted {
            return Err(StreamError::NotRaw {
                dataset: directory.name().clone(),
                snapshot: String::from_utf8_lossy(&self.to).into_owned(),
            });
        }
        let listed = match options.recursive {
            true => &member.snapshots[..],
            false => &member.snapshots[member.first..],
        };
        let mut dataset = PackageDataset {
            guid: member.head.phys().guid,
            name: directory.name().to_string().into_bytes(),
            parent_from_snapshot: member.parent,
            origin: member.origin.as_ref().map(|origin| origin.phys().guid),
            properties: match wants_properties {
                true => {
                    let stored = directory.properties().map_err(unreadable)?;
                    let mut list = self.properties(stored, false);
                    if is_decrypted {
                        list.remove(KEY_LOCATION);
                    }
                    Some(list)
                }
                false => None,
            },
            is_encryption_root: options.blocks.raw
                && key.is_some_and(|key| key.root() == directory.id()),
            snapshots: Vec::new(),
            has_holds: options.holds,
        };
        for snapshot in listed {
            let own = snapshot.own_properties().map_err(unreadable)?;
            let holds = match options.holds {
                true => snapshot.holds().map_err(unreadable)?,
                false => Vec::new(),
            };
            dataset.snapshots.push(PackageSnapshot {
                name: short_name(snapshot)?,
                guid: snapshot.phys().guid,
                properties: match wants_properties {
                    true => self.properties(own, true),
                    false => NvList::new(),
                },
                holds: holds
                    .into_iter()
                    .map(|hold| (hold.tag.into_bytes(), hold.time))
                    .collect(),
            });
        }
        Ok(dataset)
    }

    /// Properties that are set on the dataset itself, and that can be set.
    fn properties(&self, stored: &StoredProperties, of_snapshot: bool) -> NvList {
        const LIMITS: [&str; 4] = ["quota", "reservation", "refquota", "refreservation"];
        let mut list = NvList::new();
        let values: Vec<(&str, &Stored)> = match self.options.received_only {
            true => stored.all_received().collect(),
            false => stored.in_effect().collect(),
        };
        for (name, value) in values {
            let row = TABLE.iter().find(|row| row.name == name);
            let is_settable =
                row.is_some_and(|row| !matches!(row.class, Class::ReadOnly | Class::AtCreation));
            if !(is_settable || name.contains(':')) || (of_snapshot && LIMITS.contains(&name)) {
                continue;
            }
            let is_text = row.is_none_or(|row| row.format == Format::Text);
            match value {
                Stored::Number(number) if is_text => list.set_str(name, number.to_string()),
                Stored::Number(number) => list.set(name, NvValue::Uint64(*number)),
                Stored::Text(text) => list.set_str(name, text),
            }
        }
        list
    }
}

impl Gathered {
    /// The streams, each behind those that it builds upon.
    ///
    /// # Errors
    /// If datasets wait for one another, or a snapshot cannot be opened again.
    pub fn in_order(&self) -> Result<Vec<Sent>, StreamError> {
        let origins: BTreeSet<ObjectId> = self
            .members
            .iter()
            .filter_map(|member| Some(member.origin.as_ref()?.id()))
            .collect();
        let mut waiting: Vec<&Member> = self.members.iter().collect();
        let mut streams = Vec::new();
        while !waiting.is_empty() {
            let before = waiting.len();
            let left: Vec<&Member> = waiting.clone();
            let is_due = |guid: Guid| !left.iter().any(|other| other.has(guid));
            let mut later = Vec::new();
            for member in waiting {
                let origin = member.origin.as_ref().map(|origin| origin.phys().guid);
                let is_own = |guid: Guid| member.has(guid);
                let parent = Some(member.parent).filter(|guid| guid.0 != 0);
                let waits = [parent, origin].into_iter().flatten();
                let is_ready = waits.into_iter().all(|guid| is_own(guid) || is_due(guid));
                match is_ready {
                    true => streams.extend(self.streams_of(member, &origins)?),
                    false => later.push(member),
                }
            }
            waiting = later;
            if waiting.len() == before {
                let dataset = in_circle(&waiting).head.name().clone();
                return Err(StreamError::Circle { dataset });
            }
        }
        Ok(streams)
    }

    /// The streams of one dataset.
    fn streams_of(
        &self,
        member: &Member,
        origins: &BTreeSet<ObjectId>,
    ) -> Result<Vec<Sent>, StreamError> {
        let again = |snapshot: &Dataset| {
            let found = snapshot.dsl().dataset_of(snapshot.id());
            found.map_err(unreadable)
        };
        let mut streams = Vec::new();
        let mut base = match (&member.base, &member.origin) {
            (Some(base), _) => Some(base),
            // What it was cloned from is there: it was sent before, or long ago.
            (None, origin) if self.package.recursive || self.package.from_snapshot.is_some() => {
                origin.as_ref()
            }
            (None, _) => None,
        };
        let last = member.snapshots.len() - 1;
        for (index, snapshot) in member.snapshots.iter().enumerate().skip(member.first) {
            let is_wanted =
                index == last || self.has_intermediates || origins.contains(&snapshot.id());
            if !is_wanted {
                continue;
            }
            streams.push(Sent {
                snapshot: again(snapshot)?,
                base: match base {
                    Some(base) => Some(again(base)?),
                    None => None,
                },
                bookmark: None,
                redaction: None,
            });
            base = Some(snapshot);
        }
        Ok(streams)
    }
}

/// Of members that wait for one another, one that was cloned from what waits for it.
fn in_circle<'a>(waiting: &[&'a Member]) -> &'a Member {
    let awaited = |member: &Member, guid: Guid| {
        let of = waiting.iter().find(|other| other.has(guid)).copied();
        of.filter(|_| !member.has(guid))
    };
    let origin = |member: &Member| {
        let guid = member.origin.as_ref()?.phys().guid;
        awaited(member, guid)
    };
    let next = |member: &'a Member| origin(member).or_else(|| awaited(member, member.parent));
    let mut at = waiting[0];
    // After so many steps it is in the circle, and after as many more it was all around.
    for step in 0..2 * waiting.len() {
        if step >= waiting.len() && origin(at).is_some() {
            break;
        }
        at = next(at).unwrap_or(at);
    }
    at
}

impl Member {
    /// Whether this is one of its snapshots that are sent.
    fn has(&self, guid: Guid) -> bool {
        let sent = self.snapshots.iter().skip(self.first);
        sent.into_iter()
            .any(|snapshot| snapshot.phys().guid == guid)
    }
}

fn short_name(snapshot: &Dataset) -> Result<Vec<u8>, StreamError> {
    match snapshot.name().after_delimiter() {
        Some(name) if snapshot.is_snapshot() => Ok(name.as_bytes().to_vec()),
        _ => Err(StreamError::Unsendable {
            problem: "it is no snapshot",
        }),
    }
}
