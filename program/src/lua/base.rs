//! The basic functions, and coroutines.
//!
//! Absent, as in OpenZFS: `dofile`, `load`, `loadfile`, `pcall`, `print`, `require`, `xpcall`, and
//! the libraries `bit32`, `debug`, `io`, `math`, `os` and `package`. Nothing here reaches the
//! machine.

use super::fault::Fault;
use super::heap::Function;
use super::machine::{Arguments, Builtin, Native, Vm};
use super::number::{parse, parse_in_base};
use super::table::NoSuchKey;
use super::thread::{Status, Thread};
use super::value::{TableId, Value};

const FUNCTIONS: [(&str, Native); 15] = [
    ("assert", assert),
    ("collectgarbage", collect_garbage),
    ("error", error),
    ("getmetatable", get_metatable),
    ("ipairs", ipairs),
    ("pairs", pairs),
    ("rawequal", raw_equal),
    ("rawget", raw_get),
    ("rawlen", raw_length),
    ("rawset", raw_set),
    ("select", select),
    ("setmetatable", set_metatable),
    ("tonumber", to_number),
    ("tostring", to_string),
    ("type", type_of),
];

const COROUTINES: [(&str, Native); 4] = [
    ("create", create),
    ("running", running),
    ("status", status),
    ("wrap", wrap),
];

/// A key and its value, or the end; the key before may not be there.
type Following = Result<Option<(Value, Value)>, NoSuchKey>;

/// Adds the functions to a machine.
pub(crate) fn add(vm: &mut Vm<'_>) -> Result<(), Fault> {
    let globals = vm.globals;
    vm.add_to(globals, &FUNCTIONS)?;
    let version = vm.text(b"Lua 5.2")?;
    vm.set_field(globals, "_VERSION", version)?;
    vm.set_field(globals, "_G", Value::Table(globals))?;
    let coroutines = vm.library(&COROUTINES)?;
    for (name, builtin) in [("resume", Builtin::Resume), ("yield", Builtin::Yield)] {
        let native = vm.add_native(builtin);
        vm.set_field(coroutines, name, Value::Native(native))?;
    }
    vm.set_field(globals, "coroutine", Value::Table(coroutines))?;
    for (name, builtin) in [
        (NEXT, Builtin::Plain(next)),
        (IPAIRS_NEXT, Builtin::Plain(ipairs_next)),
        (WRAPPED, Builtin::Wrapped),
    ] {
        let hidden = vm.add_native(builtin);
        vm.hidden.insert(name, hidden);
    }
    let next = Value::Native(vm.hidden[NEXT]);
    vm.set_field(globals, "next", next)
}

/// Built-in functions that others return.
const NEXT: &str = "next";
const IPAIRS_NEXT: &str = "ipairs_next";
const WRAPPED: &str = "wrapped";

fn assert(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    if !vm.any(arguments, 0)?.is_true() {
        let message = match arguments.count {
            0 | 1 => "assertion failed!".to_owned(),
            _ => {
                let text = vm.bytes(arguments, 1)?;
                String::from_utf8_lossy(text.bytes()).into_owned()
            }
        };
        return Err(vm.error(&message));
    }
    for number in 0..arguments.count {
        let value = vm.argument(arguments, number);
        vm.push(value);
    }
    Ok(arguments.count as u32)
}

/// There is one collector, which needs no advice: all but `collect` and `count` do nothing.
fn collect_garbage(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let option = match arguments.count {
        0 => b"collect".to_vec(),
        _ => vm.bytes(arguments, 0)?.bytes().to_vec(),
    };
    match option.as_slice() {
        b"collect" | b"step" => {
            vm.collect()?;
            vm.answer(Value::Number(0))
        }
        b"count" => {
            let used = vm.meter.used() as i64;
            vm.push(Value::Number(used / 1024));
            vm.push(Value::Number(used % 1024));
            Ok(2)
        }
        b"isrunning" => vm.answer(true),
        b"stop" | b"restart" | b"setpause" | b"setstepmul" | b"setmajorinc" | b"generational"
        | b"incremental" => vm.answer(Value::Number(0)),
        other => {
            let other = String::from_utf8_lossy(other).into_owned();
            Err(vm.argument_error(arguments, 0, &format!("invalid option '{other}'")))
        }
    }
}

