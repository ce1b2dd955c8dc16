//! The daemon itself: its state and its settings.

pub mod expected;
pub(crate) mod recorder;
pub mod settings;
pub(crate) mod status;
pub(crate) mod veil;
