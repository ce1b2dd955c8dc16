//! The machine.

/// This host's name; empty if the system does not say.
pub fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.unwrap_or_default().trim().to_owned()
}

/// Whether this process runs as root and sees everybody's ids as they are: not in a user namespace
/// of its own, where the files of all others have no visible owner.
pub fn is_machine_root() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map");
    let is_whole = map.is_ok_and(|map| map.split_whitespace().eq(["0", "0", "4294967295"]));
    is_whole && rustix::process::geteuid().is_root()
}
