//! A stream's summary as text and numbers.

use crate::files::show::Clock;
use crate::pools::inspect::node::{Members, Node};
use cenote_dsl::resume_token::to_text;
use cenote_ondisk::stream::package::{Package, PackageDataset};
use cenote_ondisk::stream::{ByteOrder, Feature, flags, kind, kind_name};
use cenote_stream::inspect::{Counts, Ending, StreamKind, StreamSummary, Summary};

/// Everything about the stream in `file`.
pub(super) fn summary(file: &str, summary: &Summary) -> Node {
    let mut members = Members::new();
    ending(&mut members, file, summary);
    let order = match summary.byte_order {
        ByteOrder::Little => "little-endian",
        ByteOrder::Big => "big-endian",
    };
    members.put("byte_order", order);
    if let Some((begin, held)) = &summary.package {
        members.put("package", package(&begin.to_name, held));
        if summary.packages > 1 {
            members.put("packages", summary.packages);
        }
    }
    let streams: Vec<Node> = summary.streams.iter().map(stream).collect();
    members.put("streams", streams);
    if summary.streams_left_out > 0 {
        members.put("streams_left_out", summary.streams_left_out);
    }
    if summary.streams.len() as u64 + summary.streams_left_out > 1 {
        members.put("all_records", counts(&summary.counts));
    }
    members.into()
}

/// Whether the stream is complete, or where and why it is not.
pub(super) fn ending(members: &mut Members, file: &str, summary: &Summary) {
    members.put("file", file);
    members.put("bytes", summary.bytes);
    members.put("records", records(summary));
    members.put("whole", summary.is_whole());
    if let Ending::Broken { error, .. } = &summary.ending {
        members.put("error", crate::zstream::chain(error));
        members.put_some("resume_token", token(&summary.ending));
    }
}

/// How many records were read.
pub(super) fn records(summary: &Summary) -> u64 {
    summary.counts.iter().map(|count| count.records).sum()
}

/// The resume token that a receiver of a broken stream would have.
pub(super) fn token(ending: &Ending) -> Option<String> {
    match ending {
        Ending::Broken { resume, .. } => resume.as_deref().and_then(to_text),
        Ending::Whole => None,
    }
}

fn guid(guid: cenote_base::Guid) -> Node {
    guid.0.to_string().into()
}

fn stream(stream: &StreamSummary) -> Node {
    let begin = &stream.begin;
    let mut members = Members::new();
    members.put("snapshot", Node::Name(begin.to_name.clone()));
    let kind = match stream.kind() {
        StreamKind::Full => "full",
        StreamKind::Incremental => "incremental",
        StreamKind::Clone => "clone",
    };
    members.put("kind", kind);
    let objset = match begin.objset_type {
        2 => "filesystem".to_owned(),
        3 => "volume".to_owned(),
        other => format!("object set of type {other}"),
    };
    members.put("type", objset);
    members.put("guid", guid(begin.to_guid));
    if begin.from_guid.0 != 0 {
        members.put("from_guid", guid(begin.from_guid));
    }
    members.put("created", Clock::local().seconds(begin.creation_time));
    let features = begin.features.iter().map(Feature::name);
    members.put("features", features.map(Node::from).collect::<Vec<_>>());
    if begin.flags & flags::CASE_INSENSITIVE != 0 {
        members.put("ignores_case", true);
    }
    special(&mut members, stream);
    members.put("begins_at", stream.place.offset);
    members.put("bytes", stream.bytes);
    members.put("bytes_expanded", stream.logical_bytes);
    members.put("records", counts(&stream.counts));
    members.put("whole", stream.is_whole);
    members.into()
}

/// Properties that only some streams have.
fn special(members: &mut Members, stream: &StreamSummary) {
    let guids = |guids: &[u64]| {
        let guids = guids.iter().map(|guid| Node::from(guid.to_string()));
        guids.collect::<Vec<_>>()
    };
    let payload = &stream.payload;
    if let Some((object, offset)) = payload.resume {
        members.put("resumes_at_object", object.0);
        members.put("resumes_at_offset", offset);
    }
    members.put_some(
        "redacted_to",
        payload.redact_snapshots.as_deref().map(guids),
    );
    members.put_some(
        "from_redacted_to",
        payload.redact_from_snapshots.as_deref().map(guids),
    );
    if let Some(keys) = &payload.crypt {
        let suite = cenote_ondisk::crypto_key::EncryptionSuite::from_number(keys.suite);
        members.put("encryption", suite.map_or("unknown", |suite| suite.name()));
        members.put("key_guid", guid(keys.guid));
        members.put_some("ivset_guid", keys.to_ivset_guid.map(guid));
        members.put_some("from_ivset_guid", keys.from_ivset_guid.map(guid));
    }
}

fn counts(counts: &Counts) -> Node {
    let mut members = Members::new();
    for (number, count) in counts
        .iter()
        .enumerate()
        .filter(|(_, count)| count.records > 0)
    {
        let mut one = Members::new();
        one.put("records", count.records);
        if count.payload > 0 {
            one.put("payload_bytes", count.payload);
        }
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        debug_assert!((number as usize) < kind::COUNT);
        members.put(kind_name(number), one);
    }
    members.into()
}

fn package(name: &[u8], package: &Package) -> Node {
    let mut members = Members::new();
    members.put("name", Node::Name(name.to_vec()));
    members.put("snapshot", Node::Name(package.to_snapshot.clone()));
    let from = package.from_snapshot.clone();
    members.put_some("from_snapshot", from.map(Node::Name));
    members.put("recursive", package.recursive);
    members.put("raw", package.raw);
    let datasets: Vec<Node> = package.datasets.iter().map(dataset).collect();
    members.put("datasets", datasets);
    members.into()
}

fn dataset(dataset: &PackageDataset) -> Node {
    let mut members = Members::new();
    members.put("name", Node::Name(dataset.name.clone()));
    members.put("guid", guid(dataset.guid));
    members.put_some("origin", dataset.origin.map(guid));
    if dataset.is_encryption_root {
        members.put("encryption_root", true);
    }
    members.put_some("properties", dataset.properties.as_ref().map(Node::from));
    let snapshots = dataset.snapshots.iter().map(|snapshot| {
        let mut one = Members::new();
        one.put("name", Node::Name(snapshot.name.clone()));
        one.put("guid", guid(snapshot.guid));
        if !snapshot.properties.is_empty() {
            one.put("properties", Node::from(&snapshot.properties));
        }
        let holds = snapshot
            .holds
            .iter()
            .map(|(tag, _)| Node::Name(tag.clone()));
        let holds: Vec<Node> = holds.collect();
        if !holds.is_empty() {
            one.put("holds", holds);
        }
        one.into()
    });
    members.put("snapshots", snapshots.collect::<Vec<Node>>());
    members.into()
}
