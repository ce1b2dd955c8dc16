//! What the compiler knows of a function that it is in: its variables, blocks and labels.

use super::code::{Capture, Hint, Op, Prototype};
use super::value::Value;
use std::collections::HashMap;

/// Local variables of one function.
pub(super) const LOCALS_MAX: usize = 200;
/// Labels of one function, and jumps that wait for theirs.
pub(super) const LABELS_MAX: usize = 1000;
/// Variables that one function captures.
pub(super) const CAPTURES_MAX: usize = 255;

#[derive(Debug)]
pub(super) struct LocalName {
    pub name: Vec<u8>,
    pub slot: u32,
}

#[derive(Debug)]
pub(super) struct Label {
    pub name: Vec<u8>,
    pub at: u32,
    /// How high the stack is there.
    pub height: u32,
}

/// A jump to a label that is not known yet.
#[derive(Debug)]
pub(super) struct Goto {
    pub name: Vec<u8>,
    pub line: u32,
    /// The `Truncate`; the jump is the next instruction.
    pub at: u32,
    /// How many variables the label may be behind.
    pub height: u32,
}

#[derive(Debug)]
pub(super) struct Block {
    pub is_loop: bool,
    /// Variables and stack when it began.
    locals: usize,
    pub height: u32,
    labels: usize,
    gotos: usize,
    /// Jumps out of the loop.
    pub breaks: Vec<u32>,
}

/// A function that is being compiled.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub prototype: Prototype,
    pub locals: Vec<LocalName>,
    pub captured: Vec<Vec<u8>>,
    pub blocks: Vec<Block>,
    pub labels: Vec<Label>,
    pub gotos: Vec<Goto>,
    constants: HashMap<Value, u32>,
    /// How high the stack is at the next instruction.
    pub height: u32,
}

impl Scope {
    pub fn emit(&mut self, op: Op, line: u32) -> u32 {
        self.prototype.code.push(op);
        self.prototype.lines.push(line);
        self.here() - 1
    }

    pub fn here(&self) -> u32 {
        self.prototype.code.len() as u32
    }

    pub fn constant(&mut self, value: Value) -> u32 {
        let next = self.prototype.constants.len() as u32;
        let number = *self.constants.entry(value.clone()).or_insert(next);
        if number == next {
            self.prototype.constants.push(value);
        }
        number
    }

    /// What the next instruction applies to.
    pub fn note(&mut self, hint: Option<Hint>) {
        if let Some(hint) = hint {
            let here = self.here();
            self.prototype.hints.push((here, hint));
        }
    }

    /// Lets a jump lead to a place.
    pub fn lead(&mut self, jump: u32, to: u32) {
        let op = &mut self.prototype.code[jump as usize];
        *op = match *op {
            Op::Jump(_) => Op::Jump(to),
            Op::JumpIfFalse(_) => Op::JumpIfFalse(to),
            Op::KeepIfFalse(_) => Op::KeepIfFalse(to),
            Op::KeepIfTrue(_) => Op::KeepIfTrue(to),
            Op::ForBegin { slot, .. } => Op::ForBegin { slot, end: to },
            op => unreachable!("{op:?} is no jump"),
        };
    }

    pub fn lead_here(&mut self, jump: u32) {
        self.lead(jump, self.here());
    }

    pub fn enter(&mut self, is_loop: bool) {
        self.blocks.push(Block {
            is_loop,
            locals: self.locals.len(),
            height: self.height,
            labels: self.labels.len(),
            gotos: self.gotos.len(),
            breaks: Vec::new(),
        });
    }

    /// Ends a block and its variables.
    pub fn leave(&mut self, line: u32) -> (Block, Vec<LocalName>) {
        let block = self.blocks.pop().expect("it was entered");
        if self.height > block.height {
            self.emit(Op::Truncate(block.height), line);
        }
        self.height = block.height;
        let ended = self.locals.split_off(block.locals);
        self.labels.truncate(block.labels);
        for waiting in &mut self.gotos[block.gotos..] {
            waiting.height = waiting.height.min(block.height);
        }
        (block, ended)
    }

    /// The slot of a local variable.
    pub fn local(&self, name: &[u8]) -> Option<u32> {
        let found = self.locals.iter().rev().find(|local| local.name == name);
        found.map(|local| local.slot)
    }

    /// Adds a variable to those that the function captures.
    pub fn capture(&mut self, name: &[u8], capture: Capture) -> u32 {
        self.captured.push(name.to_vec());
        self.prototype.captures.push(capture);
        (self.captured.len() - 1) as u32
    }

    pub fn captured(&self, name: &[u8]) -> Option<u32> {
        let found = self.captured.iter().position(|captured| captured == name);
        found.map(|at| at as u32)
    }

    /// The jumps of the current block that wait for this label.
    pub fn take_gotos(&mut self, name: &[u8]) -> Vec<Goto> {
        let first = self.blocks.last().map_or(0, |block| block.gotos);
        let mut taken = Vec::new();
        let mut at = first;
        while at < self.gotos.len() {
            match self.gotos[at].name == name {
                true => taken.push(self.gotos.remove(at)),
                false => at += 1,
            }
        }
        taken
    }

    /// Whether the current block has this label already.
    pub fn has_label(&self, name: &[u8]) -> bool {
        let first = self.blocks.last().map_or(0, |block| block.labels);
        self.labels[first..].iter().any(|label| label.name == name)
    }
}
