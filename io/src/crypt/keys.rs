//! The keys of one encrypted object set, as long as they are loaded.

use cenote_base::rt::{Mutex, ranks};
use cenote_base::settings;
use cenote_codec::cipher::{
    BlockKey, HmacKey, KeyIdentity, MasterKey, NONCE_LENGTH, WrappedKeys, WrappingKey, wrap_keys,
};
use std::collections::HashMap;
use std::sync::Arc;

/// A new salt comes with each key load and each 400 million blocks (format/2d 3), so a dataset
/// has few; a pool made to have many only loses the benefit of the cache.
const BLOCK_KEYS_MAX: usize = 1024;

/// An unwrapped master key and HMAC key, with the block keys derived so far.
///
/// The codec's key types wipe their memory when dropped, so dropping this unloads the keys.
pub struct ObjsetKeys {
    master: MasterKey,
    hmac: HmacKey,
    block_keys: Mutex<HashMap<[u8; 8], Arc<BlockKey>>, ranks::BlockKeys>,
    /// The salt for new blocks, and how many were written with it.
    writing: Mutex<Option<([u8; 8], u64)>, ranks::WritingSalt>,
}

impl std::fmt::Debug for ObjsetKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ObjsetKeys(secret)")
    }
}

impl ObjsetKeys {
    /// Keys as unwrapped from the dataset's key object.
    pub fn new(master: MasterKey, hmac: HmacKey) -> Self {
        Self {
            master,
            hmac,
            block_keys: Mutex::new(HashMap::new()),
            writing: Mutex::new(None),
        }
    }

    /// The key for blocks with this salt.
    pub fn block_key(&self, salt: [u8; 8]) -> Arc<BlockKey> {
        let mut keys = self.block_keys.lock();
        if let Some(key) = keys.get(&salt) {
            return Arc::clone(key);
        }
        if keys.len() >= BLOCK_KEYS_MAX {
            keys.clear();
        }
        let key = Arc::new(self.master.block_key(salt));
        keys.insert(salt, Arc::clone(&key));
        key
    }

    /// The salt for one more new block; a new one is drawn when the last has served its time.
    pub(crate) fn salt_for_writing<E>(
        &self,
        draw: impl FnOnce() -> Result<[u8; 8], E>,
    ) -> Result<[u8; 8], E> {
        let mut writing = self.writing.lock();
        let (salt, uses) = match *writing {
            Some((salt, uses)) if uses < settings::SALT_USES_MAX.get() => (salt, uses + 1),
            _ => (draw()?, 1),
        };
        *writing = Some((salt, uses));
        Ok(salt)
    }

    /// Seals the keys under the user's key; `nonce` must be fresh and random.
    pub fn wrap(
        &self,
        wrapping: &WrappingKey,
        identity: &KeyIdentity,
        nonce: [u8; NONCE_LENGTH],
    ) -> WrappedKeys {
        wrap_keys(wrapping, identity, nonce, &self.master, &self.hmac)
    }

    /// The key for HMACs over clear metadata.
    pub fn hmac(&self) -> &HmacKey {
        &self.hmac
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_codec::cipher::Suite;

    #[test]
    fn a_salt_serves_for_so_many_blocks() {
        let keys = ObjsetKeys::new(
            MasterKey::new(Suite::Aes256Gcm, [1; 32]),
            HmacKey::new([2; 64]),
        );
        let mut drawn = 0_u64;
        let mut salt = || {
            let next = || {
                drawn += 1;
                Ok::<_, ()>(drawn.to_le_bytes())
            };
            keys.salt_for_writing(next).map(u64::from_le_bytes)
        };
        assert_eq!([salt(), salt(), salt()], [Ok(1); 3]);
        settings::SALT_USES_MAX.set(5).expect("in range");
        let salts: Vec<_> = (0..8).filter_map(|_| salt().ok()).collect();
        settings::SALT_USES_MAX.reset();
        assert_eq!(salts, [1, 1, 2, 2, 2, 2, 2, 3]);
    }
}
