//! Keeping keys out of core dumps.

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior};
use rustix::process::{geteuid, setrlimit};

/// Disables core dumps of this process, which has keys in its memory.
///
/// Processes of root also hide their memory from other users' debuggers. Those of other users stay
/// dumpable: otherwise they could not read their own files in `/proc`.
/// they are: they could not look at their own files below `/proc` any more.
pub fn keep_out_of_dumps() {
    let none = Rlimit {
        current: Some(0),
        maximum: getrlimit(Resource::Core).maximum,
    };
    // Neither can fail: every process may lower its limits.
    let _ = setrlimit(Resource::Core, none);
    if geteuid().is_root() {
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_dump_is_written() {
        keep_out_of_dumps();
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
    }
}
