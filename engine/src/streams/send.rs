//! `zfs send`: a snapshot, or many, to the descriptor that a client hands over (format/4 8).
//!
//! The source cannot change during a send: snapshots are pinned in memory, and a head is frozen, so
//! it must not be in use. On request, the contents and estimated size of the stream are reported
//! first.

use super::order::{Order, Source, refused};
use super::output::{Link, Output};
use super::words::other;
use crate::errors::of_dsl;
use crate::registry::rights::Rights;
use crate::registry::table::Registry;
use cenote_control::model::{ControlError, Response, Send, SendNote, StreamAct, StreamRefusal};
use cenote_control::protocol::Reply;
use cenote_dsl::write::RECEIVE_CHILD;
use cenote_dsl::{Dataset, DslError, KeyStatus};
use cenote_stream::StreamError;
use cenote_stream::send::estimate::{Known, estimate};
use cenote_stream::send::package::{Gathered, PackageOptions, Sent, gather, write_package};
use cenote_stream::send::{Base, Snapshot};
use std::io::{BufWriter, ErrorKind, Write};

/// What is gathered before it is written, in bytes.
const BUFFER: usize = 1 << 20;

pub(crate) fn send(
    registry: &Registry,
    asked: &Send,
    rights: Option<&Rights>,
    reply: &mut dyn Reply,
) -> Result<Response, ControlError> {
    let descriptor = reply.take_descriptor(0);
    let order = Order::of(registry, asked)?;
    order.check(rights, &order.target)?;
    let sending = Sending {
        name: match asked.saved {
            true => asked.target.clone(),
            false => order.target.name().to_string(),
        },
        order,
        link: Link::new(reply),
    };
    let mut pins = sending.order.imported.sent.pins();
    let gathered = sending.gathered()?;
    let streams = sending.streams(gathered.as_ref())?;
    for sent in &streams {
        sending.order.check(rights, &sent.snapshot)?;
        pins.add(sent.snapshot.id());
        sent.base.iter().for_each(|base| pins.add(base.id()));
    }
    if asked.estimates {
        sending.tell_sizes(&streams)?;
    }
    if asked.dry_run {
        return Ok(Response::Done);
    }
    sending.check_keys(&streams)?;
    let descriptor = descriptor.ok_or_else(|| ControlError::Internal {
        detail: "no place for the stream came with the request".to_owned(),
    })?;
    let output = Output::new(descriptor, &sending.link);
    let mut output = BufWriter::with_capacity(BUFFER, output);
    match &gathered {
        Some((options, gathered)) => sending.package((gathered, &streams), options, &mut output)?,
        None => {
            sending.link.begin(&sending.name);
            sending.write_one(&mut output)?;
        }
    }
    output
        .flush()
        .map_err(|error| sending.not_written(&error))?;
    Ok(Response::Done)
}

struct Sending<'a> {
    name: String,
    order: Order,
    link: Link<'a>,
}

