//! cenote-intent-log
