//! A commit: what it changes, and the state of the device once it is made.
//!
//! ```text
//! parent    hash of the commit before, 32 bytes; zeros in the first
//! tip       writer u64, first commit of the writer's session, host (bytes), written (seconds
//!           since 1970), flags u8, size in bytes, log id 16, log position, log hash 32, txg,
//!           devices it needs (count 0), newest checkpoint + 1 or 0, next object
//! objects   count, then length and class of each; numbers count up to the next object
//! extents   see super::extents
//! inline    bytes
//! ```
//!
//! All numbers without a size are varints. Flags: 1 released, 2 ends at a flush, 4 the txg is
//! complete, 8 begins a session.
//!
//! *The fence*: a commit is put under its number on the condition that the name is free, so two
//! writers cannot both continue from one commit. The put's answer may be lost; a writer that finds
//! the name taken compares the bytes.

use super::{
    Class, CommitNumber, Decoder, Encoder, Envelope, Extent, FormatError, Hash, Kind, ObjectNumber,
    SECTOR, Target, Uuid, WriterId, device, extents, open, seal,
};

/// Bytes of a host's name.
const HOST_MAX: usize = 255;

/// How far a log has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPoint {
    /// Which log, random at its creation.
    pub id: [u8; 16],
    /// Bytes of records before this point.
    pub position: u64,
    /// Their hash.
    pub hash: Hash,
}

/// The state of the device as of a commit, apart from the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tip {
    /// The commit.
    pub number: CommitNumber,
    /// The writer.
    pub writer: WriterId,
    /// The first commit of that writer.
    pub session: CommitNumber,
    /// The host that the writer ran on, for people.
    pub host: String,
    /// When, in seconds since 1970 by the writer's clock.
    pub written: u64,
    /// The writer is done, and any other may continue.
    pub is_released: bool,
    /// Everything that was written before some flush is in it, and nothing that came later.
    pub ends_flush: bool,
    /// Bytes of the device.
    pub size: u64,
    /// What is in the store of the writer's log.
    pub log: LogPoint,
    /// The newest transaction group that the pool named.
    pub txg: u64,
    /// Whether all of that group is in it.
    pub is_txg_complete: bool,
    /// The newest checkpoint that the writer knew.
    pub checkpoint: Option<CommitNumber>,
    /// The number of the next data object.
    pub next_object: ObjectNumber,
}

impl Tip {
    pub(super) fn encode(&self, encoder: &mut Encoder) {
        encoder.u64(self.writer.0);
        encoder.varint(self.session.0);
        let host = self.host.as_bytes();
        encoder.bytes(&host[..host.len().min(HOST_MAX)]);
        encoder.varint(self.written);
        let is_first = self.session == self.number;
        let flags = [
            self.is_released,
            self.ends_flush,
            self.is_txg_complete,
            is_first,
        ];
        let flags = flags.iter().enumerate();
        encoder.u8(flags.map(|(bit, flag)| u8::from(*flag) << bit).sum());
        encoder.varint(self.size);
        encoder.raw(&self.log.id);
        encoder.varint(self.log.position);
        encoder.raw(&self.log.hash.0);
        encoder.varint(self.txg);
        encoder.varint(0);
        encoder.varint(self.checkpoint.map_or(0, |number| number.0 + 1));
        encoder.varint(self.next_object.0);
    }

    pub(super) fn decode(
        number: CommitNumber,
        decoder: &mut Decoder<'_>,
    ) -> Result<Self, FormatError> {
        let writer = WriterId(decoder.u64()?);
        let session = CommitNumber(decoder.varint()?);
        let host = decoder.bytes()?;
        if host.len() > HOST_MAX || session > number {
            return Err(FormatError::Invalid("session"));
        }
        let host = String::from_utf8_lossy(host).into_owned();
        let written = decoder.varint()?;
        let flags = decoder.u8()?;
        let size = decoder.varint()?;
        device::check_size(size)?;
        let log = LogPoint {
            id: decoder.array()?,
            position: decoder.varint()?,
            hash: Hash(decoder.array()?),
        };
        let txg = decoder.varint()?;
        if decoder.varint()? != 0 || flags > 15 {
            return Err(FormatError::Unsupported);
        }
        let checkpoint = decoder.varint()?.checked_sub(1).map(CommitNumber);
        if checkpoint.is_some_and(|checkpoint| checkpoint > number) {
            return Err(FormatError::Invalid("checkpoint"));
        }
        Ok(Self {
            number,
            writer,
            session,
            host,
            written,
            is_released: flags & 1 != 0,
            ends_flush: flags & 2 != 0,
            size,
            log,
            txg,
            is_txg_complete: flags & 4 != 0,
            checkpoint,
            next_object: ObjectNumber(decoder.varint()?),
        })
    }
}

/// A data object that a commit brings into the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewObject {
    /// Which one.
    pub number: ObjectNumber,
    /// Bytes of all of it.
    pub length: u64,
    /// What it holds.
    pub class: Class,
}

/// One step of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The hash of the commit before; zeros in the first.
    pub parent: Hash,
    /// The state that it leads to.
    pub tip: Tip,
    /// Data objects of this writer that are used from now on. Their numbers end below the tip's
    /// next one.
    pub objects: Vec<NewObject>,
    /// What has changed in the map.
    pub extents: Vec<Extent>,
    /// Bytes that inline extents point to, in whole sectors.
    pub inline: Vec<u8>,
}

