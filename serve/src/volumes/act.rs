//! `cenote nbd`: volumes served because of commands.

use super::offer::{Commanded, commanded};
use super::table::{Running, VolumeServers};
use crate::context::Context;
use crate::servers::Listening;
use cenote_base::rt;
use cenote_control::model::{
    ControlError, NbdAct, NbdExport, NbdListen, NbdRefusal, NbdServer, Response,
};
use cenote_engine::Registry;
use std::time::Duration;

/// Carries out a request about served volumes.
pub(crate) fn act_on_servers(context: &Context, act: &NbdAct) -> Result<Response, ControlError> {
    match act {
        NbdAct::Serve {
            volumes,
            read_only,
            listen,
        } => serve(context, volumes, *read_only, listen),
        NbdAct::Status => Ok(Response::Nbd {
            servers: status(&context.volumes),
        }),
        NbdAct::Stop { targets, force } => stop(context, targets, *force),
    }
}

fn serve(
    context: &Context,
    volumes: &[String],
    is_read_only: bool,
    listen: &NbdListen,
) -> Result<Response, ControlError> {
    let new = commanded(&context.registry, volumes, is_read_only)?;
    let running = context.volumes.serve(&context.registry, listen, &new)?;
    Ok(Response::Nbd {
        servers: vec![running.status()],
    })
}

fn status(servers: &VolumeServers) -> Vec<NbdServer> {
    let mut all: Vec<NbdServer> = servers.running().iter().map(Running::status).collect();
    all.extend(servers.ending().iter().map(|one| NbdServer {
        is_ending: true,
        ..one.status()
    }));
    if let Some(failure) = servers.failure() {
        let failed = NbdServer {
            is_default: true,
            failure: Some(failure),
            ..NbdServer::default()
        };
        all.insert(0, failed);
    }
    all
}

/// How often a stop counts the clients before it refuses because of them.
const LOOKS: u32 = 20;
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A server to end, or an export to remove.
enum Withdrawn {
    Server(Running),
    Export(Running, Commanded, String),
}

impl Withdrawn {
    fn clients(&self) -> usize {
        match self {
            Self::Server(running) => running.clients_of(None),
            Self::Export(running, _, name) => running.clients_of(Some(name)),
        }
    }

    /// Refuses to disconnect clients. A program that just ended is still a client for a moment.
    fn check(&self, target: &str) -> Result<(), ControlError> {
        let mut looks = 0;
        loop {
            match self.clients() {
                0 => return Ok(()),
                count if looks == LOOKS => {
                    let target = target.to_owned();
                    return Err(NbdRefusal::InUse { target, count }.into());
                }
                _ => rt::sleep(LOOK_INTERVAL),
            }
            looks += 1;
        }
    }
}

/// The servers and exports that an argument of `stop` names.
fn withdrawn(
    registry: &Registry,
    servers: &[Running],
    target: &str,
) -> Result<Vec<Withdrawn>, ControlError> {
    if let Some(running) = servers.iter().find(|one| one.is_at(target)) {
        let mut exports = running.offer.exports().into_iter();
        return match exports.find(|export| export.is_by_property) {
            Some(NbdExport { name, .. }) => Err(NbdRefusal::ByProperty { dataset: name }.into()),
            None => Ok(vec![Withdrawn::Server(running.clone())]),
        };
    }
    let mut found = Vec::new();
    let mut is_by_property = false;
    for running in servers {
        for one in running.offer.commanded() {
            let named = one
                .find(registry)
                .map(|(_, dataset)| dataset.name().to_string());
            if let Some(name) = named.filter(|name| name == target) {
                found.push(Withdrawn::Export(running.clone(), one, name));
            }
        }
        let exports = || running.offer.exports().into_iter();
        is_by_property |= found.is_empty() && exports().any(|export| export.name == target);
    }
    let target = target.to_owned();
    match (found.is_empty(), is_by_property) {
        (false, _) => Ok(found),
        (true, true) => Err(NbdRefusal::ByProperty { dataset: target }.into()),
        (true, false) => Err(NbdRefusal::NotServed { target }.into()),
    }
}

fn stop(context: &Context, targets: &[String], force: bool) -> Result<Response, ControlError> {
    let mut servers = context.volumes.running();
    servers.extend(context.volumes.ending());
    let mut gone: Vec<(String, Withdrawn)> = Vec::new();
    for target in targets {
        let found = withdrawn(&context.registry, &servers, target)?;
        gone.extend(found.into_iter().map(|one| (target.clone(), one)));
    }
    if targets.is_empty() {
        for running in &servers {
            for one in running.offer.commanded() {
                if let Some((_, dataset)) = one.find(&context.registry) {
                    let name = dataset.name().to_string();
                    let export = Withdrawn::Export(running.clone(), one, name.clone());
                    gone.push((name, export));
                }
            }
        }
    }
    // All or nothing.
    for (target, one) in gone.iter().filter(|_| !force) {
        one.check(target)?;
    }
    for (_, one) in gone {
        match one {
            Withdrawn::Server(running) => {
                for one in running.offer.commanded() {
                    withdraw(context, &running, &one);
                }
                context.volumes.servers.end(&running, Duration::ZERO);
            }
            Withdrawn::Export(running, one, _) => withdraw(context, &running, &one),
        }
    }
    context.end_unneeded_servers(true);
    Ok(Response::Done)
}

/// Removes an export, and disconnects its clients.
fn withdraw(context: &Context, running: &Running, one: &Commanded) {
    running.offer.remove(one);
    if let Some((_, dataset)) = one.find(&context.registry) {
        running.server.disconnect(dataset.name().as_str());
    }
}
