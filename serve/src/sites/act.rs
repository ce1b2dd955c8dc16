//! `cenote http`: sites served because of commands.

use super::http::address;
use super::site::Site;
use super::table::{Running, serve_sites};
use crate::context::Context;
use crate::servers::Listening;
use cenote_control::model::{
    ControlError, HttpAct, HttpOptions, HttpRefusal, HttpServer, HttpSite, Response,
};
use cenote_engine::Imported;
use std::sync::Arc;
use std::time::Duration;

/// Carries out a request about sites.
pub(crate) fn act_on_sites(context: &Context, act: HttpAct) -> Result<Response, ControlError> {
    match act {
        HttpAct::Start { sites, options } => start(context, &sites, &options),
        HttpAct::Status => {
            let running = context.sites.running();
            let mut servers: Vec<HttpServer> = running.iter().map(Running::status).collect();
            servers.extend(context.sites.ending().iter().map(|one| HttpServer {
                is_ending: true,
                ..one.status()
            }));
            Ok(Response::Http { servers })
        }
        HttpAct::Stop { targets, grace } => stop(context, &targets, Duration::from_secs(grace)),
        HttpAct::Reload => {
            // A failure of one server does not keep the others from reloading.
            let reloaded = context.sites.running().into_iter();
            let reloaded: Vec<_> = reloaded.map(|one| one.server.reload()).collect();
            reloaded.into_iter().collect::<Result<Vec<()>, _>>()?;
            Ok(Response::Done)
        }
    }
}

fn start(
    context: &Context,
    sites: &[HttpSite],
    options: &HttpOptions,
) -> Result<Response, ControlError> {
    let new = sites
        .iter()
        .map(|site| Site::commanded(&context.registry, site));
    let new = new.collect::<Result<Vec<_>, _>>()?;
    let running = serve_sites(&context.sites, &context.registry, options, new)?;
    Ok(Response::Http {
        servers: vec![running.status()],
    })
}

/// A server to end, a site to remove, or downloads to end.
enum Withdrawn {
    Server(Running),
    Site(Running, Arc<Site>),
    /// Downloads of a snapshot that no site shows any more.
    Old(String),
}

fn withdrawn(
    context: &Context,
    servers: &[Running],
    target: &str,
) -> Result<Vec<Withdrawn>, ControlError> {
    // An older one that is ending may have had the same address.
    let at = |address: &str| {
        let there = servers.iter().filter(|one| one.is_at(address));
        there.cloned().map(Withdrawn::Server).collect::<Vec<_>>()
    };
    let mut found = at(target);
    if !found.is_empty() {
        return Ok(found);
    }
    for running in servers {
        for site in running.offer.commanded() {
            let now = site
                .find_dataset()
                .map(|(_, dataset)| dataset.name().to_string());
            if now.as_deref() == Some(target) || site.asked.dataset == target {
                found.push(Withdrawn::Site(running.clone(), site));
            }
        }
    }
    let is_old = |imported: &Arc<Imported>| imported.retired_tree(target).is_some();
    if found.is_empty() && context.registry.all().iter().any(is_old) {
        found.push(Withdrawn::Old(target.to_owned()));
    }
    // By another name: 'localhost:8080' for '127.0.0.1:8080'.
    if found.is_empty()
        && let Ok(address) = address(target)
    {
        found = at(&address);
    }
    match found.is_empty() {
        false => Ok(found),
        true => Err(HttpRefusal::NotServed {
            target: target.to_owned(),
        }
        .into()),
    }
}

fn stop(context: &Context, targets: &[String], grace: Duration) -> Result<Response, ControlError> {
    let mut servers = context.sites.running();
    servers.extend(context.sites.ending());
    let mut gone = Vec::new();
    // All or nothing.
    for target in targets {
        gone.extend(withdrawn(context, &servers, target)?);
    }
    if targets.is_empty() {
        gone.extend(servers.into_iter().map(Withdrawn::Server));
    }
    for one in gone {
        match one {
            Withdrawn::Server(running) => context.sites.end(&running, grace),
            Withdrawn::Old(name) => end_old(context, &name, grace),
            Withdrawn::Site(running, site) => {
                // The downloads of its last site have the same grace as the server.
                let is_last = |one: &Running| one.offer.has_only(&site);
                if !context.sites.end_if(&running, grace, is_last) {
                    let shown = site.name();
                    running.offer.remove(&site);
                    end_old(context, &shown, grace);
                }
            }
        }
    }
    Ok(Response::Done)
}

/// Ends downloads of a dataset that no site shows any more, after the grace time.
fn end_old(context: &Context, name: &str, grace: Duration) {
    for imported in context.registry.all() {
        if let Some(id) = imported.retired_tree(name) {
            imported.trees.end_retired(id, grace);
        }
    }
}
