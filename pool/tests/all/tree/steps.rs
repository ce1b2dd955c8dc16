//! What is done with datasets, and to the model.

use super::{Contents, Set, Snap, Tree, found, named};
use cenote_dmu::TxCost;
use cenote_dsl::write::{
    CloneDataset, CreateBookmarks, CreateSnapshots, DestroyBookmarks, DestroyDataset,
    DestroySnapshots, HoldSnapshots, PromoteDataset, ReleaseSnapshots, RenameDataset,
    RenameSnapshots, RollbackDataset, SetProperties, Setting,
};
use cenote_dsl::{DatasetType, DslError, Stored};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SETS_MAX: usize = 20;
/// A property of snapshots that are made here.
pub(super) const MARK: &str = "cenote:mark";

impl Tree {
    pub(super) fn step(&mut self) -> &'static str {
        match self.random.below(34) {
            0..=11 => self.write(),
            12..=16 => self.snapshot(),
            17..=19 => self.destroy_snapshots(),
            20 | 21 => self.clone_snapshot(),
            22 | 23 => self.promote(),
            24 => self.destroy_dataset(),
            25 => self.roll_back(),
            26 => self.hold(),
            27 => self.release(),
            28 => self.bookmark(),
            29 => self.destroy_bookmark(),
            30 => self.rename_snapshots(),
            31 => self.rename(),
            _ => self.limit(),
        }
    }

    /// Some file system.
    fn pick_parent(&mut self) -> Option<String> {
        let name = self.pick();
        let kind = self.dataset(&name).dataset_type().expect("readable");
        (kind == DatasetType::Filesystem).then_some(name)
    }

    fn write(&mut self) -> &'static str {
        let name = self.pick();
        let dataset = self.dataset(&name);
        let gate = Arc::clone(self.pool().gate().expect("writable"));
        let head = match self.pool().dsl().open_for_writing(&dataset, &gate) {
            Err(DslError::KeyRequired { .. }) => return "locked",
            head => head.expect("opens"),
        };
        let steps = 1 + self.random.below(40);
        let set = self.sets.get_mut(&name).expect("in the model");
        for _ in 0..steps {
            let tx = gate.begin(TxCost::default()).expect("not suspended");
            match &mut set.world {
                Some(world) => world.step(head.set(), &tx),
                None => found::change(head.set(), &tx, &mut self.random),
            }
        }
        // What is open is in the next snapshot.
        if self.random.below(2) == 0 {
            self.pool().sync().expect("written");
        }
        "write"
    }

    fn snapshot(&mut self) -> &'static str {
        let id = self.number();
        let snap = format!("s{id}");
        let mut sets: Vec<String> = self.sets.keys().cloned().collect();
        let chosen = self.pick();
        if self.random.below(5) > 0 {
            sets.retain(|name| *name == chosen);
        }
        let names = sets.iter().map(|name| named(&format!("{name}@{snap}")));
        let properties = vec![Setting {
            name: MARK.to_owned(),
            value: Some(Stored::Text(snap.clone())),
        }];
        let task = CreateSnapshots {
            names: names.collect(),
            properties,
        };
        self.run(task).expect("made");
        for name in sets {
            let id = self.number();
            let made = self.dataset(&format!("{name}@{snap}"));
            let set = self.sets.get_mut(&name).expect("in the model");
            set.snapshots.push(Snap {
                id,
                name: snap.clone(),
                contents: Contents::of(set, &made),
                mark: Some(snap.clone()),
                tags: BTreeSet::new(),
                is_deferred: false,
            });
        }
        "snapshot"
    }

    fn destroy_snapshots(&mut self) -> &'static str {
        self.pool().sync().expect("written");
        let Some((name, first)) = self.pick_snapshot() else {
            return "nothing";
        };
        let count = 1 + self.random.below(3) as usize;
        let defer = self.random.below(3) == 0;
        let set = &self.sets[&name];
        let chosen: Vec<_> = set.snapshots.iter().skip(first).take(count).collect();
        let names = chosen
            .iter()
            .map(|snap| named(&format!("{name}@{}", snap.name)));
        let names: Vec<_> = names.collect();
        let task = DestroySnapshots {
            names: names.clone(),
            defer,
        };
        let held = chosen.iter().any(|snap| !snap.tags.is_empty());
        let cloned = chosen.iter().any(|snap| self.clones_of(snap.id) > 0);
        let ids: Vec<u64> = chosen.iter().map(|snap| snap.id).collect();
        let written = self.written_since(&name, &ids);
        let of = |snap: &Snap| self.dataset(&format!("{name}@{}", snap.name));
        let (oldest, newest) = (of(chosen[0]), of(chosen[chosen.len() - 1]));
        let expected = oldest.space_freed_with(&newest).expect("readable");
        let used = || {
            let dataset = self.dataset(&name);
            let parts = dataset.directory().breakdown().copied();
            parts.expect("of a new pool").snapshots
        };
        let before = used();
        let result = self.run(task);
        if !held && !cloned {
            assert_eq!(Some(before - used()), expected, "space of {names:?}");
        }
        if !defer && (held || cloned) {
            let refused = matches!(
                result,
                Err(DslError::Held { .. } | DslError::HasClones { .. })
            );
            assert!(refused, "{result:?}");
            return "refused";
        }
        result.expect("destroyed");
        let set = self.sets.get_mut(&name).expect("in the model");
        for snap in &mut set.snapshots {
            snap.is_deferred |= ids.contains(&snap.id);
        }
        self.drop_deferred();
        self.check_written(&name, &written);
        "destroy snapshot"
    }

    /// What was written since snapshots that have bookmarks, by bookmark.
    fn written_since(&self, name: &str, ids: &[u64]) -> Vec<(String, Option<u64>)> {
        let set = &self.sets[name];
        let head = self.dataset(name);
        let bookmarks = set.bookmarks.iter().filter(|(_, of)| ids.contains(of));
        let since = |(bookmark, of): (&String, &u64)| {
            let snap = set.snapshots.iter().find(|snap| snap.id == *of)?;
            let snapshot = head.snapshot(snap.name.as_bytes()).expect("readable");
            let since = head.written_since(&snapshot.expect("there"));
            Some((bookmark.clone(), since.expect("readable")))
        };
        bookmarks.filter_map(since).collect()
    }

    /// Bookmarks know what their snapshots knew.
    fn check_written(&self, name: &str, written: &[(String, Option<u64>)]) {
        let head = self.dataset(name);
        for (bookmark, expected) in written {
            let found = head.bookmark(bookmark.as_bytes()).expect("readable");
            let found = found.expect("there");
            let since = head.written_since_bookmark(&found).expect("readable");
            assert_eq!(since, *expected, "since {bookmark} of {name}");
        }
    }

    /// Takes snapshots out of the model that wait to be destroyed, and that nothing keeps.
    fn drop_deferred(&mut self) {
        let origins: BTreeSet<u64> = self.sets.values().filter_map(|set| set.origin).collect();
        for set in self.sets.values_mut() {
            set.snapshots.retain(|snap| {
                !snap.is_deferred || !snap.tags.is_empty() || origins.contains(&snap.id)
            });
        }
    }

    fn clone_snapshot(&mut self) -> &'static str {
        let Some((name, index)) = self.pick_snapshot() else {
            return "nothing";
        };
        if self.sets.len() >= SETS_MAX {
            return "nothing";
        }
        let Some(parent) = self.pick_parent() else {
            return "nothing";
        };
        let clone = format!("{parent}/k{}", self.number());
        let snap = &self.sets[&name].snapshots[index];
        let task = CloneDataset {
            origin: named(&format!("{name}@{}", snap.name)),
            name: named(&clone),
            properties: Vec::new(),
            created: None,
        };
        self.run(task).expect("cloned");
        let seed = self.random.next();
        let snap = &self.sets[&name].snapshots[index];
        snap.contents.compare(&self.dataset(&clone));
        let set = Set {
            world: snap.contents.world(seed),
            snapshots: Vec::new(),
            origin: Some(snap.id),
            bookmarks: BTreeMap::new(),
        };
        self.sets.insert(clone, set);
        "clone"
    }

    fn promote(&mut self) -> &'static str {
        let clones = self.sets.iter().filter(|(_, set)| set.origin.is_some());
        let clones: Vec<_> = clones.map(|(name, _)| name.clone()).collect();
        if clones.is_empty() {
            return "nothing";
        }
        let name = clones[self.random.below(clones.len() as u64) as usize].clone();
        let origin = self.sets[&name].origin.expect("a clone");
        let has_it = |set: &Set| set.snapshots.iter().position(|snap| snap.id == origin);
        let mut found = self.sets.iter().filter_map(|(at, set)| {
            let index = has_it(set)?;
            Some((at.clone(), index))
        });
        let (from, index) = found.next().expect("its origin is there");
        drop(found);
        let moving = &self.sets[&from].snapshots[..=index];
        let own: BTreeSet<_> = self.sets[&name].snapshots.iter().map(|s| &s.name).collect();
        let clashes = moving.iter().any(|snap| own.contains(&snap.name));
        let bookmarks = self.sets[&from].bookmarks.iter();
        let bookmarks: Vec<_> = bookmarks
            .filter(|(_, of)| **of <= origin)
            .map(|(name, of)| (name.clone(), *of))
            .collect();
        let own = &self.sets[&name].bookmarks;
        let clashes = clashes || bookmarks.iter().any(|(name, _)| own.contains_key(name));
        let result = self.run(PromoteDataset { name: named(&name) });
        if let Err(DslError::LeavesEncryptionRoot { .. }) = result {
            return "refused";
        }
        if clashes {
            let refused = matches!(
                result,
                Err(DslError::ConflictingSnapshots { .. } | DslError::BookmarkExists { .. })
            );
            assert!(refused, "{result:?}");
            return "refused";
        }
        result.expect("promoted");
        let set = self.sets.get_mut(&from).expect("in the model");
        let mut moved: Vec<_> = set.snapshots.drain(..=index).collect();
        let above = set.origin.replace(origin);
        set.bookmarks.retain(|_, of| *of > origin);
        let set = self.sets.get_mut(&name).expect("in the model");
        moved.append(&mut set.snapshots);
        set.snapshots = moved;
        set.origin = above;
        set.bookmarks.extend(bookmarks);
        "promote"
    }

    fn destroy_dataset(&mut self) -> &'static str {
        let name = self.pick();
        let below = format!("{name}/");
        let has_children = self.sets.keys().any(|other| other.starts_with(&below));
        if self.sets.len() < 4 || has_children {
            return "nothing";
        }
        self.close_head(&name);
        let has_snapshots = !self.sets[&name].snapshots.is_empty();
        let result = self.run(DestroyDataset { name: named(&name) });
        if has_snapshots {
            assert!(matches!(result, Err(DslError::HasSnapshots { .. })));
            return "refused";
        }
        result.expect("destroyed");
        self.sets.remove(&name);
        self.drop_deferred();
        "destroy dataset"
    }

    fn roll_back(&mut self) -> &'static str {
        let Some((name, _)) = self.pick_snapshot() else {
            return "nothing";
        };
        let set = &self.sets[&name];
        let last = set.snapshots.last().expect("there are some");
        let snapshot = named(&format!("{name}@{}", last.name));
        let newer = set.bookmarks.iter().filter(|(_, of)| **of > last.id);
        let newer: Vec<_> = newer.map(|(name, _)| name.clone()).collect();
        let task = || RollbackDataset {
            snapshot: snapshot.clone(),
        };
        self.close_head(&name);
        if !newer.is_empty() {
            let result = self.run(task());
            assert!(matches!(result, Err(DslError::MoreRecent { .. })));
            let names = newer.iter().map(|mark| named(&format!("{name}#{mark}")));
            let names = names.collect();
            self.run(DestroyBookmarks { names }).expect("destroyed");
        }
        self.run(task()).expect("rolled back");
        let set = self.sets.get_mut(&name).expect("in the model");
        set.bookmarks
            .retain(|bookmark, _| !newer.contains(bookmark));
        let last = set.snapshots.last().expect("there are some");
        if let (Some(world), Contents::Model(model)) = (&mut set.world, &last.contents) {
            world.model.clone_from(model);
        }
        let contents = last.contents.clone();
        contents.compare(&self.dataset(&name));
        "roll back"
    }

    fn hold(&mut self) -> &'static str {
        let Some((name, index)) = self.pick_snapshot() else {
            return "nothing";
        };
        let tag = format!("tag{}", self.random.below(2));
        let snap = &self.sets[&name].snapshots[index];
        let holds = vec![(named(&format!("{name}@{}", snap.name)), tag.clone())];
        let result = self.run(HoldSnapshots { holds });
        let set = self.sets.get_mut(&name).expect("in the model");
        match set.snapshots[index].tags.insert(tag) {
            true => {
                result.expect("held");
                "hold"
            }
            false => {
                assert!(matches!(result, Err(DslError::TagExists { .. })));
                "refused"
            }
        }
    }

    fn release(&mut self) -> &'static str {
        let mut holds = Vec::new();
        for (name, set) in &mut self.sets {
            for snap in &mut set.snapshots {
                if let Some(tag) = snap.tags.pop_first() {
                    holds.push((named(&format!("{name}@{}", snap.name)), tag));
                }
            }
        }
        if let Some((name, _)) = holds.first() {
            let holds = vec![(name.clone(), "no such".to_owned())];
            let result = self.run(ReleaseSnapshots { holds });
            assert!(matches!(result, Err(DslError::NoSuchTag { .. })));
        }
        self.run(ReleaseSnapshots { holds }).expect("released");
        self.drop_deferred();
        "release"
    }

    fn bookmark(&mut self) -> &'static str {
        let Some((name, index)) = self.pick_snapshot() else {
            return "nothing";
        };
        let new = format!("b{}", self.number());
        let set = &self.sets[&name];
        let snap = &set.snapshots[index];
        let (mut source, mut of) = (format!("{name}@{}", snap.name), snap.id);
        if self.random.below(3) == 0
            && let Some((bookmark, id)) = self.sets[&name].bookmarks.first_key_value()
        {
            (source, of) = (format!("{name}#{bookmark}"), *id);
        }
        let bookmarks = vec![(named(&source), named(&format!("{name}#{new}")))];
        match self.run(CreateBookmarks { bookmarks }) {
            Err(DslError::FeatureDisabled { .. }) => return "refused",
            made => made.expect("made"),
        };
        let set = self.sets.get_mut(&name).expect("in the model");
        set.bookmarks.insert(new, of);
        "bookmark"
    }

    fn destroy_bookmark(&mut self) -> &'static str {
        let name = self.pick();
        let set = self.sets.get_mut(&name).expect("in the model");
        let Some((bookmark, _)) = set.bookmarks.pop_first() else {
            return "nothing";
        };
        let names = vec![named(&format!("{name}#{bookmark}"))];
        self.run(DestroyBookmarks { names }).expect("destroyed");
        "destroy bookmark"
    }

    fn rename_snapshots(&mut self) -> &'static str {
        let Some((name, index)) = self.pick_snapshot() else {
            return "nothing";
        };
        let from = self.sets[&name].snapshots[index].name.clone();
        let to = format!("r{}", self.number());
        let datasets = self.sets.keys().map(|name| named(name)).collect();
        let task = RenameSnapshots {
            datasets,
            from: from.clone(),
            to: to.clone(),
        };
        self.run(task).expect("renamed");
        let snapshots = self.sets.values_mut().flat_map(|set| &mut set.snapshots);
        for snap in snapshots.filter(|snap| snap.name == from) {
            snap.name.clone_from(&to);
        }
        "rename snapshots"
    }

    /// Limits the number of snapshots, so that there is room for one more or none.
    fn limit(&mut self) -> &'static str {
        let name = self.pick();
        let set = |limit: u64| SetProperties {
            name: named(&name),
            settings: vec![Setting {
                name: "snapshot_limit".to_owned(),
                value: Some(Stored::Number(limit)),
            }],
        };
        let below = format!("{name}/");
        let inside = |other: &str| other == name || other.starts_with(&below);
        let sets = self.sets.iter().filter(|(other, _)| inside(other));
        let count: usize = sets.map(|(_, set)| set.snapshots.len()).sum();
        let room = self.random.below(2);
        match self.run(set(count as u64 + room)) {
            Err(DslError::FeatureDisabled { .. }) => return "refused",
            limited => limited.expect("set"),
        };
        let snap = named(&format!("{name}@limited"));
        let task = CreateSnapshots {
            names: vec![snap.clone()],
            properties: Vec::new(),
        };
        let result = self.run(task);
        if room == 0 {
            assert!(matches!(result, Err(DslError::LimitReached { .. })));
        } else {
            result.expect("there is room for one");
            let (names, defer) = (vec![snap], false);
            let task = DestroySnapshots { names, defer };
            self.run(task).expect("destroyed");
        }
        self.run(set(u64::MAX)).expect("set");
        "limit"
    }

    fn rename(&mut self) -> &'static str {
        let (from, Some(parent)) = (self.pick(), self.pick_parent()) else {
            return "nothing";
        };
        let to = format!("{parent}/m{}", self.number());
        let below = format!("{from}/");
        let is_inside = parent == from || parent.starts_with(&below);
        let task = RenameDataset {
            from: named(&from),
            to: named(&to),
        };
        let result = self.run(task);
        if is_inside {
            assert!(matches!(result, Err(DslError::IntoItself { .. })));
            return "refused";
        }
        if let Err(DslError::LeavesEncryptionRoot { .. }) = result {
            return "refused";
        }
        result.expect("renamed");
        let names: Vec<_> = self.sets.keys().cloned().collect();
        for name in names {
            let rest = match name == from {
                true => Some(""),
                false => name
                    .strip_prefix(&from)
                    .filter(|_| name.starts_with(&below)),
            };
            if let Some(rest) = rest {
                let set = self.sets.remove(&name).expect("in the model");
                self.sets.insert(format!("{to}{rest}"), set);
            }
        }
        "rename"
    }
}
