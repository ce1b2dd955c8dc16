//! Calls, their results, coroutines, and how errors leave them.

use super::code::ALL;
use super::fault::Fault;
use super::heap::Function;
use super::machine::{Arguments, Builtin, CALLBACKS_MAX, Flow, Vm};
use super::thread::{Code, Frame, Status, Then};
use super::value::{FunctionId, NativeId, ThreadId, Value};
use std::rc::Rc;

/// Coroutines that wait for one another.
const RESUMED_MAX: usize = 100;

/// `__call` of what has `__call` itself.
const CALLED_MAX: usize = 100;

/// What a call of a value comes to.
enum Callee {
    Lua(FunctionId),
    Native(NativeId, Option<FunctionId>),
}

impl Vm<'_> {
    /// Calls the value at a place of the stack with what is above.
    pub fn call_at(&mut self, at: usize, then: Then) -> Result<Flow, Fault> {
        match self.callee(at)? {
            Callee::Lua(function) => self.enter(function, at, then, false),
            Callee::Native(native, state) => self.call_native((native, state), at, then),
        }
    }

    /// The same in place of the present call.
    pub fn tail_call(&mut self, at: usize) -> Result<Flow, Fault> {
        match self.callee(at)? {
            Callee::Native(native, state) => {
                // It needs no frame of its own, and its caller's shows where it was called.
                let then = Then::Keep(ALL);
                let flow = self.call_native((native, state), at, then)?;
                // Its results are returned by the next instruction.
                Ok(flow)
            }
            Callee::Lua(function) => {
                let frame = self.current().pop_frame();
                let (to, then) = (frame.function, frame.then);
                let id = self.thread;
                self.heap.close(id, frame.base());
                self.current().stack.drain(to..at);
                self.enter(function, to, then, true)
            }
        }
    }

    /// What is called: with a `__call`, that is put before the value.
    fn callee(&mut self, at: usize) -> Result<Callee, Fault> {
        for _ in 0..CALLED_MAX {
            let value = self.current().stack[at].clone();
            match value {
                Value::Native(native) => return Ok(Callee::Native(native, None)),
                Value::Function(function) => {
                    return Ok(match self.heap.function(function) {
                        Function::Lua { .. } => Callee::Lua(function),
                        Function::Bound { native, .. } => Callee::Native(*native, Some(function)),
                    });
                }
                value => {
                    let handler = self.metamethod(&value, "__call")?;
                    if handler.is_nil() {
                        return Err(self.operand_error("call", &value));
                    }
                    self.current().stack.insert(at, handler);
                }
            }
        }
        Err(self.error("'__call' chain too long"))
    }

    fn enter(
        &mut self,
        function: FunctionId,
        at: usize,
        then: Then,
        is_tail: bool,
    ) -> Result<Flow, Fault> {
        let Function::Lua { prototype, .. } = self.heap.function(function) else {
            unreachable!("it is a function of the program")
        };
        let prototype = Rc::clone(prototype);
        let parameters = prototype.parameters as usize;
        let stack = &mut self.current().stack;
        let first_extra = at + 1 + parameters;
        let extra = match prototype.is_variadic && stack.len() > first_extra {
            true => stack.split_off(first_extra),
            false => Vec::new(),
        };
        stack.resize(first_extra, Value::Nil);
        let extras = extra.len();
        let frame = Frame {
            code: Code::Lua {
                prototype,
                function,
                next: 0,
                extra,
            },
            function: at,
            then,
            is_tail,
        };
        let id = self.thread;
        self.current().push_frame(frame);
        self.heap.count_thread(id)?;
        self.charge_values(extras)?;
        Ok(Flow::On)
    }

    fn call_native(
        &mut self,
        (native, state): (NativeId, Option<FunctionId>),
        at: usize,
        then: Then,
    ) -> Result<Flow, Fault> {
        let thread = self.thread;
        let frame = Frame {
            code: Code::Native(native),
            function: at,
            then,
            is_tail: false,
        };
        self.current().push_frame(frame);
        self.heap.count_thread(thread)?;
        let count = self.top() - at - 1;
        let arguments = Arguments {
            base: at + 1,
            count,
            state,
        };
        match self.natives[native.0 as usize] {
            Builtin::Plain(function) => {
                let results = function(self, arguments)?;
                self.current().pop_frame();
                self.deliver(at, results as usize, then)
            }
            Builtin::Resume => match self.argument(arguments, 0) {
                Value::Thread(thread) => self.resume(thread, at + 2),
                _ => Err(self.argument_error(arguments, 0, "coroutine expected")),
            },
            Builtin::Wrapped => {
                let function = state.expect("it was made with its coroutine");
                match self.heap.state_mut(function)[0] {
                    Value::Thread(thread) => self.resume(thread, at + 1),
                    _ => unreachable!("it was made with its coroutine"),
                }
            }
            Builtin::Yield => self.suspend(at + 1),
        }
    }

    /// Puts the last `count` values on the stack where a call's results belong.
    pub fn deliver(&mut self, at: usize, count: usize, then: Then) -> Result<Flow, Fault> {
        let thread = self.thread;
        let end = self.top();
        self.heap.close(thread, at);
        self.current().stack.drain(at..end - count);
        match then {
            Then::Keep(ALL) => Ok(Flow::On),
            Then::Keep(wanted) => {
                let len = at + wanted as usize;
                self.current().stack.resize(len, Value::Nil);
                Ok(Flow::On)
            }
            Then::Truth { is_negated } => {
                let stack = &mut self.current().stack;
                let is_true = stack.get(at).is_some_and(Value::is_true);
                stack.truncate(at);
                stack.push(Value::Boolean(is_true != is_negated));
                Ok(Flow::On)
            }
            Then::Concat(count) => {
                self.current().stack.resize(at + 1, Value::Nil);
                self.concat(count)
            }
            Then::Stop => Ok(Flow::Stop),
            Then::End => {
                let results = self.current().stack.split_off(at);
                let ended = self.current();
                ended.status = Status::Dead;
                ended.stack = Vec::new();
                self.wake_resumer(Ok(results))
            }
        }
    }

    /// Returns from a function of the program with all from a place on.
    pub fn return_from(&mut self, from: usize) -> Result<Flow, Fault> {
        let count = self.top() - from;
        self.charge_values(count)?;
        let frame = self.current().pop_frame();
        self.deliver(frame.function, count, frame.then)
    }

    /// Calls a value for a built-in function.
    ///
    /// # Errors
    /// Those of the call; and too many callbacks within one another.
    pub fn call(&mut self, function: &Value, arguments: &[Value]) -> Result<Vec<Value>, Fault> {
        if self.callbacks >= CALLBACKS_MAX {
            return Err(self.plain_error("C stack overflow"));
        }
        self.charge(1)?;
        let at = self.top();
        let frames = self.current().frames.len();
        self.push(function.clone());
        self.current().stack.extend(arguments.iter().cloned());
        // The function may drop its own arguments while the caller still needs them.
        let roots = self.heap.roots.len();
        self.heap.roots.push(function.clone());
        self.heap.roots.extend(arguments.iter().cloned());
        self.callbacks += 1;
        let thread = self.thread;
        let called = match self.call_at(at, Then::Stop) {
            Ok(flow) => Ok(flow),
            Err(mut fault) if self.heap.thread(thread).frames.len() == frames => {
                // It is no function: no call has begun.
                self.trace(&mut fault);
                self.truncate(at);
                Err(fault)
            }
            Err(fault) => self.unwind(fault),
        };
        let called = match called {
            Ok(Flow::On) => self.run(),
            Ok(Flow::Stop) => Ok(()),
            Err(fault) => Err(fault),
        };
        self.callbacks -= 1;
        self.heap.roots.truncate(roots);
        called?;
        Ok(self.current().stack.split_off(at))
    }

    // Coroutines.

    /// Continues a coroutine, with the values from a place on.
    fn resume(&mut self, thread: ThreadId, from: usize) -> Result<Flow, Fault> {
        let values = self.current().stack.split_off(from);
        self.charge_values(values.len())?;
        let status = self.heap.thread(thread).status;
        let refusal = match status {
            Status::Suspended if self.resumed() >= RESUMED_MAX => Some("C stack overflow"),
            Status::Suspended => None,
            Status::Dead => Some("cannot resume dead coroutine"),
            Status::Running | Status::Normal => Some("cannot resume non-suspended coroutine"),
        };
        if let Some(refusal) = refusal {
            let refusal = self.text(refusal.as_bytes())?;
            return self.answer_resumer(Err(Fault::raised(refusal)));
        }
        self.current().status = Status::Normal;
        let resumer = self.thread;
        self.thread = thread;
        let own = self.current();
        own.resumer = Some(resumer);
        own.status = Status::Running;
        if own.frames.is_empty() {
            own.stack.extend(values);
            self.heap.count_thread(thread)?;
            return self.call_at(0, Then::End);
        }
        // It waits in a call of `yield`.
        let frame = own.pop_frame();
        let count = values.len();
        own.stack.extend(values);
        self.heap.count_thread(thread)?;
        self.deliver(frame.function, count, frame.then)
    }

    fn resumed(&self) -> usize {
        let above = |id: &ThreadId| self.heap.thread(*id).resumer;
        std::iter::successors(Some(self.thread), above).count()
    }

    fn suspend(&mut self, from: usize) -> Result<Flow, Fault> {
        let thread = self.current();
        if thread.resumer.is_none() {
            return Err(self.plain_error("attempt to yield from outside a coroutine"));
        }
        if thread.is_waited_for() {
            return Err(self.plain_error("attempt to yield across a C-call boundary"));
        }
        let values = thread.stack.split_off(from);
        thread.status = Status::Suspended;
        self.charge_values(values.len())?;
        self.wake_resumer(Ok(values))
    }

    /// Goes back to the coroutine that resumed this one.
    fn wake_resumer(&mut self, outcome: Result<Vec<Value>, Fault>) -> Result<Flow, Fault> {
        let resumer = self.current().resumer.take();
        self.thread = resumer.expect("a coroutine runs because it was resumed");
        self.current().status = Status::Running;
        self.answer_resumer(outcome)
    }

    /// Ends the call of `resume` or of a wrapped coroutine.
    fn answer_resumer(&mut self, outcome: Result<Vec<Value>, Fault>) -> Result<Flow, Fault> {
        let frame = self.current().frames.last();
        let Some(Code::Native(native)) = frame.map(|frame| &frame.code) else {
            unreachable!("the coroutine was resumed by a call")
        };
        let native = *native;
        let is_wrapped = matches!(self.natives[native.0 as usize], Builtin::Wrapped);
        let mut values = Vec::new();
        match outcome {
            Ok(results) if is_wrapped => values = results,
            Ok(results) => {
                values.push(Value::Boolean(true));
                values.extend(results);
            }
            Err(fault) if is_wrapped => return Err(self.with_place(fault)?),
            Err(Fault::Raised { value, .. }) => {
                values.extend([Value::Boolean(false), value]);
            }
            Err(fault) => return Err(fault),
        }
        let frame = self.current().pop_frame();
        let count = values.len();
        self.current().stack.extend(values);
        self.deliver(frame.function, count, frame.then)
    }

    // Errors.

    /// Ends the calls that an error leaves, up to what waits for it: a `resume`, or a built-in
    /// function.
    pub fn unwind(&mut self, mut fault: Fault) -> Result<Flow, Fault> {
        loop {
            self.trace(&mut fault);
            let frames = &self.current().frames;
            let waiting = frames.iter().rposition(|frame| frame.then == Then::Stop);
            if let Some(waiting) = waiting {
                self.drop_frames(waiting);
                return Err(fault);
            }
            if matches!(fault, Fault::Stopped(_)) || self.current().resumer.is_none() {
                return Err(fault);
            }
            self.drop_frames(0);
            self.current().status = Status::Dead;
            match self.wake_resumer(Err(fault)) {
                Ok(flow) => return Ok(flow),
                Err(next) => fault = next,
            }
        }
    }

    /// Adds to an error that no coroutine catches where it happened.
    fn trace(&mut self, fault: &mut Fault) {
        if matches!(fault, Fault::Stopped(_)) && self.stop_trace.is_none() {
            self.stop_trace = Some(self.traceback());
        }
        if let Fault::Raised { trace, .. } = fault
            && self.thread == self.main
            && trace.is_none()
        {
            *trace = Some(self.traceback());
        }
    }

    /// Ends calls, the outermost of which is this one.
    fn drop_frames(&mut self, outermost: usize) {
        while self.current().frames.len() > outermost {
            let frame = self.current().pop_frame();
            self.truncate(frame.function);
        }
    }
}
