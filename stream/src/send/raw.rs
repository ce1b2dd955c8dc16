//! What a raw stream contains besides blocks: keys, and how blocks of dnodes are protected.
//!
//! The receiver writes blocks as they arrive and must get the same MACs. So the stream has
//! everything that they cover: dnodes with their whole bonus areas, mostly encrypted, and the
//! properties of the meta-dnode.

use super::snapshot::{Base, Snapshot};
use super::unreadable;
use crate::error::StreamError;
use cenote_dmu::DmuError;
use cenote_dmu::traverse::Visit;
use cenote_io::ReadContext;
use cenote_ondisk::Dnode;
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::dnode::{DNODE_CORE_SIZE, DNODE_SIZE};
use cenote_ondisk::stream::{CryptKeydata, MetaDnode};

/// The keys of `snapshot`, wrapped as they are stored.
pub(super) fn keydata(
    snapshot: &Snapshot,
    base: Option<&Base>,
) -> Result<CryptKeydata, StreamError> {
    let Some(key) = &snapshot.key else {
        return Err(StreamError::Unsendable {
            problem: "it is not encrypted",
        });
    };
    let header = snapshot.set.header();
    let meta = &header.meta_dnode;
    Ok(CryptKeydata {
        suite: key.suite.number(),
        guid: key.guid,
        version: key.version,
        master_key: key.master_key,
        hmac_key: key.hmac_key,
        iv: key.iv,
        mac: key.mac,
        portable_mac: header.portable_mac,
        key_format: key.key_format.number(),
        pbkdf2_iterations: key.pbkdf2_iterations,
        pbkdf2_salt: key.pbkdf2_salt,
        meta_dnode: MetaDnode {
            checksum: u64::from(meta.checksum),
            compression: u64::from(meta.compression),
            levels: u64::from(meta.levels),
            block_size: meta.data_block_size,
            indirect_shift: u64::from(meta.indirect_shift),
            block_pointers: meta.block_pointers.len() as u64,
            block_id_max: meta.block_id_max,
        },
        to_ivset_guid: Some(snapshot.ivset_guid),
        from_ivset_guid: Some(base.map_or_else(Default::default, |base| base.ivset_guid)),
    })
}

/// A block of dnodes as it is without keys: bonus areas encrypted.
pub(super) fn dnodes(snapshot: &Snapshot, visit: &Visit) -> Result<Vec<u8>, StreamError> {
    // The cache may have it decrypted.
    let context = ReadContext {
        bookmark: visit.bookmark,
        keys: None,
    };
    let contents = snapshot
        .set
        .cache()
        .pipeline()
        .read(&visit.pointer, context, snapshot.set.io());
    contents.map_err(|error| unreadable(DmuError::from(error)))
}

/// The whole bonus area of the dnode in slot `slot` of a block of them.
pub(super) fn bonus_area<'a>(block: &'a [u8], slot: usize, dnode: &Dnode) -> Option<&'a [u8]> {
    let start = slot.checked_mul(DNODE_SIZE)?;
    let bonus = start + DNODE_CORE_SIZE + dnode.block_pointers.len() * BLOCK_POINTER_SIZE;
    let spill = match dnode.spill {
        Some(_) => BLOCK_POINTER_SIZE,
        None => 0,
    };
    let end = (start + dnode.slots() * DNODE_SIZE).checked_sub(spill)?;
    block.get(bonus..end)
}
