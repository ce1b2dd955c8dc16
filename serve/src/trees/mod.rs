//! A file system's files by their paths, for servers that answer strangers.
//!
//! A [`tree::FileTree`] is a head or a snapshot, open for reading. It finds what a path names
//! (`find`, `walk`), caches the answers (`names`), lists directories, and opens files (`file`).
//! Lookups and reads have two forms: one answers from memory and never waits, the other may wait
//! for a device.
//!
//! *What is served*: files that others may read. A file needs the mode `o+r`. A directory needs
//! `o+x` for access to its entries and `o+r` to be listed. Symbolic links are followed within the
//! tree. A link with an absolute target counts as leading out of it: the server does not know where
//! the tree is mounted.
//!
//! *Ownership*: a tree owns everything that its files need. When the engine closes the tree, for an
//! export of the pool or a destroy of the snapshot, further reads of its files fail. So no client
//! can keep a pool busy, however slowly it receives.
//!
//! Deliberately absent: access times. Reads by strangers do not change the file system.

pub(crate) mod file;
pub(crate) mod find;
pub(crate) mod handles;
mod lent;
pub(crate) mod names;
pub(crate) mod tag;
mod time;
pub(crate) mod tree;
pub(crate) mod walk;
