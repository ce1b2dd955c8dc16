//! Both encodings, built by hand and by the encoder.

use super::*;

/// One value of every type.
fn every_type() -> NvList {
    let mut inner = NvList::new();
    inner.set_u64("guid", 7);
    inner.set("present", NvValue::Boolean);
    let mut list = NvList::new();
    for (name, value) in [
        ("boolean", NvValue::Boolean),
        ("byte", NvValue::Byte(200)),
        ("int16", NvValue::Int16(-2)),
        ("uint16", NvValue::Uint16(65_535)),
        ("int32", NvValue::Int32(-3)),
        ("uint32", NvValue::Uint32(u32::MAX)),
        ("int64", NvValue::Int64(i64::MIN)),
        ("uint64", NvValue::Uint64(u64::MAX)),
        ("string", NvValue::String(b"tank".to_vec())),
        ("empty string", NvValue::String(Vec::new())),
        ("bytes", NvValue::ByteArray(vec![1, 2, 3, 4, 5])),
        ("int16s", NvValue::Int16Array(vec![-1, 2])),
        ("uint16s", NvValue::Uint16Array(vec![1, 2])),
        ("int32s", NvValue::Int32Array(vec![-1])),
        ("uint32s", NvValue::Uint32Array(vec![1, 2, 3])),
        ("int64s", NvValue::Int64Array(vec![-1])),
        ("uint64s", NvValue::Uint64Array(vec![1, u64::MAX])),
        ("no uint64s", NvValue::Uint64Array(Vec::new())),
        (
            "strings",
            NvValue::StringArray(vec![b"a".to_vec(), b"bcdef".to_vec()]),
        ),
        ("time", NvValue::HrTime(-5)),
        ("list", NvValue::List(inner.clone())),
        (
            "lists",
            NvValue::ListArray(vec![inner.clone(), NvList::new(), inner]),
        ),
        ("no lists", NvValue::ListArray(Vec::new())),
        ("truth", NvValue::BooleanValue(true)),
        ("int8", NvValue::Int8(-7)),
        ("uint8", NvValue::Uint8(255)),
        ("truths", NvValue::BooleanArray(vec![true, false])),
        ("int8s", NvValue::Int8Array(vec![-1, 1])),
        ("uint8s", NvValue::Uint8Array(vec![0, 255, 3])),
        ("double", NvValue::Double(0x3ff8_0000_0000_0000)),
    ] {
        list.set(name, value);
    }
    list
}

#[test]
fn every_type_survives_xdr() {
    let list = every_type();
    let packed = list.encode_xdr();
    assert_eq!(packed[..4], [1, 1, 0, 0]);
    assert_eq!(NvList::decode(&packed), Ok(list));
    for end in 0..packed.len() {
        assert!(
            NvList::decode(&packed[..end]).is_err(),
            "cut at {end} of {}",
            packed.len()
        );
    }
}

#[test]
fn xdr_bytes_are_as_openzfs_writes_them() {
    let mut list = NvList::new();
    list.set_u64("version", 5000);
    let expected = [
        [1, 1, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 1],
        [0, 0, 0, 36], // 9 words of 4 bytes
        [0, 0, 0, 32], // align8(16 + 7 + 1) + 8
        [0, 0, 0, 7],
        *b"vers",
        *b"ion\0",
        [0, 0, 0, 8],
        [0, 0, 0, 1],
        [0, 0, 0, 0],
        [0, 0, 0x13, 0x88],
        [0; 4],
        [0; 4],
    ];
    assert_eq!(list.encode_xdr(), expected.concat());
}

#[test]
fn getters_judge_the_type_and_the_last_pair_wins() {
    let mut list = every_type();
    assert_eq!(list.get_u64("uint64"), Some(u64::MAX));
    assert_eq!(list.get_u64("uint32"), None, "another type");
    assert_eq!(list.get_str("string"), Some("tank"));
    assert!(list.get_bool("boolean") && list.get_bool("truth") && !list.get_bool("absent"));
    assert_eq!(list.get_u64_array("uint64s"), Some(&[1, u64::MAX][..]));
    assert_eq!(list.get_byte_array("uint8s"), Some(&[0, 255, 3][..]));
    assert_eq!(list.get_list_array("lists").map(<[NvList]>::len), Some(3));
    list.push(b"uint64".to_vec(), NvValue::Uint64(1));
    assert_eq!(list.get_u64("uint64"), Some(1));
    assert!(list.remove("uint64") && !list.contains("uint64"));
}

