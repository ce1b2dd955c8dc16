//! The library `table`.

use super::fault::Fault;
use super::machine::{Arguments, Native, Vm};
use super::value::{TableId, Value};

const FUNCTIONS: [(&str, Native); 6] = [
    ("concat", concat),
    ("insert", insert),
    ("pack", pack),
    ("remove", remove),
    ("sort", sort),
    ("unpack", unpack),
];

/// Values that one call unpacks.
const UNPACKED_MAX: i64 = 1_000_000;

/// Adds the library to a machine.
pub(crate) fn add(vm: &mut Vm<'_>) -> Result<(), Fault> {
    let library = vm.library(&FUNCTIONS)?;
    let globals = vm.globals;
    vm.set_field(globals, "table", Value::Table(library))
}

/// The length, by `__len` if there is one.
fn length(vm: &mut Vm<'_>, table: TableId) -> Result<i64, Fault> {
    let value = Value::Table(table);
    let handler = vm.metamethod(&value, "__len")?;
    if handler.is_nil() {
        return Ok(vm.heap.table(table).border());
    }
    let results = vm.call(&handler, &[value])?;
    match results.first() {
        Some(Value::Number(length)) => Ok(*length),
        _ => Err(vm.error("object length is not a number")),
    }
}

fn get(vm: &Vm<'_>, table: TableId, at: i64) -> Value {
    vm.heap.table(table).get(&Value::Number(at))
}

fn set(vm: &mut Vm<'_>, table: TableId, at: i64, value: Value) -> Result<(), Fault> {
    vm.heap.set(table, Value::Number(at), value)
}

fn concat(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let table = vm.table(arguments, 0)?;
    let separator = match vm.argument(arguments, 1) {
        Value::Nil => None,
        _ => Some(vm.bytes(arguments, 1)?),
    };
    let first = vm.number_or(arguments, 2, 1)?;
    let last = match vm.argument(arguments, 3) {
        Value::Nil => length(vm, table)?,
        _ => vm.number(arguments, 3)?,
    };
    let mut joined = Vec::new();
    let mut at = first;
    while at <= last {
        vm.charge(1)?;
        let part = get(vm, table, at);
        let Some(part_bytes) = Vm::joined(&part) else {
            let kind = part.type_name();
            let message = format!("invalid value ({kind}) at index {at} in table for 'concat'");
            return Err(vm.error(&message));
        };
        joined.extend_from_slice(&part_bytes);
        if at < last
            && let Some(separator) = &separator
        {
            joined.extend_from_slice(separator.bytes());
        }
        vm.meter.check(joined.len())?;
        vm.charge_bytes(part_bytes.len())?;
        let Some(next) = at.checked_add(1) else {
            break;
        };
        at = next;
    }
    vm.answer_text(&joined)
}

fn insert(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let table = vm.table(arguments, 0)?;
    let end = length(vm, table)?.saturating_add(1);
    let (at, value) = match arguments.count {
        2 => (end, vm.argument(arguments, 1)),
        3 => (vm.number(arguments, 1)?, vm.argument(arguments, 2)),
        _ => return Err(vm.error("wrong number of arguments to 'insert'")),
    };
    if at < 1 || at > end {
        return Err(vm.argument_error(arguments, 1, "position out of bounds"));
    }
    for place in (at + 1..=end).rev() {
        if place % 2 == 0 {
            vm.charge(1)?;
        }
        let moved = get(vm, table, place - 1);
        set(vm, table, place, moved)?;
    }
    set(vm, table, at, value)?;
    Ok(0)
}

fn remove(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let table = vm.table(arguments, 0)?;
    let size = length(vm, table)?;
    let at = vm.number_or(arguments, 1, size)?;
    if at != size && (at < 1 || at > size.saturating_add(1)) {
        return Err(vm.argument_error(arguments, 0, "position out of bounds"));
    }
    let removed = get(vm, table, at);
    for place in at..size {
        if place % 2 == 0 {
            vm.charge(1)?;
        }
        let moved = get(vm, table, place + 1);
        set(vm, table, place, moved)?;
    }
    set(vm, table, at.max(size), Value::Nil)?;
    vm.answer(removed)
}

fn pack(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let table = vm.heap.new_table()?;
    // The collector does not run before the table is a result.
    for number in 0..arguments.count {
        let value = vm.argument(arguments, number);
        set(vm, table, number as i64 + 1, value)?;
    }
    vm.charge_values(arguments.count)?;
    let count = Value::Number(arguments.count as i64);
    vm.set_field(table, "n", count)?;
    vm.answer(Value::Table(table))
}

