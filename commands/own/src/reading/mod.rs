//! Shared code of commands that read a pool's devices themselves: no daemon, no mount.
//!
//! Each command opens the pool read-only, does one thing, and ends. It reports what it cannot read
//! with the file's path, continues if that is useful, and exits with 1.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | everything was done and nothing is wrong |
//! | 1 | something could not be done, or damage was found |
//! | 2 | the command line is wrong; nothing was done |
//! | 3 | a signal stopped the command; run it again to resume |

pub mod datasets;
mod diagnosis;
pub mod failure;
mod keys;
pub mod line;
pub mod opener;
pub mod options;
pub mod output;
pub mod place;
pub mod session;
pub mod spec;
pub mod stop;
