//! Packages: the streams of several snapshots, and what a receiver should make of them.
//!
//! Source: format/4 5. A package is for whole trees of datasets (`-R`), for all snapshots between
//! two (`-I`), and for whatever a stream itself has no room for: properties (`-p`, `-b`) and holds
//! (`-h`). Its header lists datasets with their snapshots; then come their streams, each building
//! upon the one before it.
//!
//! A dataset's streams come behind those of its parent and of what it was cloned from, so that a
//! receiver always has what they build upon.

mod gather;
mod options;

pub use gather::{Gathered, Member, Sent, gather};
pub use options::PackageOptions;

use super::{Base, Snapshot, write_stream};
use crate::error::StreamError;
use crate::writer::Writer;
use cenote_base::Guid;
use cenote_dsl::Dataset;
use cenote_ondisk::stream::{Begin, ByteOrder, End, Feature, HeaderKind, Record, StreamFeatures};
use std::io::Write;

/// Writes the package for `target`, a snapshot, since `base`, a snapshot of it or of what it was
/// cloned from.
///
/// # Errors
/// If the snapshots do not belong together, something of them cannot be read, or `sink` takes no
/// more.
pub fn send_package(
    target: &Dataset,
    base: Option<&Dataset>,
    options: &PackageOptions,
    sink: impl Write,
) -> Result<u64, StreamError> {
    let gathered = gather(target, base, options)?;
    let streams = gathered.in_order()?;
    let contents = (&gathered, streams.as_slice());
    write_package(target, contents, options, &mut |_| (), sink)
}

/// Writes the package of what was gathered for `target` and its streams, in their order.
/// `on_stream` is called for each snapshot when its stream begins.
///
/// # Errors
/// If something cannot be read, or `sink` takes no more.
pub fn write_package(
    target: &Dataset,
    (gathered, streams): (&Gathered, &[Sent]),
    options: &PackageOptions,
    on_stream: &mut dyn FnMut(&Dataset),
    sink: impl Write,
) -> Result<u64, StreamError> {
    let mut writer = Writer::new(sink, ByteOrder::Little);
    write_header(target, gathered, options, &mut writer)?;
    for sent in streams {
        on_stream(&sent.snapshot);
        let snapshot = Snapshot::of(&sent.snapshot)?;
        let snapshot = match &sent.redaction {
            Some(list) => snapshot.without(list),
            None => snapshot,
        };
        let base = match (&sent.base, &sent.bookmark) {
            (Some(base), _) => Some(Base::snapshot(base, &sent.snapshot)?),
            (None, Some(bookmark)) => Some(Base::bookmark(bookmark, &sent.snapshot)?),
            (None, None) => None,
        };
        write_stream(&snapshot, base.as_ref(), options.blocks, None, &mut writer)?;
    }
    writer.record(&Record::End(End::default()), &[])?;
    let bytes = writer.offset();
    writer.finish()?;
    Ok(bytes)
}

fn write_header(
    target: &Dataset,
    gathered: &Gathered,
    options: &PackageOptions,
    writer: &mut Writer<impl Write>,
) -> Result<(), StreamError> {
    let packed = match options.has_list() {
        true => gathered.package.to_list().encode_xdr(),
        false => Vec::new(),
    };
    let payload_length = u32::try_from(packed.len()).ok();
    let payload_length = payload_length
        .filter(|length| *length <= cenote_ondisk::stream::BEGIN_PAYLOAD_MAX)
        .ok_or(StreamError::Unsendable {
            problem: "the list of its datasets and snapshots is too long",
        })?;
    let features = match options.holds {
        true => StreamFeatures::default().with(Feature::Holds),
        false => StreamFeatures::default(),
    };
    let begin = Begin {
        payload_length,
        header_kind: HeaderKind::Package,
        features,
        creation_time: 0,
        objset_type: 0,
        flags: 0,
        to_guid: Guid(0),
        from_guid: Guid(0),
        to_name: target.name().to_string().into_bytes(),
    };
    writer.record(&Record::Begin(Box::new(begin)), &packed)?;
    writer.record(&Record::End(End::default()), &[])
}
