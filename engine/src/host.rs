//! The identity of this host among hosts that share its devices: its id.

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
