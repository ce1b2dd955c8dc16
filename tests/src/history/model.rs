//! The tree as it must be.
//!
//! A change makes a new model of an old one, or is refused; contents are shared between the two.
//! Snapshots have numbers that grow with their age, by which clones and bookmarks know them
//! wherever a promotion takes them.

use super::change::{Change, Reach};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Files by name.
pub type Files = BTreeMap<String, Arc<Vec<u8>>>;

/// A snapshot as it must be.
#[derive(Clone, Debug)]
pub struct Snap {
    /// Grows with the age.
    pub id: u64,
    /// Behind the `@`.
    pub name: String,
    /// What is in it.
    pub files: Arc<Files>,
    /// Its holds.
    pub tags: BTreeSet<String>,
    /// Whether it goes with its last hold or clone.
    pub is_deferred: bool,
}

/// A dataset as it must be.
#[derive(Clone, Debug, Default)]
pub struct Set {
    /// A volume has no files here.
    pub is_volume: bool,
    /// OpenZFS made it.
    pub is_foreign: bool,
    /// What is in it.
    pub files: Arc<Files>,
    /// From the oldest to the newest.
    pub snaps: Vec<Snap>,
    /// The snapshot that it is a clone of.
    pub origin: Option<u64>,
    /// Bookmarks, and the snapshots that they are of.
    pub marks: BTreeMap<String, u64>,
    /// Mebibytes; 0 for none.
    pub quota: u64,
}

impl Set {
    /// The place of the snapshot with this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.snaps.iter().position(|snap| snap.name == name)
    }
}

/// A tree of datasets.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// By full name.
    pub sets: BTreeMap<String, Set>,
    /// Whether the pool's root is an encryption root.
    pub is_encrypted: bool,
    /// The number of the newest snapshot.
    pub(super) made: u64,
}

impl Model {
    /// A pool with nothing but its root.
    pub fn new(pool: &str, is_encrypted: bool) -> Self {
        let sets = BTreeMap::from([(pool.to_owned(), Set::default())]);
        Self {
            sets,
            is_encrypted,
            made: 0,
        }
    }

