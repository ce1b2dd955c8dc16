//! What is encoded decodes to the same, for records of every type.

use super::*;
use crate::intent_log::record::Records;
use cenote_base::{ObjectId, Txg};
use proptest::prelude::*;

/// The raw material of a record.
#[derive(Clone, Debug)]
struct Parts {
    words: [u64; 12],
    slots: u8,
    names: [Vec<u8>; 2],
    data: Vec<u8>,
    entries: Vec<u8>,
    ids: Vec<u8>,
    scanstamp: [u8; 32],
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(1_u8..=255, 1..40)
}

fn parts() -> impl Strategy<Value = Parts> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    let whole = |unit: usize| move |bytes: Vec<u8>| bytes[..bytes.len() / unit * unit].to_vec();
    (
        any::<[u64; 12]>(),
        1_u8..=32,
        [name(), name()],
        bytes(300),
        bytes(100).prop_map(whole(12)),
        bytes(40).prop_map(whole(8)),
        any::<[u8; 32]>(),
    )
        .prop_map(
            |(words, slots, names, data, entries, ids, scanstamp)| Parts {
                words,
                slots,
                names,
                data,
                entries,
                ids,
                scanstamp,
            },
        )
}

impl Parts {
    fn new_object(&self) -> NewObject {
        NewObject {
            object: ObjectId(self.words[11] & ((1 << 48) - 1)),
            dnode_slots: self.slots,
        }
    }

    fn object(&self, index: usize) -> ObjectId {
        ObjectId(self.words[index])
    }

    fn pair(&self, index: usize) -> (u64, u64) {
        (self.words[index], self.words[index + 1])
    }

    fn attributes(&self) -> ExtendedAttributes {
        ExtendedAttributes {
            requested: self.words[6] as u32,
            values: self.words[7],
            crtime: self.pair(8),
            scanstamp: self.scanstamp,
        }
    }

