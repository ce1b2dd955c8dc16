//! Tests that cannot run where they are: they say so where it is seen, and may not when everything
//! they need is promised to be there.
//!
//! What a test prints is kept from view while it passes, so that a skip goes past that to the
//! standard error of the test program, and into the list that `./test` prints at its end.
//!
//! There are two kinds. [`skip!`](crate::skip!) is for what a machine has or has not: the right to
//! mount, a feature of its kernel. [`missing!`](crate::missing!) is for what `./test` installs: on
//! machines that are there to test ([`is_complete`]) that is a failure.

use std::fmt::Arguments;
use std::fs::File;
use std::io::Write;
use std::thread;

/// Names the file that collects what was skipped, a line each.
const LIST: &str = "CENOTE_SKIP_LIST";

/// Says that the test cannot run, and why, as `format!` would. The test has to return then.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => { $crate::skip::note(::std::format_args!($($reason)*)) };
}

/// Says that something is missing that `./test` installs, or fails where it is to be there.
#[macro_export]
macro_rules! missing {
    ($($what:tt)*) => { $crate::skip::missing(::std::format_args!($($what)*)) };
}

/// Whether all that `./test` installs is to be there: in CI, and where OpenZFS is installed to
/// judge what tests write.
pub fn is_complete() -> bool {
    is_ci() || crate::referee::path().is_some()
}

/// Whether this is a run of CI.
pub fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false")
}

/// See [`skip!`](crate::skip!).
pub fn note(reason: Arguments<'_>) {
    let thread = thread::current();
    let line = format!("skipped {}: {reason}\n", thread.name().unwrap_or("a test"));
    // One call for each, so that the lines of several tests stay whole.
    let is_seen = std::io::stderr().write_all(line.as_bytes());
    is_seen.expect("standard error can be written to");
    if let Some(path) = std::env::var_os(LIST) {
        let list = File::options().create(true).append(true).open(path);
        let is_listed = list.and_then(|mut list| list.write_all(line.as_bytes()));
        is_listed.expect("the list of skipped tests can be written to");
    }
}

/// See [`missing!`](crate::missing!).
///
/// # Panics
/// Where it is to be there.
pub fn missing(what: Arguments<'_>) {
    assert!(
        !is_complete(),
        "{what}, which ./test installs: a test that cannot run has failed"
    );
    note(what);
}
