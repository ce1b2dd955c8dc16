//! Pools made by OpenZFS: their labels, and their blocks on whole and spoilt devices.
//!
//! The pools are looked for in `../shared/golden` beside the workspace, or where `CENOTE_GOLDEN`
//! says; without them these tests pass with a notice.

mod golden_pools;
