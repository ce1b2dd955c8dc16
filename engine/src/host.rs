//! The identity of this host among hosts that share its devices: its id and its name.

use cenote_base::settings;

/// This host's id, as OpenZFS finds it; 0 if it has none.
pub(crate) fn hostid() -> u64 {
    let given = settings::HOST_ID.get();
    if given != 0 {
        return given;
    }
    let bytes = std::fs::read("/etc/hostid").unwrap_or_default();
    match bytes.as_slice().try_into() {
        Ok(bytes) => u64::from(u32::from_le_bytes(bytes)),
        Err(_) => 0,
    }
}

/// This host's name; empty if the system does not say.
pub(crate) fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.unwrap_or_default().trim().to_owned()
}