fn error(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let level = vm.number_or(arguments, 1, 1)?;
    let value = vm.argument(arguments, 0);
    let value = match &value {
        Value::Text(text) => {
            let mut placed = vm.place_at_level(level).into_bytes();
            placed.extend_from_slice(text.bytes());
            vm.text(&placed)?
        }
        _ => value,
    };
    Err(Fault::raised(value))
}

fn get_metatable(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let value = vm.any(arguments, 0)?;
    let shown = vm.metamethod(&value, "__metatable")?;
    let answer = match shown {
        Value::Nil => vm.metatable(&value).map_or(Value::Nil, Value::Table),
        shown => shown,
    };
    vm.answer(answer)
}

fn set_metatable(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let table = vm.table(arguments, 0)?;
    let metatable = match vm.argument(arguments, 1) {
        Value::Nil if arguments.count > 1 => None,
        Value::Table(metatable) => Some(metatable),
        _ => return Err(vm.argument_error(arguments, 1, "nil or table expected")),
    };
    if !vm.metamethod(&Value::Table(table), "__metatable")?.is_nil() {
        return Err(vm.error("cannot change a protected metatable"));
    }
    vm.heap.set_metatable(table, metatable);
    vm.answer(Value::Table(table))
}

fn ipairs(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    if let Some(count) = by_metamethod(vm, arguments, "__ipairs")? {
        return Ok(count);
    }
    let table = vm.table(arguments, 0)?;
    let next = vm.hidden[IPAIRS_NEXT];
    vm.push(Value::Native(next));
    vm.push(Value::Table(table));
    vm.push(Value::Number(0));
    Ok(3)
}

fn ipairs_next(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let table = vm.table(arguments, 0)?;
    let next = Value::Number(vm.number(arguments, 1)?.wrapping_add(1));
    let value = vm.heap.table(table).get(&next);
    if value.is_nil() {
        return vm.answer(Value::Nil);
    }
    vm.push(next);
    vm.push(value);
    Ok(2)
}

/// `pairs` and `ipairs` of a value that has its own.
fn by_metamethod(
    vm: &mut Vm<'_>,
    arguments: Arguments,
    event: &'static str,
) -> Result<Option<u32>, Fault> {
    let value = vm.any(arguments, 0)?;
    let handler = vm.metamethod(&value, event)?;
    if handler.is_nil() {
        return Ok(None);
    }
    let mut results = vm.call(&handler, &[value])?;
    results.resize(3, Value::Nil);
    vm.current().stack.extend(results);
    Ok(Some(3))
}

fn pairs(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    if let Some(count) = by_metamethod(vm, arguments, "__pairs")? {
        return Ok(count);
    }
    let table = vm.table(arguments, 0)?;
    let next = vm.hidden[NEXT];
    vm.push(Value::Native(next));
    vm.push(Value::Table(table));
    vm.push(Value::Nil);
    Ok(3)
}

fn next(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let table = vm.table(arguments, 0)?;
    let key = vm.argument(arguments, 1);
    match vm.next_entry(table, &key)? {
        Ok(Some((key, value))) => {
            vm.push(key);
            vm.push(value);
            Ok(2)
        }
        Ok(None) => vm.answer(Value::Nil),
        Err(NoSuchKey) => Err(vm.plain_error("invalid key to 'next'")),
    }
}

fn raw_equal(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let (a, b) = (vm.any(arguments, 0)?, vm.any(arguments, 1)?);
    vm.charge_bytes(a.text().map_or(0, <[u8]>::len))?;
    vm.answer(a == b)
}

fn raw_get(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let table = vm.table(arguments, 0)?;
    let key = vm.any(arguments, 1)?;
    vm.charge_bytes(key.text().map_or(0, <[u8]>::len))?;
    let value = vm.heap.table(table).get(&key);
    vm.answer(value)
}

fn raw_length(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    match vm.argument(arguments, 0) {
        Value::Table(table) => {
            let border = vm.heap.table(table).border();
            vm.answer(border)
        }
        Value::Text(text) => vm.answer(text.bytes().len() as i64),
        _ => Err(vm.argument_error(arguments, 0, "table or string expected")),
    }
}

fn raw_set(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let table = vm.table(arguments, 0)?;
    let (key, value) = (vm.any(arguments, 1)?, vm.any(arguments, 2)?);
    vm.check_key(&key)?;
    vm.heap.set(table, key, value)?;
    vm.answer(Value::Table(table))
}

