//! The servers of volumes.
//!
//! Each server has its addresses and its own exports, so that what is served on one address is
//! not served on another. One is the daemon's own: it listens beside the control socket, and runs
//! while something is to be served there.
//!
//! The lock is for looking: a server is started and ended without it, because both may take a
//! while, and clients that come in or go ask for exports meanwhile.

use super::offer::{Commanded, Offer};
use super::server::{VolumeServer, VolumeServing};
use cenote_base::rt::{Mutex, ranks};
use cenote_control::model::{ControlError, NbdListen, NbdRefusal, NbdServer};
use cenote_engine::Registry;
use std::sync::Arc;

/// What the daemon is told about servers of volumes.
#[derive(Default)]
pub struct ServingSetup {
    /// Starts servers; not set, there are none.
    pub serving: Option<Box<dyn VolumeServing>>,
    /// Where the daemon's own server listens.
    pub own: NbdListen,
}

/// A server that runs.
#[derive(Clone)]
pub(crate) struct Running {
    /// Where it listens.
    pub listen: NbdListen,
    /// The same as it was asked for: not set for the daemon's own.
    pub asked: NbdListen,
    pub is_default: bool,
    pub offer: Arc<Offer>,
    pub server: Arc<dyn VolumeServer>,
}

impl Running {
    /// What clients of the daemon are told of it.
    pub fn status(&self) -> NbdServer {
        NbdServer {
            addresses: self.server.addresses(),
            is_default: self.is_default,
            is_encrypted: self.listen.tls.is_some(),
            exports: self.offer.exports(),
            clients: self.server.clients(),
            failure: None,
        }
    }

    /// Whether it listens on this address, or would.
    pub fn is_at(&self, address: &str) -> bool {
        let asked = [&self.listen.unix, &self.listen.tcp];
        let is_asked = asked.into_iter().flatten().any(|asked| asked == address);
        is_asked || self.server.addresses().iter().any(|own| own == address)
    }

    /// Clients that have an export open, by its name.
    pub fn clients_of(&self, export: Option<&str>) -> usize {
        let clients = self.server.clients();
        let is_meant = |name: &Option<String>| match export {
            Some(export) => name.as_deref() == Some(export),
            None => name.is_some(),
        };
        clients.iter().filter(|one| is_meant(&one.export)).count()
    }
}

/// What is in the table.
#[derive(Default)]
struct Table {
    running: Vec<Running>,
    /// Why the daemon's own server does not run although it should.
    failure: Option<String>,
}

impl Table {
    /// Takes a server out.
    fn take(&mut self, ended: &Running) -> Option<Running> {
        let is_it = |one: &Running| Arc::ptr_eq(&one.offer, &ended.offer);
        let found = self.running.iter().position(is_it)?;
        Some(self.running.remove(found))
    }
}

/// The servers.
pub(crate) struct Servers {
    setup: ServingSetup,
    table: Mutex<Table, ranks::Servers>,
}

impl Servers {
    pub fn new(setup: ServingSetup) -> Self {
        Self {
            setup,
            table: Mutex::default(),
        }
    }

    /// Those that run, the daemon's own first.
    pub fn running(&self) -> Vec<Running> {
        let mut running = self.table.lock().running.clone();
        running.sort_by_key(|one| !one.is_default);
        running
    }

    /// Why the daemon's own server does not run although it should.
    pub fn failure(&self) -> Option<String> {
        self.table.lock().failure.clone()
    }

    /// Notes that.
    pub fn set_failure(&self, failure: Option<String>) {
        let mut table = self.table.lock();
        table.failure = failure;
    }

    /// Has the server that a command means by where it is to listen serve these, too; one is
    /// started if there is none.
    ///
    /// # Errors
    /// It cannot listen there, or one with other options does.
    pub fn server(
        &self,
        registry: &Arc<Registry>,
        wanted: &NbdListen,
        new: &[Commanded],
    ) -> Result<Running, ControlError> {
        let is_default = wanted.is_default();
        let listen = match is_default {
            true => NbdListen {
                tls: wanted.tls.clone().or(self.setup.own.tls.clone()),
                checks_clients: wanted.checks_clients || self.setup.own.checks_clients,
                ..self.setup.own.clone()
            },
            false => wanted.clone(),
        };
        let addresses: Vec<&String> = [&listen.unix, &listen.tcp].into_iter().flatten().collect();
        let is_meant = |one: &&Running| match is_default {
            true => one.is_default,
            false => addresses.iter().any(|address| one.is_at(address)),
        };
        // With the lock, so that it is not ended before it has them.
        let table = self.table.lock();
        if let Some(found) = table.running.iter().find(is_meant).cloned() {
            let is_same = found.listen == listen || !is_default && found.is_same(&listen);
            return match is_same {
                true => {
                    found.offer.add(new);
                    Ok(found)
                }
                false => Err(NbdRefusal::OtherOptions {
                    address: addresses.first().map_or("", |first| first).to_owned(),
                }
                .into()),
            };
        }
        drop(table);
        let Some(serving) = &self.setup.serving else {
            return Err(NbdRefusal::NoServer.into());
        };
        let offer = Offer::new(registry, is_default);
        offer.add(new);
        let server = serving.serve(&listen, Arc::clone(&offer) as _)?;
        let running = Running {
            listen,
            asked: wanted.clone(),
            is_default,
            offer,
            server: Arc::from(server),
        };
        let mut table = self.table.lock();
        table.running.push(running.clone());
        if is_default {
            table.failure = None;
        }
        Ok(running)
    }

    /// Ends a server for which no command named anything any more.
    pub fn end_unused(&self, ended: &Running) {
        let mut table = self.table.lock();
        if !ended.offer.commanded().is_empty() {
            return;
        }
        let gone = table.take(ended);
        drop(table);
        drop(gone);
    }

    /// Ends a server.
    pub fn end(&self, ended: &Running) {
        let gone = self.table.lock().take(ended);
        drop(gone);
    }

    /// Ends all of them.
    pub fn end_all(&self) {
        let gone = std::mem::take(&mut self.table.lock().running);
        drop(gone);
    }
}

impl Running {
    /// Whether it was asked for with the same options but for what it serves.
    fn is_same(&self, listen: &NbdListen) -> bool {
        let options = |listen: &NbdListen| (listen.tls.clone(), listen.checks_clients);
        let is_one_of = |asked: &Option<String>| asked.as_ref().is_none_or(|one| self.is_at(one));
        options(&self.listen) == options(listen)
            && is_one_of(&listen.unix)
            && is_one_of(&listen.tcp)
    }
}
