//! Errors of requests, by the protocol's numbers.

use std::io;

/// Why a request failed. Each side translates to and from its own system's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// `EPERM`: the export is read-only.
    NotPermitted,
    /// `EIO`
    Io,
    /// `ENOMEM`
    NoMemory,
    /// `EINVAL`; also all numbers that the protocol does not have.
    Invalid,
    /// `ENOSPC`: no room, or beyond the end.
    NoSpace,
    /// `EOVERFLOW`: the answer is too large for one chunk.
    Overflow,
    /// `ENOTSUP`
    NotSupported,
    /// `ESHUTDOWN`: the server is about to end.
    ShuttingDown,
}

impl ErrorCode {
    /// The protocol's number.
    pub fn number(self) -> u32 {
        match self {
            Self::NotPermitted => 1,
            Self::Io => 5,
            Self::NoMemory => 12,
            Self::Invalid => 22,
            Self::NoSpace => 28,
            Self::Overflow => 75,
            Self::NotSupported => 95,
            Self::ShuttingDown => 108,
        }
    }

    /// The error of a number that is not 0.
    pub fn from_number(number: u32) -> Self {
        match number {
            1 => Self::NotPermitted,
            5 => Self::Io,
            12 => Self::NoMemory,
            28 => Self::NoSpace,
            75 => Self::Overflow,
            95 => Self::NotSupported,
            108 => Self::ShuttingDown,
            _ => Self::Invalid,
        }
    }

    /// The error that comes nearest to one of the system's.
    pub fn from_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::NotPermitted
            }
            io::ErrorKind::OutOfMemory => Self::NoMemory,
            io::ErrorKind::InvalidInput => Self::Invalid,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace,
            io::ErrorKind::Unsupported => Self::NotSupported,
            _ => Self::Io,
        }
    }

    /// The system's error of the same meaning.
    pub fn kind(self) -> io::ErrorKind {
        match self {
            Self::NotPermitted => io::ErrorKind::ReadOnlyFilesystem,
            Self::NoMemory => io::ErrorKind::OutOfMemory,
            Self::Invalid => io::ErrorKind::InvalidInput,
            Self::NoSpace => io::ErrorKind::StorageFull,
            Self::NotSupported => io::ErrorKind::Unsupported,
            Self::Io | Self::Overflow | Self::ShuttingDown => io::ErrorKind::Other,
        }
    }

    /// The name, for messages.
    pub fn text(self) -> &'static str {
        match self {
            Self::NotPermitted => "operation not permitted",
            Self::Io => "input/output error",
            Self::NoMemory => "no memory",
            Self::Invalid => "invalid request",
            Self::NoSpace => "no space left",
            Self::Overflow => "value too large",
            Self::NotSupported => "not supported",
            Self::ShuttingDown => "the server is shutting down",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_both_ways() {
        for number in [1, 5, 12, 22, 28, 75, 95, 108] {
            assert_eq!(ErrorCode::from_number(number).number(), number);
        }
        assert_eq!(ErrorCode::from_number(4711), ErrorCode::Invalid);
    }
}
