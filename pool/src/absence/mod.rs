//! Devices that were away: what they missed, how they are known again, and what they get when they
//! come back.

pub(crate) mod away;
pub(crate) mod behind;
pub(crate) mod clear;
mod logs;
pub(crate) mod returning;
