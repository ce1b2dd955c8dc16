//! The kernel's figures about the memory of this machine.

use std::fs::read_to_string;

/// The available memory of the machine, in bytes.
pub fn memory_available() -> Option<u64> {
    let text = read_to_string("/proc/meminfo").ok()?;
    meminfo(&text, "MemAvailable:")
}

/// The value in bytes of a line of `/proc/meminfo`.
pub fn meminfo(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}
