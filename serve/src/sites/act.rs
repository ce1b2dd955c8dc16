//! `cenote http`: sites served because of commands.

use super::http::address;
use super::site::Site;
use super::table::{Running, serve_sites};
use crate::context::Context;
use crate::servers::Listening;
use cenote_control::model::{ControlError, HttpAct, HttpOptions, HttpRefusal, HttpSite, Response};
use cenote_engine::Imported;
use std::sync::Arc;
use std::time::Duration;

/// Carries out a request about sites.
pub(crate) fn act_on_sites(context: &Context, act: HttpAct) -> Result<Response, ControlError> {
    match act {
        HttpAct::Start { sites, options } => start(context, &sites, &options),
        HttpAct::Status => Ok(Response::Http {
            servers: context
                .sites
                .running()
                .iter()
                .map(Running::status)
                .collect(),
        }),
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
    if let Some(running) = servers.iter().find(|one| one.is_at(target)) {
        return Ok(vec![Withdrawn::Server(running.clone())]);
    }
    let mut found = Vec::new();
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
        && let Some(running) = servers.iter().find(|one| one.is_at(&address))
    {
        found.push(Withdrawn::Server(running.clone()));
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
    let servers = context.sites.running();
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
            Withdrawn::Server(running) => {
                if let Some(taken) = context.sites.take(&running) {
                    end(&taken, grace);
                }
            }
            Withdrawn::Old(name) => end_old(context, &name, grace),
            Withdrawn::Site(running, site) => {
                let shown = site.name();
                running.offer.remove(&site);
                end_old(context, &shown, grace);
                if let Some(taken) = context.sites.take_unused(&running) {
                    end(&taken, grace);
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

/// Ends a server that was removed from the table. Downloads may take the grace time.
pub(crate) fn end(taken: &Running, grace: Duration) {
    taken.server.stop(grace);
    for site in taken.offer.commanded() {
        taken.offer.remove(&site);
    }
}
