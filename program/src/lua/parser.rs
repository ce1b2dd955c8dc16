//! What the compiler knows while it reads: the words, the functions around it, their variables.

use super::code::{Capture, Hint, Op};
use super::fault::Fault;
use super::lexer::{BadText, Lexer, Token};
use super::scope::{Block, CAPTURES_MAX, LOCALS_MAX, LocalName, Scope};
use super::value::{Meter, Text, Value};
use std::collections::HashMap;
use std::rc::Rc;

/// The name of a program in messages.
pub(crate) const CHUNK: &str = "[string \"channel program\"]";

/// How deep statements and expressions may be nested: the compiler calls itself.
const LEVELS_MAX: u32 = 200;

/// The variable that has the table of global variables.
pub(super) const ENVIRONMENT: &[u8] = b"_ENV";

/// An expression whose value is on the stack.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expression {
    Value,
    /// A call by this instruction, which can have another number of results.
    Call(u32),
    /// The same of `...`.
    Varargs(u32),
    /// Values joined by this instruction, which can join one more before them.
    Concat(u32),
}

/// What can be assigned to, read or called. Tables and keys are on the stack.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Local(u32, Option<Hint>),
    Captured(u32, Option<Hint>),
    Global { table: u32, name: u32 },
    Field(u32, Option<Hint>),
    Index(Option<Hint>),
    Call(u32),
    Value,
}

/// What is assigned to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    Local(u32),
    Captured(u32),
    Global {
        table: u32,
        name: u32,
    },
    /// Table and key are in this slot and the next; what the table is.
    At(u32, Option<Hint>),
}

pub(super) struct Compiler<'a> {
    lexer: Lexer<'a>,
    pub token: Token,
    /// The line of the word, and of the one before it.
    pub line: u32,
    pub last_line: u32,
    ahead: Option<(Token, u32)>,
    scopes: Vec<Scope>,
    /// How many local variables of all functions have each name.
    declared: HashMap<Vec<u8>, usize>,
    pub meter: &'a Rc<Meter>,
    level: u32,
}

/// A variable as a function finds it.
#[derive(Clone, Copy)]
pub(super) enum Variable {
    Local(u32),
    Captured(u32),
}

impl<'a> Compiler<'a> {
    /// Begins to read a program, whose function is `main`.
    pub fn new(source: &'a [u8], meter: &'a Rc<Meter>, main: Scope) -> Result<Self, Fault> {
        let mut compiler = Self {
            lexer: Lexer::new(source),
            token: Token::End,
            line: 1,
            last_line: 1,
            ahead: None,
            scopes: vec![main],
            declared: HashMap::new(),
            meter,
            level: 0,
        };
        compiler.advance()?;
        Ok(compiler)
    }

    /// Begins a function within the present one.
    pub fn push_scope(&mut self, scope: Scope) {
        self.scopes.push(scope);
    }

    /// Ends the present function.
    pub fn pop_scope(&mut self) -> Scope {
        self.scopes.pop().expect("it is being compiled")
    }

    pub fn scope(&mut self) -> &mut Scope {
        self.scopes
            .last_mut()
            .expect("the main function is the last to end")
    }

    pub fn emit(&mut self, op: Op) -> u32 {
        let line = self.last_line;
        self.scope().emit(op, line)
    }

    // Words.

    fn read(&mut self) -> Result<(Token, u32), Fault> {
        match self.lexer.next() {
            Ok(token) => Ok((token, self.lexer.line)),
            Err(BadText { message, near }) => {
                self.line = self.lexer.line;
                let near = near.unwrap_or_default();
                let near = String::from_utf8_lossy(&near).into_owned();
                let near = if near == "<eof>" {
                    near
                } else {
                    format!("'{near}'")
                };
                Err(self.fault(&format!("{message} near {near}")))
            }
        }
    }

