//! How blocks may be put into a stream.

/// How blocks may be put into a stream (`zfs send -L -e -c -w`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Blocks above 128 KiB as one record each.
    pub large_blocks: bool,
    /// Blocks that are in their pointers as WRITE_EMBEDDED.
    pub embedded: bool,
    /// Blocks as they are compressed on disk.
    pub compressed: bool,
    /// Blocks of encrypted datasets as they are stored. Implies all the others.
    pub raw: bool,
}

impl Options {
    /// The options with what they imply.
    #[must_use]
    pub fn complete(self) -> Self {
        match self.raw {
            true => Self {
                large_blocks: true,
                embedded: true,
                compressed: true,
                raw: true,
            },
            false => self,
        }
    }
}
