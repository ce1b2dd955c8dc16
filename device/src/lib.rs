//! cenote-device
