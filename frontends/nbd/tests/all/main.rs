//! The server with clients of all kinds: ours, other people's, and hostile ones.

mod client;
mod common;
mod filters;
mod hostile;
mod hostile_server;
mod programs;
mod raw;
mod speaking;
mod tls;