    pub fn advance(&mut self) -> Result<(), Fault> {
        self.last_line = self.line;
        (self.token, self.line) = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.read()?,
        };
        Ok(())
    }

    /// The word behind the present one.
    pub fn look_ahead(&mut self) -> Result<&Token, Fault> {
        if self.ahead.is_none() {
            self.ahead = Some(self.read()?);
        }
        Ok(&self.ahead.as_ref().expect("it was read").0)
    }

    pub fn fault(&self, message: &str) -> Fault {
        let text = format!("{CHUNK}:{}: {message}", self.line);
        match Text::new(self.meter, text.as_bytes()) {
            Ok(text) => Fault::raised(Value::Text(text)),
            Err(exhausted) => exhausted.into(),
        }
    }

    pub fn error(&self, message: &str) -> Fault {
        let near = match &self.token {
            Token::End => "<eof>".to_owned(),
            Token::Name(text) | Token::Text(text) => {
                format!("'{}'", String::from_utf8_lossy(text))
            }
            Token::Number(number) => format!("'{number}'"),
            Token::Sign(sign) => format!("'{sign}'"),
        };
        self.fault(&format!("{message} near {near}"))
    }

    pub fn expected(&self, what: &str) -> Fault {
        self.error(&format!("'{what}' expected"))
    }

    pub fn is(&self, sign: &str) -> bool {
        matches!(self.token, Token::Sign(found) if found == sign)
    }

    /// Reads on if the word is this one.
    pub fn accept(&mut self, sign: &str) -> Result<bool, Fault> {
        let is_there = self.is(sign);
        if is_there {
            self.advance()?;
        }
        Ok(is_there)
    }

    pub fn expect(&mut self, sign: &str) -> Result<(), Fault> {
        match self.accept(sign)? {
            true => Ok(()),
            false => Err(self.expected(sign)),
        }
    }

    /// The end of what began with `begin` on a line.
    pub fn expect_match(&mut self, end: &str, begin: &str, line: u32) -> Result<(), Fault> {
        if self.accept(end)? {
            return Ok(());
        }
        match line == self.line {
            true => Err(self.expected(end)),
            false => Err(self.error(&format!(
                "'{end}' expected (to close '{begin}' at line {line})"
            ))),
        }
    }

    pub fn name(&mut self) -> Result<Vec<u8>, Fault> {
        match std::mem::replace(&mut self.token, Token::End) {
            Token::Name(name) => {
                self.advance()?;
                Ok(name)
            }
            token => {
                self.token = token;
                Err(self.error("<name> expected"))
            }
        }
    }

    pub fn text_constant(&mut self, text: &[u8]) -> Result<u32, Fault> {
        let text = Text::new(self.meter, text)?;
        Ok(self.scope().constant(Value::Text(text)))
    }

    // Levels.

    pub fn deeper<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.level += 1;
        if self.level > LEVELS_MAX {
            return Err(self.too_many("C levels", LEVELS_MAX as usize));
        }
        let parsed = parse(self);
        self.level -= 1;
        parsed
    }

    pub fn too_many(&mut self, what: &str, limit: usize) -> Fault {
        let place = match self.scope().prototype.line {
            0 => "main function".to_owned(),
            line => format!("function at line {line}"),
        };
        self.error(&format!("too many {what} (limit is {limit}) in {place}"))
    }

    // Variables.

    /// Gives the value in the next slot a name.
    pub fn declare(&mut self, name: Vec<u8>, slot: u32) -> Result<(), Fault> {
        if self.scope().locals.len() >= LOCALS_MAX {
            return Err(self.too_many("local variables", LOCALS_MAX));
        }
        *self.declared.entry(name.clone()).or_default() += 1;
        self.scope().locals.push(LocalName { name, slot });
        Ok(())
    }

    /// Ends a block and its variables.
    pub fn leave(&mut self, line: u32) -> Block {
        let (block, ended) = self.scope().leave(line);
        for local in ended {
            if let Some(count) = self.declared.get_mut(&local.name) {
                *count -= 1;
            }
        }
        block
    }

    /// The variable of a name; `None` for a global one.
    pub fn variable(&mut self, name: &[u8]) -> Result<Option<Variable>, Fault> {
        // Most names are global, and the functions around this one may have many variables.
        let is_declared = self.declared.get(name).is_some_and(|count| *count > 0);
        if !is_declared && name != ENVIRONMENT {
            return Ok(None);
        }
        self.variable_in(self.scopes.len() - 1, name)
    }

    fn variable_in(&mut self, scope: usize, name: &[u8]) -> Result<Option<Variable>, Fault> {
        let own = &self.scopes[scope];
        if let Some(slot) = own.local(name) {
            return Ok(Some(Variable::Local(slot)));
        }
        if let Some(captured) = own.captured(name) {
            return Ok(Some(Variable::Captured(captured)));
        }
        let Some(outer) = scope.checked_sub(1) else {
            return Ok(None);
        };
        let capture = match self.variable_in(outer, name)? {
            None => return Ok(None),
            Some(Variable::Local(slot)) => Capture::Local(slot),
            Some(Variable::Captured(captured)) => Capture::Captured(captured),
        };
        if self.scopes[scope].captured.len() >= CAPTURES_MAX {
            return Err(self.too_many("upvalues", CAPTURES_MAX));
        }
        let captured = self.scopes[scope].capture(name, capture);
        Ok(Some(Variable::Captured(captured)))
    }
}
