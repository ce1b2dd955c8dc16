//! Reading the four labels of a device, whatever is left of them.
//!
//! Each label holds the configuration and a ring of uberblocks (format/1 1.2, 1.3). Two stand at
//! each end of the device, so a device that lost its head, its tail or some sectors can still be
//! identified. Every piece is verified by its own checksum, which also covers its position on the
//! device. A configuration that decodes although its checksum is wrong is kept and marked, since
//! `zpool import` uses such labels too. When no configuration has the ashift, uberblock slots of
//! every size are tried: a checksum is right for one size only.

use cenote_base::{Guid, Txg};
use cenote_codec::checksum::sha256_pieces;
use cenote_device::{Device, DeviceError};
use cenote_ondisk::embedded_checksum::{Trailer, label_verifier};
use cenote_ondisk::label::{
    self, CONFIG_OFFSET, CONFIG_SIZE, LABEL_SIZE, LABELS, UBERBLOCK_RING_OFFSET, UberblockRing,
};
use cenote_ondisk::{DecodeError, NvList, PoolConfig, Uberblock};
use std::cmp::Reverse;
use std::ops::Range;

/// A label that cannot be read in one piece is read in pieces of this many bytes.
const PIECE: u64 = 8 << 10;
const PIECES: usize = (LABEL_SIZE / PIECE) as usize;

/// What is wrong with a label's configuration, if anything.
#[derive(Debug)]
pub enum LabelHealth {
    /// It decodes and its checksum is right.
    Valid,
    /// It decodes, but its checksum is wrong.
    BadChecksum,
    /// Its checksum is right, but it does not decode.
    BadContents(DecodeError),
    /// Neither checksum nor contents make sense.
    Garbage,
    /// All zero: there never was a label, or it was cleared.
    Blank,
    /// The device refused to read it.
    Unreadable(DeviceError),
    /// The device is too small to have it.
    Absent,
    /// It is another vdev's: one that had a smaller or a larger part of the device before, or has
    /// it now.
    Foreign,
}

impl LabelHealth {
    /// A few words for a diagnosis.
    pub fn describe(&self) -> String {
        match self {
            Self::Valid => "valid".into(),
            Self::BadChecksum => "bad checksum".into(),
            Self::BadContents(error) => format!("does not decode: {error}"),
            Self::Garbage => "not a label".into(),
            Self::Blank => "blank".into(),
            Self::Unreadable(error) => format!("unreadable: {error}"),
            Self::Absent => "device too small".into(),
            Self::Foreign => "of another pool's device".into(),
        }
    }
}

/// One of the four labels.
#[derive(Debug)]
pub struct Label {
    /// 0 to 3.
    pub index: usize,
    /// Where it starts on the device, in bytes.
    pub offset: u64,
    /// How well its configuration is.
    pub health: LabelHealth,
    /// The configuration, if it decodes; trust it only with [`LabelHealth::Valid`].
    pub config: Option<PoolConfig>,
    /// The list that the configuration came from, with keys that this software ignores.
    pub list: Option<NvList>,
}

impl Label {
    /// Whether checksum and contents are right.
    pub fn is_valid(&self) -> bool {
        matches!(self.health, LabelHealth::Valid)
    }

    /// The device's own guid.
    pub fn guid(&self) -> Option<Guid> {
        let guid = self.config.as_ref()?.guid?;
        (guid.0 != 0).then_some(guid)
    }

    /// The guid of the pool; spares and cache devices have none.
    pub fn pool_guid(&self) -> Option<Guid> {
        self.config.as_ref()?.pool_guid
    }

    /// The txg that the label was written in; 0 when it says none.
    pub fn txg(&self) -> Txg {
        let config = self.config.as_ref();
        config.and_then(|config| config.txg).unwrap_or_default()
    }

    /// The allocation unit that decides the uberblock slots' size: the top-level vdev's, or a
    /// spare's own.
    fn ashift(&self) -> Option<u32> {
        let tree = self.config.as_ref()?.vdev_tree.as_ref();
        let own = || u32::try_from(self.list.as_ref()?.get_u64("ashift")?).ok();
        tree.and_then(|tree| tree.ashift).or_else(own)
    }
}

/// A valid uberblock and where it was found.
#[derive(Clone, Debug)]
pub struct FoundUberblock {
    /// The label, 0 to 3.
    pub label: usize,
    /// The slot's number in the ring.
    pub slot: u64,
    /// The slot's size in bytes.
    pub slot_size: u64,
    /// What it says.
    pub uberblock: Uberblock,
}

