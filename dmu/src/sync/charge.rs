//! Charging objects to their owners (format/2b 6).

use super::{Outcome, Writer};
use crate::accounting::{Owner, OwnerHook};
use crate::error::DmuError;
use crate::new_object::NewObject;
use crate::object_set::SpecialObject;
use crate::txg::Transaction;
use crate::zap::{NewZap, Zap};
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

impl Writer<'_> {
    /// Takes what the objects' owners were charged and charges them anew.
    pub(super) fn charge_owners(
        &self,
        header: &Objset,
        outcomes: &mut [Outcome],
    ) -> Result<(), DmuError> {
        let Some(hook) = self.live.owner_hook.get() else {
            return Ok(());
        };
        if header.flags & FLAG_USER_ACCOUNTING_COMPLETE == 0 {
            return Ok(());
        }
        let counts_objects = header.flags & FLAG_USER_OBJECT_ACCOUNTING_COMPLETE != 0;
        let has_projects = header.flags & FLAG_PROJECT_QUOTA_COMPLETE != 0;
        let accounted = match counts_objects {
            true => FLAG_USERUSED_ACCOUNTED | FLAG_USEROBJUSED_ACCOUNTED,
            false => FLAG_USERUSED_ACCOUNTED,
        };
        let mut deltas = Deltas::default();
        for outcome in outcomes {
            if SpecialObject::from_id(outcome.live.id).is_some() {
                continue;
            }
            if let Some(old) = &outcome.old
                && old.flags & FLAG_USERUSED_ACCOUNTED != 0
                && let Some(owner) = self.owner(hook.as_ref(), outcome, old, has_projects)?
            {
                let counted = old.flags & FLAG_USEROBJUSED_ACCOUNTED != 0;
                let (bytes, objects) = (-charge_of(old), -i64::from(counted));
                add(&mut deltas, &owner, Delta { bytes, objects });
            }
            let Some(mut new) = outcome.new.take() else {
                continue;
            };
            new.flags |= accounted;
            if let Some(owner) = self.owner(hook.as_ref(), outcome, &new, has_projects)? {
                let (bytes, objects) = (charge_of(&new), i64::from(counts_objects));
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
