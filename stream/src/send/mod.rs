//! Sending: a snapshot, or the way to it from an older one, as a stream.
//!
//! Source: format/4 4. A walk over the snapshot's blocks, in the order of objects and offsets,
//! visits the blocks born after the older snapshot and skips whole trees without any. Each block of
//! dnodes gives a record for each of its objects and for each free slot. Each data block gives a
//! record with its contents, and each hole a record as well. Two snapshots are never compared:
//! birth times are enough. So a bookmark, which has only a time, is as good a base as a snapshot.
//!
//! [`Snapshot`] describes what is sent, and [`Base`] what the receiver already has. [`Options`]
//! says how blocks go into the stream: as they are stored or decompressed, or raw, so that no keys
//! are needed on the way. BEGIN announces features to the receiver; it never announces one that the
//! snapshot does not use.
//!
//! A package ([`package`]) is a list of snapshots, and their streams one after another.
//!
//! A head is sent like a snapshot, if it does not change meanwhile. Its stream has a guid of the
//! contents ([`guid_of_head`]). A partly received head is sent in part: without an END.
//!
//! Damage ends a stream, because a stream cannot say that data is missing. Only what a redaction
//! list names is left out ([`Snapshot::without`]), and the stream says what that is.

mod ahead;
mod block;
mod emit;
pub mod estimate;
mod options;
pub mod package;
mod raw;
mod redacted;
mod sending;
mod snapshot;
mod walk;

pub use options::Options;
pub use snapshot::{Base, HEAD_SUFFIX, Resume, Snapshot, guid_of_head};

use crate::error::{StreamError, unreadable};
use crate::writer::Writer;
use cenote_ondisk::NvList;
use cenote_ondisk::stream::{
    Begin, BeginPayload, ByteOrder, End, Feature, HeaderKind, Record, StreamFeatures, flags,
};
use std::io::Write;

/// Writes the stream of `snapshot` to `sink`: what changed since `base`, or everything. With
/// `resume` only what comes from there on.
///
/// # Errors
/// If something of the snapshot cannot be read, or `sink` takes no more.
pub fn send(
    snapshot: &Snapshot,
    base: Option<&Base>,
    options: Options,
    resume: Option<Resume>,
    sink: impl Write,
) -> Result<u64, StreamError> {
    let mut writer = Writer::new(sink, ByteOrder::Little);
    write_stream(snapshot, base, options, resume, &mut writer)?;
    let bytes = writer.offset();
    writer.finish()?;
    Ok(bytes)
}

/// A stream, perhaps one of several.
fn write_stream(
    snapshot: &Snapshot,
    base: Option<&Base>,
    options: Options,
    resume: Option<Resume>,
    writer: &mut Writer<impl Write>,
) -> Result<(), StreamError> {
    let options = options.complete();
    let features = features(snapshot, options, resume)?;
    let payload = BeginPayload {
        redact_snapshots: snapshot.redaction.clone(),
        redact_from_snapshots: base.and_then(|base| base.redaction.clone()),
        resume,
        crypt: match features.has(Feature::Raw) {
            true => Some(raw::keydata(snapshot, base)?),
            false => None,
        },
    };
    let list = payload.to_list();
    let packed = pack(&list);
    let begin = Begin {
        payload_length: u32::try_from(packed.len()).unwrap_or(u32::MAX),
        header_kind: HeaderKind::Substream,
        features,
        creation_time: snapshot.creation_time,
        objset_type: snapshot.objset_type(),
        flags: flags_of(snapshot, base),
        to_guid: snapshot.guid,
        from_guid: base.map_or_else(Default::default, |base| base.guid),
        to_name: snapshot.name.clone(),
    };
    writer.record(&Record::Begin(Box::new(begin)), &packed)?;
    walk::walk(snapshot, base, features, resume, writer)?;
    if snapshot.is_partial {
        return Ok(());
    }
    let end = End {
        to_guid: snapshot.guid,
        ..End::default()
    };
    writer.record(&Record::End(end), &[])
}

/// The list as it stands behind BEGIN; nothing if it is empty.
fn pack(list: &NvList) -> Vec<u8> {
    match list.is_empty() {
        true => Vec::new(),
        false => list.encode_native(),
    }
}

fn flags_of(snapshot: &Snapshot, base: Option<&Base>) -> u32 {
    let mut bits = flags::FREE_RECORDS | flags::SPILL_BLOCKS;
    if base.is_some_and(|base| base.is_foreign) {
        bits |= flags::CLONE;
    }
    if snapshot.ignores_case {
        bits |= flags::CASE_INSENSITIVE;
    }
    bits
}

/// What BEGIN announces (format/4 3).
fn features(
    snapshot: &Snapshot,
    options: Options,
    resume: Option<Resume>,
) -> Result<StreamFeatures, StreamError> {
    let is_raw = options.raw && snapshot.is_encrypted();
    let embeds = options.embedded && !snapshot.is_encrypted() && snapshot.pool.embedded_data;
    let wishes = [
        (Feature::SaSpill, snapshot.has_system_attributes),
        (Feature::EmbedData, embeds),
        (
            Feature::Lz4,
            (embeds || options.compressed || is_raw) && snapshot.pool.lz4,
        ),
        (
            Feature::LargeBlocks,
            options.large_blocks && snapshot.uses.large_blocks,
        ),
        (Feature::Resuming, resume.is_some()),
        (Feature::Redacted, snapshot.redaction.is_some()),
        (Feature::Compressed, options.compressed || is_raw),
        (Feature::LargeDnode, snapshot.uses.large_dnodes),
        (Feature::Raw, is_raw),
        (
            Feature::Zstd,
            (options.compressed || is_raw) && snapshot.uses.zstd,
        ),
        (Feature::LongName, snapshot.uses.long_names),
        (Feature::LargeMicrozap, snapshot.uses.large_microzaps),
    ];
    let chosen = wishes.iter().filter(|(_, is_wished)| *is_wished);
    let features = chosen.fold(StreamFeatures::default(), |features, (one, _)| {
        features.with(*one)
    });
    if features.has(Feature::LargeMicrozap) && !features.has(Feature::LargeBlocks) {
        return Err(StreamError::Unsendable {
            problem: "it has large micro-ZAPs, which need large blocks (-L)",
        });
    }
    Ok(features)
}
