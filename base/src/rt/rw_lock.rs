//! Locks for many readers or one writer, with a rank.
//!
//! As a mutex in everything else. A thread that reads does not read the same lock again: a writer
//! that waits in between would stop it for good.

use super::mutex::Held;
#[cfg(debug_assertions)]
use super::order::Description;
use super::order::{self, Lock};
use super::rank::Rank;
use super::simulation::{Key, Point, Stop};
use super::world;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::{PoisonError, TryLockError, TryLockResult};

/// A value that many threads may read or one may change. `R` is its place in the order of locks.
pub struct RwLock<T: ?Sized, R: Rank> {
    rank: PhantomData<fn() -> R>,
    #[cfg(debug_assertions)]
    made: &'static Location<'static>,
    inner: std::sync::RwLock<T>,
}

impl<T, R: Rank> RwLock<T, R> {
    /// A lock around `value`.
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Self {
            rank: PhantomData,
            #[cfg(debug_assertions)]
            made: Location::caller(),
            inner: std::sync::RwLock::new(value),
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        let value = self.inner.into_inner();
        value.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized, R: Rank> RwLock<T, R> {
    /// Waits until no thread changes the value.
    ///
    /// # Panics
    /// In debug builds, if a lock is held that has to be taken after this one.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let (lock, at) = (self.described(true), Location::caller());
        order::check(&lock, at);
        let wait = || self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let inner = match world::are_others() {
            false => wait(),
            true => {
                let attempt = || taken(self.inner.try_read());
                take_anywhere(&lock, Point::of("read", R::INFO, at), wait, attempt)
            }
        };
        order::push(&lock, at);
        let held = Held { lock };
        RwLockReadGuard { inner, held }
    }

    /// Waits until no other thread uses the value.
    ///
    /// # Panics
    /// In debug builds, if a lock is held that has to be taken after this one.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let (lock, at) = (self.described(false), Location::caller());
        order::check(&lock, at);
        let wait = || self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let inner = match world::are_others() {
            false => wait(),
            true => {
                let attempt = || taken(self.inner.try_write());
                take_anywhere(&lock, Point::of("write", R::INFO, at), wait, attempt)
            }
        };
        order::push(&lock, at);
        let held = Held { lock };
        RwLockWriteGuard { inner, held }
    }

    /// The value to read, unless another thread changes it.
    #[inline]
    #[track_caller]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        let (lock, at) = (self.described(true), Location::caller());
        let attempt = || taken(self.inner.try_read());
        let inner = try_anywhere(&lock, "try read", at, attempt)?;
        let held = Held { lock };
        Some(RwLockReadGuard { inner, held })
    }

    /// The value to change, unless another thread uses it.
    #[inline]
    #[track_caller]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        let (lock, at) = (self.described(false), Location::caller());
        let attempt = || taken(self.inner.try_write());
        let inner = try_anywhere(&lock, "try write", at, attempt)?;
        let held = Held { lock };
        Some(RwLockWriteGuard { inner, held })
    }

    /// The value. The exclusive reference proves that no other thread uses it.
    pub fn get_mut(&mut self) -> &mut T {
        let value = self.inner.get_mut();
        value.unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn described(
        &self,
        #[cfg_attr(not(debug_assertions), expect(unused))] is_shared: bool,
    ) -> Lock {
        Lock {
            key: (&raw const self.inner).cast::<()>().addr(),
            rank: R::INFO,
            #[cfg(debug_assertions)]
            more: Description {
                guarded: std::any::type_name::<T>,
                made: self.made,
                is_shared,
            },
        }
    }
}

fn taken<G>(result: TryLockResult<G>) -> Option<G> {
    match result {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Takes the lock in any world.
#[cold]
fn take_anywhere<G>(
    lock: &Lock,
    point: Point,
    wait: impl FnOnce() -> G,
    attempt: impl Fn() -> Option<G>,
) -> G {
    // No task stops while it has a leaf, so that waits for other worlds at most.
    let Some(task) = world::task().filter(|_| !lock.rank.leaf) else {
        return wait();
    };
    task.pause(point);
    loop {
        if let Some(guard) = attempt() {
            task.hold(lock.key, point);
            return guard;
        }
        task.block(Key::Lock(lock.key), None, point, Stop::Allowed);
    }
}

#[inline]
fn try_anywhere<G>(
    lock: &Lock,
    verb: &'static str,
    at: &'static Location<'static>,
    attempt: impl Fn() -> Option<G>,
) -> Option<G> {
    let point = Point::of(verb, lock.rank, at);
    let task = world::task().filter(|_| !lock.rank.leaf);
    if let Some(task) = &task {
        task.pause(point);
    }
    let guard = attempt()?;
    if let Some(task) = &task {
        task.hold(lock.key, point);
    }
    order::push(lock, at);
    Some(guard)
}

/// The value of an [`RwLock`] to read, until it is dropped.
#[must_use = "the lock is released when the guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    // Fields are dropped in this order.
    inner: std::sync::RwLockReadGuard<'a, T>,
    #[expect(dead_code, reason = "its destructor counts")]
    held: Held,
}

/// The value of an [`RwLock`] to change, until it is dropped.
#[must_use = "the lock is released when the guard is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    // Fields are dropped in this order.
    inner: std::sync::RwLockWriteGuard<'a, T>,
    #[expect(dead_code, reason = "its destructor counts")]
    held: Held,
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: Default, R: Rank> Default for RwLock<T, R> {
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T, R: Rank> From<T> for RwLock<T, R> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug, R: Rank> fmt::Debug for RwLock<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
