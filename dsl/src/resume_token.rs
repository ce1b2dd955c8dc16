//! The token with which an interrupted receive can be resumed (format/4 6).
//!
//! The dataset being received keeps where the stream stopped in its extension fields. The token
//! is `1-CHECKSUM-LENGTH-DATA`: DATA is a name-value list in native packing, deflated, in hex;
//! LENGTH its size before deflating; CHECKSUM the first word of fletcher4 over the deflated bytes.
//! If the stream goes into an existing dataset, the token is that of the hidden child `%recv`.
//!
//! Users may truncate a token when they copy it: [`from_text`] returns OpenZFS's messages for
//! invalid tokens.

use crate::dataset::Dataset;
use crate::error::DslError;
use crate::write::RECEIVE_CHILD;
use cenote_base::{Guid, ObjectId};
use cenote_codec::token_text;
pub use cenote_codec::token_text::TokenProblem;
use cenote_ondisk::NvList;
use cenote_ondisk::dsl_dataset::fields;
use cenote_ondisk::stream::ResumeToken;

/// The token of a dataset, of itself or of what is being received into it.
pub fn receive_resume_token(dataset: &Dataset) -> Result<Option<String>, DslError> {
    if let Some(token) = own_token(dataset)? {
        return Ok(Some(token));
    }
    let Some(child) = dataset.directory().child(RECEIVE_CHILD.as_bytes())? else {
        return Ok(None);
    };
    match child.head()? {
        Some(head) => own_token(&head),
        None => Ok(None),
    }
}

fn own_token(dataset: &Dataset) -> Result<Option<String>, DslError> {
    Ok(state(dataset)?.and_then(|token| to_text(&token)))
}

/// Where the stream that is being received into `dataset` itself stopped; `None` if there is none.
///
/// # Errors
/// If the dataset's entries cannot be read.
pub fn state(dataset: &Dataset) -> Result<Option<ResumeToken>, DslError> {
    let Some(to_guid) = dataset.extension_number(fields::RESUME_TO_GUID)? else {
        return Ok(None);
    };
    let number = |field| Ok::<_, DslError>(dataset.extension_number(field)?.unwrap_or(0));
    let flag = |field| Ok::<_, DslError>(dataset.extension_value(field)?.is_some());
    let name = dataset.extension_value(fields::RESUME_TO_NAME)?;
    let bookmark = dataset.extension_value(fields::RESUME_REDACTION_SNAPSHOTS)?;
    Ok(Some(ResumeToken {
        from_guid: dataset
            .extension_number(fields::RESUME_FROM_GUID)?
            .map(Guid),
        object: ObjectId(number(fields::RESUME_OBJECT)?),
        offset: number(fields::RESUME_OFFSET)?,
        bytes: number(fields::RESUME_BYTES)?,
        to_guid: Guid(to_guid),
        to_name: name
            .as_ref()
            .and_then(|name| name.as_str())
            .unwrap_or_default()
            .into(),
        large_blocks: flag(fields::RESUME_LARGE_BLOCKS)?,
        embedded: flag(fields::RESUME_EMBEDDED)?,
        compressed: flag(fields::RESUME_COMPRESSED)?,
        raw: flag(fields::RESUME_RAW)?,
        redact_snapshots: dataset.redaction_snapshots()?,
        bookmark_redact_snapshots: bookmark.and_then(|value| value.as_u64s()),
    }))
}

/// The token's text; `None` if the list cannot be deflated, which a list of this size can.
pub fn to_text(token: &ResumeToken) -> Option<String> {
    token_text::to_text(&token.to_list().encode_native())
}

/// The list of a token that a user gave.
///
/// # Errors
/// [`TokenProblem`] says what is wrong with it.
pub fn list_from_text(text: &str) -> Result<NvList, TokenProblem> {
    NvList::decode(&token_text::from_text(text)?).map_err(|_| TokenProblem::List)
}

/// What a token that a user gave says.
///
/// # Errors
/// [`TokenProblem`] says what is wrong with it.
pub fn from_text(text: &str) -> Result<ResumeToken, TokenProblem> {
    ResumeToken::from_list(&list_from_text(text)?).map_err(|_| TokenProblem::List)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel module of OpenZFS 2.3.2 gave for an interrupted receive.
    const REFERENCE: &str = "1-adcf35e20-c0-789c636064000310a500c4ec50360710e72765a526973030344294\
         60caa7a515a7968064d8e0f26c48f2499525a9c5407a469f0a56fd25f9e9a599290c0c2f937b76ec70fd3cd300\
         499e132c9f97989bcac0909e9f93125f5c52949a985bac9f56ec90c880000082561acf";

    fn reference() -> ResumeToken {
        ResumeToken {
            object: ObjectId(0x81),
            offset: 0x6_0000,
            bytes: 0x24_8e98,
            to_guid: Guid(0x99f3_45b8_b88c_63e9),
            to_name: b"gold_streams/fs@a".to_vec(),
            ..Default::default()
        }
    }

    #[test]
    fn the_reference_is_read_and_ours_comes_back() {
        assert_eq!(from_text(REFERENCE), Ok(reference()));
        assert_eq!(reference().to_list().encode_native().len(), 0xc0);
        let full = ResumeToken {
            from_guid: Some(Guid(1)),
            raw: true,
            compressed: true,
            redact_snapshots: Some(vec![1, u64::MAX]),
            ..reference()
        };
        for token in [reference(), full] {
            let text = to_text(&token).expect("deflates");
            assert_eq!(from_text(&text), Ok(token));
        }
    }

    #[test]
    fn broken_tokens_say_why() {
        let cut = &REFERENCE[..REFERENCE.len() - 8];
        let wrong = |text: &str| from_text(text).expect_err("broken");
        assert_eq!(wrong(""), TokenProblem::Format);
        assert_eq!(wrong("1-ad"), TokenProblem::Format);
        assert_eq!(
            wrong(&REFERENCE.replacen('1', "2", 1)),
            TokenProblem::Version(2)
        );
        assert_eq!(wrong(cut), TokenProblem::Checksum);
        assert_eq!(wrong(&format!("{REFERENCE}x")), TokenProblem::Digits);
        assert_eq!(wrong(&format!("{REFERENCE}xy")), TokenProblem::Digits);
        let longer = REFERENCE.replacen("-c0-", "-fffffffffff-", 1);
        assert_eq!(wrong(&longer), TokenProblem::Compression);
        let other = REFERENCE.replacen("-c0-", "-c1-", 1);
        assert_eq!(wrong(&other), TokenProblem::Compression);
    }
}