impl Commit {
    /// The object.
    pub fn encode(&self, uuid: Uuid) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.raw(&self.parent.0);
        self.tip.encode(&mut encoder);
        encoder.varint(self.objects.len() as u64);
        let first = self.tip.next_object.0 - self.objects.len() as u64;
        for (object, number) in self.objects.iter().zip(first..) {
            assert_eq!(object.number.0, number, "numbers count up");
            encoder.varint(object.length);
            encoder.u8(object.class.to_byte());
        }
        extents::encode(&self.extents, &mut encoder);
        encoder.bytes(&self.inline);
        seal(Kind::Commit, uuid, self.tip.number.0, &encoder.finish())
    }

    /// What the object says.
    ///
    /// # Errors
    /// Whatever this version cannot have written as commit `number` of the device `uuid`.
    pub fn decode(uuid: Uuid, number: CommitNumber, bytes: &[u8]) -> Result<Self, FormatError> {
        let body = open(Kind::Commit, uuid, number.0, bytes)?;
        let mut decoder = Decoder::new(&body);
        let parent = Hash(decoder.array()?);
        let tip = Tip::decode(number, &mut decoder)?;
        let count = decoder.count()?;
        let first = tip.next_object.0.checked_sub(count as u64);
        let first = first.ok_or(FormatError::Invalid("object"))?;
        let mut objects = Vec::new();
        for number in first..tip.next_object.0 {
            let length = decoder.varint()?;
            let class = Class::from_byte(decoder.u8()?)?;
            objects.push(NewObject {
                number: ObjectNumber(number),
                length,
                class: class.ok_or(FormatError::Invalid("class"))?,
            });
        }
        let extents = extents::decode(&mut decoder)?;
        let inline = decoder.bytes()?.to_vec();
        decoder.finish()?;
        check_targets(&extents, inline.len(), tip.next_object)?;
        Ok(Self {
            parent,
            tip,
            objects,
            extents,
            inline,
        })
    }

    /// The number in the envelope at the front of `bytes`, whatever else is wrong.
    ///
    /// # Errors
    /// Whatever is no commit.
    pub fn number_of(bytes: &[u8]) -> Result<CommitNumber, FormatError> {
        Ok(CommitNumber(Envelope::decode(Kind::Commit, bytes)?.number))
    }
}

/// Refuses extents that point outside of the inline bytes, or to objects that are not there yet.
pub(super) fn check_targets(
    extents: &[Extent],
    inline: usize,
    next: ObjectNumber,
) -> Result<(), FormatError> {
    let sectors = inline as u64 / SECTOR;
    let is_possible = |extent: &Extent| match extent.target {
        Target::Hole => true,
        Target::Data { object, .. } => object < next,
        Target::Inline { sector, .. } => sector + extent.sectors <= sectors,
    };
    let is_whole = (inline as u64).is_multiple_of(SECTOR);
    match is_whole && extents.iter().all(is_possible) {
        true => Ok(()),
        false => Err(FormatError::Invalid("target")),
    }
}

#[cfg(test)]
pub(crate) fn sample_tip() -> Tip {
    Tip {
        number: CommitNumber(300),
        writer: WriterId(0xfeed),
        session: CommitNumber(290),
        host: "somewhere".into(),
        written: 1_700_000_000,
        is_released: false,
        ends_flush: true,
        size: 1 << 50,
        log: LogPoint {
            id: [3; 16],
            position: 77_777,
            hash: Hash([6; 32]),
        },
        txg: 4711,
        is_txg_complete: true,
        checkpoint: Some(CommitNumber(256)),
        next_object: ObjectNumber(10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: Uuid = Uuid([9; 16]);

    fn sample() -> Commit {
        Commit {
            parent: Hash([1; 32]),
            tip: sample_tip(),
            objects: [8, 9]
                .map(|number| NewObject {
                    number: ObjectNumber(number),
                    length: 4096 * number,
                    class: Class::Metadata,
                })
                .into(),
            extents: extents::samples(),
            inline: vec![1; 6 * 512],
        }
    }

    #[test]
    fn commits_come_back() {
        let commit = sample();
        let bytes = commit.encode(UUID);
        let number = commit.tip.number;
        assert_eq!(Commit::number_of(&bytes), Ok(number));
        assert_eq!(Commit::decode(UUID, number, &bytes), Ok(commit));
    }

    #[test]
    fn what_points_outside_is_refused() {
        let refused = |change: fn(&mut Commit)| {
            let mut commit = sample();
            change(&mut commit);
            let bytes = commit.encode(UUID);
            Commit::decode(UUID, commit.tip.number, &bytes).is_err()
        };
        assert!(refused(|commit| commit.inline.truncate(5 * 512)));
        assert!(refused(|commit| commit.inline.push(0)));
        assert!(refused(|commit| commit.tip.session = CommitNumber(301)));
        assert!(refused(|commit| commit.tip.size = 5));
        assert!(refused(|commit| {
            commit.objects.clear();
            commit.tip.next_object = ObjectNumber(9);
        }));
    }
}
