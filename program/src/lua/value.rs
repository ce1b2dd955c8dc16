//! Values, and the memory that they take.
//!
//! Texts are counted and freed one by one. Tables, functions, captured variables and coroutines can
//! form circles, so they are in a heap ([`super::heap`]), and a value has only their number.

use super::number::parse;
use std::cell::Cell;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::rc::Rc;

/// The limit on memory is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// What a text takes beside its bytes: its header and the allocator's.
const TEXT_OVERHEAD: usize = 56;

/// The memory of one program.
#[derive(Debug)]
pub(crate) struct Meter {
    used: Cell<usize>,
    limit: usize,
    /// Texts that a program chooses must not all have the same hash.
    hasher: RandomState,
}

impl Meter {
    pub fn new(limit: usize) -> Rc<Self> {
        Rc::new(Self {
            used: Cell::new(0),
            limit,
            hasher: RandomState::new(),
        })
    }

    pub fn used(&self) -> usize {
        self.used.get()
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Refuses an allocation before it is made.
    pub fn check(&self, bytes: usize) -> Result<(), Exhausted> {
        match self.used.get().saturating_add(bytes) > self.limit {
            true => Err(Exhausted),
            false => Ok(()),
        }
    }

    pub fn take(&self, bytes: usize) -> Result<(), Exhausted> {
        self.check(bytes)?;
        self.used.set(self.used.get() + bytes);
        Ok(())
    }

    pub fn give_back(&self, bytes: usize) {
        let used = self.used.get();
        assert!(used >= bytes, "more memory is given back than was taken");
        self.used.set(used - bytes);
    }
}

/// A string: any bytes.
#[derive(Debug)]
pub(crate) struct Text {
    bytes: Box<[u8]>,
    /// 0 until it is needed.
    hash: Cell<u64>,
    meter: Rc<Meter>,
}

impl Text {
    pub fn new(meter: &Rc<Meter>, bytes: &[u8]) -> Result<Rc<Self>, Exhausted> {
        meter.take(bytes.len() + TEXT_OVERHEAD)?;
        Ok(Rc::new(Self {
            bytes: bytes.into(),
            hash: Cell::new(0),
            meter: Rc::clone(meter),
        }))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn hash_value(&self) -> u64 {
        if self.hash.get() == 0 {
            self.hash
                .set(self.meter.hasher.hash_one(&self.bytes).max(1));
        }
        self.hash.get()
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        self.meter.give_back(self.bytes.len() + TEXT_OVERHEAD);
    }
}

/// The number of an object in its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableId(pub u32);
/// The number of a function that is not built in, or is one with a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FunctionId(pub u32);
/// The number of a captured variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CellId(pub u32);
/// The number of a coroutine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ThreadId(pub u32);
/// The number of a built-in function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NativeId(pub u16);

/// A Lua value.
#[derive(Clone, Debug, Default)]
pub(crate) enum Value {
    #[default]
    Nil,
    Boolean(bool),
    Number(i64),
    Text(Rc<Text>),
    Table(TableId),
    Function(FunctionId),
    Native(NativeId),
    Thread(ThreadId),
}

impl Value {
    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Nil)
    }

    pub fn is_true(&self) -> bool {
        !matches!(self, Self::Nil | Self::Boolean(false))
    }

    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text.bytes()),
            _ => None,
        }
    }

    /// The number that it stands for.
    pub fn to_number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => parse(text.bytes()),
            _ => None,
        }
    }

    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Boolean(_) => "boolean",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::Table(_) => "table",
            Self::Function(_) | Self::Native(_) => "function",
            Self::Thread(_) => "thread",
        }
    }
}

/// Equality without metamethods.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nil, Self::Nil) => true,
            (Self::Boolean(a), Self::Boolean(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => Rc::ptr_eq(a, b) || a.bytes == b.bytes,
            (Self::Table(a), Self::Table(b)) => a == b,
            (Self::Function(a), Self::Function(b)) => a == b,
            (Self::Native(a), Self::Native(b)) => a == b,
            (Self::Thread(a), Self::Thread(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Nil => {}
            Self::Boolean(value) => value.hash(state),
            Self::Number(value) => value.hash(state),
            Self::Text(text) => text.hash_value().hash(state),
            Self::Table(id) => id.hash(state),
            Self::Function(id) => id.hash(state),
            Self::Native(id) => id.hash(state),
            Self::Thread(id) => id.hash(state),
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Number(value)
    }
}