/// Everything that a device's labels say.
#[derive(Debug, Default)]
pub struct DeviceLabels {
    /// The four labels in order.
    pub labels: Vec<Label>,
    /// All valid uberblocks of all labels, best first.
    pub uberblocks: Vec<FoundUberblock>,
}

/// A label's bytes, and which pieces of them could not be read.
struct RawLabel {
    bytes: Vec<u8>,
    unreadable: [bool; PIECES],
    error: Option<DeviceError>,
}

impl RawLabel {
    fn read(device: &dyn Device, offset: u64) -> Self {
        let mut raw = Self {
            bytes: Vec::new(),
            unreadable: [false; PIECES],
            error: None,
        };
        if let Ok(bytes) = device.read_vec(offset, LABEL_SIZE as usize) {
            raw.bytes = bytes;
            return raw;
        }
        raw.bytes = vec![0; LABEL_SIZE as usize];
        for (index, piece) in raw.bytes.chunks_exact_mut(PIECE as usize).enumerate() {
            if let Err(error) = device.read_at(offset + PIECE * index as u64, piece) {
                piece.fill(0);
                raw.unreadable[index] = true;
                raw.error = Some(error);
            }
        }
        raw
    }

    fn is_readable(&self, offset: u64, length: u64) -> bool {
        let last = (offset + length - 1) / PIECE;
        let range = (offset / PIECE) as usize..=last as usize;
        !self.unreadable[range].iter().any(|bad| *bad)
    }

    fn part(&self, offset: u64, length: u64) -> &[u8] {
        &self.bytes[offset as usize..(offset + length) as usize]
    }
}

