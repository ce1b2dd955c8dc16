//! Keeping keys out of core dumps.

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior};
use rustix::process::{geteuid, setrlimit};

/// From now on the kernel writes no core dump of this process, which has keys in its memory.
///
/// Root's processes also hide their memory from debuggers of others. Those of other users stay as
/// they are: they could not look at their own files below `/proc` any more.
pub fn keep_out_of_dumps() {
    let none = Rlimit {
        current: Some(0),
        maximum: getrlimit(Resource::Core).maximum,
    };
    // Neither can fail: lowering a limit is allowed to everybody.
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
