//! Running commands against canned answers, for the tests of the crates that have commands.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use crate::context::{Context, Daemon};

#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The result of a command.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    /// The exit code.
    pub code: u8,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs a command with a context that gets its answers from `daemon`, at a fixed time.
pub fn ran(daemon: impl Daemon + 'static, run: impl FnOnce(&mut Context) -> u8) -> Ran {
    let (out, err) = (Shared::default(), Shared::default());
    let outputs = (Box::new(out.clone()), Box::new(err.clone()));
    let mut context = Context::new(outputs.0, outputs.1, Box::new(daemon));
    context.now = 1_800_000_000;
    let code = run(&mut context);
    let code = context.finish(code);
    let text = |shared: Shared| String::from_utf8_lossy(&shared.0.take()).into_owned();
    Ran {
        code,
        out: text(out),
        err: text(err),
    }
}
