//! Commands that mount and unmount: `cenote mount`, `unmount`, and what mount(8) calls.

pub mod helper;
pub mod mount;
pub mod unmount;
