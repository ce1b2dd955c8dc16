//! The program that writes through shared mappings of files.
//!
//! Mapping memory is not for safe Rust, so another program does it, of which each session has
//! one. It also says what was there before, as a mapping shows it: that has to be what was written
//! in other ways.

use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Reads lines `LENGTH-OF-PATH OFFSET LENGTH HOW`, each followed by the path and the new bytes;
/// answers each with the old bytes behind a line. A mapping is written back at once, or when it
/// goes: right away, or when four others came after it.
const SCRIPT: &str = r"
import mmap, sys
source, target = sys.stdin.buffer, sys.stdout.buffer
kept = []
while line := source.readline():
    named, offset, length, how = (int(word) for word in line.split())
    path, data = source.read(named), source.read(length)
    with open(path, 'r+b') as file:
        memory = mmap.mmap(file.fileno(), 0)
        old = memory[offset:offset + length]
        memory[offset:offset + length] = data
        if how == 0:
            memory.flush()
        if how == 2:
            kept.append(memory)
        else:
            memory.close()
    if len(kept) > 4:
        kept.pop(0).close()
    target.write(b'%d\n' % len(old) + old)
    target.flush()
";

/// The program that maps files.
pub(super) struct Mapper {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Mapper {
    /// Starts it; `None` with a notice where there is no Python.
    pub(super) fn start() -> Result<Option<Self>> {
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            crate::missing!("there is no python3, and nothing is mapped");
            return Ok(None);
        };
        let commands = child.stdin.take().context("a pipe was asked for")?;
        let answers = child.stdout.take().context("a pipe was asked for")?;
        let answers = BufReader::new(answers);
        Ok(Some(Self {
            child,
            commands,
            answers,
        }))
    }

    /// Writes `data` at `offset` of a file through a mapping; returns what was there.
    pub(super) fn write(
        &mut self,
        path: &Path,
        offset: u64,
        data: &[u8],
        how: u64,
    ) -> Result<Vec<u8>> {
        let path = path.as_os_str().as_bytes();
        let (named, length) = (path.len(), data.len());
        let line = format!("{named} {offset} {length} {how}\n");
        let command = [line.as_bytes(), path, data].concat();
        self.commands.write_all(&command).context("the mapper")?;
        let mut line = String::new();
        self.answers.read_line(&mut line).context("the mapper")?;
        let length = line.trim().parse().context("the mapper's answer")?;
        let mut old = vec![0; length];
        self.answers.read_exact(&mut old).context("the mapper")?;
        Ok(old)
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        // All that it has is on its way to the files; nothing can be done about a failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
