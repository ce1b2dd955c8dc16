//! The servers of sites.
//!
//! Each server has its addresses, its options and its own sites, so that what is served on one
//! address is not served on another. The lock is for looking: a server is started and ended
//! without it, because both may take a while, and requests come in meanwhile.

use super::offer::Offer;
use super::server::{SiteServer, SiteServing};
use super::site::Site;
use cenote_base::rt::{Mutex, ranks};
use cenote_control::model::{ControlError, HttpOptions, HttpRefusal, HttpServer};
use cenote_engine::Registry;
use std::sync::Arc;

/// Where a server listens by itself.
const DEFAULT_ADDRESS: &str = "127.0.0.1:8080";

/// A server that runs.
#[derive(Clone)]
pub(crate) struct Running {
    /// How it was asked for.
    pub options: HttpOptions,
    pub offer: Arc<Offer>,
    pub server: Arc<dyn SiteServer>,
}

impl Running {
    /// What clients of the daemon are told of it.
    pub fn status(&self) -> HttpServer {
        use super::server::SiteOffer;
        let sites = self.offer.status().into_iter();
        HttpServer {
            addresses: self.server.addresses(),
            is_encrypted: self.options.tls.is_some(),
            sites: sites.map(|report| report.status).collect(),
            figures: self.server.figures(),
        }
    }

    /// Whether it listens on this address, or was asked to.
    pub fn is_at(&self, address: &str) -> bool {
        let mut own = self.server.addresses();
        own.extend(self.options.listen.iter().cloned());
        own.iter().any(|own| own == address)
    }

    /// Whether it was asked for with the same options.
    fn is_same(&self, options: &HttpOptions) -> bool {
        let without = |options: &HttpOptions| HttpOptions {
            listen: Vec::new(),
            ..options.clone()
        };
        without(&self.options) == without(options)
            && options.listen.iter().all(|address| self.is_at(address))
    }
}

/// The servers.
pub(crate) struct SiteServers {
    serving: Option<Box<dyn SiteServing>>,
    running: Mutex<Vec<Running>, ranks::Servers>,
}

impl SiteServers {
    pub fn new(serving: Option<Box<dyn SiteServing>>) -> Self {
        Self {
            serving,
            running: Mutex::default(),
        }
    }

    /// Those that run, in the order in which they began.
    pub fn running(&self) -> Vec<Running> {
        self.running.lock().clone()
    }

    /// An address as servers have it; `None` if it is none.
    pub fn address(&self, text: &str) -> Option<String> {
        self.serving.as_ref()?.address(text).ok()
    }

    /// Has the server that listens there serve these, too; one is started if there is none.
    ///
    /// # Errors
    /// It cannot listen there, one with other options does, or another site has the same place.
    pub fn start(
        &self,
        registry: &Arc<Registry>,
        options: &HttpOptions,
        new: Vec<Site>,
    ) -> Result<Running, ControlError> {
        let Some(serving) = &self.serving else {
            return Err(HttpRefusal::NoServer.into());
        };
        let mut options = options.clone();
        if options.listen.is_empty() {
            options.listen.push(DEFAULT_ADDRESS.to_owned());
        }
        for address in &mut options.listen {
            *address = serving.address(address)?;
        }
        let running = self.running.lock();
        let is_meant = |one: &&Running| options.listen.iter().any(|address| one.is_at(address));
        if let Some(found) = running.iter().find(is_meant).cloned() {
            drop(running);
            if !found.is_same(&options) {
                let address = options.listen.swap_remove(0);
                return Err(HttpRefusal::OtherOptions { address }.into());
            }
            refuse_same_places(&found.offer.commanded(), &new)?;
            found.offer.add(new);
            return Ok(found);
        }
        drop(running);
        refuse_same_places(&[], &new)?;
        let offer = Offer::new(registry);
        offer.add(new);
        let server = serving.serve(&options, Arc::clone(&offer) as _)?;
        let started = Running {
            options,
            offer,
            server: Arc::from(server),
        };
        self.running.lock().push(started.clone());
        Ok(started)
    }

    /// Takes a server out, if it is there.
    pub fn take(&self, ended: &Running) -> Option<Running> {
        let mut running = self.running.lock();
        let is_it = |one: &Running| Arc::ptr_eq(&one.offer, &ended.offer);
        let found = running.iter().position(is_it)?;
        Some(running.remove(found))
    }

    /// Ends all of them.
    pub fn end_all(&self) {
        let gone = std::mem::take(&mut *self.running.lock());
        drop(gone);
    }
}

/// Refuses two sites at one place.
fn refuse_same_places(known: &[Arc<Site>], new: &[Site]) -> Result<(), ControlError> {
    for (index, site) in new.iter().enumerate() {
        let known = known
            .iter()
            .map(AsRef::as_ref)
            .filter(|known| !known.is_same(site));
        let mut others = new[..index].iter().chain(known);
        if let Some(other) = others.find(|other| other.is_at_place_of(site)) {
            return Err(HttpRefusal::SamePlace {
                place: site.place(),
                first: other.asked.dataset.clone(),
                second: site.asked.dataset.clone(),
            }
            .into());
        }
    }
    Ok(())
}
