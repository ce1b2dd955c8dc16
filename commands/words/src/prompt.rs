//! Asking for a secret on the terminal.
//!
//! Typed characters are not echoed. A signal that ends or stops the command now would leave the
//! terminal without echo. So signals are held back until the terminal is restored, and then
//! delivered.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use zeroize::Zeroizing;

const SIGNALS: [i32; 5] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP];

/// How often to check for a signal.
const LOOK_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Asks `question` on standard error, and reads a line of at most `limit` bytes, without its end,
/// from the terminal that is standard input.
///
/// # Errors
/// If standard input is no terminal, or cannot be read.
pub fn ask(question: &str, limit: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    loop {
        let signal = Arc::new(AtomicUsize::new(0));
        let mut handlers = Vec::new();
        for number in SIGNALS {
            let value = usize::try_from(number).expect("signals are small numbers");
            handlers.push(signal_hook::flag::register_usize(
                number,
                Arc::clone(&signal),
                value,
            )?);
        }
        let line = ask_quietly(question, limit, &signal);
        for handler in handlers {
            signal_hook::low_level::unregister(handler);
        }
        match i32::try_from(signal.load(Ordering::Relaxed)) {
            Ok(0) | Err(_) => return line,
            // Most signals end the command here. After one that stopped and continued it, ask
            // again.
            Ok(number) => signal_hook::low_level::emulate_default_handler(number)?,
        }
    }
}

/// Asks, and restores the terminal even if reading fails.
fn ask_quietly(
    question: &str,
    limit: usize,
    signal: &AtomicUsize,
) -> io::Result<Zeroizing<Vec<u8>>> {
    let stdin = io::stdin();
    let before = tcgetattr(&stdin)?;
    eprint!("{question}");
    // The prompt is a courtesy; without it the answer can still be read.
    let _ = io::stderr().flush();
    let mut quiet = before.clone();
    quiet.local_modes.remove(LocalModes::ECHO);
    quiet.local_modes.insert(LocalModes::ECHONL);
    tcsetattr(&stdin, OptionalActions::Flush, &quiet)?;
    let line = read_line(limit, signal);
    tcsetattr(&stdin, OptionalActions::Flush, &before)?;
    line
}

/// Reads byte by byte, so that input after the line is left for the next reader.
fn read_line(limit: usize, signal: &AtomicUsize) -> io::Result<Zeroizing<Vec<u8>>> {
    let stdin = io::stdin();
    let mut line = Zeroizing::new(Vec::with_capacity(limit));
    while line.len() < limit {
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut ready, Some(&LOOK_INTERVAL)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if signal.load(Ordering::Relaxed) != 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if ready[0].revents().is_empty() {
            continue;
        }
        let mut byte = [0];
        match rustix::io::read(&stdin, &mut byte) {
            Ok(0) => break,
            Ok(_) if byte == *b"\n" => break,
            Ok(_) => line.push(byte[0]),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(line)
}
