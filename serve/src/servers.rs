//! Servers by their addresses: those of volumes, and those of sites.
//!
//! Each server has its addresses and what it serves, so that what is served on one address is not
//! served on another. The lock is for looking: a server is started and ended without it, because
//! both may take a while, and clients that come in or go ask for what is served meanwhile.
//!
//! *Invariants.* Nothing is given to a server that is ending: it is given under the lock, and a
//! server that has nothing to serve any more is taken out under the same lock. No address has two
//! servers: whoever starts one has its addresses reserved, and others who mean one of them wait.

use cenote_base::rt::{Condvar, Mutex, ranks};
use cenote_control::model::ControlError;

/// A server that listens. A clone is the same one.
pub(crate) trait Listening: Clone {
    /// Whether it listens on this address, or was asked to.
    fn is_at(&self, address: &str) -> bool;

    /// Whether another one is the same.
    fn is(&self, other: &Self) -> bool;

    /// Whether no command asks for anything that it serves.
    fn has_nothing(&self) -> bool;
}

struct Table<S> {
    /// In the order in which they began.
    running: Vec<S>,
    /// The addresses of those that are being started.
    starting: Vec<Vec<String>>,
}

/// The servers of one kind.
pub(crate) struct Servers<S> {
    table: Mutex<Table<S>, ranks::Servers>,
    /// A start ended.
    started: Condvar,
}

impl<S> Default for Servers<S> {
    fn default() -> Self {
        let table = Table {
            running: Vec::new(),
            starting: Vec::new(),
        };
        Self {
            table: Mutex::new(table),
            started: Condvar::default(),
        }
    }
}

/// Addresses of a server that is being started, until it is dropped.
struct Reserved<'a, S> {
    servers: &'a Servers<S>,
    addresses: &'a [String],
}

impl<S> Drop for Reserved<'_, S> {
    fn drop(&mut self) {
        let mut table = self.servers.table.lock();
        let own = table.starting.iter().position(|one| one == self.addresses);
        table.starting.swap_remove(own.expect("it was reserved"));
        drop(table);
        self.servers.started.notify_all();
    }
}

impl<S: Listening> Servers<S> {
    /// Those that run, in the order in which they began.
    pub fn running(&self) -> Vec<S> {
        self.table.lock().running.clone()
    }

    /// The server that `is_meant`, after `join` gave it more to serve; or one that `start` starts
    /// at these addresses. `join` is called with the lock: it must not wait.
    ///
    /// # Errors
    /// Those of `join` and `start`.
    pub fn join_or_start(
        &self,
        addresses: &[String],
        is_meant: impl Fn(&S) -> bool,
        join: impl FnOnce(&S) -> Result<(), ControlError>,
        start: impl FnOnce() -> Result<S, ControlError>,
    ) -> Result<S, ControlError> {
        let is_starting = |table: &mut Table<S>| {
            let mut others = table.starting.iter().flatten();
            others.any(|other| addresses.contains(other))
        };
        let mut table = self.started.wait_while(self.table.lock(), is_starting);
        if let Some(found) = table.running.iter().find(|one| is_meant(one)) {
            join(found)?;
            return Ok(found.clone());
        }
        table.starting.push(addresses.to_vec());
        drop(table);
        let reserved = Reserved {
            servers: self,
            addresses,
        };
        let server = start()?;
        self.table.lock().running.push(server.clone());
        drop(reserved);
        Ok(server)
    }

    /// Takes a server out, if it is there.
    pub fn take(&self, ended: &S) -> Option<S> {
        self.take_if(ended, |_| true)
    }

    /// Takes a server out for which no command asks any more.
    pub fn take_unused(&self, ended: &S) -> Option<S> {
        self.take_if(ended, S::has_nothing)
    }

    fn take_if(&self, ended: &S, may_go: impl Fn(&S) -> bool) -> Option<S> {
        let mut table = self.table.lock();
        let is_it = |one: &S| one.is(ended) && may_go(one);
        let found = table.running.iter().position(is_it)?;
        Some(table.running.remove(found))
    }

