//! From what a user types or stores in a file to the 32-byte key that wraps a dataset's keys.
//!
//! Sources: format/2d 2.1 for the derivation, cli/contract-zfs 8 for the words. A passphrase has
//! 8 to 512 bytes, a hex key 64 digits, a raw key 32 bytes. A line end behind text keys belongs
//! to the line and not to the key; in a raw key every byte counts.

use cenote_codec::cipher::{WrappingKey, WrappingKeyError};

/// How the user's key is written (`keyformat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFormat {
    /// 32 bytes.
    Raw,
    /// 64 hexadecimal digits.
    Hex,
    /// Words, stretched by PBKDF2.
    Passphrase {
        /// `pbkdf2salt`.
        salt: u64,
        /// `pbkdf2iters`.
        iterations: u64,
    },
}

/// Bytes of a passphrase.
pub const PASSPHRASE_LENGTH: std::ops::RangeInclusive<usize> = 8..=512;
const HEX_DIGITS: usize = 64;
const RAW_LENGTH: usize = 32;

/// Iterations that a key may ask for: OpenZFS's default is 350,000, and a damaged or hostile
/// number must not keep a processor busy for hours.
pub const ITERATIONS_MAX: u64 = 1 << 28;

/// Why bytes are no key of the wanted format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it means")]
pub enum KeyMaterialError {
    #[error("Passphrase too short (min {}).", PASSPHRASE_LENGTH.start())]
    PassphraseTooShort,
    #[error("Passphrase too long (max {}).", PASSPHRASE_LENGTH.end())]
    PassphraseTooLong,
    #[error("Hex key too short (expected {HEX_DIGITS}).")]
    HexTooShort,
    #[error("Hex key too long (expected {HEX_DIGITS}).")]
    HexTooLong,
    #[error("Invalid hex key provided.")]
    HexInvalid,
    #[error("Raw key too short (expected {RAW_LENGTH}).")]
    RawTooShort,
    #[error("Raw key too long (expected {RAW_LENGTH}).")]
    RawTooLong,
    #[error("{0} iterations of PBKDF2 are not possible.")]
    Iterations(u64),
}

/// Turns key material into the wrapping key.
pub fn wrapping_key(material: &[u8], format: KeyFormat) -> Result<WrappingKey, KeyMaterialError> {
    match format {
        KeyFormat::Raw => {
            expect_length(
                material,
                RAW_LENGTH,
                KeyMaterialError::RawTooShort,
                KeyMaterialError::RawTooLong,
            )?;
            WrappingKey::from_raw(material).map_err(from_codec)
        }
        KeyFormat::Hex => {
            let digits = without_line_end(material);
            expect_length(
                digits,
                HEX_DIGITS,
                KeyMaterialError::HexTooShort,
                KeyMaterialError::HexTooLong,
            )?;
            WrappingKey::from_hex(digits).map_err(from_codec)
        }
        KeyFormat::Passphrase { salt, iterations } => {
            let words = without_line_end(material);
            if words.len() < *PASSPHRASE_LENGTH.start() {
                return Err(KeyMaterialError::PassphraseTooShort);
            }
            if words.len() > *PASSPHRASE_LENGTH.end() {
                return Err(KeyMaterialError::PassphraseTooLong);
            }
            if iterations > ITERATIONS_MAX {
                return Err(KeyMaterialError::Iterations(iterations));
            }
            WrappingKey::from_passphrase(words, salt, iterations).map_err(from_codec)
        }
    }
}

fn expect_length(
    bytes: &[u8],
    length: usize,
    short: KeyMaterialError,
    long: KeyMaterialError,
) -> Result<(), KeyMaterialError> {
    match bytes.len().cmp(&length) {
        std::cmp::Ordering::Less => Err(short),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(long),
    }
}

fn from_codec(error: WrappingKeyError) -> KeyMaterialError {
    match error {
        WrappingKeyError::RawLength(_) => KeyMaterialError::RawTooShort,
        WrappingKeyError::Hex => KeyMaterialError::HexInvalid,
        WrappingKeyError::Iterations(count) => KeyMaterialError::Iterations(count),
    }
}

/// The text without one line end, as a terminal, an editor or `echo` leaves it.
fn without_line_end(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\n").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSPHRASE: KeyFormat = KeyFormat::Passphrase {
        salt: 7,
        iterations: 1,
    };

    fn refusal(material: &[u8], format: KeyFormat) -> Option<KeyMaterialError> {
        wrapping_key(material, format).err()
    }

    #[test]
    fn lengths_are_checked() {
        let digits = [b'a'; 64];
        assert_eq!(refusal(&digits, KeyFormat::Hex), None);
        assert_eq!(
            refusal(&[&digits[..], b"\n"].concat(), KeyFormat::Hex),
            None
        );
        let two_lines = [&digits[..], b"\n\n"].concat();
        assert_eq!(
            refusal(&two_lines, KeyFormat::Hex),
            Some(KeyMaterialError::HexTooLong)
        );
        assert_eq!(
            refusal(&digits[1..], KeyFormat::Hex),
            Some(KeyMaterialError::HexTooShort)
        );
        assert_eq!(
            refusal(&[b'x'; 64], KeyFormat::Hex),
            Some(KeyMaterialError::HexInvalid)
        );
        assert_eq!(refusal(&[b'\n'; 32], KeyFormat::Raw), None, "any 32 bytes");
        assert_eq!(
            refusal(&[0; 33], KeyFormat::Raw),
            Some(KeyMaterialError::RawTooLong)
        );
        assert_eq!(refusal(b"12345678\n", PASSPHRASE), None);
        assert_eq!(
            refusal(b"1234567\n", PASSPHRASE),
            Some(KeyMaterialError::PassphraseTooShort)
        );
        assert_eq!(
            refusal(&[b'x'; 513], PASSPHRASE),
            Some(KeyMaterialError::PassphraseTooLong)
        );
    }

    #[test]
    fn absurd_iterations_are_refused_at_once() {
        for iterations in [0, ITERATIONS_MAX + 1, u64::MAX] {
            let format = KeyFormat::Passphrase {
                salt: 7,
                iterations,
            };
            assert_eq!(
                refusal(b"long enough", format),
                Some(KeyMaterialError::Iterations(iterations))
            );
        }
    }
}
