//! The token with which an interrupted receive can be resumed (format/4 6).
//!
//! The dataset being received keeps where the stream stopped in its extension fields. The token
//! is `1-CHECKSUM-LENGTH-DATA`: DATA is a name-value list in native packing, deflated, in hex;
//! LENGTH its size before deflating; CHECKSUM the first word of fletcher4 over the deflated bytes.
//! The token of a dataset that is received into anew is that of its hidden child `%recv`.

use crate::dataset::{Dataset, fields};
use crate::error::DslError;
use cenote_codec::Endian;
use cenote_codec::checksum::fletcher4;
use cenote_codec::compress::{self, Compression};
use cenote_ondisk::{NvList, NvValue};
use std::fmt::Write;

const VERSION: u32 = 1;
const ZLIB_LEVEL: u8 = 6;
/// The hidden child that an existing dataset is received into.
const RECEIVE_CHILD: &[u8] = b"%recv";

/// Number fields: the extension field and the key in the token.
const NUMBERS: [(&str, &str); 5] = [
    ("com.delphix:resume_fromguid", "fromguid"),
    ("com.delphix:resume_object", "object"),
    ("com.delphix:resume_offset", "offset"),
    ("com.delphix:resume_bytes", "bytes"),
    (fields::RESUME_TO_GUID, "toguid"),
];
/// Fields of which the presence counts.
const FLAGS: [(&str, &str); 4] = [
    ("com.delphix:resume_largeblockok", "largeblockok"),
    ("com.delphix:resume_embedok", "embedok"),
    ("com.delphix:resume_compressok", "compressok"),
    ("com.datto:resume_rawok", "rawok"),
];
const BOOKMARK_SNAPSHOTS: &str = "com.delphix:resume_redact_book_snaps";

/// The token of a dataset, of itself or of what is being received into it.
pub fn receive_resume_token(dataset: &Dataset) -> Result<Option<String>, DslError> {
    if let Some(token) = own_token(dataset)? {
        return Ok(Some(token));
    }
    let Some(child) = dataset.directory().child(RECEIVE_CHILD)? else {
        return Ok(None);
    };
    match child.head()? {
        Some(head) => own_token(&head),
        None => Ok(None),
    }
}

fn own_token(dataset: &Dataset) -> Result<Option<String>, DslError> {
    let Some(list) = contents(dataset)? else {
        return Ok(None);
    };
    Ok(encode(&list))
}

/// The state as a list; `None` if nothing was interrupted.
fn contents(dataset: &Dataset) -> Result<Option<NvList>, DslError> {
    if dataset.extension_value(fields::RESUME_TO_GUID)?.is_none() {
        return Ok(None);
    }
    let mut list = NvList::new();
    for (field, key) in NUMBERS {
        if let Some(number) = dataset.extension_number(field)? {
            list.set_u64(key, number);
        }
    }
    if let Some(name) = dataset.extension_value(fields::RESUME_TO_NAME)?
        && let Some(name) = name.as_str()
    {
        list.set_str("toname", name);
    }
    for (field, key) in FLAGS {
        if dataset.extension_value(field)?.is_some() {
            list.set(key, NvValue::Boolean);
        }
    }
    if let Some(guids) = dataset.redaction_snapshots()? {
        list.set("redact_snaps", NvValue::Uint64Array(guids));
    }
    let value = dataset.extension_value(BOOKMARK_SNAPSHOTS)?;
    if let Some(guids) = value.and_then(|value| value.as_u64s()) {
        list.set("book_redact_snaps", NvValue::Uint64Array(guids));
    }
    Ok(Some(list))
}

/// The native packing in little-endian order (format/1a 1) of the four kinds of values that a
/// token has. Readers take the portable packing, too, but the reference writes this one.
fn pack(list: &NvList) -> Vec<u8> {
    const UNIQUE_NAMES: u32 = 1;
    let mut packed = vec![0, 1, 0, 0];
    packed.extend(0u32.to_le_bytes());
    packed.extend(UNIQUE_NAMES.to_le_bytes());
    for (name, value) in list.iter() {
        let (kind, elements, bytes): (u32, usize, Vec<u8>) = match value {
            NvValue::Uint64(number) => (8, 1, number.to_le_bytes().to_vec()),
            NvValue::String(text) => (9, 1, [&text[..], &[0]].concat()),
            NvValue::Uint64Array(numbers) => {
                let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
                (16, numbers.len(), bytes.collect())
            }
            _ => (1, 0, Vec::new()),
        };
        let padded = |length: usize| length.next_multiple_of(8);
        let (name_end, value_end) = (padded(16 + name.len() + 1), padded(bytes.len()));
        let start = packed.len();
        // Names are ours, and a string or array comes from one ZAP value: sizes fit.
        packed.extend(((name_end + value_end) as u32).to_le_bytes());
        packed.extend((name.len() as u16 + 1).to_le_bytes());
        packed.extend([0, 0]);
        packed.extend((elements as u32).to_le_bytes());
        packed.extend(kind.to_le_bytes());
        packed.extend(name);
        packed.resize(start + name_end, 0);
        packed.extend(bytes);
        packed.resize(start + name_end + value_end, 0);
    }
    packed.extend([0; 4]);
    packed
}

/// The token's text; `None` if the list cannot be deflated, which a list of this size can.
fn encode(list: &NvList) -> Option<String> {
    let packed = pack(list);
    // Deflate stores what it cannot shrink with a few bytes more for each 64 KiB.
    let mut deflated = vec![0; packed.len() + packed.len() / 1024 + 64];
    let kind = Compression::Gzip(ZLIB_LEVEL);
    let length = compress::compress(kind, 0, &packed, deflated.len(), &mut deflated)?;
    deflated.truncate(length);
    let checksum = fletcher4(&deflated, Endian::Little)[0];
    let mut token = format!("{VERSION}-{checksum:x}-{:x}-", packed.len());
    for byte in &deflated {
        write!(token, "{byte:02x}").expect("a string takes everything");
    }
    Some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list in the token that OpenZFS 2.3.2 made for an interrupted receive.
    fn reference() -> NvList {
        let mut list = NvList::new();
        list.set_u64("object", 0x81);
        list.set_u64("offset", 0x6_0000);
        list.set_u64("bytes", 0x24_8e98);
        list.set_u64("toguid", 0x99f3_45b8_b88c_63e9);
        list.set_str("toname", "gold_streams/fs@a");
        list
    }

    #[test]
    fn lists_pack_as_the_reference_packs_them() {
        let packed = pack(&reference());
        assert_eq!(packed.len(), 192);
        assert_eq!(
            packed[..24],
            *b"\0\x01\0\0\0\0\0\0\x01\0\0\0\x20\0\0\0\x07\0\0\0\x01\0\0\0"
        );
        let last_pair = b"\x07\0\0\0\x01\0\0\0\x09\0\0\0toname\0\0gold_streams/fs@a";
        assert_eq!(packed[144..][..last_pair.len()], *last_pair);
        let mut all = reference();
        all.set("rawok", NvValue::Boolean);
        all.set("redact_snaps", NvValue::Uint64Array(vec![1, u64::MAX]));
        assert_eq!(NvList::decode(&pack(&all)), Ok(all));
    }
}
