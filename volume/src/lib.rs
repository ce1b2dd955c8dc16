//! cenote-volume
