//! Objects that can form circles, and the collector that frees those which nothing leads to.
//!
//! The collector marks and sweeps. It runs only between two instructions, or when a program asks
//! for it: then all values that are in use are on the stacks of coroutines, in tables, or in
//! [`Heap::roots`], where built-in functions keep what they need while they call functions of the
//! program.

use super::code::Prototype;
use super::fault::Fault;
use super::table::Table;
use super::thread::Thread;
use super::value::{CellId, FunctionId, Meter, NativeId, TableId, Text, ThreadId, Value};
use std::rc::Rc;

/// Between two collections at least so much is allocated.
const LEAST_GROWTH: usize = 64 << 10;

/// A function with captured variables or a state.
#[derive(Debug)]
pub(crate) enum Function {
    Lua {
        prototype: Rc<Prototype>,
        captured: Vec<CellId>,
    },
    /// A built-in function with a state of its own.
    Bound { native: NativeId, state: Vec<Value> },
}

/// A captured variable.
#[derive(Debug)]
pub(crate) enum Captured {
    /// It is still on a stack.
    Open(ThreadId, usize),
    Closed(Value),
}

#[derive(Debug)]
struct Arena<T> {
    slots: Vec<Option<T>>,
    is_marked: Vec<bool>,
    free: Vec<u32>,
}

impl<T> Arena<T> {
    const fn new() -> Self {
        Self {
            slots: Vec::new(),
            is_marked: Vec::new(),
            free: Vec::new(),
        }
    }

    fn add(&mut self, object: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = Some(object);
            return id;
        }
        self.slots.push(Some(object));
        self.is_marked.push(false);
        (self.slots.len() - 1) as u32
    }

    fn get(&self, id: u32) -> &T {
        self.slots[id as usize]
            .as_ref()
            .expect("a value leads to it")
    }

    fn get_mut(&mut self, id: u32) -> &mut T {
        self.slots[id as usize]
            .as_mut()
            .expect("a value leads to it")
    }

    /// Marks an object; whether it was not.
    fn mark(&mut self, id: u32) -> bool {
        !std::mem::replace(&mut self.is_marked[id as usize], true)
    }

    /// Frees what is not marked, and takes the marks away.
    fn sweep(&mut self, mut freed: impl FnMut(&T)) {
        for (id, slot) in self.slots.iter_mut().enumerate() {
            if std::mem::take(&mut self.is_marked[id]) {
                continue;
            }
            if let Some(object) = slot.take() {
                freed(&object);
                self.free.push(id as u32);
            }
        }
    }
}

/// Objects of a program.
#[derive(Debug)]
pub(crate) struct Heap {
    pub meter: Rc<Meter>,
    tables: Arena<Table>,
    functions: Arena<Function>,
    cells: Arena<Captured>,
    threads: Arena<Thread>,
    /// What built-in functions use meanwhile.
    pub roots: Vec<Value>,
    /// The collector runs when more is in use.
    threshold: usize,
    /// `__mode`.
    mode: Value,
}

/// What a function takes beside its captured variables.
const FUNCTION_BYTES: usize = 80;
/// What a captured variable takes.
const CELL_BYTES: usize = 56;

impl Function {
    fn bytes(&self) -> usize {
        match self {
            Self::Lua { captured, .. } => FUNCTION_BYTES + captured.len() * 4,
            Self::Bound { state, .. } => FUNCTION_BYTES + state.len() * size_of::<Value>(),
        }
    }
}

impl Heap {
    pub fn new(meter: Rc<Meter>) -> Result<Self, Fault> {
        let mode = Value::Text(Text::new(&meter, b"__mode")?);
        Ok(Self {
            mode,
            meter,
            tables: Arena::new(),
            functions: Arena::new(),
            cells: Arena::new(),
            threads: Arena::new(),
            roots: Vec::new(),
            threshold: LEAST_GROWTH,
        })
    }

