//! Gang blocks: blocks in pieces, because no contiguous space was left (format/2a 2, 1d.6).
//!
//! The leader points to a gang header that holds block pointers to members; a member may be a
//! gang itself. The walk below is a loop with its own stack, and bounded: every header is read
//! once, all are counted, and the members may not add up to more than the leader promises.

use crate::copies::Copies;
use crate::error::IoError;
use crate::pipeline::Pipeline;
use cenote_base::Bookmark;
use cenote_codec::checksum::sha256;
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::embedded_checksum::{gang_verifier, prepare, seal};
use cenote_ondisk::{BlockPointer, ChecksumKind, Dva};
use cenote_vdev::IoContext;
use std::collections::HashSet;

/// The classic header size; larger ones exist with the feature `dynamic_gang_header`.
pub(crate) const HEADER_SIZE_CLASSIC: usize = 512;
/// Magic and checksum at the header's end.
const TRAILER_SIZE: usize = 40;
const TRAILER_MAGIC: u64 = 0x0210_da7a_b10c_7a11;
/// 16 MiB in members of 512 bytes are 32768, below at most as many headers.
const HEADERS_MAX: usize = 32_768;

/// The headers of one gang, by the first address of each.
///
/// A header's checksum covers its place and not its parent, so that it can be its own member.
#[derive(Default)]
struct Headers(HashSet<[u64; 2]>);

impl Headers {
    /// Notes that `pointer`'s header is to be read; says what is wrong if it must not be.
    fn enter(&mut self, pointer: &BlockPointer) -> Result<(), &'static str> {
        if !self.0.insert([pointer.words[0], pointer.words[1]]) {
            return Err("one of its headers is there twice");
        }
        match self.0.len() > HEADERS_MAX {
            true => Err("more gang headers than the largest block can need"),
            false => Ok(()),
        }
    }
}

/// Reads the stored bytes of a gang block by putting its members together.
pub(crate) fn read(
    pipeline: &Pipeline,
    leader: &BlockPointer,
    bookmark: Bookmark,
    io: &IoContext,
) -> Result<Vec<u8>, IoError> {
    let bad = |problem| IoError::BadGang {
        bookmark,
        pointer: Box::new(*leader),
        problem,
    };
    let size = usize::try_from(leader.physical_size()).expect("at most 32 MiB");
    let mut data = Vec::with_capacity(size);
    let mut headers = Headers::default();
    headers.enter(leader).map_err(bad)?;
    let mut stack = read_header(pipeline, leader, leader, (bookmark, io))?;
    stack.reverse();
    while let Some(member) = stack.pop() {
        if member.is_hole() {
            continue;
        }
        member
            .check()
            .map_err(|source| IoError::BadPointer { bookmark, source })?;
        if member.is_embedded() {
            return Err(bad("a member is an embedded block pointer"));
        }
        if member.is_gang() {
            headers.enter(&member).map_err(bad)?;
            let members = read_header(pipeline, leader, &member, (bookmark, io))?;
            stack.extend(members.into_iter().rev());
            continue;
        }
        if member.physical_size() > (size - data.len()) as u64 {
            return Err(bad("its members are larger than the whole"));
        }
        data.extend_from_slice(&pipeline.read_copies(&member, bookmark, io)?);
    }
    if data.len() != size {
        return Err(bad("its members are smaller than the whole"));
    }
    if !pipeline.verify(leader, &data, bookmark)? {
        return Err(bad("the members put together have a wrong checksum"));
    }
    Ok(data)
}

/// All gang headers and members below a leader, itself not included.
pub(crate) fn parts(
    pipeline: &Pipeline,
    leader: &BlockPointer,
    bookmark: Bookmark,
    io: &IoContext,
) -> Result<Vec<BlockPointer>, IoError> {
    let bad = |problem| IoError::BadGang {
        bookmark,
        pointer: Box::new(*leader),
        problem,
    };
    let mut headers = Headers::default();
    headers.enter(leader).map_err(bad)?;
    let mut parts = read_header(pipeline, leader, leader, (bookmark, io))?;
    let mut next = 0;
    while let Some(part) = parts.get(next).copied() {
        next += 1;
        part.check()
            .map_err(|source| IoError::BadPointer { bookmark, source })?;
        if part.is_gang() {
            headers.enter(&part).map_err(bad)?;
            parts.extend(read_header(pipeline, leader, &part, (bookmark, io))?);
        }
    }
    Ok(parts)
}

