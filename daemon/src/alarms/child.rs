//! Runs a program for an alarm, with a time limit.
//!
//! The program has its own process group, so that its children are killed with it when it exceeds
//! the limit. The beginning of its standard error is kept for the message. The rest is read and
//! discarded, because a full pipe would block the program.

use cenote_alarms::AlarmSendError;
use cenote_base::rt::{self, Instant, Receiver, channel};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How often to check whether the program has ended.
const POLL: Duration = Duration::from_millis(20);
/// How long to wait for the end of its output: another process may have the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How many bytes of its output to keep.
const WORDS_MAX: usize = 300;

/// Runs a program that must succeed within the limit, with `input` as its standard input.
pub fn run(mut command: Command, input: Vec<u8>, limit: Duration) -> Result<(), AlarmSendError> {
    let place = command.get_program().to_string_lossy().into_owned();
    let failed = |source| AlarmSendError::Io {
        place: place.clone(),
        source,
    };
    command
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program need not read its input. The thread ignores a closed pipe, and ends with the
        // program.
        let feed = move || drop(stdin.write_all(&input));
        rt::spawn("alarm-input", feed).map_err(failed)?;
    }
    let words = child.stderr.take().map(words_of);
    let ended = wait(&mut child, limit).map_err(failed)?;
    let Some(status) = ended else {
        return Err(AlarmSendError::Slow { place, limit });
    };
    if status.success() {
        return Ok(());
    }
    let words = words.and_then(|words| words.recv_timeout(LAST_WORDS).ok());
    let answer = match words.filter(|words| !words.is_empty()) {
        Some(words) => format!("{status}: {words}"),
        None => status.to_string(),
    };
    Err(AlarmSendError::Refused { place, answer })
}

/// Reads a program's output; sends the beginning of it at the end.
fn words_of(mut stderr: ChildStderr) -> Receiver<String> {
    let (sender, receiver) = channel();
    let read = move || {
        let mut kept = Vec::new();
        let mut piece = [0; 1024];
        while let Ok(length) = stderr.read(&mut piece) {
            if length == 0 {
                break;
            }
            let room = WORDS_MAX.saturating_sub(kept.len()).min(length);
            kept.extend_from_slice(&piece[..room]);
        }
        let words = String::from_utf8_lossy(&kept);
        let words: Vec<&str> = words.split_whitespace().collect();
        // If the program was too slow, the receiver is gone.
        let _ = sender.send(words.join(" "));
    };
    // Without a thread the sender is dropped, and there is no output.
    let _ = rt::spawn("alarm-output", read);
    receiver
}

/// Waits for the program's end; `None` if it was killed.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            if let Some(id) = id {
                // It may have ended just now.
                let _ = kill_process_group(id, Signal::KILL);
            }
            child.wait()?;
            return Ok(None);
        }
        rt::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<(), AlarmSendError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(command, vec![b'x'; 1 << 20], limit)
    }

    #[test]
    fn programs_fail_with_their_last_words_and_have_a_limit_of_time() {
        let second = Duration::from_secs(1);
        assert!(shell("exit 0", 10 * second).is_ok());
        let refused = shell("echo no such user >&2; exit 67", 10 * second);
        let refused = refused.expect_err("it failed").to_string();
        assert!(refused.ends_with("67: no such user"), "{refused}");
        let start = Instant::now();
        let slow = shell("sleep 60 & sleep 60", second).expect_err("it sleeps");
        assert!(slow.to_string().contains("no answer within 1 s"), "{slow}");
        assert!(start.elapsed() < Duration::from_secs(30));
        let missing = run(Command::new("/no/such"), Vec::new(), second);
        assert!(
            missing
                .expect_err("it is not there")
                .to_string()
                .starts_with("/no/such: ")
        );
    }
}
