//! What every object in the store begins with.
//!
//! ```text
//! 0       8         12   13   14   15  16      24       32      40       48     64     96 body
//! | magic | version | comp | ciph | class | 0 | total | stored | plain | number | uuid | checksum
//! | 8     | u32     | u8   | u8   | u8    |   | u64   | u64    | u64   | u64    | 16   | 32
//! ```
//!
//! `total` is the length of the whole object, `stored` that of the body as it stands there, `plain`
//! that of the body once it is decompressed. Only data objects have anything behind the body.
//! `number` and `uuid` say which object it is, so that one that was put under another name, or
//! comes from another device, is noticed. The checksum is BLAKE3 of bytes 0 to 63 and the body.
//!
//! Cipher is reserved and zero; anything else is refused by this version.

use super::bytes::Decoder;
use super::values::{Class, FormatError, Hash, Kind, Uuid};

/// Bytes before the body.
pub const ENVELOPE: usize = 96;
const CHECKED: usize = 64;
const VERSION: u32 = 1;
const ZSTD: u8 = 1;
/// Fast, and good enough for what is mostly small numbers and labels.
const ZSTD_LEVEL: i32 = 3;

/// What an envelope says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// What it holds, where the two classes are kept apart.
    pub class: Option<Class>,
    /// Bytes of the whole object.
    pub total: u64,
    /// Bytes of the body as it is stored.
    pub stored: u64,
    plain: u64,
    is_compressed: bool,
    /// Which one of its kind it is.
    pub number: u64,
    /// The device that it belongs to.
    pub uuid: Uuid,
    checksum: Hash,
}

/// Puts `body` into an envelope; `behind` bytes follow that are not part of it.
pub fn seal(kind: Kind, uuid: Uuid, number: u64, body: &[u8]) -> Vec<u8> {
    seal_with(kind, uuid, number, body, None, 0)
}

/// As [`seal`], naming a class and how many bytes follow the body.
pub fn seal_with(
    kind: Kind,
    uuid: Uuid,
    number: u64,
    body: &[u8],
    class: Option<Class>,
    behind: u64,
) -> Vec<u8> {
    assert!(body.len() as u64 <= kind.plain_max(), "a body of {kind:?}");
    let packed = compress(body);
    let (is_compressed, stored) = match &packed {
        Some(packed) => (ZSTD, &packed[..]),
        None => (0, body),
    };
    let mut bytes = Vec::with_capacity(ENVELOPE + stored.len());
    bytes.extend_from_slice(&kind.magic());
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[is_compressed, 0, class.map_or(0, Class::to_byte), 0]);
    let total = (ENVELOPE + stored.len()) as u64 + behind;
    for number in [total, stored.len() as u64, body.len() as u64, number] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&uuid.0);
    assert_eq!(bytes.len(), CHECKED);
    let checksum = checksum(&bytes, stored);
    bytes.extend_from_slice(&checksum.0);
    bytes.extend_from_slice(stored);
    bytes
}

fn checksum(head: &[u8], stored: &[u8]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(head);
    hasher.update(stored);
    Hash(*hasher.finalize().as_bytes())
}

/// The body compressed, if that makes it smaller.
fn compress(body: &[u8]) -> Option<Vec<u8>> {
    if body.len() < 64 {
        return None;
    }
    let mut packed = vec![0; zstd_safe::compress_bound(body.len())];
    let length = zstd_safe::compress(&mut packed[..], body, ZSTD_LEVEL).ok()?;
    packed.truncate(length);
    (length < body.len()).then_some(packed)
}

impl Envelope {
    /// The envelope at the front of `bytes`, which need not be complete.
    ///
    /// # Errors
    /// Whatever is not an envelope of this kind and version, or says impossible lengths. The
    /// checksum is compared by [`Self::body`] only.
    pub fn decode(kind: Kind, bytes: &[u8]) -> Result<Self, FormatError> {
        let mut decoder = Decoder::new(bytes);
        if decoder.array::<8>()? != kind.magic() {
            return Err(FormatError::Magic(kind));
        }
        let version = u32::from_le_bytes(decoder.array()?);
        if version != VERSION {
            return Err(FormatError::Version(version));
        }
        let [compression, cipher, class, _] = decoder.array()?;
        if compression > ZSTD || cipher != 0 {
            return Err(FormatError::Unsupported);
        }
        let envelope = Self {
            is_compressed: compression == ZSTD,
            class: Class::from_byte(class)?,
            total: decoder.u64()?,
            stored: decoder.u64()?,
            plain: decoder.u64()?,
            number: decoder.u64()?,
            uuid: Uuid(decoder.array()?),
            checksum: Hash(decoder.array()?),
        };
        let end = envelope.stored.checked_add(ENVELOPE as u64);
        let fits = end.is_some_and(|end| end <= envelope.total)
            && envelope.plain <= kind.plain_max()
            && envelope.stored <= kind.plain_max()
            && (envelope.is_compressed || envelope.stored == envelope.plain);
        match fits {
            true => Ok(envelope),
            false => Err(FormatError::Invalid("length")),
        }
    }