/// Does something with the copies of the gang header that `pointer` points to.
pub(crate) fn with_header_copies<T>(
    pipeline: &Pipeline,
    leader: &BlockPointer,
    pointer: &BlockPointer,
    (bookmark, io): (Bookmark, &IoContext),
    act: impl FnOnce(&Copies<'_>) -> T,
) -> T {
    let right = |space: &[u8]| Some(header_in(space, pointer, leader.uses_crypt())?.len());
    // One read serves both forms: the classic header is the start of the space that a larger
    // one would fill, and judging it first by the wrong form would blame good devices.
    let vdevs = pipeline.vdevs();
    let size = |dva: Dva| {
        let large = vdevs.allocation_min(dva.vdev()).unwrap_or(0);
        large.max(HEADER_SIZE_CLASSIC)
    };
    act(&Copies {
        places: pointer.dvas().map(|dva| (dva, size(dva))).collect(),
        birth: pointer.physical_birth(),
        bookmark,
        kind: pointer.object_type(),
        right: &right,
        is_verified: true,
        is_log: false,
        io,
    })
}

/// The block pointers in the gang header that `pointer` points to.
pub(crate) fn read_header(
    pipeline: &Pipeline,
    leader: &BlockPointer,
    pointer: &BlockPointer,
    (bookmark, io): (Bookmark, &IoContext),
) -> Result<Vec<BlockPointer>, IoError> {
    let read = with_header_copies(pipeline, leader, pointer, (bookmark, io), |copies| {
        pipeline.read_any(copies)
    });
    let failure = match read {
        Ok(space) => {
            let header = header_in(&space, pointer, leader.uses_crypt());
            return Ok(members(
                header.expect("the read was judged by the same rule"),
            ));
        }
        Err(failure) => failure,
    };
    let pointer = Box::new(*pointer);
    Err(match failure {
        Some(source) => IoError::Unreadable {
            bookmark,
            pointer,
            source,
        },
        None => IoError::BadGang {
            bookmark,
            pointer,
            problem: "a header has no address",
        },
    })
}

/// The header at the start of its space: the classic 512 bytes, or all of it.
fn header_in<'a>(space: &'a [u8], pointer: &BlockPointer, protected: bool) -> Option<&'a [u8]> {
    let sizes = [HEADER_SIZE_CLASSIC, space.len()];
    let mut headers = sizes.into_iter().map(|size| &space[..size]);
    headers.find(|header| header_is_good(header, pointer, protected))
}

fn word(bytes: &[u8], offset: usize, big: bool) -> u64 {
    let bytes: [u8; 8] = bytes[offset..offset + 8].try_into().expect("8 bytes");
    if big {
        u64::from_be_bytes(bytes)
    } else {
        u64::from_le_bytes(bytes)
    }
}

/// Whether the trailer was written by a big-endian host; `None` without the magic number.
fn trailer_is_big(header: &[u8]) -> Option<bool> {
    let trailer = header.len() - TRAILER_SIZE;
    [false, true]
        .into_iter()
        .find(|big| word(header, trailer, *big) == TRAILER_MAGIC)
}

fn header_is_good(header: &[u8], pointer: &BlockPointer, protected: bool) -> bool {
    assert!(header.len() >= HEADER_SIZE_CLASSIC);
    let Some(big) = trailer_is_big(header) else {
        return false;
    };
    let at = header.len() - TRAILER_SIZE + 8;
    let stored: [u64; 4] = std::array::from_fn(|i| word(header, at + 8 * i, big));
    let first: Dva = pointer.dva(0);
    let verifier = [
        first.vdev().0,
        first.offset(),
        pointer.physical_birth().0,
        0,
    ];
    let mut sealed = header.to_vec();
    for (chunk, word) in sealed[at..].chunks_exact_mut(8).zip(verifier) {
        chunk.copy_from_slice(&if big {
            word.to_be_bytes()
        } else {
            word.to_le_bytes()
        });
    }
    let actual = sha256(&sealed);
    if !protected {
        return actual == stored;
    }
    // The header of a protected block has its checksum folded as if it had a MAC (format/2a 2).
    // Those of gangs within it have not: their pointers say nothing of protection.
    let folded = crate::checksum::fold(ChecksumKind::GangHeader, actual);
    stored == [folded[0], folded[1], 0, 0] || actual == stored
}

