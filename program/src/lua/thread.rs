//! Coroutines; the program itself is the first one.
//!
//! Calls between functions of the program need no stack of the machine: they are frames in a list.
//! So a coroutine is a list and a stack of values, and recursion is limited by memory only.

use super::code::Prototype;
use super::value::{CellId, FunctionId, NativeId, ThreadId, Value};
use std::rc::Rc;

/// What happens with the results of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// So many stay on the stack, or all of them.
    Keep(u32),
    /// The first one becomes a boolean.
    Truth { is_negated: bool },
    /// The first one is joined with what is before it: so many values in all.
    Concat(u32),
    /// They are for a built-in function, which waits for them.
    Stop,
    /// They are the last of a coroutine.
    End,
}

/// The code of a call.
#[derive(Debug)]
pub(crate) enum Code {
    Lua {
        prototype: Rc<Prototype>,
        function: FunctionId,
        /// The next instruction.
        next: usize,
        /// The extra arguments.
        extra: Vec<Value>,
    },
    Native(NativeId),
}

/// One call.
#[derive(Debug)]
pub(crate) struct Frame {
    pub code: Code,
    /// Where its function is on the stack, and its results will be.
    pub function: usize,
    pub then: Then,
    /// It took the place of its caller.
    pub is_tail: bool,
}

impl Frame {
    fn extra_count(&self) -> usize {
        match &self.code {
            Code::Lua { extra, .. } => extra.len(),
            Code::Native(_) => 0,
        }
    }

    /// Slot 0.
    pub fn base(&self) -> usize {
        self.function + 1
    }
}

/// What a coroutine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Suspended,
    Running,
    /// It waits for one that it resumed.
    Normal,
    Dead,
}

impl Status {
    pub fn word(self) -> &'static str {
        match self {
            Self::Suspended => "suspended",
            Self::Running => "running",
            Self::Normal => "normal",
            Self::Dead => "dead",
        }
    }
}

/// A coroutine.
#[derive(Debug)]
pub(crate) struct Thread {
    pub stack: Vec<Value>,
    pub frames: Vec<Frame>,
    /// Extra arguments of all frames.
    extras: usize,
    /// Frames that built-in functions wait for.
    waited_for: usize,
    /// Captured variables that are on the stack, by place.
    pub open: Vec<(usize, CellId)>,
    pub status: Status,
    /// The coroutine that waits for this one.
    pub resumer: Option<ThreadId>,
    /// What the program's memory counts for it.
    pub counted: usize,
}

impl Thread {
    pub fn new(stack: Vec<Value>) -> Self {
        let mut thread = Self {
            stack,
            frames: Vec::new(),
            extras: 0,
            waited_for: 0,
            open: Vec::new(),
            status: Status::Suspended,
            resumer: None,
            counted: 0,
        };
        thread.counted = thread.bytes();
        thread
    }

    /// What it takes in memory.
    pub fn bytes(&self) -> usize {
        const OVERHEAD: usize = 160;
        OVERHEAD
            + (self.stack.capacity() + self.extras) * size_of::<Value>()
            + self.frames.capacity() * size_of::<Frame>()
            + self.open.capacity() * 16
    }

    /// Whether a built-in function waits for one of its calls.
    pub fn is_waited_for(&self) -> bool {
        self.waited_for > 0
    }

    pub fn push_frame(&mut self, frame: Frame) {
        self.extras += frame.extra_count();
        self.waited_for += usize::from(frame.then == Then::Stop);
        self.frames.push(frame);
    }

    pub fn pop_frame(&mut self) -> Frame {
        let frame = self.frames.pop().expect("it has a call under way");
        self.extras -= frame.extra_count();
        self.waited_for -= usize::from(frame.then == Then::Stop);
        frame
    }

    /// What it leads to.
    pub fn values(&self) -> impl Iterator<Item = Value> {
        let calls = self.frames.iter().flat_map(|frame| {
            let (own, extra) = match &frame.code {
                Code::Lua {
                    function, extra, ..
                } => (Some(Value::Function(*function)), extra.as_slice()),
                Code::Native(_) => (None, [].as_slice()),
            };
            own.into_iter().chain(extra.iter().cloned())
        });
        let waiting = self.resumer.map(Value::Thread);
        self.stack.iter().cloned().chain(calls).chain(waiting)
    }
}