    /// Takes all of them out.
    pub fn take_all(&self) -> Vec<S> {
        std::mem::take(&mut self.table.lock().running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::rt::{self, Unranked, World};
    use std::sync::Arc;

    /// What a server is on: one at a time has the address, as the system sees to.
    #[derive(Default)]
    struct Machine(Mutex<bool, Unranked>);

    #[derive(Clone)]
    struct Fake {
        machine: Arc<Machine>,
        served: Arc<Mutex<Vec<u32>, Unranked>>,
    }

    impl Fake {
        /// Listens, unless another server does.
        fn start(machine: &Arc<Machine>, served: u32) -> Result<Self, ControlError> {
            let had = std::mem::replace(&mut *machine.0.lock(), true);
            rt::yield_now();
            match had {
                true => Err(ControlError::Unsupported {
                    what: "another program has this address".to_owned(),
                }),
                false => Ok(Self {
                    machine: Arc::clone(machine),
                    served: Arc::new(Mutex::new(vec![served])),
                }),
            }
        }

        fn add(&self, served: u32) {
            rt::yield_now();
            self.served.lock().push(served);
        }

        fn end(self) {
            *self.machine.0.lock() = false;
        }
    }

    impl Listening for Fake {
        fn is_at(&self, address: &str) -> bool {
            address == "here"
        }

        fn is(&self, other: &Self) -> bool {
            Arc::ptr_eq(&self.served, &other.served)
        }

        fn has_nothing(&self) -> bool {
            rt::yield_now();
            self.served.lock().is_empty()
        }
    }

    /// Serves it on the one address.
    fn serve(
        servers: &Servers<Fake>,
        machine: &Arc<Machine>,
        served: u32,
    ) -> Result<Fake, ControlError> {
        let here = ["here".to_owned()];
        servers.join_or_start(
            &here,
            |one| one.is_at(&here[0]),
            |found| {
                found.add(served);
                Ok(())
            },
            || Fake::start(machine, served),
        )
    }

    /// Two commands for one address both started a server. The second was told to end the program
    /// that has the address, which was this one.
    #[test]
    fn two_commands_for_an_address_share_a_server() {
        for seed in 0..200 {
            let world = World::simulated(seed);
            world.run(|| {
                let (servers, machine) = (Servers::default(), Arc::default());
                rt::scope(|scope| {
                    let both = [1, 2].map(|served| {
                        let (servers, machine) = (&servers, &machine);
                        scope.spawn(move || serve(servers, machine, served).map(drop))
                    });
                    for one in both {
                        let served = one.join().expect("no panic");
                        served.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                    }
                });
                let running = servers.running();
                assert_eq!(running.len(), 1, "seed {seed}");
                assert_eq!(running[0].served.lock().len(), 2, "seed {seed}");
            });
        }
    }

    /// A command gave a site to a server that had just lost its last one, and was told that it is
    /// served. The server ended.
    #[test]
    fn what_a_command_serves_is_served() {
        for seed in 0..200 {
            let world = World::simulated(seed);
            world.run(|| {
                let (servers, machine) = (Servers::default(), Arc::default());
                let first = serve(&servers, &machine, 1).expect("started");
                first.served.lock().clear();
                rt::scope(|scope| {
                    let (servers, machine) = (&servers, &machine);
                    let ends = scope.spawn(move || {
                        let gone = servers.take_unused(&first);
                        gone.into_iter().for_each(Fake::end);
                    });
                    // The address may be in use until that server has ended.
                    let served = serve(servers, machine, 2).is_ok();
                    ends.join().expect("no panic");
                    let running = servers.running();
                    let mut there = running.iter();
                    let is_there = there.any(|one| one.served.lock().contains(&2));
                    assert_eq!(is_there, served, "seed {seed}");
                });
            });
        }
    }

    #[test]
    fn a_start_that_fails_or_panics_leaves_the_address_free() {
        let (servers, machine) = (Servers::default(), Arc::<Machine>::default());
        *machine.0.lock() = true;
        assert!(serve(&servers, &machine, 1).is_err());
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let here = ["here".to_owned()];
            let start = || panic!("a start that panics");
            drop(servers.join_or_start(&here, |_: &Fake| false, |_| Ok(()), start));
        }));
        assert!(panics.is_err());
        *machine.0.lock() = false;
        assert!(serve(&servers, &machine, 1).is_ok());
        assert_eq!(servers.running().len(), 1);
    }
}
