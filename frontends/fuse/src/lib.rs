//! cenote-fuse
