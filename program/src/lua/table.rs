//! Tables.
//!
//! The values of 1, 2, 3, … are in an array, the others in a list in the order in which their keys
//! came, with an index of the keys. So a walk over a table has the same order in every run. A value
//! that is taken away leaves its key until the list grows, so that a walk can take values away.

use super::value::{TableId, Value};
use std::collections::HashMap;

/// What a table takes without its contents.
const TABLE_OVERHEAD: usize = 160;

#[derive(Debug, Default)]
pub(crate) struct Table {
    array: Vec<Value>,
    entries: Vec<(Value, Value)>,
    index: HashMap<Value, u32>,
    /// Entries without a value.
    vacant: usize,
    pub metatable: Option<TableId>,
    /// What the program's memory counts for it.
    pub counted: usize,
}

/// The key of a walk is not in the table.
pub(crate) struct NoSuchKey;

impl Table {
    /// What it takes in memory.
    pub fn bytes(&self) -> usize {
        let value = size_of::<Value>();
        TABLE_OVERHEAD
            + self.array.capacity() * value
            + self.entries.capacity() * 2 * value
            + self.index.capacity() * (value + 8)
    }

    pub fn get(&self, key: &Value) -> Value {
        if let Value::Number(number) = key
            && let Some(value) = self.array_slot(*number)
        {
            return self.array[value].clone();
        }
        match self.index.get(key) {
            Some(at) => self.entries[*at as usize].1.clone(),
            None => Value::Nil,
        }
    }

    fn array_slot(&self, number: i64) -> Option<usize> {
        let at = usize::try_from(number.checked_sub(1)?).ok()?;
        (at < self.array.len()).then_some(at)
    }

    /// Stores a value; the key is not nil.
    pub fn set(&mut self, key: Value, value: Value) {
        assert!(!key.is_nil(), "nil is no key");
        if let Value::Number(number) = key {
            if let Some(at) = self.array_slot(number) {
                self.array[at] = value;
                while self.array.last().is_some_and(Value::is_nil) {
                    self.array.pop();
                }
                return;
            }
            if number == self.array.len() as i64 + 1 && !value.is_nil() {
                self.forget(&key);
                self.array.push(value);
                self.draw_into_array();
                return;
            }
        }
        self.set_entry(key, value);
    }

    fn set_entry(&mut self, key: Value, value: Value) {
        if let Some(at) = self.index.get(&key) {
            let old = &mut self.entries[*at as usize].1;
            match (old.is_nil(), value.is_nil()) {
                (false, true) => self.vacant += 1,
                (true, false) => self.vacant -= 1,
                _ => {}
            }
            *old = value;
            return;
        }
        if value.is_nil() {
            return;
        }
        if self.entries.len() == self.entries.capacity() && self.vacant * 2 > self.entries.len() {
            self.compact();
        }
        self.index.insert(key.clone(), self.entries.len() as u32);
        self.entries.push((key, value));
    }

    /// Drops entries without a value.
    fn compact(&mut self) {
        self.entries.retain(|(_, value)| !value.is_nil());
        self.vacant = 0;
        self.index.clear();
        for (at, (key, _)) in self.entries.iter().enumerate() {
            self.index.insert(key.clone(), at as u32);
        }
    }

    /// Takes a key's value out of the list.
    fn forget(&mut self, key: &Value) {
        if let Some(at) = self.index.get(key) {
            let old = std::mem::take(&mut self.entries[*at as usize].1);
            self.vacant += usize::from(!old.is_nil());
        }
    }

    /// Moves to the array what follows its end.
    fn draw_into_array(&mut self) {
        if self.entries.len() == self.vacant {
            return;
        }
        loop {
            let key = Value::Number(self.array.len() as i64 + 1);
            let value = match self.index.get(&key) {
                Some(at) => std::mem::take(&mut self.entries[*at as usize].1),
                None => return,
            };
            if value.is_nil() {
                return;
            }
            self.vacant += 1;
            self.array.push(value);
        }
    }

