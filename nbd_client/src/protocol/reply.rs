//! Replies of the transmission.
//!
//! ```text
//!            magic  error  cookie
//! simple       4      4      8                            16 bytes, 0x67446698
//!            magic  flags  kind  cookie  length
//! chunk        4      2     2      8       4              20 bytes, 0x668e33ef
//!            magic  flags  kind  cookie  offset  length
//! extended     4      2     2      8       8       8      32 bytes, 0x6e8a278c
//! ```

use super::error_code::ErrorCode;
use super::fields::{Fields, Malformed};
use super::numbers::{STRING_BYTES_MAX, chunk};

const SIMPLE_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;
const EXTENDED_MAGIC: u32 = 0x6e8a_278c;

/// Bytes of a simple reply.
pub const SIMPLE_SIZE: usize = 16;

/// How replies of a connection look; later ones can do more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplyStyle {
    /// Simple replies only.
    Simple,
    /// Chunks for what has a payload.
    Structured,
    /// Chunks with 64-bit lengths for everything.
    Extended,
}

/// The beginning of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyHeader {
    /// All of a simple reply but its data.
    Simple {
        /// 0 for success.
        error: u32,
        /// The request's.
        cookie: u64,
    },
    /// A chunk without its payload.
    Chunk {
        /// [`chunk::DONE`] or 0.
        flags: u16,
        /// See [`chunk`].
        kind: u16,
        /// The request's.
        cookie: u64,
        /// Bytes of the payload.
        length: u64,
    },
}

impl ReplyHeader {
    /// Bytes that follow the first [`SIMPLE_SIZE`], by the magic number of these.
    ///
    /// # Errors
    /// There is no reply in them that the style allows.
    pub fn rest_size(first: &[u8], style: ReplyStyle) -> Result<usize, Malformed> {
        let magic = Fields::new("reply", first).u32()?;
        match (magic, style) {
            (SIMPLE_MAGIC, ReplyStyle::Simple | ReplyStyle::Structured) => Ok(0),
            (CHUNK_MAGIC, ReplyStyle::Structured) => Ok(4),
            (EXTENDED_MAGIC, ReplyStyle::Extended) => Ok(16),
            _ => Err(Malformed::Magic {
                what: "reply",
                found: magic.into(),
            }),
        }
    }

    /// The header in `bytes`, all of them.
    ///
    /// # Errors
    /// There is no reply in them.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new("reply", bytes);
        let magic = fields.u32()?;
        let header = match magic {
            SIMPLE_MAGIC => Self::Simple {
                error: fields.u32()?,
                cookie: fields.u64()?,
            },
            CHUNK_MAGIC | EXTENDED_MAGIC => {
                let flags = fields.u16()?;
                let kind = fields.u16()?;
                let cookie = fields.u64()?;
                let length = match magic {
                    CHUNK_MAGIC => fields.u32()?.into(),
                    _ => {
                        fields.u64()?;
                        fields.u64()?
                    }
                };
                Self::Chunk {
                    flags,
                    kind,
                    cookie,
                    length,
                }
            }
            found => {
                return Err(Malformed::Magic {
                    what: "reply",
                    found: found.into(),
                });
            }
        };
        fields.end()?;
        Ok(header)
    }
}

/// A simple reply without data.
pub fn encode_simple(error: Option<ErrorCode>, cookie: u64) -> Vec<u8> {
    let error = error.map_or(0, ErrorCode::number);
    let mut bytes = Vec::with_capacity(SIMPLE_SIZE);
    bytes.extend_from_slice(&SIMPLE_MAGIC.to_be_bytes());
    bytes.extend_from_slice(&error.to_be_bytes());
    bytes.extend_from_slice(&cookie.to_be_bytes());
    bytes
}

/// Whose chunks these are.
#[derive(Clone, Copy, Debug)]
pub struct ChunkOf {
    /// Whether headers are extended.
    pub is_extended: bool,
    /// The request's cookie.
    pub cookie: u64,
    /// The request's offset.
    pub offset: u64,
}

