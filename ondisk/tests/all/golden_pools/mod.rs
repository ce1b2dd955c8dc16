//! The tests by area, and the reader that they share.
//!
//! The reader is as simple as can be: it knows single disks and mirrors, verifies no checksum and
//! caches nothing, so that it cannot share a mistake with the layers above.

mod labels;
mod log;
mod meta;
mod reader;
