//! Streams sent and received.

pub(crate) mod abort;
mod correct;
mod heirs;
mod input;
mod naming;
mod nearest;
mod order;
mod output;
mod plan;
mod properties;
mod raw_keys;
pub(crate) mod receive;
pub(crate) mod send;
mod session;
mod steps;
mod substream;
mod tree;
mod words;