    /// A dataset and everything below it.
    pub fn below(&self, name: &str) -> Vec<String> {
        let inside = |other: &&String| {
            let rest = other.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.sets.keys().filter(inside).cloned().collect()
    }

    /// The dataset and the snapshot with a number.
    pub fn find(&self, id: u64) -> Option<(&String, &Snap)> {
        self.sets.iter().find_map(|(name, set)| {
            let snap = set.snaps.iter().find(|snap| snap.id == id)?;
            Some((name, snap))
        })
    }

    /// The clones of a snapshot.
    pub fn clones_of(&self, id: u64) -> Vec<String> {
        let clones = self.sets.iter().filter(|(_, set)| set.origin == Some(id));
        clones.map(|(name, _)| name.clone()).collect()
    }

    /// Whether something keeps a snapshot from being destroyed.
    pub fn is_kept(&self, snap: &Snap) -> bool {
        !snap.tags.is_empty() || !self.clones_of(snap.id).is_empty()
    }

    /// A dataset and with `recursive` those below it.
    fn reached(&self, of: &str, recursive: bool) -> Vec<String> {
        match recursive {
            true => self.below(of),
            false => vec![of.to_owned()],
        }
    }

    /// The numbers of the snapshots that a list of `zfs destroy` means.
    pub fn meant(&self, of: &str, ranges: &[(String, String)], recursive: bool) -> Vec<u64> {
        let mut meant = BTreeSet::new();
        for name in self.reached(of, recursive) {
            let set = &self.sets[&name];
            for (first, last) in ranges {
                if let (Some(first), Some(last)) = (set.position(first), set.position(last)) {
                    let ids = set.snaps.iter().map(|snap| snap.id);
                    meant.extend(ids.take(last + 1).skip(first));
                }
            }
        }
        meant.into_iter().collect()
    }

    /// The model after a change; `None` if the change must be refused.
    pub fn after(&self, change: &Change) -> Option<Self> {
        let mut new = self.clone();
        let done = match change {
            Change::Create { name, is_volume } => new.create(name, *is_volume),
            Change::Snapshot {
                of,
                name,
                recursive,
            } => new.snapshot(of, name, *recursive),
            Change::DestroySnapshots {
                of,
                ranges,
                recursive,
                defer,
            } => new.destroy_snapshots(&self.meant(of, ranges, *recursive), *defer),
            Change::Clone { origin, name } => new.clone_snapshot(origin, name),
            Change::Promote { name } => new.promote(name),
            Change::Rollback { of, to, with_newer } => new.roll_back(of, to, *with_newer),
            Change::Destroy { name, reach } => new.destroy(name, *reach),
            Change::Rename { from, to } => new.rename(from, to),
            Change::RenameSnapshots {
                of,
                from,
                to,
                recursive,
            } => new.rename_snapshots(of, from, to, *recursive),
            Change::Hold {
                of,
                tag,
                is_release,
            } => new.hold(of, tag, *is_release),
            Change::Bookmark { of, name } => new.bookmark(of, name),
            Change::DestroyBookmark { of, name } => {
                new.sets.get_mut(of)?.marks.remove(name).map(drop)
            }
            Change::Quota { of, mebibytes } => {
                new.sets.get_mut(of)?.quota = *mebibytes;
                Some(())
            }
        };
        done.map(|()| new)
    }

    fn is_free(&self, name: &str) -> bool {
        let parent = name.rsplit_once('/').map(|(parent, _)| parent);
        let parent = parent.and_then(|parent| self.sets.get(parent));
        parent.is_some_and(|parent| !parent.is_volume) && !self.sets.contains_key(name)
    }

    fn create(&mut self, name: &str, is_volume: bool) -> Option<()> {
        let set = Set {
            is_volume,
            ..Set::default()
        };
        self.is_free(name)
            .then(|| drop(self.sets.insert(name.to_owned(), set)))
    }

    fn snapshot(&mut self, of: &[String], name: &str, recursive: bool) -> Option<()> {
        for top in of {
            for reached in self.reached(top, recursive) {
                let set = self.sets.get_mut(&reached)?;
                if set.position(name).is_some() {
                    return None;
                }
                self.made += 1;
                set.snaps.push(Snap {
                    id: self.made,
                    name: name.to_owned(),
                    files: Arc::clone(&set.files),
                    tags: BTreeSet::new(),
                    is_deferred: false,
                });
            }
        }
        Some(())
    }

    fn destroy_snapshots(&mut self, meant: &[u64], defer: bool) -> Option<()> {
        let kept = |id: &u64| self.find(*id).is_some_and(|(_, snap)| self.is_kept(snap));
        if meant.is_empty() || (!defer && meant.iter().any(kept)) {
            return None;
        }
        for set in self.sets.values_mut() {
            for snap in &mut set.snaps {
                snap.is_deferred |= meant.contains(&snap.id);
            }
        }
        self.drop_deferred();
        Some(())
    }

    /// Takes out snapshots that wait for it and are no longer kept.
    fn drop_deferred(&mut self) {
        let all = self.sets.values().flat_map(|set| &set.snaps);
        let gone = all.filter(|snap| snap.is_deferred && !self.is_kept(snap));
        let gone: BTreeSet<u64> = gone.map(|snap| snap.id).collect();
        for set in self.sets.values_mut() {
            set.snaps.retain(|snap| !gone.contains(&snap.id));
        }
    }

    fn clone_snapshot(&mut self, origin: &(String, String), name: &str) -> Option<()> {
        if !self.is_free(name) {
            return None;
        }
        let from = self.sets.get(&origin.0)?;
        let snap = &from.snaps[from.position(&origin.1)?];
        let set = Set {
            is_volume: from.is_volume,
            files: Arc::clone(&snap.files),
            origin: Some(snap.id),
            ..Set::default()
        };
        self.sets.insert(name.to_owned(), set);
        Some(())
    }

    fn promote(&mut self, name: &str) -> Option<()> {
        let origin = self.sets.get(name)?.origin?;
        let (from, _) = self.find(origin)?;
        let from = from.clone();
        let old = self.sets.get_mut(&from)?;
        let count = 1 + old.snaps.iter().position(|snap| snap.id == origin)?;
        let mut moved: Vec<Snap> = old.snaps.drain(..count).collect();
        let (marks, kept) = std::mem::take(&mut old.marks)
            .into_iter()
            .partition(|(_, id)| *id <= origin);
        old.marks = kept;
        let before = old.origin.replace(origin);
        let marks: BTreeMap<String, u64> = marks;
        let new = self.sets.get_mut(name)?;
        if moved.iter().any(|snap| new.position(&snap.name).is_some()) {
            return None;
        }
        moved.append(&mut new.snaps);
        new.snaps = moved;
        new.marks.extend(marks);
        new.origin = before;
        Some(())
    }

    fn roll_back(&mut self, of: &str, to: &str, with_newer: bool) -> Option<()> {
        let set = self.sets.get(of)?;
        let at = set.position(to)?;
        let target = set.snaps[at].clone();
        let newer = &set.snaps[at + 1..];
        let has_marks = set.marks.values().any(|id| *id > target.id);
        if !with_newer && (!newer.is_empty() || has_marks) {
            return None;
        }
        if newer.iter().any(|snap| self.is_kept(snap)) {
            return None;
        }
        let set = self.sets.get_mut(of)?;
        set.snaps.truncate(at + 1);
        set.marks.retain(|_, id| *id <= target.id);
        set.files = target.files;
        Some(())
    }

    fn destroy(&mut self, name: &str, reach: Reach) -> Option<()> {
        let mut doomed: BTreeSet<String> = self.below(name).into_iter().collect();
        if reach == Reach::Alone && (doomed.len() > 1 || !self.sets[name].snaps.is_empty()) {
            return None;
        }
        loop {
            let snaps = doomed.iter().flat_map(|name| &self.sets[name].snaps);
            let clones = snaps.flat_map(|snap| self.clones_of(snap.id));
            let more: Vec<String> = clones.filter(|clone| !doomed.contains(clone)).collect();
            if more.is_empty() {
                break;
            }
            if reach != Reach::Clones {
                return None;
            }
            doomed.extend(more.iter().flat_map(|clone| self.below(clone)));
        }
        let mut snaps = doomed.iter().flat_map(|name| &self.sets[name].snaps);
        if snaps.any(|snap| !snap.tags.is_empty()) {
            return None;
        }
        // What is below its own clone cannot go before it, nor after.
        while !doomed.is_empty() {
            let mut can_go = doomed.iter().filter(|name| {
                let snaps = self.sets[*name].snaps.iter();
                self.below(name).len() == 1
                    && snaps
                        .map(|snap| self.clones_of(snap.id))
                        .all(|all| all.is_empty())
            });
            let next = can_go.next()?.clone();
            doomed.remove(&next);
            self.sets.remove(&next);
        }
        self.drop_deferred();
        Some(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Option<()> {
        let moved = self.below(from);
        if !self.is_free(to) || moved.iter().any(|name| to == name) {
            return None;
        }
        let parent = to.rsplit_once('/').map_or(to, |(parent, _)| parent);
        if moved.iter().any(|name| parent == name) {
            return None;
        }
        for name in moved {
            let set = self.sets.remove(&name)?;
            let rest = &name[from.len()..];
            self.sets.insert(format!("{to}{rest}"), set);
        }
        Some(())
    }

    fn rename_snapshots(&mut self, of: &str, from: &str, to: &str, recursive: bool) -> Option<()> {
        self.sets.get(of)?.position(from)?;
        for name in self.reached(of, recursive) {
            let set = self.sets.get_mut(&name)?;
            let Some(at) = set.position(from) else {
                continue;
            };
            if set.position(to).is_some() {
                return None;
            }
            to.clone_into(&mut set.snaps[at].name);
        }
        Some(())
    }

    fn hold(&mut self, of: &(String, String), tag: &str, is_release: bool) -> Option<()> {
        let set = self.sets.get_mut(&of.0)?;
        let at = set.position(&of.1)?;
        let tags = &mut set.snaps[at].tags;
        let is_changed = match is_release {
            true => tags.remove(tag),
            false => tags.insert(tag.to_owned()),
        };
        self.drop_deferred();
        is_changed.then_some(())
    }

    fn bookmark(&mut self, of: &(String, String), name: &str) -> Option<()> {
        let set = self.sets.get_mut(&of.0)?;
        let at = set.position(&of.1)?;
        let id = set.snaps[at].id;
        let old = set.marks.insert(name.to_owned(), id);
        old.is_none().then_some(())
    }
}
