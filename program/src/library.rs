//! The table `zfs`, and the names of error numbers.

use crate::datum::Datum;
use crate::errors;
use crate::lua::fault::{Fault, Stop};
use crate::lua::heap::Function;
use crate::lua::machine::{Arguments, Builtin, Native, Vm};
use crate::lua::value::{TableId, Value};
use crate::signature::{Given, Signature};
use crate::zfs::{List, Operation, Refused};

/// What a look at a dataset or a change counts, beside its call.
const COST: u64 = 100;

const fn signature(
    name: &'static str,
    ordered: &'static [&'static str],
    named: &'static [&'static str],
) -> Signature {
    Signature {
        name,
        ordered,
        named,
    }
}

/// The changes; each is in `zfs.sync` and in `zfs.check`.
const OPERATIONS: [Signature; 8] = [
    signature("destroy", &["dataset"], &["defer"]),
    signature("inherit", &["dataset", "property"], &[]),
    signature("promote", &["clone"], &[]),
    signature("rollback", &["filesystem"], &[]),
    signature("set_prop", &["dataset", "property", "value"], &[]),
    signature("snapshot", &["dataset"], &[]),
    signature(
        "rename_snapshot",
        &["dataset", "oldsnapname", "newsnapname"],
        &[],
    ),
    signature("bookmark", &["source", "newbookmark"], &[]),
];

/// `zfs.check.set_property` is what the manual page calls `zfs.check.set_prop`.
const SET_PROPERTY: (&str, usize) = ("set_property", 4);

const LISTS: [(Signature, List); 8] = [
    (signature("bookmarks", &["dataset"], &[]), List::Bookmarks),
    (signature("children", &["dataset"], &[]), List::Children),
    (signature("clones", &["snapshot"], &[]), List::Clones),
    (signature("holds", &["snapshot"], &[]), List::Holds),
    (
        signature("properties", &["dataset"], &[]),
        List::UserProperties,
    ),
    (signature("snapshots", &["dataset"], &[]), List::Snapshots),
    (
        signature("system_properties", &["dataset"], &[]),
        List::SystemProperties,
    ),
    (
        signature("user_properties", &["dataset"], &[]),
        List::UserProperties,
    ),
];

const OTHERS: [(&str, Native); 3] = [
    ("debug", debug),
    ("exists", exists),
    ("get_prop", get_property),
];

/// Built-in functions behind several names, which have the number of what they do in their state.
const NEXT_ITEM: &str = "next_item";

/// Adds the library to a machine.
pub(crate) fn add(vm: &mut Vm<'_>) -> Result<(), Fault> {
    let library = vm.library(&OTHERS)?;
    let globals = vm.globals;
    vm.set_field(globals, "zfs", Value::Table(library))?;
    let next = vm.add_native(Builtin::Plain(next_item));
    vm.hidden.insert(NEXT_ITEM, next);
    let lists = vm.heap.new_table()?;
    vm.set_field(library, "list", Value::Table(lists))?;
    for (number, (signature, _)) in LISTS.iter().enumerate() {
        add_numbered(vm, (lists, signature.name), list, vec![number_of(number)])?;
    }
    for (name, is_dry) in [("sync", false), ("check", true)] {
        let table = vm.heap.new_table()?;
        vm.set_field(library, name, Value::Table(table))?;
        let state = |number| vec![number_of(number), Value::Boolean(is_dry)];
        for (number, signature) in OPERATIONS.iter().enumerate() {
            add_numbered(vm, (table, signature.name), operate, state(number))?;
        }
        if is_dry {
            let (name, number) = SET_PROPERTY;
            add_numbered(vm, (table, name), operate, state(number))?;
        }
    }
    for (name, error) in errors::ALL {
        vm.set_field(globals, name, Value::Number(i64::from(error.0)))?;
    }
    Ok(())
}

fn number_of(number: usize) -> Value {
    Value::Number(number as i64)
}

fn add_numbered(
    vm: &mut Vm<'_>,
    (table, name): (TableId, &str),
    native: Native,
    state: Vec<Value>,
) -> Result<(), Fault> {
    let native = vm.add_native(Builtin::Plain(native));
    let function = vm.heap.new_function(Function::Bound { native, state })?;
    vm.set_field(table, name, Value::Function(function))
}

/// The state of a function: the number of what it does, and more.
fn state(vm: &mut Vm<'_>, arguments: Arguments) -> (usize, Value) {
    let own = arguments.state.expect("it was made with a state");
    let state = vm.heap.state_mut(own);
    let Value::Number(number) = state[0] else {
        unreachable!("it was made with a number")
    };
    (number as usize, state.get(1).cloned().unwrap_or_default())
}

fn fault_of(vm: &mut Vm<'_>, refused: Refused) -> Fault {
    match refused {
        Refused::Error(problem) => vm.error(&problem),
        Refused::NeedsGroup => Fault::Stopped(Stop::NeedsGroup),
        Refused::Fatal(problem) => Fault::Stopped(Stop::Fatal(problem)),
    }
}

