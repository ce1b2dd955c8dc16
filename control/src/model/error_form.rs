//! How a [`ControlError`] is written in a frame.
//!
//! A case of one subject ([`Refusal`]) is written as the words for it, in the form that was there
//! before cases (`bad_value`, `stream_refused`), and the case beside them as `refusal`. So a client
//! that does not know the case, or cases at all, shows the words; and what an older daemon says, or
//! a newer one in a case that is not known here, is read as words.

use super::error::ControlError;
use super::refusal::Refusal;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The key of the case.
const REFUSAL: &str = "refusal";

/// A case, and the words for it.
#[derive(Serialize)]
#[serde(tag = "error", rename_all = "snake_case")]
enum Worded<'a> {
    BadValue {
        name: &'a str,
        reason: String,
        refusal: &'a Refusal,
    },
    StreamRefused {
        what: String,
        reason: String,
        refusal: &'a Refusal,
    },
}

impl Serialize for ControlError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let worded = match self {
            Self::Refused(refusal @ Refusal::Stream { act, why }) => Worded::StreamRefused {
                what: act.to_string(),
                reason: why.to_string(),
                refusal,
            },
            Self::Refused(refusal) => Worded::BadValue {
                name: refusal.property(),
                reason: refusal.to_string(),
                refusal,
            },
            // What `remote` makes of the derive is an associated function of this name.
            other => return ControlError::serialize(other, serializer),
        };
        worded.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ControlError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let refusal = value.get(REFUSAL).map(Refusal::deserialize);
        match refusal {
            Some(Ok(refusal)) => Ok(Self::Refused(refusal)),
            _ => ControlError::deserialize(value).map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DeviceRefusal, KeyRefusal, StreamAct, StreamRefusal};
    use serde_json::json;

    fn read(value: Value) -> ControlError {
        serde_json::from_value(value).expect("an error")
    }

    /// A client of before has only the words, and those are what it always had.
    #[test]
    fn cases_are_read_as_words_where_they_are_not_known() {
        let busy = ControlError::from(DeviceRefusal::Busy {
            device: "/dev/sdb".to_owned(),
        });
        let mut written = serde_json::to_value(&busy).expect("JSON");
        assert_eq!(read(written.clone()), busy);
        let object = written.as_object_mut().expect("an object");
        object.insert(REFUSAL.to_owned(), json!({"device": {"of_tomorrow": {}}}));
        let words = ControlError::BadValue {
            name: String::new(),
            reason: "/dev/sdb is busy".to_owned(),
        };
        assert_eq!(read(written.clone()), words);
        let object = written.as_object_mut().expect("an object");
        object.remove(REFUSAL);
        let known = json!({"error": "bad_value", "name": "", "reason": "/dev/sdb is busy"});
        assert_eq!(written, known);
        assert_eq!(read(known), words);
        assert_eq!(words.to_string(), busy.to_string());
    }

    #[test]
    fn streams_and_keys_keep_their_forms() {
        let target = "tank@a".to_owned();
        let why = StreamRefusal::KeyNotLoaded;
        let stream = ControlError::stream(StreamAct::Send { target }, why);
        let written = serde_json::to_value(&stream).expect("JSON");
        assert_eq!(written["error"], "stream_refused");
        assert_eq!(written["what"], "cannot send 'tank@a'");
        assert_eq!(written["reason"], "dataset key must be loaded");
        assert_eq!(read(written), stream);
        let key = ControlError::from(KeyRefusal::TooFewIterations { minimum: 100_000 });
        let written = serde_json::to_value(&key).expect("JSON");
        assert_eq!(
            (&written["error"], &written["name"]),
            (&json!("bad_value"), &json!("pbkdf2iters"))
        );
        assert_eq!(read(written), key);
        assert_eq!(key.wrong_option(), Some("pbkdf2iters"));
    }

    #[test]
    fn what_is_no_case_is_written_as_before() {
        let error = ControlError::NoSuchPool {
            pool: "tank".to_owned(),
        };
        let written = serde_json::to_value(&error).expect("JSON");
        assert_eq!(written, json!({"error": "no_such_pool", "pool": "tank"}));
        assert_eq!(read(written), error);
        assert!(serde_json::from_value::<ControlError>(json!({"error": "unheard_of"})).is_err());
    }
}