/// Whether the checksum at the end of `block`, which stands at `device_offset`, is right.
pub(crate) fn is_sealed(block: &[u8], device_offset: u64) -> bool {
    let Ok(trailer) = Trailer::at_end(block) else {
        return false;
    };
    let verifier = trailer.verifier_bytes(label_verifier(device_offset));
    let (head, tail) = trailer.around(block);
    sha256_pieces(&[head, &verifier, tail]) == trailer.checksum
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Judges and decodes the configuration of the label at `offset`.
fn read_config(raw: &mut RawLabel, label: &mut Label) {
    if !raw.is_readable(CONFIG_OFFSET, CONFIG_SIZE)
        && let Some(error) = raw.error.take()
    {
        label.health = LabelHealth::Unreadable(error);
        return;
    }
    let piece = raw.part(CONFIG_OFFSET, CONFIG_SIZE);
    if is_blank(piece) {
        label.health = LabelHealth::Blank;
        return;
    }
    let sealed = is_sealed(piece, label.offset + CONFIG_OFFSET);
    let decoded = label::decode_config(piece).and_then(|list| {
        let config = PoolConfig::decode(&list)?;
        Ok((list, config))
    });
    label.health = match (&decoded, sealed) {
        (Ok(_), true) => LabelHealth::Valid,
        (Ok(_), false) => LabelHealth::BadChecksum,
        (Err(error), true) => LabelHealth::BadContents(error.clone()),
        (Err(_), false) => LabelHealth::Garbage,
    };
    if let Ok((list, config)) = decoded {
        (label.list, label.config) = (Some(list), Some(config));
    }
}

fn read_ring(
    raw: &RawLabel,
    label: usize,
    offset: u64,
    ring: UberblockRing,
    found: &mut Vec<FoundUberblock>,
) {
    let slot_size = ring.slot_size();
    for slot in 0..ring.slots() {
        let at = UBERBLOCK_RING_OFFSET + ring.slot_offset(slot);
        if !raw.is_readable(at, slot_size) {
            continue;
        }
        let bytes = raw.part(at, slot_size);
        // The magic is cheaper than the checksum, and most slots of a young pool are empty.
        let Ok(uberblock) = Uberblock::decode(bytes) else {
            continue;
        };
        if uberblock.txg.0 != 0 && is_sealed(bytes, offset + at) {
            found.push(FoundUberblock {
                label,
                slot,
                slot_size,
                uberblock,
            });
        }
    }
}

impl DeviceLabels {
    /// Reads and judges all labels. Damage is what this is for, so there is no error.
    pub fn read(device: &dyn Device) -> Self {
        let places = (0..LABELS).filter_map(|index| label::label_offset(device.size(), index));
        let places: Vec<Range<u64>> = places.map(|place| place..place + LABEL_SIZE).collect();
        device.prefetch(&places);
        let mut labels = Vec::with_capacity(LABELS);
        let mut rings = Vec::with_capacity(LABELS);
        for index in 0..LABELS {
            let mut label = Label {
                index,
                offset: 0,
                health: LabelHealth::Absent,
                config: None,
                list: None,
            };
            if let Some(offset) = label::label_offset(device.size(), index) {
                label.offset = offset;
                let mut raw = RawLabel::read(device, offset);
                read_config(&mut raw, &mut label);
                rings.push((index, offset, raw));
            }
            labels.push(label);
        }
        // Only a configuration with a right checksum decides the slot size: the label's own, or
        // another label's where that one has none.
        let own = |label: &Label| label.ashift().filter(|_| label.is_valid());
        let any = labels.iter().find_map(own);
        let mut uberblocks = Vec::new();
        for (index, offset, raw) in &rings {
            let mut read = |shape| read_ring(raw, *index, *offset, shape, &mut uberblocks);
            match own(&labels[*index]).or(any) {
                Some(ashift) => read(UberblockRing::new(ashift)),
                None => UberblockRing::all().for_each(read),
            }
        }
        uberblocks.sort_by_key(|found| (Reverse(found.uberblock.rank()), found.label));
        Self { labels, uberblocks }
    }

    /// What is here of each vdev that has labels here, by itself.
    ///
    /// A device that is larger than the one that a vdev was on before keeps that vdev's labels at
    /// its end, and labels at two places are of two vdevs. A label that does not verify goes with
    /// the other one at its end of the device.
    pub fn by_owner(self) -> Vec<Self> {
        let owner = |label: &Label| label.guid().filter(|_| label.is_valid());
        let owners: Vec<Option<Guid>> = self.labels.iter().map(owner).collect();
        let mut guids: Vec<Guid> = owners.iter().flatten().copied().collect();
        guids.sort_unstable();
        guids.dedup();
        if guids.len() < 2 {
            return vec![self];
        }
        let of_end = |index: usize| owners[index].or(owners[index ^ 1]);
        let mut parts: Vec<Self> = guids.iter().map(|_| Self::default()).collect();
        for label in self.labels {
            let (index, offset) = (label.index, label.offset);
            let place = of_end(index).and_then(|guid| guids.iter().position(|own| *own == guid));
            let mut label = Some(label);
            for (number, part) in parts.iter_mut().enumerate() {
                let own = label.take_if(|_| place.unwrap_or(0) == number);
                part.labels.push(own.unwrap_or(Label {
                    index,
                    offset,
                    health: LabelHealth::Foreign,
                    config: None,
                    list: None,
                }));
            }
        }
        for found in self.uberblocks {
            let place = of_end(found.label);
            let place = place.and_then(|guid| guids.iter().position(|own| *own == guid));
            parts[place.unwrap_or(0)].uberblocks.push(found);
        }
        parts
    }

    /// The best uberblock, of those with a txg up to `limit` if there is one
    /// (format/1 1.3, "Choosing the best uberblock").
    pub fn best_uberblock(&self, limit: Option<Txg>) -> Option<&FoundUberblock> {
        self.uberblocks
            .iter()
            .find(|found| limit.is_none_or(|limit| found.uberblock.txg <= limit))
    }

    /// The configuration that belongs to an uberblock of `txg`: the newest of the valid labels
    /// that is not younger (format/1 1.3, "Which label config belongs to it").
    ///
    /// A label without a txg, as of a spare or cache device, is taken at once.
    pub fn config_for(&self, txg: Txg) -> Option<&Label> {
        let valid = || self.labels.iter().filter(|label| label.is_valid());
        valid().find(|label| label.txg().0 == 0).or_else(|| {
            valid()
                .filter(|label| label.txg() <= txg)
                .max_by_key(|label| (label.txg(), Reverse(label.index)))
        })
    }

    /// The newest configuration: of the valid labels, or of those that merely decode when none
    /// is valid.
    pub fn newest_config(&self) -> Option<&Label> {
        let decoded = self.labels.iter().filter(|label| label.guid().is_some());
        decoded.max_by_key(|label| (label.is_valid(), label.txg(), Reverse(label.index)))
    }

    /// Whether anything here says that the device belongs, or belonged, to a pool.
    pub fn is_member(&self) -> bool {
        self.newest_config().is_some() || !self.uberblocks.is_empty()
    }

    /// Labels that are not valid, for a diagnosis.
    pub fn damaged(&self) -> impl Iterator<Item = &Label> {
        self.labels.iter().filter(|label| !label.is_valid())
    }
}
