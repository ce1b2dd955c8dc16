//! The instructions, one by one.

use super::code::{ALL, Capture, Op, Prototype};
use super::fault::Fault;
use super::heap::{Captured, Function};
use super::machine::{Flow, Vm};
use super::thread::{Code, Then};
use super::value::{CellId, TableId, Value};
use std::rc::Rc;

impl Vm<'_> {
    /// Runs until the results of the innermost callback are on the stack.
    pub fn run(&mut self) -> Result<(), Fault> {
        loop {
            match self.step() {
                Ok(Flow::On) => {}
                Ok(Flow::Stop) => return Ok(()),
                Err(fault) => match self.unwind(fault)? {
                    Flow::On => {}
                    Flow::Stop => return Ok(()),
                },
            }
        }
    }

    /// The next instruction, with slot 0 on the stack.
    fn fetch(&mut self) -> (Op, usize) {
        let thread = self.heap.thread_mut(self.thread);
        let frame = thread.frames.last_mut().expect("a call is under way");
        let base = frame.base();
        let Code::Lua {
            prototype, next, ..
        } = &mut frame.code
        else {
            unreachable!("built-in functions have no instructions")
        };
        let op = prototype.code[*next];
        *next += 1;
        (op, base)
    }

    fn jump(&mut self, to: u32) {
        let frame = self.current().frames.last_mut();
        if let Code::Lua { next, .. } = &mut frame.expect("a call is under way").code {
            *next = to as usize;
        }
    }

    fn prototype(&self) -> &Rc<Prototype> {
        let frame = self.heap.thread(self.thread).frames.last();
        match &frame.expect("a call is under way").code {
            Code::Lua { prototype, .. } => prototype,
            Code::Native(_) => unreachable!("built-in functions have no instructions"),
        }
    }

    fn constant(&self, constant: u32) -> Value {
        self.prototype().constants[constant as usize].clone()
    }

    fn cell(&self, captured: u32) -> CellId {
        let frame = self.heap.thread(self.thread).frames.last();
        let Code::Lua { function, .. } = &frame.expect("a call is under way").code else {
            unreachable!("built-in functions have no instructions")
        };
        match self.heap.function(*function) {
            Function::Lua {
                captured: cells, ..
            } => cells[captured as usize],
            Function::Bound { .. } => unreachable!("built-in functions have no instructions"),
        }
    }

    /// One instruction.
    // tidy: allow(long-function, an arm for each instruction)
    fn step(&mut self) -> Result<Flow, Fault> {
        let (op, base) = self.fetch();
        match op {
            Op::Nil => self.push(Value::Nil),
            Op::Boolean(value) => self.push(Value::Boolean(value)),
            Op::Constant(constant) => {
                let value = self.constant(constant);
                self.push(value);
            }
            Op::Local(slot) => {
                let stack = &mut self.current().stack;
                let value = stack[base + slot as usize].clone();
                stack.push(value);
            }
            Op::SetLocal(slot) => {
                let value = self.pop();
                self.current().stack[base + slot as usize] = value;
            }
            Op::Captured(captured) => {
                let value = self.heap.captured(self.cell(captured));
                self.push(value);
            }
            Op::Duplicate => {
                let value = self.pop();
                self.push(value.clone());
                self.push(value);
            }
            Op::Swap => {
                let stack = &mut self.current().stack;
                let len = stack.len();
                stack.swap(len - 1, len - 2);
            }
            Op::Truncate(slot) => self.truncate(base + slot as usize),
            op => {
                self.charge(1)?;
                return self.counted_step(op, base);
            }
        }
        Ok(Flow::On)
    }

    /// One that counts.
    // tidy: allow(long-function, an arm for each instruction)
    fn counted_step(&mut self, op: Op, base: usize) -> Result<Flow, Fault> {
        match op {
            Op::Varargs(wanted) => self.varargs(wanted)?,
            Op::SetCaptured(captured) => {
                let value = self.pop();
                let cell = self.cell(captured);
                self.heap.set_captured(cell, value);
            }
            Op::Global { table, name } => {
                let table = self.heap.captured(self.cell(table));
                let name = self.constant(name);
                return self.index(table, name);
            }
            Op::SetGlobal { table, name } => {
                let value = self.pop();
                let table = self.heap.captured(self.cell(table));
                let name = self.constant(name);
                return self.set_index(table, name, value);
            }
            Op::NewTable => {
                self.safepoint()?;
                let table = self.heap.new_table()?;
                self.push(Value::Table(table));
            }
            Op::Field(name) => {
                let table = self.pop();
                let name = self.constant(name);
                return self.index(table, name);
            }
            Op::Index => {
                let key = self.pop();
                let table = self.pop();
                return self.index(table, key);
            }
            Op::SetIndexAt(slot) => {
                let value = self.pop();
                let stack = &self.current().stack;
                let at = base + slot as usize;
                let (table, key) = (stack[at].clone(), stack[at + 1].clone());
                return self.set_index(table, key, value);
            }
            Op::InitField(table) => {
                let value = self.pop();
                let key = self.pop();
                let table = self.new_table_at(base + table as usize);
                self.check_key(&key)?;
                self.heap.set(table, key, value)?;
            }
            Op::InitList { table, first } => self.init_list(base + table as usize, first)?,
            Op::Arithmetic(operation) => return self.arithmetic(operation),
            Op::Concat(count) => {
                self.safepoint()?;
                return self.concat(count);
            }
            Op::Equal { is_negated } => return self.equal(is_negated),
            Op::Less { swapped } => return self.less(swapped, false),
            Op::LessOrEqual { swapped } => return self.less(swapped, true),
            Op::Not => {
                let value = self.pop();
                self.push(Value::Boolean(!value.is_true()));
            }
            Op::Negate => return self.negate(),
            Op::Length => return self.length(),
            Op::Jump(to) => self.jump(to),
            Op::JumpIfFalse(to) => {
                if !self.pop().is_true() {
                    self.jump(to);
                }
            }
            Op::KeepIfFalse(to) => self.keep_if(false, to),
            Op::KeepIfTrue(to) => self.keep_if(true, to),
            Op::Call { function, results } => {
                self.safepoint()?;
                return self.call_at(base + function as usize, Then::Keep(results));
            }
            Op::TailCall { function } => {
                self.safepoint()?;
                return self.tail_call(base + function as usize);
            }
            Op::Return(from) => return self.return_from(base + from as usize),
            Op::Closure(number) => {
                self.safepoint()?;
                self.closure(number, base)?;
            }
            Op::ForBegin { slot, end } => self.for_begin(base + slot as usize, end)?,
            Op::ForNext { slot, body } => self.for_next(base + slot as usize, body),
            Op::IterateCall { slot, variables } => {
                self.safepoint()?;
                let at = base + slot as usize;
                let stack = &mut self.current().stack;
                for part in 0..3 {
                    stack.push(stack[at + part].clone());
                }
                return self.call_at(at + 3, Then::Keep(variables));
            }
            Op::IterateNext { slot, body } => {
                let at = base + slot as usize;
                let stack = &mut self.current().stack;
                let control = stack[at + 3].clone();
                if !control.is_nil() {
                    stack[at + 2] = control;
                    self.jump(body);
                }
            }
            op => unreachable!("{op:?} does not count"),
        }
        Ok(Flow::On)
    }

    /// Where all that is in use is on stacks and in tables.
    fn safepoint(&mut self) -> Result<(), Fault> {
        match self.heap.is_due() || self.is_stressed {
            true => self.collect(),
            false => Ok(()),
        }
    }

    fn keep_if(&mut self, truth: bool, to: u32) {
        let stack = &mut self.current().stack;
        let is_true = stack.last().is_some_and(Value::is_true);
        match is_true == truth {
            true => self.jump(to),
            false => drop(self.pop()),
        }
    }

    fn new_table_at(&mut self, at: usize) -> TableId {
        match self.current().stack[at] {
            Value::Table(table) => table,
            _ => unreachable!("the table was made in this slot"),
        }
    }

    fn init_list(&mut self, at: usize, first: u32) -> Result<(), Fault> {
        let table = self.new_table_at(at);
        let values = self.current().stack.split_off(at + 1);
        self.charge_values(values.len())?;
        for (offset, value) in values.into_iter().enumerate() {
            let key = Value::Number(i64::from(first) + offset as i64);
            self.heap.set(table, key, value)?;
        }
        Ok(())
    }

    fn varargs(&mut self, wanted: u32) -> Result<(), Fault> {
        let before = self.top();
        let thread = self.heap.thread_mut(self.thread);
        let frame = thread.frames.last().expect("a call is under way");
        let Code::Lua { extra, .. } = &frame.code else {
            unreachable!("built-in functions have no instructions")
        };
        match wanted {
            ALL => thread.stack.extend(extra.iter().cloned()),
            wanted => {
                let given = extra.iter().cloned().map(Some);
                let all = given.chain(std::iter::repeat(None)).take(wanted as usize);
                thread.stack.extend(all.map(Option::unwrap_or_default));
            }
        }
        self.charge_values(self.top() - before)
    }

    fn closure(&mut self, number: u32, base: usize) -> Result<(), Fault> {
        let prototype = Rc::clone(&self.prototype().functions[number as usize]);
        let mut cells = Vec::with_capacity(prototype.captures.len());
        for capture in &prototype.captures {
            cells.push(match capture {
                Capture::Captured(captured) => self.cell(*captured),
                Capture::Local(slot) => self.open_cell(base + *slot as usize)?,
            });
        }
        let function = self.heap.new_function(Function::Lua {
            prototype,
            captured: cells,
        })?;
        self.push(Value::Function(function));
        Ok(())
    }

    /// The captured variable of a place on the stack.
    fn open_cell(&mut self, at: usize) -> Result<CellId, Fault> {
        let thread = self.thread;
        let found = self.current().open.binary_search_by_key(&at, |(at, _)| *at);
        match found {
            Ok(found) => Ok(self.current().open[found].1),
            Err(place) => {
                let cell = self.heap.new_cell(Captured::Open(thread, at))?;
                self.current().open.insert(place, (at, cell));
                Ok(cell)
            }
        }
    }

    fn for_begin(&mut self, at: usize, end: u32) -> Result<(), Fault> {
        for (part, what) in ["initial", "limit", "step"].into_iter().enumerate() {
            let value = self.current().stack[at + part].clone();
            let Some(number) = value.to_number() else {
                let what = if part == 0 { "initial value" } else { what };
                return Err(self.error(&format!("'for' {what} must be a number")));
            };
            self.current().stack[at + part] = Value::Number(number);
        }
        let (first, limit, step) = self.turn(at);
        let has_turn = if step > 0 {
            first <= limit
        } else {
            first >= limit
        };
        match has_turn {
            true => self.push(Value::Number(first)),
            false => self.jump(end),
        }
        Ok(())
    }

    fn for_next(&mut self, at: usize, body: u32) {
        let (value, limit, step) = self.turn(at);
        let next = value.checked_add(step);
        let is_in = |next: &i64| {
            if step > 0 {
                *next <= limit
            } else {
                *next >= limit
            }
        };
        if let Some(next) = next.filter(is_in) {
            self.current().stack[at] = Value::Number(next);
            self.push(Value::Number(next));
            self.jump(body);
        }
    }

    /// Value, limit and step of a loop.
    fn turn(&mut self, at: usize) -> (i64, i64, i64) {
        let stack = &self.current().stack;
        let number = |at: usize| match stack[at] {
            Value::Number(number) => number,
            _ => unreachable!("the loop began with numbers"),
        };
        (number(at), number(at + 1), number(at + 2))
    }
}
