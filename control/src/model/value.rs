//! A property's value and where it comes from.

use serde::{Deserialize, Serialize};

/// A name with a value, as the user wrote both.
pub type Pair = (String, String);

/// A raw value: a number in its base unit (bytes, seconds, hundredths of a ratio), or words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// No value: shown as `-`.
    #[default]
    None,
    /// A number; its unit is that of the property (`properties::Unit`).
    Number(u64),
    /// Words: index values by name (`on`, `lz4`), paths, user properties.
    Text(String),
}

impl Value {
    /// The number, if it is one.
    pub fn number(&self) -> Option<u64> {
        match self {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The words, if it is words.
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether there is no value.
    pub fn is_none(&self) -> bool {
        *self == Value::None
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Value::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::None, Into::into)
    }
}

/// Where a property's value comes from (column SOURCE).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// It cannot be set: read-only, or not applicable. Shown as `-`.
    #[default]
    None,
    /// The built-in default.
    Default,
    /// Set on this dataset or pool.
    Local,
    /// Overridden for this import or mount only.
    Temporary,
    /// Set on the named ancestor.
    Inherited(String),
    /// Set by a received stream.
    Received,
}

/// One property of a pool, vdev or dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Property {
    /// Its full name (never an alias): `used`, `feature@lz4_compress`, `com.sun:auto-snapshot`.
    pub name: String,
    /// The effective value.
    pub value: Value,
    /// Where the value comes from.
    pub source: Source,
    /// The value a stream brought, whether or not it is in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Value>,
}

impl Property {
    /// A property with its source and no received value.
    pub fn new(name: &str, value: impl Into<Value>, source: Source) -> Self {
        Property {
            name: name.to_owned(),
            value: value.into(),
            source,
            received: None,
        }
    }

    /// A property that only the system can change.
    pub fn read_only(name: &str, value: impl Into<Value>) -> Self {
        Property::new(name, value, Source::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_json() {
        let guid = 16_266_017_811_944_989_200u64;
        for value in [Value::None, Value::Number(guid), Value::from("1024")] {
            let json = serde_json::to_string(&value).expect("plain data");
            let back: Value = serde_json::from_str(&json).expect("own output");
            assert_eq!(back, value, "{json}");
        }
    }
}
