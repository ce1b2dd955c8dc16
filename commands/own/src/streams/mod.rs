//! Streams in files: `cenote send --to` and `cenote receive --from`.
//!
//! Both run `zfs send` or `zfs receive` with a file as the other side: the daemon gets the file in
//! place of standard output or input. In addition, running the same command again resumes an
//! interrupted transfer, without a token.
//!
//! An incomplete stream is in `NAME.partial`. It gets its final name once it is complete, read back
//! and verified, and on disk. So every file without `.partial` is a backup.

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

/// Converts our options that OpenZFS's commands also have into short options for them.
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

/// A standard descriptor passed to the daemon, temporarily replaced.
struct Replaced {
    saved: OwnedFd,
    is_input: bool,
}

impl Replaced {
    /// Redirects standard output to `file`.
    fn output(file: &impl rustix::fd::AsFd) -> io::Result<Self> {
        let saved = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 0)?;
        rustix::stdio::dup2_stdout(file)?;
        let is_input = false;
        Ok(Self { saved, is_input })
    }

    /// Redirects standard input from `file`.
    fn input(file: &impl rustix::fd::AsFd) -> io::Result<Self> {
        let saved = match rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 0) {
            Ok(saved) => saved,
            // Our caller has closed standard input.
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
        // If this fails, the descriptor stays redirected; nothing uses it any more.
        let _ = match self.is_input {
            true => rustix::stdio::dup2_stdin(&self.saved),
            false => rustix::stdio::dup2_stdout(&self.saved),
        };
    }
}
