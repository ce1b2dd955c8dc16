//! Values that are made once, when they are first needed.
//!
//! The standard library's cell would stop the whole world if a task that makes the value had to
//! wait while others want it, so initialisers run under a lock of ours. Where the initialiser
//! neither locks nor waits, the standard library's types do; statics, which all worlds share, need
//! those.

use super::mutex::Mutex;
use super::ranks::Once;

/// A cell that is written once.
#[derive(Debug)]
pub struct OnceLock<T> {
    cell: std::sync::OnceLock<T>,
    making: Mutex<(), Once>,
}

impl<T> OnceLock<T> {
    /// An empty cell.
    #[track_caller]
    pub const fn new() -> Self {
        Self {
            cell: std::sync::OnceLock::new(),
            making: Mutex::new(()),
        }
    }

    /// The value, if there is one.
    pub fn get(&self) -> Option<&T> {
        self.cell.get()
    }

    /// Sets the value; gives it back if there is one already.
    pub fn set(&self, value: T) -> Result<(), T> {
        self.cell.set(value)
    }

    /// The value. If there is none yet, `make` makes it.
    #[track_caller]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.cell.get() {
            return value;
        }
        let _making = self.making.lock();
        match self.cell.get() {
            Some(value) => value,
            None => {
                let made = make();
                self.cell.get_or_init(|| made)
            }
        }
    }

    /// The value. `self` is owned, so no other thread uses it.
    pub fn into_inner(self) -> Option<T> {
        self.cell.into_inner()
    }
}

impl<T> Default for OnceLock<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self {
            cell: value.into(),
            making: Mutex::new(()),
        }
    }
}
