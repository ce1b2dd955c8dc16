//! One stream received: into what was planned for it, and made a snapshot.

use super::input::Input;
use super::plan::{Course, Plan};
use super::properties::{early_and_late, of_snapshot};
use super::session::Session;
use super::words::{Wants, no_room, of_dsl, of_stream, other};
use crate::errors::{of_dsl as of_metadata, of_sync};
use crate::mounts::exchange::{exchange_contents, replace_contents};
use crate::mounts::make::mount_below;
use crate::mounts::unmount::{Elsewhere, unmount_dataset};
use crate::registry::imported::Imported;
use cenote_base::ObjectId;
use cenote_control::model::{ControlError, MountOptions, ReceiveNote, StreamRefusal};
use cenote_dataset::OpenDataset;
use cenote_dsl::write::raw_header;
use cenote_dsl::write::{
    BeginReceive, DestroyDataset, DestroySnapshots, Encryption, EndReceive, HoldSnapshots, MadeBy,
    Postponed, RECEIVE_CHILD, ReceiveInto, ResumePoint,
};
use cenote_dsl::{Dataset, DatasetName, DatasetType};
use cenote_ondisk::features;
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::stream::{Feature, ResumeToken, flags};
use cenote_posix::write::PosixOwnerHook;
use cenote_stream::receive::{self, Received, Target};
use cenote_stream::{Reader, StreamError};
use std::sync::Arc;

/// Why a stream ended.
struct Ended {
    error: ControlError,
    /// The message if the received part is kept, if it is worth keeping.
    kept: Option<String>,
}

