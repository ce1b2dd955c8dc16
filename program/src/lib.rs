//! Channel programs: `zfs program`.
//!
//! A channel program is a Lua program that lists datasets, reads their properties and changes them,
//! all in one transaction group (`zfs-program(8)`). [`run`] carries one out against [`Zfs`], which
//! is the pool as it sees it. This crate knows no pool.
//!
//! The interpreter ([`lua`]) is our own, because a program runs while a transaction group is being
//! written. It must end whatever the program does, use no more memory than it may, and reach
//! nothing but the pool. So it counts instructions and bytes itself. The numbers of channel
//! programs are 64-bit integers besides, which the usual interpreters do not have.
//!
//! *Invariants: no program panics, recurses without a bound, or continues after its limits
//! ([`Limits`]). A program with the same arguments and the same pool does the same, with the same
//! number of instructions.*
//!
//! Deliberately absent: taking back what a program did before it failed. OpenZFS does not either.

#![forbid(unsafe_code)]

mod datum;
mod errors;
mod library;
mod lua;
mod returned;
mod signature;
mod zfs;

pub use datum::Datum;
pub use errors::Errno;
pub use zfs::{Answer, List, Operation, Refused, Zfs};

use lua::compile::compile;
use lua::fault::{Fault, Stop};
use lua::machine::Vm;
use lua::value::Value;

/// What a program may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Instructions.
    pub instructions: u64,
    /// Bytes of memory.
    pub memory: u64,
}

/// Why a program has no result. What it changed before stays changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// An error of the program, with the calls that led there.
    #[error("{0}")]
    Raised(String),
    /// It has used its instructions.
    #[error("Channel program timed out.\n{trace}\n{instructions} Lua instructions were executed")]
    Instructions {
        /// The calls that were under way.
        trace: String,
        /// How many it used.
        instructions: u64,
    },
    /// It has used its memory.
    #[error("Memory limit exhausted.")]
    Memory,
    /// Its client does not wait any more.
    #[error("Channel program was canceled.")]
    Cancelled,
    /// It asks whether changes are possible, which only a transaction group can say.
    #[error("the program must run in a transaction group")]
    NeedsGroup,
    /// The pool's metadata cannot be read.
    #[error("{0}")]
    Fatal(String),
}

/// Runs a program with its arguments. With `is_sync` it may change the pool.
///
/// # Errors
/// [`Failure`].
pub fn run(
    source: &[u8],
    arguments: &[String],
    limits: Limits,
    is_sync: bool,
    zfs: &mut dyn Zfs,
) -> Result<Option<Datum>, Failure> {
    let memory = usize::try_from(limits.memory).unwrap_or(usize::MAX);
    let limits = (limits.instructions, memory);
    let mut vm = Vm::new(zfs, is_sync, limits).map_err(early)?;
    run_in(&mut vm, source, arguments)
}

/// A fault before there is a program.
fn early(fault: Fault) -> Failure {
    match fault {
        Fault::Stopped(stop) => stopped(stop, (0, None)),
        Fault::Raised { .. } => Failure::Fatal("the interpreter did not start".to_owned()),
    }
}

fn stopped(stop: Stop, (instructions, trace): (u64, Option<String>)) -> Failure {
    match stop {
        Stop::Instructions => Failure::Instructions {
            trace: trace.unwrap_or_default(),
            instructions,
        },
        Stop::Memory => Failure::Memory,
        Stop::Cancelled => Failure::Cancelled,
        Stop::NeedsGroup => Failure::NeedsGroup,
        Stop::Fatal(problem) => Failure::Fatal(problem),
    }
}

fn run_in(vm: &mut Vm<'_>, source: &[u8], arguments: &[String]) -> Result<Option<Datum>, Failure> {
    let outcome = evaluate(vm, source, arguments);
    let fault = match outcome {
        Ok(results) => match returned::convert(vm, &results) {
            Ok(datum) => return Ok(datum),
            Err(fault) => fault,
        },
        Err(fault) => fault,
    };
    match fault {
        Fault::Stopped(stop) => Err(stopped(stop, (vm.steps, vm.stop_trace.take()))),
        Fault::Raised { value, trace } => {
            let text = match vm.plainly_shown(&value) {
                Ok(text) => String::from_utf8_lossy(text.text().unwrap_or_default()).into_owned(),
                Err(_) => return Err(Failure::Memory),
            };
            Err(Failure::Raised(match trace {
                Some(trace) => format!("{text}\n{trace}"),
                None => text,
            }))
        }
    }
}

fn evaluate(vm: &mut Vm<'_>, source: &[u8], arguments: &[String]) -> Result<Vec<Value>, Fault> {
    lua::base::add(vm)?;
    lua::strings::add(vm)?;
    lua::tables::add(vm)?;
    library::add(vm)?;
    vm.charge_bytes(source.len())?;
    vm.meter.check(source.len())?;
    let prototype = compile(source, &vm.meter.clone())?;
    let argv = vm.heap.new_table()?;
    for (number, argument) in arguments.iter().enumerate() {
        let argument = vm.text(argument.as_bytes())?;
        vm.heap
            .set(argv, Value::Number(number as i64 + 1), argument)?;
    }
    let given = vm.heap.new_table()?;
    vm.set_field(given, "argv", Value::Table(argv))?;
    let program = vm.main_function(prototype)?;
    vm.call(&program, &[Value::Table(given)])
}

#[cfg(test)]
mod mutants;
#[cfg(test)]
mod tests;
