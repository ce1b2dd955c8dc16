//! Records of every type, built by hand from the format chapter.

use super::*;

/// A record with these words from offset 32 and this tail, padded to 8.
fn record(record_type: u64, words: &[u64], tail: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [record_type, 0, 7, 9].iter().chain(words) {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(tail);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let length = bytes.len() as u64;
    bytes[8..16].copy_from_slice(&length.to_le_bytes());
    bytes
}

fn body(bytes: &[u8]) -> RecordBody<'_> {
    Record::decode(bytes).expect("a valid record").body
}

const NEW: u64 = 1 << 56 | 42;

/// mode, uid, gid, gen, crtime, rdev
const CREATE_WORDS: [u64; 9] = [2, NEW, 0o644, 1000, 100, 5, 60, 61, 0];

#[test]
fn creates_with_and_without_extras() {
    let bytes = record(of::CREATE | TYPE_CASE_INSENSITIVE, &CREATE_WORDS, b"file\0");
    let decoded = Record::decode(&bytes).expect("valid");
    assert!(decoded.case_insensitive && decoded.record_type == of::CREATE);
    assert_eq!((decoded.txg.0, decoded.sequence), (7, 9));
    let RecordBody::Create(create) = decoded.body else {
        panic!("a create");
    };
    assert_eq!((create.name, create.new.dnode_slots), (&b"file"[..], 2));
    assert_eq!((create.new.object, create.crtime), (ObjectId(42), (60, 61)));

    let mut fuid = CREATE_WORDS;
    fuid[3] = 1 << 32 | 5;
    let bytes = record(of::SYMLINK, &fuid, b"S-1-5\0link\0../target\0");
    let RecordBody::Create(create) = body(&bytes) else {
        panic!("a create");
    };
    assert_eq!(
        (create.domains, create.name),
        (&b"S-1-5\0"[..], &b"link"[..])
    );
    assert_eq!(create.target, Some(&b"../target"[..]));
}

#[test]
fn creates_with_list_and_attributes() {
    let acl_words = [1, 1, 2, 8, 77];
    let words = [&CREATE_WORDS[..], &acl_words].concat();
    let mut tail = vec![0; EXTENDED_ATTRIBUTES_SIZE];
    tail[0] = 3;
    tail[4] = 2;
    tail[16] = 2;
    tail.extend([0, 0, 0, 0x10, 1, 0, 0, 0]);
    tail.extend(5_u64.to_le_bytes());
    tail.extend(6_u64.to_le_bytes());
    tail.extend(b"dom\0dir\0");
    let bytes = record(of::MKDIR_ACL_ATTR, &words, &tail);
    let RecordBody::Create(create) = body(&bytes) else {
        panic!("a create");
    };
    let attributes = create.attributes.expect("present");
    assert_eq!((attributes.requested, attributes.values), (2, 2));
    let acl = create.acl.expect("present");
    assert_eq!((acl.count, acl.flags, acl.ids.len()), (1, 77, 16));
    assert_eq!(
        crate::acl::decode(acl.entries, 1).map(|aces| aces.len()),
        Ok(1)
    );
    assert_eq!((create.domains, create.name), (&b"dom\0"[..], &b"dir"[..]));
}

#[test]
fn writes_in_the_record_and_elsewhere() {
    let mut words = vec![42, 4096, 5, 0];
    words.extend([0; 16]);
    let bytes = record(of::WRITE, &words, b"hello");
    let RecordBody::Write { offset, data, .. } = body(&bytes) else {
        panic!("a write");
    };
    assert_eq!((offset, data), (4096, WriteData::Immediate(b"hello")));
    words[4] = 8;
    let indirect = record(of::WRITE, &words, &[]);
    let RecordBody::Write { data, .. } = body(&indirect) else {
        panic!("a write");
    };
    assert!(matches!(data, WriteData::Indirect(pointer) if pointer.dva(0).asize() == 4096));
    let size_only = record(of::WRITE2, &words, &[]);
    assert!(matches!(
        body(&size_only),
        RecordBody::Write {
            data: WriteData::SizeOnly,
            ..
        }
    ));
    words[2] = 100;
    assert!(Record::decode(&record(of::WRITE, &words, b"short")).is_err());
}

