//! Native encryption: the blocks of an encrypted dataset, opened, judged and sealed (format/2d).
//!
//! Four treatments, by level and type: data is ciphertext with a tag; clear metadata carries an
//! HMAC of its stored bytes; an indirect block carries a hash over the MACs of its children; a
//! dnode block is clear but for its bonus buffers, all of it under one tag. The object set block
//! holds its own two MACs.
//!
//! Without keys the block *tree* can still be walked: dnodes keep their pointers in clear, so
//! that a pool can be scrubbed and sent raw. What is then returned for a dnode block has
//! ciphertext in its bonus buffers, and encrypted contents are refused.

mod dnode_block;
mod keys;
mod log_block;
mod mac;
mod seal;

pub use keys::ObjsetKeys;
pub use log_block::{open as open_log_block, seal as seal_log_block};
pub(crate) use seal::{SealError, mac_of_indirect, seal};

use crate::checksum::endian_of;
use crate::error::IoError;
use cenote_base::Bookmark;
use cenote_ondisk::block_pointer::Protection;
use cenote_ondisk::{BlockPointer, ObjectType};

/// A block that may be protected, on its way through the pipeline.
pub(crate) struct Protected<'a> {
    pub(crate) pointer: &'a BlockPointer,
    pub(crate) bookmark: Bookmark,
}

impl Protected<'_> {
    fn authentication_failed(&self) -> IoError {
        IoError::Authentication {
            bookmark: self.bookmark,
        }
    }

    fn is_objset(&self) -> bool {
        self.pointer.object_type() == ObjectType::OBJSET && self.pointer.level().0 == 0
    }

    /// Decrypts or authenticates what is protected in its stored form.
    ///
    /// Returns the plaintext, or `None` when the stored bytes are clear as they are.
    pub(crate) fn open_stored(
        &self,
        stored: &[u8],
        keys: Option<&ObjsetKeys>,
    ) -> Result<Option<Vec<u8>>, IoError> {
        let pointer = self.pointer;
        let is_dnodes = pointer.object_type() == ObjectType::DNODE;
        match (pointer.protection(), keys) {
            (Protection::None | Protection::IndirectMac, _) => Ok(None),
            (Protection::Encrypted, None) if is_dnodes => Ok(None),
            (Protection::Encrypted, None) => Err(IoError::KeyNotLoaded {
                bookmark: self.bookmark,
            }),
            (Protection::Encrypted, Some(keys)) if is_dnodes => {
                let mut block = stored.to_vec();
                let opened = dnode_block::open(pointer, &mut block, keys);
                opened
                    .map(|()| Some(block))
                    .map_err(|error| self.dnode_error(error))
            }
            (Protection::Encrypted, Some(keys)) => {
                let mut block = stored.to_vec();
                let key = keys.block_key(pointer.salt());
                let opened = key.decrypt(&pointer.iv(), &[], &mut block, &pointer.mac());
                opened
                    .map(|()| Some(block))
                    .map_err(|_| self.authentication_failed())
            }
            (Protection::Authenticated, _) if self.is_objset() => Ok(None),
            (Protection::Authenticated, None) => Ok(None),
            (Protection::Authenticated, Some(keys)) => {
                match mac::of_stored(keys, stored) == pointer.mac() {
                    true => Ok(None),
                    false => Err(self.authentication_failed()),
                }
            }
        }
    }

    fn dnode_error(&self, error: dnode_block::OpenError) -> IoError {
        match error {
            dnode_block::OpenError::Authentication => self.authentication_failed(),
            dnode_block::OpenError::Malformed(source) => IoError::MalformedProtected {
                bookmark: self.bookmark,
                source,
            },
        }
    }

    /// Authenticates what is protected in its logical form: indirect and object set blocks.
    pub(crate) fn check_logical(
        &self,
        logical: &[u8],
        keys: Option<&ObjsetKeys>,
    ) -> Result<(), IoError> {
        if !self.pointer.uses_crypt() {
            return Ok(());
        }
        let endian = endian_of(self.pointer);
        let good = if self.pointer.protection() == Protection::IndirectMac {
            // A plain hash: it can be judged without keys.
            mac::indirect_is_good(logical, endian, &self.pointer.mac())
        } else if let (true, Some(keys)) = (self.is_objset(), keys) {
            mac::objset_is_good(logical, endian, keys)
        } else {
            true
        };
        if good {
            Ok(())
        } else {
            Err(self.authentication_failed())
        }
    }
}