fn unpack(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let table = vm.table(arguments, 0)?;
    let first = vm.number_or(arguments, 1, 1)?;
    let last = match vm.argument(arguments, 2) {
        Value::Nil => length(vm, table)?,
        _ => vm.number(arguments, 2)?,
    };
    if first > last {
        return Ok(0);
    }
    let count = last
        .checked_sub(first)
        .and_then(|count| count.checked_add(1));
    let Some(count) = count.filter(|count| *count < UNPACKED_MAX) else {
        return Err(vm.error("too many results to unpack"));
    };
    vm.meter.check(count as usize * size_of::<Value>())?;
    vm.charge_values(count as usize)?;
    for offset in 0..count {
        let value = get(vm, table, first + offset);
        vm.push(value);
    }
    Ok(count as u32)
}

// Sorting.

/// Sorts as Lua does: by the middle one of three, the smaller part first, so that the depth is
/// that of a logarithm. An order that contradicts itself is found when it leads out of the table.
fn sort(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let table = vm.table(arguments, 0)?;
    let size = length(vm, table)?;
    let order = match vm.argument(arguments, 1) {
        Value::Nil => None,
        _ => Some(vm.function(arguments, 1)?),
    };
    let size = size.min(i64::from(i32::MAX));
    let mut sorting = Sorting { table, order };
    sorting.sort(vm, 1, size)?;
    Ok(0)
}

struct Sorting {
    table: TableId,
    order: Option<Value>,
}

impl Sorting {
    fn is_less(&mut self, vm: &mut Vm<'_>, a: &Value, b: &Value) -> Result<bool, Fault> {
        match &self.order {
            None => vm.is_less(a, b),
            Some(order) => {
                let results = vm.call(&order.clone(), &[a.clone(), b.clone()])?;
                Ok(results.first().is_some_and(Value::is_true))
            }
        }
    }

    /// Exchanges two items if the second one is less.
    fn order_pair(&mut self, vm: &mut Vm<'_>, low: i64, high: i64) -> Result<(), Fault> {
        let (a, b) = (get(vm, self.table, low), get(vm, self.table, high));
        if self.is_less(vm, &b, &a)? {
            set(vm, self.table, low, b)?;
            set(vm, self.table, high, a)?;
        }
        Ok(())
    }

    fn sort(&mut self, vm: &mut Vm<'_>, low: i64, high: i64) -> Result<(), Fault> {
        let (mut low, mut high) = (low, high);
        while low < high {
            vm.charge(1)?;
            self.order_pair(vm, low, high)?;
            if high - low == 1 {
                break;
            }
            let middle = low + (high - low) / 2;
            self.order_pair(vm, low, middle)?;
            self.order_pair(vm, middle, high)?;
            if high - low == 2 {
                break;
            }
            let pivot = get(vm, self.table, middle);
            let before = get(vm, self.table, high - 1);
            set(vm, self.table, middle, before)?;
            set(vm, self.table, high - 1, pivot.clone())?;
            vm.heap.roots.push(pivot.clone());
            let parted = self.part(vm, &pivot, low, high);
            vm.heap.roots.pop();
            let at = parted?;
            if at - low < high - at {
                self.sort(vm, low, at - 1)?;
                low = at + 1;
            } else {
                self.sort(vm, at + 1, high)?;
                high = at - 1;
            }
        }
        Ok(())
    }

    /// Moves what is less than the pivot before it.
    fn part(&mut self, vm: &mut Vm<'_>, pivot: &Value, low: i64, high: i64) -> Result<i64, Fault> {
        let (mut left, mut right) = (low, high - 1);
        loop {
            left += 1;
            loop {
                let item = get(vm, self.table, left);
                if !self.is_less(vm, &item, pivot)? {
                    break;
                }
                if left >= high {
                    return Err(vm.error("invalid order function for sorting"));
                }
                left += 1;
            }
            right -= 1;
            loop {
                let item = get(vm, self.table, right);
                if !self.is_less(vm, pivot, &item)? {
                    break;
                }
                if right <= low {
                    return Err(vm.error("invalid order function for sorting"));
                }
                right -= 1;
            }
            if right < left {
                let (a, b) = (get(vm, self.table, high - 1), get(vm, self.table, left));
                set(vm, self.table, high - 1, b)?;
                set(vm, self.table, left, a)?;
                return Ok(left);
            }
            let (a, b) = (get(vm, self.table, left), get(vm, self.table, right));
            set(vm, self.table, left, b)?;
            set(vm, self.table, right, a)?;
        }
    }
}
