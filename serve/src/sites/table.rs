//! The servers of sites.

use super::http::{SiteServer, address};
use super::offer::Offer;
use super::site::Site;
use crate::servers::{Listening, Servers};
use cenote_control::model::{ControlError, HttpOptions, HttpRefusal, HttpServer};
use cenote_engine::Registry;
use std::any::Any;
use std::sync::{Arc, Weak};

/// The default address of a server.
const DEFAULT_ADDRESS: &str = "127.0.0.1:8080";

/// A server that runs.
#[derive(Clone)]
pub(crate) struct Running {
    /// The options of the command that started it.
    pub options: HttpOptions,
    pub offer: Arc<Offer>,
    pub server: Arc<SiteServer>,
}

impl Running {
    /// Its status, for clients of the daemon.
    pub fn status(&self) -> HttpServer {
        let sites = self.offer.status().into_iter();
        HttpServer {
            addresses: self.server.addresses().to_vec(),
            is_encrypted: self.options.tls.is_some(),
            sites: sites.map(|report| report.status).collect(),
            figures: self.server.figures(),
        }
    }

    /// Whether it has these options, and listens on all of these addresses.
    fn is_same(&self, options: &HttpOptions) -> bool {
        let without = |options: &HttpOptions| HttpOptions {
            listen: Vec::new(),
            ..options.clone()
        };
        without(&self.options) == without(options)
            && options.listen.iter().all(|address| self.is_at(address))
    }
}

impl Listening for Running {
    fn addresses(&self) -> Vec<String> {
        let own = self.options.listen.iter().chain(self.server.addresses());
        own.cloned().collect()
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

/// Adds these sites to the server at the wanted address, or starts one there.
///
/// # Errors
/// It cannot listen there, one with other options does, or another site has the same place.
pub(crate) fn serve_sites(
    servers: &Servers<Running>,
    registry: &Arc<Registry>,
    options: &HttpOptions,
    new: Vec<Site>,
) -> Result<Running, ControlError> {
    let mut options = options.clone();
    if options.listen.is_empty() {
        options.listen.push(DEFAULT_ADDRESS.to_owned());
    }
    for text in &mut options.listen {
        *text = address(text)?;
    }
    let new: Vec<Arc<Site>> = new.into_iter().map(Arc::new).collect();
    let is_meant = |one: &Running| options.listen.iter().any(|address| one.is_at(address));
    let join = |found: &Running| {
        if !found.is_same(&options) {
            let address = options.listen[0].clone();
            return Err(HttpRefusal::OtherOptions { address }.into());
        }
        refuse_same_places(&found.offer.commanded(), &new)?;
        found.offer.add(&new);
        Ok(())
    };
    let start = || {
        refuse_same_places(&[], &new)?;
        let offer = Offer::new(registry);
        offer.add(&new);
        // So that the first client already finds the sites.
        offer.follow();
        let server = SiteServer::start(&options, &offer)?;
        Ok(Running {
            options: options.clone(),
            offer,
            server: Arc::new(server),
        })
    };
    let running = servers.join_or_start(&options.listen, is_meant, join, start)?;
    // Without the lock, because this reads datasets.
    running.offer.follow();
    Ok(running)
}

/// Refuses two sites at one place.
fn refuse_same_places(known: &[Arc<Site>], new: &[Arc<Site>]) -> Result<(), ControlError> {
    for (index, site) in new.iter().enumerate() {
        let known = known.iter().filter(|known| !known.is_same(site));
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
