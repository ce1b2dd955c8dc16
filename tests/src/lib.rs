//! cenote-tests
