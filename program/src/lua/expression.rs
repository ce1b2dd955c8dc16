//! The compiler: expressions.

use super::code::{Hint, Op};
use super::fault::Fault;
use super::lexer::Token;
use super::number::Arithmetic;
use super::parser::{Compiler, ENVIRONMENT, Expression, Place, Target, Variable};
use super::value::Value;

/// A binary operator and how strongly it binds to the left and right.
const BINARY: [(&str, u8, u8); 15] = [
    ("or", 1, 1),
    ("and", 2, 2),
    ("<", 3, 3),
    (">", 3, 3),
    ("<=", 3, 3),
    (">=", 3, 3),
    ("~=", 3, 3),
    ("==", 3, 3),
    ("..", 5, 4),
    ("+", 6, 6),
    ("-", 6, 6),
    ("*", 7, 7),
    ("/", 7, 7),
    ("%", 7, 7),
    ("^", 10, 9),
];

/// How strongly operators before their operand bind.
const UNARY: u8 = 8;

/// Values of a table's list that are stored at once.
const LISTED: u32 = 50;

impl Compiler<'_> {
    /// An expression with one value.
    pub fn expression(&mut self) -> Result<(), Fault> {
        self.binary(0).map(drop)
    }

    /// One or more expressions; the last one may get more or fewer values.
    pub fn expressions(&mut self) -> Result<(u32, Expression), Fault> {
        let mut count = 1;
        let mut last = self.binary(0)?;
        while self.accept(",")? {
            last = self.binary(0)?;
            count += 1;
        }
        Ok((count, last))
    }

    fn push(&mut self, op: Op) -> u32 {
        let at = self.emit(op);
        self.scope().height += 1;
        at
    }

    fn binary(&mut self, limit: u8) -> Result<Expression, Fault> {
        self.deeper(|compiler| {
            let mut left = compiler.unary()?;
            while let Token::Sign(sign) = compiler.token {
                let found = BINARY.iter().find(|(name, ..)| *name == sign);
                let Some((sign, _, right)) = found.filter(|(_, binds, _)| *binds > limit) else {
                    break;
                };
                compiler.advance()?;
                left = compiler.operation(sign, *right)?;
            }
            Ok(left)
        })
    }

    /// The right side of an operation, and the operation.
    fn operation(&mut self, sign: &str, right: u8) -> Result<Expression, Fault> {
        let line = self.last_line;
        let kept = match sign {
            "and" => Some(Op::KeepIfFalse(0)),
            "or" => Some(Op::KeepIfTrue(0)),
            _ => None,
        };
        if let Some(op) = kept {
            let jump = self.emit(op);
            self.scope().height -= 1;
            self.binary(right)?;
            self.scope().lead_here(jump);
            return Ok(Expression::Value);
        }
        let operand = self.binary(right)?;
        self.scope().height -= 1;
        let op = match sign {
            ".." => return Ok(self.concat(operand, line)),
            "+" => Op::Arithmetic(Arithmetic::Add),
            "-" => Op::Arithmetic(Arithmetic::Subtract),
            "*" => Op::Arithmetic(Arithmetic::Multiply),
            "/" => Op::Arithmetic(Arithmetic::Divide),
            "%" => Op::Arithmetic(Arithmetic::Modulo),
            "^" => Op::Arithmetic(Arithmetic::Power),
            "==" => Op::Equal { is_negated: false },
            "~=" => Op::Equal { is_negated: true },
            "<" => Op::Less { swapped: false },
            ">" => Op::Less { swapped: true },
            "<=" => Op::LessOrEqual { swapped: false },
            _ => Op::LessOrEqual { swapped: true },
        };
        self.scope().emit(op, line);
        Ok(Expression::Value)
    }

    fn concat(&mut self, operand: Expression, line: u32) -> Expression {
        if let Expression::Concat(at) = operand
            && let Op::Concat(count) = &mut self.scope().prototype.code[at as usize]
        {
            *count += 1;
            return operand;
        }
        Expression::Concat(self.scope().emit(Op::Concat(2), line))
    }

    fn unary(&mut self) -> Result<Expression, Fault> {
        let op = match self.token {
            Token::Sign("not") => Op::Not,
            Token::Sign("-") => Op::Negate,
            Token::Sign("#") => Op::Length,
            _ => return self.simple(),
        };
        self.advance()?;
        let line = self.last_line;
        self.binary(UNARY)?;
        self.scope().emit(op, line);
        Ok(Expression::Value)
    }

    fn simple(&mut self) -> Result<Expression, Fault> {
        let op = match &self.token {
            Token::Number(number) => {
                let number = Value::Number(*number);
                Op::Constant(self.scope().constant(number))
            }
            Token::Text(text) => {
                let text = text.clone();
                Op::Constant(self.text_constant(&text)?)
            }
            Token::Sign("nil") => Op::Nil,
            Token::Sign("true") => Op::Boolean(true),
            Token::Sign("false") => Op::Boolean(false),
            Token::Sign("...") => {
                if !self.scope().prototype.is_variadic {
                    return Err(self.error("cannot use '...' outside a vararg function"));
                }
                self.advance()?;
                return Ok(Expression::Varargs(self.push(Op::Varargs(1))));
            }
            Token::Sign("{") => {
                self.constructor()?;
                return Ok(Expression::Value);
            }
            Token::Sign("function") => {
                let line = self.line;
                self.advance()?;
                self.function(false, line)?;
                return Ok(Expression::Value);
            }
            _ => {
                let place = self.suffixed()?;
                return self.read_place(place);
            }
        };
        self.advance()?;
        self.push(op);
        Ok(Expression::Value)
    }

    // Places.

    /// A variable by its name.
    pub fn named(&mut self, name: &[u8]) -> Result<Place, Fault> {
        match self.variable(name)? {
            Some(Variable::Local(slot)) => Ok(Place::Local(slot, self.hint(Hint::Local, name)?)),
            Some(Variable::Captured(at)) => {
                Ok(Place::Captured(at, self.hint(Hint::Captured, name)?))
            }
            None => {
                let global = self.text_constant(name)?;
                let environment = self.variable(ENVIRONMENT)?;
                match environment.expect("the main function captures it") {
                    Variable::Captured(table) => Ok(Place::Global {
                        table,
                        name: global,
                    }),
                    Variable::Local(slot) => {
                        self.push(Op::Local(slot));
                        Ok(Place::Field(global, None))
                    }
                }
            }
        }
    }

    fn hint_of(place: Place) -> Option<Hint> {
        match place {
            Place::Local(_, hint) | Place::Captured(_, hint) => hint,
            Place::Global { name, .. } => Some(Hint::Global(name)),
            Place::Field(name, _) => Some(Hint::Field(name)),
            Place::Index(_) | Place::Call(_) | Place::Value => None,
        }
    }

    /// Puts the value of a place on the stack, in place of table and key.
    fn read_place(&mut self, place: Place) -> Result<Expression, Fault> {
        match place {
            Place::Local(slot, _) => {
                self.push(Op::Local(slot));
            }
            Place::Captured(at, _) => {
                self.push(Op::Captured(at));
            }
            Place::Global { table, name } => {
                self.push(Op::Global { table, name });
            }
            Place::Field(name, hint) => {
                self.scope().note(hint);
                self.emit(Op::Field(name));
            }
            Place::Index(hint) => {
                self.scope().note(hint);
                self.emit(Op::Index);
                self.scope().height -= 1;
            }
            Place::Call(at) => return Ok(Expression::Call(at)),
            Place::Value => {}
        }
        Ok(Expression::Value)
    }

    /// A field of what is at a place.
    pub fn field(&mut self, place: Place, name: &[u8]) -> Result<Place, Fault> {
        let hint = Self::hint_of(place);
        self.read_place(place)?;
        let name = self.text_constant(name)?;
        Ok(Place::Field(name, hint))
    }

    /// Prepares an assignment.
    pub fn target(&mut self, place: Place) -> Result<Target, Fault> {
        let height = self.scope().height;
        Ok(match place {
            Place::Local(slot, _) => Target::Local(slot),
            Place::Captured(at, _) => Target::Captured(at),
            Place::Global { table, name } => Target::Global { table, name },
            Place::Field(name, hint) => {
                self.push(Op::Constant(name));
                Target::At(height - 1, hint)
            }
            Place::Index(hint) => Target::At(height - 2, hint),
            Place::Call(_) | Place::Value => return Err(self.error("syntax error")),
        })
    }

    /// Assigns the value on top.
    pub fn store(&mut self, target: Target) {
        if let Target::At(_, hint) = target {
            self.scope().note(hint);
        }
        self.emit(match target {
            Target::Local(slot) => Op::SetLocal(slot),
            Target::Captured(at) => Op::SetCaptured(at),
            Target::Global { table, name } => Op::SetGlobal { table, name },
            Target::At(slot, _) => Op::SetIndexAt(slot),
        });
        self.scope().height -= 1;
    }

    fn primary(&mut self) -> Result<Place, Fault> {
        match &self.token {
            Token::Name(_) => {
                let name = self.name()?;
                self.named(&name)
            }
            Token::Sign("(") => {
                let line = self.line;
                self.advance()?;
                self.expression()?;
                self.expect_match(")", "(", line)?;
                Ok(Place::Value)
            }
            _ => Err(self.error("unexpected symbol")),
        }
    }

    /// A variable, or something in brackets, with all fields, keys and calls behind it.
    pub fn suffixed(&mut self) -> Result<Place, Fault> {
        let mut place = self.primary()?;
        loop {
            match &self.token {
                Token::Sign(".") => {
                    self.advance()?;
                    let name = self.name()?;
                    place = self.field(place, &name)?;
                }
                Token::Sign("[") => {
                    let hint = Self::hint_of(place);
                    self.read_place(place)?;
                    self.advance()?;
                    self.expression()?;
                    self.expect("]")?;
                    place = Place::Index(hint);
                }
                Token::Sign(":") => {
                    let hint = Self::hint_of(place);
                    self.read_place(place)?;
                    self.advance()?;
                    let name = self.name()?;
                    place = self.method(&name, hint)?;
                }
                Token::Sign("(" | "{") | Token::Text(_) => {
                    let hint = Self::hint_of(place);
                    self.read_place(place)?;
                    let function = self.scope().height - 1;
                    place = self.call(function, hint)?;
                }
                _ => return Ok(place),
            }
        }
    }

    /// Calls a method of the object on top.
    fn method(&mut self, name: &[u8], object: Option<Hint>) -> Result<Place, Fault> {
        let function = self.scope().height - 1;
        let name = self.text_constant(name)?;
        self.emit(Op::Duplicate);
        self.scope().note(object);
        self.emit(Op::Field(name));
        self.emit(Op::Swap);
        self.scope().height += 1;
        self.call(function, Some(Hint::Method(name)))
    }

    /// The arguments of a call, and the call.
    fn call(&mut self, function: u32, hint: Option<Hint>) -> Result<Place, Fault> {
        let line = self.line;
        match &self.token {
            Token::Text(text) => {
                let text = text.clone();
                let constant = self.text_constant(&text)?;
                self.advance()?;
                self.push(Op::Constant(constant));
            }
            Token::Sign("{") => self.constructor()?,
            Token::Sign("(") => {
                self.advance()?;
                if !self.is(")") {
                    let (_, last) = self.expressions()?;
                    self.all_of(last);
                }
                self.expect_match(")", "(", line)?;
            }
            _ => return Err(self.error("function arguments expected")),
        }
        self.scope().note(hint);
        let results = 1;
        let op = Op::Call { function, results };
        let at = self.scope().emit(op, line);
        self.scope().height = function + 1;
        Ok(Place::Call(at))
    }

    // Tables.

    fn constructor(&mut self) -> Result<(), Fault> {
        let line = self.line;
        self.advance()?;
        let table = self.scope().height;
        self.push(Op::NewTable);
        let (mut first, mut listed) = (1, 0);
        while !self.is("}") {
            let is_named = matches!(self.token, Token::Name(_))
                && matches!(self.look_ahead()?, Token::Sign("="));
            if is_named || self.is("[") {
                self.keyed_field(table)?;
            } else {
                let item = self.binary(0)?;
                listed += 1;
                let is_last = !self.is(",") && !self.is(";");
                if is_last {
                    self.all_of(item);
                }
                if listed == LISTED || is_last {
                    self.emit(Op::InitList { table, first });
                    self.scope().height = table + 1;
                    (first, listed) = (first + listed, 0);
                }
            }
            if !self.accept(",")? && !self.accept(";")? {
                break;
            }
        }
        if listed > 0 {
            self.emit(Op::InitList { table, first });
            self.scope().height = table + 1;
        }
        self.expect_match("}", "{", line)
    }

    /// `name = value` or `[key] = value` of the table in a slot.
    fn keyed_field(&mut self, table: u32) -> Result<(), Fault> {
        if self.accept("[")? {
            self.expression()?;
            self.expect("]")?;
        } else {
            let name = self.name()?;
            let name = self.text_constant(&name)?;
            self.push(Op::Constant(name));
        }
        self.expect("=")?;
        self.expression()?;
        self.emit(Op::InitField(table));
        self.scope().height -= 2;
        Ok(())
    }
}
