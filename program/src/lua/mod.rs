//! Lua 5.2 as channel programs have it.
//!
//! [`compile`] makes instructions ([`code`]) of a text, [`machine`] carries them out, [`heap`] has
//! the objects. Differences from the Lua of the manual are OpenZFS's: numbers are 64-bit integers,
//! and what would reach the machine is absent ([`base`]). `__gc` is absent, too: nothing of a
//! program outlives it.

pub(crate) mod base;
mod call;
mod code;
pub(crate) mod compile;
mod expression;
pub(crate) mod fault;
mod format;
pub(crate) mod heap;
mod lexer;
pub(crate) mod machine;
mod meta;
mod native;
mod number;
mod parser;
mod pattern;
mod scope;
mod step;
pub(crate) mod strings;
mod table;
pub(crate) mod tables;
mod thread;
mod trace;
pub(crate) mod value;
