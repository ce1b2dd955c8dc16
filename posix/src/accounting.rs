//! Space and objects by user, group and project, and their limits (format/3b 10).

use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::fuid::{Fuid, Owner};
use crate::master::AccountKind;
use cenote_base::ObjectId;
use cenote_dmu::{DmuError, SpecialObject, Zap};
use cenote_ondisk::objset::{FLAG_PROJECT_QUOTA_COMPLETE, FLAG_USER_OBJECT_ACCOUNTING_COMPLETE};
use std::collections::BTreeMap;

/// Keys of object counts begin with this; the others are of bytes.
const OBJECTS_PREFIX: &[u8] = b"obj-";
/// The most accounts that are listed at once; each takes about 100 bytes.
const ACCOUNTS_MAX: usize = 1 << 20;

/// What one user, group or project has and may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Whose.
    pub owner: Owner,
    /// The owner as stored.
    pub fuid: Fuid,
    /// Bytes used.
    pub used: u64,
    /// Bytes allowed; 0 for no limit.
    pub quota: u64,
    /// Objects owned.
    pub objects_used: u64,
    /// Objects allowed; 0 for no limit.
    pub objects_quota: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    used: u64,
    quota: Option<u64>,
    objects_used: u64,
    objects_quota: Option<u64>,
}

/// Keys are ids in lower-case hex.
fn parse_key(key: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(key)
        .ok()
        .filter(|text| !text.starts_with('+'))?;
    u64::from_str_radix(text, 16).ok()
}

/// The object that says what those of one kind use.
fn special_of(kind: AccountKind) -> SpecialObject {
    match kind {
        AccountKind::User => SpecialObject::UserUsed,
        AccountKind::Group => SpecialObject::GroupUsed,
        AccountKind::Project => SpecialObject::ProjectUsed,
    }
}

type Rows = BTreeMap<u64, Figures>;

/// Calls `add` with each id and number of a ZAP.
fn each_row(zap: &Zap, mut add: impl FnMut(&[u8], u64)) -> Result<(), DmuError> {
    for entry in zap.entries() {
        let entry = entry?;
        if let (Some(name), Some(value)) = (entry.key.as_name(), entry.value.as_u64()) {
            add(name, value);
        }
    }
    Ok(())
}

/// The row of an id; `None` when there are too many.
fn row(rows: &mut Rows, id: Option<u64>) -> Option<&mut Figures> {
    let id = id?;
    if rows.len() >= ACCOUNTS_MAX && !rows.contains_key(&id) {
        return None;
    }
    Some(rows.entry(id).or_default())
}

impl FileSystem {
    /// The accounts of one kind that use something or have a limit, by id.
    ///
    /// Numbers are those of the last transaction group that was synced. The default limit is shown
    /// for every id that uses space or objects and has no limit of its own.
    pub fn accounts(&self, kind: AccountKind) -> Result<Vec<Account>, PosixError> {
        let mut rows = Rows::new();
        if let Some(object) = self.set().special_object(special_of(kind)) {
            each_row(&Zap::open(object)?, |name, value| {
                let (id, counts_objects) = match name.strip_prefix(OBJECTS_PREFIX) {
                    Some(id) => (id, true),
                    None => (name, false),
                };
                match (row(&mut rows, parse_key(id)), counts_objects) {
                    (Some(row), true) => row.objects_used = value,
                    (Some(row), false) => row.used = value,
                    (None, _) => {}
                }
            })?;
        }
        let quotas = self.quota_objects(kind);
        self.add_limits(quotas.space, &mut rows, |row, limit| {
            row.quota = Some(limit)
        })?;
        self.add_limits(quotas.objects, &mut rows, |row, limit| {
            row.objects_quota = Some(limit)
        })?;
        let account = |(id, figures): (u64, Figures)| Account {
            owner: self.account_owner(kind, id),
            fuid: Fuid(id),
            used: figures.used,
            quota: figures.quota.unwrap_or(quotas.space_default),
            objects_used: figures.objects_used,
            objects_quota: figures.objects_quota.unwrap_or(quotas.objects_default),
        };
        Ok(rows.into_iter().map(account).collect())
    }

