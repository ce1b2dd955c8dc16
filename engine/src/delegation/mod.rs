//! Delegated permissions: which requests of ordinary users are carried out, and how the grants
//! themselves are changed.
//!
//! `judge` is the table of what each request needs. It is asked before the request is carried out.
//! What a request turns out to be about only on its way, such as the datasets of a stream, is
//! judged there, by the [`By`](crate::command::By) that each change has.
//!
//! File systems that ordinary users have mounted are mounted only in their own directories, and
//! without set-user-ID programs and devices.

pub(crate) mod change;
pub(crate) mod judge;
mod judge_change;
mod judge_place;