impl ChunkOf {
    /// Appends the header of a chunk whose payload has `length` bytes.
    pub fn header(&self, bytes: &mut Vec<u8>, kind: u16, is_last: bool, length: u64) {
        let flags = if is_last { chunk::DONE } else { 0 };
        let magic = match self.is_extended {
            true => EXTENDED_MAGIC,
            false => CHUNK_MAGIC,
        };
        bytes.extend_from_slice(&magic.to_be_bytes());
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&self.cookie.to_be_bytes());
        match self.is_extended {
            true => {
                bytes.extend_from_slice(&self.offset.to_be_bytes());
                bytes.extend_from_slice(&length.to_be_bytes());
            }
            false => {
                let length = u32::try_from(length).expect("payloads are below 4 GiB");
                bytes.extend_from_slice(&length.to_be_bytes());
            }
        }
    }

    /// The chunk of a success without payload.
    pub fn done(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.header(&mut bytes, chunk::NONE, true, 0);
        bytes
    }

    /// The chunk of an error, the last one. Its text is cut where the protocol ends it.
    pub fn error(&self, code: ErrorCode, text: &str, offset: Option<u64>) -> Vec<u8> {
        let text = &text[..text.floor_char_boundary(STRING_BYTES_MAX)];
        let kind = match offset {
            Some(_) => chunk::ERROR_OFFSET,
            None => chunk::ERROR,
        };
        let length = 6 + text.len() + offset.map_or(0, |_| 8);
        let mut bytes = Vec::new();
        self.header(&mut bytes, kind, true, length as u64);
        bytes.extend_from_slice(&code.number().to_be_bytes());
        let text_length = u16::try_from(text.len()).expect("4096 at most");
        bytes.extend_from_slice(&text_length.to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend(offset.map(u64::to_be_bytes).into_iter().flatten());
        bytes
    }

    /// Appends the header of a chunk of data at `offset`; `length` bytes of it follow.
    pub fn data(&self, bytes: &mut Vec<u8>, is_last: bool, offset: u64, length: u64) {
        self.header(bytes, chunk::OFFSET_DATA, is_last, 8 + length);
        bytes.extend_from_slice(&offset.to_be_bytes());
    }

    /// Appends a chunk of zeros.
    pub fn hole(&self, bytes: &mut Vec<u8>, is_last: bool, offset: u64, length: u32) {
        self.header(bytes, chunk::OFFSET_HOLE, is_last, 12);
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&length.to_be_bytes());
    }

    /// Appends the extents of one context: lengths and flags.
    pub fn extents(&self, bytes: &mut Vec<u8>, is_last: bool, id: u32, extents: &[(u64, u32)]) {
        let count = extents.len() as u64;
        let length = match self.is_extended {
            true => 8 + 16 * count,
            false => 4 + 8 * count,
        };
        let kind = match self.is_extended {
            true => chunk::BLOCK_STATUS_EXT,
            false => chunk::BLOCK_STATUS,
        };
        self.header(bytes, kind, is_last, length);
        bytes.extend_from_slice(&id.to_be_bytes());
        if self.is_extended {
            let count = u32::try_from(count).expect("extents of one chunk are few");
            bytes.extend_from_slice(&count.to_be_bytes());
        }
        for (length, flags) in extents {
            match self.is_extended {
                true => {
                    bytes.extend_from_slice(&length.to_be_bytes());
                    bytes.extend_from_slice(&u64::from(*flags).to_be_bytes());
                }
                false => {
                    let length = u32::try_from(*length).expect("cut to the request's length");
                    bytes.extend_from_slice(&length.to_be_bytes());
                    bytes.extend_from_slice(&flags.to_be_bytes());
                }
            }
        }
    }
}

/// The payload of an error's chunk: why, and the server's text.
///
/// # Errors
/// There is no error in it.
pub fn decode_error(payload: &[u8], kind: u16) -> Result<(ErrorCode, String), Malformed> {
    let mut fields = Fields::new("error of a reply", payload);
    let number = fields.u32()?;
    let length = fields.u16()?;
    let text = String::from_utf8_lossy(fields.bytes(length.into())?).into_owned();
    if kind == chunk::ERROR_OFFSET {
        fields.u64()?;
    }
    if number == 0 {
        return Err(Malformed::Value {
            what: "number of an error",
            found: 0,
        });
    }
    Ok((ErrorCode::from_number(number), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(is_extended: bool) -> ChunkOf {
        ChunkOf {
            is_extended,
            cookie: 7,
            offset: 512,
        }
    }

    #[test]
    fn headers_go_both_ways() {
        let simple = encode_simple(Some(ErrorCode::Io), 7);
        assert_eq!(
            ReplyHeader::rest_size(&simple, ReplyStyle::Structured),
            Ok(0)
        );
        let expected = ReplyHeader::Simple {
            error: 5,
            cookie: 7,
        };
        assert_eq!(ReplyHeader::decode(&simple), Ok(expected));
        for (is_extended, style) in [
            (false, ReplyStyle::Structured),
            (true, ReplyStyle::Extended),
        ] {
            let mut bytes = Vec::new();
            of(is_extended).data(&mut bytes, true, 512, 100);
            let rest = ReplyHeader::rest_size(&bytes[..SIMPLE_SIZE], style).expect("a chunk");
            let expected = ReplyHeader::Chunk {
                flags: chunk::DONE,
                kind: chunk::OFFSET_DATA,
                cookie: 7,
                length: 108,
            };
            let header = ReplyHeader::decode(&bytes[..SIMPLE_SIZE + rest]);
            assert_eq!(header, Ok(expected));
            assert!(ReplyHeader::rest_size(&bytes, ReplyStyle::Simple).is_err());
        }
        assert!(ReplyHeader::rest_size(&[0; 16], ReplyStyle::Extended).is_err());
    }

    #[test]
    fn errors_carry_text_of_bounded_length() {
        let text = "ä".repeat(5000);
        let bytes = of(false).error(ErrorCode::NoSpace, &text, Some(9));
        assert_eq!(bytes.len(), 20 + 6 + 4096 + 8);
        let (code, read) = decode_error(&bytes[20..], chunk::ERROR_OFFSET).expect("an error");
        assert_eq!((code, read.len()), (ErrorCode::NoSpace, 4096));
        assert!(decode_error(&bytes[20..40], chunk::ERROR).is_err());
        assert!(decode_error(&[0; 6], chunk::ERROR).is_err(), "no error");
    }
}
