//! The unix-socket protocol between the daemon and its clients.
//!
//! A frame is a 32-bit little-endian length and that many bytes of JSON. A client sends one request
//! and reads frames until the last: parts of a long answer, then the answer or the refusal. It may
//! then send another. Closing the connection cancels what is under way. File descriptors (streams
//! to write into, files to read from) travel beside the first byte of the request's frame as
//! `SCM_RIGHTS`; stream data never crosses the socket as messages.
//!
//! There are two sockets. On the first the user that runs the daemon and root may make all requests
//! (`SO_PEERCRED`). On the second, which is created if it is enabled, any user may make the
//! requests of [`Access::Look`](crate::model::Access), and those for which the service finds a
//! delegated permission. Frames, descriptors and connections are
//! bounded, so that a client cannot exhaust the daemon's resources. If there is no room for a
//! client, it waits.

mod client;
mod frame;
mod path;
mod peer;
mod server;
mod viewers;

pub use client::{CallError, Client, Interrupt};
pub use frame::{DESCRIPTORS_MAX, FRAME_SIZE_MAX, FrameError, PROTOCOL_VERSION};
pub use path::{MACHINE_SOCKET, lock_path, note_path, socket_of_process, socket_path, view_path};
pub use peer::Peer;
pub use server::{
    DisksAtEnd, Ending, Reply, ServeError, ServeOptions, Server, Service, clear_left_sockets,
    is_socket,
};
