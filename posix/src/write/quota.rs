//! Limits of users, groups and projects (format/3b 10).
//!
//! What they use on disk counts, and what is in flight for them ([`super::owners`]). An owner whose
//! limit is reached only with what is in flight waits for the next group: it may take less, and
//! something may be given back. One transaction more than the limit is admitted, as its own size
//! does not count. Most file systems have no limit at all, and pay nothing.

use super::change::Change;
use super::owners::{Charge, InFlight};
use super::{NAMES_COST, Writer};
use crate::attributes::Attributes;
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::fuid::Fuid;
use crate::master::{AccountKind, MASTER_NODE, QuotaObjects};
use crate::znode::Znode;
use cenote_base::{ObjectId, SECTOR_SIZE, Txg};
use cenote_dmu::zap::NewZap;
use cenote_dmu::{NewObject, Transaction, Zap};
use cenote_ondisk::ObjectType;
use cenote_ondisk::zap::hex_key;

/// What belongs to no project belongs to this one, which has no limits.
const DEFAULT_PROJECT: u64 = 0;

/// Whether owners may have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    /// They may.
    Fits,
    /// They may after the next group, perhaps.
    Waits,
    /// They may not.
    Refused,
}

/// Something that belongs to a group, or to none.
trait InGroup {
    fn txg(&self) -> Option<Txg>;
}

impl InGroup for Transaction {
    fn txg(&self) -> Option<Txg> {
        Some(self.txg())
    }
}

impl InGroup for Option<Transaction> {
    fn txg(&self) -> Option<Txg> {
        self.as_ref().map(Transaction::txg)
    }
}

impl InGroup for () {
    fn txg(&self) -> Option<Txg> {
        None
    }
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

