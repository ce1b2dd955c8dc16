//! The list behind a stream's BEGIN (format/4 3).
//!
//! ```text
//! redact_snaps       u64s    the stream, or the snapshot itself, is redacted to these
//! redact_from_snaps  u64s    its source was
//! resume_object, resume_offset   u64   with the feature `resuming`
//! crypt_keydata      list    with the feature `raw`
//! ```

use super::CryptKeydata;
use crate::{DecodeError, NvList, NvValue};
use cenote_base::ObjectId;

/// What a stream's features need to be known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BeginPayload {
    /// Guids of the snapshots that the stream is redacted to.
    pub redact_snapshots: Option<Vec<u64>>,
    /// Guids of the snapshots that its source is redacted to.
    pub redact_from_snapshots: Option<Vec<u64>>,
    /// The object and the offset in bytes at which a resumed stream starts.
    pub resume: Option<(ObjectId, u64)>,
    /// The keys of a raw stream.
    pub crypt: Option<CryptKeydata>,
}

impl BeginPayload {
    /// Takes the known entries out of `list`.
    ///
    /// # Errors
    /// If the keys are incomplete.
    pub fn from_list(list: &NvList) -> Result<Self, DecodeError> {
        let guids = |name| list.get_u64_array(name).map(<[u64]>::to_vec);
        let object = list.get_u64("resume_object");
        Ok(Self {
            redact_snapshots: guids("redact_snaps"),
            redact_from_snapshots: guids("redact_from_snaps"),
            resume: object
                .zip(list.get_u64("resume_offset"))
                .map(|(object, offset)| {
                    let object = ObjectId(object);
                    (object, offset)
                }),
            crypt: match list.get_list("crypt_keydata") {
                Some(list) => Some(CryptKeydata::from_list(list)?),
                None => None,
            },
        })
    }

    /// The list; empty if there is nothing to tell.
    pub fn to_list(&self) -> NvList {
        let mut list = NvList::new();
        let redactions = [
            ("redact_snaps", &self.redact_snapshots),
            ("redact_from_snaps", &self.redact_from_snapshots),
        ];
        for (name, guids) in redactions {
            if let Some(guids) = guids {
                list.set(name, NvValue::Uint64Array(guids.clone()));
            }
        }
        if let Some((object, offset)) = self.resume {
            list.set_u64("resume_object", object.0);
            list.set_u64("resume_offset", offset);
        }
        if let Some(crypt) = &self.crypt {
            list.set("crypt_keydata", NvValue::List(crypt.to_list()));
        }
        list
    }
}
