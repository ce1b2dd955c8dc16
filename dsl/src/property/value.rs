//! A property as it is reported: value, source, received value.

use super::stored::Stored;
use super::table::{Format, Property, Unset};
use super::words;
use crate::name::DatasetName;

/// A value in its base unit (bytes, seconds, hundredths of a ratio) or in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PropertyValue {
    /// There is none.
    #[default]
    None,
    /// A number. [`super::UNLIMITED`] means no limit.
    Number(u64),
    /// Words: an index by its word, a path, a name.
    Text(String),
}

impl PropertyValue {
    /// Whether there is no value.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// A stored value of `property` in the form in which it is shown.
    pub(crate) fn of_stored(property: Property, stored: &Stored) -> Self {
        match (property.info().format, stored) {
            (Format::Index(table), Stored::Number(number)) => Self::index(table, *number),
            (_, Stored::Number(number)) => Self::Number(*number),
            (_, Stored::Text(text)) => Self::Text(text.clone()),
        }
    }

    /// The word of an index, or the number of one that has no word.
    pub(crate) fn index(table: words::Words, number: u64) -> Self {
        match words::word(table, number) {
            Some(word) => Self::Text(word.to_owned()),
            None => Self::Number(number),
        }
    }

    /// The default of `property`.
    pub(crate) fn default_of(property: Property) -> Self {
        let info = property.info();
        match (info.default, info.format) {
            (Unset::None, _) => Self::None,
            (Unset::Number(number), Format::Index(table)) => Self::index(table, number),
            (Unset::Number(number), _) => Self::Number(number),
            (Unset::Text(text), _) => Self::Text(text.to_owned()),
        }
    }
}

impl From<u64> for PropertyValue {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for PropertyValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for PropertyValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&DatasetName> for PropertyValue {
    fn from(name: &DatasetName) -> Self {
        Self::Text(name.as_str().to_owned())
    }
}

impl<T: Into<PropertyValue>> From<Option<T>> for PropertyValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// Where a property's value comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PropertySource {
    /// It cannot be set, or does not apply.
    #[default]
    None,
    /// It was not set.
    Default,
    /// The dataset's administrator.
    Local,
    /// It is overridden for the time of a mount.
    Temporary,
    /// An ancestor's administrator, or a snapshot's file system's.
    Inherited(DatasetName),
    /// A stream brought it.
    Received,
}

/// One property of one dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertyReport {
    /// The full name.
    pub name: String,
    /// The value in effect.
    pub value: PropertyValue,
    /// Where the value comes from.
    pub source: PropertySource,
    /// The value that a stream brought, in effect or not.
    pub received: Option<PropertyValue>,
}
