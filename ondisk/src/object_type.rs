//! DMU object types: what an object's contents are and how to swap their bytes (format/2b 1).
//!
//! Types 0 to 53 are a table; types with bit 7 set describe themselves: bit 6 metadata, bit 5
//! encrypted, bits 4-0 the byte-swap class.

use std::fmt;

/// An object's (or bonus buffer's) type number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectType(pub u8);

/// How the contents of an object change with the host's byte order (format/2b 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the format's own class names")]
pub enum ByteswapClass {
    U8,
    U16,
    U32,
    U64,
    Zap,
    Dnode,
    Objset,
    Znode,
    OldAcl,
    Acl,
}

use ByteswapClass::{Acl, Dnode, Objset, OldAcl, U8, U16, U32, U64, Zap, Znode};

const METADATA: bool = true;
const DATA: bool = false;
const SECRET: bool = true;
const CLEAR: bool = false;

/// (name, class, metadata, encrypted in encrypted datasets) of types 0 to 53.
const TABLE: [(&str, ByteswapClass, bool, bool); 54] = [
    ("unallocated", U8, METADATA, CLEAR),
    ("object directory", Zap, METADATA, CLEAR),
    ("object array", U64, METADATA, CLEAR),
    ("packed nvlist", U8, METADATA, CLEAR),
    ("packed nvlist size", U64, METADATA, CLEAR),
    ("bpobj", U64, METADATA, CLEAR),
    ("bpobj header", U64, METADATA, CLEAR),
    ("SPA space map header", U64, METADATA, CLEAR),
    ("SPA space map", U64, METADATA, CLEAR),
    ("ZIL intent log", U64, METADATA, SECRET),
    ("DMU dnode", Dnode, METADATA, SECRET),
    ("DMU objset", Objset, METADATA, CLEAR),
    ("DSL directory", U64, METADATA, CLEAR),
    ("DSL directory child map", Zap, METADATA, CLEAR),
    ("DSL dataset snap map", Zap, METADATA, CLEAR),
    ("DSL props", Zap, METADATA, CLEAR),
    ("DSL dataset", U64, METADATA, CLEAR),
    ("ZFS znode", Znode, METADATA, CLEAR),
    ("ZFS V0 ACL", OldAcl, METADATA, SECRET),
    ("ZFS plain file", U8, DATA, SECRET),
    ("ZFS directory", Zap, METADATA, SECRET),
    ("ZFS master node", Zap, METADATA, CLEAR),
    ("ZFS delete queue", Zap, METADATA, SECRET),
    ("zvol object", U8, DATA, SECRET),
    ("zvol prop", Zap, METADATA, CLEAR),
    ("other uint8[]", U8, DATA, SECRET),
    ("other uint64[]", U64, DATA, SECRET),
    ("other ZAP", Zap, METADATA, CLEAR),
    ("persistent error log", Zap, METADATA, CLEAR),
    ("SPA history", U8, METADATA, CLEAR),
    ("SPA history offsets", U64, METADATA, CLEAR),
    ("Pool properties", Zap, METADATA, CLEAR),
    ("DSL permissions", Zap, METADATA, CLEAR),
    ("ZFS ACL", Acl, METADATA, SECRET),
    ("ZFS SYSACL", U8, METADATA, SECRET),
    ("FUID table", U8, METADATA, SECRET),
    ("FUID table size", U64, METADATA, CLEAR),
    ("DSL dataset next clones", Zap, METADATA, CLEAR),
    ("scan work queue", Zap, METADATA, CLEAR),
    ("ZFS user/group/project used", Zap, METADATA, SECRET),
    ("ZFS user/group/project quota", Zap, METADATA, SECRET),
    ("snapshot refcount tags", Zap, METADATA, CLEAR),
    ("DDT ZAP algorithm", Zap, METADATA, CLEAR),
    ("DDT statistics", Zap, METADATA, CLEAR),
    ("System attributes", U8, METADATA, SECRET),
    ("SA master node", Zap, METADATA, SECRET),
    ("SA attr registration", Zap, METADATA, SECRET),
    ("SA attr layouts", Zap, METADATA, SECRET),
    ("scan translations", Zap, METADATA, CLEAR),
    ("deduplicated block", U8, DATA, SECRET),
    ("DSL deadlist map", Zap, METADATA, CLEAR),
    ("DSL deadlist map hdr", U64, METADATA, CLEAR),
    ("DSL dir clones", Zap, METADATA, CLEAR),
    ("bpobj subobj", U64, METADATA, CLEAR),
];

const NEW_STYLE: u8 = 0x80;
const NEW_STYLE_METADATA: u8 = 0x40;
const NEW_STYLE_ENCRYPTED: u8 = 0x20;
const NEW_STYLE_CLASS: u8 = 0x1f;
const CLASSES: [ByteswapClass; 10] = [U8, U16, U32, U64, Zap, Dnode, Objset, Znode, OldAcl, Acl];

