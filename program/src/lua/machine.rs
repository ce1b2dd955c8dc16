//! The machine: carries out instructions, and counts them.
//!
//! What a program can use is counted in *instructions*. An instruction of the machine counts one,
//! except those that only move a value on the stack. What takes time by the size of its operands
//! (joining and searching texts, moving list items, collecting garbage) counts more, so that the
//! limit on instructions is a limit on time, too. Nothing that a program does is without a limit:
//! loops count, calls of built-in functions count, and memory is refused before it is allocated.

use super::code::{Hint, Prototype};
use super::fault::{Fault, Stop};
use super::heap::{Captured, Function, Heap};
use super::thread::{Code, Status, Thread};
use super::value::{FunctionId, Meter, NativeId, TableId, Text, ThreadId, Value};
use crate::zfs::Zfs;
use std::collections::HashMap;
use std::rc::Rc;

/// Instructions between two looks at the client's connection.
const LOOK_INTERVAL: u64 = 4096;

/// Values that count as an instruction where they are moved together.
const VALUES_PER_STEP: usize = 8;

/// Bytes that count as an instruction where texts are copied or compared.
const BYTES_PER_STEP: usize = 64;

/// Calls by built-in functions within one another, the program itself included. As OpenZFS has it.
pub(crate) const CALLBACKS_MAX: u32 = 7;

/// How the machine continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// With the next instruction.
    On,
    /// Not: what the innermost callback waits for is there.
    Stop,
}

/// The arguments of a call, which stay on the stack during it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments {
    pub base: usize,
    pub count: usize,
    /// The function itself, if it has a state.
    pub state: Option<FunctionId>,
}

/// A built-in function. It puts its results on the stack, and returns their number.
pub(crate) type Native = fn(&mut Vm<'_>, Arguments) -> Result<u32, Fault>;

/// What the machine does when a built-in function is called.
#[derive(Clone, Copy)]
pub(crate) enum Builtin {
    Plain(Native),
    Resume,
    /// Resumes the coroutine in its state.
    Wrapped,
    Yield,
}

/// A machine with a program.
pub(crate) struct Vm<'a> {
    pub heap: Heap,
    pub meter: Rc<Meter>,
    pub zfs: &'a mut dyn Zfs,
    /// Whether the program may change the pool.
    pub is_sync: bool,
    pub steps: u64,
    limit: u64,
    next_look: u64,
    /// The coroutine that runs, and the first one.
    pub thread: ThreadId,
    pub main: ThreadId,
    pub globals: TableId,
    /// The metatable of texts.
    pub text_metatable: Option<TableId>,
    pub natives: Vec<Builtin>,
    /// Those that have no name, or need another way to them.
    pub hidden: HashMap<&'static str, NativeId>,
    /// The names of metamethods.
    pub events: HashMap<&'static str, Value>,
    /// Callbacks of built-in functions that are under way.
    pub callbacks: u32,
    /// Where the program was when its limits ended it.
    pub stop_trace: Option<String>,
    /// Whether each instruction collects garbage: for tests.
    pub is_stressed: bool,
}

impl<'a> Vm<'a> {
    /// A machine with nothing in it.
    pub fn new(
        zfs: &'a mut dyn Zfs,
        is_sync: bool,
        (steps, memory): (u64, usize),
    ) -> Result<Self, Fault> {
        let meter = Meter::new(memory);
        let mut heap = Heap::new(Rc::clone(&meter))?;
        let mut first = Thread::new(Vec::new());
        first.status = Status::Running;
        let main = heap.new_thread(first)?;
        let globals = heap.new_table()?;
        Ok(Self {
            heap,
            meter,
            zfs,
            is_sync,
            steps: 0,
            limit: steps,
            next_look: LOOK_INTERVAL.min(steps),
            thread: main,
            main,
            globals,
            text_metatable: None,
            natives: Vec::new(),
            hidden: HashMap::new(),
            events: HashMap::new(),
            callbacks: 0,
            stop_trace: None,
            is_stressed: false,
        })
    }

