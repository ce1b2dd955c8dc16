//! Checksum functions by their number in block pointers and properties (format/2a 3.1).

/// A checksum function as a block pointer names it.
///
/// `Inherit` and `On` exist only as property values and never in a valid block pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the functions' own")]
pub enum ChecksumKind {
    Inherit = 0,
    On = 1,
    Off = 2,
    Label = 3,
    GangHeader = 4,
    Zilog = 5,
    Fletcher2 = 6,
    Fletcher4 = 7,
    Sha256 = 8,
    Zilog2 = 9,
    Noparity = 10,
    Sha512 = 11,
    Skein = 12,
    Edonr = 13,
    Blake3 = 14,
}

impl ChecksumKind {
    const ALL: [ChecksumKind; 15] = [
        Self::Inherit,
        Self::On,
        Self::Off,
        Self::Label,
        Self::GangHeader,
        Self::Zilog,
        Self::Fletcher2,
        Self::Fletcher4,
        Self::Sha256,
        Self::Zilog2,
        Self::Noparity,
        Self::Sha512,
        Self::Skein,
        Self::Edonr,
        Self::Blake3,
    ];

    /// The function with this number, if there is one.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The name that properties and `zdb` use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inherit => "inherit",
            Self::On => "on",
            Self::Off => "off",
            Self::Label => "label",
            Self::GangHeader => "gang_header",
            Self::Zilog => "zilog",
            Self::Fletcher2 => "fletcher2",
            Self::Fletcher4 => "fletcher4",
            Self::Sha256 => "sha256",
            Self::Zilog2 => "zilog2",
            Self::Noparity => "noparity",
            Self::Sha512 => "sha512",
            Self::Skein => "skein",
            Self::Edonr => "edonr",
            Self::Blake3 => "blake3",
        }
    }

    /// Whether the function is strong enough to identify a block for dedup.
    ///
    /// It also decides how a protected block's checksum is folded to two words (format/2a 3.6).
    pub fn is_dedup_strong(self) -> bool {
        matches!(
            self,
            Self::Sha256 | Self::Sha512 | Self::Skein | Self::Blake3
        )
    }

    /// Whether the checksum stands inside the block that it covers.
    pub fn is_embedded(self) -> bool {
        matches!(
            self,
            Self::Label | Self::GangHeader | Self::Zilog | Self::Zilog2
        )
    }
}