impl Sending<'_> {
    /// What goes into a package, if it is one.
    fn gathered(&self) -> Result<Option<(&PackageOptions, Gathered)>, ControlError> {
        let Some(options) = &self.order.package else {
            return Ok(None);
        };
        let base = match &self.order.source {
            Source::Snapshot(base) => Some(base.as_ref()),
            _ => None,
        };
        let gathered = gather(&self.order.target, base, options);
        let gathered = gathered.map_err(|error| self.cannot(&error))?;
        for dataset in &gathered.skipped {
            self.link.tell(SendNote::Skipped {
                dataset: dataset.to_string(),
                snapshot: String::from_utf8_lossy(&gathered.package.to_snapshot).into_owned(),
            });
        }
        Ok(Some((options, gathered)))
    }

    /// The streams that it is made of, in order.
    fn streams(
        &self,
        gathered: Option<&(&PackageOptions, Gathered)>,
    ) -> Result<Vec<Sent>, ControlError> {
        if let Some((_, gathered)) = gathered {
            let mut streams = gathered.in_order().map_err(|error| self.cannot(&error))?;
            // A package from a bookmark has one stream.
            if let (Source::Bookmark(bookmark), Some(sent)) =
                (&self.order.source, streams.last_mut())
            {
                sent.bookmark = Some(bookmark.clone());
            }
            if let (Some(list), Some(sent)) = (&self.order.redaction, streams.last_mut()) {
                sent.redaction = Some(list.clone());
            }
            return Ok(streams);
        }
        let reopen = |dataset: &Dataset| {
            let dsl = dataset.dsl();
            dsl.dataset_of(dataset.id()).map_err(of_dsl)
        };
        Ok(vec![Sent {
            snapshot: reopen(&self.order.target)?,
            base: match &self.order.source {
                Source::Snapshot(base) => Some(reopen(base)?),
                _ => None,
            },
            bookmark: None,
            redaction: None,
        }])
    }

    /// Refuses what could not be read, before anything is written.
    fn check_keys(&self, streams: &[Sent]) -> Result<(), ControlError> {
        if self.order.blocks.raw {
            return Ok(());
        }
        for sent in streams {
            let directory = sent.snapshot.directory();
            let status = directory.dsl().key_status(directory).map_err(of_dsl)?;
            if status == KeyStatus::Unavailable {
                return Err(refused(
                    &sent.snapshot.name().to_string(),
                    StreamRefusal::KeyNotLoaded,
                ));
            }
        }
        Ok(())
    }

    fn tell_sizes(&self, streams: &[Sent]) -> Result<(), ControlError> {
        let mut total = 0_u64;
        for sent in streams {
            let bytes = self.size(sent)?;
            total = total.saturating_add(bytes);
            self.link.tell(SendNote::Stream {
                from: self.source_name(sent),
                to: sent.snapshot.name().to_string(),
                bytes,
            });
        }
        self.link.tell(SendNote::Total { bytes: total });
        Ok(())
    }

    /// What a stream starts from: in a package the name after the dataset's.
    fn source_name(&self, sent: &Sent) -> Option<String> {
        let full = match (&sent.base, &self.order.source) {
            (Some(base), _) => base.name().to_string(),
            (None, Source::Bookmark(bookmark)) => bookmark.name.to_string(),
            _ => return None,
        };
        let is_packaged = self.order.package.is_some();
        let short = full.split_once('@').filter(|_| is_packaged);
        Some(short.map_or(full.clone(), |(_, short)| short.to_owned()))
    }

    fn size(&self, sent: &Sent) -> Result<u64, ControlError> {
        let known = match (&sent.base, &self.order.source) {
            (Some(base), _) => Known::Snapshot(base),
            (None, Source::Bookmark(bookmark)) => Known::Bookmark(bookmark),
            _ => Known::Nothing,
        };
        let blocks = self.order.blocks.complete();
        let size = match self.order.is_redaction() {
            true => None,
            false => estimate(&sent.snapshot, known, blocks.compressed)
                .map_err(|error| self.cannot(&error))?,
        };
        let done = self.order.resume.map_or(0, |(_, bytes)| bytes);
        match size {
            Some(size) => Ok(size.saturating_sub(done)),
            // Write the stream once without output, to count its bytes.
            None => self.write_one(std::io::sink()),
        }
    }

    fn package(
        &self,
        contents: (&Gathered, &[Sent]),
        options: &PackageOptions,
        output: &mut impl Write,
    ) -> Result<(), ControlError> {
        let mut begin = |snapshot: &Dataset| self.link.begin(snapshot.name().as_str());
        let sent = write_package(&self.order.target, contents, options, &mut begin, output);
        sent.map(drop).map_err(|error| self.cannot(&error))
    }

    /// Writes a stream that is no package; the bytes that it has.
    fn write_one(&self, output: impl Write) -> Result<u64, ControlError> {
        let order = &self.order;
        let write = || {
            let snapshot = match &order.partial {
                Some(token) => Snapshot::of_partial(&order.target, token)?,
                None => Snapshot::of(&order.target)?,
            };
            let snapshot = match &order.redaction {
                Some(list) => snapshot.without(list),
                None => snapshot,
            };
            let is_hidden = order.target.name().as_str().ends_with(RECEIVE_CHILD);
            let base = match &order.source {
                Source::Nothing => None,
                Source::Snapshot(base) if is_hidden => {
                    Some(Base::snapshot(base, &order.target)?.own())
                }
                Source::Snapshot(base) => Some(Base::snapshot(base, &order.target)?),
                Source::Bookmark(bookmark) => Some(Base::bookmark(bookmark, &order.target)?),
            };
            let resume = order.resume.map(|(place, _)| place);
            cenote_stream::send::send(&snapshot, base.as_ref(), order.blocks, resume, output)
        };
        write().map_err(|error| self.cannot(&error))
    }

    /// Why it is not sent, in OpenZFS's words where it has some (format/4 9).
    fn cannot(&self, error: &StreamError) -> ControlError {
        match error {
            StreamError::Write { source, .. } => self.not_written(source),
            StreamError::Snapshot { source } => match source.as_ref() {
                DslError::KeyRequired { .. } => refused(&self.name, StreamRefusal::KeyNotLoaded),
                source => refused(&self.name, other(source)),
            },
            StreamError::NotRaw { dataset, snapshot } => {
                let snapshot = format!("{dataset}@{snapshot}");
                ControlError::stream(StreamAct::SendOne { snapshot }, other(error))
            }
            error => refused(&self.name, other(error)),
        }
    }

    fn not_written(&self, error: &std::io::Error) -> ControlError {
        match error.kind() {
            ErrorKind::BrokenPipe => refused(&self.name, StreamRefusal::BrokenPipe),
            ErrorKind::ConnectionAborted => refused(&self.name, StreamRefusal::Signal),
            _ => refused(&self.name, other(error)),
        }
    }
}
