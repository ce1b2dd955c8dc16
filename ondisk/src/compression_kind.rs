//! Compression functions by their number in block pointers and dnodes (format/2a 4.1).

/// A compression function as a block pointer names it.
///
/// `Inherit`, `On` and `Empty` exist only as property values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the functions' own")]
pub enum CompressionKind {
    Inherit,
    On,
    Off,
    Lzjb,
    Empty,
    /// gzip at this level, 1 to 9.
    Gzip(u8),
    Zle,
    Lz4,
    Zstd,
}

impl CompressionKind {
    /// The function with this number, if there is one.
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Inherit,
            1 => Self::On,
            2 => Self::Off,
            3 => Self::Lzjb,
            4 => Self::Empty,
            5..=13 => Self::Gzip(number - 4),
            14 => Self::Zle,
            15 => Self::Lz4,
            16 => Self::Zstd,
            _ => return None,
        })
    }

    /// The number in block pointers and dnodes.
    pub fn number(self) -> u8 {
        match self {
            Self::Inherit => 0,
            Self::On => 1,
            Self::Off => 2,
            Self::Lzjb => 3,
            Self::Empty => 4,
            Self::Gzip(level) => level + 4,
            Self::Zle => 14,
            Self::Lz4 => 15,
            Self::Zstd => 16,
        }
    }

    /// The name that properties and `zdb` use.
    pub fn name(self) -> String {
        match self {
            Self::Inherit => "inherit".into(),
            Self::On => "on".into(),
            Self::Off => "off".into(),
            Self::Lzjb => "lzjb".into(),
            Self::Empty => "empty".into(),
            Self::Gzip(level) => format!("gzip-{level}"),
            Self::Zle => "zle".into(),
            Self::Lz4 => "lz4".into(),
            Self::Zstd => "zstd".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_inverse() {
        for number in 0..=16 {
            let kind = CompressionKind::from_number(number).expect("0 to 16 are functions");
            assert_eq!(kind.number(), number);
        }
        assert_eq!(CompressionKind::from_number(17), None);
    }
}
