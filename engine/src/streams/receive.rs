//! `zfs receive`: the streams of a request, one after another (format/4 7).
//!
//! The client hands over the descriptor that the stream comes through, and the daemon reads it to
//! its end. What happens meanwhile goes back as notes, which the client words.

use super::input::{Input, Link};
use super::naming::name_here;
use super::plan::Plan;
use super::session::Session;
use super::tree::Extent;
use super::words::{INVALID, Wants, of_stream};
use crate::command::By;
use crate::context::Context;
use crate::datasets::create::with_parents;
use crate::errors::parse_name;
use crate::mounts::table::Mounts;
use cenote_control::model::{
    ControlError, Receive, ReceiveNaming, ReceiveNote, Response, StreamFault, StreamRefusal,
};
use cenote_control::protocol::Reply;
use cenote_dsl::DatasetName;
use cenote_ondisk::stream::package::{Package, PackageDataset};
use cenote_ondisk::stream::{Begin, BeginPayload, Feature, HeaderKind, RECORD_SIZE, Record};
use cenote_stream::{Reader, StreamError};
use std::fs::File;

/// A BEGIN and the list behind it.
struct Opening {
    begin: Begin,
    payload: Vec<u8>,
}

impl Opening {
    fn name(&self) -> String {
        String::from_utf8_lossy(&self.begin.to_name).into_owned()
    }
}

pub(crate) fn receive(
    context: &Context,
    mounts: &Mounts,
    asked: &Receive,
    by: &By<'_>,
    reply: &mut dyn Reply,
) -> Result<Response, ControlError> {
    let descriptor = reply.take_descriptor(0);
    let descriptor = descriptor.ok_or_else(|| ControlError::Internal {
        detail: "no stream came with the request".to_owned(),
    })?;
    let link = Link::new(reply);
    let input = Input {
        file: File::from(descriptor),
        link: &link,
    };
    let session = Session {
        context,
        mounts,
        asked,
        by,
        link: &link,
    };
    session.receive(&mut Reader::new(input))?;
    Ok(Response::Done)
}

