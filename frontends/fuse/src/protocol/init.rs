//! The first request: what kernel and server agree on.
//!
//! We request every feature that makes reading fast, and enable those that the kernel offers. So
//! the same server runs on old kernels, with fewer features. The flags have 64 bits since 7.36;
//! older kernels send and understand the lower half.

use super::wire::{Fields, Malformed, Writer};
use crate::values::Features;

/// Protocol spoken: 7.45, answered as the lower of both sides' minor numbers.
const MAJOR: u32 = 7;
const MINOR: u32 = 45;
/// The oldest kernel accepted, Linux 5.4: earlier ones had other structure sizes.
pub(crate) const MINOR_MIN: u32 = 31;

/// Capability bits, `FUSE_*` of `linux/fuse.h`.
pub(crate) mod capability {
    /// Several reads of one file may be under way.
    pub const ASYNC_READ: u64 = 1 << 0;
    /// Lookups of `.` and `..` work; NFS export.
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    /// O_TRUNC comes with OPEN and CREATE.
    pub const ATOMIC_O_TRUNC: u64 = 1 << 3;
    /// Requests larger than 4 KiB.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// The umask is ours to apply: default ACLs take its place.
    pub const DONT_MASK: u64 = 1 << 6;
    /// readdirplus, and using it only where the kernel guesses that attributes are wanted.
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    /// One direct read may be split into several requests.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// OPEN answered with ENOSYS means: never ask again.
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    /// Lookups and listings of one directory at once.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// The kernel enforces POSIX ACLs.
    pub const POSIX_ACL: u64 = 1 << 20;
    /// Reading the device after an abort says ECONNABORTED instead of ENODEV.
    pub const ABORT_ERROR: u64 = 1 << 21;
    /// `max_pages` of the answer counts.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// The kernel keeps symbolic links' targets.
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    /// OPENDIR answered with ENOSYS means: never ask again.
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    /// Cached data is dropped only on request.
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    /// The server clears setuid and setgid bits when the kernel requests it.
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// SETXATTR has flags of its own.
    pub const SETXATTR_EXT: u64 = 1 << 29;
    /// `flags2` counts.
    pub const INIT_EXT: u64 = 1 << 30;
    /// `mmap(MAP_SHARED)` works on files opened for direct I/O.
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}

/// What the kernel offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    pub major: u32,
    pub minor: u32,
    pub read_ahead_max: u32,
    pub capabilities: u64,
}

impl Offer {
    /// Reads `fuse_init_in`.
    pub fn decode(arguments: &[u8]) -> Result<Offer, Malformed> {
        let mut fields = Fields::new(arguments);
        let (major, minor) = (fields.u32()?, fields.u32()?);
        // A kernel with another major number sends only the numbers.
        let read_ahead_max = fields.u32().unwrap_or(0);
        let low = u64::from(fields.u32().unwrap_or(0));
        let high = if low & capability::INIT_EXT != 0 {
            u64::from(fields.u32().unwrap_or(0))
        } else {
            0
        };
        Ok(Offer {
            major,
            minor,
            read_ahead_max,
            capabilities: high << 32 | low,
        })
    }
}

/// What the server requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub features: Features,
    /// Attributes with every listing rather than where the kernel guesses.
    pub readdirplus_always: bool,
    /// Largest read or write in bytes.
    pub request_size_max: u32,
    /// Largest write in bytes: decides the size of the receive buffers.
    pub write_size_max: u32,
    /// Requests that may wait in the background.
    pub background_max: u16,
}

/// What was agreed for the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiated {
    /// The protocol's minor version that both speak.
    pub minor: u32,
    /// The capabilities in force, `FUSE_*` bits.
    pub capabilities: u64,
    /// Largest read in bytes.
    pub request_size_max: u32,
}

impl Negotiated {
    /// Whether all `bits` are in force.
    pub(crate) fn has(&self, bits: u64) -> bool {
        self.capabilities & bits == bits
    }

    /// Whether the kernel allows shared mappings of files opened for direct I/O.
    pub fn direct_io_mmap(&self) -> bool {
        self.has(capability::DIRECT_IO_ALLOW_MMAP)
    }
}

/// The kernel's page size as this protocol counts `max_pages`.
const PAGE_SIZE: u32 = 4096;

/// Bytes of `fuse_init_out`.
const ANSWER_SIZE: usize = 64;

