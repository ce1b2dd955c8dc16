//! Requests to a ZAP: a key, and what to do with a value under it.

use super::{ZapKey, ZapValue};
use cenote_ondisk::zap::leaf_edit::StoredKey;

/// A key to look for or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRef<'a> {
    /// A name without its NUL.
    Name(&'a [u8]),
    /// Numbers, for ZAPs with such keys.
    Words(&'a [u64]),
}

impl<'a> From<&'a str> for KeyRef<'a> {
    fn from(name: &'a str) -> Self {
        Self::Name(name.as_bytes())
    }
}

impl<'a> From<&'a String> for KeyRef<'a> {
    fn from(name: &'a String) -> Self {
        Self::Name(name.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for KeyRef<'a> {
    fn from(name: &'a [u8]) -> Self {
        Self::Name(name)
    }
}

impl<'a> From<&'a Vec<u8>> for KeyRef<'a> {
    fn from(name: &'a Vec<u8>) -> Self {
        Self::Name(name)
    }
}

impl<'a> From<&'a [u64]> for KeyRef<'a> {
    fn from(words: &'a [u64]) -> Self {
        Self::Words(words)
    }
}

impl<'a> From<&'a ZapKey> for KeyRef<'a> {
    fn from(key: &'a ZapKey) -> Self {
        match key {
            ZapKey::Name(name) => Self::Name(name),
            ZapKey::Words(words) => Self::Words(words),
        }
    }
}

impl<'a> KeyRef<'a> {
    pub(super) fn stored(self) -> Option<StoredKey<'static>> {
        match self {
            Self::Name(name) => StoredKey::name(name).map(StoredKey::into_owned),
            Self::Words(words) => StoredKey::words(words).map(StoredKey::into_owned),
        }
    }
}

/// What to do about a key that is there, or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The key must be new.
    Insert,
    /// The value replaces an older one.
    Update,
}

/// One storing of a value under a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Store<'a> {
    pub(super) key: KeyRef<'a>,
    pub(super) value: &'a ZapValue,
    pub(super) mode: Mode,
}
