//! The compression functions, and why stored bytes are refused.

/// A compression function of stored blocks (format/2a 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Values 3 and, before lz4, "on".
    Lzjb,
    /// Values 5 to 13: a zlib stream; the level 1 to 9 matters to the encoder only.
    Gzip(u8),
    /// Value 14: runs of zeros.
    Zle,
    /// Value 15.
    Lz4,
    /// Value 16; the level stands in the stream's own header.
    Zstd,
}

/// Why stored bytes are not a stream of the named kind that fills the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    /// The stored bytes end inside the stream, or its own length says more than is stored.
    #[error("the {0:?} stream is longer than the {1} bytes stored")]
    Truncated(Compression, usize),
    /// The stream would decode to more than the logical size.
    #[error("the {0:?} stream decodes to more than the {1} bytes of the block")]
    Overlong(Compression, usize),
    /// The stream decoded to less than the logical size.
    #[error("the {0:?} stream decodes to {1} of the {2} bytes of the block")]
    Short(Compression, usize, usize),
    /// A zstd header with a level that no writer uses (format/2a 4.6).
    #[error("the zstd header has the unknown level {0}")]
    ZstdLevel(u8),
    /// The stream contradicts its own format.
    #[error("the {0:?} stream is corrupt")]
    Corrupt(Compression),
    /// A decoder's scratch memory could not be had.
    #[error("no memory for a {0:?} decoder")]
    OutOfMemory(Compression),
}