/// Decides what is used, and encodes the answer.
pub(crate) fn negotiate(offer: &Offer, wishes: &Wishes) -> (Negotiated, [u8; ANSWER_SIZE]) {
    let mut wanted = capability::ASYNC_READ
        | capability::BIG_WRITES
        | capability::DO_READDIRPLUS
        | capability::ASYNC_DIO
        | capability::NO_OPEN_SUPPORT
        | capability::PARALLEL_DIROPS
        | capability::ABORT_ERROR
        | capability::MAX_PAGES
        | capability::CACHE_SYMLINKS
        | capability::EXPLICIT_INVAL_DATA
        | capability::INIT_EXT
        | capability::DIRECT_IO_ALLOW_MMAP;
    if !wishes.readdirplus_always {
        wanted |= capability::READDIRPLUS_AUTO;
    }
    if wishes.features.posix_acl {
        wanted |= capability::POSIX_ACL;
    }
    if wishes.features.writable {
        wanted |= capability::ATOMIC_O_TRUNC | capability::DONT_MASK;
        wanted |= capability::HANDLE_KILLPRIV_V2 | capability::SETXATTR_EXT;
    }
    if wishes.features.lookup_dots {
        wanted |= capability::EXPORT_SUPPORT;
    }
    if !wishes.features.directory_handles {
        wanted |= capability::NO_OPENDIR_SUPPORT;
    }
    let capabilities = wanted & offer.capabilities;
    // Without max_pages the kernel sends at most 32 pages.
    let size_limit = if capabilities & capability::MAX_PAGES != 0 {
        wishes.request_size_max
    } else {
        32 * PAGE_SIZE
    };
    let negotiated = Negotiated {
        minor: offer.minor.min(MINOR),
        capabilities,
        request_size_max: wishes.request_size_max.min(size_limit),
    };
    let max_pages = negotiated.request_size_max.div_ceil(PAGE_SIZE);
    let mut answer = [0; ANSWER_SIZE];
    let mut writer = Writer::new(&mut answer);
    writer
        .u32(MAJOR)
        .u32(negotiated.minor)
        .u32(offer.read_ahead_max);
    // The two halves of the flags; both casts keep exactly the 32 bits meant.
    writer.u32(capabilities as u32);
    writer
        .u16(wishes.background_max)
        .u16(wishes.background_max / 4 * 3);
    writer.u32(wishes.write_size_max).u32(1);
    writer
        .u16(u16::try_from(max_pages).unwrap_or(u16::MAX))
        .u16(0);
    writer.u32((capabilities >> 32) as u32);
    writer.zeros(28);
    assert_eq!(writer.len(), ANSWER_SIZE);
    (negotiated, answer)
}

/// The answer to a kernel with a newer major number: it then repeats INIT with ours.
pub(crate) fn version_only() -> [u8; ANSWER_SIZE] {
    let mut answer = [0; ANSWER_SIZE];
    Writer::new(&mut answer).u32(MAJOR).u32(MINOR);
    answer
}

/// The major number spoken here.
pub(crate) const fn major() -> u32 {
    MAJOR
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISHES: Wishes = Wishes {
        features: Features {
            posix_acl: false,
            directory_handles: false,
            lookup_dots: false,
            writable: false,
        },
        readdirplus_always: true,
        request_size_max: 1 << 20,
        write_size_max: 4096,
        background_max: 256,
    };

    fn offer(minor: u32, capabilities: u64) -> Offer {
        let mut bytes = [0; 64];
        Writer::new(&mut bytes)
            .u32(7)
            .u32(minor)
            .u32(131072)
            .u32(capabilities as u32)
            .u32((capabilities >> 32) as u32);
        Offer::decode(&bytes).expect("long enough")
    }

    #[test]
    fn only_what_is_offered_is_used() {
        let (negotiated, answer) = negotiate(&offer(31, capability::ASYNC_READ | 1 << 2), &WISHES);
        assert_eq!(negotiated.capabilities, capability::ASYNC_READ);
        assert_eq!(negotiated.minor, 31);
        assert_eq!(negotiated.request_size_max, 131072);
        let mut fields = Fields::new(&answer[28..]);
        assert_eq!(fields.u16(), Ok(32));
    }

    #[test]
    fn the_upper_half_needs_the_extension_bit() {
        let mmap = capability::DIRECT_IO_ALLOW_MMAP;
        assert!(!negotiate(&offer(45, mmap), &WISHES).0.direct_io_mmap());
        let (negotiated, answer) = negotiate(&offer(45, mmap | capability::INIT_EXT), &WISHES);
        assert!(negotiated.direct_io_mmap());
        assert_eq!(Fields::new(&answer[32..]).u32(), Ok(1 << 4));
    }

    #[test]
    fn acls_and_exports_are_on_request() {
        let everything = offer(45, u64::MAX);
        let (plain, _) = negotiate(&everything, &WISHES);
        assert!(!plain.has(capability::POSIX_ACL) && !plain.has(capability::EXPORT_SUPPORT));
        assert!(plain.has(capability::NO_OPENDIR_SUPPORT));
        let features = Features {
            posix_acl: true,
            lookup_dots: true,
            writable: false,
            directory_handles: true,
        };
        let (full, answer) = negotiate(&everything, &Wishes { features, ..WISHES });
        assert!(full.has(capability::POSIX_ACL | capability::EXPORT_SUPPORT));
        assert!(!full.has(capability::NO_OPENDIR_SUPPORT));
        assert_eq!(Fields::new(&answer[28..]).u16(), Ok(256));
    }
}
