//! Files and pages over HTTP, for browsers, download tools and mirrors.
//!
//! The crate speaks the protocol, by `hyper`, and knows nothing of ZFS. From the inside out:
//!
//! * [`Tree`] is what a site serves: files and directories as they were at one moment. A tree over
//!   a dataset or a snapshot belongs to the crates above.
//! * [`Sites`] says which tree answers for a host and a path, and may exchange it for another one
//!   between two requests; who is reading keeps the tree that he began with.
//! * [`Pages`] are answers that a program makes itself: the dashboard, `/metrics`.

#![forbid(unsafe_code)]

mod pages;
mod tree;

pub use pages::{Method, PageAnswer, PageRequest, Pages};
pub use tree::{Entry, EntryKind, File, Found, Purpose, Site, Sites, Tree, TreeError};
