//! What a function is compiled to: instructions of a stack machine.
//!
//! A function's parameters and local variables are at the bottom of its part of the stack, each in
//! a *slot*; what an expression needs for a while is above. The compiler knows how high the stack
//! is at each instruction. The exceptions are values whose number only the run shows (`...`, and
//! the results of a call). Those are the last on the stack, and an instruction that takes them
//! names the slot where they begin.

use super::number::Arithmetic;
use super::value::Value;

/// All results of a call, or all extra arguments.
pub(crate) const ALL: u32 = u32::MAX;

/// One instruction. Targets of jumps are the numbers of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Nil,
    Boolean(bool),
    Constant(u32),
    /// Extra arguments: so many, or [`ALL`].
    Varargs(u32),
    Local(u32),
    SetLocal(u32),
    Captured(u32),
    SetCaptured(u32),
    /// A field of a captured variable: a global variable.
    Global {
        table: u32,
        name: u32,
    },
    SetGlobal {
        table: u32,
        name: u32,
    },
    NewTable,
    /// The field with a constant name of the table on top.
    Field(u32),
    /// Of the two values on top: the table's value for the key.
    Index,
    /// Table and key are in this slot and the next one, the value is on top.
    SetIndexAt(u32),
    /// Stores the key and the value on top in the new table in a slot.
    InitField(u32),
    /// Stores all above the new table in a slot, counted from `first`.
    InitList {
        table: u32,
        first: u32,
    },
    Duplicate,
    /// Exchanges the two values on top.
    Swap,
    Arithmetic(Arithmetic),
    /// Joins so many values.
    Concat(u32),
    Equal {
        is_negated: bool,
    },
    Less {
        swapped: bool,
    },
    LessOrEqual {
        swapped: bool,
    },
    Not,
    Negate,
    Length,
    Jump(u32),
    /// Takes the value on top.
    JumpIfFalse(u32),
    /// Keeps the value on top and jumps, or takes it.
    KeepIfFalse(u32),
    KeepIfTrue(u32),
    /// Ends all slots from this one on.
    Truncate(u32),
    /// Calls the function in a slot with what is above; so many results, or [`ALL`].
    Call {
        function: u32,
        results: u32,
    },
    /// The same in place of this call.
    TailCall {
        function: u32,
    },
    /// Returns what is in this slot and above.
    Return(u32),
    Closure(u32),
    /// Value, limit and step are in this slot and the next ones. Jumps if there is no turn.
    ForBegin {
        slot: u32,
        end: u32,
    },
    ForNext {
        slot: u32,
        body: u32,
    },
    /// Calls the iterator in this slot with the two values behind it.
    IterateCall {
        slot: u32,
        variables: u32,
    },
    /// Jumps unless the iterator is at its end.
    IterateNext {
        slot: u32,
        body: u32,
    },
}

/// Where a function that is being made finds a variable to capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// A local variable of the function around it.
    Local(u32),
    /// One that the function around it has captured.
    Captured(u32),
}

/// What the expression is that an instruction applies to, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    Global(u32),
    Local(u32),
    Captured(u32),
    Field(u32),
    Method(u32),
}

impl Hint {
    /// The kind in words, and the name's constant.
    pub fn words(self) -> (&'static str, u32) {
        match self {
            Self::Global(name) => ("global", name),
            Self::Local(name) => ("local", name),
            Self::Captured(name) => ("upvalue", name),
            Self::Field(name) => ("field", name),
            Self::Method(name) => ("method", name),
        }
    }
}

/// A compiled function.
#[derive(Debug, Default)]
pub(crate) struct Prototype {
    pub code: Vec<Op>,
    /// The line of each instruction.
    pub lines: Vec<u32>,
    pub constants: Vec<Value>,
    pub functions: Vec<std::rc::Rc<Prototype>>,
    pub captures: Vec<Capture>,
    /// By instruction, in order.
    pub hints: Vec<(u32, Hint)>,
    pub parameters: u32,
    pub is_variadic: bool,
    /// The line on which it begins; 0 for a whole program.
    pub line: u32,
}

impl Prototype {
    /// What it takes in memory, without its constants' bytes and the functions in it.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.code.len() * (size_of::<Op>() + 4)
            + self.constants.len() * size_of::<Value>()
            + (self.captures.len() + self.hints.len()) * 12
    }

    /// What the instruction before `next` applies to.
    pub fn hint(&self, next: usize) -> Option<Hint> {
        let at = u32::try_from(next).ok()?.checked_sub(1)?;
        let found = self.hints.binary_search_by_key(&at, |(at, _)| *at).ok()?;
        Some(self.hints[found].1)
    }

    /// A constant that is a text.
    pub fn constant_text(&self, constant: u32) -> String {
        let text = self.constants[constant as usize].text();
        String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
    }
}
