//! Serves a file system of constants at a directory until it is unmounted.
//!
//! A tool for measuring the transport and for testing what a killed server leaves behind.
//! It prints `ready` when the mount can be used. With `--namespace` it first enters a user
//! namespace of its own, and then lists the root directory from inside.

#![forbid(unsafe_code)]

use cenote_fuse::{Lifetime, Mount, MountOptions, NullFileSystem, enter_namespace};
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

const USAGE: &str = "\
usage: cenote-fuse-serve DIRECTORY [--files N] [--no-cache] [--namespace] [--device PATH]
                         [--threads MIN:MAX]";

struct Arguments {
    directory: PathBuf,
    file_system: NullFileSystem,
    namespace: bool,
    device: Option<PathBuf>,
    threads: Option<(usize, usize)>,
}

fn parse() -> Result<Arguments, Box<dyn Error>> {
    let mut given = std::env::args_os().skip(1);
    let mut arguments = Arguments {
        directory: given.next().ok_or(USAGE)?.into(),
        file_system: NullFileSystem {
            files: 100,
            lifetime: Lifetime::FOREVER,
        },
        namespace: false,
        device: None,
        threads: None,
    };
    while let Some(option) = given.next() {
        match option.to_str().ok_or(USAGE)? {
            "--files" => {
                let count = given.next().ok_or(USAGE)?;
                arguments.file_system.files = count.to_str().ok_or(USAGE)?.parse()?;
            }
            "--no-cache" => arguments.file_system.lifetime = Lifetime::NONE,
            "--namespace" => arguments.namespace = true,
            "--device" => arguments.device = Some(given.next().ok_or(USAGE)?.into()),
            "--threads" => {
                let range = given.next().ok_or(USAGE)?;
                let (least, most) = range
                    .to_str()
                    .and_then(|r| r.split_once(':'))
                    .ok_or(USAGE)?;
                arguments.threads = Some((least.parse()?, most.parse()?));
            }
            _ => return Err(USAGE.into()),
        }
    }
    Ok(arguments)
}

fn serve() -> Result<(), Box<dyn Error>> {
    let arguments = parse()?;
    if arguments.namespace {
        enter_namespace()?;
    }
    let mut options = MountOptions::new("null");
    options.read_only = false;
    if let Some(device) = arguments.device {
        options.device = device;
    }
    let mount = Mount::new(
        Arc::new(arguments.file_system),
        &arguments.directory,
        &options,
    )?;
    if arguments.namespace {
        for entry in std::fs::read_dir(&arguments.directory)? {
            println!("{}", entry?.path().display());
        }
    }
    println!("ready");
    std::io::stdout().flush()?;
    mount.wait(None);
    Ok(())
}

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cenote-fuse-serve: {error}");
            ExitCode::FAILURE
        }
    }
}