    /// Where in the object the body ends.
    pub fn body_end(&self) -> u64 {
        ENVELOPE as u64 + self.stored
    }

    /// The body of the object whose first bytes are `bytes`, checked and decompressed.
    ///
    /// # Errors
    /// Whatever is too short, fails its checksum or does not decompress to what is promised.
    pub fn body(&self, bytes: &[u8]) -> Result<Vec<u8>, FormatError> {
        let head = bytes.get(..CHECKED).ok_or(FormatError::Truncated)?;
        let end = usize::try_from(self.body_end()).map_err(|_| FormatError::Truncated)?;
        let stored = bytes.get(ENVELOPE..end).ok_or(FormatError::Truncated)?;
        if checksum(head, stored) != self.checksum {
            return Err(FormatError::Checksum);
        }
        match self.is_compressed {
            true => decompress(stored, self.plain),
            false => Ok(stored.to_vec()),
        }
    }

    /// Refuses what belongs to another device or has another number.
    pub fn expect(&self, uuid: Uuid, number: u64) -> Result<(), FormatError> {
        if self.uuid != uuid {
            return Err(FormatError::Uuid);
        }
        match self.number == number {
            true => Ok(()),
            false => Err(FormatError::Number {
                wanted: number,
                found: self.number,
            }),
        }
    }
}

/// Exactly `plain` bytes, of which no more are allocated than the frame gives.
fn decompress(stored: &[u8], plain: u64) -> Result<Vec<u8>, FormatError> {
    let limit = usize::try_from(plain).map_err(|_| FormatError::Truncated)?;
    let mut plain = Vec::new();
    let mut context = zstd_safe::DCtx::create();
    let mut input = zstd_safe::InBuffer::around(stored);
    let mut piece = vec![0_u8; (128 << 10).min(limit.max(1))];
    loop {
        let mut output = zstd_safe::OutBuffer::around(&mut piece[..]);
        let hint = context
            .decompress_stream(&mut output, &mut input)
            .map_err(|_| FormatError::Compression)?;
        let made = output.pos();
        if made > limit - plain.len() {
            return Err(FormatError::Compression);
        }
        plain.extend_from_slice(&piece[..made]);
        let is_done = hint == 0 || (made == 0 && input.pos == stored.len());
        if is_done {
            break;
        }
    }
    match plain.len() == limit && input.pos == stored.len() {
        true => Ok(plain),
        false => Err(FormatError::Compression),
    }
}

/// The body of an object that consists of nothing else, after all checks.
///
/// # Errors
/// As [`Envelope::decode`], [`Envelope::body`] and [`Envelope::expect`], and bytes behind the body.
pub fn open(kind: Kind, uuid: Uuid, number: u64, bytes: &[u8]) -> Result<Vec<u8>, FormatError> {
    let envelope = Envelope::decode(kind, bytes)?;
    envelope.expect(uuid, number)?;
    if envelope.total != bytes.len() as u64 || envelope.body_end() != envelope.total {
        return Err(FormatError::Invalid("length"));
    }
    envelope.body(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: Uuid = Uuid([7; 16]);

    #[test]
    fn what_is_sealed_opens() {
        for body in [&b""[..], b"short", &[9; 5000]] {
            let sealed = seal(Kind::Commit, UUID, 3, body);
            let opened = open(Kind::Commit, UUID, 3, &sealed);
            assert_eq!(opened.as_deref(), Ok(body));
            assert!(open(Kind::Commit, UUID, 4, &sealed).is_err());
            assert!(open(Kind::Commit, Uuid([8; 16]), 3, &sealed).is_err());
            assert!(open(Kind::Page, UUID, 3, &sealed).is_err());
        }
        assert!(seal(Kind::Commit, UUID, 3, &[9; 5000]).len() < 200);
    }

    #[test]
    fn every_changed_bit_and_every_cut_is_noticed() {
        let sealed = seal(Kind::Commit, UUID, 3, &b"some text, some text, ".repeat(9));
        for at in 0..sealed.len() {
            assert!(open(Kind::Commit, UUID, 3, &sealed[..at]).is_err());
            for bit in 0..8 {
                let mut spoiled = sealed.clone();
                spoiled[at] ^= 1 << bit;
                assert!(open(Kind::Commit, UUID, 3, &spoiled).is_err(), "{at}/{bit}");
            }
        }
    }

    #[test]
    fn a_frame_cannot_give_more_than_it_promised() {
        let packed = compress(&[0; 100_000]).expect("zeros compress");
        assert!(decompress(&packed, 99_999).is_err());
        assert!(decompress(&packed, 100_001).is_err());
        assert_eq!(decompress(&packed, 100_000), Ok(vec![0; 100_000]));
    }
}
