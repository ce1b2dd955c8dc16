//! The keys of a raw stream, wrapped as the sender keeps them.
//!
//! Source: format/4 3, "crypt_keydata". The entries of the crypto key object, less what only
//! counts within a pool; the properties of the meta dnode, over which MACs run; and the guids of
//! the sets of IVs, by which a receiver knows that an increment belongs to what it has.

use crate::crypto_key::{HMAC_KEY_SIZE, IV_SIZE, MAC_SIZE, MASTER_KEY_SIZE, entries};
use crate::{DecodeError, NvList, NvValue};
use cenote_base::{BlockId, Guid};

const STRUCTURE: &str = "crypt_keydata";

/// The keys of a raw stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CryptKeydata {
    /// The encryption suite's number.
    pub suite: u64,
    /// Identifies the master key.
    pub guid: Guid,
    /// The version of the key object.
    pub version: u64,
    /// The wrapped master key.
    pub master_key: [u8; MASTER_KEY_SIZE],
    /// The wrapped HMAC key.
    pub hmac_key: [u8; HMAC_KEY_SIZE],
    /// IV of the wrapping.
    pub iv: [u8; IV_SIZE],
    /// MAC of the wrapping.
    pub mac: [u8; MAC_SIZE],
    /// The MAC of the object set, of what does not depend on the pool.
    pub portable_mac: [u8; 32],
    /// The number of the format in which the wrapping key is given.
    pub key_format: u64,
    /// Iterations of a passphrase.
    pub pbkdf2_iterations: u64,
    /// Salt of a passphrase.
    pub pbkdf2_salt: u64,
    /// The meta dnode.
    pub meta_dnode: MetaDnode,
    /// The set of IVs of the snapshot; absent in streams of OpenZFS 0.8.
    pub to_ivset_guid: Option<Guid>,
    /// That of its source, 0 in full streams.
    pub from_ivset_guid: Option<Guid>,
}

/// Properties of the meta dnode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaDnode {
    /// Checksum function number.
    pub checksum: u64,
    /// Compression function number.
    pub compression: u64,
    /// Levels of its block tree.
    pub levels: u64,
    /// Bytes of a block.
    pub block_size: u64,
    /// log2 of the bytes of an indirect block.
    pub indirect_shift: u64,
    /// Block pointers.
    pub block_pointers: u64,
    /// The highest block.
    pub block_id_max: BlockId,
}

const PORTABLE_MAC: &str = "portable_mac";

impl CryptKeydata {
    /// Gathers the entries of `list`.
    ///
    /// # Errors
    /// If one that must be there is missing, or has another length.
    pub fn from_list(list: &NvList) -> Result<Self, DecodeError> {
        let number = |key| list.require_u64(STRUCTURE, key);
        Ok(Self {
            suite: number(entries::SUITE)?,
            guid: Guid(number(entries::GUID)?),
            version: list.get_u64(entries::VERSION).unwrap_or(0),
            master_key: bytes(list, entries::MASTER_KEY)?,
            hmac_key: bytes(list, entries::HMAC_KEY)?,
            iv: bytes(list, entries::IV)?,
            mac: bytes(list, entries::MAC)?,
            portable_mac: bytes(list, PORTABLE_MAC)?,
            key_format: number(entries::KEY_FORMAT)?,
            pbkdf2_iterations: list.get_u64(entries::ITERATIONS).unwrap_or(0),
            pbkdf2_salt: list.get_u64(entries::SALT).unwrap_or(0),
            meta_dnode: MetaDnode {
                checksum: number("mdn_checksum")?,
                compression: number("mdn_compress")?,
                levels: number("mdn_nlevels")?,
                block_size: number("mdn_blksz")?,
                indirect_shift: number("mdn_indblkshift")?,
                block_pointers: number("mdn_nblkptr")?,
                block_id_max: BlockId(number("mdn_maxblkid")?),
            },
            to_ivset_guid: list.get_u64("to_ivset_guid").map(Guid),
            from_ivset_guid: list.get_u64("from_ivset_guid").map(Guid),
        })
    }

    /// The list, in the order that OpenZFS sends.
    pub fn to_list(&self) -> NvList {
        let mut list = NvList::new();
        let bytes = |bytes: &[u8]| NvValue::Uint8Array(bytes.to_vec());
        list.set_u64(entries::SUITE, self.suite);
        list.set_u64(entries::GUID, self.guid.0);
        list.set_u64(entries::VERSION, self.version);
        list.set(entries::MASTER_KEY, bytes(&self.master_key));
        list.set(entries::HMAC_KEY, bytes(&self.hmac_key));
        list.set(entries::IV, bytes(&self.iv));
        list.set(entries::MAC, bytes(&self.mac));
        list.set(PORTABLE_MAC, bytes(&self.portable_mac));
        list.set_u64(entries::KEY_FORMAT, self.key_format);
        list.set_u64(entries::ITERATIONS, self.pbkdf2_iterations);
        list.set_u64(entries::SALT, self.pbkdf2_salt);
        list.set_u64("mdn_checksum", self.meta_dnode.checksum);
        list.set_u64("mdn_compress", self.meta_dnode.compression);
        list.set_u64("mdn_nlevels", self.meta_dnode.levels);
        list.set_u64("mdn_blksz", self.meta_dnode.block_size);
        list.set_u64("mdn_indblkshift", self.meta_dnode.indirect_shift);
        list.set_u64("mdn_nblkptr", self.meta_dnode.block_pointers);
        list.set_u64("mdn_maxblkid", self.meta_dnode.block_id_max.0);
        if let Some(guid) = self.to_ivset_guid {
            list.set_u64("to_ivset_guid", guid.0);
        }
        if let Some(guid) = self.from_ivset_guid {
            list.set_u64("from_ivset_guid", guid.0);
        }
        list
    }
}

/// The bytes of an entry of exactly this length.
fn bytes<const N: usize>(list: &NvList, key: &'static str) -> Result<[u8; N], DecodeError> {
    let bytes = list.get_byte_array(key);
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or(DecodeError::Missing {
        structure: STRUCTURE,
        key,
    })
}
