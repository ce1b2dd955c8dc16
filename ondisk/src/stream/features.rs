//! What a receiver must understand to take a stream (format/4 3, "Feature").

use std::fmt;

macro_rules! features {
    ($($(#[$doc:meta])* $variant:ident = $bit:literal, $name:literal;)+) => {
        /// A feature of streams.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Feature {
            $($(#[$doc])* $variant,)+
        }

        impl Feature {
            /// All that have a meaning, in order of their bits.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Its bit among the features.
            pub const fn bit(self) -> u32 {
                match self {
                    $(Self::$variant => $bit,)+
                }
            }

            /// Its name, in small letters.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

features! {
    /// The stream refers to blocks that it has sent before; no longer received.
    Dedup = 0, "dedup";
    /// Belongs to [`Self::Dedup`].
    DedupProperties = 1, "dedup_props";
    /// Objects may have spill blocks.
    SaSpill = 2, "sa_spill";
    /// There may be WRITE_EMBEDDED.
    EmbedData = 16, "embed_data";
    /// Blocks may be compressed with lz4.
    Lz4 = 17, "lz4";
    /// Blocks may be larger than 128 KiB.
    LargeBlocks = 19, "large_blocks";
    /// The stream resumes an earlier one that was cut off.
    Resuming = 20, "resuming";
    /// Blocks were left out.
    Redacted = 21, "redacted";
    /// WRITE may have compressed blocks.
    Compressed = 22, "compressed";
    /// Objects may take several slots.
    LargeDnode = 23, "large_dnode";
    /// Blocks of an encrypted dataset are as they are stored.
    Raw = 24, "raw";
    /// Blocks may be compressed with zstd.
    Zstd = 25, "zstd";
    /// A package tells the holds of its snapshots.
    Holds = 26, "holds";
    /// Never sent; receivers take it.
    SwitchToLargeBlocks = 27, "switch_to_large_blocks";
    /// File names may be longer than 255 bytes.
    LongName = 28, "longname";
    /// Micro-ZAPs may be larger than 128 KiB.
    LargeMicrozap = 29, "large_microzap";
}

/// A set of features, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamFeatures(
    /// A bit for each; those beyond bit 29 mean nothing yet. Fits 56 bits.
    pub u64,
);

impl StreamFeatures {
    /// Whether `feature` is in the set.
    pub const fn has(self, feature: Feature) -> bool {
        self.0 & 1 << feature.bit() != 0
    }

    /// The set and `feature`.
    #[must_use]
    pub const fn with(self, feature: Feature) -> Self {
        Self(self.0 | 1 << feature.bit())
    }

    /// The set without `feature`.
    #[must_use]
    pub const fn without(self, feature: Feature) -> Self {
        Self(self.0 & !(1 << feature.bit()))
    }

    /// The features in the set that mean something.
    pub fn iter(self) -> impl Iterator<Item = Feature> {
        let all = Feature::ALL.iter().copied();
        all.filter(move |feature| self.has(*feature))
    }

    /// The bits that no receiver of OpenZFS 2.3 takes: unknown ones and dedup.
    pub fn unreceivable(self) -> u64 {
        let dedup = [Feature::Dedup, Feature::DedupProperties];
        let known = Feature::ALL.iter().filter(|one| !dedup.contains(one));
        self.0 & !known.fold(0, |bits, feature| bits | 1 << feature.bit())
    }
}

impl fmt::Display for StreamFeatures {
    /// The names, separated by commas; unknown bits in hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unknown = self.0;
        let mut comma = "";
        for feature in self.iter() {
            unknown &= !(1 << feature.bit());
            write!(f, "{comma}{}", feature.name())?;
            comma = ",";
        }
        match unknown {
            0 => Ok(()),
            _ => write!(f, "{comma}{unknown:#x}"),
        }
    }
}