fn select(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let others = arguments.count.saturating_sub(1) as i64;
    if vm.argument(arguments, 0).text() == Some(b"#") {
        return vm.answer(others);
    }
    let number = vm.number(arguments, 0)?;
    let first = match number {
        number if number < 0 => others.saturating_add(number).saturating_add(1),
        number => number,
    };
    if first < 1 {
        return Err(vm.argument_error(arguments, 0, "index out of range"));
    }
    vm.charge_values(arguments.count)?;
    let mut count = 0;
    for number in first..=others {
        let value = vm.argument(arguments, number as usize);
        vm.push(value);
        count += 1;
    }
    Ok(count)
}

fn to_number(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let base = match vm.argument(arguments, 1) {
        Value::Nil => {
            let value = vm.any(arguments, 0)?;
            vm.charge_bytes(value.text().map_or(0, <[u8]>::len))?;
            let number = match &value {
                Value::Text(text) => parse(text.bytes()),
                Value::Number(number) => Some(*number),
                _ => None,
            };
            return vm.answer(number.map_or(Value::Nil, Value::Number));
        }
        _ => vm.number(arguments, 1)?,
    };
    let text = vm.bytes(arguments, 0)?;
    vm.charge_bytes(text.bytes().len())?;
    match u32::try_from(base)
        .ok()
        .filter(|base| (2..=36).contains(base))
    {
        Some(base) => {
            let number = parse_in_base(text.bytes(), base);
            vm.answer(number.map_or(Value::Nil, Value::Number))
        }
        None => Err(vm.argument_error(arguments, 1, "base out of range")),
    }
}

fn to_string(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let value = vm.any(arguments, 0)?;
    let text = vm.shown(&value)?;
    vm.answer(text)
}

fn type_of(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let kind = vm.any(arguments, 0)?.type_name();
    vm.answer_text(kind.as_bytes())
}

impl Vm<'_> {
    /// What follows a key in a walk over a table.
    pub fn next_entry(&mut self, table: TableId, key: &Value) -> Result<Following, Fault> {
        match self.heap.table(table).next(key) {
            Ok((entry, skipped)) => {
                self.charge_values(skipped)?;
                Ok(Ok(entry))
            }
            Err(no_such_key) => Ok(Err(no_such_key)),
        }
    }

    /// A value as a text, as `tostring` has it.
    pub fn shown(&mut self, value: &Value) -> Result<Value, Fault> {
        let handler = self.metamethod(value, "__tostring")?;
        if !handler.is_nil() {
            let results = self.call(&handler, std::slice::from_ref(value))?;
            let result = results.into_iter().next().unwrap_or_default();
            return match result.text() {
                Some(_) => Ok(result),
                None => Err(self.error("'tostring' must return a string")),
            };
        }
        self.plainly_shown(value)
    }

    /// The same without metamethods.
    pub fn plainly_shown(&mut self, value: &Value) -> Result<Value, Fault> {
        let text = match value {
            Value::Text(_) => return Ok(value.clone()),
            Value::Nil => "nil".to_owned(),
            Value::Boolean(value) => value.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Table(id) => format!("table: 0x{:08x}", id.0),
            Value::Function(id) => format!("function: 0x{:08x}", id.0),
            Value::Native(id) => format!("function: builtin: 0x{:08x}", id.0),
            Value::Thread(id) => format!("thread: 0x{:08x}", id.0),
        };
        self.text(text.as_bytes())
    }
}

// Coroutines.

fn create(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let function = vm.function(arguments, 0)?;
    let thread = vm.heap.new_thread(Thread::new(vec![function]))?;
    vm.answer(Value::Thread(thread))
}

fn wrap(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let function = vm.function(arguments, 0)?;
    let thread = vm.heap.new_thread(Thread::new(vec![function]))?;
    let wrapped = vm.heap.new_function(Function::Bound {
        native: vm.hidden[WRAPPED],
        state: vec![Value::Thread(thread)],
    })?;
    vm.answer(Value::Function(wrapped))
}

fn running(vm: &mut Vm<'_>, _: Arguments) -> Result<u32, Fault> {
    let (thread, main) = (vm.thread, vm.main);
    vm.push(Value::Thread(thread));
    vm.push(Value::Boolean(thread == main));
    Ok(2)
}

fn status(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let Value::Thread(thread) = vm.argument(arguments, 0) else {
        return Err(vm.argument_error(arguments, 0, "coroutine expected"));
    };
    let status: Status = vm.heap.thread(thread).status;
    vm.answer_text(status.word().as_bytes())
}
