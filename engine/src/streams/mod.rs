//! Streams received.

pub(crate) mod abort;
mod input;
mod naming;
mod plan;
pub(crate) mod receive;
mod substream;
mod words;
