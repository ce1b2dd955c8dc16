//! Requests of the transmission.
//!
//! ```text
//!           magic  flags  command  cookie  offset  length
//! compact     4      2       2       8       8       4      28 bytes, 0x25609513
//! extended    4      2       2       8       8       8      32 bytes, 0x21e41c71
//! ```
//!
//! The data of a write follows, and the payload of another command with `PAYLOAD_LEN`.

use super::fields::{Fields, Malformed};
use super::numbers::{command, command_flag};

const MAGIC: u32 = 0x2560_9513;
const EXTENDED_MAGIC: u32 = 0x21e4_1c71;

/// Bytes of a request.
pub const SIZE: usize = 28;
/// Bytes of a request with an extended header.
pub const EXTENDED_SIZE: usize = 32;

/// A request without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// See [`command_flag`].
    pub flags: u16,
    /// See [`command`].
    pub command: u16,
    /// Chosen by the client; the reply has the same.
    pub cookie: u64,
    /// Where the range begins, in bytes.
    pub offset: u64,
    /// Bytes of the range, or of the payload where [`Self::payload`] says so.
    pub length: u64,
}

impl Request {
    /// Bytes of a header.
    pub fn size(is_extended: bool) -> usize {
        match is_extended {
            true => EXTENDED_SIZE,
            false => SIZE,
        }
    }

    /// The request in `bytes`.
    ///
    /// # Errors
    /// There is no request in them.
    pub fn decode(bytes: &[u8], is_extended: bool) -> Result<Self, Malformed> {
        let mut fields = Fields::new("request", bytes);
        fields.magic32(match is_extended {
            true => EXTENDED_MAGIC,
            false => MAGIC,
        })?;
        let request = Self {
            flags: fields.u16()?,
            command: fields.u16()?,
            cookie: fields.u64()?,
            offset: fields.u64()?,
            length: match is_extended {
                true => fields.u64()?,
                false => fields.u32()?.into(),
            },
        };
        fields.end()?;
        Ok(request)
    }

    /// The header's bytes. A compact one has 32 bits for the length.
    pub fn encode(&self, is_extended: bool) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(EXTENDED_SIZE);
        let magic = match is_extended {
            true => EXTENDED_MAGIC,
            false => MAGIC,
        };
        bytes.extend_from_slice(&magic.to_be_bytes());
        bytes.extend_from_slice(&self.flags.to_be_bytes());
        bytes.extend_from_slice(&self.command.to_be_bytes());
        bytes.extend_from_slice(&self.cookie.to_be_bytes());
        bytes.extend_from_slice(&self.offset.to_be_bytes());
        match is_extended {
            true => bytes.extend_from_slice(&self.length.to_be_bytes()),
            false => {
                let length = u32::try_from(self.length);
                let length = length.expect("compact requests are below 4 GiB");
                bytes.extend_from_slice(&length.to_be_bytes());
            }
        }
        bytes
    }

    /// Bytes that follow the header.
    pub fn payload(&self, is_extended: bool) -> u64 {
        let has_payload = match is_extended {
            true => self.flags & command_flag::PAYLOAD_LEN != 0,
            false => false,
        };
        match has_payload || self.command == command::WRITE {
            true => self.length,
            false => 0,
        }
    }

    /// Whether the flag is set.
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_goes_both_ways() {
        let request = Request {
            flags: command_flag::FUA,
            command: command::WRITE,
            cookie: 0x0102_0304_0506_0708,
            offset: 1 << 40,
            length: 4096,
        };
        let bytes = request.encode(false);
        let expected = [
            0x25, 0x60, 0x95, 0x13, 0, 1, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 1, 0, 0, 0, 0, 0, 0,
            0, 16, 0,
        ];
        assert_eq!(bytes, expected);
        assert_eq!(Request::decode(&bytes, false), Ok(request));
        let extended = request.encode(true);
        assert_eq!(extended.len(), EXTENDED_SIZE);
        assert_eq!(Request::decode(&extended, true), Ok(request));
        assert!(Request::decode(&extended, false).is_err());
        assert!(Request::decode(&bytes[..27], false).is_err());
    }

    #[test]
    fn what_follows_a_header() {
        let request = |command, flags| Request {
            flags,
            command,
            cookie: 0,
            offset: 0,
            length: 9,
        };
        let flag = command_flag::PAYLOAD_LEN;
        assert_eq!(request(command::WRITE, 0).payload(false), 9);
        assert_eq!(request(command::WRITE, 0).payload(true), 9);
        assert_eq!(request(command::READ, flag).payload(false), 0);
        assert_eq!(request(command::BLOCK_STATUS, flag).payload(true), 9);
        assert_eq!(request(command::READ, 0).payload(true), 0);
    }
}
