//! Taking locks.
//!
//! A lock whose holder panicked is taken as it is: what it guards is changed in single steps.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
