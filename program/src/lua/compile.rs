//! The compiler: statements. It reads a program once and writes instructions as it goes.

use super::code::{ALL, Capture, Hint, Op, Prototype};
use super::fault::Fault;
use super::lexer::Token;
use super::parser::{Compiler, ENVIRONMENT, Expression, Place};
use super::scope::{Goto, LABELS_MAX, Label, Scope};
use super::value::{Meter, Value};
use std::rc::Rc;

/// Compiles a program to a function.
pub(crate) fn compile(source: &[u8], meter: &Rc<Meter>) -> Result<Rc<Prototype>, Fault> {
    let mut main = Scope::default();
    main.prototype.is_variadic = true;
    main.capture(ENVIRONMENT, Capture::Local(0));
    let mut compiler = Compiler::new(source, meter, main)?;
    compiler.scope().enter(false);
    compiler.block()?;
    if compiler.token != Token::End {
        return Err(compiler.expected("<eof>"));
    }
    compiler.finish()
}

impl Compiler<'_> {
    // Functions.

    /// Ends the function that is being compiled.
    fn finish(&mut self) -> Result<Rc<Prototype>, Fault> {
        let height = self.scope().height;
        self.emit(Op::Return(height));
        let line = self.last_line;
        self.leave(line);
        if let Some(goto) = self.scope().gotos.first() {
            let (name, line) = (String::from_utf8_lossy(&goto.name).into_owned(), goto.line);
            let message = format!("no visible label '{name}' for <goto> at line {line}");
            return Err(self.fault(&message));
        }
        let scope = self.pop_scope();
        self.meter.take(scope.prototype.bytes())?;
        Ok(Rc::new(scope.prototype))
    }

    /// Parameters and body of a function; its value is then on the stack.
    pub fn function(&mut self, is_method: bool, line: u32) -> Result<(), Fault> {
        let mut scope = Scope::default();
        scope.prototype.line = line;
        self.push_scope(scope);
        self.scope().enter(false);
        let mut parameters = Vec::new();
        if is_method {
            parameters.push(b"self".to_vec());
        }
        self.expect("(")?;
        while !self.is(")") {
            if self.accept("...")? {
                self.scope().prototype.is_variadic = true;
                break;
            }
            parameters.push(self.name()?);
            if !self.accept(",")? {
                break;
            }
            if self.is(")") {
                return Err(self.error("<name> expected"));
            }
        }
        self.expect(")")?;
        self.scope().prototype.parameters = parameters.len() as u32;
        self.scope().height = parameters.len() as u32;
        for (slot, name) in parameters.into_iter().enumerate() {
            self.declare(name, slot as u32)?;
        }
        self.block()?;
        let closed = self.expect_match("end", "function", line);
        closed?;
        let prototype = self.finish()?;
        let functions = &mut self.scope().prototype.functions;
        functions.push(prototype);
        let number = (functions.len() - 1) as u32;
        self.emit(Op::Closure(number));
        self.scope().height += 1;
        Ok(())
    }

    // Statements.

    fn ends_block(&self) -> bool {
        match &self.token {
            Token::End => true,
            Token::Sign(sign) => matches!(*sign, "else" | "elseif" | "end" | "until"),
            _ => false,
        }
    }

    /// Statements up to the end of a block.
    pub fn block(&mut self) -> Result<(), Fault> {
        while !self.ends_block() {
            if self.accept("return")? {
                return self.return_statement();
            }
            self.deeper(Self::statement)?;
        }
        Ok(())
    }

    /// A block with variables of its own.
    fn inner_block(&mut self) -> Result<(), Fault> {
        self.scope().enter(false);
        self.block()?;
        let line = self.last_line;
        self.leave(line);
        Ok(())
    }

    fn statement(&mut self) -> Result<(), Fault> {
        let line = self.line;
        let Token::Sign(sign) = self.token else {
            return self.expression_statement();
        };
        match sign {
            ";" => self.advance(),
            "if" => self.if_statement(line),
            "while" => self.while_statement(line),
            "do" => {
                self.advance()?;
                self.inner_block()?;
                self.expect_match("end", "do", line)
            }
            "for" => self.for_statement(line),
            "repeat" => self.repeat_statement(line),
            "function" => self.function_statement(line),
            "local" => {
                self.advance()?;
                match self.accept("function")? {
                    true => self.local_function(line),
                    false => self.local_statement(),
                }
            }
            "::" => self.label(),
            "break" => {
                self.advance()?;
                self.break_statement()
            }
            "goto" => {
                self.advance()?;
                let name = self.name()?;
                self.goto(name, line)
            }
            _ => self.expression_statement(),
        }
    }

    /// The condition of a statement, and the jump that is taken if it does not hold.
    fn condition(&mut self) -> Result<u32, Fault> {
        self.expression()?;
        let jump = self.emit(Op::JumpIfFalse(0));
        self.scope().height -= 1;
        Ok(jump)
    }

    fn if_statement(&mut self, line: u32) -> Result<(), Fault> {
        let mut ends = Vec::new();
        loop {
            self.advance()?;
            let skip = self.condition()?;
            self.expect("then")?;
            self.inner_block()?;
            if self.is("elseif") || self.is("else") {
                ends.push(self.emit(Op::Jump(0)));
            }
            self.scope().lead_here(skip);
            if !self.is("elseif") {
                break;
            }
        }
        if self.accept("else")? {
            self.inner_block()?;
        }
        self.expect_match("end", "if", line)?;
        for end in ends {
            self.scope().lead_here(end);
        }
        Ok(())
    }

    /// Ends a loop: whatever breaks out of it continues here.
    fn leave_loop(&mut self) {
        let line = self.last_line;
        let block = self.leave(line);
        for jump in block.breaks {
            self.scope().lead_here(jump);
        }
    }

    fn while_statement(&mut self, line: u32) -> Result<(), Fault> {
        self.advance()?;
        let begin = self.scope().here();
        let exit = self.condition()?;
        self.scope().enter(true);
        self.expect("do")?;
        self.inner_block()?;
        self.expect_match("end", "while", line)?;
        self.emit(Op::Jump(begin));
        self.scope().lead_here(exit);
        self.leave_loop();
        Ok(())
    }

    /// The condition sees the variables of the block.
    fn repeat_statement(&mut self, line: u32) -> Result<(), Fault> {
        self.advance()?;
        self.scope().enter(true);
        let begin = self.scope().here();
        self.scope().enter(false);
        self.block()?;
        self.expect_match("until", "repeat", line)?;
        let again = self.condition()?;
        let inner = self.scope().blocks.last().map_or(0, |block| block.height);
        let line = self.last_line;
        self.leave(line);
        let done = self.emit(Op::Jump(0));
        self.scope().lead_here(again);
        self.emit(Op::Truncate(inner));
        self.emit(Op::Jump(begin));
        self.scope().lead_here(done);
        self.leave_loop();
        Ok(())
    }

    fn for_statement(&mut self, line: u32) -> Result<(), Fault> {
        self.advance()?;
        self.scope().enter(true);
        let first = self.name()?;
        match self.is("=") {
            true => self.numeric_for(first, line)?,
            false => self.iterating_for(first, line)?,
        }
        self.expect_match("end", "for", line)?;
        self.leave_loop();
        Ok(())
    }

    fn numeric_for(&mut self, name: Vec<u8>, line: u32) -> Result<(), Fault> {
        self.advance()?;
        let slot = self.scope().height;
        self.expression()?;
        self.expect(",")?;
        self.expression()?;
        match self.accept(",")? {
            true => self.expression()?,
            false => {
                let one = self.scope().constant(Value::Number(1));
                self.emit(Op::Constant(one));
                self.scope().height += 1;
            }
        }
        self.expect("do")?;
        let begin = self.scope().emit(Op::ForBegin { slot, end: 0 }, line);
        let body = self.scope().here();
        self.scope().enter(false);
        self.declare(name, slot + 3)?;
        self.scope().height += 1;
        self.block()?;
        let last = self.last_line;
        self.leave(last);
        self.scope().emit(Op::ForNext { slot, body }, line);
        self.scope().lead_here(begin);
        Ok(())
    }

    fn iterating_for(&mut self, first: Vec<u8>, line: u32) -> Result<(), Fault> {
        let mut names = vec![first];
        while self.accept(",")? {
            names.push(self.name()?);
        }
        self.expect("in")?;
        let slot = self.scope().height;
        let (count, last) = self.expressions()?;
        self.adjust(3, count, last, slot);
        self.expect("do")?;
        let variables = names.len() as u32;
        let skip = self.emit(Op::Jump(0));
        let body = self.scope().here();
        self.scope().enter(false);
        for (at, name) in names.into_iter().enumerate() {
            self.declare(name, slot + 3 + at as u32)?;
        }
        self.scope().height += variables;
        self.block()?;
        let last = self.last_line;
        self.leave(last);
        self.scope().lead_here(skip);
        self.scope().emit(Op::IterateCall { slot, variables }, line);
        self.scope().emit(Op::IterateNext { slot, body }, line);
        Ok(())
    }

    fn function_statement(&mut self, line: u32) -> Result<(), Fault> {
        self.advance()?;
        let begin = self.scope().height;
        let name = self.name()?;
        let mut place = self.named(&name)?;
        let mut is_method = false;
        while self.is(".") || self.is(":") {
            is_method = self.is(":");
            self.advance()?;
            let field = self.name()?;
            place = self.field(place, &field)?;
            if is_method {
                break;
            }
        }
        let target = self.target(place)?;
        self.function(is_method, line)?;
        self.store(target);
        self.drop_above(begin);
        Ok(())
    }

    fn local_function(&mut self, line: u32) -> Result<(), Fault> {
        let name = self.name()?;
        let slot = self.scope().height;
        // Its own body sees it.
        self.declare(name, slot)?;
        self.function(false, line)
    }

    fn local_statement(&mut self) -> Result<(), Fault> {
        let mut names = vec![self.name()?];
        while self.accept(",")? {
            names.push(self.name()?);
        }
        let slot = self.scope().height;
        let (count, last) = match self.accept("=")? {
            true => self.expressions()?,
            false => (0, Expression::Value),
        };
        self.adjust(names.len() as u32, count, last, slot);
        for (at, name) in names.into_iter().enumerate() {
            self.declare(name, slot + at as u32)?;
        }
        Ok(())
    }

    fn return_statement(&mut self) -> Result<(), Fault> {
        let slot = self.scope().height;
        if !self.ends_block() && !self.is(";") {
            let (count, last) = self.expressions()?;
            match last {
                Expression::Call(at) if count == 1 => {
                    let op = &mut self.scope().prototype.code[at as usize];
                    if let Op::Call { function, .. } = *op {
                        *op = Op::TailCall { function };
                    }
                }
                last => self.all_of(last),
            }
        }
        self.emit(Op::Return(slot));
        self.scope().height = slot;
        self.accept(";")?;
        match self.ends_block() {
            true => Ok(()),
            false => Err(self.expected("<eof>")),
        }
    }

    /// A call, or assignments.
    fn expression_statement(&mut self) -> Result<(), Fault> {
        let begin = self.scope().height;
        let place = self.suffixed()?;
        if self.is("=") || self.is(",") {
            return self.assignment(place, begin);
        }
        match place {
            Place::Call(at) => {
                self.set_results(at, 0);
                self.scope().height = begin;
                Ok(())
            }
            _ => Err(self.error("syntax error")),
        }
    }

    fn assignment(&mut self, first: Place, begin: u32) -> Result<(), Fault> {
        let mut targets = vec![self.target(first)?];
        while self.accept(",")? {
            let place = self.suffixed()?;
            targets.push(self.target(place)?);
        }
        self.expect("=")?;
        let slot = self.scope().height;
        let (count, last) = self.expressions()?;
        self.adjust(targets.len() as u32, count, last, slot);
        for target in targets.into_iter().rev() {
            self.store(target);
        }
        self.drop_above(begin);
        Ok(())
    }

    fn drop_above(&mut self, height: u32) {
        if self.scope().height > height {
            self.emit(Op::Truncate(height));
            self.scope().height = height;
        }
    }

    /// Gives the last of several expressions, which begin at a slot, as many values as are missing.
    fn adjust(&mut self, wanted: u32, count: u32, last: Expression, slot: u32) {
        match last {
            Expression::Call(at) | Expression::Varargs(at) if count <= wanted => {
                self.set_results(at, wanted - (count - 1));
            }
            _ => {
                for _ in count..wanted {
                    self.emit(Op::Nil);
                }
                if count > wanted {
                    self.emit(Op::Truncate(slot + wanted));
                }
            }
        }
        self.scope().height = slot + wanted;
    }

    /// How many results a call or `...` has.
    pub fn set_results(&mut self, at: u32, wanted: u32) {
        match &mut self.scope().prototype.code[at as usize] {
            Op::Call { results, .. } | Op::Varargs(results) => *results = wanted,
            op => unreachable!("{op:?} has one result"),
        }
    }

    /// Lets the last of several expressions have all its results; their number is then unknown.
    pub fn all_of(&mut self, last: Expression) {
        if let Expression::Call(at) | Expression::Varargs(at) = last {
            self.set_results(at, ALL);
            self.scope().height -= 1;
        }
    }

    // Jumps.

    fn break_statement(&mut self) -> Result<(), Fault> {
        let blocks = self.scope().blocks.iter();
        let Some(at) = blocks.rev().position(|block| block.is_loop) else {
            return Err(self.error("<break> not inside a loop"));
        };
        let at = self.scope().blocks.len() - 1 - at;
        let height = self.scope().blocks[at].height;
        self.emit(Op::Truncate(height));
        let jump = self.emit(Op::Jump(0));
        self.scope().blocks[at].breaks.push(jump);
        Ok(())
    }

    fn goto(&mut self, name: Vec<u8>, line: u32) -> Result<(), Fault> {
        let known = self.scope().labels.iter().rev();
        let known = known.clone().find(|label| label.name == name);
        let known = known.map(|label| (label.height, label.at));
        let height = self.scope().height;
        let at = self.emit(Op::Truncate(known.map_or(height, |(height, _)| height)));
        self.emit(Op::Jump(known.map_or(0, |(_, at)| at)));
        if known.is_none() {
            let goto = Goto {
                name,
                line,
                at,
                height,
            };
            if self.scope().gotos.len() >= LABELS_MAX {
                return Err(self.too_many("jumps", LABELS_MAX));
            }
            self.scope().gotos.push(goto);
        }
        Ok(())
    }

    fn label(&mut self) -> Result<(), Fault> {
        self.advance()?;
        let name = self.name()?;
        self.expect("::")?;
        if self.scope().has_label(&name) {
            let name = String::from_utf8_lossy(&name).into_owned();
            return Err(self.fault(&format!("label '{name}' already defined")));
        }
        while self.is(";") || self.is("::") {
            self.deeper(Self::statement)?;
        }
        let mut height = self.scope().height;
        if self.ends_block() && !self.is("until") {
            // Behind the last statement variables are over.
            height = self.scope().blocks.last().map_or(0, |block| block.height);
            if self.scope().blocks.len() == 1 {
                height = self.scope().prototype.parameters;
            }
            if self.scope().height > height {
                self.emit(Op::Truncate(height));
                self.scope().height = height;
            }
        }
        let at = self.scope().here();
        for goto in self.scope().take_gotos(&name) {
            if goto.height < height {
                let message = format!(
                    "<goto {}> at line {} jumps into the scope of a local variable",
                    String::from_utf8_lossy(&name),
                    goto.line
                );
                return Err(self.fault(&message));
            }
            self.scope().prototype.code[goto.at as usize] = Op::Truncate(height);
            self.scope().lead(goto.at + 1, at);
        }
        if self.scope().labels.len() >= LABELS_MAX {
            return Err(self.too_many("labels", LABELS_MAX));
        }
        self.scope().labels.push(Label { name, at, height });
        Ok(())
    }

    /// The name of a variable as a hint.
    pub fn hint(&mut self, kind: fn(u32) -> Hint, name: &[u8]) -> Result<Option<Hint>, Fault> {
        Ok(Some(kind(self.text_constant(name)?)))
    }
}
