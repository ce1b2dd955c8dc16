//! The arguments of the functions of `zfs`: in brackets by their order, or in one table with those
//! that have names.

use crate::lua::fault::Fault;
use crate::lua::machine::{Arguments, Vm};
use crate::lua::value::Value;

/// What a function takes. All arguments by order are texts, all by name are booleans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature {
    pub name: &'static str,
    pub ordered: &'static [&'static str],
    pub named: &'static [&'static str],
}

/// The arguments of a call.
#[derive(Debug)]
pub(crate) struct Given {
    pub ordered: Vec<String>,
    /// In the order of the signature.
    pub named: Vec<bool>,
}

impl Signature {
    /// How it is called.
    fn usage(&self) -> String {
        let ordered = self.ordered.iter().map(|name| format!("{name} (string)"));
        let named = self.named.iter().map(|name| format!("[{name} (boolean)]"));
        let all: Vec<String> = ordered.chain(named).collect();
        format!("usage: {}{{{}}}", self.name, all.join(", "))
    }

    fn wrong(&self, vm: &mut Vm<'_>, problem: &str) -> Fault {
        let usage = self.usage();
        vm.error(&format!("{problem}\n{usage}"))
    }

    /// Reads the arguments of a call.
    pub fn read(&self, vm: &mut Vm<'_>, arguments: Arguments) -> Result<Given, Fault> {
        let mut ordered = Vec::new();
        let mut named = vec![false; self.named.len()];
        match vm.argument(arguments, 0) {
            Value::Table(table) if arguments.count == 1 => {
                let mut key = Value::Nil;
                let mut by_order = vec![None; self.ordered.len()];
                loop {
                    vm.charge(1)?;
                    let next = vm.next_entry(table, &key)?;
                    let Ok(Some((name, value))) = next else {
                        break;
                    };
                    self.keep(vm, (&name, value), &mut by_order, &mut named)?;
                    key = name;
                }
                ordered.extend(by_order.into_iter().map_while(|value| value));
            }
            _ => {
                for number in 0..arguments.count {
                    let value = vm.argument(arguments, number);
                    if number >= self.ordered.len() {
                        return Err(self.wrong(vm, "too many positional arguments"));
                    }
                    ordered.push(self.ordered(vm, number, &value)?);
                }
            }
        }
        if let Some(missing) = self.ordered.get(ordered.len()) {
            return Err(self.wrong(vm, &format!("missing argument '{missing}'")));
        }
        Ok(Given { ordered, named })
    }

    /// One entry of a table of arguments.
    fn keep(
        &self,
        vm: &mut Vm<'_>,
        (key, value): (&Value, Value),
        by_order: &mut [Option<String>],
        named: &mut [bool],
    ) -> Result<(), Fault> {
        if let Value::Number(number) = key {
            let at = usize::try_from(number.wrapping_sub(1)).unwrap_or(usize::MAX);
            if at >= by_order.len() {
                return Err(self.wrong(vm, "too many positional arguments"));
            }
            by_order[at] = Some(self.ordered(vm, at, &value)?);
            return Ok(());
        }
        let Some(name) = key.text() else {
            return Err(self.wrong(vm, "invalid argument name"));
        };
        let known = self.named.iter().position(|known| known.as_bytes() == name);
        match (known, value) {
            (Some(at), Value::Boolean(value)) => {
                named[at] = value;
                Ok(())
            }
            (Some(at), value) => {
                let (name, kind) = (self.named[at], value.type_name());
                Err(self.wrong(vm, &format!("'{name}' must be a boolean, not a {kind}")))
            }
            (None, _) => {
                let name = String::from_utf8_lossy(name).into_owned();
                Err(self.wrong(vm, &format!("unknown argument '{name}'")))
            }
        }
    }

    fn ordered(&self, vm: &mut Vm<'_>, at: usize, value: &Value) -> Result<String, Fault> {
        let name = self.ordered[at];
        let Some(text) = value.text() else {
            let kind = value.type_name();
            return Err(self.wrong(vm, &format!("'{name}' must be a string, not a {kind}")));
        };
        vm.meter.check(text.len())?;
        vm.charge_bytes(text.len())?;
        match String::from_utf8(text.to_vec()) {
            Ok(text) => Ok(text),
            Err(_) => Err(self.wrong(vm, &format!("'{name}' must be text in UTF-8"))),
        }
    }
}
