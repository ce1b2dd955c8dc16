//! Measurements, taken so that they can stand beside OpenZFS's own.

#![forbid(unsafe_code)]

pub mod cloud;
pub mod codec;
pub mod read;
pub mod scan;
pub mod send;
pub mod snapshots;
pub mod write;

/// The directory of the workspace.
pub fn workspace_root() -> std::path::PathBuf {
    let package = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    package
        .parent()
        .expect("this crate lies in the workspace")
        .to_path_buf()
}