impl Session<'_> {
    fn receive(&self, reader: &mut Reader<Input<'_>>) -> Result<(), ControlError> {
        self.check_target()?;
        let opening = self.next(reader)?;
        let Some(opening) = opening else {
            return Err(Wants::Unknown.refused(StreamRefusal::NotAStream));
        };
        let name = opening.name();
        let sent = name.split('@').next().unwrap_or_default().to_owned();
        if opening.begin.header_kind == HeaderKind::Substream {
            return self.one(reader, &opening, &sent, None);
        }
        self.package(reader, &opening, &sent)
    }

    /// Names that must be there, and those that cannot be.
    fn check_target(&self) -> Result<(), ControlError> {
        let target = &self.asked.target;
        let name = parse_name(target)?;
        let registry = &self.context.registry;
        let imported = registry
            .writable_pool(name.pool())
            .map_err(|error| match error {
                ControlError::PoolReadOnly { .. } => {
                    Wants::Unknown.refused(StreamRefusal::ReadOnlyPool)
                }
                other => other,
            })?;
        if self.asked.naming != ReceiveNaming::Below && imported.dsl().dataset(&name).is_err() {
            let dataset = target.to_owned();
            return Err(Wants::Unknown.refused(StreamRefusal::NoSuchTarget { dataset }));
        }
        Ok(())
    }

    fn next(&self, reader: &mut Reader<Input<'_>>) -> Result<Option<Opening>, ControlError> {
        let item = match reader.next_item() {
            Ok(Some(item)) => item,
            Ok(None) => return Ok(None),
            Err(error) => return Err(self.cannot_begin(&error)),
        };
        match &item.header.record {
            Record::Begin(begin) => Ok(Some(Opening {
                begin: Begin::clone(begin),
                payload: item.payload.to_vec(),
            })),
            _ => Ok(None),
        }
    }

    fn cannot_begin(&self, error: &StreamError) -> ControlError {
        let reason = match error {
            StreamError::NotAStream if self.link.taken.get() < RECORD_SIZE as u64 => {
                let fault = StreamFault::Unread;
                StreamRefusal::Broken { fault, cause: None }
            }
            StreamError::NotAStream => StreamRefusal::NotAStream,
            _ => match DatasetName::parse(&self.asked.target) {
                Ok(name) => return of_stream(Wants::Unknown, &name.dataset(), error),
                Err(_) => INVALID,
            },
        };
        Wants::Unknown.refused(reason)
    }

    /// The streams of a package, whose opening was read.
    fn package(
        &self,
        reader: &mut Reader<Input<'_>>,
        opening: &Opening,
        sent: &str,
    ) -> Result<(), ControlError> {
        let invalid = |_| Wants::Unknown.refused(INVALID);
        let list = Begin::list(&opening.payload).map_err(invalid)?;
        let package = match opening.payload.is_empty() {
            true => None,
            false => Some(Package::from_list(&list).map_err(invalid)?),
        };
        if self.asked.target.contains('@') && package.as_ref().is_some_and(|all| all.recursive) {
            return Err(Wants::Unknown.refused(StreamRefusal::ManySnapshots));
        }
        // The END of the header.
        self.next(reader)?;
        if let Some(package) = &package {
            self.align(package, sent, Extent::All)?;
        }
        while let Some(opening) = self.next(reader)? {
            self.one(reader, &opening, sent, package.as_ref())?;
        }
        match &package {
            Some(package) => {
                self.align(package, sent, Extent::Names)?;
                self.inherit_keys(package, sent)
            }
            None => Ok(()),
        }
    }

    /// Reports received file systems that could not be mounted.
    pub(super) fn complain_of_mounts(&self, failures: Vec<(String, ControlError)>) {
        for (name, error) in failures {
            let text = format!("cannot mount '{name}': {error}");
            self.link.tell(ReceiveNote::NotMounted(text));
        }
    }

    /// One stream, whose opening was read.
    fn one(
        &self,
        reader: &mut Reader<Input<'_>>,
        opening: &Opening,
        sent: &str,
        package: Option<&Package>,
    ) -> Result<(), ControlError> {
        let begin = &opening.begin;
        if begin.features.has(Feature::Dedup) || begin.features.has(Feature::DedupProperties) {
            return Err(Wants::Unknown.refused(StreamRefusal::Deduplicated));
        }
        let from = opening.name();
        let to = name_here(self.asked, sent, &from);
        let full = parse_name(&to)?;
        let snapshot = full.after_delimiter();
        let snapshot =
            snapshot.ok_or_else(|| Wants::Unknown.refused(StreamRefusal::NotASnapshot))?;
        let list = Begin::list(&opening.payload);
        let payload = list.and_then(|list| BeginPayload::from_list(&list));
        let payload = payload.map_err(|_| Wants::Unknown.refused(INVALID))?;
        let imported = self.context.registry.writable_pool(full.pool())?;
        let told = package.and_then(|package| dataset_of(package, begin));
        let name = self.place_of(begin, told, full.dataset())?;
        self.check_rights(&imported, &name)?;
        let is_new = begin.from_guid.0 == 0;
        if let (Some(package), Some(told), true) = (package, told, is_new) {
            self.adopt(package, (told, sent), &name)?;
        }
        let plan = Plan {
            asked: self.asked,
            imported: &imported,
            begin,
            payload: &payload,
            is_packaged: reader.is_packaged(),
            is_top: from.split('@').next() == Some(sent),
            is_of_beginning: package.is_some_and(|package| package.from_snapshot.is_none()),
            dataset: told,
            name,
            snapshot: snapshot.to_owned(),
        };
        let started = self.context.env.monotonic();
        let naming = self.asked.naming;
        let needs_parents =
            naming == ReceiveNaming::WithoutPool && plan.wants_new() && !self.asked.dry_run;
        let (context, mounts, by) = (self.context, self.mounts, self.by);
        let mut receive = || match self.asked.corrective {
            true => self.correct(reader, &plan),
            false => self.substream(reader, &imported, &plan),
        };
        let received = match needs_parents {
            true => {
                let done = with_parents(context, mounts, (&imported, &plan.name), by, receive)?;
                self.complain_of_mounts(done.1);
                done.0
            }
            false => receive()?,
        };
        if self.asked.dry_run {
            return Ok(());
        }
        let took = self.context.env.monotonic().saturating_sub(started);
        self.link.tell(ReceiveNote::End {
            bytes: received.bytes,
            nanoseconds: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
        });
        Ok(())
    }
}

/// The dataset of a package that a stream is of.
fn dataset_of<'a>(package: &'a Package, begin: &Begin) -> Option<&'a PackageDataset> {
    let has_snapshot = |dataset: &&PackageDataset| {
        let mut snapshots = dataset.snapshots.iter();
        snapshots.any(|snapshot| snapshot.guid == begin.to_guid)
    };
    package.datasets.iter().find(has_snapshot)
}
