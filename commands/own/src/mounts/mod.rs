//! Commands that mount and unmount: `cenote mount` and `unmount`.

pub mod mount;
pub mod unmount;
