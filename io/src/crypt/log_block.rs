//! Opening an encrypted intent log block (format/2d 9).
//!
//! Records keep their headers in clear, so that the log can be claimed without keys; bodies are
//! ciphertext, but for the block pointers that a claim must follow. All of it is one AES stream.

use super::ObjsetKeys;
use cenote_codec::cipher::AuthenticationFailed;
use cenote_ondisk::BlockPointer;
use std::ops::Range;

const CHAIN_HEADER_SIZE: usize = 184;
const CHAIN_CLEAR_SIZE: usize = 144;
const MAC_OFFSET: usize = 168;
const RECORD_HEADER_SIZE: usize = 32;
const TX_WRITE: u64 = 9;
const TX_CLONE_RANGE: u64 = 24;
/// Bit 63 of a record type says that names fold case.
const TYPE_MASK: u64 = !(1 << 63);

fn u64_at(block: &[u8], offset: usize) -> Option<u64> {
    let bytes = block.get(offset..offset.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Appends the clear and the encrypted ranges of the record at `record`.
fn split(
    kind: u64,
    record: Range<usize>,
    clear: &mut Vec<Range<usize>>,
    secret: &mut Vec<Range<usize>>,
) {
    let (start, end) = (record.start, record.end);
    let at = |offset: usize| (start + offset).min(end);
    clear.push(start..at(RECORD_HEADER_SIZE));
    match kind & TYPE_MASK {
        TX_WRITE => {
            clear.push(at(64)..at(192));
            secret.push(at(32)..at(64));
            secret.push(at(192)..end);
        }
        TX_CLONE_RANGE => {
            clear.push(at(64)..end);
            secret.push(at(32)..at(64));
        }
        _ => secret.push(at(32)..end),
    }
}

/// Decrypts the records of a little-endian log block in place.
///
/// `used` is `zc_nused`: the chain header and the records. A block whose record lengths do not
/// add up fails like one with a wrong tag: both are the end of the log.
pub fn open(
    pointer: &BlockPointer,
    block: &mut [u8],
    used: usize,
    keys: &ObjsetKeys,
) -> Result<(), AuthenticationFailed> {
    if used < CHAIN_HEADER_SIZE || used > block.len() {
        return Err(AuthenticationFailed);
    }
    let mac: [u8; 16] = block[MAC_OFFSET..MAC_OFFSET + 16]
        .try_into()
        .expect("16 bytes");
    let mut clear = block[..CHAIN_CLEAR_SIZE].to_vec();
    let mut secret = Vec::new();
    let mut at = CHAIN_HEADER_SIZE;
    while at < used {
        let kind = u64_at(block, at).ok_or(AuthenticationFailed)?;
        let length = u64_at(block, at + 8).ok_or(AuthenticationFailed)?;
        let length = usize::try_from(length).map_err(|_| AuthenticationFailed)?;
        if length < RECORD_HEADER_SIZE || length > used - at {
            return Err(AuthenticationFailed);
        }
        let mut open = Vec::with_capacity(2);
        split(kind, at..at + length, &mut open, &mut secret);
        open.into_iter()
            .for_each(|range| clear.extend_from_slice(&block[range]));
        at += length;
    }
    let mut text: Vec<u8> = secret
        .iter()
        .flat_map(|r| block[r.clone()].iter().copied())
        .collect();
    let key = keys.block_key(pointer.salt());
    key.decrypt(&pointer.iv(), &clear, &mut text, &mac)?;
    let mut from = 0;
    for range in secret {
        let to = from + range.len();
        block[range].copy_from_slice(&text[from..to]);
        from = to;
    }
    assert_eq!(
        from,
        text.len(),
        "all of the text went back where it came from"
    );
    Ok(())
}
