//! The tests of the crate, in one binary.

mod bucket_device;
mod damage;
mod fake;
mod lists;
mod losses;
mod model;
mod opener;
mod s3;
mod server;
mod space;
mod stores;