    /// Begins a transaction that makes a file of these owners larger by about as much as `bytes`
    /// says of its group; `dirty` bytes stay in memory until they are on disk.
    pub(super) fn begin_growing(
        &self,
        attributes: &Attributes,
        bytes: impl Fn(Txg) -> u64,
        dirty: u64,
    ) -> Result<Change<'_>, PosixError> {
        let owners = owners(attributes.uid.0, attributes.gid.0, attributes.project);
        let dataset = &self.require_writer()?.dataset;
        let charge = |txg| Charge {
            bytes: bytes(txg),
            objects: 0,
        };
        let begin = || Ok(dataset.begin_for(&bytes, dirty)?);
        let tx = self.begin_charging(&owners, charge, begin)?;
        self.change_in(tx)
    }

    /// Begins a transaction that makes a file of these owners.
    pub(super) fn begin_making(
        &self,
        (uid, gid, project): (u64, u64, u64),
    ) -> Result<Change<'_>, PosixError> {
        let writer = self.require_writer()?;
        let (bytes, objects) = (SECTOR_SIZE, 1);
        let owners = owners(uid, gid, project);
        let charge = Charge { bytes, objects };
        let tx = self.begin_charging(
            &owners,
            |_| charge,
            || Ok(writer.dataset.begin(bytes, NAMES_COST + bytes)?),
        )?;
        self.change_in(tx)
    }

    /// Begins a transaction that changes a file's owners. All of the file is charged to the new
    /// ones.
    pub(super) fn begin_giving(
        &self,
        file: &Znode,
        (uid, gid, project): (u64, u64, u64),
    ) -> Result<Change<'_>, PosixError> {
        let writer = self.require_writer()?;
        let now = file.attributes();
        let all = [
            (AccountKind::User, now.uid.0, uid),
            (AccountKind::Group, now.gid.0, gid),
            (AccountKind::Project, now.project, project),
        ];
        let new = all.into_iter().filter(|(_, old, new)| old != new);
        let new: Vec<_> = new.map(|(kind, _, id)| (kind, id)).collect();
        let bytes = self.newest(file.id())?.dnode().used_bytes();
        let charge = Charge { bytes, objects: 1 };
        let tx = self.begin_charging(
            &new,
            |_| charge,
            || Ok(writer.dataset.begin(0, NAMES_COST)?),
        )?;
        self.change_in(tx)
    }

    /// Begins a transaction that shares blocks with a file of these owners; `None` if that cannot
    /// be done.
    pub(super) fn begin_sharing(
        &self,
        attributes: &Attributes,
        bytes: u64,
        dirty: u64,
    ) -> Result<Option<Change<'_>>, PosixError> {
        let owners = owners(attributes.uid.0, attributes.gid.0, attributes.project);
        let dataset = &self.require_writer()?.dataset;
        let charge = Charge { bytes, objects: 0 };
        let tx = self.begin_charging(
            &owners,
            |_| charge,
            || Ok(dataset.begin_sharing(bytes, NAMES_COST + dirty)?),
        )?;
        tx.map(|tx| self.change_in(tx)).transpose()
    }

    /// Refuses more contents of a file whose owners' limits are reached.
    pub(super) fn check_quotas_of(&self, attributes: &Attributes) -> Result<(), PosixError> {
        let owners = owners(attributes.uid.0, attributes.gid.0, attributes.project);
        self.begin_charging(&owners, |_| Charge::default(), || Ok(()))
    }

    /// Begins something that charges owners, as `charge` says of its group, once none of their
    /// limits is reached: by what is on disk, and by what is in flight for them. Waits for groups
    /// that may give something back.
    fn begin_charging<T: InGroup>(
        &self,
        owners: &[(AccountKind, u64)],
        charge: impl Fn(Txg) -> Charge,
        begin: impl FnOnce() -> Result<T, PosixError>,
    ) -> Result<T, PosixError> {
        let writer = self.require_writer()?;
        let quotas = writer.quotas();
        let is_limited = |(kind, id): &&(AccountKind, u64)| {
            let is_default = *kind == AccountKind::Project && *id == DEFAULT_PROJECT;
            !is_default && !quotas[*kind as usize].is_none()
        };
        let owners: Vec<_> = owners.iter().filter(is_limited).copied().collect();
        if owners.is_empty() {
            return begin();
        }
        let (dataset, in_flight) = (&writer.dataset, &writer.in_flight);
        let first = dataset.gate().open_txg();
        let expected = loop {
            let charge = charge(dataset.gate().open_txg());
            let mut accounts = in_flight.lock(dataset.gate().synced_txg());
            match self.judge(&owners, charge, (&*accounts, first))? {
                Judgement::Fits => break accounts.expect(&owners, charge),
                Judgement::Refused => return Err(PosixError::QuotaExceeded),
                Judgement::Waits => {}
            }
            drop(accounts);
            dataset.wait_for_group()?;
        };
        let begun = begin();
        let txg = begun.as_ref().ok().and_then(InGroup::txg);
        in_flight.settle(&owners, expected, txg.map(|txg| (txg, charge(txg))));
        begun
    }

    fn judge(
        &self,
        owners: &[(AccountKind, u64)],
        charge: Charge,
        (in_flight, first): (&InFlight, Txg),
    ) -> Result<Judgement, PosixError> {
        let dataset = &self.require_writer()?.dataset;
        // A set without a head has no transaction groups in flight: only what is on disk counts
        // there.
        let can_wait = dataset.can_share();
        let mut judgement = Judgement::Fits;
        for (kind, id) in owners {
            // Before the account is read: so a group that ends now is counted twice, and not left
            // out.
            let coming = match can_wait {
                true => in_flight.of((*kind, *id)),
                false => Charge::default(),
            };
            let account = self.account(*kind, Fuid(*id))?;
            let reached = |used: u64, coming: u64, limit: u64| {
                limit != 0 && used.saturating_add(coming) >= limit
            };
            let is_reached = |coming: Charge| {
                reached(account.used, coming.bytes, account.quota)
                    || charge.objects > 0
                        && reached(account.objects_used, coming.objects, account.objects_quota)
            };
            if is_reached(Charge::default()) {
                let is_still = dataset.gate().synced_txg() >= first || !dataset.is_changing();
                if !can_wait || is_still {
                    return Ok(Judgement::Refused);
                }
            }
            if is_reached(coming) {
                judgement = Judgement::Waits;
            }
        }
        Ok(judgement)
    }

    /// Sets the limit of an id in bytes, or objects; 0 removes it.
    pub fn set_quota(
        &self,
        kind: AccountKind,
        id: u64,
        limit: u64,
        of_objects: bool,
    ) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        let _held = writer.lock(&[MASTER_NODE]);
        let tx = self.begin_freeing(0)?;
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
        tx.keep();
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
