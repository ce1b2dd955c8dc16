//! Objects are charged to their owners whatever happens to them.

use crate::common::{Random, TestPool, gate, sync};
use cenote_base::{ObjectId, ObjsetId};
use cenote_dmu::{NewObject, ObjectSet, Owner, OwnerHook, SpecialObject, TxCost, Zap};
use cenote_ondisk::ObjectType;
use cenote_ondisk::objset::ObjsetKind;
use std::collections::BTreeMap;
use std::sync::Arc;

const ATTRIBUTES: ObjectType = ObjectType::SYSTEM_ATTRIBUTES;

/// Finds the ids in the first bytes of the bonus buffer.
#[derive(Debug)]
struct FirstBytes;

impl OwnerHook for FirstBytes {
    fn owner(&self, kind: ObjectType, bonus: &[u8], spill: Option<&[u8]>) -> Option<Owner> {
        let from = spill.filter(|_| bonus.is_empty()).unwrap_or(bonus);
        (kind == ATTRIBUTES && from.len() >= 3).then(|| Owner {
            user: u64::from(from[0]),
            group: u64::from(from[1]),
            project: Some(u64::from(from[2])),
        })
    }
}

fn bonus(random: &mut Random) -> Vec<u8> {
    let mut bonus = vec![0; 24];
    let ids = [random.below(3) as u8, random.below(2) as u8, 7];
    bonus[..3].copy_from_slice(&ids);
    bonus
}

/// The accounts as the objects themselves tell, by the name of the entry.
fn expected(set: &Arc<ObjectSet>) -> [BTreeMap<String, u64>; 3] {
    let mut accounts: [BTreeMap<String, u64>; 3] = Default::default();
    for found in set.objects(ObjectId(0)) {
        let (id, dnode) = found.expect("the dnodes are good");
        assert_eq!(dnode.flags & 10, 10, "object {id} is accounted");
        let Some(owner) = FirstBytes.owner(dnode.bonus_type, &dnode.bonus, None) else {
            continue;
        };
        let ids = [owner.user, owner.group, owner.project.unwrap_or(0)];
        for (accounts, id) in accounts.iter_mut().zip(ids) {
            *accounts.entry(format!("{id:x}")).or_default() += 512 + dnode.used_bytes();
            *accounts.entry(format!("obj-{id:x}")).or_default() += 1;
        }
    }
    accounts
}

fn found(set: &Arc<ObjectSet>) -> [BTreeMap<String, u64>; 3] {
    SpecialObject::ALL.map(|special| {
        let mut accounts = BTreeMap::new();
        let Some(object) = set.special_object(special) else {
            return accounts;
        };
        for entry in Zap::open(object).expect("a ZAP").entries() {
            let entry = entry.expect("it is read");
            let name = String::from_utf8(entry.key.as_name().expect("a name").to_vec());
            let value = entry.value.as_u64().expect("a number");
            accounts.insert(name.expect("hex"), value);
        }
        accounts
    })
}

#[test]
fn accounts_are_the_sums_over_all_objects() {
    let (pool, gate) = (TestPool::new(64), gate());
    let set = pool.create(&gate, ObjsetKind::Zfs, 7);
    set.set_owner_hook(Arc::new(FirstBytes));
    let mut random = Random::new(5);
    let mut ids: Vec<ObjectId> = Vec::new();
    for group in 0..25 {
        for _ in 0..20 {
            let tx = gate.begin(TxCost::default()).expect("not suspended");
            let pick = random.below(ids.len().max(1) as u64) as usize;
            match (random.below(10), ids.get(pick).copied()) {
                (0..=2, _) | (_, None) => {
                    let bonus = bonus(&mut random);
                    let new = NewObject::new(ObjectType::PLAIN_FILE, 4096);
                    let new = match random.below(8) {
                        0 => new,
                        _ => new.with_bonus(ATTRIBUTES, bonus),
                    };
                    ids.push(set.allocate(&tx, new).expect("there is room").id());
                }
                (3, Some(id)) => {
                    set.free(&tx, id).expect("it exists");
                    ids.swap_remove(pick);
                }
                (4 | 5, Some(id)) => {
                    let object = set.object(id).expect("it exists");
                    let bonus = bonus(&mut random);
                    object.set_bonus(&tx, ATTRIBUTES, bonus).expect("it fits");
                }
                (_, Some(id)) => {
                    let object = set.object(id).expect("it exists");
                    let offset = random.below(1 << 20);
                    let data = vec![9; 1 + random.below(20_000) as usize];
                    object.write(&tx, offset, &data).expect("it is written");
                }
            }
        }
        let root = sync(&pool, &gate, &set);
        let on_disk = pool.reopen(root, ObjsetId(7));
        assert_eq!(found(&on_disk), expected(&on_disk), "group {group}");
        assert_eq!(
            found(&set),
            expected(&on_disk),
            "the open set says the same"
        );
        assert_eq!(gate.dirty_bytes(), 0);
    }
    let tx = gate.begin(TxCost::default()).expect("not suspended");
    ids.iter()
        .for_each(|id| set.free(&tx, *id).expect("it exists"));
    drop(tx);
    let root = sync(&pool, &gate, &set);
    let accounts = found(&pool.reopen(root, ObjsetId(7)));
    assert!(
        accounts.iter().all(BTreeMap::is_empty),
        "nothing is left: {accounts:?}"
    );
}
