//! Fields in the machine's byte order.
//!
//! The kernel on the other side of `/dev/fuse` is the same machine's, so its byte order is ours by
//! definition: the one place where that is right.
#![expect(
    clippy::host_endian_bytes,
    reason = "the protocol is spoken between a kernel and a process of one machine"
)]

/// Why a request could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The request ended inside a field.
    #[error("request ends {missing} bytes inside a field at byte {offset}")]
    Truncated {
        /// Where the field begins.
        offset: usize,
        /// How many bytes of it are absent.
        missing: usize,
    },
    /// A name without its terminating NUL.
    #[error("name at byte {offset} is not terminated")]
    UnterminatedName {
        /// Where the name begins.
        offset: usize,
    },
    /// The length in the header disagrees with what was received.
    #[error("header says {stated} bytes, {received} were received")]
    LengthMismatch {
        /// From the header.
        stated: usize,
        /// From the transport.
        received: usize,
    },
}

/// Reads consecutive fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Fields { bytes, offset: 0 }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let rest = &self.bytes[self.offset..];
        match rest.first_chunk::<N>() {
            Some(chunk) => {
                self.offset += N;
                Ok(*chunk)
            }
            None => Err(Malformed::Truncated {
                offset: self.offset,
                missing: N - rest.len(),
            }),
        }
    }

    #[cfg(test)]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_ne_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_ne_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_ne_bytes)
    }

    /// A NUL-terminated name.
    pub fn name(&mut self) -> Result<&'a [u8], Malformed> {
        let rest = &self.bytes[self.offset..];
        match rest.iter().position(|byte| *byte == 0) {
            Some(length) => {
                self.offset += length + 1;
                Ok(&rest[..length])
            }
            None => Err(Malformed::UnterminatedName {
                offset: self.offset,
            }),
        }
    }
}

/// Writes consecutive fields into a buffer that is large enough.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    bytes: &'a mut [u8],
    offset: usize,
}

impl<'a> Writer<'a> {
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Writer { bytes, offset: 0 }
    }

    pub fn raw(&mut self, value: &[u8]) -> &mut Self {
        self.bytes[self.offset..self.offset + value.len()].copy_from_slice(value);
        self.offset += value.len();
        self
    }

    pub fn zeros(&mut self, count: usize) -> &mut Self {
        self.bytes[self.offset..self.offset + count].fill(0);
        self.offset += count;
        self
    }

    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_ne_bytes())
    }

    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_ne_bytes())
    }

    pub fn i32(&mut self, value: i32) -> &mut Self {
        self.raw(&value.to_ne_bytes())
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_ne_bytes())
    }

    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_ne_bytes())
    }

    pub fn len(&self) -> usize {
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut bytes = [0xff; 32];
        let mut writer = Writer::new(&mut bytes);
        writer
            .u64(u64::MAX - 1)
            .u32(7)
            .u16(3)
            .raw(b"name\0")
            .zeros(1);
        let length = writer.len();
        assert_eq!(length, 20);
        let mut fields = Fields::new(&bytes[..length]);
        assert_eq!(fields.u64(), Ok(u64::MAX - 1));
        assert_eq!(fields.u32(), Ok(7));
        assert_eq!(fields.u16(), Ok(3));
        assert_eq!(fields.name(), Ok(&b"name"[..]));
        assert_eq!(
            fields.u32(),
            Err(Malformed::Truncated {
                offset: 19,
                missing: 3
            })
        );
    }

    #[test]
    fn names_need_their_end() {
        let mut fields = Fields::new(b"abc");
        assert_eq!(
            fields.name(),
            Err(Malformed::UnterminatedName { offset: 0 })
        );
    }
}