/// The classic header with these members, at most three, for the `pointer` that leads to it.
pub(crate) fn seal_header(
    members: &[BlockPointer],
    pointer: &BlockPointer,
    protected: bool,
) -> Vec<u8> {
    let mut header = vec![0; HEADER_SIZE_CLASSIC];
    let trailer = HEADER_SIZE_CLASSIC - TRAILER_SIZE;
    assert!(members.len() * BLOCK_POINTER_SIZE <= trailer);
    for (place, member) in header.chunks_exact_mut(BLOCK_POINTER_SIZE).zip(members) {
        place.copy_from_slice(&member.encode());
    }
    let verifier = gang_verifier(pointer.dva(0), pointer.physical_birth());
    prepare(&mut header, trailer, verifier);
    let mut words = sha256(&header);
    if protected {
        let [low, high] = crate::checksum::fold(ChecksumKind::GangHeader, words);
        words = [low, high, 0, 0];
    }
    seal(&mut header, trailer, words);
    header
}

fn members(header: &[u8]) -> Vec<BlockPointer> {
    let big = trailer_is_big(header) == Some(true);
    let count = (header.len() - TRAILER_SIZE) / BLOCK_POINTER_SIZE;
    let pointers = header.chunks_exact(BLOCK_POINTER_SIZE).take(count);
    pointers
        .map(|bytes| BlockPointer {
            words: std::array::from_fn(|i| word(bytes, 8 * i, big)),
        })
        .filter(|pointer| !pointer.is_hole())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::VdevId;

    /// A header with one member, sealed for the leader at 3:0x2000 born in txg 9.
    fn sealed_header(big: bool) -> (Vec<u8>, BlockPointer) {
        let mut leader = BlockPointer::HOLE;
        let dva = Dva::new(VdevId(3), 0x2000, 4096);
        (leader.words[0], leader.words[1], leader.words[10]) = (dva.word0, dva.word1, 9);
        let bytes = |word: u64| {
            if big {
                word.to_be_bytes()
            } else {
                word.to_le_bytes()
            }
        };
        let mut header = vec![0; HEADER_SIZE_CLASSIC];
        header[..8].copy_from_slice(&bytes(8));
        header[472..480].copy_from_slice(&bytes(TRAILER_MAGIC));
        for (i, word) in [3, 0x2000, 9, 0].into_iter().enumerate() {
            header[480 + 8 * i..488 + 8 * i].copy_from_slice(&bytes(word));
        }
        let checksum = sha256(&header);
        for (i, word) in checksum.into_iter().enumerate() {
            header[480 + 8 * i..488 + 8 * i].copy_from_slice(&bytes(word));
        }
        (header, leader)
    }

    /// Headers that were members of themselves were read 32,768 times for each block pointer.
    #[test]
    fn a_header_is_entered_once() {
        let mut headers = Headers::default();
        let at = |offset| {
            let mut pointer = BlockPointer::HOLE;
            let dva = Dva::new(VdevId(0), offset, 512);
            (pointer.words[0], pointer.words[1]) = (dva.word0, dva.word1);
            pointer
        };
        assert!(headers.enter(&at(0x2000)).is_ok() && headers.enter(&at(0x4000)).is_ok());
        assert_eq!(
            headers.enter(&at(0x2000)),
            Err("one of its headers is there twice")
        );
        for index in 2..HEADERS_MAX as u64 {
            assert!(headers.enter(&at(0x10_0000 + 512 * index)).is_ok());
        }
        assert!(headers.enter(&at(0)).is_err(), "there is an end to it");
    }

    /// Reading 512 bytes first once charged a checksum error to each device that held a header
    /// of the larger form.
    #[test]
    fn both_forms_are_found_in_one_read() {
        let (classic, leader) = sealed_header(false);
        let mut space = classic.clone();
        space.resize(4096, 0);
        assert_eq!(header_in(&space, &leader, false), Some(&classic[..]));
        space[0] ^= 1;
        assert_eq!(header_in(&space, &leader, false), None);
    }

    #[test]
    fn headers_of_both_byte_orders_are_judged() {
        for big in [false, true] {
            let (mut header, mut leader) = sealed_header(big);
            assert!(header_is_good(&header, &leader, false));
            assert_eq!(members(&header).len(), 1, "unused pointers are left out");
            leader.words[10] = 10;
            assert!(
                !header_is_good(&header, &leader, false),
                "another birth is another header"
            );
            leader.words[10] = 9;
            header[0] ^= 1;
            assert!(!header_is_good(&header, &leader, false));
        }
    }
}
