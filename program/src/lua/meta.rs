//! Operations on values, with their metamethods.
//!
//! A metamethod of the program is called as a frame, so it may yield. Built-in functions that need
//! a metamethod call it back ([`Vm::get`]).

use super::fault::Fault;
use super::machine::{Flow, Vm};
use super::number::Arithmetic;
use super::thread::Then;
use super::value::{TableId, Text, Value};

/// `__index` of what has `__index` itself.
const INDEXED_MAX: usize = 100;

/// Where a look-up in a table and its metatables ended.
enum Found {
    Value(Value),
    /// A function that gives the value, and what it is asked about.
    Handler(Value, Value),
}

impl Vm<'_> {
    pub fn metatable(&self, value: &Value) -> Option<TableId> {
        match value {
            Value::Table(table) => self.heap.table(*table).metatable,
            Value::Text(_) => self.text_metatable,
            _ => None,
        }
    }

    pub fn metamethod(&mut self, value: &Value, event: &'static str) -> Result<Value, Fault> {
        let Some(metatable) = self.metatable(value) else {
            return Ok(Value::Nil);
        };
        let event = match self.events.get(event) {
            Some(event) => event.clone(),
            None => {
                let text = self.text(event.as_bytes())?;
                self.events.insert(event, text.clone());
                text
            }
        };
        Ok(self.heap.table(metatable).get(&event))
    }

    /// The handler of the first operand, or of the second one.
    fn binary_metamethod(
        &mut self,
        a: &Value,
        b: &Value,
        event: &'static str,
    ) -> Result<Value, Fault> {
        let handler = self.metamethod(a, event)?;
        match handler.is_nil() {
            true => self.metamethod(b, event),
            false => Ok(handler),
        }
    }

    /// Calls a handler as the next thing that the machine does.
    fn call_handler(
        &mut self,
        handler: Value,
        operands: impl IntoIterator<Item = Value>,
        then: Then,
    ) -> Result<Flow, Fault> {
        let at = self.top();
        self.push(handler);
        self.current().stack.extend(operands);
        self.call_at(at, then)
    }

    // Tables.

    /// Counts the comparison of a long key.
    fn charge_key(&mut self, key: &Value) -> Result<(), Fault> {
        match key.text() {
            Some(text) if text.len() > 64 => self.charge_bytes(text.len()),
            _ => Ok(()),
        }
    }

    fn find(&mut self, object: Value, key: &Value) -> Result<Found, Fault> {
        self.charge_key(key)?;
        let mut object = object;
        for _ in 0..INDEXED_MAX {
            if let Value::Table(table) = object {
                let table = self.heap.table(table);
                let value = table.get(key);
                if !value.is_nil() || table.metatable.is_none() {
                    return Ok(Found::Value(value));
                }
            }
            let handler = self.metamethod(&object, "__index")?;
            match handler {
                Value::Nil if matches!(object, Value::Table(_)) => {
                    return Ok(Found::Value(Value::Nil));
                }
                Value::Nil => return Err(self.operand_error("index", &object)),
                Value::Function(_) | Value::Native(_) => {
                    return Ok(Found::Handler(handler, object));
                }
                next => {
                    self.charge(1)?;
                    object = next;
                }
            }
        }
        Err(self.error("loop in gettable"))
    }

    /// Puts the value for a key on the stack.
    pub fn index(&mut self, object: Value, key: Value) -> Result<Flow, Fault> {
        match self.find(object, &key)? {
            Found::Value(value) => {
                self.push(value);
                Ok(Flow::On)
            }
            Found::Handler(handler, object) => {
                self.call_handler(handler, [object, key], Then::Keep(1))
            }
        }
    }

    /// The value for a key, for a built-in function.
    pub fn get(&mut self, object: Value, key: Value) -> Result<Value, Fault> {
        match self.find(object, &key)? {
            Found::Value(value) => Ok(value),
            Found::Handler(handler, object) => {
                let results = self.call(&handler, &[object, key])?;
                Ok(results.into_iter().next().unwrap_or_default())
            }
        }
    }

    pub fn check_key(&mut self, key: &Value) -> Result<(), Fault> {
        match key.is_nil() {
            true => Err(self.error("index is nil")),
            false => self.charge_key(key),
        }
    }

    pub fn set_index(&mut self, object: Value, key: Value, value: Value) -> Result<Flow, Fault> {
        let mut object = object;
        for _ in 0..INDEXED_MAX {
            if let Value::Table(id) = object {
                let table = self.heap.table(id);
                let is_own = table.metatable.is_none() || !table.get(&key).is_nil();
                let handler = match is_own {
                    true => Value::Nil,
                    false => self.metamethod(&object, "__newindex")?,
                };
                if handler.is_nil() {
                    self.check_key(&key)?;
                    self.heap.set(id, key, value)?;
                    return Ok(Flow::On);
                }
                if matches!(handler, Value::Function(_) | Value::Native(_)) {
                    return self.call_handler(handler, [object, key, value], Then::Keep(0));
                }
                self.charge(1)?;
                object = handler;
                continue;
            }
            let handler = self.metamethod(&object, "__newindex")?;
            match handler {
                Value::Nil => return Err(self.operand_error("index", &object)),
                Value::Function(_) | Value::Native(_) => {
                    return self.call_handler(handler, [object, key, value], Then::Keep(0));
                }
                next => object = next,
            }
        }
        Err(self.error("loop in settable"))
    }

    // Numbers.

    pub fn arithmetic(&mut self, operation: Arithmetic) -> Result<Flow, Fault> {
        let b = self.pop();
        let a = self.pop();
        if let (Some(x), Some(y)) = (a.to_number(), b.to_number()) {
            return match operation.of(x, y) {
                Some(result) => {
                    self.push(Value::Number(result));
                    Ok(Flow::On)
                }
                None => Err(self.error("attempt to divide by zero")),
            };
        }
        let handler = self.binary_metamethod(&a, &b, operation.event())?;
        if handler.is_nil() {
            let culprit = if a.to_number().is_none() { a } else { b };
            return Err(self.operand_error("perform arithmetic on", &culprit));
        }
        self.call_handler(handler, [a, b], Then::Keep(1))
    }

    pub fn negate(&mut self) -> Result<Flow, Fault> {
        let value = self.pop();
        if let Some(number) = value.to_number() {
            self.push(Value::Number(number.wrapping_neg()));
            return Ok(Flow::On);
        }
        let handler = self.metamethod(&value, "__unm")?;
        if handler.is_nil() {
            return Err(self.operand_error("perform arithmetic on", &value));
        }
        self.call_handler(handler, [value.clone(), value], Then::Keep(1))
    }

    pub fn length(&mut self) -> Result<Flow, Fault> {
        let value = self.pop();
        if let Some(text) = value.text() {
            let length = text.len() as i64;
            self.push(Value::Number(length));
            return Ok(Flow::On);
        }
        let handler = self.metamethod(&value, "__len")?;
        match value {
            value if !handler.is_nil() => {
                self.call_handler(handler, [value.clone(), value], Then::Keep(1))
            }
            Value::Table(table) => {
                let border = self.heap.table(table).border();
                self.push(Value::Number(border));
                Ok(Flow::On)
            }
            value => Err(self.operand_error("get length of", &value)),
        }
    }

    // Texts.

    /// What a value is in a joined text.
    pub fn joined(value: &Value) -> Option<Vec<u8>> {
        match value {
            Value::Text(text) => Some(text.bytes().to_vec()),
            Value::Number(number) => Some(number.to_string().into_bytes()),
            _ => None,
        }
    }

    /// Joins the last `count` values on the stack, from the right.
    pub fn concat(&mut self, count: u32) -> Result<Flow, Fault> {
        let mut left = count as usize;
        while left > 1 {
            let stack = &self.current().stack;
            let operands = &stack[stack.len() - left..];
            let is_plain = |value: &&Value| matches!(value, Value::Text(_) | Value::Number(_));
            let plain = operands.iter().rev().take_while(is_plain).count();
            if plain < 2 {
                let b = self.pop();
                let a = self.pop();
                let handler = self.binary_metamethod(&a, &b, "__concat")?;
                if handler.is_nil() {
                    let is_text = matches!(a, Value::Text(_) | Value::Number(_));
                    let culprit = if is_text { b } else { a };
                    return Err(self.operand_error("concatenate", &culprit));
                }
                let then = match left - 1 {
                    1 => Then::Keep(1),
                    rest => Then::Concat(rest as u32),
                };
                return self.call_handler(handler, [a, b], then);
            }
            let first = stack.len() - plain;
            let bytes: usize = stack[first..]
                .iter()
                .map(|value| value.text().map_or(20, <[u8]>::len))
                .sum();
            self.meter.check(bytes)?;
            self.charge_bytes(bytes)?;
            let parts = self.current().stack.split_off(first);
            let mut joined = Vec::with_capacity(bytes);
            for part in &parts {
                match part {
                    Value::Text(text) => joined.extend_from_slice(text.bytes()),
                    part => joined.extend(Self::joined(part).unwrap_or_default()),
                }
            }
            let text = Text::new(&self.meter, &joined)?;
            self.push(Value::Text(text));
            left -= plain - 1;
        }
        Ok(Flow::On)
    }

    // Comparisons.

    pub fn equal(&mut self, is_negated: bool) -> Result<Flow, Fault> {
        let b = self.pop();
        let a = self.pop();
        if let (Some(x), Some(y)) = (a.text(), b.text())
            && x.len() == y.len()
        {
            let bytes = x.len();
            self.charge_bytes(bytes)?;
        }
        let is_equal = a == b;
        if !is_equal && matches!((&a, &b), (Value::Table(_), Value::Table(_))) {
            let handler = self.metamethod(&a, "__eq")?;
            if !handler.is_nil() && handler == self.metamethod(&b, "__eq")? {
                return self.call_handler(handler, [a, b], Then::Truth { is_negated });
            }
        }
        self.push(Value::Boolean(is_equal != is_negated));
        Ok(Flow::On)
    }

    /// Compares the two values on top; `swapped` is for the operators that point the other way.
    pub fn less(&mut self, swapped: bool, or_equal: bool) -> Result<Flow, Fault> {
        let mut b = self.pop();
        let mut a = self.pop();
        if swapped {
            (a, b) = (b, a);
        }
        if let Some(is_less) = self.plain_less(&a, &b, or_equal)? {
            self.push(Value::Boolean(is_less));
            return Ok(Flow::On);
        }
        let (handler, is_negated) = self.order_handler(&a, &b, or_equal)?;
        if is_negated {
            (a, b) = (b, a);
        }
        self.call_handler(handler, [a, b], Then::Truth { is_negated })
    }

    /// The order of numbers and texts.
    fn plain_less(&mut self, a: &Value, b: &Value, or_equal: bool) -> Result<Option<bool>, Fault> {
        let order = match (a, b) {
            (Value::Number(a), Value::Number(b)) => a.cmp(b),
            (Value::Text(a), Value::Text(b)) => {
                self.charge_bytes(a.bytes().len().min(b.bytes().len()))?;
                a.bytes().cmp(b.bytes())
            }
            _ => return Ok(None),
        };
        Ok(Some(order.is_lt() || or_equal && order.is_eq()))
    }

    /// The handler of an order, and whether it is asked the other way around.
    fn order_handler(
        &mut self,
        a: &Value,
        b: &Value,
        or_equal: bool,
    ) -> Result<(Value, bool), Fault> {
        if or_equal {
            let handler = self.binary_metamethod(a, b, "__le")?;
            if !handler.is_nil() {
                return Ok((handler, false));
            }
        }
        let handler = self.binary_metamethod(a, b, "__lt")?;
        if !handler.is_nil() {
            return Ok((handler, or_equal));
        }
        let (one, other) = (a.type_name(), b.type_name());
        Err(self.error(&match one == other {
            true => format!("attempt to compare two {one} values"),
            false => format!("attempt to compare {one} with {other}"),
        }))
    }

    /// Whether one value is less than another, for a built-in function.
    pub fn is_less(&mut self, a: &Value, b: &Value) -> Result<bool, Fault> {
        self.charge(1)?;
        if let Some(is_less) = self.plain_less(a, b, false)? {
            return Ok(is_less);
        }
        let (handler, _) = self.order_handler(a, b, false)?;
        let results = self.call(&handler, &[a.clone(), b.clone()])?;
        Ok(results.first().is_some_and(Value::is_true))
    }
}
