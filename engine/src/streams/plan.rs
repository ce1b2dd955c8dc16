//! The plan for one stream: where to receive it, or why it is refused (format/4 7.2).

use super::nearest::{nearest, snapshot_by_guid};
use super::raw_keys;
use super::words::{INVALID, Wants, modified, no_match, of_dsl};
use crate::errors::parse_name;
use crate::registry::imported::Imported;
use cenote_base::{Guid, ObjectId};
use cenote_control::model::{ControlError, Receive, ReceiveNote, StreamAct, StreamRefusal};
use cenote_dsl::resume_token::state;
use cenote_dsl::write::{
    Encryption, KeyOwner, RECEIVE_CHILD, ReceiveInto, ResumePoint, is_modified_since,
};
use cenote_dsl::{Dataset, DatasetName, DatasetType, DslError};
use cenote_ondisk::features;
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::stream::package::{PackageDataset, PackageSnapshot};
use cenote_ondisk::stream::{Begin, BeginPayload, CryptKeydata, Feature, flags};

/// Features of streams that a pool must have enabled.
const NEEDED: [(Feature, &str); 8] = [
    (Feature::EmbedData, features::EMBEDDED_DATA),
    (Feature::Lz4, features::LZ4_COMPRESS),
    (Feature::LargeBlocks, features::LARGE_BLOCKS),
    (Feature::Redacted, features::REDACTED_DATASETS),
    (Feature::LargeDnode, features::LARGE_DNODE),
    (Feature::Zstd, features::ZSTD_COMPRESS),
    (Feature::LongName, features::LONGNAME),
    (Feature::LargeMicrozap, features::LARGE_MICROZAP),
];

/// Snapshots by which a stream may be redacted: a value in a ZAP has 8 KiB at most.
const REDACTION_MAX: usize = 1024;

/// Properties of a dataset's key, apart from its location.
pub(super) const KEY_PROPERTIES: [&str; 3] = ["encryption", "keyformat", "pbkdf2iters"];

/// Where a stream goes.
#[derive(Debug)]
pub(super) enum Course {
    /// Into what is still to be made.
    Begin(ReceiveInto),
    /// On with what an earlier stream left.
    Resume(ObjectId, ResumePoint),
    /// Nowhere: the snapshot is there.
    Ignore,
}

/// One stream and the snapshot that it will become.
pub(super) struct Plan<'a> {
    pub asked: &'a Receive,
    pub imported: &'a Imported,
    pub begin: &'a Begin,
    pub payload: &'a BeginPayload,
    /// Whether it is one of many.
    pub is_packaged: bool,
    /// Whether it is of the dataset that was sent, and not of one below it.
    pub is_top: bool,
    /// Whether the package that it is of begins with nothing.
    pub is_of_beginning: bool,
    /// The package's entry for its dataset.
    pub dataset: Option<&'a PackageDataset>,
    /// The dataset.
    pub name: DatasetName,
    /// The short name of the snapshot.
    pub snapshot: String,
}

