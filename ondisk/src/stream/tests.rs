//! Records of streams that OpenZFS 2.3.2 sent, and of none.

use super::package::Package;
use super::*;
use crate::NvList;
use proptest::prelude::*;

/// Calls `check` for each record of `stream`: the header's bytes, the record, the payload.
fn walk(stream: &[u8], mut check: impl FnMut(&[u8; RECORD_SIZE], &Record, Checksum, &[u8])) {
    let mut at = 0;
    while let Some(bytes) = stream.get(at..at + RECORD_SIZE) {
        let bytes: &[u8; RECORD_SIZE] = bytes.try_into().expect("a record's size");
        let (record, checksum) = Record::decode(bytes, ByteOrder::Little).expect("a record");
        let length = record.payload_length().expect("a sane length");
        let Some(payload) = stream.get(at + RECORD_SIZE..at + RECORD_SIZE + length) else {
            return;
        };
        check(bytes, &record, checksum, payload);
        at += RECORD_SIZE + length;
    }
}

fn golden_streams() -> Vec<(String, Vec<u8>)> {
    let streams = cenote_tests::streams::streams().expect("streams unpack");
    let read = |path| std::fs::read(path).expect("readable");
    streams
        .into_iter()
        .map(|(name, path)| (name, read(path)))
        .collect()
}

#[test]
fn records_of_the_reference_survive_in_both_byte_orders() {
    for (name, stream) in golden_streams() {
        let mut kinds = [0; kind::COUNT];
        walk(&stream, |bytes, record, checksum, _| {
            kinds[record.kind() as usize] += 1;
            let mut again = record.encode(ByteOrder::Little);
            if record.kind() != kind::BEGIN {
                let words = checksum.iter().flat_map(|word| word.to_le_bytes());
                let words: Vec<u8> = words.collect();
                again[CHECKSUM_OFFSET..].copy_from_slice(&words);
            }
            assert_eq!(again, *bytes, "{name}: {record:?}");
            let swapped = record.encode(ByteOrder::Big);
            let decoded = Record::decode(&swapped, ByteOrder::Big).expect("the same");
            assert_eq!(decoded, (record.clone(), [0; 4]), "{name}");
        });
        let is_whole = name != "resume-part1";
        assert_eq!(kinds[kind::END as usize] > 0, is_whole, "{name}: {kinds:?}");
        assert!(kinds[kind::OBJECT as usize] > 0, "{name}: {kinds:?}");
    }
}

#[test]
fn lists_of_the_reference_survive() {
    let mut kinds = [0; 2];
    for (name, stream) in golden_streams() {
        walk(&stream, |_, record, _, payload| {
            let Record::Begin(begin) = record else { return };
            let list = Begin::list(payload).expect("a list");
            if payload.is_empty() {
                return;
            }
            if begin.header_kind == HeaderKind::Package {
                let package = Package::from_list(&list).expect("a package");
                assert_eq!(package.to_list(), list, "{name}");
                let padded = list.encode_xdr();
                assert_eq!(padded, payload[..padded.len()], "{name}");
                kinds[0] += 1;
            } else {
                let known = BeginPayload::from_list(&list).expect("known entries");
                assert_eq!(known.to_list(), list, "{name}");
                assert_eq!(list.encode_native(), payload, "{name}");
                kinds[1] += 1;
            }
        });
    }
    let is_here = cenote_tests::streams::stream("full")
        .expect("unpacks")
        .is_some();
    assert!(
        !is_here || kinds.iter().all(|count| *count > 2),
        "{kinds:?}"
    );
}

#[test]
fn begin_tells_the_byte_order() {
    let begin = Begin {
        payload_length: 0,
        header_kind: HeaderKind::Substream,
        features: StreamFeatures::default()
            .with(Feature::SaSpill)
            .with(Feature::Raw),
        creation_time: 1,
        objset_type: 2,
        flags: flags::FREE_RECORDS | flags::SPILL_BLOCKS,
        to_guid: cenote_base::Guid(7),
        from_guid: cenote_base::Guid(0),
        to_name: b"tank@a".to_vec(),
    };
    let record = Record::Begin(Box::new(begin));
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let bytes = record.encode(order);
        assert_eq!(Begin::byte_order(&bytes), Ok(order));
        assert_eq!(Record::decode(&bytes, order), Ok((record.clone(), [0; 4])));
        for at in [8, 9, 15] {
            let mut wrong = bytes;
            wrong[at] ^= 1;
            assert!(Begin::byte_order(&wrong).is_err(), "byte {at}");
        }
    }
    let mut endless = record.encode(ByteOrder::Little);
    endless[56..].fill(b'x');
    assert!(
        Record::decode(&endless, ByteOrder::Little).is_err(),
        "no end of the name"
    );
}

#[test]
fn features_have_names() {
    let features = StreamFeatures(0b101 | 1 << 24 | 1 << 40);
    assert_eq!(features.to_string(), "dedup,sa_spill,raw,0x10000000000");
    assert_eq!(features.unreceivable(), 1 | 1 << 40);
    assert_eq!(features.without(Feature::Dedup).unreceivable(), 1 << 40);
}

#[test]
fn tokens_survive() {
    let token = ResumeToken {
        from_guid: Some(cenote_base::Guid(1)),
        object: cenote_base::ObjectId(2),
        offset: 3,
        bytes: 4,
        to_guid: cenote_base::Guid(5),
        to_name: b"a/b@c".to_vec(),
        large_blocks: true,
        raw: true,
        redact_snapshots: Some(vec![6, 7]),
        ..Default::default()
    };
    assert_eq!(ResumeToken::from_list(&token.to_list()), Ok(token));
    assert!(ResumeToken::from_list(&NvList::new()).is_err());
}

proptest! {
    /// Any bytes decode or not, and what decodes has a payload of bounded length.
    #[test]
    fn noise_is_bounded(kind in 0_u8..12, noise in proptest::collection::vec(any::<u8>(), 308)) {
        let mut bytes = [0; RECORD_SIZE];
        bytes[4..].copy_from_slice(&noise);
        for order in [ByteOrder::Little, ByteOrder::Big] {
            bytes[..4].fill(0);
            bytes[if order == ByteOrder::Little { 0 } else { 3 }] = kind;
            if let Ok((record, _)) = Record::decode(&bytes, order) {
                let length = record.payload_length().unwrap_or(0);
                prop_assert!(length <= BEGIN_PAYLOAD_MAX as usize);
                let again = record.encode(order);
                prop_assert_eq!(Record::decode(&again, order), Ok((record, [0; 4])));
            }
        }
    }
}