    fn acl(&self) -> AclBody<'_> {
        AclBody {
            count: self.words[5],
            flags: self.words[6],
            entries: &self.entries,
            ids: &self.ids,
        }
    }

    /// Ids of users that need no domains, and such that need one each.
    fn owners(&self) -> ((u64, u64), &'static [u8]) {
        let plain = |word: u64| word & 0xffff_ffff;
        let (uid, gid) = (plain(self.words[0]), plain(self.words[1]));
        match self.words[2] % 3 {
            0 => ((uid, gid), b""),
            1 => ((uid | 1 << 32, gid), b"S-1-5-21\0"),
            _ => ((uid | 1 << 32, gid | 2 << 32), b"one\0two\0"),
        }
    }

    fn create(&self, record_type: u64) -> RecordBody<'_> {
        let ((uid, gid), mut domains) = self.owners();
        let acl = has_acl(record_type).then(|| self.acl());
        if acl.is_some() {
            domains = b"domain\0";
        }
        RecordBody::Create(Create {
            directory: self.object(0),
            new: self.new_object(),
            mode: self.words[1],
            uid,
            gid,
            generation: self.words[2],
            crtime: self.pair(3),
            device: self.words[5],
            attributes: has_attributes(record_type).then(|| self.attributes()),
            acl,
            domains,
            name: match record_type {
                of::MKXATTR => &[],
                _ => &self.names[0],
            },
            target: (record_type == of::SYMLINK).then_some(&self.names[1][..]),
        })
    }

    fn rename(&self, record_type: u64) -> RecordBody<'_> {
        let whiteout = Whiteout {
            new: self.new_object(),
            mode: self.words[2],
            uid: self.words[3],
            gid: self.words[4],
            generation: self.words[5],
            crtime: self.pair(6),
            device: self.words[8],
        };
        RecordBody::Rename {
            source_directory: self.object(0),
            target_directory: self.object(1),
            source: &self.names[0],
            target: &self.names[1],
            whiteout: (record_type == of::RENAME_WHITEOUT).then_some(whiteout),
        }
    }

    fn write(&self, record_type: u64) -> RecordBody<'_> {
        let (data, length) = match (record_type, self.words[3] % 2) {
            (of::WRITE2, _) => (WriteData::SizeOnly, self.words[2]),
            (_, 0) => {
                let words = std::array::from_fn(|i| self.words[i % 12]);
                let pointer = BlockPointer { words };
                (WriteData::Indirect(pointer), self.words[2].max(1))
            }
            _ => (WriteData::Immediate(&self.data), self.data.len() as u64),
        };
        RecordBody::Write {
            object: self.object(0),
            offset: self.words[1],
            length,
            data,
        }
    }

    fn set_attributes(&self) -> RecordBody<'_> {
        let ((uid, gid), domains) = self.owners();
        let with_attributes = self.words[3].is_multiple_of(2);
        let flag = match with_attributes {
            true => 1 << 31,
            false => 0,
        };
        RecordBody::SetAttributes(SetAttributes {
            object: self.object(0),
            mask: self.words[4] & 0xff | flag,
            mode: self.words[5],
            uid,
            gid,
            size: self.words[6],
            atime: self.pair(7),
            mtime: self.pair(9),
            attributes: with_attributes.then(|| self.attributes()),
            domains,
        })
    }

    fn body(&self, record_type: u64) -> RecordBody<'_> {
        let object = self.object(0);
        match record_type {
            of::CREATE..=of::SYMLINK | of::CREATE_ACL..=of::MKDIR_ACL_ATTR => {
                self.create(record_type)
            }
            of::REMOVE | of::RMDIR => RecordBody::Remove {
                directory: object,
                name: &self.names[0],
            },
            of::LINK => RecordBody::Link {
                directory: object,
                object: self.object(1),
                name: &self.names[0],
            },
            of::RENAME | of::RENAME_EXCHANGE | of::RENAME_WHITEOUT => self.rename(record_type),
            of::WRITE | of::WRITE2 => self.write(record_type),
            of::TRUNCATE => RecordBody::Truncate {
                object,
                offset: self.words[1],
                length: self.words[2],
            },
            of::SETATTR => self.set_attributes(),
            of::ACL_V0 => RecordBody::Acl {
                object,
                acl: AclBody {
                    count: self.entries.len() as u64 / 12,
                    flags: 0,
                    entries: &self.entries,
                    ids: &[],
                },
                is_old: true,
                domains: &[],
            },
            of::ACL => RecordBody::Acl {
                object,
                acl: self.acl(),
                is_old: false,
                domains: b"S-1\0S-2\0",
            },
            of::SETSAXATTR => RecordBody::SetXattr {
                object,
                name: &self.names[0],
                value: (!self.data.is_empty()).then_some(&self.data[..]),
            },
            _ => RecordBody::CloneRange {
                object,
                offset: self.words[1],
                length: self.words[2],
                block_size: self.words[3],
                pointers: &self.data[..self.data.len() / 128 * 128],
            },
        }
    }
}

proptest! {
    #[test]
    fn records_survive(
        (record_type, parts, case_insensitive) in (1_u64..=24, parts(), any::<bool>())
    ) {
        let record = Record {
            record_type,
            case_insensitive,
            txg: Txg(parts.words[9]),
            sequence: 0,
            body: parts.body(record_type),
        };
        let mut bytes = record.encode();
        prop_assert!(bytes.len().is_multiple_of(8));
        set_sequence(&mut bytes, 77);
        let expected = Record { sequence: 77, ..record };
        prop_assert_eq!(Record::decode(&bytes), Ok(expected.clone()));
        // Two of them in a block.
        let both = [&bytes[..], &bytes].concat();
        let decoded: Result<Vec<_>, _> = Records::new(&both).collect();
        prop_assert_eq!(decoded, Ok(vec![expected.clone(), expected]));
    }
}
