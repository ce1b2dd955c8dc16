//! Streams in files: `cenote send --to` and `cenote receive --from`.
//!
//! Both are `zfs send` and `zfs receive` whose other side is a file: the daemon is handed the file
//! in place of standard output or input. What they add is that an interrupted one is gone on with
//! by the same command, without anybody having to know a token.
//!
//! A stream that is being written lies in `NAME.partial`. It gets its name when it is whole, has
//! been read back, and is on disk; so whatever has a name without `.partial` is a backup.

mod describe;
pub mod examine;
mod files;
mod meter;
pub mod receive;
pub mod send;

use cenote_words::command::{Arguments, Flag};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::io;

/// The options of ours that OpenZFS's commands have, as its words: each with its letter.
fn words_of(arguments: &Arguments, flags: &[Flag]) -> Vec<String> {
    let mut words = Vec::new();
    for flag in flags {
        let Some(letter) = flag.short else {
            continue;
        };
        for value in arguments.all(flag.long) {
            words.push(format!("-{letter}"));
            if flag.value.is_some() {
                words.push(value.to_string_lossy().into_owned());
            }
        }
    }
    let operands = arguments.operands.iter();
    words.extend(operands.map(|word| word.to_string_lossy().into_owned()));
    words
}

/// One of the descriptors that a daemon is handed, set to something else for a while.
struct Replaced {
    saved: OwnedFd,
    is_input: bool,
}

impl Replaced {
    /// Standard output goes to `file`.
    fn output(file: &impl rustix::fd::AsFd) -> io::Result<Self> {
        let saved = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 0)?;
        rustix::stdio::dup2_stdout(file)?;
        let is_input = false;
        Ok(Self { saved, is_input })
    }

    /// Standard input comes from `file`.
    fn input(file: &impl rustix::fd::AsFd) -> io::Result<Self> {
        let saved = match rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 0) {
            Ok(saved) => saved,
            // It was closed before us.
            Err(rustix::io::Errno::BADF) => File::open("/dev/null")?.into(),
            Err(error) => return Err(error.into()),
        };
        rustix::stdio::dup2_stdin(file)?;
        let is_input = true;
        Ok(Self { saved, is_input })
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        // What fails here leaves the descriptor to the stream, which nobody uses any more.
        let _ = match self.is_input {
            true => rustix::stdio::dup2_stdin(&self.saved),
            false => rustix::stdio::dup2_stdout(&self.saved),
        };
    }
}
