//! From stored bytes to addresses: allocation, and gangs where space is only in pieces.
//!
//! A gang block is written as a header of three pointers to members, each of which may be a gang
//! again (format/2a 2). The pointer that leads to a header has the sizes and the checksum of the
//! whole, and in each address the space of everything below.

use super::encode::{Stored, copies};
use super::pointer::{self, Properties};
use super::squeeze::Units;
use super::{Allocation, AllocationRequest, Allocator, DedupTable, NoSpace, WriteRequest};
use crate::checksum;
use crate::error::IoError;
use crate::gang::{HEADER_SIZE_CLASSIC, read_header, seal_header};
use crate::pipeline::Pipeline;
use cenote_base::{Level, Txg};
use cenote_codec::Endian;
use cenote_codec::checksum::Salt;
use cenote_device::{BlockBuffer, Purpose};
use cenote_ondisk::block_pointer::DVAS_PER_BLOCK_POINTER;
use cenote_ondisk::{BlockPointer, ChecksumKind, CompressionKind, Dva, ObjectType};
use cenote_vdev::{AllocationClass, IoContext, VdevWrite};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// Pointers in a gang header of the classic size.
const MEMBERS: usize = 3;
/// Gangs in gangs: a block of 16 MiB in pieces of 512 bytes has ten levels.
const DEPTH_MAX: usize = 12;

/// Finds places for the blocks of one call.
#[derive(Debug)]
pub(super) struct Placer<'a> {
    pub allocator: &'a dyn Allocator,
    pub txg: Txg,
    pub units: Units,
    pub salt: Option<&'a Salt>,
    pub dedup: Option<&'a dyn DedupTable>,
    /// To compare with what is stored already.
    pub pipeline: &'a Pipeline,
    /// Blocks of this call that others may be compared with, by their first address: they may
    /// not have reached the devices yet.
    pub fresh: RefCell<HashMap<Dva, Arc<BlockBuffer>>>,
}

/// Everything that was taken and is to be written for one block.
#[derive(Debug, Default)]
struct Taken {
    writes: Vec<VdevWrite>,
    allocations: Vec<Allocation>,
}

/// What a gang and its members have in common.
#[derive(Clone, Copy, Debug)]
struct GangKind {
    checksum: ChecksumKind,
    copies: u8,
    is_protected: bool,
    request: AllocationRequest,
}

/// The class of vdevs that a block of `size` stored bytes goes to.
fn class_of(request: &WriteRequest, size: u64) -> AllocationClass {
    let is_small = request.level.0 == 0 && size <= request.policy.special_small_blocks;
    match request.policy.class {
        AllocationClass::Normal if is_small => AllocationClass::Special,
        class => class,
    }
}

/// What a block is, for devices that keep metadata apart.
fn purpose_of(request: &WriteRequest) -> Purpose {
    match request.level.0 > 0 || request.object_type.is_metadata() {
        true => Purpose::Metadata,
        false => Purpose::Contents,
    }
}

