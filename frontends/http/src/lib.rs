//! Files and pages over HTTP, for browsers, download tools and mirrors.
//!
//! The crate implements the protocol, with `hyper`, and does not depend on ZFS. From the inside
//! out:
//!
//! * [`Tree`] is what a site serves: files and directories as they were at one moment. A tree over
//!   a dataset or a snapshot belongs to the crates above.
//! * [`Sites`] says which tree answers for a host and a path, and may replace it between two
//!   requests; a request under way keeps the tree that it began with.
//! * [`Pages`] are answers that a program makes itself: the dashboard, `/metrics`.

#![forbid(unsafe_code)]

mod access_log;
mod addresses;
mod answer;
mod body;
mod check;
mod conditions;
mod connection;
mod date;
mod directory;
mod either;
mod flight;
mod glob;
mod links;
mod listen;
mod listing;
mod mime;
mod multipart;
mod named_file;
mod negotiate;
mod options;
mod pace;
mod pages;
mod ranges;
mod server;
mod service;
mod status;
mod target;
mod tls;
mod tree;
mod waiting;
mod wire;
mod worker;

pub use access_log::{AccessLog, FileLog};
pub use check::check_request;
pub use directory::DirectoryTree;
pub use listen::{Address, AddressError};
pub use named_file::read_named_file;
pub use options::{Limits, ListingFormat, Options, OptionsError};
pub use pages::{Method, PageAnswer, PageRequest, Pages};
pub use server::{Bound, Handler, Listen, Server, ServerError};
pub use status::{AddressStatus, Status};
pub use target::{encoded_path, host_name, requested_host};
pub use tls::{TlsError, TlsFiles};
pub use tree::{
    Entry, EntryKind, File, Found, NoSites, OneTree, Purpose, Resolved, Site, Sites, Tree,
    TreeError,
};
