//! cenote-cache