impl Session<'_> {
    /// Receives the stream that `plan` is about, whose BEGIN `reader` has given.
    pub fn substream(
        &self,
        reader: &mut Reader<Input<'_>>,
        imported: &Arc<Imported>,
        plan: &Plan<'_>,
    ) -> Result<Received, ControlError> {
        let course = plan.course()?;
        if matches!(course, Course::Ignore) {
            let name = format!("{}@{}", plan.name, plan.snapshot);
            let text = format!("snap {name} already exists; ignoring");
            self.link.tell(ReceiveNote::Detail(text));
            return self.skip(reader, plan);
        }
        self.link.tell(plan.note());
        if self.asked.dry_run {
            return self.skip(reader, plan);
        }
        let (head, resumed, is_new) = match course {
            Course::Ignore => return self.skip(reader, plan),
            Course::Resume(head, point) => (head, point, false),
            Course::Begin(into) => {
                let wanted = self.wanted(plan)?;
                let (early, late) = match into {
                    ReceiveInto::Existing(_) => (Postponed::default(), wanted),
                    ReceiveInto::New | ReceiveInto::NewClone(_) => early_and_late(wanted),
                };
                let head = self.begin(imported, plan, into, late)?;
                self.prepare(imported, plan, head, early)?;
                (head, ResumePoint::default(), true)
            }
        };
        let filled = fill(self, reader, imported, plan, (head, resumed));
        let mut is_whole = false;
        let ended = filled.and_then(|received| {
            let ended = self.end(imported, plan, head);
            is_whole = ended.is_err();
            let ended = ended.and_then(|()| self.complete(imported, plan));
            ended
                .map(|()| received)
                .map_err(|error| Ended { error, kept: None })
        });
        ended.map_err(|Ended { error, kept }| {
            let is_resumable = self.asked.resumable || !is_new;
            match kept.filter(|_| is_resumable) {
                // It was received in full. It can be resumed when the obstacle is removed.
                None if is_whole && is_resumable => error,
                Some(reason) => self.kept(imported, plan, &reason, error),
                None => self.undo(imported, plan, head, error),
            }
        })
    }

    /// Reads over a stream that goes nowhere.
    pub fn skip(
        &self,
        reader: &mut Reader<Input<'_>>,
        plan: &Plan<'_>,
    ) -> Result<Received, ControlError> {
        let skipped = receive::skip(reader);
        skipped.map_err(|error| of_stream(plan.wants(), &plan.name, &error))
    }

    /// Makes what the stream goes into.
    fn begin(
        &self,
        imported: &Arc<Imported>,
        plan: &Plan<'_>,
        into: ReceiveInto,
        postponed: Postponed,
    ) -> Result<ObjectId, ControlError> {
        if let ReceiveInto::NewClone(origin) = &into {
            let origin = imported.dsl().dataset_of(*origin).map_err(of_metadata)?;
            let origin = origin.name().dataset();
            self.by.check(imported, &origin, &["clone"])?;
        }
        let begin = plan.begin;
        let token = ResumeToken {
            object: ObjectId(1),
            bookmark_redact_snapshots: plan.payload.redact_from_snapshots.clone(),
            ..ResumeToken::of_begin(begin)
        };
        let encryption = match into {
            ReceiveInto::New => self.encryption(imported, plan)?,
            ReceiveInto::NewClone(_) | ReceiveInto::Existing(_) => Encryption::Inherit,
        };
        let task = BeginReceive {
            name: plan.name.clone(),
            snapshot: plan.snapshot.clone(),
            into,
            kind: plan.kind()?,
            ignores_case: begin.flags & flags::CASE_INSENSITIVE != 0,
            properties: Vec::new(),
            postponed,
            refused: Vec::new(),
            encryption,
            keys: plan.keys()?.cloned().map(Box::new),
            redaction: plan.redaction()?.cloned(),
            resume: self.asked.resumable.then_some(token),
            created: None,
        };
        let names = match task.into {
            ReceiveInto::New | ReceiveInto::NewClone(_) => vec![plan.name.clone()],
            ReceiveInto::Existing(_) => Vec::new(),
        };
        let user = self.by.actor.user;
        let task = MadeBy { task, names, user };
        let begun = self.run(imported, plan, task, false)?.task;
        self.refuse_properties(&plan.name, begun.refused);
        Ok(begun.created.expect("the task made it"))
    }

    /// Sets the properties of a new dataset, before its data comes.
    fn prepare(
        &self,
        imported: &Arc<Imported>,
        plan: &Plan<'_>,
        head: ObjectId,
        early: Postponed,
    ) -> Result<(), ControlError> {
        let set = self.set_properties(imported, plan, early);
        set.map_err(|error| self.undo(imported, plan, head, error))
    }

    /// Applies a package's entry for the new snapshot: its properties and holds.
    fn complete(&self, imported: &Arc<Imported>, plan: &Plan<'_>) -> Result<(), ControlError> {
        let Some(told) = plan.told() else {
            return Ok(());
        };
        let Ok(name) = plan.name.snapshot(plan.snapshot.as_bytes()) else {
            return Ok(());
        };
        let mut settings = of_snapshot(&told.properties);
        settings.retain(|setting| {
            let allowed = self.may_set(&name, &setting.name);
            if let Err(error) = &allowed {
                self.refuse_property(&name, &setting.name, &error.to_string());
            }
            allowed.is_ok()
        });
        if !settings.is_empty() {
            self.store_received(imported, plan, name.clone(), settings)?;
        }
        let mut holds = told.holds.iter().filter(|_| !self.asked.without_holds);
        if let (Err(error), true) = (
            self.by.check(imported, &name, &["hold"]),
            !told.holds.is_empty(),
        ) {
            let text = format!("cannot receive holds of {name}: {error}");
            self.link.tell(ReceiveNote::Complaint(text));
            holds.by_ref().for_each(drop);
        }
        for (tag, _) in holds {
            let task = HoldSnapshots {
                holds: vec![(name.clone(), String::from_utf8_lossy(tag).into_owned())],
            };
            self.run(imported, plan, task, false)?;
        }
        Ok(())
    }

    /// Creates a snapshot of the received contents.
    fn end(
        &self,
        imported: &Arc<Imported>,
        plan: &Plan<'_>,
        received: ObjectId,
    ) -> Result<(), ControlError> {
        let target = plan.target()?;
        let target = target.ok_or_else(|| plan.refused(StreamRefusal::Gone))?;
        let task = EndReceive {
            name: plan.name.clone(),
            snapshot: plan.snapshot.clone(),
            received,
            force: self.asked.force,
            guid: plan.begin.to_guid,
            creation_time: plan.begin.creation_time,
            ivset_guid: plan.keys()?.and_then(|keys| keys.to_ivset_guid),
            keys: plan.keys()?.cloned().map(Box::new),
            key_owner: plan.key_owner()?,
            refused: Vec::new(),
        };
        let exchange = |task: EndReceive| -> Result<(), ControlError> {
            let done = self.run(imported, plan, task, true)?;
            self.refuse_properties(&plan.name, done.refused);
            Ok(())
        };
        let is_volume = plan.kind()? == ObjsetKind::Volume;
        if target.id() == received {
            drop(target);
            exchange(task)?;
            return match is_volume {
                true => Ok(()),
                false => self.mount_new(&plan.name),
            };
        }
        let id = target.id();
        let was_volume = target.dataset_type().map_err(of_metadata)? == DatasetType::Volume;
        if was_volume != is_volume {
            // Mounts cannot continue with a volume; and a file system must be mounted.
            let exchange = || exchange(task);
            replace_contents(self.mounts, imported, (&plan.name, id), exchange)?;
            return match is_volume {
                true => Ok(()),
                false => self.mount_new(&plan.name),
            };
        }
        // What is open there is of contents that are no more, as after a rollback.
        exchange_contents(
            self.mounts,
            imported,
            (&plan.name, id, true),
            || self.destroy_newer(imported, plan, &target, received),
            || exchange(task),
        )
    }

    /// Destroys the snapshots that are newer than the one that the stream builds upon.
    fn destroy_newer(
        &self,
        imported: &Arc<Imported>,
        plan: &Plan<'_>,
        target: &Dataset,
        received: ObjectId,
    ) -> Result<(), ControlError> {
        if !self.asked.force {
            return Ok(());
        }
        let read = imported.dsl().dataset_of(received).map_err(of_metadata)?;
        let base = read.phys().previous_snapshot_txg;
        let mut snapshots = target.snapshots().map_err(of_metadata)?;
        snapshots.retain(|snapshot| snapshot.creation_txg > base);
        if snapshots.is_empty() {
            return Ok(());
        }
        let names: Result<Vec<DatasetName>, _> = snapshots
            .iter()
            .map(|snapshot| plan.name.snapshot(&snapshot.name))
            .collect();
        let names = names.map_err(|error| plan.refused(other(error)))?;
        for name in &names {
            unmount_dataset(self.mounts, name.as_str(), (true, Elsewhere::End))?;
        }
        let task = DestroySnapshots {
            names,
            defer: false,
        };
        self.run(imported, plan, task, false).map(drop)
    }

    /// Mounts a dataset that is new.
    pub fn mount_new(&self, name: &DatasetName) -> Result<(), ControlError> {
        if self.asked.unmounted {
            return Ok(());
        }
        let imported = self.context.registry.pool(name.pool())?;
        let options = MountOptions::default();
        let (failures, _) = mount_below(self.mounts, &imported, Some(name), &options);
        self.complain_of_mounts(failures);
        Ok(())
    }

    /// Destroys the received part of a stream; returns the error that caused it.
    fn undo(
        &self,
        imported: &Arc<Imported>,
        plan: &Plan<'_>,
        head: ObjectId,
        error: ControlError,
    ) -> ControlError {
        let name = match plan.target() {
            Ok(Some(target)) if target.id() == head => Ok(plan.name.clone()),
            _ => plan.name.child(RECEIVE_CHILD.as_bytes()),
        };
        let Ok(name) = name else {
            return error;
        };
        // `zfs list` shows the leftover, and the next attempt destroys it.
        if let Err(left) = self.run(imported, plan, DestroyDataset { name }, false) {
            log::warn!("{}: what was received stays: {left}", plan.name);
        }
        error
    }

    /// The error that a stream can be resumed, and how.
    fn kept(
        &self,
        imported: &Arc<Imported>,
        plan: &Plan<'_>,
        reason: &str,
        error: ControlError,
    ) -> ControlError {
        let target = imported.dsl().dataset(&plan.name);
        let token = target.and_then(|target| cenote_dsl::receive_resume_token(&target));
        match token {
            Ok(Some(token)) => {
                let reason = reason.to_owned();
                plan.refused(StreamRefusal::Kept { reason, token })
            }
            _ => error,
        }
    }
}

