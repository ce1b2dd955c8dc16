//! The newest checkpoint: its number and the hash of its root.
//!
//! A hint: with an older one, opening reads more commits and comes to the same end.

use super::{CommitNumber, Decoder, Encoder, Envelope, FormatError, Hash, Kind, Uuid, open, seal};

/// The newest checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    /// The commit that it is of.
    pub number: CommitNumber,
    /// The hash of the object with its root.
    pub root: Hash,
}

impl Current {
    /// The object.
    pub fn encode(&self, uuid: Uuid) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.raw(&self.root.0);
        seal(Kind::Current, uuid, self.number.0, &encoder.finish())
    }

    /// What the object says.
    ///
    /// # Errors
    /// Whatever this version cannot have written for the device `uuid`.
    pub fn decode(uuid: Uuid, bytes: &[u8]) -> Result<Self, FormatError> {
        let number = Envelope::decode(Kind::Current, bytes)?.number;
        let body = open(Kind::Current, uuid, number, bytes)?;
        let mut decoder = Decoder::new(&body);
        let root = Hash(decoder.array()?);
        decoder.finish()?;
        Ok(Self {
            number: CommitNumber(number),
            root,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back() {
        let uuid = Uuid([1; 16]);
        let current = Current {
            number: CommitNumber(12),
            root: Hash([4; 32]),
        };
        assert_eq!(Current::decode(uuid, &current.encode(uuid)), Ok(current));
        assert!(Current::decode(Uuid([2; 16]), &current.encode(uuid)).is_err());
    }
}