/// A value of the pool as one of the program.
fn value_of(vm: &mut Vm<'_>, datum: &Datum) -> Result<Value, Fault> {
    Ok(match datum {
        Datum::Nil => Value::Nil,
        Datum::Boolean(value) => Value::Boolean(*value),
        Datum::Number(number) => Value::Number(*number),
        Datum::Text(text) => vm.text(text)?,
        Datum::Table(entries) => {
            let table = vm.heap.new_table()?;
            for (number, (_, entry)) in entries.iter().enumerate() {
                vm.charge(1)?;
                let value = value_of(vm, entry)?;
                vm.heap.set(table, number_of(number + 1), value)?;
            }
            Value::Table(table)
        }
    })
}

fn debug(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let given = signature("debug", &["msg"], &[]).read(vm, arguments)?;
    vm.charge(COST)?;
    vm.zfs.debug(&given.ordered[0]);
    Ok(0)
}

fn exists(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let given = signature("exists", &["dataset"], &[]).read(vm, arguments)?;
    vm.charge(COST)?;
    match vm.zfs.exists(&given.ordered[0]) {
        Ok(exists) => vm.answer(exists),
        Err(refused) => Err(fault_of(vm, refused)),
    }
}

fn get_property(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let given = signature("get_prop", &["dataset", "property"], &[]).read(vm, arguments)?;
    vm.charge(COST)?;
    let found = vm.zfs.property(&given.ordered[0], &given.ordered[1]);
    let (value, source) = found.map_err(|refused| fault_of(vm, refused))?;
    let value = value_of(vm, &value)?;
    vm.push(value);
    let source = match source {
        Some(source) => vm.text(source.as_bytes())?,
        None => Value::Nil,
    };
    vm.push(source);
    Ok(2)
}

// Lists.

/// The iterator over a list; for the names of properties the list itself.
fn list(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let (number, _) = state(vm, arguments);
    let (signature, list) = LISTS[number];
    let given = signature.read(vm, arguments)?;
    vm.charge(COST)?;
    let items = vm.zfs.list(list, &given.ordered[0]);
    let items = items.map_err(|refused| fault_of(vm, refused))?;
    let table = vm.heap.new_table()?;
    let mut width = 1;
    let mut place = 1;
    for item in &items {
        vm.charge(1)?;
        width = item.len().max(1);
        for datum in item {
            let value = value_of(vm, datum)?;
            vm.heap.set(table, number_of(place), value)?;
            place += 1;
        }
    }
    if list == List::SystemProperties {
        return vm.answer(Value::Table(table));
    }
    let native = vm.hidden[NEXT_ITEM];
    let state = vec![number_of(1), Value::Table(table), number_of(width)];
    let iterator = vm.heap.new_function(Function::Bound { native, state })?;
    vm.answer(Value::Function(iterator))
}

fn next_item(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let own = arguments.state.expect("it was made with a state");
    let state = vm.heap.state_mut(own);
    let [
        Value::Number(next),
        Value::Table(table),
        Value::Number(width),
    ] = state.as_slice()
    else {
        unreachable!("it was made with this state")
    };
    let (next, table, width) = (*next, *table, *width);
    if vm.heap.table(table).border() < next {
        return vm.answer(Value::Nil);
    }
    vm.heap.state_mut(own)[0] = Value::Number(next + width);
    for place in next..next + width {
        let value = vm.heap.table(table).get(&Value::Number(place));
        vm.push(value);
    }
    Ok(width as u32)
}

// Changes.

fn operation(number: usize, given: Given) -> Operation {
    let mut texts = given.ordered.into_iter();
    let mut next = || texts.next().unwrap_or_default();
    let dataset = next();
    match OPERATIONS[number].name {
        "destroy" => Operation::Destroy {
            dataset,
            defer: given.named[0],
        },
        "inherit" => Operation::Inherit {
            dataset,
            property: next(),
        },
        "promote" => Operation::Promote { dataset },
        "rollback" => Operation::RollBack { dataset },
        "set_prop" => Operation::SetProperty {
            dataset,
            property: next(),
            value: next(),
        },
        "snapshot" => Operation::Snapshot { dataset },
        "rename_snapshot" => Operation::RenameSnapshot {
            dataset,
            from: next(),
            to: next(),
        },
        _ => Operation::Bookmark {
            source: dataset,
            bookmark: next(),
        },
    }
}

fn operate(vm: &mut Vm<'_>, arguments: Arguments) -> Result<u32, Fault> {
    let (number, is_dry) = state(vm, arguments);
    let is_dry = is_dry.is_true();
    let signature = OPERATIONS[number];
    let given = signature.read(vm, arguments)?;
    if !is_dry && !vm.is_sync {
        let name = signature.name;
        let problem = format!(
            "zfs.sync.{name} requires passing sync=TRUE to lzc_channel_program(): a program that \
             'zfs program -n' runs changes nothing"
        );
        return Err(vm.error(&problem));
    }
    vm.charge(COST)?;
    let answer = vm.zfs.operate(&operation(number, given), is_dry);
    let answer = answer.map_err(|refused| fault_of(vm, refused))?;
    let error = answer.error.map_or(0, |error| error.0);
    vm.push(Value::Number(i64::from(error)));
    if answer.details.is_empty() {
        return Ok(1);
    }
    let details = Datum::list(
        answer
            .details
            .iter()
            .map(|detail| Datum::from(detail.as_str())),
    );
    let details = value_of(vm, &details)?;
    vm.push(details);
    Ok(2)
}
