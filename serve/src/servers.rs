//! The table of servers by address, for volumes and for sites.
//!
//! Each server has its own addresses and its own list of what it serves. The lock protects only the
//! table. Servers are started and ended without it: both may take a while, and clients that connect
//! meanwhile need the table.
//!
//! A server ends in two steps: it stops listening, and then its connections end, which may take a
//! grace time. It stays in the table meanwhile, so that clients can see it and hurry it.
//!
//! *Invariants.* A server that is ending gets nothing new to serve: commands add to a server under
//! the lock, and a server with nothing left to serve begins to end under the same lock. No address
//! has two servers: a start reserves its addresses, and other commands for these addresses wait. A
//! start also waits until a server that is ending listens there no longer.

use cenote_base::rt::{Condvar, Mutex, ranks};
use cenote_control::model::ControlError;
use std::time::Duration;

/// A server that listens. A clone is the same one.
pub(crate) trait Listening: Clone {
    /// Whether it listens on this address, or was asked to.
    fn is_at(&self, address: &str) -> bool;

    /// Whether another one is the same.
    fn is(&self, other: &Self) -> bool;

    /// Whether it serves nothing that a command asked for.
    fn has_nothing(&self) -> bool;

    /// Stops listening. Another server can have its addresses when this returns.
    fn close(&self);

    /// Ends its connections, at the latest after the grace time. It may be called again by another
    /// thread, with less grace.
    fn end(&self, grace: Duration);
}

/// A server that is ending.
struct Ending<S> {
    server: S,
    /// Whether it still has its addresses.
    listens: bool,
}

struct Table<S> {
    /// In the order in which they started.
    running: Vec<S>,
    ending: Vec<Ending<S>>,
    /// The addresses of those that are being started.
    starting: Vec<Vec<String>>,
}

/// The servers of one kind.
pub(crate) struct Servers<S> {
    table: Mutex<Table<S>, ranks::Servers>,
    /// A start has succeeded or failed, or a server does not listen any more.
    changed: Condvar,
}

impl<S> Default for Servers<S> {
    fn default() -> Self {
        let table = Table {
            running: Vec::new(),
            ending: Vec::new(),
            starting: Vec::new(),
        };
        Self {
            table: Mutex::new(table),
            changed: Condvar::default(),
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
        self.servers.changed.notify_all();
    }
}

/// Keeps a server in the table while it ends.
struct Leaving<'a, S: Listening> {
    servers: &'a Servers<S>,
    server: S,
}

impl<S: Listening> Leaving<'_, S> {
    fn change(&self, change: impl FnOnce(&mut Vec<Ending<S>>, usize)) {
        let mut table = self.servers.table.lock();
        let mut ending = table.ending.iter();
        let own = ending.position(|one| one.server.is(&self.server));
        change(&mut table.ending, own.expect("it was added"));
        drop(table);
        self.servers.changed.notify_all();
    }

    fn end(self, grace: Duration) {
        self.server.close();
        self.change(|ending, own| ending[own].listens = false);
        self.server.end(grace);
    }
}

impl<S: Listening> Drop for Leaving<'_, S> {
    fn drop(&mut self) {
        self.change(|ending, own| drop(ending.remove(own)));
    }
}

impl<S: Listening> Servers<S> {
    /// The running servers, in the order in which they started.
    pub fn running(&self) -> Vec<S> {
        self.table.lock().running.clone()
    }

    /// The servers that are ending, in the order in which they began to.
    pub fn ending(&self) -> Vec<S> {
        let table = self.table.lock();
        let ending = table.ending.iter();
        ending.map(|one| one.server.clone()).collect()
    }

    /// Finds the server for which `is_meant` holds, and lets `join` add to it. If there is none,
    /// `start` starts one at these addresses. `join` runs under the lock, so it must not wait.
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
        let is_taken = |table: &mut Table<S>| {
            let mut others = table.starting.iter().flatten();
            let mut ending = table.ending.iter().filter(|one| one.listens);
            others.any(|other| addresses.contains(other))
                || ending.any(|one| addresses.iter().any(|own| one.server.is_at(own)))
        };
        let mut table = self.changed.wait_while(self.table.lock(), is_taken);
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

    /// Ends a server, if it runs and serves nothing that a command asked for; whether it did.
    pub fn end_unused(&self, ended: &S, grace: Duration) -> bool {
        self.end_if(ended, grace, S::has_nothing)
    }

    /// Ends a server, if it runs and may end; whether it did. `may_end` runs under the lock.
    pub fn end_if(&self, ended: &S, grace: Duration, may_end: impl Fn(&S) -> bool) -> bool {
        let mut table = self.table.lock();
        let is_it = |one: &S| one.is(ended) && may_end(one);
        let Some(found) = table.running.iter().position(is_it) else {
            return false;
        };
        let server = table.running.remove(found);
        table.ending.push(Ending {
            server: server.clone(),
            listens: true,
        });
        drop(table);
        let servers = self;
        Leaving { servers, server }.end(grace);
        true
    }

    /// Ends a server, or does not let it take longer if it is ending already.
    pub fn end(&self, ended: &S, grace: Duration) {
        if !self.end_if(ended, grace, |_| true) {
            ended.end(grace);
        }
    }

    /// Ends all servers.
    pub fn end_all(&self, grace: Duration) {
        for one in self.running().iter().chain(&self.ending()) {
            self.end(one, grace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::rt::{self, Unranked, World};
    use std::sync::Arc;

    const HOUR: Duration = Duration::from_secs(3600);

    /// The machine, on which one server at a time can have the address.
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
    }

    impl Listening for Fake {
        fn close(&self) {
            rt::yield_now();
            *self.machine.0.lock() = false;
        }

        fn end(&self, grace: Duration) {
            rt::sleep(grace);
        }

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

    /// Regression: two commands for one address both started a server. The second failed with the
    /// advice to end the program that has the address, which was the daemon itself.
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

    /// Regression: a command added a site to a server that had just lost its last one. The command
    /// succeeded, and then the server ended.
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
                        servers.end_unused(&first, HOUR);
                    });
                    // Regression: this said that another program had the address.
                    let begun = rt::Instant::now();
                    let served = serve(servers, machine, 2);
                    served.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                    let waited = begun.elapsed();
                    assert!(waited < HOUR, "seed {seed}: it waited for the downloads");
                    let running = servers.running();
                    let mut there = running.iter();
                    let is_there = there.any(|one| one.served.lock().contains(&2));
                    assert!(is_there, "seed {seed}");
                    ends.join().expect("no panic");
                    assert!(servers.ending().is_empty());
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
