//! cenote-posix
