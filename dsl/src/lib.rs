//! cenote-dsl
