//! The type of a file, as in the upper bits of its mode.

use cenote_ondisk::dir_entry::FileType;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device node.
    CharDevice,
    /// A block device node.
    BlockDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl FileKind {
    /// The kind that a stored type stands for; `None` for types that POSIX does not know.
    pub fn from_file_type(file_type: FileType) -> Option<Self> {
        Some(match file_type {
            FileType::Fifo => Self::Fifo,
            FileType::CharacterDevice => Self::CharDevice,
            FileType::Directory => Self::Directory,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::Regular => Self::Regular,
            FileType::SymbolicLink => Self::Symlink,
            FileType::Socket => Self::Socket,
            FileType::Unknown | FileType::Other(_) => return None,
        })
    }

    /// The kind that a mode's upper bits stand for.
    pub fn from_mode(mode: u64) -> Option<Self> {
        Self::from_file_type(FileType::from_mode(mode))
    }

    /// The four type bits: `st_mode >> 12`, also `d_type`.
    pub fn type_bits(self) -> u8 {
        match self {
            Self::Fifo => 1,
            Self::CharDevice => 2,
            Self::Directory => 4,
            Self::BlockDevice => 6,
            Self::Regular => 8,
            Self::Symlink => 10,
            Self::Socket => 12,
        }
    }

    /// The letter that `zfs diff -F` prints.
    pub fn letter(self) -> char {
        match self {
            Self::Regular => 'F',
            Self::Directory => '/',
            Self::Symlink => '@',
            Self::CharDevice => 'C',
            Self::BlockDevice => 'B',
            Self::Fifo => '|',
            Self::Socket => '=',
        }
    }
}

/// A device node's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeviceNumber {
    /// The driver.
    pub major: u32,
    /// The driver's instance.
    pub minor: u32,
}

impl DeviceNumber {
    /// From the stored number: Linux's `major << 20 | minor`, or `major << 32 | minor` of other
    /// systems. Linux numbers have 32 bits, which distinguishes the two forms (format/3b 2).
    pub fn from_stored(stored: u64) -> Self {
        let (high, low) = ((stored >> 32) as u32, stored as u32);
        match high {
            0 => Self {
                major: low >> 20,
                minor: low & 0xf_ffff,
            },
            major => Self { major, minor: low },
        }
    }

    /// The number that Linux stores.
    pub fn to_stored(self) -> u64 {
        u64::from(self.major) << 20 | u64::from(self.minor & 0xf_ffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_bits_go_both_ways() {
        let kinds: Vec<FileKind> = (0..16)
            .filter_map(|t| FileKind::from_mode(t << 12))
            .collect();
        assert_eq!(kinds.len(), 7);
        let same = |kind: FileKind| FileKind::from_mode(u64::from(kind.type_bits()) << 12 | 0o644);
        assert!(kinds.iter().all(|kind| same(*kind) == Some(*kind)));
    }

    #[test]
    fn device_numbers_of_both_encodings() {
        let linux = DeviceNumber::from_stored(259 << 20 | 70_000);
        assert_eq!(
            linux,
            DeviceNumber {
                major: 259,
                minor: 70_000
            }
        );
        assert_eq!(linux.to_stored(), 259 << 20 | 70_000);
        let other = DeviceNumber::from_stored(10 << 32 | 200);
        assert_eq!(
            other,
            DeviceNumber {
                major: 10,
                minor: 200
            }
        );
    }
}
