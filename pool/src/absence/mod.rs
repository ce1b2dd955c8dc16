//! Devices that were away: what they missed, how they are known again, and what they get when they
//! come back.

pub(crate) mod away;
pub(crate) mod behind;
pub(crate) mod clear;
pub(crate) mod returning;
