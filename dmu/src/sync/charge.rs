//! Charging objects to their owners (format/2b 6).

use super::{Outcome, Writer};
use crate::accounting::{Owner, OwnerHook};
use crate::error::DmuError;
use crate::live::recount::Recount;
use crate::new_object::NewObject;
use crate::object_set::SpecialObject;
use crate::txg::Transaction;
use crate::zap::{NewZap, Zap, ZapKey};
use cenote_ondisk::dnode::{FLAG_USEROBJUSED_ACCOUNTED, FLAG_USERUSED_ACCOUNTED};
use cenote_ondisk::objset::{
    FLAG_PROJECT_QUOTA_COMPLETE, FLAG_USER_ACCOUNTING_COMPLETE,
    FLAG_USER_OBJECT_ACCOUNTING_COMPLETE,
};
use cenote_ondisk::{Dnode, ObjectType, Objset};
use std::collections::BTreeMap;

/// What each object is charged beside its blocks.
const OBJECT_BYTES: i64 = 512;

/// A change of an account: bytes, objects.
#[derive(Clone, Copy, Debug, Default)]
struct Delta {
    bytes: i64,
    objects: i64,
}

type Deltas = [BTreeMap<u64, Delta>; 3];

fn add(deltas: &mut Deltas, owner: &Owner, by: Delta) {
    let ids = [Some(owner.user), Some(owner.group), owner.project];
    for (accounts, id) in deltas.iter_mut().zip(ids) {
        if let Some(id) = id {
            let account = accounts.entry(id).or_default();
            // As the counters themselves, for dnodes that say absurd things of themselves.
            account.bytes = account.bytes.wrapping_add(by.bytes);
            account.objects = account.objects.wrapping_add(by.objects);
        }
    }
}

fn charge_of(dnode: &Dnode) -> i64 {
    let used = i64::try_from(dnode.used_bytes()).unwrap_or(i64::MAX);
    used.saturating_add(OBJECT_BYTES)
}

const ACCOUNTED: u8 = FLAG_USERUSED_ACCOUNTED | FLAG_USEROBJUSED_ACCOUNTED;

/// Which accounts have an object.
#[derive(Clone, Copy, Debug)]
struct Counted {
    bytes: bool,
    objects: bool,
    projects: bool,
}

impl Counted {
    fn dnode_flags(self) -> u8 {
        let bytes = if self.bytes {
            FLAG_USERUSED_ACCOUNTED
        } else {
            0
        };
        let objects = if self.objects {
            FLAG_USEROBJUSED_ACCOUNTED
        } else {
            0
        };
        bytes | objects
    }
}

/// Which accounts had an object before the group, and which have it after.
struct CountedAround {
    before: Counted,
    now: Counted,
}

/// Which accounts there are, and how far a count of new ones has come.
struct Counting {
    complete: u64,
    targets: u64,
    is_to_empty: bool,
    before: u64,
    now: u64,
}

impl Counting {
    fn new(writer: &Writer<'_>, header: &Objset) -> Self {
        let mut recount = writer.live.recount.lock();
        let is_done = |under_way: &Recount| header.flags & under_way.targets == under_way.targets;
        if recount.as_ref().is_some_and(is_done) {
            *recount = None;
        }
        let mut counting = Self {
            complete: header.flags,
            targets: 0,
            is_to_empty: false,
            before: 0,
            now: 0,
        };
        if let Some(recount) = &mut *recount {
            counting.targets = recount.targets;
            counting.is_to_empty = !std::mem::replace(&mut recount.is_emptied, true);
            (counting.before, counting.now) = recount.reached_with(writer.txg);
        }
        counting
    }

    fn has(&self, flag: u64) -> bool {
        (self.complete | self.targets) & flag != 0
    }

    fn of(&self, id: u64) -> CountedAround {
        let around = |reached: u64| {
            let has = |flag| match self.targets & flag != 0 {
                true => id <= reached,
                false => self.complete & flag != 0,
            };
            Counted {
                bytes: has(FLAG_USER_ACCOUNTING_COMPLETE),
                objects: has(FLAG_USER_OBJECT_ACCOUNTING_COMPLETE),
                projects: has(FLAG_PROJECT_QUOTA_COMPLETE),
            }
        };
        CountedAround {
            before: around(self.before),
            now: around(self.now),
        }
    }
}

