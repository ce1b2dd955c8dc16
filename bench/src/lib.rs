//! cenote-bench
