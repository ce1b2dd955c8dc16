//! Streams received.

pub(crate) mod abort;
mod input;
mod naming;
mod plan;
mod properties;
pub(crate) mod receive;
mod session;
mod substream;
mod words;
