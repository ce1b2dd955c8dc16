//! The value of a directory's entry (format/2b 5.6, format/3b 4).
//!
//! ```text
//! | file type : 4 | 0 : 12 | object : 48 |
//! ```

use crate::wire::bits;
use cenote_base::ObjectId;

/// Object numbers are below 2^48.
pub const OBJECT_BITS: u32 = 48;

/// The type of the file, as `st_mode >> 12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// Not recorded (file system version 1): the file's mode tells.
    Unknown,
    /// A named pipe.
    Fifo,
    /// A character device.
    CharacterDevice,
    /// A directory.
    Directory,
    /// A block device.
    BlockDevice,
    /// A regular file.
    Regular,
    /// A symbolic link.
    SymbolicLink,
    /// A socket.
    Socket,
    /// A type that Linux has no name for, such as a door.
    Other(u8),
}

impl FileType {
    /// The type with this number (`mode >> 12`).
    pub fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Unknown,
            1 => Self::Fifo,
            2 => Self::CharacterDevice,
            4 => Self::Directory,
            6 => Self::BlockDevice,
            8 => Self::Regular,
            10 => Self::SymbolicLink,
            12 => Self::Socket,
            number => Self::Other(number),
        }
    }

    /// The type of a file with this mode.
    pub fn from_mode(mode: u64) -> Self {
        Self::from_number(bits(mode, 12, 4) as u8)
    }

    /// The number: `mode >> 12`.
    pub fn number(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Fifo => 1,
            Self::CharacterDevice => 2,
            Self::Directory => 4,
            Self::BlockDevice => 6,
            Self::Regular => 8,
            Self::SymbolicLink => 10,
            Self::Socket => 12,
            Self::Other(number) => number,
        }
    }
}

/// A directory entry's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The file.
    pub object: ObjectId,
    /// Its type.
    pub file_type: FileType,
}

impl DirEntry {
    /// From the first integer of the ZAP value.
    pub fn decode(value: u64) -> Self {
        Self {
            object: ObjectId(bits(value, 0, OBJECT_BITS)),
            file_type: FileType::from_number(bits(value, 60, 4) as u8),
        }
    }

    /// The integer of the ZAP value.
    pub fn encode(self) -> u64 {
        assert!(self.object.0 >> OBJECT_BITS == 0);
        u64::from(self.file_type.number()) << 60 | self.object.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_and_type() {
        let entry = DirEntry::decode(0x8fff_0000_0000_0022);
        assert_eq!(entry.object, ObjectId(34), "the middle bits are ignored");
        assert_eq!(entry.file_type, FileType::Regular);
        assert_eq!(entry.encode(), 0x8000_0000_0000_0022);
        assert_eq!(FileType::from_mode(0o040_755), FileType::Directory);
        for number in 0..16 {
            assert_eq!(FileType::from_number(number).number(), number);
        }
    }
}
