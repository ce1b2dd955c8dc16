//! The boot environment block of a label: what a boot loader keeps there.
//!
//! Source: format/1 1.8. 8 KiB: `0 version (u64, big-endian)  8 contents  8152 embedded
//! checksum`. Version 0 is NUL-terminated text, 1 a packed name-value list.

use crate::embedded_checksum::TRAILER_SIZE;
use crate::label::BOOT_ENVIRONMENT_SIZE;
use crate::wire;
use crate::{DecodeError, NvList};

/// The most bytes of contents.
pub const CONTENTS_SIZE_MAX: usize = BOOT_ENVIRONMENT_SIZE as usize - 8 - TRAILER_SIZE;

const STRUCTURE: &str = "boot environment";

/// The contents of a boot environment block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootEnvironment {
    /// Text without its NUL, as GRUB keeps it.
    Raw(Vec<u8>),
    /// Names and values.
    List(NvList),
}

impl BootEnvironment {
    /// Decodes the 8 KiB. The checksum is the caller's to verify.
    pub fn decode(block: &[u8]) -> Result<Self, DecodeError> {
        let version = u64::from_be_bytes(wire::array(block, 0, STRUCTURE)?);
        let contents = wire::slice(block, 8, CONTENTS_SIZE_MAX, STRUCTURE)?;
        match version {
            0 => {
                let end = contents.iter().position(|byte| *byte == 0);
                Ok(Self::Raw(
                    contents[..end.unwrap_or(contents.len())].to_vec(),
                ))
            }
            1 => NvList::decode(contents).map(Self::List),
            value => Err(DecodeError::BadValue {
                structure: STRUCTURE,
                field: "version",
                value,
            }),
        }
    }

    /// The 8 KiB with the checksum's bytes still zero; `None` if the contents do not fit.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let (version, contents) = match self {
            Self::Raw(text) => (0_u64, text.clone()),
            Self::List(list) => (1, list.encode_xdr()),
        };
        if contents.len() >= CONTENTS_SIZE_MAX {
            return None;
        }
        let mut block = version.to_be_bytes().to_vec();
        block.extend(contents);
        block.resize(BOOT_ENVIRONMENT_SIZE as usize, 0);
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions() {
        let raw = BootEnvironment::Raw(b"saved_entry=1".to_vec());
        let mut list = NvList::new();
        list.set_str("command", "zfs:tank/ROOT/default:");
        for environment in [raw, BootEnvironment::List(list)] {
            let block = environment.encode().expect("it fits");
            assert_eq!(BootEnvironment::decode(&block), Ok(environment));
        }
        let empty = BootEnvironment::decode(&[0; 8192]);
        assert_eq!(empty, Ok(BootEnvironment::Raw(Vec::new())));
        assert!(BootEnvironment::decode(&[1; 8192]).is_err());
        assert!(BootEnvironment::decode(&[0; 8191 - TRAILER_SIZE]).is_err());
        assert_eq!(BootEnvironment::Raw(vec![b'x'; 8144]).encode(), None);
    }
}
