//! Every structure of pools made by OpenZFS decodes, and says what is known of the pool.
//!
//! The reader here is as simple as can be: it knows single disks and mirrors, verifies no
//! checksum and caches nothing, so that it cannot share a mistake with the layers above.

mod labels;
mod log;
mod meta;
mod reader;
