//! Key material on its way to the daemon.
//!
//! A secret is never part of a text: JSON readers and writers copy values into buffers of their
//! own, which are not wiped. It travels beside the text, which refers to it by number.

use std::cell::RefCell;
use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The longest secret: more than any key or passphrase has.
pub(crate) const SECRET_SIZE_MAX: usize = 4096;

thread_local! {
    /// The secrets beside the text that this thread writes or reads just now.
    static ASIDE: RefCell<Option<Vec<Secret>>> = const { RefCell::new(None) };
}

/// Bytes that must not linger: wiped when dropped, hidden from debug output.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Takes over `bytes`.
    pub fn new(bytes: Vec<u8>) -> Self {
        Secret(bytes)
    }

    /// The bytes themselves.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let place = ASIDE.with_borrow_mut(|aside| {
            let aside = aside.as_mut()?;
            aside.push(self.clone());
            Some(aside.len() - 1)
        });
        match place {
            Some(place) => place.serialize(serializer),
            None => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecretVisitor)
    }
}

struct SecretVisitor;

impl<'de> Visitor<'de> for SecretVisitor {
    type Value = Secret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of a secret beside the text, or a list of bytes")
    }

    fn visit_u64<E: de::Error>(self, place: u64) -> Result<Secret, E> {
        let found = ASIDE.with_borrow(|aside| {
            let place = usize::try_from(place).ok()?;
            aside.as_ref()?.get(place).cloned()
        });
        found.ok_or_else(|| E::custom("no secret of that number is beside the text"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Secret, A::Error> {
        let mut bytes = Secret(Vec::with_capacity(SECRET_SIZE_MAX));
        while let Some(byte) = list.next_element()? {
            if bytes.0.len() == SECRET_SIZE_MAX {
                return Err(de::Error::invalid_length(bytes.0.len() + 1, &self));
            }
            bytes.0.push(byte);
        }
        Ok(bytes)
    }
}

/// Runs `write` with secrets kept out of what it serializes: each becomes its number in the list.
pub(crate) fn set_aside<T>(write: impl FnOnce() -> T) -> (T, Vec<Secret>) {
    ASIDE.set(Some(Vec::new()));
    let written = write();
    (written, ASIDE.take().unwrap_or_default())
}

/// Runs `read` with `secrets`, to which numbers in what it deserializes refer.
pub(crate) fn beside<T>(secrets: Vec<Secret>, read: impl FnOnce() -> T) -> T {
    ASIDE.set(Some(secrets));
    let read = read();
    ASIDE.take();
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_the_bytes() {
        let secret = Secret::new(b"hunter22".to_vec());
        assert_eq!(format!("{secret:?}"), "Secret(8 bytes)");
    }
    #[test]
    fn secrets_are_beside_the_text() {
        let secret = Secret::new(b"hunter22".to_vec());
        let (text, aside) = set_aside(|| serde_json::to_string(&[&secret, &secret]));
        let text = text.expect("plain data");
        assert_eq!(text, "[0,1]");
        let read = beside(aside, || serde_json::from_str::<[Secret; 2]>(&text));
        assert_eq!(read.expect("own output"), [secret.clone(), secret.clone()]);
        let lone = serde_json::from_str::<Secret>("0");
        assert!(lone.is_err(), "there is nothing beside it");
        let listed = serde_json::from_str::<Secret>("[104,117,110,116,101,114,50,50]");
        assert_eq!(listed.expect("bytes"), secret);
    }
}