impl Plan<'_> {
    pub fn wants(&self) -> Wants {
        match () {
            () if self.is_resuming() => Wants::Resume,
            () if self.wants_new() => Wants::New,
            () => Wants::Increment,
        }
    }

    /// Whether a new dataset is encrypted as its parent is.
    ///
    /// Of encrypted datasets, only raw streams carry properties. So properties in any other stream
    /// mean that its dataset was not encrypted, and the new one is not either (format/4 7).
    pub fn encryption(&self) -> Encryption {
        let is_told = self
            .dataset
            .is_some_and(|dataset| dataset.properties.is_some());
        let is_asked = self.asked_names().any(|name| name == "encryption");
        let is_raw = self.begin.features.has(Feature::Raw);
        match is_told && !is_raw && !is_asked {
            true => Encryption::Off,
            false => Encryption::Inherit,
        }
    }

    /// The properties that are given or left out.
    fn asked_names(&self) -> impl Iterator<Item = &String> {
        let given = self.asked.properties.iter().map(|(name, _)| name);
        given.chain(&self.asked.excluded)
    }

    /// Refuses properties of keys that the stream has no use for.
    fn check_key_properties(&self) -> Result<(), ControlError> {
        let is_of_key = |name: &&String| KEY_PROPERTIES.contains(&name.as_str());
        if self.begin.features.has(Feature::Raw) {
            return match self.asked_names().find(is_of_key) {
                None => Ok(()),
                Some(name) => {
                    let property = name.clone();
                    Err(self.refused(StreamRefusal::KeyOfRaw { property }))
                }
            };
        }
        let mut given = self.asked.properties.iter().map(|(name, _)| name);
        let makes_key = self.begin.from_guid.0 == 0 || self.is_of_beginning;
        match given.find(is_of_key).filter(|_| self.is_top && !makes_key) {
            None => Ok(()),
            Some(name) => {
                let property = name.clone();
                Err(self.refused(StreamRefusal::KeyOfIncrement { property }))
            }
        }
    }

    /// The keys of a raw stream.
    pub fn keys(&self) -> Result<Option<&CryptKeydata>, ControlError> {
        match (self.begin.features.has(Feature::Raw), &self.payload.crypt) {
            (false, _) => Ok(None),
            (true, Some(keys)) => Ok(Some(keys)),
            (true, None) => Err(self.refused(INVALID)),
        }
    }

    /// Whose user key wraps the keys of a raw stream at its sender, as the package says.
    ///
    /// The topmost dataset stays an encryption root. Another one is said to have its parent's key
    /// only if the parent here is a copy of the sender's.
    pub fn key_owner(&self) -> Result<KeyOwner, ControlError> {
        let Some(told) = self.dataset.filter(|_| self.payload.crypt.is_some()) else {
            return Ok(KeyOwner::Unknown);
        };
        if told.is_encryption_root {
            return Ok(KeyOwner::Dataset);
        }
        let Some(parent) = self.name.parent().filter(|_| !self.is_top) else {
            return Ok(KeyOwner::Unknown);
        };
        let parent = self.imported.dsl().dataset(&parent);
        let is_copy = parent.and_then(|parent| raw_keys::is_parent_of(&parent, told));
        Ok(match is_copy.map_err(|error| self.of_dsl(error))? {
            true => KeyOwner::Parent,
            false => KeyOwner::Unknown,
        })
    }

    /// Refuses keys that are invalid, or do not belong to the snapshot `base`.
    fn check_keys(&self, base: Option<&Dataset>) -> Result<(), ControlError> {
        let Some(keys) = self.keys()? else {
            return Ok(());
        };
        let enabled = self.imported.dsl().features();
        if enabled.get(features::ENCRYPTION).is_none() {
            return Err(self.refused(StreamRefusal::PoolTooOld));
        }
        let problem = raw_keys::problem(keys, base).map_err(|error| self.of_dsl(error))?;
        problem.map_or(Ok(()), |problem| Err(self.refused(problem)))
    }

    /// Refuses keys that differ from those of the earlier contents.
    fn check_own_keys(&self, head: &Dataset) -> Result<(), ControlError> {
        let Some(keys) = self.keys()? else {
            return Ok(());
        };
        let is_own = raw_keys::are_of(keys, head).map_err(|error| self.of_dsl(error))?;
        match is_own {
            true => Ok(()),
            false => Err(self.refused(StreamRefusal::OtherKey)),
        }
    }

    /// The snapshots by which the stream is redacted.
    pub fn redaction(&self) -> Result<Option<&Vec<u64>>, ControlError> {
        if !self.begin.features.has(Feature::Redacted) {
            return Ok(None);
        }
        let listed = self.payload.redact_snapshots.as_ref();
        let fits = |guids: &&Vec<u64>| (1..=REDACTION_MAX).contains(&guids.len());
        match listed.filter(fits) {
            Some(guids) => Ok(Some(guids)),
            None => Err(self.refused(INVALID)),
        }
    }

    /// Refuses a stream upon a redacted snapshot if neither of two is true (format/4 7.2, 9): it
    /// brings what was left out, or it leaves out at least the same.
    ///
    /// A block is redacted only if all redaction snapshots changed it. So fewer of them redact more
    /// blocks, and each of them brings its own version of each block.
    fn check_redaction(&self, base: &Dataset) -> Result<(), ControlError> {
        let by = base.redaction_snapshots();
        let Some(by) = by.map_err(|error| self.of_dsl(error))? else {
            return Ok(());
        };
        let is_within = |guids: &Vec<u64>| guids.iter().all(|guid| by.contains(guid));
        let from = self.payload.redact_from_snapshots.as_ref();
        let fits = from.is_some_and(is_within)
            || self.redaction()?.is_some_and(is_within)
            || by.contains(&self.begin.to_guid.0);
        match fits {
            true => Ok(()),
            false => Err(self.refused(INVALID)),
        }
    }

    /// The package's entry for its snapshot.
    pub fn told(&self) -> Option<&PackageSnapshot> {
        let mut snapshots = self.dataset?.snapshots.iter();
        snapshots.find(|snapshot| snapshot.guid == self.begin.to_guid)
    }

    /// Whether the package has no more streams of this dataset.
    pub fn is_last(&self) -> bool {
        let last = self.dataset.and_then(|dataset| dataset.snapshots.last());
        last.is_none_or(|last| last.guid == self.begin.to_guid)
    }

    /// Whether the stream resumes an interrupted one.
    pub fn is_resuming(&self) -> bool {
        self.begin.features.has(Feature::Resuming)
    }

    /// Whether the stream makes a dataset.
    pub fn wants_new(&self) -> bool {
        let is_clone = self.begin.flags & flags::CLONE != 0;
        self.begin.from_guid.0 == 0 || is_clone || self.asked.origin.is_some()
    }

    /// What is reported about the stream when it begins.
    pub fn note(&self) -> ReceiveNote {
        let kind = match self.begin.from_guid.0 {
            0 => "full",
            _ => "incremental",
        };
        let kind = match self.asked.corrective {
            true => format!("corrective {kind}"),
            false => kind.to_owned(),
        };
        ReceiveNote::Begin {
            kind,
            from: String::from_utf8_lossy(&self.begin.to_name).into_owned(),
            to: format!("{}@{}", self.name, self.snapshot),
        }
    }

    pub fn kind(&self) -> Result<ObjsetKind, ControlError> {
        match self.begin.objset_type {
            2 => Ok(ObjsetKind::Zfs),
            3 => Ok(ObjsetKind::Volume),
            _ => Err(self.refused(INVALID)),
        }
    }

    /// A refusal of the stream.
    pub fn refused(&self, why: StreamRefusal) -> ControlError {
        self.wants().refused(why)
    }

    fn no_destination(&self) -> ControlError {
        let dataset = self.name.as_str().to_owned();
        self.refused(StreamRefusal::NoDestination { dataset })
    }

    fn of_dsl(&self, error: DslError) -> ControlError {
        of_dsl(self.wants(), &self.name, &error)
    }

    /// The dataset, if it is there.
    pub fn target(&self) -> Result<Option<Dataset>, ControlError> {
        match self.imported.dsl().dataset(&self.name) {
            Ok(head) => Ok(Some(head)),
            Err(DslError::NoSuchDataset { .. }) => Ok(None),
            Err(error) => Err(self.of_dsl(error)),
        }
    }

    /// Decides where the stream goes.
    pub fn course(&self) -> Result<Course, ControlError> {
        self.check_features()?;
        self.check_key_properties()?;
        let target = self.target()?;
        if self.is_resuming() {
            return self.resume(target);
        }
        if let Some(target) = &target
            && self.has_partial_state(target)?
        {
            let dataset = self.name.as_str().to_owned();
            return Err(self.refused(StreamRefusal::PartlyReceived { dataset }));
        }
        match (target, self.wants_new()) {
            (None, false) => Err(self.no_destination()),
            (None, true) => self.course_to_new(),
            (Some(target), true) if self.is_packaged && self.is_there(&target)? => {
                Ok(Course::Ignore)
            }
            (Some(target), true) => self.over(&target),
            (Some(target), false) => self.upon(&target),
        }
    }

    fn check_features(&self) -> Result<(), ControlError> {
        self.redaction()?;
        let from = self.payload.redact_from_snapshots.as_ref();
        if from.is_some_and(|from| from.len() > REDACTION_MAX) {
            return Err(self.refused(INVALID));
        }
        let enabled = self.imported.dsl().features();
        let lacks = |(feature, guid): &(Feature, &str)| {
            self.begin.features.has(*feature) && enabled.get(guid).is_none()
        };
        // The state of a resumable receive needs fields that older pools do not support.
        let cannot_note =
            self.asked.resumable && enabled.get(features::EXTENSIBLE_DATASET).is_none();
        match cannot_note || NEEDED.iter().any(lacks) {
            true => Err(self.refused(StreamRefusal::PoolTooOld)),
            false => Ok(()),
        }
    }

    fn has_partial_state(&self, target: &Dataset) -> Result<bool, ControlError> {
        let child = target.directory().child(RECEIVE_CHILD.as_bytes());
        let child = child.map_err(|error| self.of_dsl(error))?;
        Ok(child.is_some() || target.is_inconsistent())
    }

    /// The head that an interrupted stream was received into, if this one resumes it.
    fn resume(&self, target: Option<Dataset>) -> Result<Course, ControlError> {
        let wrong = || self.refused(INVALID);
        let target = target.ok_or_else(|| self.no_destination())?;
        let child = target.directory().child(RECEIVE_CHILD.as_bytes());
        let child = child.map_err(|error| self.of_dsl(error))?;
        let unchanged = match &child {
            Some(_) => self.check_unchanged(&target),
            None => Ok(()),
        };
        let head = match child {
            Some(child) => child.head().map_err(|error| self.of_dsl(error))?,
            None => Some(target).filter(Dataset::is_inconsistent),
        };
        let head = head.ok_or_else(wrong)?;
        let state = state(&head).map_err(|error| self.of_dsl(error))?;
        let state = state.ok_or_else(wrong)?;
        let from = state.from_guid.unwrap_or(Guid(0));
        let is_same = state.to_guid == self.begin.to_guid
            && from == self.begin.from_guid
            && state.raw == self.begin.features.has(Feature::Raw)
            && state.redact_snapshots.as_ref() == self.redaction()?
            && self.payload.resume == Some((state.object, state.offset));
        if !is_same {
            return Err(wrong());
        }
        let base = match from.0 {
            0 => None,
            _ => head.previous(),
        };
        let base = base.map(|base| self.imported.dsl().dataset_of(base));
        let base = base.transpose().map_err(|error| self.of_dsl(error))?;
        self.check_keys(base.as_ref())?;
        self.check_own_keys(&head)?;
        unchanged?;
        let point = ResumePoint {
            object: state.object,
            offset: state.offset,
            bytes: state.bytes,
        };
        Ok(Course::Resume(head.id(), point))
    }

    /// Refuses to resume if the contents could not be exchanged at the end.
    ///
    /// The end refuses that, too. But then all of the stream is received, so that the same stream
    /// does not fit any more, and a new one has to be sent for an attempt with `-F`.
    fn check_unchanged(&self, target: &Dataset) -> Result<(), ControlError> {
        if self.asked.force {
            return Ok(());
        }
        let of_dsl = |error| self.of_dsl(error);
        let newest = target.previous();
        let newest = newest.map(|id| self.imported.dsl().dataset_of(id));
        let newest = newest.transpose().map_err(of_dsl)?;
        match is_modified_since(target, newest.as_ref()).map_err(of_dsl)? {
            true => Err(self.refused(modified(&self.name))),
            false => Ok(()),
        }
    }

    /// The snapshot that a new clone begins as.
    fn origin(&self) -> Result<Option<ObjectId>, ControlError> {
        if let Some(origin) = &self.asked.origin {
            let name = parse_name(origin)?;
            let found = self.imported.dsl().dataset(&name);
            let origin = origin.clone();
            let missing = StreamRefusal::NoSuchOrigin { origin };
            let found = found.map_err(|_| Wants::Unknown.refused(missing))?;
            return Ok(Some(found.id()));
        }
        if self.begin.flags & flags::CLONE == 0 {
            return Ok(None);
        }
        match self.find_by_guid(self.begin.from_guid)? {
            Some(found) => Ok(Some(found.id())),
            None => {
                let snapshot = format!("{}@{}", self.name, self.snapshot);
                Err(Wants::Unknown.refused(StreamRefusal::NoLocalOrigin { snapshot }))
            }
        }
    }

    /// The snapshot of the pool with this guid that the stream builds upon.
    fn find_by_guid(&self, guid: Guid) -> Result<Option<Dataset>, ControlError> {
        let dsl = self.imported.dsl();
        let keys = self.keys()?;
        let fits = |snapshot: &Dataset| match keys {
            Some(keys) => Ok(raw_keys::problem(keys, Some(snapshot))?.is_none()),
            None => Ok(true),
        };
        let found = nearest(dsl, guid, (&self.name, dsl.pool_name()), fits);
        found.map_err(|error| self.of_dsl(error))
    }

    fn course_to_new(&self) -> Result<Course, ControlError> {
        let parent = self.name.parent().ok_or_else(|| self.no_destination())?;
        let found = self.imported.dsl().dataset(&parent);
        match found.map(|found| found.dataset_type()) {
            Ok(Ok(DatasetType::Filesystem)) => {}
            Ok(Ok(DatasetType::Volume)) => {
                let parent = parent.as_str().to_owned();
                return Err(self.refused(StreamRefusal::ParentNotFilesystem { parent }));
            }
            Err(DslError::NoSuchDataset { .. }) => {
                let dataset = parent.as_str().to_owned();
                let wanted = Box::new(self.wants().act());
                let why = StreamRefusal::NoParent { wanted };
                return Err(ControlError::stream(StreamAct::Open { dataset }, why));
            }
            Ok(Err(error)) | Err(error) => return Err(self.of_dsl(error)),
        }
        let origin = self.origin()?;
        let base = origin.map(|origin| self.imported.dsl().dataset_of(origin));
        let base = base.transpose().map_err(|error| self.of_dsl(error))?;
        self.check_keys(base.as_ref())?;
        // A full stream replaces all that the clone begins with.
        if let Some(base) = base.as_ref().filter(|_| self.begin.from_guid.0 != 0) {
            self.check_redaction(base)?;
        }
        Ok(Course::Begin(match origin {
            None => ReceiveInto::New,
            Some(origin) => ReceiveInto::NewClone(origin),
        }))
    }

    /// Whether the snapshot is there already.
    fn is_there(&self, target: &Dataset) -> Result<bool, ControlError> {
        let named = target.snapshot(self.snapshot.as_bytes());
        let named = named.map_err(|error| self.of_dsl(error))?;
        Ok(named.is_some_and(|named| named.phys().guid == self.begin.to_guid))
    }

    /// A stream that makes a dataset, for one that is there.
    fn over(&self, target: &Dataset) -> Result<Course, ControlError> {
        let dataset = self.name.as_str().to_owned();
        let refused = |why| Err(self.refused(why));
        if !self.asked.force {
            return refused(StreamRefusal::Exists { dataset });
        }
        let of_dsl = |error| self.of_dsl(error);
        let snapshots = target.listed_snapshots().map_err(of_dsl)?;
        if let Some(first) = snapshots.first() {
            let snapshot = String::from_utf8_lossy(&first.name).into_owned();
            return refused(StreamRefusal::HasSnapshots { dataset, snapshot });
        }
        if target.directory().origin().is_some() {
            return refused(StreamRefusal::IsClone { dataset });
        }
        let is_to_be_encrypted = || {
            let mut given = self.asked.properties.iter();
            given.any(|(name, value)| name == "encryption" && value != "off")
        };
        let is_encrypted = target.directory().crypto_key().map_err(of_dsl)?.is_some();
        if is_encrypted || self.is_top && is_to_be_encrypted() {
            return refused(StreamRefusal::OverEncrypted);
        }
        let is_volume = self.kind()? == ObjsetKind::Volume;
        let has_children = target.directory().child_count().map_err(of_dsl)? > 0;
        if is_volume && (has_children || self.name.parent().is_none()) {
            return refused(StreamRefusal::RootOrParent { dataset });
        }
        if self.keys()?.is_some() {
            return refused(StreamRefusal::ExistsForGood { dataset });
        }
        match self.origin()? {
            None => Ok(Course::Begin(ReceiveInto::Existing(None))),
            Some(_) => refused(StreamRefusal::ExistsForGood { dataset }),
        }
    }

    /// An increment.
    fn upon(&self, target: &Dataset) -> Result<Course, ControlError> {
        let of_dsl = |error| self.of_dsl(error);
        if self.is_there(target)? {
            return Ok(Course::Ignore);
        }
        if self.asked.dry_run {
            // It may build upon a stream that was tried just before, and of which nothing is there.
            return Ok(Course::Begin(ReceiveInto::Existing(None)));
        }
        let base = snapshot_by_guid(target, self.begin.from_guid).map_err(of_dsl)?;
        let base = base.ok_or_else(|| self.refused(no_match(&self.name)))?;
        let has_large = base
            .extension_number(features::LARGE_BLOCKS)
            .map_err(of_dsl)?;
        if has_large.is_some() && !self.begin.features.has(Feature::LargeBlocks) {
            return Err(self.refused(StreamRefusal::NeedsLargeBlocks));
        }
        self.check_keys(Some(&base))?;
        self.check_redaction(&base)?;
        if self.asked.force {
            return Ok(Course::Begin(ReceiveInto::Existing(Some(base.id()))));
        }
        if is_modified_since(target, Some(&base)).map_err(of_dsl)? {
            return Err(self.refused(modified(&self.name)));
        }
        // Newer snapshots are what the one is that the stream builds upon.
        let newest = target.previous().unwrap_or(base.id());
        Ok(Course::Begin(ReceiveInto::Existing(Some(newest))))
    }
}
