//! A data object: a table of what its bytes are, then the bytes.
//!
//! ```text
//! | envelope | table, compressed | zeros to a sector's border | bytes ... |
//!
//! table: count, then for each piece
//!   start    sector of the device, the way from the last piece's end, zigzag
//!   sectors  how many
//!   sector   where in this object, the way from the last piece's end, zigzag
//!   check    first eight bytes of the BLAKE3 digest of the piece
//! ```
//!
//! The map alone says what is valid; the table is there so that rot is noticed before compaction
//! copies it under a new name, and so that the map can be made again if it is lost. Two pieces may
//! share bytes: copies of metadata are stored once.

use super::envelope::seal_with;
use super::{
    Class, Decoder, Encoder, Envelope, FormatError, Hash, Kind, ObjectNumber, SECTOR, Uuid,
};

/// Bytes of a piece at most; larger writes are several.
pub const PIECE_MAX: u64 = 1 << 20;

/// Bytes that one object may have.
pub const OBJECT_MAX: u64 = 64 << 20;

/// A piece of the device in a data object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where on the device it was written, in sectors.
    pub start: u64,
    /// How long it is, in sectors.
    pub sectors: u64,
    /// Where it lies in the object, in sectors.
    pub sector: u64,
    /// The first eight bytes of its BLAKE3 digest.
    pub check: u64,
}

/// Puts pieces together to an object.
#[derive(Debug)]
pub struct DataBuilder {
    class: Class,
    pieces: Vec<Piece>,
    bytes: Vec<u8>,
}

impl DataBuilder {
    /// An object for `class` without pieces.
    pub fn new(class: Class) -> Self {
        Self {
            class,
            pieces: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Bytes of all pieces.
    pub fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Appends what is at sector `start` of the device. Says where among the bytes it is, in
    /// sectors.
    pub fn push(&mut self, start: u64, bytes: &[u8]) -> u64 {
        let length = bytes.len() as u64;
        assert!(length > 0 && length.is_multiple_of(SECTOR), "whole sectors");
        let sector = self.length() / SECTOR;
        let mut at = 0;
        for piece in bytes.chunks(PIECE_MAX as usize) {
            self.pieces.push(Piece {
                start: start + at,
                sectors: piece.len() as u64 / SECTOR,
                sector: sector + at,
                check: Hash::of(piece).short(),
            });
            at += piece.len() as u64 / SECTOR;
        }
        self.bytes.extend_from_slice(bytes);
        sector
    }

    /// Says that what is at sector `start` of the device is the same as what lies at `sector`
    /// among the bytes already.
    pub fn repeat(&mut self, start: u64, sector: u64, bytes: &[u8]) {
        let mut at = 0;
        for piece in bytes.chunks(PIECE_MAX as usize) {
            self.pieces.push(Piece {
                start: start + at,
                sectors: piece.len() as u64 / SECTOR,
                sector: sector + at,
                check: Hash::of(piece).short(),
            });
            at += piece.len() as u64 / SECTOR;
        }
    }

    /// The object, and the sector in it at which its bytes begin.
    pub fn finish(self, uuid: Uuid, number: ObjectNumber) -> (Vec<u8>, u64) {
        let mut encoder = Encoder::new();
        encoder.varint(self.pieces.len() as u64);
        let (mut end, mut sector) = (0, 0);
        for piece in &self.pieces {
            encoder.difference(end, piece.start);
            encoder.varint(piece.sectors);
            encoder.difference(sector, piece.sector);
            encoder.u64(piece.check);
            (end, sector) = (piece.start + piece.sectors, piece.sector + piece.sectors);
        }
        let table = encoder.finish();
        let bare = seal_with(Kind::Data, uuid, number.0, &table, Some(self.class), 0);
        let head = (bare.len() as u64).next_multiple_of(SECTOR);
        let behind = head - bare.len() as u64 + self.length();
        let mut object = seal_with(Kind::Data, uuid, number.0, &table, Some(self.class), behind);
        object.resize(usize::try_from(head).expect("a table fits in memory"), 0);
        object.extend_from_slice(&self.bytes);
        (object, head / SECTOR)
    }
}

/// What a data object says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataTable {
    /// What it holds.
    pub class: Class,
    /// Bytes of the whole object.
    pub length: u64,
    /// Its pieces, with sectors counted from the object's beginning.
    pub pieces: Vec<Piece>,
}

impl DataTable {
    /// Bytes at the front of the object that have its table, as its envelope says.
    ///
    /// # Errors
    /// Whatever is no data object.
    pub fn length_of(bytes: &[u8]) -> Result<u64, FormatError> {
        Ok(Envelope::decode(Kind::Data, bytes)?.body_end())
    }