#[expect(missing_docs, reason = "each is named as in the table")]
impl ObjectType {
    pub const NONE: Self = Self(0);
    pub const OBJECT_DIRECTORY: Self = Self(1);
    pub const OBJECT_ARRAY: Self = Self(2);
    pub const PACKED_NVLIST: Self = Self(3);
    pub const PACKED_NVLIST_SIZE: Self = Self(4);
    pub const BPOBJ: Self = Self(5);
    pub const BPOBJ_HEADER: Self = Self(6);
    pub const SPACE_MAP_HEADER: Self = Self(7);
    pub const SPACE_MAP: Self = Self(8);
    pub const INTENT_LOG: Self = Self(9);
    pub const DNODE: Self = Self(10);
    pub const OBJSET: Self = Self(11);
    pub const DSL_DIR: Self = Self(12);
    pub const DSL_DIR_CHILD_MAP: Self = Self(13);
    pub const DSL_DATASET_SNAP_MAP: Self = Self(14);
    pub const DSL_PROPS: Self = Self(15);
    pub const DSL_DATASET: Self = Self(16);
    pub const ZNODE: Self = Self(17);
    pub const OLD_ACL: Self = Self(18);
    pub const PLAIN_FILE: Self = Self(19);
    pub const DIRECTORY: Self = Self(20);
    pub const MASTER_NODE: Self = Self(21);
    pub const DELETE_QUEUE: Self = Self(22);
    pub const ZVOL: Self = Self(23);
    pub const ZVOL_PROP: Self = Self(24);
    pub const OTHER_UINT8: Self = Self(25);
    pub const OTHER_UINT64: Self = Self(26);
    pub const OTHER_ZAP: Self = Self(27);
    pub const ERROR_LOG: Self = Self(28);
    pub const HISTORY: Self = Self(29);
    pub const HISTORY_OFFSETS: Self = Self(30);
    pub const POOL_PROPERTIES: Self = Self(31);
    pub const DSL_PERMISSIONS: Self = Self(32);
    pub const ACL: Self = Self(33);
    pub const SYSACL: Self = Self(34);
    pub const FUID: Self = Self(35);
    pub const FUID_SIZE: Self = Self(36);
    pub const NEXT_CLONES: Self = Self(37);
    pub const SCAN_QUEUE: Self = Self(38);
    pub const USED: Self = Self(39);
    pub const QUOTA: Self = Self(40);
    pub const SNAPSHOT_REFCOUNT_TAGS: Self = Self(41);
    pub const DDT_ZAP: Self = Self(42);
    pub const DDT_STATISTICS: Self = Self(43);
    pub const SYSTEM_ATTRIBUTES: Self = Self(44);
    pub const SA_MASTER_NODE: Self = Self(45);
    pub const SA_REGISTRY: Self = Self(46);
    pub const SA_LAYOUTS: Self = Self(47);
    pub const SCAN_TRANSLATIONS: Self = Self(48);
    pub const DEDUPLICATED_BLOCK: Self = Self(49);
    pub const DEADLIST: Self = Self(50);
    pub const DEADLIST_HEADER: Self = Self(51);
    pub const DSL_DIR_CLONES: Self = Self(52);
    pub const BPOBJ_SUBOBJ: Self = Self(53);

    // New-style types that OpenZFS writes: the metadata of newer features.
    pub const UINT8_METADATA: Self = Self(0xC0);
    pub const UINT64_METADATA: Self = Self(0xC3);
    pub const ZAP_METADATA: Self = Self(0xC4);
}

impl ObjectType {
    /// Whether the number means something: a table entry, or a new-style type with a known class.
    pub fn is_valid(self) -> bool {
        self.byteswap_class().is_some()
    }

    /// The byte-swap class of the contents, or `None` for an invalid number.
    pub fn byteswap_class(self) -> Option<ByteswapClass> {
        if self.0 & NEW_STYLE != 0 {
            CLASSES.get(usize::from(self.0 & NEW_STYLE_CLASS)).copied()
        } else {
            TABLE.get(usize::from(self.0)).map(|row| row.1)
        }
    }

    /// Whether blocks of this type are metadata at every level.
    pub fn is_metadata(self) -> bool {
        if self.0 & NEW_STYLE != 0 {
            self.0 & NEW_STYLE_METADATA != 0
        } else {
            TABLE.get(usize::from(self.0)).is_some_and(|row| row.2)
        }
    }

    /// Whether contents are encrypted (not only authenticated) in encrypted datasets.
    pub fn is_encrypted(self) -> bool {
        if self.0 & NEW_STYLE != 0 {
            self.0 & NEW_STYLE_ENCRYPTED != 0
        } else {
            TABLE.get(usize::from(self.0)).is_some_and(|row| row.3)
        }
    }
}

impl fmt::Display for ObjectType {
    /// The name that `zdb` prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(row) = TABLE.get(usize::from(self.0)) {
            return f.write_str(row.0);
        }
        let Some(class) = self.byteswap_class().filter(|_| self.0 & NEW_STYLE != 0) else {
            return write!(f, "unknown type {}", self.0);
        };
        let kind = if self.is_metadata() {
            "metadata"
        } else {
            "data"
        };
        let class = format!("{class:?}").to_lowercase();
        write!(
            f,
            "{class} {kind}{}",
            if self.is_encrypted() {
                " (encrypted)"
            } else {
                ""
            }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_rows_stand_at_their_numbers() {
        assert_eq!(ObjectType::PLAIN_FILE.to_string(), "ZFS plain file");
        assert_eq!(
            ObjectType::SYSTEM_ATTRIBUTES.to_string(),
            "System attributes"
        );
        assert_eq!(ObjectType(53).to_string(), "bpobj subobj");
        assert!(!ObjectType(54).is_valid());
        assert!(!ObjectType::PLAIN_FILE.is_metadata() && ObjectType::PLAIN_FILE.is_encrypted());
    }

    #[test]
    fn new_style_types_describe_themselves() {
        let zap_metadata = ObjectType(0xC4);
        assert_eq!(zap_metadata.byteswap_class(), Some(ByteswapClass::Zap));
        assert!(zap_metadata.is_metadata() && !zap_metadata.is_encrypted());
        assert!(ObjectType(0xE3).is_encrypted());
        assert!(!ObjectType(0x8A).is_valid(), "class 10 does not exist");
    }
}
