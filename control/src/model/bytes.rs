//! Names that need not be UTF-8: paths inside datasets.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path or file name as the file system stores it: bytes, usually UTF-8.
///
/// Travels as a string where it is UTF-8 and as a list of byte values where it is not.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RawName(pub Vec<u8>);

impl RawName {
    /// For people: bytes that are not UTF-8 become replacement characters.
    pub fn lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl From<&str> for RawName {
    fn from(text: &str) -> Self {
        RawName(text.as_bytes().to_vec())
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Wire {
    Text(String),
    Bytes(Vec<u8>),
}

impl Serialize for RawName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RawName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Wire::deserialize(deserializer)? {
            Wire::Text(text) => RawName(text.into_bytes()),
            Wire::Bytes(bytes) => RawName(bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive_json() {
        for bytes in [&b"plain"[..], b"new\nline", b"\xff\xfe", b""] {
            let name = RawName(bytes.to_vec());
            let json = serde_json::to_string(&name).expect("plain data");
            assert_eq!(
                serde_json::from_str::<RawName>(&json).expect("own output"),
                name
            );
        }
    }
}
