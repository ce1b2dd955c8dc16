//! Putting numbers into bytes and taking them out again.
//!
//! Integers are little-endian, or variable-length (seven bits a byte, least significant first, at
//! most ten bytes). The decoder never reads beyond its slice, and never allocates by a count that
//! it has read: code that reads a list bounds it by the bytes that are left.

use super::values::FormatError;

/// Bytes under construction.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a number in as few bytes as it needs.
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Appends the way from `from` to `to`, short when they are near each other.
    pub fn difference(&mut self, from: u64, to: u64) {
        let difference = to.wrapping_sub(from).cast_signed();
        let zigzag = (difference << 1) ^ (difference >> 63);
        self.varint(zigzag.cast_unsigned());
    }

    /// Appends bytes whose number the reader knows.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends bytes with their number before them.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.raw(bytes);
    }

    /// What has been put together.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Bytes that are taken apart from the front.
#[derive(Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// All of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next `length` bytes.
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], FormatError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(FormatError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next bytes as an array.
    pub fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], FormatError> {
        let (taken, rest) = self
            .rest
            .split_first_chunk::<LENGTH>()
            .ok_or(FormatError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, FormatError> {
        Ok(self.array::<1>()?[0])
    }

    /// The next eight bytes as a number.
    pub fn u64(&mut self) -> Result<u64, FormatError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A number of variable length.
    pub fn varint(&mut self) -> Result<u64, FormatError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(FormatError::Invalid("number"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(FormatError::Invalid("number"))
    }

    /// A number of variable length that fits in 32 bits.
    pub fn varint_u32(&mut self) -> Result<u32, FormatError> {
        u32::try_from(self.varint()?).map_err(|_| FormatError::Invalid("number"))
    }

    /// Where [`Encoder::difference`] led to from `from`.
    pub fn difference(&mut self, from: u64) -> Result<u64, FormatError> {
        let zigzag = self.varint()?;
        let difference = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
        Ok(from.wrapping_add(difference))
    }

    /// Bytes that have their number before them.
    pub fn bytes(&mut self) -> Result<&'a [u8], FormatError> {
        let length = self.varint()?;
        let length = usize::try_from(length).map_err(|_| FormatError::Truncated)?;
        self.raw(length)
    }

    /// How many items follow, each of at least one byte.
    pub fn count(&mut self) -> Result<usize, FormatError> {
        let count = usize::try_from(self.varint()?).map_err(|_| FormatError::Truncated)?;
        if count > self.rest.len() {
            return Err(FormatError::Truncated);
        }
        Ok(count)
    }

    /// Refuses bytes behind the end.
    pub fn finish(self) -> Result<(), FormatError> {
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(FormatError::Invalid("length")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, 0x7f, 0x80, 0x3fff, 1 << 32, u64::MAX - 1, u64::MAX];
        let mut encoder = Encoder::new();
        for number in numbers {
            encoder.varint(number);
            encoder.difference(77, number);
            encoder.u64(number);
        }
        encoder.bytes(b"tail");
        let bytes = encoder.finish();
        let mut decoder = Decoder::new(&bytes);
        for number in numbers {
            assert_eq!(decoder.varint(), Ok(number));
            assert_eq!(decoder.difference(77), Ok(number));
            assert_eq!(decoder.u64(), Ok(number));
        }
        assert_eq!(decoder.bytes(), Ok(&b"tail"[..]));
        assert!(decoder.finish().is_ok());
    }

    #[test]
    fn absurd_numbers_are_refused() {
        let too_long = [0xff; 11];
        assert!(Decoder::new(&too_long).varint().is_err());
        let mut beyond = [0xff; 10];
        beyond[9] = 2;
        assert!(Decoder::new(&beyond).varint().is_err(), "2^64 and more");
        assert!(Decoder::new(&[200, 1, 0]).count().is_err(), "200 in a byte");
        assert!(Decoder::new(&[5, 1]).bytes().is_err());
        assert!(Decoder::new(&[1]).finish().is_err());
    }
}
