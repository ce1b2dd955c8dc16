//! The daemon itself: its state and its settings.

pub mod settings;
pub(crate) mod status;
