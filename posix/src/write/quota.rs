//! Limits of users, groups and projects (format/3b 10).
//!
//! What they use is known as of the last group that was synced, so they may overshoot by what is
//! dirty. Most file systems have no limit at all, and pay nothing.

use super::Writer;
use crate::attributes::Attributes;
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::fuid::Fuid;
use crate::master::{AccountKind, MASTER_NODE, QuotaObjects};
use cenote_base::ObjectId;
use cenote_dmu::zap::NewZap;
use cenote_dmu::{NewObject, Zap};
use cenote_ondisk::ObjectType;
use cenote_ondisk::zap::hex_key;

/// What belongs to no project belongs to this one, which has no limits.
const DEFAULT_PROJECT: u64 = 0;

/// Which limits are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limits {
    /// Of bytes: a file that is there gets more contents.
    Space,
    /// Of objects, too: somebody gets one more file.
    All,
}

fn owners(uid: u64, gid: u64, project: u64) -> [(AccountKind, u64); 3] {
    [
        (AccountKind::User, uid),
        (AccountKind::Group, gid),
        (AccountKind::Project, project),
    ]
}

impl QuotaObjects {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Writer {
    pub(super) fn quotas(&self) -> [QuotaObjects; 3] {
        *self.quotas.read()
    }
}

impl FileSystem {
    /// Where the limits of one kind are now.
    pub(crate) fn quota_objects(&self, kind: AccountKind) -> QuotaObjects {
        match self.writer() {
            Some(writer) => writer.quotas()[kind as usize],
            None => *self.master().quotas(kind),
        }
    }

    /// Refuses a new file of these owners if a limit of theirs is reached.
    pub(super) fn check_quotas(&self, uid: u64, gid: u64, project: u64) -> Result<(), PosixError> {
        self.check_each(&owners(uid, gid, project), Limits::All)
    }

    /// Refuses more contents of a file whose owners' limits are reached.
    pub(super) fn check_quotas_of(&self, attributes: &Attributes) -> Result<(), PosixError> {
        let owners = owners(attributes.uid.0, attributes.gid.0, attributes.project);
        self.check_each(&owners, Limits::Space)
    }

    /// Checks the limits of those owners only that a file does not have yet.
    pub(super) fn check_quotas_changed(
        &self,
        now: &Attributes,
        uid: u64,
        gid: u64,
        project: u64,
    ) -> Result<(), PosixError> {
        let mut changed = Vec::with_capacity(3);
        for (kind, old, new) in [
            (AccountKind::User, now.uid.0, uid),
            (AccountKind::Group, now.gid.0, gid),
            (AccountKind::Project, now.project, project),
        ] {
            if old != new {
                changed.push((kind, new));
            }
        }
        self.check_each(&changed, Limits::All)
    }

    fn check_each(&self, owners: &[(AccountKind, u64)], limits: Limits) -> Result<(), PosixError> {
        let quotas = self.require_writer()?.quotas();
        for (kind, id) in owners {
            let is_default = *kind == AccountKind::Project && *id == DEFAULT_PROJECT;
            if is_default || quotas[*kind as usize].is_none() {
                continue;
            }
            let account = self.account(*kind, Fuid(*id))?;
            let reached = |used: u64, limit: u64| limit != 0 && used >= limit;
            let is_full = reached(account.objects_used, account.objects_quota);
            if reached(account.used, account.quota) || (limits == Limits::All && is_full) {
                return Err(PosixError::QuotaExceeded);
            }
        }
        Ok(())
    }

    /// Sets how many bytes, or objects, somebody may have; 0 takes the limit away.
    pub fn set_quota(
        &self,
        kind: AccountKind,
        id: u64,
        limit: u64,
        of_objects: bool,
    ) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        let _held = writer.lock(&[MASTER_NODE]);
        let tx = writer.begin_freeing(0)?;
        self.log_nothing(&tx);
        let mut quotas = writer.quotas();
        let quota = &mut quotas[kind as usize];
        let place = match of_objects {
            false => &mut quota.space,
            true => &mut quota.objects,
        };
        let zap = match *place {
            Some(zap) => self.set().zap(zap)?,
            None if limit == 0 => return Ok(()),
            None => {
                let new = NewObject::new(ObjectType::QUOTA, 512);
                let object = self.set().allocate(&tx, new)?;
                let zap = Zap::initialize(&object, &tx, NewZap::default())?;
                let key = format!("{}@", limit_name(kind, of_objects));
                let id = object.id();
                self.set().zap(MASTER_NODE)?.update_u64(&tx, &key, id.0)?;
                *place = Some(ObjectId(id.0));
                zap
            }
        };
        match limit {
            0 => drop(zap.remove(&tx, &hex_key(id))?),
            _ => zap.update_u64(&tx, &hex_key(id), limit)?,
        }
        *writer.quotas.write() = quotas;
        Ok(())
    }
}

/// `userquota`, `groupobjquota` and so on, as the master node's keys begin (format/3b 2).
pub(super) fn limit_name(kind: AccountKind, of_objects: bool) -> String {
    let who = match kind {
        AccountKind::User => "user",
        AccountKind::Group => "group",
        AccountKind::Project => "project",
    };
    let what = if of_objects { "objquota" } else { "quota" };
    format!("{who}{what}")
}
