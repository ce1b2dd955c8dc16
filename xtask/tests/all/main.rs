//! The rules of style, as a test.

mod tidy;