#[test]
fn the_other_operations() {
    let rename = record(of::RENAME, &[2, 3], b"old\0new\0");
    let RecordBody::Rename { source, target, .. } = body(&rename) else {
        panic!("a rename");
    };
    assert_eq!((source, target), (&b"old"[..], &b"new"[..]));
    let words = [2, 3, NEW, 0o20_000, 1, 2, 3, 4, 5, 0];
    let whiteout = record(of::RENAME_WHITEOUT, &words, b"a\0b\0");
    let RecordBody::Rename { whiteout, .. } = body(&whiteout) else {
        panic!("a rename");
    };
    assert_eq!(whiteout.map(|whiteout| whiteout.generation), Some(3));
    let xattr = record(of::SETSAXATTR, &[42, 3], b"user.x\0abc");
    let RecordBody::SetXattr { name, value, .. } = body(&xattr) else {
        panic!("an xattr");
    };
    assert_eq!((name, value), (&b"user.x"[..], Some(&b"abc"[..])));
    let clone = record(of::CLONE_RANGE, &[42, 0, 512, 512, 1], &[1; 128]);
    assert!(
        matches!(body(&clone), RecordBody::CloneRange { pointers, .. } if pointers.len() == 128)
    );
    let too_many = record(of::CLONE_RANGE, &[42, 0, 512, 512, u64::MAX], &[1; 128]);
    assert!(Record::decode(&too_many).is_err());
    let words = [42, 1 | 16, 0o755, 0, 0, 0, 10, 11, 20, 21];
    let setattr = record(of::SETATTR, &words, &[]);
    let RecordBody::SetAttributes(set) = body(&setattr) else {
        panic!("a setattr");
    };
    let mask = set.attribute_mask(true);
    assert!(mask.mode && mask.atime && !mask.mtime && set.atime == (10, 11));
    let old_acl = record(of::ACL_V0, &[42, 2], &[0; 24]);
    assert!(matches!(
        body(&old_acl),
        RecordBody::Acl { is_old: true, .. }
    ));
    assert!(
        Record::decode(&record(0, &[0; 4], &[])).is_err(),
        "never on disk"
    );
    assert!(Record::decode(&record(25, &[0; 4], &[])).is_err());
}

#[test]
fn records_follow_each_other_until_an_error() {
    let mut bytes = record(of::TRUNCATE, &[42, 0, 0], &[]);
    bytes.extend(record(of::REMOVE, &[2], b"name\0"));
    let types: Vec<_> = Records::new(&bytes)
        .map(|record| record.expect("valid").record_type)
        .collect();
    assert_eq!(types, [of::TRUNCATE, of::REMOVE]);
    bytes.extend([0; 32]);
    let mut records = Records::new(&bytes).skip(2);
    assert!(records.next().is_some_and(|record| record.is_err()));
    assert!(records.next().is_none());
}

#[test]
fn swapping_restores_every_type() {
    let mut setattr = record(
        of::SETATTR,
        &[42, XVATTR_LINUX, 0, 0, 0, 0, 1, 2, 3, 4],
        &[0; 72],
    );
    setattr[112] = 3;
    let acl = record(
        of::ACL,
        &[42, 1, 0, 1, 8, 9],
        &[0, 0, 0, 0x10, 1, 0, 0, 0, 5, 0, 0, 0],
    );
    let remove = record(of::REMOVE, &[2], b"name\0");
    for original in [setattr, acl, remove] {
        let mut bytes = original.clone();
        // Big-endian: reverse what swapping will reverse, by hand for the fixed words.
        let end = match original[0] {
            11 => 112,
            13 => 80,
            _ => 40,
        };
        swap_array::<8>(&mut bytes[..end]);
        match original[0] {
            11 => bytes[112..116].reverse(),
            13 => {
                bytes[82..84].reverse();
                bytes[84..88].reverse();
                bytes[88..96].reverse();
            }
            _ => {}
        }
        super::swap(&mut bytes).expect("valid");
        assert_eq!(bytes, original);
    }
    assert!(super::swap(&mut [0; 40]).is_err());
}

/// A create record that ended before its name had no domains, and the slice of no domains began
/// behind the end of the record: decoding it panicked. Found by fuzzing.
#[test]
fn a_create_that_ends_before_its_name() {
    let short = record(of::CREATE, &CREATE_WORDS[..5], &[]);
    assert!(Record::decode(&short).is_err());
}
