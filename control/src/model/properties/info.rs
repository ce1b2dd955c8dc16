//! The description of one property.

use crate::model::dataset::KindSet;

/// What a property's number means and how it is worded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Words, or numbers that are shown as they are.
    Text,
    /// Bytes, with `B` when below 1024.
    Bytes,
    /// Bytes; 0 is `none` for people.
    BytesOrNone,
    /// Bytes; 0 is `-`.
    BytesOrDash,
    /// A count or size, rounded without `B`.
    Number,
    /// A count; 2^64-1 is `none`.
    LimitOrNone,
    /// Always exact: guids, transaction groups.
    Exact,
    /// Hundredths: `1.07x`.
    Ratio,
    /// Per cent; 2^64-1 is `-`.
    Percent,
    /// Seconds since the epoch, shown to the minute.
    Date,
    /// Seconds since the epoch, shown to the second.
    DateSeconds,
    /// Bytes; 0 is `none`, 2^64-1 is `auto`.
    TableQuota,
}

/// How a list lays out the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Left aligned, at least this wide for all values: the longest word of an index.
    Words(usize),
    /// Left aligned, as wide as the widest value.
    Measured,
    /// Right aligned, this wide at least, measured only with exact values.
    Number(usize),
    /// Right aligned, as wide as the widest value.
    MeasuredNumber,
}

/// One property.
#[derive(Clone, Copy, Debug)]
pub struct PropertyInfo {
    /// The full name.
    pub name: &'static str,
    /// A short name, or "".
    pub alias: &'static str,
    /// The column's header.
    pub header: &'static str,
    /// The kinds of dataset it applies to; for pools and vdevs all.
    pub kinds: KindSet,
    /// What its number means.
    pub unit: Unit,
    /// How a list shows it.
    pub layout: Layout,
    /// Whether `set` takes it.
    pub editable: bool,
    /// Whether children inherit it.
    pub inherits: bool,
    /// Its values in usage texts; "" hides it there.
    pub values: &'static str,
}

impl PropertyInfo {
    /// The narrowest that a list shows the column, in characters.
    pub fn width_min(&self) -> usize {
        let header = self.header.len();
        match self.layout {
            Layout::Words(width) => header.max(width),
            Layout::Measured => header,
            Layout::Number(width) => header.max(width),
            Layout::MeasuredNumber => header.max(5),
        }
    }

    /// Whether the column is right aligned.
    pub fn right_aligned(&self) -> bool {
        matches!(self.layout, Layout::Number(_) | Layout::MeasuredNumber)
    }
}
