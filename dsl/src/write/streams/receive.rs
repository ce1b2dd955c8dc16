//! The dataset that a stream is received into (format/4 7.3).
//!
//! A stream for a new name goes directly into the new dataset. A stream for an existing dataset
//! goes into a hidden child of it, `%recv`: a clone of the stream's base snapshot. Either is marked
//! as inconsistent until the stream has ended well ([`super::EndReceive`]), so that it is not taken
//! for complete. If the stream stops early, the dataset is destroyed like any other, or it records
//! how much it received ([`ResumePoint`]).

use super::postponed::{Postponed, RECEIVE_CHILD};
use super::resume_point::ResumePoint;
use crate::dataset::Dataset;
use crate::error::DslError;
use crate::name::DatasetName;
use crate::write::context::{SyncContext, SyncTask};
use crate::write::datasets::create::Format;
use crate::write::keys::encryption::Encryption;
use crate::write::keys::received::KeyOwner;
use crate::write::properties::Setting;
use cenote_base::ObjectId;
use cenote_dmu::RawHeader;
use cenote_dmu::zap::ZapValue;
use cenote_ondisk::dsl_dataset::{FLAG_CASE_INSENSITIVE, FLAG_INCONSISTENT, fields};
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::stream::{CryptKeydata, ResumeToken};

/// What a stream is received into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveInto {
    /// A new dataset.
    New,
    /// A new clone of this snapshot.
    NewClone(ObjectId),
    /// A dataset that is there: upon this snapshot of its, or in place of all it has.
    Existing(Option<ObjectId>),
}

/// Makes what a stream is received into.
pub struct BeginReceive {
    /// The dataset that the stream is for.
    pub name: DatasetName,
    /// The short name of the snapshot that the stream becomes.
    pub snapshot: String,
    /// Where the stream goes.
    pub into: ReceiveInto,
    /// What the stream is of.
    pub kind: ObjsetKind,
    /// Whether names are looked up without regard to case.
    pub ignores_case: bool,
    /// Properties of a new dataset, set locally.
    pub properties: Vec<Setting>,
    /// Properties that the dataset gets with the contents.
    pub postponed: Postponed,
    /// What was left out of these, and why.
    pub refused: Vec<(String, DslError)>,
    /// Whether a new dataset is encrypted.
    pub encryption: Encryption,
    /// The keys of a raw stream.
    pub keys: Option<Box<CryptKeydata>>,
    /// The guids of the snapshots by which the stream is redacted. With `None` it is whole, and so
    /// is what it makes of a redacted snapshot.
    pub redaction: Option<Vec<u64>>,
    /// The resume token to store if the stream is cut and can be resumed.
    pub resume: Option<ResumeToken>,
    /// The head to receive into, once it is made.
    pub created: Option<ObjectId>,
}

impl BeginReceive {
    fn origin(&self) -> Option<ObjectId> {
        match self.into {
            ReceiveInto::New => None,
            ReceiveInto::NewClone(origin) => Some(origin),
            ReceiveInto::Existing(base) => base,
        }
    }

    fn check_existing(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let head = context.dsl.dataset(&self.name)?;
        let busy = || DslError::Busy {
            name: self.name.clone(),
        };
        if head.directory().child(RECEIVE_CHILD.as_bytes())?.is_some() || head.is_inconsistent() {
            return Err(busy());
        }
        if let Some(snapshot) = head.snapshot(self.snapshot.as_bytes())? {
            let name = snapshot.name().clone();
            return Err(DslError::DatasetExists { name });
        }
        if let Some(keys) = &self.keys {
            context.plan_wrapping(&head, keys, KeyOwner::Unknown)?;
        }
        self.refused = self.postponed.check_before(context, &head)?;
        context.check_limits_of(vec![head.directory().id()], 0, 1)
    }

    /// Makes the head of a directory that is there.
    fn make_head(
        &self,
        context: &SyncContext<'_>,
        directory: ObjectId,
    ) -> Result<ObjectId, DslError> {
        let Some(origin) = self.origin() else {
            return context.create_head(directory, context.dsl.origin_snapshot());
        };
        let origin = context.dsl.dataset_of(origin)?;
        let id = context.create_head(directory, Some(origin.id()))?;
        context.copy_dataset_features(origin.id(), id)?;
        context.share_keys(&origin, directory)?;
        if matches!(self.into, ReceiveInto::NewClone(_)) {
            context.begin_livelist(directory)?;
        }
        context.clear_copied_log(id)?;
        Ok(id)
    }
}