    /// Counts instructions.
    pub fn charge(&mut self, steps: u64) -> Result<(), Fault> {
        self.steps = self.steps.saturating_add(steps);
        match self.steps >= self.next_look {
            true => self.look(),
            false => Ok(()),
        }
    }

    /// Counts work on so many bytes.
    pub fn charge_bytes(&mut self, bytes: usize) -> Result<(), Fault> {
        self.charge((bytes / BYTES_PER_STEP) as u64)
    }

    /// Counts values that are moved together.
    pub fn charge_values(&mut self, count: usize) -> Result<(), Fault> {
        self.charge((count / VALUES_PER_STEP) as u64)
    }

    /// How many instructions there may still be.
    pub fn steps_left(&self) -> u64 {
        self.limit.saturating_sub(self.steps)
    }

    fn look(&mut self) -> Result<(), Fault> {
        if self.steps > self.limit {
            return Err(Fault::Stopped(Stop::Instructions));
        }
        if self.zfs.is_cancelled() {
            return Err(Fault::Stopped(Stop::Cancelled));
        }
        self.next_look = (self.steps + LOOK_INTERVAL).min(self.limit + 1);
        Ok(())
    }

    pub fn text(&mut self, bytes: &[u8]) -> Result<Value, Fault> {
        Ok(Value::Text(Text::new(&self.meter, bytes)?))
    }

    /// Frees what nothing leads to.
    pub fn collect(&mut self) -> Result<(), Fault> {
        let also = [
            Value::Thread(self.thread),
            Value::Thread(self.main),
            Value::Table(self.globals),
            self.text_metatable.map_or(Value::Nil, Value::Table),
        ];
        let count = self.heap.collect(&also);
        self.charge(count as u64 / 4)
    }

    // The stack of the running coroutine.

    pub fn current(&mut self) -> &mut Thread {
        self.heap.thread_mut(self.thread)
    }

    pub fn push(&mut self, value: Value) {
        self.current().stack.push(value);
    }

    pub fn pop(&mut self) -> Value {
        self.current().stack.pop().expect("the compiler counted")
    }

    pub fn top(&self) -> usize {
        self.heap.thread(self.thread).stack.len()
    }

    /// Ends places of the stack, and variables that are captured from there.
    pub fn truncate(&mut self, len: usize) {
        let thread = self.current();
        let has_open = thread.open.last().is_some_and(|(at, _)| *at >= len);
        if has_open {
            let id = self.thread;
            self.heap.close(id, len);
        }
        self.current().stack.truncate(len);
    }

    /// What the last instruction applies to.
    pub fn hint(&self) -> Option<(&'static str, String)> {
        let frame = self.heap.thread(self.thread).frames.last()?;
        let Code::Lua {
            prototype, next, ..
        } = &frame.code
        else {
            return None;
        };
        let (kind, name) = prototype.hint(*next).map(Hint::words)?;
        Some((kind, prototype.constant_text(name)))
    }

    /// The program as a function.
    pub fn main_function(&mut self, prototype: Rc<Prototype>) -> Result<Value, Fault> {
        let globals = Captured::Closed(Value::Table(self.globals));
        let captured = vec![self.heap.new_cell(globals)?];
        let function = Function::Lua {
            prototype,
            captured,
        };
        Ok(Value::Function(self.heap.new_function(function)?))
    }

    /// Adds a built-in function.
    pub fn add_native(&mut self, builtin: Builtin) -> NativeId {
        self.natives.push(builtin);
        NativeId((self.natives.len() - 1) as u16)
    }

    /// A table with built-in functions.
    pub fn library(&mut self, functions: &[(&str, Native)]) -> Result<TableId, Fault> {
        let table = self.heap.new_table()?;
        self.add_to(table, functions)?;
        Ok(table)
    }

    pub fn add_to(&mut self, table: TableId, functions: &[(&str, Native)]) -> Result<(), Fault> {
        for (name, native) in functions {
            let native = self.add_native(Builtin::Plain(*native));
            self.set_field(table, name, Value::Native(native))?;
        }
        Ok(())
    }

    pub fn set_field(&mut self, table: TableId, name: &str, value: Value) -> Result<(), Fault> {
        let name = self.text(name.as_bytes())?;
        self.heap.set(table, name, value)
    }
}