    pub fn new_table(&mut self) -> Result<TableId, Fault> {
        let mut table = Table::default();
        table.counted = table.bytes();
        self.meter.take(table.counted)?;
        Ok(TableId(self.tables.add(table)))
    }

    pub fn new_function(&mut self, function: Function) -> Result<FunctionId, Fault> {
        self.meter.take(function.bytes())?;
        Ok(FunctionId(self.functions.add(function)))
    }

    pub fn new_cell(&mut self, cell: Captured) -> Result<CellId, Fault> {
        self.meter.take(CELL_BYTES)?;
        Ok(CellId(self.cells.add(cell)))
    }

    pub fn new_thread(&mut self, thread: Thread) -> Result<ThreadId, Fault> {
        self.meter.take(thread.counted)?;
        Ok(ThreadId(self.threads.add(thread)))
    }

    pub fn table(&self, id: TableId) -> &Table {
        self.tables.get(id.0)
    }

    pub fn set_metatable(&mut self, id: TableId, metatable: Option<TableId>) {
        self.tables.get_mut(id.0).metatable = metatable;
    }

    /// Stores a value in a table, without metamethods. The key is not nil.
    pub fn set(&mut self, id: TableId, key: Value, value: Value) -> Result<(), Fault> {
        let table = self.tables.get_mut(id.0);
        table.set(key, value);
        let (before, now) = (table.counted, table.bytes());
        table.counted = now;
        match now >= before {
            // Counted although it may be refused: the table has the memory.
            true => {
                let taken = self.meter.take(now - before);
                taken.inspect_err(|_| table.counted = before)?;
                Ok(())
            }
            false => {
                self.meter.give_back(before - now);
                Ok(())
            }
        }
    }

    pub fn function(&self, id: FunctionId) -> &Function {
        self.functions.get(id.0)
    }

    /// The state of a built-in function.
    pub fn state_mut(&mut self, id: FunctionId) -> &mut Vec<Value> {
        match self.functions.get_mut(id.0) {
            Function::Bound { state, .. } => state,
            Function::Lua { .. } => unreachable!("only built-in functions ask for their state"),
        }
    }

    pub fn thread(&self, id: ThreadId) -> &Thread {
        self.threads.get(id.0)
    }

    pub fn thread_mut(&mut self, id: ThreadId) -> &mut Thread {
        self.threads.get_mut(id.0)
    }

    pub fn captured(&self, id: CellId) -> Value {
        match self.cells.get(id.0) {
            Captured::Open(thread, at) => self.thread(*thread).stack[*at].clone(),
            Captured::Closed(value) => value.clone(),
        }
    }

    pub fn set_captured(&mut self, id: CellId, value: Value) {
        match self.cells.get_mut(id.0) {
            Captured::Open(thread, at) => self.threads.get_mut(thread.0).stack[*at] = value,
            Captured::Closed(old) => *old = value,
        }
    }

    /// Takes captured variables of a thread off its stack, from a place on.
    pub fn close(&mut self, thread: ThreadId, from: usize) {
        let owner = self.threads.get_mut(thread.0);
        while let Some((at, cell)) = owner.open.last().copied().filter(|(at, _)| *at >= from) {
            owner.open.pop();
            let value = owner.stack.get(at).cloned().unwrap_or_default();
            *self.cells.get_mut(cell.0) = Captured::Closed(value);
        }
    }

    /// Counts the memory of a thread's stack.
    pub fn count_thread(&mut self, id: ThreadId) -> Result<(), Fault> {
        let thread = self.threads.get_mut(id.0);
        let (before, now) = (thread.counted, thread.bytes());
        if now > before {
            self.meter.take(now - before)?;
            thread.counted = now;
        }
        Ok(())
    }

    /// Whether it is time to collect.
    pub fn is_due(&self) -> bool {
        self.meter.used() > self.threshold
    }