impl Placer<'_> {
    /// Gives the block its addresses; returns its pointer and what is to be written, which is
    /// nothing if it is stored already.
    pub(super) fn place(
        &self,
        request: &WriteRequest,
        mut stored: Stored,
    ) -> Result<(BlockPointer, Vec<VdevWrite>), IoError> {
        let duplicate = self.find_duplicate(request, &stored.bytes, &mut stored.pointer)?;
        if let Some(pointer) = duplicate {
            return Ok((pointer, Vec::new()));
        }
        let bytes = Arc::clone(&stored.bytes);
        let (pointer, mut writes) = self.place_new(request, stored)?;
        for write in &mut writes {
            write.purpose = purpose_of(request);
        }
        self.remember(request, &pointer, bytes)?;
        Ok((pointer, writes))
    }

    fn place_new(
        &self,
        request: &WriteRequest,
        stored: Stored,
    ) -> Result<(BlockPointer, Vec<VdevWrite>), IoError> {
        let Stored {
            bytes,
            mut pointer,
            in_place_of,
        } = stored;
        if let Some(previous) = in_place_of {
            let dvas: Vec<Dva> = previous.dvas().collect();
            pointer::set_dvas(&mut pointer, &dvas, previous.is_gang());
            let writes = match previous.is_gang() {
                true => self.gang_again(request, &pointer, &bytes)?,
                false => self.writes(&dvas, &bytes),
            };
            return Ok((pointer, writes));
        }
        let copies = copies(request, &pointer) as u8;
        let wanted = AllocationRequest {
            class: class_of(request, bytes.len() as u64),
            size: bytes.len() as u64,
            copies,
            object_type: request.object_type,
            level: request.level,
            for_gang: false,
            hint: None,
            leaves: None,
        };
        let refused = match self.allocator.allocate(self.txg, wanted) {
            Ok(allocation) => {
                pointer::set_dvas(&mut pointer, allocation.dvas(), false);
                return Ok((pointer, self.writes(allocation.dvas(), &bytes)));
            }
            Err(refused) => refused,
        };
        let mut taken = Taken::default();
        let kind = GangKind {
            checksum: pointer.checksum_kind().unwrap_or(ChecksumKind::Fletcher4),
            copies,
            is_protected: pointer.uses_crypt() && pointer.object_type() != ObjectType::OBJSET,
            request: wanted,
        };
        let header_copies = match pointer.has_crypt_parameters() {
            true => 2,
            false => (copies + 1).min(DVAS_PER_BLOCK_POINTER as u8),
        };
        let gang = match refused {
            NoSpace::Full => Err(refused),
            NoSpace::Contiguous { .. } => {
                self.gang(&mut pointer, &bytes, kind, header_copies, 0, &mut taken)
            }
        };
        match gang {
            Ok(()) => Ok((pointer, taken.writes)),
            Err(source) => {
                let undo = |allocation| self.allocator.undo(self.txg, allocation);
                taken.allocations.iter().for_each(undo);
                let bookmark = request.bookmark;
                Err(IoError::NoSpace { bookmark, source })
            }
        }
    }

    fn writes(&self, dvas: &[Dva], bytes: &Arc<BlockBuffer>) -> Vec<VdevWrite> {
        let write = |dva: &Dva| VdevWrite::new(*dva, Arc::clone(bytes), self.txg);
        dvas.iter().map(write).collect()
    }

    /// Makes `pointer` lead to a gang that holds `bytes`. The depth is bounded, and so is the
    /// recursion.
    fn gang(
        &self,
        pointer: &mut BlockPointer,
        bytes: &[u8],
        kind: GangKind,
        header_copies: u8,
        depth: usize,
        taken: &mut Taken,
    ) -> Result<(), NoSpace> {
        let size = bytes.len() as u64;
        if depth >= DEPTH_MAX || size <= self.units.min {
            return Err(NoSpace::Full);
        }
        let wanted = AllocationRequest {
            size: HEADER_SIZE_CLASSIC as u64,
            copies: header_copies,
            for_gang: true,
            ..kind.request
        };
        let header_space = self.allocator.allocate(self.txg, wanted)?;
        taken.allocations.push(header_space);
        let mut members = Vec::with_capacity(MEMBERS);
        let mut rest = bytes;
        while !rest.is_empty() {
            let share = (rest.len() as u64).div_ceil((MEMBERS - members.len()) as u64);
            let share = share
                .next_multiple_of(self.units.gcd)
                .min(rest.len() as u64);
            let (part, after) = rest.split_at(usize::try_from(share).expect("a part of a slice"));
            members.push(self.member(part, kind, depth, taken)?);
            rest = after;
        }
        let mut dvas: Vec<Dva> = Vec::with_capacity(DVAS_PER_BLOCK_POINTER);
        for (index, dva) in header_space.dvas().iter().enumerate() {
            let below: u64 = members.iter().map(|member| member.dva(index).asize()).sum();
            dvas.push(Dva::new(dva.vdev(), dva.offset(), dva.asize() + below));
        }
        pointer::set_dvas(pointer, &dvas, true);
        let header = seal_header(&members, pointer, kind.is_protected);
        let header = Arc::new(BlockBuffer::from(header));
        taken
            .writes
            .extend(self.writes(header_space.dvas(), &header));
        Ok(())
    }

    /// Puts new contents of the same size into a gang of this very group, whose `leader` keeps its
    /// addresses. A new gang would change the space maps. That would change them again, or other
    /// metadata in gangs, and so on without an end.
    fn gang_again(
        &self,
        request: &WriteRequest,
        leader: &BlockPointer,
        bytes: &[u8],
    ) -> Result<Vec<VdevWrite>, IoError> {
        let bookmark = request.bookmark;
        let pipeline = self.pipeline;
        pipeline.writing.pending.wait_for(self.txg, pipeline);
        let is_protected = leader.uses_crypt() && leader.object_type() != ObjectType::OBJSET;
        let mut writes = Vec::new();
        let mut headers = vec![(*leader, bytes)];
        while let Some((pointer, bytes)) = headers.pop() {
            let place = (bookmark, &IoContext::SYNCING);
            let mut members = read_header(self.pipeline, leader, &pointer, place)?;
            let mut rest = bytes;
            for member in members.iter_mut().filter(|member| !member.is_hole()) {
                let size = usize::try_from(member.physical_size()).unwrap_or(usize::MAX);
                let (part, after) = rest.split_at_checked(size).ok_or(IoError::BadGang {
                    bookmark,
                    pointer: Box::new(pointer),
                    problem: "its members are larger than the whole",
                })?;
                rest = after;
                let kind = member.checksum_kind().unwrap_or(ChecksumKind::Fletcher4);
                let words = checksum::compute(kind, part, Endian::Little, self.salt);
                pointer::set_checksum(member, words.ok().flatten().unwrap_or([0; 4]));
                if member.is_gang() {
                    headers.push((*member, part));
                } else {
                    let dvas: Vec<Dva> = member.dvas().collect();
                    writes.extend(self.writes(&dvas, &Arc::new(BlockBuffer::copy_of(part))));
                }
            }
            assert!(rest.is_empty(), "the gang has the size of its contents");
            // Only the leader of protected contents has a protected header.
            let is_leader = pointer.dva(0) == leader.dva(0);
            let header = seal_header(&members, &pointer, is_protected && is_leader);
            let dvas: Vec<Dva> = pointer.dvas().collect();
            writes.extend(self.writes(&dvas, &Arc::new(BlockBuffer::from(header))));
        }
        Ok(writes)
    }

    /// One member of a gang: a block of its own, or a gang again.
    fn member(
        &self,
        bytes: &[u8],
        kind: GangKind,
        depth: usize,
        taken: &mut Taken,
    ) -> Result<BlockPointer, NoSpace> {
        let properties = Properties {
            logical_size: bytes.len() as u64,
            physical_size: bytes.len() as u64,
            compression: CompressionKind::Off,
            checksum: kind.checksum,
            object_type: ObjectType::NONE,
            level: Level(0),
            is_protected: false,
            is_dedup: false,
        };
        let mut pointer = pointer::stored(&properties, self.txg, 0);
        let words = checksum::compute(kind.checksum, bytes, Endian::Little, self.salt);
        // The leader's checksum was computed with the same salt.
        let words = words.ok().flatten().unwrap_or([0; 4]);
        pointer::set_checksum(&mut pointer, words);
        let wanted = AllocationRequest {
            size: bytes.len() as u64,
            copies: kind.copies,
            for_gang: true,
            ..kind.request
        };
        match self.allocator.allocate(self.txg, wanted) {
            Ok(allocation) => {
                taken.allocations.push(allocation);
                pointer::set_dvas(&mut pointer, allocation.dvas(), false);
                let bytes = Arc::new(BlockBuffer::copy_of(bytes));
                taken.writes.extend(self.writes(allocation.dvas(), &bytes));
                Ok(pointer)
            }
            Err(NoSpace::Full) => Err(NoSpace::Full),
            Err(NoSpace::Contiguous { .. }) => {
                let header_copies = (kind.copies + 1).min(DVAS_PER_BLOCK_POINTER as u8);
                let inner = GangKind {
                    is_protected: false,
                    ..kind
                };
                self.gang(&mut pointer, bytes, inner, header_copies, depth + 1, taken)?;
                Ok(pointer)
            }
        }
    }
}