/// Applies the stream to the head that it goes into, which is closed afterwards.
fn fill(
    session: &Session<'_>,
    reader: &mut Reader<Input<'_>>,
    imported: &Arc<Imported>,
    plan: &Plan<'_>,
    (id, resumed): (ObjectId, ResumePoint),
) -> Result<Received, Ended> {
    let lost = |error: ControlError| Ended { error, kept: None };
    let metadata = |error| lost(of_dsl(plan.wants(), &plan.name, &error));
    let dataset = imported.dsl().dataset_of(id).map_err(metadata)?;
    let open = open(imported, plan, &dataset).map_err(lost)?;
    drop(dataset);
    for (feature, guid) in [
        (Feature::LongName, features::LONGNAME),
        (Feature::LargeMicrozap, features::LARGE_MICROZAP),
    ] {
        if plan.begin.features.has(feature) {
            open.use_feature(guid);
        }
    }
    let is_clone = plan.begin.flags & flags::CLONE != 0;
    let target = Target {
        dataset: &open,
        resumed,
        is_resumable: session.asked.resumable || plan.is_resuming(),
        replaces: session.asked.origin.is_some() && plan.begin.from_guid.0 == 0 && !is_clone,
        is_cancelled: &|| session.link.is_cancelled(),
    };
    let received = receive::receive(reader, plan.begin, &target);
    let synced = open.end();
    let received = received.map_err(|error| {
        let wants = match plan.wants() {
            Wants::Unknown => Wants::New,
            wants => wants,
        };
        Ended {
            kept: worth_keeping(&plan.name, &error),
            error: of_stream(wants, &plan.name, &error),
        }
    })?;
    synced.map_err(|error| lost(of_sync(imported.name(), error.into())))?;
    Ok(received)
}

/// Opens the head that a stream goes into.
fn open(
    imported: &Imported,
    plan: &Plan<'_>,
    dataset: &Dataset,
) -> Result<OpenDataset, ControlError> {
    let of_dsl = |error| of_dsl(plan.wants(), &plan.name, &error);
    let access = imported.access();
    let access = access.map_err(|error| of_sync(imported.name(), error))?;
    match plan.keys()? {
        Some(keys) => access.open_raw(dataset, raw_header(keys)).map_err(of_dsl),
        None => {
            let open = access.open(dataset).map_err(of_dsl)?;
            open.set().set_owner_hook(Arc::new(PosixOwnerHook));
            Ok(open)
        }
    }
}

/// The reason in the message about a resumable stream; `None` if it cannot be resumed.
fn worth_keeping(dataset: &DatasetName, error: &StreamError) -> Option<String> {
    match error {
        StreamError::Full { refusal, .. } => Some(no_room(dataset, *refusal).to_string()),
        StreamError::Cut { .. }
        | StreamError::Read { .. }
        | StreamError::Checksum { .. }
        | StreamError::Cancelled { .. }
        | StreamError::Record { .. } => Some("checksum mismatch or incomplete stream.".to_owned()),
        _ => None,
    }
}
