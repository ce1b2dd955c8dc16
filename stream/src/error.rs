//! What can be wrong with a stream, and where.

use cenote_dataset::SpaceRefusal;
use cenote_dmu::DmuError;
use cenote_dsl::{DatasetName, DslError};
use cenote_ondisk::DecodeError;
use cenote_ondisk::stream::Checksum;
use cenote_redaction::RedactionError;
use std::fmt;
use std::io;

/// Where in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the stream's start to the record's.
    pub offset: u64,
    /// The record's number, from 0.
    pub record: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} at byte {}", self.record, self.offset)
    }
}

/// A stream cannot be read on, or cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Where it comes from cannot be read.
    #[error("{place}: cannot read")]
    Read {
        /// The record that was being read.
        place: Place,
        /// What the system says.
        source: io::Error,
    },
    /// Where it goes cannot be written.
    #[error("cannot write at byte {offset}")]
    Write {
        /// Bytes written before.
        offset: u64,
        /// What the system says.
        source: io::Error,
    },
    /// It does not begin as streams do.
    #[error("this is no send stream")]
    NotAStream,
    /// It ends before it should.
    #[error("{place}: the stream is cut off here, {missing}")]
    Cut {
        /// The record that is not whole.
        place: Place,
        /// What is missing.
        missing: Missing,
    },
    /// A record, or one before it, was changed on its way.
    #[error("{place}: checksum mismatch")]
    Checksum {
        /// The record whose checksum is not that of what came before.
        place: Place,
        /// What the record has.
        stored: Checksum,
        /// What was read.
        computed: Checksum,
    },
    /// A record does not decode.
    #[error("{place}")]
    Record {
        /// The record.
        place: Place,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// A record cannot stand where it does, or no receiver would take it.
    #[error("{place}: {record} {problem}")]
    Grammar {
        /// The record.
        place: Place,
        /// The name of its kind.
        record: &'static str,
        /// What is wrong.
        problem: Problem,
    },
    /// Something of a snapshot that is being sent cannot be read.
    #[error("cannot read the snapshot")]
    Snapshot {
        /// What, and why.
        source: Box<DslError>,
    },
    /// What is to be left out, or to be sent again, is not known.
    #[error(transparent)]
    Redaction(#[from] RedactionError),
    /// There is no stream for what is to be sent.
    #[error("cannot send: {problem}")]
    Unsendable {
        /// Why not.
        problem: &'static str,
    },
    /// Properties of an encrypted dataset would go beside contents that are not.
    #[error(
        "encrypted dataset {dataset} may not be sent with properties without the raw flag \
         or no-preserve-encryption flag\n\
         use '-w' to send it as it is stored, '-U' to send it decrypted, or send its snapshots \
         one by one without properties"
    )]
    NotRaw {
        /// The dataset.
        dataset: DatasetName,
        /// The snapshot's short name.
        snapshot: String,
    },
    /// A dataset in the tree does not have the snapshot.
    #[error("snapshot {dataset}@{snapshot} does not exist")]
    NoSnapshot {
        /// The dataset.
        dataset: DatasetName,
        /// The snapshot's short name.
        snapshot: String,
    },
    /// A dataset would have to be received before what it was cloned from, and behind it.
    #[error(
        "{dataset} was cloned from what can only be received behind it; 'zfs promote {dataset}' \
         turns that around"
    )]
    Circle {
        /// The dataset.
        dataset: DatasetName,
    },
    /// A record cannot be applied.
    #[error("{place}: {record} cannot be applied")]
    Apply {
        /// The record.
        place: Place,
        /// The name of its kind.
        record: &'static str,
        /// Why not.
        source: Box<DmuError>,
    },
    /// The dataset may not grow by what a record brings.
    #[error("{place}: {refusal}")]
    Full {
        /// The record.
        place: Place,
        /// Why not.
        refusal: SpaceRefusal,
    },
    /// The dataset was closed while the stream came.
    #[error("{place}: the dataset was closed")]
    Closed {
        /// The record that was not applied.
        place: Place,
    },
    /// The caller cancelled the operation.
    #[error("{place}: interrupted")]
    Cancelled {
        /// The record that was not applied.
        place: Place,
    },
    /// A stream is not the rest of the one that it was to complete.
    #[error("{place}: this stream does not continue where the other one ends")]
    NotTheRest {
        /// The record that shows it.
        place: Place,
    },
    /// A requested change is impossible for this stream.
    #[error("{place}: {refusal}")]
    Refused {
        /// The record that prevents it.
        place: Place,
        /// Why.
        refusal: Refusal,
    },
}

/// What cannot be read of a snapshot.
pub(crate) fn unreadable(error: impl Into<DslError>) -> StreamError {
    StreamError::Snapshot {
        source: Box::new(error.into()),
    }
}

/// What a cut stream lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The next record, or the END.
    Record,
    /// This many bytes of a record's header.
    Header(u64),
    /// This many bytes of a record's payload.
    Payload(u64),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record => write!(f, "before its end"),
            Self::Header(bytes) => write!(f, "{bytes} bytes short of a record"),
            Self::Payload(bytes) => write!(f, "{bytes} bytes short of a record's payload"),
        }
    }
}

/// Why a record cannot stand where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A record outside of any stream, or a stream within another.
    #[error("is out of place")]
    OutOfPlace,
    /// The features have bits that no receiver takes.
    #[error("asks for unknown features {0:#x}")]
    Features(u64),
    /// It names another snapshot than BEGIN.
    #[error("belongs to another snapshot")]
    Snapshot,
    /// It comes before one that it should follow.
    #[error("of object {0} comes after what it should precede")]
    Order(u64),
    /// A field has a value that receivers refuse.
    #[error("has {value:#x} for its {field}, which no receiver takes")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// It is about an object that is not there.
    #[error("is of object {0}, which is not there")]
    NoObject(u64),
    /// Its payload is not what it says.
    #[error("has a payload that does not decompress")]
    Payload,
    /// It needs a feature that is not in BEGIN.
    #[error("needs the feature {0}, which the stream does not have")]
    Needs(&'static str),
}

/// Why a stream cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Its blocks are encrypted.
    #[error("the stream is raw: its blocks cannot be recompressed")]
    Raw,
    /// A block refers to one that was not there.
    #[error("the block refers to one that the stream does not have before it")]
    Reference,
    /// There are more blocks to remember than [`crate::repair`] takes.
    #[error("the stream has more blocks than can be remembered")]
    TooManyBlocks,
    /// A block is not as large as it would have to be if it were not compressed.
    #[error("the block has not the size of one that is not compressed")]
    Size,
    /// A compressed block does not expand.
    #[error("the block does not decompress")]
    Block,
}
