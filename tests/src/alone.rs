//! Tests that change what belongs to the whole process, such as the settings.
//!
//! A crate's tests are one program, and run side by side in it. [`alone`] starts that program
//! again for one test, so that nobody else sees what it changes.

use std::any::type_name;
use std::process::Command;

/// Says in the child's environment that this is the child.
const INSIDE: &str = "CENOTE_TEST_ALONE";

/// Runs `body`, a closure in a test's function, in a process of its own; fails as it fails.
pub fn alone<F: FnOnce()>(body: F) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    // Of `all::settings::the_test::{{closure}}` the test's name is what lies between.
    let test = type_name::<F>()
        .trim_end_matches("::{{closure}}")
        .split_once("::")
        .expect("a closure's type has a path")
        .1;
    let program = std::env::current_exe().expect("the test program has a path");
    let output = Command::new(program)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, test)
        .output()
        .expect("the test program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    eprint!("{errors}");
    let is_passed = output.status.success() && text.contains("1 passed");
    assert!(is_passed, "{test} failed in its own process:\n{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "failed in its own process")]
    fn failures_come_back() {
        alone(|| panic!("on purpose"));
    }
}
