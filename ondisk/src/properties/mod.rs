//! Properties of datasets: which there are, their defaults, and the numbers that words stand for.

pub mod table;
pub mod words;

pub use table::{Class, Format, Kinds, Property, PropertyInfo, TABLE, UNLIMITED, Unset};
