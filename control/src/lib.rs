//! cenote-control
