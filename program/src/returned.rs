//! What a program returns, as a value outside of it.

use crate::datum::Datum;
use crate::lua::fault::Fault;
use crate::lua::machine::Vm;
use crate::lua::value::{TableId, Value};

/// Tables within tables. A table can contain itself.
const DEPTH_MAX: usize = 20;

/// What a value outside of the program takes beside its bytes.
const OVERHEAD: usize = 64;

/// The result of a program; `None` if it has none.
pub(crate) fn convert(vm: &mut Vm<'_>, results: &[Value]) -> Result<Option<Datum>, Fault> {
    match results {
        [] => Ok(None),
        [result] => datum_of(vm, result, 0).map(Some),
        results => {
            let count = results.len();
            Err(vm.plain_error(&format!(
                "Multiple return values not supported: {count} values"
            )))
        }
    }
}

fn datum_of(vm: &mut Vm<'_>, value: &Value, depth: usize) -> Result<Datum, Fault> {
    vm.charge(1)?;
    // It counts like the program's own memory, and is not given back.
    vm.meter
        .take(OVERHEAD + value.text().map_or(0, <[u8]>::len))?;
    Ok(match value {
        Value::Nil => Datum::Nil,
        Value::Boolean(value) => Datum::Boolean(*value),
        Value::Number(number) => Datum::Number(*number),
        Value::Text(text) => Datum::Text(text.bytes().to_vec()),
        Value::Table(_) if depth >= DEPTH_MAX => {
            let problem = format!("Maximum table depth ({DEPTH_MAX}) exceeded for table");
            return Err(vm.plain_error(&problem));
        }
        Value::Table(table) => Datum::Table(entries(vm, *table, depth)?),
        value => {
            let kind = value.type_name();
            return Err(vm.plain_error(&format!("Unhandled return type: {kind}")));
        }
    })
}

/// The entries of a table: those with numbers first, each kind in order.
fn entries(vm: &mut Vm<'_>, table: TableId, depth: usize) -> Result<Vec<(Vec<u8>, Datum)>, Fault> {
    let mut found = Vec::new();
    let mut key = Value::Nil;
    while let Ok(Some((next, value))) = vm.next_entry(table, &key)? {
        let (order, name) = match &next {
            Value::Text(text) => (i64::MIN, text.bytes().to_vec()),
            Value::Number(number) => (*number, number.to_string().into_bytes()),
            Value::Boolean(value) => (i64::MIN, value.to_string().into_bytes()),
            other => {
                let kind = other.type_name();
                return Err(vm.plain_error(&format!("Invalid key type: {kind}")));
            }
        };
        vm.meter.take(name.len())?;
        let is_number = matches!(next, Value::Number(_));
        let datum = datum_of(vm, &value, depth + 1)?;
        found.push(((!is_number, order, name), datum));
        key = next;
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut names: Vec<&[u8]> = found.iter().map(|((_, _, name), _)| &name[..]).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let name = String::from_utf8_lossy(twice[0]).into_owned();
        return Err(vm.plain_error(&format!("Collision of key strings: '{name}'")));
    }
    let named = found.into_iter().map(|((_, _, name), datum)| (name, datum));
    Ok(named.collect())
}
