//! Descriptors that this process inherited from the one that started it.
//!
//! A shell may have descriptors open that it did not mean for us: the lock of a script, the end of
//! a pipe. All that we open ourselves is closed when another program is started. What we inherited
//! is not, so a daemon that a command starts would hold such a lock for months, and programs that
//! the daemon starts would get it, too.

use std::fs;
use std::io::Result;

/// Keeps inherited descriptors, except the standard streams, from the programs that this process
/// starts. To be called once, before threads are started.
///
/// # Errors
/// The descriptors cannot be listed.
#[expect(
    unsafe_code,
    reason = "descriptors that only the system knows have no owner in this process"
)]
pub fn keep_inherited_from_children() -> Result<()> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // SAFETY: fcntl with these arguments takes numbers only, and changes a flag of the
        // descriptor. If it is no descriptor any more, as that of the list, the call fails.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
    use std::fs::File;

    #[test]
    fn inherited_descriptors_are_closed_in_programs() {
        let inherited = File::open("/dev/null").expect("a file");
        fcntl_setfd(&inherited, FdFlags::empty()).expect("it stays open in programs");
        super::keep_inherited_from_children().expect("a list");
        let flags = fcntl_getfd(&inherited).expect("its flags");
        assert_eq!(flags, FdFlags::CLOEXEC);
        let streams = fcntl_getfd(std::io::stderr()).expect("its flags");
        assert_eq!(streams, FdFlags::empty());
    }
}
