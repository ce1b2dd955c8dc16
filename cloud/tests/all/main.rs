//! The tests of the crate, in one binary.

mod model;
mod opener;
mod space;
mod stores;
