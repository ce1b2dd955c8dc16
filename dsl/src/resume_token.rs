//! The token with which an interrupted receive can be resumed (format/4 6).
//!
//! The dataset being received keeps where the stream stopped in its extension fields. The token
//! is `1-CHECKSUM-LENGTH-DATA`: DATA is a packed name-value list, deflated, in hexadecimal; LENGTH its size before deflating; CHECKSUM the first word of fletcher4 over the
//! deflated bytes. The token of a dataset that is received into anew is that of its hidden child
//! `%recv`.

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

/// The token's text; `None` if the list cannot be deflated, which a list of this size can.
fn encode(list: &NvList) -> Option<String> {
    let packed = list.encode_xdr();
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
