//! Opening and sealing an encrypted intent log block (format/2d 9).
//!
//! Records keep their headers in clear, so that the log can be claimed without keys; bodies are
//! ciphertext, but for the block pointers that a claim must follow. All of it is one AES stream.

use super::ObjsetKeys;
use cenote_codec::cipher::{AuthenticationFailed, MessageTooLong};
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

/// What of a block is covered in clear, and which ranges are ciphertext. `used` is `zc_nused`: the
/// chain header and the records. `None` if the lengths of the records do not add up.
fn parts(block: &[u8], used: usize) -> Option<(Vec<u8>, Vec<Range<usize>>)> {
    if used < CHAIN_HEADER_SIZE || used > block.len() {
        return None;
    }
    let mut clear = block[..CHAIN_CLEAR_SIZE].to_vec();
    let mut secret = Vec::new();
    let mut at = CHAIN_HEADER_SIZE;
    while at < used {
        let kind = u64_at(block, at)?;
        let length = usize::try_from(u64_at(block, at + 8)?).ok()?;
        if length < RECORD_HEADER_SIZE || length > used - at {
            return None;
        }
        let mut open = Vec::with_capacity(2);
        split(kind, at..at + length, &mut open, &mut secret);
        open.into_iter()
            .for_each(|range| clear.extend_from_slice(&block[range]));
        at += length;
    }
    Some((clear, secret))
}

/// The secret ranges as one text.
fn gathered(block: &[u8], secret: &[Range<usize>]) -> Vec<u8> {
    let bytes = secret.iter().flat_map(|range| &block[range.clone()]);
    bytes.copied().collect()
}

/// Puts a text back into the secret ranges.
fn scatter(block: &mut [u8], secret: Vec<Range<usize>>, text: &[u8]) {
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
    let (clear, secret) = parts(block, used).ok_or(AuthenticationFailed)?;
    let mac: [u8; 16] = block[MAC_OFFSET..MAC_OFFSET + 16]
        .try_into()
        .expect("16 bytes");
    let mut text = gathered(block, &secret);
    let key = keys.block_key(pointer.salt());
    key.decrypt(&pointer.iv(), &clear, &mut text, &mac)?;
    scatter(block, secret, &text);
    Ok(())
}

/// Encrypts the records of a log block in place and returns the MAC, which takes the last two
/// words of the embedded checksum.
///
/// `block` has its chain structure, with the pointer to the next block and `used` bytes in use.
/// Salt and initialization vector are those of `pointer`, which were drawn when it was made: what
/// leads here is on disk already. So no block is ever sealed a second time with other contents.
pub fn seal(
    pointer: &BlockPointer,
    block: &mut [u8],
    used: usize,
    keys: &ObjsetKeys,
) -> Result<[u8; 16], MessageTooLong> {
    let (clear, secret) = parts(block, used).expect("the records were encoded here");
    let mut text = gathered(block, &secret);
    let key = keys.block_key(pointer.salt());
    let mac = key.encrypt(&pointer.iv(), &clear, &mut text)?;
    scatter(block, secret, &text);
    Ok(mac)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_codec::cipher::{HmacKey, MasterKey, Suite};

    fn keys(suite: Suite) -> ObjsetKeys {
        ObjsetKeys::new(MasterKey::new(suite, [1; 32]), HmacKey::new([2; 64]))
    }

    fn pointer() -> BlockPointer {
        let mut pointer = BlockPointer::HOLE;
        pointer.words[4] = 0x1122_3344;
        pointer.words[5] = 0x5566_7788;
        pointer
    }

    /// A block with a truncation, a write, and a clone of one block.
    fn block() -> (Vec<u8>, usize) {
        let mut block: Vec<u8> = (0..CHAIN_HEADER_SIZE).map(|i| i as u8).collect();
        for (kind, length) in [(10_u64, 56_u64), (TX_WRITE, 208), (TX_CLONE_RANGE, 200)] {
            let start = block.len();
            block.extend((start..start + length as usize).map(|i| (i * 7) as u8));
            block[start..start + 8].copy_from_slice(&kind.to_le_bytes());
            block[start + 8..start + 16].copy_from_slice(&length.to_le_bytes());
        }
        let used = block.len();
        block.resize(4096, 0);
        (block, used)
    }

    #[test]
    fn what_is_sealed_can_be_opened() {
        for suite in [Suite::Aes256Gcm, Suite::Aes256Ccm] {
            let (plain, used) = block();
            let mut sealed = plain.clone();
            let mac = seal(&pointer(), &mut sealed, used, &keys(suite)).expect("short");
            sealed[MAC_OFFSET..MAC_OFFSET + 16].copy_from_slice(&mac);
            let clear =
                |record: usize, range: Range<usize>| record + range.start..record + range.end;
            let (truncate, write, clone) = (184, 240, 448);
            for same in [
                0..CHAIN_CLEAR_SIZE,
                clear(truncate, 0..32),
                clear(write, 0..32),
                clear(write, 64..192),
                clear(clone, 0..32),
                clear(clone, 64..200),
                used..4096,
            ] {
                assert_eq!(sealed[same.clone()], plain[same.clone()], "{same:?}");
            }
            for secret in [
                clear(truncate, 32..56),
                clear(write, 32..64),
                clear(write, 192..208),
                clear(clone, 32..64),
            ] {
                assert_ne!(sealed[secret.clone()], plain[secret.clone()], "{secret:?}");
            }
            let mut opened = sealed.clone();
            open(&pointer(), &mut opened, used, &keys(suite)).expect("authentic");
            assert_eq!(opened[184..], plain[184..]);
            for touched in [8, 190, 250, 310, 450, 520] {
                let mut forged = sealed.clone();
                forged[touched] ^= 1;
                let opened = open(&pointer(), &mut forged, used, &keys(suite));
                assert!(opened.is_err(), "{touched}");
            }
        }
    }
}
