//! The unix-socket protocol between the daemon and its clients.
//!
//! A frame is a 32-bit little-endian length and so many bytes of JSON. A client sends one request
//! and reads frames until the last: parts of a long answer, then the answer or the refusal. It may
//! then send another. Closing the connection cancels what is under way. File descriptors (streams
//! to write into, files to read from) travel beside the first byte of the request's frame as
//! `SCM_RIGHTS`; stream data never crosses the socket as messages.
//!
//! Only the user that runs the daemon and root are served (`SO_PEERCRED`). Frames, descriptors and
//! connections are bounded, so that a client cannot make the daemon run out of anything.

mod client;
mod frame;
mod path;
mod server;

pub use client::{CallError, Client, Interrupt};
pub use frame::{DESCRIPTORS_MAX, FRAME_SIZE_MAX, FrameError, PROTOCOL_VERSION};
pub use path::socket_path;
pub use server::{Peer, Reply, ServeError, ServeOptions, Server, Service};