impl SyncTask for BeginReceive {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        match self.into {
            ReceiveInto::Existing(_) => self.check_existing(context)?,
            ReceiveInto::New | ReceiveInto::NewClone(_) => {
                let parent = context.check_new_dataset(&self.name, &self.properties)?;
                if self.origin().is_none() && self.keys.is_none() {
                    context.plan_encryption(&self.name, Some(&parent), &self.encryption)?;
                }
            }
        }
        let Some(origin) = self.origin() else {
            return Ok(());
        };
        let origin = context.dsl.dataset_of(origin)?;
        context.deadlist_entries(origin.phys().deadlist)?;
        // What is received in the first group must be younger than what it builds upon.
        match origin.phys().creation_txg >= context.txg() {
            true => Err(DslError::NextGroup {
                name: origin.name().clone(),
            }),
            false => Ok(()),
        }
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let is_new = !matches!(self.into, ReceiveInto::Existing(_));
        let above = match is_new {
            true => context.parent_of(&self.name)?,
            false => context.dsl.dataset(&self.name)?.directory().clone(),
        };
        let component = match is_new {
            true => self.name.last_component(),
            false => RECEIVE_CHILD,
        };
        let directory = context.create_directory(Some(above.id()), component.as_bytes())?;
        let id = self.make_head(context, directory)?;
        let ignores_case = self.ignores_case;
        context.change_dataset(id, |phys| {
            phys.flags |= FLAG_INCONSISTENT;
            if ignores_case {
                phys.flags |= FLAG_CASE_INSENSITIVE;
            }
        })?;
        if is_new {
            let dataset = context.dsl.dataset_of(id)?;
            for setting in &self.properties {
                context.account_setting(&dataset, setting)?;
            }
            context.apply_settings(directory, &self.properties)?;
            context.change_counts(Some(above.id()), 1, 0)?;
        }
        if let (None, Some(keys)) = (self.origin(), &self.keys) {
            context.adopt_keys(directory, id, keys)?;
            let header = raw_header(keys);
            let begin_raw: Format = Box::new(move |set, tx| Ok(set.begin_raw(tx, header)?));
            context.format_head(id, self.kind, None, Some(begin_raw))?;
        } else if self.origin().is_none() {
            let name = &self.name;
            let plan = context.plan_encryption(name, Some(&above), &self.encryption)?;
            let keys = plan.map(|plan| context.create_keys(directory, id, &plan));
            context.format_head(id, self.kind, keys.transpose()?, None)?;
        }
        context.set_redaction(id, self.redaction.as_deref())?;
        if let Some(token) = &self.resume {
            context.store_resume_state(id, token)?;
        }
        let target = context.dsl.dataset(&self.name)?;
        let received = context.dsl.dataset_of(id)?;
        self.postponed.store(context, &target, &received)?;
        self.created = Some(id);
        Ok(())
    }
}

/// What the MACs of a raw stream's object set run over.
pub fn raw_header(keys: &CryptKeydata) -> RawHeader {
    let meta = &keys.meta_dnode;
    let byte = |number: u64| u8::try_from(number).unwrap_or(0);
    RawHeader {
        portable_mac: keys.portable_mac,
        checksum: byte(meta.checksum),
        compression: byte(meta.compression),
        levels: byte(meta.levels),
        block_id_max: meta.block_id_max,
    }
}

/// The entries that say how a stream can be resumed.
const RESUME_FIELDS: [&str; 11] = [
    fields::RESUME_FROM_GUID,
    fields::RESUME_TO_GUID,
    fields::RESUME_TO_NAME,
    fields::RESUME_OBJECT,
    fields::RESUME_OFFSET,
    fields::RESUME_BYTES,
    fields::RESUME_LARGE_BLOCKS,
    fields::RESUME_EMBEDDED,
    fields::RESUME_COMPRESSED,
    fields::RESUME_RAW,
    fields::RESUME_REDACTION_SNAPSHOTS,
];

impl SyncContext<'_> {
    fn store_resume_state(&self, id: ObjectId, token: &ResumeToken) -> Result<(), DslError> {
        let zap = self.extend(id)?;
        if let Some(guid) = token.from_guid {
            self.set_extension(id, fields::RESUME_FROM_GUID, guid.0)?;
        }
        self.set_extension(id, fields::RESUME_TO_GUID, token.to_guid.0)?;
        let name = ZapValue::from_text(&String::from_utf8_lossy(&token.to_name));
        zap.update(self.tx, fields::RESUME_TO_NAME.as_bytes(), &name)?;
        let flags = [
            (fields::RESUME_LARGE_BLOCKS, token.large_blocks),
            (fields::RESUME_EMBEDDED, token.embedded),
            (fields::RESUME_COMPRESSED, token.compressed),
            (fields::RESUME_RAW, token.raw),
        ];
        for (field, _) in flags.iter().filter(|(_, is_set)| *is_set) {
            self.set_extension(id, field, 1)?;
        }
        if let Some(guids) = &token.bookmark_redact_snapshots {
            let value = ZapValue::from_u64s(guids);
            let key = fields::RESUME_REDACTION_SNAPSHOTS.as_bytes();
            zap.update(self.tx, key, &value)?;
        }
        let start = ResumePoint {
            object: token.object,
            offset: token.offset,
            bytes: token.bytes,
        };
        self.store_resume_point(id, start)
    }

    /// Forgets that a stream was under way.
    pub(crate) fn forget_resume_state(&self, dataset: &Dataset) -> Result<(), DslError> {
        for field in RESUME_FIELDS {
            if dataset.extension_value(field)?.is_some() {
                self.remove_entry(dataset.id(), field.as_bytes())?;
            }
        }
        Ok(())
    }
}