    /// Whether all objects are counted in the accounts of one kind: the dataset has the feature,
    /// and a count that began with an upgrade is done.
    pub fn counts_objects(&self, kind: AccountKind) -> bool {
        let complete = match kind {
            AccountKind::User | AccountKind::Group => FLAG_USER_OBJECT_ACCOUNTING_COMPLETE,
            AccountKind::Project => FLAG_PROJECT_QUOTA_COMPLETE,
        };
        self.set().header().flags & complete != 0
    }

    /// The account of one user, group or project; all zero if it has and may have nothing.
    pub fn account(&self, kind: AccountKind, fuid: Fuid) -> Result<Account, PosixError> {
        let quotas = self.quota_objects(kind);
        let key = format!("{:x}", fuid.0);
        let limit = |zap: Option<ObjectId>, default: u64| -> Result<u64, PosixError> {
            let Some(zap) = zap else { return Ok(default) };
            Ok(self.set().zap(zap)?.lookup_u64(&key)?.unwrap_or(default))
        };
        let used = self
            .set()
            .special_object(special_of(kind))
            .map(Zap::open)
            .transpose()?;
        let used = |key: &str| match &used {
            Some(used) => Ok::<_, PosixError>(used.lookup_u64(key)?.unwrap_or(0)),
            None => Ok(0),
        };
        Ok(Account {
            owner: self.account_owner(kind, fuid.0),
            fuid,
            used: used(&key)?,
            quota: limit(quotas.space, quotas.space_default)?,
            objects_used: used(&format!("obj-{key}"))?,
            objects_quota: limit(quotas.objects, quotas.objects_default)?,
        })
    }

    fn add_limits(
        &self,
        zap: Option<ObjectId>,
        rows: &mut Rows,
        set: impl Fn(&mut Figures, u64),
    ) -> Result<(), PosixError> {
        let Some(zap) = zap else { return Ok(()) };
        each_row(&self.set().zap(zap)?, |name, limit| {
            if let Some(row) = row(rows, parse_key(name)) {
                set(row, limit);
            }
        })?;
        Ok(())
    }

    fn account_owner(&self, kind: AccountKind, id: u64) -> Owner {
        match kind {
            AccountKind::Project => Owner::Id(id),
            AccountKind::User | AccountKind::Group => self.domains().owner(Fuid(id)),
        }
    }

    /// Objects that have lost their last name and wait for being freed, in no particular order.
    pub fn delete_queue(&self) -> Result<Vec<ObjectId>, PosixError> {
        let Some(queue) = self.master().delete_queue else {
            return Ok(Vec::new());
        };
        let mut objects = Vec::new();
        each_row(&self.set().zap(queue)?, |_, object| {
            objects.push(ObjectId(object))
        })?;
        Ok(objects)
    }

    /// Whether `object` is in the delete queue.
    pub fn is_in_delete_queue(&self, object: ObjectId) -> Result<bool, PosixError> {
        let Some(queue) = self.master().delete_queue else {
            return Ok(false);
        };
        let queue = self.set().zap(queue)?;
        Ok(queue
            .lookup(format!("{:x}", object.0).as_bytes())?
            .is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_hex_numbers() {
        assert_eq!(parse_key(b"3e8"), Some(1000));
        assert_eq!(parse_key(b"ffffffffffffffff"), Some(u64::MAX));
        assert_eq!(parse_key(b"+1"), None);
        assert_eq!(parse_key(b"\xff"), None);
    }

    #[test]
    fn rows_are_bounded() {
        let mut rows = Rows::new();
        for id in 0..=ACCOUNTS_MAX as u64 {
            let fits = row(&mut rows, Some(id)).is_some();
            assert_eq!(fits, id < ACCOUNTS_MAX as u64);
        }
        assert!(
            row(&mut rows, Some(5)).is_some(),
            "a known id still has its row"
        );
    }
}
