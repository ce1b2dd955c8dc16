//! Mutexes with a rank.
//!
//! A [`Mutex`] is the standard library's with three things around it: in debug builds the check
//! of the order of locks, in simulated worlds a scheduling point, and everywhere the answer to
//! poisoning, which is given here once. A panic while a lock is held does not make the lock
//! unusable: what it guards keeps its invariants by ordinary means (values are changed in one
//! step, or drop guards finish the change), and a panic within a transaction suspends the pool
//! (`dmu::txg`), so nothing half done reaches the disk.

#[cfg(debug_assertions)]
use super::order::Description;
use super::order::{self, Lock};
use super::rank::{Rank, RankInfo};
use super::simulation::{Key, Point, Stop, Task};
use super::world;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::{PoisonError, TryLockError};

/// A value that one thread at a time may use. `R` is its place in the order of locks.
pub struct Mutex<T: ?Sized, R: Rank> {
    rank: PhantomData<fn() -> R>,
    #[cfg(debug_assertions)]
    made: &'static Location<'static>,
    inner: std::sync::Mutex<T>,
}

impl<T, R: Rank> Mutex<T, R> {
    /// A mutex around `value`.
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Self {
            rank: PhantomData,
            #[cfg(debug_assertions)]
            made: Location::caller(),
            inner: std::sync::Mutex::new(value),
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        let value = self.inner.into_inner();
        value.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized, R: Rank> Mutex<T, R> {
    /// Waits until no other thread has the value.
    ///
    /// # Panics
    /// In debug builds, if a lock is held that has to be taken after this one.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let (lock, at) = (self.described(), Location::caller());
        order::check(&lock, at);
        let inner = match world::are_others() {
            false => self.inner.lock().unwrap_or_else(PoisonError::into_inner),
            true => lock_anywhere(&self.inner, Point::of("lock", R::INFO, at), R::INFO.leaf),
        };
        self.guard(inner, lock, at)
    }

    /// The value, unless another thread has it. Does not wait, and so needs no order.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let (lock, at) = (self.described(), Location::caller());
        if let Some(task) = world::task().filter(|_| !R::INFO.leaf) {
            task.pause(Point::of("try lock", R::INFO, at));
        }
        let inner = try_lock(&self.inner)?;
        if let Some(task) = world::task().filter(|_| !R::INFO.leaf) {
            task.hold(lock.key, Point::of("lock", R::INFO, at));
        }
        Some(self.guard(inner, lock, at))
    }

    /// The value. The exclusive reference proves that no other thread uses it.
    pub fn get_mut(&mut self) -> &mut T {
        let value = self.inner.get_mut();
        value.unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn described(&self) -> Lock {
        Lock {
            key: (&raw const self.inner).cast::<()>().addr(),
            rank: R::INFO,
            #[cfg(debug_assertions)]
            more: Description {
                guarded: std::any::type_name::<T>,
                made: self.made,
                is_shared: false,
            },
        }
    }

    #[inline]
    fn guard<'a>(
        &'a self,
        inner: std::sync::MutexGuard<'a, T>,
        lock: Lock,
        at: &'static Location<'static>,
    ) -> MutexGuard<'a, T> {
        order::push(&lock, at);
        let mutex = &self.inner;
        let held = Held { lock };
        MutexGuard { inner, mutex, held }
    }
}

fn try_lock<T: ?Sized>(mutex: &std::sync::Mutex<T>) -> Option<std::sync::MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Takes a mutex in any world.
#[cold]
fn lock_anywhere<T: ?Sized>(
    mutex: &std::sync::Mutex<T>,
    point: Point,
    is_leaf: bool,
) -> std::sync::MutexGuard<'_, T> {
    // No task stops while it has a leaf, so that waits for other worlds at most.
    let Some(task) = world::task().filter(|_| !is_leaf) else {
        return mutex.lock().unwrap_or_else(PoisonError::into_inner);
    };
    task.pause(point);
    relock_in_task(&task, mutex, point)
}

fn relock_in_task<'a, T: ?Sized>(
    task: &Task,
    mutex: &'a std::sync::Mutex<T>,
    point: Point,
) -> std::sync::MutexGuard<'a, T> {
    let key = std::ptr::from_ref(mutex).cast::<()>().addr();
    loop {
        if let Some(guard) = try_lock(mutex) {
            task.hold(key, point);
            return guard;
        }
        task.block(Key::Lock(key), None, point, Stop::Allowed);
    }
}

/// The use of the value of a [`Mutex`], until it is dropped.
#[must_use = "the mutex is released when the guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    // Fields are dropped in this order.
    inner: std::sync::MutexGuard<'a, T>,
    mutex: &'a std::sync::Mutex<T>,
    held: Held,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    pub(super) fn rank(&self) -> &'static RankInfo {
        self.held.lock.rank
    }

    /// Releases the mutex within `wait`, a wait of the standard library's.
    #[inline]
    pub(super) fn wait_real<U>(
        self,
        at: &'static Location<'static>,
        wait: impl FnOnce(std::sync::MutexGuard<'a, T>) -> (std::sync::MutexGuard<'a, T>, U),
    ) -> (Self, U) {
        let Self { inner, mutex, held } = self;
        held.suspend(at);
        let (inner, result) = wait(inner);
        order::push(&held.lock, at);
        (Self { inner, mutex, held }, result)
    }

    /// Releases the mutex while `wait` waits in a simulated world.
    pub(super) fn wait_in_task<U>(
        self,
        task: &Task,
        at: &'static Location<'static>,
        wait: impl FnOnce() -> U,
    ) -> (Self, U) {
        let Self { inner, mutex, held } = self;
        held.suspend(at);
        drop(inner);
        task.release(held.lock.key);
        let result = wait();
        let point = Point::of("lock again", held.lock.rank, at);
        let inner = relock_in_task(task, mutex, point);
        order::push(&held.lock, at);
        (Self { inner, mutex, held }, result)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// What has to be done after a lock was released: the last field of a guard.
#[derive(Debug)]
pub(super) struct Held {
    pub lock: Lock,
}

impl Held {
    /// The lock is about to be released for a wait, and to be taken again afterwards.
    fn suspend(&self, at: &'static Location<'static>) {
        assert!(
            !self.lock.rank.leaf,
            "a wait at {at} with {}, a leaf, under which nothing is waited for",
            self.lock.rank.name
        );
        order::remove(self.lock.key);
        order::check(&self.lock, at);
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        order::remove(self.lock.key);
        if world::are_others() {
            release_anywhere(&self.lock);
        }
    }
}

#[cold]
fn release_anywhere(lock: &Lock) {
    if let Some(task) = world::task().filter(|_| !lock.rank.leaf) {
        task.release(lock.key);
        task.pause(Point::unlock(lock.rank));
    }
}

impl<T: Default, R: Rank> Default for Mutex<T, R> {
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T, R: Rank> From<T> for Mutex<T, R> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug, R: Rank> fmt::Debug for Mutex<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
