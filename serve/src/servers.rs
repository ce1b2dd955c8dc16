//! The table of servers by address, for volumes and for sites.
//!
//! Each server has its own addresses and its own list of what it serves. The lock protects only the
//! table. Servers are started and ended without it: both may take a while, and clients that connect
//! meanwhile need the table.
//!
//! *Invariants.* A server that is ending gets nothing new to serve: commands add to a server under
//! the lock, and a server with nothing left to serve is removed under the same lock. No address has
//! two servers: a start reserves its addresses, and other commands for these addresses wait.

use cenote_base::rt::{Condvar, Mutex, ranks};
use cenote_control::model::{ControlError, HttpRefusal, NbdRefusal, Refusal};
use std::any::Any;
use std::sync::Weak;

/// A server that listens. A clone is the same one.
pub(crate) trait Listening: Clone {
    /// The addresses on which it listens, and those that it was asked to.
    fn addresses(&self) -> Vec<String>;

    /// What keeps its sockets: it has its addresses until that is dropped.
    fn sockets(&self) -> Weak<dyn Any + Send + Sync>;

    /// Whether it listens on this address, or was asked to.
    fn is_at(&self, address: &str) -> bool {
        self.addresses().iter().any(|own| own == address)
    }

    /// Whether another one is the same.
    fn is(&self, other: &Self) -> bool;

    /// Whether it serves nothing that a command asked for.
    fn has_nothing(&self) -> bool;
}

struct Table<S> {
    /// In the order in which they started.
    running: Vec<S>,
    /// The addresses of those that are being started.
    starting: Vec<Vec<String>>,
    /// Those that were removed but may still have their addresses.
    ending: Vec<Ending>,
}

struct Ending {
    addresses: Vec<String>,
    sockets: Weak<dyn Any + Send + Sync>,
}

impl<S: Listening> Table<S> {
    /// Whether a server that was removed still has one of these addresses.
    fn is_ending_at(&mut self, addresses: &[String]) -> bool {
        self.ending.retain(|one| one.sockets.strong_count() > 0);
        let mut own = self.ending.iter().flat_map(|one| &one.addresses);
        own.any(|own| addresses.contains(own))
    }

    fn remove(&mut self, at: usize) -> S {
        let removed = self.running.remove(at);
        self.ending.retain(|one| one.sockets.strong_count() > 0);
        self.ending.push(Ending {
            addresses: removed.addresses(),
            sockets: removed.sockets(),
        });
        removed
    }
}

/// The error of a start at an address that a server which is ending still has.
fn while_ending(error: ControlError) -> ControlError {
    let advice = "a server that was stopped still has this address until its clients are gone; \
                  repeat the command in a few seconds, or choose another address";
    let reason = advice.to_owned();
    match error {
        ControlError::Refused(Refusal::Nbd(NbdRefusal::NotListening { address, .. })) => {
            NbdRefusal::NotListening { address, reason }.into()
        }
        ControlError::Refused(Refusal::Http(HttpRefusal::NotListening { address, .. })) => {
            HttpRefusal::NotListening { address, reason }.into()
        }
        other => other,
    }
}

/// The servers of one kind.
pub(crate) struct Servers<S> {
    table: Mutex<Table<S>, ranks::Servers>,
    /// A start has succeeded or failed.
    started: Condvar,
}

impl<S> Default for Servers<S> {
    fn default() -> Self {
        let table = Table {
            running: Vec::new(),
            starting: Vec::new(),
            ending: Vec::new(),
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
    /// The running servers, in the order in which they started.
    pub fn running(&self) -> Vec<S> {
        self.table.lock().running.clone()
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
        let is_ending = table.is_ending_at(addresses);
        drop(table);
        let reserved = Reserved {
            servers: self,
            addresses,
        };
        let server = start().map_err(|error| match is_ending {
            true => while_ending(error),
            false => error,
        })?;
        self.table.lock().running.push(server.clone());
        drop(reserved);
        Ok(server)
    }

    /// Removes a server from the table, if it is there.
    pub fn take(&self, ended: &S) -> Option<S> {
        self.take_if(ended, |_| true)
    }

    /// Removes a server from the table, if it serves nothing that a command asked for.
    pub fn take_unused(&self, ended: &S) -> Option<S> {
        self.take_if(ended, S::has_nothing)
    }

    fn take_if(&self, ended: &S, may_go: impl Fn(&S) -> bool) -> Option<S> {
        let mut table = self.table.lock();
        let is_it = |one: &S| one.is(ended) && may_go(one);
        let found = table.running.iter().position(is_it)?;
        Some(table.remove(found))
    }

    /// Removes all servers from the table.
    pub fn take_all(&self) -> Vec<S> {
        let mut table = self.table.lock();
        (0..table.running.len()).map(|_| table.remove(0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::rt::{self, Unranked, World};
    use std::sync::Arc;

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
                true => Err(NbdRefusal::NotListening {
                    address: "here".to_owned(),
                    reason: "address in use".to_owned(),
                }
                .into()),
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
        fn addresses(&self) -> Vec<String> {
            vec!["here".to_owned()]
        }

        fn sockets(&self) -> Weak<dyn Any + Send + Sync> {
            let served: Arc<dyn Any + Send + Sync> = self.served.clone();
            Arc::downgrade(&served)
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

    /// Previously, the advice was to end the program that had the address, which was this daemon.
    #[test]
    fn a_server_that_is_ending_is_named_as_the_cause() {
        let (servers, machine) = (Servers::default(), Arc::default());
        let first = serve(&servers, &machine, 1).expect("started");
        let taken = servers.take(&first).expect("it was there");
        let refused = |servers| match serve(servers, &machine, 2) {
            Ok(_) => panic!("two servers have the address"),
            Err(error) => error.to_string(),
        };
        let text = refused(&servers);
        assert!(
            text.contains("a server that was stopped still has"),
            "{text}"
        );
        drop((first, taken));
        let text = refused(&servers);
        assert!(text.contains("address in use"), "{text}");
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
