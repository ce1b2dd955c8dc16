//! Packing lists in the native encoding, little-endian (format/1a 1, "Native list").
//!
//! Only the types are written that history records, resume tokens and send streams have: numbers,
//! text, flags, arrays of numbers and of bytes, and lists of those. Whatever else a list holds is
//! left out.

use super::items::code;
use super::list::{NvList, NvValue};

const PAIR_HEADER: usize = 16;
/// Bytes of an embedded list within its pair: version, flags and what were pointers in memory.
const LIST_STUB: usize = 24;

fn put_pair(out: &mut Vec<u8>, name: &[u8], kind: u32, count: i32, value: &[u8]) {
    let name_end = (PAIR_HEADER + name.len() + 1).next_multiple_of(8);
    let size = (name_end + value.len()).next_multiple_of(8);
    let start = out.len();
    out.extend(i32::try_from(size).unwrap_or(i32::MAX).to_le_bytes());
    let name_size = i16::try_from(name.len() + 1).unwrap_or(i16::MAX);
    out.extend(name_size.to_le_bytes());
    out.extend([0; 2]);
    out.extend(count.to_le_bytes());
    out.extend(kind.to_le_bytes());
    out.extend(name);
    out.resize(start + name_end, 0);
    out.extend(value);
    out.resize(start + size, 0);
}

/// What is left to write of a list: its pairs, from some index on.
struct Frame<'a> {
    list: &'a NvList,
    next: usize,
}

/// Packs `list` with its 4-byte header.
pub(super) fn encode(list: &NvList) -> Vec<u8> {
    let mut out = vec![0, 1, 0, 0];
    out.extend(0_i32.to_le_bytes());
    out.extend(list.flags.to_le_bytes());
    let mut frames = vec![Frame { list, next: 0 }];
    while let Some(frame) = frames.last_mut() {
        let Some((name, value)) = frame.list.iter().nth(frame.next) else {
            out.extend([0; 4]);
            frames.pop();
            continue;
        };
        frame.next += 1;
        match value {
            NvValue::Boolean => put_pair(&mut out, name, code::BOOLEAN, 0, &[]),
            NvValue::Uint64(number) => {
                put_pair(&mut out, name, code::UINT64, 1, &number.to_le_bytes());
            }
            NvValue::String(text) => {
                let mut bytes = text.clone();
                bytes.push(0);
                put_pair(&mut out, name, code::STRING, 1, &bytes);
            }
            NvValue::Uint64Array(numbers) => {
                let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
                let count = i32::try_from(numbers.len()).unwrap_or(i32::MAX);
                put_pair(&mut out, name, code::UINT64_ARRAY, count, &bytes);
            }
            NvValue::Uint8Array(bytes) => {
                let count = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
                put_pair(&mut out, name, code::UINT8_ARRAY, count, bytes);
            }
            NvValue::List(inner) => {
                let mut stub = vec![0; LIST_STUB];
                stub[4..8].copy_from_slice(&inner.flags.to_le_bytes());
                put_pair(&mut out, name, code::NVLIST, 1, &stub);
                frames.push(Frame {
                    list: inner,
                    next: 0,
                });
            }
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        let mut inner = NvList::new();
        inner.set_str("a", "text of some length");
        inner.set("flag", NvValue::Boolean);
        let mut list = NvList::new();
        list.set_u64("history time", 1_700_000_000);
        list.set("in_nvl", NvValue::List(inner));
        list.set_str("history command", "zpool create tank sda");
        list.set("guids", NvValue::Uint64Array(vec![1, u64::MAX]));
        list.set("key", NvValue::Uint8Array(vec![7; 13]));
        let bytes = encode(&list);
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(NvList::decode(&bytes), Ok(list));
    }
}
