//! One log block: chain structure, records, checksum (format/2e 2); encrypted if its pointer says
//! so.

use cenote_codec::Endian;
use cenote_codec::checksum::fletcher4;
use cenote_codec::cipher::MessageTooLong;
use cenote_io::ObjsetKeys;
use cenote_io::crypt::seal_log_block;
use cenote_ondisk::BlockPointer;
use cenote_ondisk::embedded_checksum::{Trailer, seal};
use cenote_ondisk::intent_log::block::{CHAIN_SIZE, COVERED_ALIGNMENT, encode_chain};

/// Where the embedded checksum stands in the chain structure.
const TRAILER_OFFSET: usize = 144;

/// The covered part of the block that `own` points to. `next` is allocated, and follows it in the
/// chain; `records` are encoded and numbered.
pub(super) fn encode(
    own: &BlockPointer,
    next: &BlockPointer,
    records: &[u8],
    keys: Option<&ObjsetKeys>,
) -> Result<Vec<u8>, MessageTooLong> {
    let used = CHAIN_SIZE + records.len();
    assert!(used as u64 <= own.physical_size(), "the block was sized so");
    let mut block = Vec::with_capacity(used.next_multiple_of(COVERED_ALIGNMENT));
    block.extend_from_slice(&encode_chain(own, next, used));
    block.extend_from_slice(records);
    block.resize(used.next_multiple_of(COVERED_ALIGNMENT), 0);
    let mac = match keys {
        Some(keys) => Some(seal_log_block(own, &mut block, used, keys)?),
        None => None,
    };
    assert_eq!(mac.is_some(), own.uses_crypt());
    let mut sum = fletcher4(&block, Endian::Little);
    if let Some(mac) = mac {
        let word = |at: usize| u64::from_le_bytes(mac[at..at + 8].try_into().expect("8 bytes"));
        // The last two words hold the MAC; the others are folded (format/2d 9).
        sum = [sum[0] ^ sum[2], sum[1] ^ sum[3], word(0), word(8)];
    }
    seal(&mut block, TRAILER_OFFSET, sum);
    debug_assert!(Trailer::at(&block, TRAILER_OFFSET).is_ok_and(|found| found.checksum == sum));
    Ok(block)
}
