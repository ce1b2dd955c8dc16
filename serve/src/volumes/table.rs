//! The servers of volumes.
//!
//! One of them is the daemon's own: it listens next to the control socket, and runs while it has
//! something to serve.

use super::nbd::VolumeServer;
use super::offer::{Commanded, Offer};
use crate::servers::{Listening, Servers};
use cenote_base::rt::{Mutex, ranks};
use cenote_control::model::{ControlError, NbdListen, NbdRefusal, NbdServer};
use cenote_engine::Registry;
use std::any::Any;
use std::sync::{Arc, Weak};

/// A server that runs.
#[derive(Clone)]
pub(crate) struct Running {
    /// Where it listens.
    pub listen: NbdListen,
    /// The address and options that the command gave; none for the daemon's own.
    pub asked: NbdListen,
    pub is_default: bool,
    pub offer: Arc<Offer>,
    pub server: Arc<VolumeServer>,
}

/// The addresses to listen on.
fn addresses(listen: &NbdListen) -> Vec<String> {
    let asked = [&listen.unix, &listen.tcp];
    asked.into_iter().flatten().cloned().collect()
}

impl Running {
    /// Its status, for clients of the daemon.
    pub fn status(&self) -> NbdServer {
        NbdServer {
            addresses: self.server.addresses().to_vec(),
            is_default: self.is_default,
            is_encrypted: self.listen.tls.is_some(),
            exports: self.offer.exports(),
            clients: self.server.clients(),
            failure: None,
        }
    }

    /// How many clients have an export open: this one, or any.
    pub fn clients_of(&self, export: Option<&str>) -> usize {
        let clients = self.server.clients();
        let is_meant = |name: &Option<String>| match export {
            Some(export) => name.as_deref() == Some(export),
            None => name.is_some(),
        };
        clients.iter().filter(|one| is_meant(&one.export)).count()
    }

    /// Whether it has all addresses and the same options as a command asks for.
    fn is_same(&self, listen: &NbdListen, is_default: bool) -> bool {
        let options = |listen: &NbdListen| (listen.tls.clone(), listen.checks_clients);
        let is_at_all = || addresses(listen).iter().all(|one| self.is_at(one));
        match is_default {
            true => self.is_default && self.listen == *listen,
            false => options(&self.listen) == options(listen) && is_at_all(),
        }
    }
}

impl Listening for Running {
    fn addresses(&self) -> Vec<String> {
        let mut own = addresses(&self.listen);
        own.extend_from_slice(self.server.addresses());
        own
    }

    fn sockets(&self) -> Weak<dyn Any + Send + Sync> {
        let server: Arc<dyn Any + Send + Sync> = self.server.clone();
        Arc::downgrade(&server)
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.offer, &other.offer)
    }

    fn has_nothing(&self) -> bool {
        self.offer.commanded().is_empty()
    }
}

/// The servers.
pub(crate) struct VolumeServers {
    /// Where the daemon's own listens.
    own: NbdListen,
    pub servers: Servers<Running>,
    /// Why the daemon's own server does not run although it should.
    failure: Mutex<Option<String>, ranks::Servers>,
}

impl VolumeServers {
    pub fn new(own: NbdListen) -> Self {
        Self {
            own,
            servers: Servers::default(),
            failure: Mutex::default(),
        }
    }

    /// The running servers, the daemon's own first.
    pub fn running(&self) -> Vec<Running> {
        let mut running = self.servers.running();
        running.sort_by_key(|one| !one.is_default);
        running
    }

    /// Why the daemon's own server does not run although it should.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Sets or clears that reason.
    pub fn set_failure(&self, failure: Option<String>) {
        *self.failure.lock() = failure;
    }

    /// Adds these volumes to the server at the wanted address, or starts one there.
    ///
    /// # Errors
    /// It cannot listen there, or one with other options does.
    pub fn serve(
        &self,
        registry: &Arc<Registry>,
        wanted: &NbdListen,
        new: &[Commanded],
    ) -> Result<Running, ControlError> {
        let is_default = wanted.is_default();
        let listen = match is_default {
            true => NbdListen {
                tls: wanted.tls.clone().or(self.own.tls.clone()),
                checks_clients: wanted.checks_clients || self.own.checks_clients,
                ..self.own.clone()
            },
            false => wanted.clone(),
        };
        let addresses = addresses(&listen);
        let is_meant = |one: &Running| {
            is_default && one.is_default || addresses.iter().any(|address| one.is_at(address))
        };
        let join = |found: &Running| match found.is_same(&listen, is_default) {
            true => {
                found.offer.add(new);
                Ok(())
            }
            false => Err(NbdRefusal::OtherOptions {
                address: addresses.first().cloned().unwrap_or_default(),
            }
            .into()),
        };
        let start = || {
            let offer = Offer::new(registry, is_default);
            offer.add(new);
            let server = VolumeServer::start(&listen, &offer)?;
            Ok(Running {
                listen: listen.clone(),
                asked: wanted.clone(),
                is_default,
                offer,
                server: Arc::new(server),
            })
        };
        let running = self
            .servers
            .join_or_start(&addresses, is_meant, join, start)?;
        if is_default {
            self.set_failure(None);
        }
        Ok(running)
    }
}
