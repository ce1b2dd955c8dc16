//! Measurements, taken so that they can stand beside OpenZFS's own.

#![forbid(unsafe_code)]

pub mod cloud;
pub mod codec;
pub mod http;
pub mod read;
pub mod scan;
pub mod send;
pub mod snapshots;
pub mod sync;
pub mod volume;
pub mod write;

/// The main function of a bench: what the command line asks for, run. The exit code is 2 for a
/// command line that is wrong, and 1 where something failed.
pub fn run<O>(
    parse: impl FnOnce() -> Result<O, String>,
    bench: impl FnOnce(&O) -> anyhow::Result<bool>,
) -> std::process::ExitCode {
    use std::process::ExitCode;
    let options = match parse() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    match bench(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The directory of the workspace.
pub fn workspace_root() -> std::path::PathBuf {
    let package = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    package
        .parent()
        .expect("this crate lies in the workspace")
        .to_path_buf()
}
