//! The identity of a device, written at its creation with a create-only put and never again.
//!
//! ```text
//! body: size in bytes (varint), block size (varint), created (seconds since 1970, varint)
//! ```
//!
//! The size is the first one: a device that grows says so in its commits. The uuid is in the
//! envelope.

use super::{
    DEVICE_SIZE_MAX, Decoder, Encoder, Envelope, FormatError, Kind, SECTOR, Uuid, open, seal,
};

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Which one.
    pub uuid: Uuid,
    /// Bytes at its creation.
    pub size: u64,
    /// When it was created, in seconds since 1970 by the creator's clock.
    pub created: u64,
}

impl Identity {
    /// The object.
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.varint(self.size);
        encoder.varint(SECTOR);
        encoder.varint(self.created);
        seal(Kind::Device, self.uuid, 0, &encoder.finish())
    }

    /// What the object says.
    ///
    /// # Errors
    /// Whatever this version cannot have written.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let uuid = Envelope::decode(Kind::Device, bytes)?.uuid;
        let body = open(Kind::Device, uuid, 0, bytes)?;
        let mut decoder = Decoder::new(&body);
        let size = decoder.varint()?;
        let block_size = decoder.varint()?;
        let created = decoder.varint()?;
        decoder.finish()?;
        if block_size != SECTOR {
            return Err(FormatError::Invalid("block size"));
        }
        check_size(size)?;
        Ok(Self {
            uuid,
            size,
            created,
        })
    }
}

/// Refuses a device of `size` bytes that cannot be.
pub fn check_size(size: u64) -> Result<(), FormatError> {
    let is_possible = size > 0 && size <= DEVICE_SIZE_MAX && size.is_multiple_of(SECTOR);
    match is_possible {
        true => Ok(()),
        false => Err(FormatError::Invalid("size")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_come_back() {
        let identity = Identity {
            uuid: Uuid([3; 16]),
            size: 1 << 40,
            created: 1_700_000_000,
        };
        assert_eq!(Identity::decode(&identity.encode()), Ok(identity));
        let odd = Identity {
            size: 77,
            ..identity
        };
        assert!(Identity::decode(&odd.encode()).is_err());
        assert!(Identity::decode(b"nonsense").is_err());
    }
}
