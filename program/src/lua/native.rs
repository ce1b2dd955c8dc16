//! Built-in functions: how they get their arguments.

use super::fault::Fault;
use super::machine::{Arguments, Vm};
use super::value::{TableId, Text, Value};
use std::rc::Rc;

impl Vm<'_> {
    /// An argument, counted from 0; nil if there are fewer.
    pub fn argument(&self, arguments: Arguments, number: usize) -> Value {
        match number < arguments.count {
            true => self.heap.thread(self.thread).stack[arguments.base + number].clone(),
            false => Value::Nil,
        }
    }

    fn expected(&mut self, arguments: Arguments, number: usize, what: &str) -> Fault {
        let got = match number < arguments.count {
            true => self.argument(arguments, number).type_name(),
            false => "no value",
        };
        self.argument_error(arguments, number, &format!("{what} expected, got {got}"))
    }

    /// An argument that must be there.
    pub fn any(&mut self, arguments: Arguments, number: usize) -> Result<Value, Fault> {
        match number < arguments.count {
            true => Ok(self.argument(arguments, number)),
            false => Err(self.argument_error(arguments, number, "value expected")),
        }
    }

    pub fn number(&mut self, arguments: Arguments, number: usize) -> Result<i64, Fault> {
        match self.argument(arguments, number).to_number() {
            Some(value) => Ok(value),
            None => Err(self.expected(arguments, number, "number")),
        }
    }

    pub fn number_or(
        &mut self,
        arguments: Arguments,
        number: usize,
        default: i64,
    ) -> Result<i64, Fault> {
        match self.argument(arguments, number) {
            Value::Nil => Ok(default),
            _ => self.number(arguments, number),
        }
    }

    /// A text, or a number as one.
    pub fn bytes(&mut self, arguments: Arguments, number: usize) -> Result<Rc<Text>, Fault> {
        match self.argument(arguments, number) {
            Value::Text(text) => Ok(text),
            Value::Number(value) => {
                let text = value.to_string();
                Ok(Text::new(&self.meter, text.as_bytes())?)
            }
            _ => Err(self.expected(arguments, number, "string")),
        }
    }

    pub fn table(&mut self, arguments: Arguments, number: usize) -> Result<TableId, Fault> {
        match self.argument(arguments, number) {
            Value::Table(table) => Ok(table),
            _ => Err(self.expected(arguments, number, "table")),
        }
    }

    pub fn function(&mut self, arguments: Arguments, number: usize) -> Result<Value, Fault> {
        match self.argument(arguments, number) {
            function @ (Value::Function(_) | Value::Native(_)) => Ok(function),
            _ => Err(self.expected(arguments, number, "function")),
        }
    }

    /// One result.
    pub fn answer(&mut self, value: impl Into<Value>) -> Result<u32, Fault> {
        self.push(value.into());
        Ok(1)
    }

    /// A text as the only result.
    pub fn answer_text(&mut self, bytes: &[u8]) -> Result<u32, Fault> {
        let text = self.text(bytes)?;
        self.answer(text)
    }
}
