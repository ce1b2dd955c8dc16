//! What belongs to the process and to no world.
//!
//! The memory of blocks is mapped, filled and joined into huge pages by threads that all worlds of
//! a process share, and requests to object stores wait in the operating system. A simulated
//! scheduler must not run such threads, and a virtual clock cannot measure the kernel's work. So
//! both take the system's own thread, channel and clock, here, where each use is seen.
//! Whatever a world decides by must not depend on them.

pub use std::sync::mpsc;
pub use std::thread::{JoinHandle, sleep};
pub use std::time::Instant;

/// Starts a thread outside of all worlds.
///
/// # Errors
/// The system has no room for another one.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
}
