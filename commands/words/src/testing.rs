//! Running commands against canned answers, for the tests of the crates that have commands.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use crate::context::{Context, Daemon};
use crate::flag::Flag;

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

/// The options that a synopsis shows, with their dashes, and whether each stands beside others
/// after one dash.
fn shown_in(synopsis: &str) -> Vec<(String, bool)> {
    let mut shown = Vec::new();
    for word in synopsis.split(['[', ']', '<', '>', '|', ',', ' ', '\n']) {
        match word
            .strip_prefix('-')
            .map(|rest| (rest, rest.strip_prefix('-')))
        {
            None => {}
            Some((_, Some(_))) => shown.push((word.to_owned(), false)),
            Some((letters, None)) => {
                let is_beside = letters.chars().count() > 1;
                shown.extend(
                    letters
                        .chars()
                        .map(|letter| (format!("-{letter}"), is_beside)),
                );
            }
        }
    }
    shown
}

/// Where a synopsis and a table of options differ. A synopsis is complete if it shows every option
/// that is not marked as hidden.
pub fn faults_of_synopsis(synopsis: &str, flags: &[Flag], is_complete: bool) -> Vec<String> {
    let mut faults = Vec::new();
    let shown = shown_in(synopsis);
    for (word, is_beside) in &shown {
        match flags.iter().find(|flag| flag.is(word)) {
            None => faults.push(format!("shows {word}, which is not an option")),
            Some(flag) if flag.is_hidden => faults.push(format!("shows {word}, which is hidden")),
            Some(flag) if *is_beside && flag.value.is_some() => {
                faults.push(format!("shows {word} without its value"));
            }
            Some(_) => {}
        }
    }
    let is_shown = |flag: &Flag| shown.iter().any(|(word, _)| flag.is(word));
    for flag in flags.iter().filter(|flag| is_complete && !flag.is_hidden) {
        if !is_shown(flag) {
            faults.push(format!("does not show {}", flag.name()));
        }
    }
    faults
}
