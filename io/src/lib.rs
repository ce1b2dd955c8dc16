//! cenote-io