impl Writer<'_> {
    /// Empties the accounts that are counted again: they may be old.
    fn empty_accounts(&self, targets: u64) -> Result<(), DmuError> {
        let tx = Transaction::syncing(self.txg);
        for special in SpecialObject::ALL {
            let Some(object) = self.set.special_object(special) else {
                continue;
            };
            let of_projects = special == SpecialObject::ProjectUsed;
            let all = FLAG_USER_ACCOUNTING_COMPLETE
                | if of_projects {
                    FLAG_PROJECT_QUOTA_COMPLETE
                } else {
                    0
                };
            if targets & all != 0 {
                object.free_range(&tx, 0, u64::MAX)?;
                Zap::initialize(&object, &tx, NewZap::default())?;
                continue;
            }
            if targets & FLAG_USER_OBJECT_ACCOUNTING_COMPLETE == 0 {
                continue;
            }
            let zap = Zap::open(object)?;
            let names = zap.entries().filter_map(|entry| match entry {
                Ok(entry) => match entry.key {
                    ZapKey::Name(name) if name.starts_with(b"obj-") => Some(Ok(name)),
                    _ => None,
                },
                Err(error) => Some(Err(error)),
            });
            for name in names.collect::<Result<Vec<_>, _>>()? {
                zap.remove(&tx, &name)?;
            }
        }
        Ok(())
    }

    /// Removes the old charges of the objects' owners and adds the new ones.
    pub(super) fn charge_owners(
        &self,
        header: &Objset,
        outcomes: &mut [Outcome],
    ) -> Result<(), DmuError> {
        let Some(hook) = self.live.owner_hook.get() else {
            return Ok(());
        };
        let counting = Counting::new(self, header);
        if !counting.has(FLAG_USER_ACCOUNTING_COMPLETE) {
            return Ok(());
        }
        if counting.is_to_empty {
            self.empty_accounts(counting.targets)?;
        }
        let mut deltas = Deltas::default();
        for outcome in outcomes {
            if SpecialObject::from_id(outcome.live.id).is_some() {
                continue;
            }
            let counted = counting.of(outcome.live.id.0);
            if let (Some(old), true) = (&outcome.old, counted.before.bytes)
                && old.flags & FLAG_USERUSED_ACCOUNTED != 0
                && let Some(owner) =
                    self.owner(hook.as_ref(), outcome, old, counted.before.projects)?
            {
                let has_object = old.flags & FLAG_USEROBJUSED_ACCOUNTED != 0;
                let objects = -i64::from(has_object && counted.before.objects);
                let bytes = -charge_of(old);
                add(&mut deltas, &owner, Delta { bytes, objects });
            }
            let Some(mut new) = outcome.new.take() else {
                continue;
            };
            new.flags = new.flags & !ACCOUNTED | counted.now.dnode_flags();
            if counted.now.bytes
                && let Some(owner) =
                    self.owner(hook.as_ref(), outcome, &new, counted.now.projects)?
            {
                let objects = i64::from(counted.now.objects);
                let bytes = charge_of(&new);
                add(&mut deltas, &owner, Delta { bytes, objects });
            }
            outcome.new = Some(new);
        }
        for (special, accounts) in SpecialObject::ALL.into_iter().zip(&deltas) {
            self.apply(special, accounts)?;
        }
        Ok(())
    }

    /// The owner by a dnode that is on disk or was just written.
    fn owner(
        &self,
        hook: &dyn OwnerHook,
        outcome: &Outcome,
        dnode: &Dnode,
        has_projects: bool,
    ) -> Result<Option<Owner>, DmuError> {
        let spill = match &dnode.spill {
            // Attributes are looked for there only when the bonus buffer has none.
            Some(_) if dnode.bonus.is_empty() => {
                let set = std::sync::Arc::clone(self.set);
                crate::object::Object::new(set, outcome.live.id, dnode.clone()).spill()?
            }
            _ => None,
        };
        let spill = spill.as_ref().map(|spill| &spill[..]);
        let owner = hook.owner(dnode.bonus_type, &dnode.bonus, spill);
        Ok(owner.map(|owner| Owner {
            project: owner.project.filter(|_| has_projects),
            ..owner
        }))
    }

    fn apply(
        &self,
        special: SpecialObject,
        accounts: &BTreeMap<u64, Delta>,
    ) -> Result<(), DmuError> {
        let changed = |delta: &Delta| delta.bytes != 0 || delta.objects != 0;
        if !accounts.values().any(changed) {
            return Ok(());
        }
        let tx = Transaction::syncing(self.txg);
        let zap = match self.set.special_object(special) {
            Some(object) => Zap::open(object)?,
            None => {
                let new = NewObject::new(ObjectType::USED, 512);
                let object = self.set.allocate_at(&tx, special.id(), new)?;
                Zap::initialize(&object, &tx, NewZap::default())?
            }
        };
        for (id, delta) in accounts {
            if delta.bytes != 0 {
                zap.increment(&tx, &format!("{id:x}"), delta.bytes)?;
            }
            if delta.objects != 0 {
                zap.increment(&tx, &format!("obj-{id:x}"), delta.objects)?;
            }
        }
        Ok(())
    }
}