#[test]
fn deep_and_oversized_lists_are_refused() {
    let mut list = NvList::new();
    for _ in 1..DEPTH_MAX {
        let mut outer = NvList::new();
        outer.set("x", NvValue::List(list));
        list = outer;
    }
    let packed = list.encode_xdr();
    assert!(NvList::decode(&packed).is_ok());
    // One level more, built by hand: our encoder asserts.
    let pair_size = (24 + packed.len() - 4) as u32;
    let mut deeper = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    for word in [pair_size, 48, 1, u32::from_be_bytes(*b"x\0\0\0"), 19, 1] {
        deeper.extend(word.to_be_bytes());
    }
    deeper.extend(&packed[4..]);
    deeper.extend([0; 8]);
    assert_eq!(
        NvList::decode(&deeper),
        bad("depth", DEPTH_MAX as u64),
        "21 levels"
    );

    let mut huge = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    for word in [28_u32, 24, 1, u32::from_be_bytes(*b"x\0\0\0"), 16] {
        huge.extend(word.to_be_bytes());
    }
    huge.extend([0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    assert!(matches!(
        NvList::decode(&huge),
        Err(DecodeError::BadValue { .. })
    ));
}

/// A history record's list, with a nested list and an array, as a little-endian host packs it.
fn native_bytes() -> Vec<u8> {
    fn pair(name: &str, type_code: u32, count: u32, value: &[u8]) -> Vec<u8> {
        let header = (16 + name.len() + 1).next_multiple_of(8);
        let size = header + value.len().next_multiple_of(8);
        let mut bytes = Vec::new();
        bytes.extend((size as u32).to_le_bytes());
        bytes.extend((name.len() as u16 + 1).to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(count.to_le_bytes());
        bytes.extend(type_code.to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.resize(header, 0);
        bytes.extend(value);
        bytes.resize(size, 0);
        bytes
    }
    let mut stub = [0; 24];
    stub[4] = 1;
    let mut bytes = vec![0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    bytes.extend(pair("history time", 8, 1, &99_u64.to_le_bytes()));
    bytes.extend(pair("ioctl", 9, 1, b"create\0"));
    bytes.extend(pair("in_nvl", 19, 1, &stub));
    bytes.extend(pair("flag", 1, 0, &[]));
    bytes.extend([0; 4]);
    let stubs = [&[0; 16][..], &stub, &stub].concat();
    bytes.extend(pair("snaps", 20, 2, &stubs));
    bytes.extend(pair("guid", 8, 1, &5_u64.to_le_bytes()));
    bytes.extend([0; 4]);
    bytes.extend([0; 4]);
    let strings = [&[0; 16][..], b"ab\0c\0"].concat();
    bytes.extend(pair("names", 17, 2, &strings));
    bytes.extend([0; 4]);
    bytes
}

#[test]
fn native_lists_decode() {
    let bytes = native_bytes();
    let list = NvList::decode(&bytes).expect("a valid list");
    assert_eq!(list.len(), 5);
    assert_eq!(list.get_u64("history time"), Some(99));
    assert_eq!(list.get_str("ioctl"), Some("create"));
    let nested = list.get_list("in_nvl").expect("a nested list");
    assert!(nested.get_bool("flag") && nested.len() == 1);
    let snaps = list.get_list_array("snaps").expect("an array of lists");
    assert_eq!((snaps.len(), snaps[1].len()), (2, 0));
    assert_eq!(snaps[0].get_u64("guid"), Some(5));
    assert_eq!(
        list.get("names"),
        Some(&NvValue::StringArray(vec![b"ab".to_vec(), b"c".to_vec()]))
    );
    for end in 0..bytes.len() {
        assert!(NvList::decode(&bytes[..end]).is_err(), "cut at {end}");
    }
}
