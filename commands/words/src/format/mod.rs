//! Formats of numbers, dates, tables and JSON (cli/contract.md 2-4).

pub mod date;
pub mod harmless;
pub mod json;
pub mod number;
pub mod property;
pub mod table;
pub mod url;
