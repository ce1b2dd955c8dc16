//! Where received streams go, and what becomes of them.

pub(crate) mod postponed;
pub(crate) mod receive;
pub(crate) mod receive_end;
pub(crate) mod receive_properties;
pub(crate) mod resume_point;
