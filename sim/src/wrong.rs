//! The worst that can be found: something that never was.
//!
//! An error is something else. A pool without redundancy may have errors where a disk is sick.

/// Something is in the pool that cannot be there.
#[derive(Debug)]
pub struct Wrong(pub String);

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}
