//! The texts of errors: what was wrong, where, and on which way the program got there.

use super::code::{Hint, Op};
use super::fault::Fault;
use super::machine::{Arguments, Vm};
use super::parser::CHUNK;
use super::thread::{Code, Frame};
use super::value::Value;

/// Calls that a trace shows at its begin and end.
const FIRST: usize = 12;
const LAST: usize = 10;

/// The line of a call, unless it is a built-in function's.
fn line_of(frame: &Frame) -> Option<u32> {
    match &frame.code {
        Code::Lua {
            prototype, next, ..
        } => prototype.lines.get(next.saturating_sub(1)).copied(),
        Code::Native(_) => None,
    }
}

impl Vm<'_> {
    /// The program's line that a number of calls up is at, as the begin of a message.
    fn place(&self, above: usize) -> String {
        let mut frames = self.heap.thread(self.thread).frames.iter().rev();
        let line = frames.nth(above).and_then(line_of);
        line.map_or_else(String::new, |line| format!("{CHUNK}:{line}: "))
    }

    fn fault_at(&mut self, above: usize, message: &str) -> Fault {
        let message = format!("{}{message}", self.place(above));
        match self.text(message.as_bytes()) {
            Ok(text) => Fault::raised(text),
            Err(fault) => fault,
        }
    }

    /// An error of an instruction, or of a built-in function where the program called it.
    pub fn error(&mut self, message: &str) -> Fault {
        let frame = self.heap.thread(self.thread).frames.last();
        let is_native = frame.is_some_and(|frame| matches!(frame.code, Code::Native(_)));
        self.fault_at(usize::from(is_native), message)
    }

    /// An error without a place.
    pub fn plain_error(&mut self, message: &str) -> Fault {
        self.fault_at(usize::MAX, message)
    }

    /// The place of a call so many levels up, for `error`.
    pub fn place_at_level(&self, level: i64) -> String {
        match usize::try_from(level) {
            Ok(level) if level > 0 => self.place(level),
            _ => String::new(),
        }
    }

    /// An error that leaves a wrapped coroutine gets the place where that was called.
    pub fn with_place(&mut self, fault: Fault) -> Result<Fault, Fault> {
        let Fault::Raised { value, trace } = fault else {
            return Ok(fault);
        };
        let value = match value.text() {
            Some(text) => {
                let mut placed = self.place(1).into_bytes();
                placed.extend_from_slice(text);
                self.text(&placed)?
            }
            None => value,
        };
        Ok(Fault::Raised { value, trace })
    }

    /// An operation cannot be done with a value.
    pub fn operand_error(&mut self, what: &str, value: &Value) -> Fault {
        let kind = value.type_name();
        let message = match self.hint() {
            Some((sort, name)) => format!("attempt to {what} {sort} '{name}' (a {kind} value)"),
            None => format!("attempt to {what} a {kind} value"),
        };
        self.error(&message)
    }

    /// The name by which the present built-in function was called.
    fn called_name(&self, above: usize) -> Option<(&'static str, String)> {
        let mut frames = self.heap.thread(self.thread).frames.iter().rev();
        let callee = frames.nth(above)?;
        if callee.is_tail || callee.then == super::thread::Then::Stop {
            return None;
        }
        let Code::Lua {
            prototype, next, ..
        } = &frames.next()?.code
        else {
            return None;
        };
        // Other instructions call metamethods.
        let op = prototype.code.get(next.checked_sub(1)?)?;
        if !matches!(op, Op::Call { .. } | Op::TailCall { .. }) {
            return None;
        }
        let (kind, name) = prototype.hint(*next).map(Hint::words)?;
        Some((kind, prototype.constant_text(name)))
    }

    /// An argument is wrong; they are counted from 0.
    pub fn argument_error(&mut self, _: Arguments, number: usize, problem: &str) -> Fault {
        let number = number + 1;
        let message = match self.called_name(0) {
            Some(("method", name)) if number == 1 => {
                format!("calling '{name}' on bad self ({problem})")
            }
            Some(("method", name)) => {
                format!("bad argument #{} to '{name}' ({problem})", number - 1)
            }
            Some((_, name)) => format!("bad argument #{number} to '{name}' ({problem})"),
            None => format!("bad argument #{number} to '?' ({problem})"),
        };
        self.error(&message)
    }

    /// The calls under way, the innermost first.
    pub fn traceback(&self) -> String {
        let frames = &self.heap.thread(self.thread).frames;
        let mut text = "stack traceback:".to_owned();
        let is_long = frames.len() > FIRST + LAST;
        for (above, frame) in frames.iter().rev().enumerate() {
            if is_long && above >= FIRST && above < frames.len() - LAST {
                if above == FIRST {
                    text.push_str("\n\t...");
                }
                continue;
            }
            text.push_str("\n\t");
            text.push_str(&self.frame_text(above, frame));
            if frame.is_tail {
                text.push_str("\n\t(...tail calls...)");
            }
        }
        text
    }

    fn frame_text(&self, above: usize, frame: &Frame) -> String {
        let name = self.called_name(above);
        match (&frame.code, name) {
            (Code::Native(_), Some((_, name))) => format!("[C]: in function '{name}'"),
            (Code::Native(_), None) => "[C]: in ?".to_owned(),
            (Code::Lua { prototype, .. }, name) => {
                let line = line_of(frame).unwrap_or(0);
                let what = match (name, prototype.line) {
                    (Some((_, name)), _) => format!("function '{name}'"),
                    (None, 0) => "main chunk".to_owned(),
                    (None, begin) => format!("function <{CHUNK}:{begin}>"),
                };
                format!("{CHUNK}:{line}: in {what}")
            }
        }
    }
}
