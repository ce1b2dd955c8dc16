//! Sealing a block that is to be written: the counterpart of opening.

use super::{ObjsetKeys, dnode_block, mac};
use cenote_codec::Endian;
use cenote_codec::cipher::hmac_sha512;
use cenote_device::BlockBuffer;
use cenote_ondisk::block_pointer::Protection;
use cenote_ondisk::{BlockPointer, DecodeError, ObjectType};
use std::sync::Arc;

/// What sealing adds to a block's pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seal {
    /// Salt and initialization vector, of ciphertext.
    pub parameters: Option<([u8; 8], [u8; 12])>,
    /// The MAC beside the checksum; object sets have theirs inside.
    pub mac: Option<[u8; 16]>,
}

/// Why a block cannot be sealed.
#[derive(Debug)]
pub(crate) enum SealError {
    /// There is no randomness.
    Random(std::io::Error),
    /// The contents do not have the structure that sealing goes by.
    Malformed(DecodeError),
    /// The contents are larger than the cipher takes.
    TooLarge,
}

/// An unpredictable salt and initialization vector.
fn drawn(
    keys: &ObjsetKeys,
    random: impl Fn() -> std::io::Result<[u8; 20]>,
) -> std::io::Result<([u8; 8], [u8; 12])> {
    let drawn = random()?;
    let [iv @ .., s0, s1, s2, s3, s4, s5, s6, s7] = drawn;
    let salt =
        keys.salt_for_writing(|| Ok::<_, std::io::Error>([s0, s1, s2, s3, s4, s5, s6, s7]))?;
    Ok((salt, iv))
}

/// Those of a deduplicated block, which follow from its contents: equal blocks must become equal
/// ciphertext (format/2d 5).
fn derived(keys: &ObjsetKeys, plain: &[u8]) -> ([u8; 8], [u8; 12]) {
    let digest = hmac_sha512(keys.hmac(), &[plain]);
    let salt = digest[..8].try_into().expect("8 of 64 bytes");
    (salt, digest[8..20].try_into().expect("12 of 64 bytes"))
}

/// The MAC of a little-endian indirect block's contents: a plain hash.
pub(crate) fn mac_of_indirect(logical: &[u8]) -> [u8; 16] {
    mac::of_indirect(logical, Endian::Little, mac::RecordVersion::V1)
}

/// Encrypts or authenticates `stored`, the padded bytes that `pointer`'s properties describe.
///
/// `logical` are the block's contents, which an indirect block's MAC covers instead. `random`
/// draws an initialization vector and, if asked with it, a salt.
pub(crate) fn seal(
    pointer: &BlockPointer,
    logical: &[u8],
    stored: &mut Arc<BlockBuffer>,
    keys: &ObjsetKeys,
    random: impl Fn() -> std::io::Result<[u8; 20]>,
) -> Result<Seal, SealError> {
    let object_type = pointer.object_type();
    match pointer.protection() {
        Protection::None => Ok(Seal::default()),
        Protection::IndirectMac => Ok(Seal {
            parameters: None,
            mac: Some(mac_of_indirect(logical)),
        }),
        Protection::Authenticated if object_type == ObjectType::OBJSET => {
            let block: &mut BlockBuffer = Arc::make_mut(stored);
            let is_sealed = mac::seal_objset(block, keys);
            is_sealed.then(Seal::default).ok_or(SealError::TooLarge)
        }
        Protection::Authenticated => Ok(Seal {
            parameters: None,
            mac: Some(mac::of_stored(keys, stored)),
        }),
        Protection::Encrypted => {
            let (salt, iv) = match pointer.is_dedup() {
                true => derived(keys, stored),
                false => drawn(keys, random).map_err(SealError::Random)?,
            };
            let key = keys.block_key(salt);
            let block: &mut BlockBuffer = Arc::make_mut(stored);
            let tag = match object_type {
                ObjectType::DNODE => {
                    dnode_block::seal(block, &key, &iv).map_err(SealError::Malformed)?
                }
                _ => key
                    .encrypt(&iv, &[], block)
                    .map_err(|_| SealError::TooLarge)?,
            };
            Ok(Seal {
                parameters: Some((salt, iv)),
                mac: Some(tag),
            })
        }
    }
}
