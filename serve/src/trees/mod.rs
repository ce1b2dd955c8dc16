//! A file system's files by their paths, for servers that answer strangers.
//!
//! A [`tree::FileTree`] is a head or a snapshot, open to be read. It finds what a path names
//! (`find`, `walk`), remembers that for names that are asked for often (`names`), lists
//! directories, and hands out files (`file`). There are two ways to each answer: what memory has is
//! given at once, and never waits; anything else may wait for a device.
//!
//! *What is served*: what everybody may read. A file needs the mode `o+r`, a directory `o+x` to
//! lead on and `o+r` to be listed. Symbolic links are followed as long as they stay in the tree;
//! one with an absolute target leads out of it, for where the tree is mounted is not known here.
//!
//! *Whose the files are*: a tree has all that its files need. Whoever takes the tree away from its
//! files, because the pool is exported or the snapshot destroyed, ends them: a file that is being
//! sent reads no more, and says so. So no client can hold a pool, however slowly it receives.
//!
//! Deliberately absent: access times. Strangers who read do not change the file system.

pub(crate) mod file;
pub(crate) mod find;
pub(crate) mod handles;
mod lent;
pub(crate) mod names;
pub(crate) mod tag;
mod time;
pub(crate) mod tree;
pub(crate) mod walk;