    /// The table of the object `number`, from its first bytes.
    ///
    /// # Errors
    /// Whatever is no such object, or has pieces outside of itself.
    pub fn decode(uuid: Uuid, number: ObjectNumber, bytes: &[u8]) -> Result<Self, FormatError> {
        let envelope = Envelope::decode(Kind::Data, bytes)?;
        envelope.expect(uuid, number.0)?;
        let class = envelope.class.ok_or(FormatError::Invalid("class"))?;
        let table = envelope.body(bytes)?;
        let mut decoder = Decoder::new(&table);
        let count = decoder.count()?;
        let base = envelope.body_end().div_ceil(SECTOR);
        let total = envelope.total;
        if !total.is_multiple_of(SECTOR) || total < base * SECTOR || total > OBJECT_MAX {
            return Err(FormatError::Invalid("length"));
        }
        let mut pieces = Vec::new();
        let (mut end, mut next) = (0_u64, 0_u64);
        for _ in 0..count {
            let start = decoder.difference(end)?;
            let sectors = decoder.varint()?;
            let sector = decoder.difference(next)?;
            let check = decoder.u64()?;
            let place = base.checked_add(sector);
            let fits = |place: &u64| {
                let end = place.checked_add(sectors);
                end.is_some_and(|end| end <= total / SECTOR) && sectors * SECTOR <= PIECE_MAX
            };
            let place = place.filter(fits).ok_or(FormatError::Invalid("piece"))?;
            end = start.wrapping_add(sectors);
            next = sector.wrapping_add(sectors);
            pieces.push(Piece {
                start,
                sectors,
                sector: place,
                check,
            });
        }
        decoder.finish()?;
        Ok(Self {
            class,
            length: total,
            pieces,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_back() {
        let uuid = Uuid([5; 16]);
        let number = ObjectNumber(77);
        let mut builder = DataBuilder::new(Class::Contents);
        let large = vec![3; (PIECE_MAX + 1024) as usize];
        let first = builder.push(1000, &[1; 512]);
        let second = builder.push(8, &large);
        builder.repeat(2000, first, &[1; 512]);
        let (object, base) = builder.finish(uuid, number);
        let table = DataTable::decode(uuid, number, &object).expect("what we wrote");
        assert_eq!(table.class, Class::Contents);
        assert_eq!(table.length, object.len() as u64);
        let starts: Vec<u64> = table.pieces.iter().map(|piece| piece.start).collect();
        assert_eq!(starts, [1000, 8, 8 + PIECE_MAX / SECTOR, 2000]);
        assert_eq!(table.pieces[0].sector, table.pieces[3].sector);
        assert_eq!(table.pieces[1].sector, base + second);
        for piece in &table.pieces {
            let at = (piece.sector * SECTOR) as usize;
            let bytes = &object[at..at + (piece.sectors * SECTOR) as usize];
            assert_eq!(Hash::of(bytes).short(), piece.check);
        }
        let head = DataTable::length_of(&object).expect("an envelope") as usize;
        assert_eq!(DataTable::decode(uuid, number, &object[..head]), Ok(table));
        assert!(DataTable::decode(uuid, number, &object[..head - 1]).is_err());
        assert!(DataTable::decode(uuid, ObjectNumber(78), &object).is_err());
    }
}