    /// An n for which n has a value and n + 1 has none.
    pub fn border(&self) -> i64 {
        self.array.len() as i64
    }

    /// What follows a key in a walk; `None` at the end. And how many keys without a value were
    /// passed over.
    pub fn next(&self, key: &Value) -> Result<(Option<(Value, Value)>, usize), NoSuchKey> {
        let first = match key {
            Value::Nil => 0,
            Value::Number(number) if self.array_slot(*number).is_some() => *number as usize,
            key => match self.index.get(key) {
                Some(at) => self.array.len() + *at as usize + 1,
                // The end of the array was taken away during the walk.
                None => match key {
                    Value::Number(number) if *number > 0 => self.array.len(),
                    _ => return Err(NoSuchKey),
                },
            },
        };
        for at in first..self.array.len() {
            if !self.array[at].is_nil() {
                let found = (Value::Number(at as i64 + 1), self.array[at].clone());
                return Ok((Some(found), at - first));
            }
        }
        let listed = first.saturating_sub(self.array.len());
        let entries = &self.entries[listed.min(self.entries.len())..];
        let found = entries.iter().position(|(_, value)| !value.is_nil());
        let skipped = found.unwrap_or(entries.len()) + self.array.len().saturating_sub(first);
        Ok((found.map(|found| entries[found].clone()), skipped))
    }

    /// All values and their keys, for the collector. The key of a value that was taken away may be
    /// the number of an object that is gone.
    pub fn contents(&self) -> impl Iterator<Item = (Option<&Value>, &Value)> {
        let array = self.array.iter().map(|value| (None, value));
        let entries = self.entries.iter();
        let entries = entries.filter(|(_, value)| !value.is_nil());
        array.chain(entries.map(|(key, value)| (Some(key), value)))
    }

    /// Takes away what `is_dead` says of a key or value.
    pub fn clear_dead(&mut self, is_dead: impl Fn(&Value) -> bool) {
        for value in &mut self.array {
            if is_dead(value) {
                *value = Value::Nil;
            }
        }
        while self.array.last().is_some_and(Value::is_nil) {
            self.array.pop();
        }
        for (key, value) in &mut self.entries {
            if is_dead(key) || is_dead(value) {
                *value = Value::Nil;
            }
        }
        // A dead key's number may soon be another object's.
        self.compact();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: i64) -> Value {
        Value::Number(value)
    }

    fn keys(table: &Table) -> Vec<Value> {
        let (mut keys, mut at) = (Vec::new(), Value::Nil);
        while let Ok((Some((key, _)), _)) = table.next(&at) {
            keys.push(key.clone());
            at = key;
        }
        keys
    }

    #[test]
    fn numbers_in_a_row_are_an_array_whatever_their_order() {
        let mut table = Table::default();
        for key in [3, 2, 5, 1] {
            table.set(number(key), number(key * 10));
        }
        assert_eq!(table.border(), 3);
        assert_eq!(keys(&table), [1, 2, 3, 5].map(number));
        table.set(number(3), Value::Nil);
        assert_eq!(table.border(), 2);
        table.set(number(1), Value::Nil);
        assert_eq!(keys(&table), [2, 5].map(number));
        assert_eq!(table.get(&number(5)), number(50));
        assert!(table.get(&number(i64::MIN)).is_nil());
    }

    #[test]
    fn a_walk_may_take_values_away() {
        let mut table = Table::default();
        for key in -50..50 {
            table.set(number(key), number(key));
        }
        let (mut at, mut seen) = (Value::Nil, 0);
        while let Ok((Some((key, _)), _)) = table.next(&at) {
            table.set(key.clone(), Value::Nil);
            (at, seen) = (key, seen + 1);
        }
        assert_eq!((seen, keys(&table).len()), (100, 0));
        for key in -50..0 {
            table.set(number(key), Value::Boolean(true));
        }
        assert_eq!(keys(&table).len(), 50);
        assert!(table.next(&Value::Boolean(true)).is_err());
    }
}
