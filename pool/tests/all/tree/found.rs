//! Existing datasets: their contents are unknown, but must not change.

use super::steps::MARK;
use super::{Contents, Set, Snap, Tree};
use crate::model::Random;
use cenote_base::{BlockId, ObjectId};
use cenote_dmu::{ObjectSet, Transaction};
use cenote_dsl::{Dataset, Directory, Stored};
use cenote_ondisk::ObjectType;
use cenote_ondisk::objset::ObjsetKind;
use cenote_pool::Pool;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Room for what is made in one transaction group, in numbers that grow with the age.
const PER_GROUP: u64 = 1000;

/// A sum of all that is in a dataset; `None` if its key is not loaded.
pub fn sum(dataset: &Dataset) -> Option<u64> {
    let set = dataset.object_set().expect("opens");
    if dataset
        .directory()
        .crypto_key()
        .expect("readable")
        .is_some()
        && set.keys().is_none()
    {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    for found in set.objects(ObjectId(0)) {
        let (id, dnode) = found.expect("the dnodes are good");
        let object = set.object(id).expect("there");
        (id, &dnode.bonus, dnode.object_type.0).hash(&mut hasher);
        let mut at = BlockId(0);
        while let Some(block) = object.next_data_block(at).expect("the tree is good") {
            let contents = object.block(block).expect("readable");
            (block.0, contents.as_ref().map(|block| &block[..])).hash(&mut hasher);
            at = BlockId(block.0 + 1);
        }
    }
    Some(hasher.finish())
}

/// Changes some object that is not one that others make sense of.
pub fn change(set: &Arc<ObjectSet>, tx: &Transaction, random: &mut Random) {
    if set.header().kind == ObjsetKind::Zfs {
        return;
    }
    let objects = set.objects(ObjectId(0)).map(|found| found.expect("good"));
    let plain = |kind: ObjectType| !kind.is_metadata() && kind != ObjectType::ZVOL_PROP;
    let objects: Vec<_> = objects
        .filter(|(_, dnode)| plain(dnode.object_type) && dnode.data_block_size.is_power_of_two())
        .collect();
    if objects.is_empty() {
        return;
    }
    let (id, dnode) = &objects[random.below(objects.len() as u64) as usize];
    let object = set.object(*id).expect("there");
    let size = dnode.data_block_size;
    let offset = random.below(dnode.block_id_max.0 + 1) * size + random.below(size);
    match random.below(4) {
        0 => object.free_range(tx, offset, random.below(10 * size)),
        _ => {
            let byte = random.next() as u8;
            let length = random.below(size - offset % size) + 1;
            let data: Vec<u8> = (0..length)
                .map(|i| byte.wrapping_mul((i / 7) as u8))
                .collect();
            object.write(tx, offset, &data)
        }
    }
    .expect("changed");
}

/// Loads those keys of a pool's encryption roots that are known.
pub fn load_keys(pool: &Pool, keys: &[String]) {
    let root = pool.dsl().root().expect("readable");
    let mut stack = children(&root);
    while let Some(directory) = stack.pop() {
        stack.extend(children(&directory));
        let key = directory.crypto_key().expect("readable");
        if key.is_some_and(|key| key.root() == directory.id()) {
            let load = |key: &String| pool.dsl().load_key(&directory, key.as_bytes(), false);
            assert!(keys.iter().any(|key| load(key).is_ok()), "an unknown key");
        }
    }
}

impl Tree {
    /// Takes the datasets that are there into the model.
    pub(super) fn adopt(&mut self) {
        let root = self.pool().dsl().root().expect("readable");
        let mut snapshots = HashMap::new();
        let mut origins = Vec::new();
        let mut stack = children(&root);
        let mut last = 0;
        while let Some(directory) = stack.pop() {
            stack.extend(children(&directory));
            let head = directory.head().expect("readable").expect("a dataset");
            let name = head.name().as_str().to_owned();
            let set = adopted(&head, &mut snapshots);
            let newest = head.phys().previous_snapshot_txg.0;
            last = last.max(newest).max(head.phys().creation_txg.0);
            if let Some(origin) = directory.origin() {
                origins.push((name.clone(), origin));
            }
            self.sets.insert(name, set);
        }
        for (name, origin) in origins {
            let set = self.sets.get_mut(&name).expect("just found");
            set.origin = Some(snapshots[&origin]);
        }
        self.made = (last + 1) * PER_GROUP;
    }
}

fn children(directory: &Arc<Directory>) -> Vec<Arc<Directory>> {
    let entries = directory.listed_children().expect("readable");
    let open = |entry| directory.open_child(entry).expect("readable");
    entries.iter().map(open).collect()
}

fn mark_of(snapshot: &Dataset) -> Option<String> {
    let own = snapshot.own_properties().expect("readable");
    own.get(MARK).map(|mark| match mark {
        Stored::Text(text) => text.clone(),
        Stored::Number(number) => panic!("{number} was never set"),
    })
}

fn adopted(head: &Dataset, numbers: &mut HashMap<ObjectId, u64>) -> Set {
    let mut snapshots = Vec::new();
    let mut by_txg = BTreeMap::new();
    for entry in head.listed_snapshots().expect("readable") {
        let snapshot = head.open_snapshot(&entry).expect("readable");
        let id = entry.creation_txg.0 * PER_GROUP + 1 + numbers.len() as u64 % (PER_GROUP - 1);
        numbers.insert(entry.object, id);
        by_txg.insert(entry.creation_txg, id);
        let holds = snapshot.holds().expect("readable").into_iter();
        snapshots.push(Snap {
            id,
            name: String::from_utf8_lossy(&entry.name).into_owned(),
            contents: Contents::Sum(sum(&snapshot)),
            mark: mark_of(&snapshot),
            tags: holds.map(|hold| hold.tag).collect::<BTreeSet<_>>(),
            is_deferred: false,
        });
    }
    let bookmarks = head.bookmarks().expect("readable").into_iter();
    let bookmarks = bookmarks.map(|bookmark| {
        let name = bookmark.name.after_delimiter().unwrap_or_default();
        let txg = bookmark.phys.creation_txg;
        let of = by_txg.get(&txg).copied().unwrap_or(txg.0 * PER_GROUP);
        (name.to_owned(), of)
    });
    Set {
        world: None,
        snapshots,
        origin: None,
        bookmarks: bookmarks.collect(),
    }
}