    /// Frees what nothing leads to. Returns how many objects there were.
    pub fn collect(&mut self, also: &[Value]) -> usize {
        let mut marking = Marking::default();
        marking.left.extend(self.roots.iter().cloned());
        marking.left.extend(also.iter().cloned());
        while let Some(value) = marking.left.pop() {
            self.mark(&value, &mut marking);
        }
        for id in &marking.weak {
            let mut table = std::mem::take(self.tables.get_mut(id.0));
            table.clear_dead(|value| self.is_dead(value));
            *self.tables.get_mut(id.0) = table;
        }
        let meter = Rc::clone(&self.meter);
        self.tables.sweep(|table| meter.give_back(table.counted));
        self.functions.sweep(|it| meter.give_back(it.bytes()));
        let cells = &self.cells;
        for thread in self.threads.slots.iter_mut().flatten() {
            thread
                .open
                .retain(|(_, cell)| cells.is_marked[cell.0 as usize]);
        }
        self.threads.sweep(|thread| meter.give_back(thread.counted));
        self.cells.sweep(|_| meter.give_back(CELL_BYTES));
        let used = self.meter.used();
        let room = self.meter.limit().saturating_sub(used) / 2;
        self.threshold = used + used.min(room).max(LEAST_GROWTH.min(room));
        marking.count + self.slots() / 2
    }

    /// Places for objects, which each sweep looks at.
    fn slots(&self) -> usize {
        self.tables.slots.len()
            + self.functions.slots.len()
            + self.cells.slots.len()
            + self.threads.slots.len()
    }

    fn is_dead(&self, value: &Value) -> bool {
        match value {
            Value::Table(id) => !self.tables.is_marked[id.0 as usize],
            Value::Function(id) => !self.functions.is_marked[id.0 as usize],
            Value::Thread(id) => !self.threads.is_marked[id.0 as usize],
            _ => false,
        }
    }

    fn mark(&mut self, value: &Value, marking: &mut Marking) {
        marking.count += 1;
        match value {
            Value::Table(id) => self.mark_table(*id, marking),
            Value::Function(id) if self.functions.mark(id.0) => match self.functions.get(id.0) {
                Function::Bound { state, .. } => marking.left.extend(state.iter().cloned()),
                Function::Lua { captured, .. } => {
                    for cell in captured {
                        if self.cells.mark(cell.0) {
                            match self.cells.get(cell.0) {
                                Captured::Open(thread, _) => {
                                    marking.left.push(Value::Thread(*thread));
                                }
                                Captured::Closed(value) => marking.left.push(value.clone()),
                            }
                        }
                    }
                }
            },
            Value::Thread(id) if self.threads.mark(id.0) => {
                marking.left.extend(self.threads.get(id.0).values());
            }
            _ => {}
        }
    }

    fn mark_table(&mut self, id: TableId, marking: &mut Marking) {
        if !self.tables.mark(id.0) {
            return;
        }
        let table = self.tables.get(id.0);
        let (weak_keys, weak_values) = match table.metatable {
            Some(metatable) => self.weakness(metatable, marking),
            None => (false, false),
        };
        if weak_keys || weak_values {
            marking.weak.push(id);
        }
        let table = self.tables.get(id.0);
        for (key, value) in table.contents() {
            marking.count += 1;
            let key = key.filter(|_| !weak_keys);
            let value = Some(value).filter(|_| !weak_values);
            for object in [key, value].into_iter().flatten() {
                if is_object(object) {
                    marking.left.push(object.clone());
                }
            }
        }
    }

    /// Whether keys and values are held weakly: `__mode`.
    fn weakness(&self, metatable: TableId, marking: &mut Marking) -> (bool, bool) {
        marking.left.push(Value::Table(metatable));
        let mode = self.tables.get(metatable.0).get(&self.mode);
        let mode = mode.text().unwrap_or_default();
        (mode.contains(&b'k'), mode.contains(&b'v'))
    }
}

fn is_object(value: &Value) -> bool {
    matches!(
        value,
        Value::Table(_) | Value::Function(_) | Value::Thread(_)
    )
}

/// What a collection knows.
#[derive(Default)]
struct Marking {
    left: Vec<Value>,
    weak: Vec<TableId>,
    count: usize,
}
