//! Volumes that the daemon serves for one command, which is their client.

use crate::context::{Context, Outcome, Stop, failed, mismatch};
use crate::nbd::address::uris;
use cenote_control::model::{NbdAct, NbdListen, NbdServer, Request, Response, shell_word};
use cenote_device::Device;
use cenote_nbd_client::NbdDevice;
use std::path::Path;
use std::sync::Arc;

/// Volumes that are connected.
pub struct Served {
    pub devices: Vec<(String, Arc<NbdDevice>)>,
    /// Those that nobody served before.
    begun: Vec<String>,
}

fn ask(act: NbdAct, context: &mut Context) -> Result<Vec<NbdServer>, Stop> {
    match context.ask(Request::Nbd { act }) {
        Ok(Response::Nbd { servers }) => Ok(servers),
        Ok(Response::Done) => Ok(Vec::new()),
        Ok(_) => failed(mismatch().to_string()),
        Err(error) => failed(error.to_string()),
    }
}

impl Served {
    /// Has the daemon serve volumes, and connects to them.
    pub fn begin(
        names: &[String],
        is_read_only: bool,
        context: &mut Context,
    ) -> Result<Self, Stop> {
        let before = ask(NbdAct::Status, context)?;
        let own = before.iter().filter(|server| server.is_default);
        let known: Vec<String> = own
            .flat_map(|server| server.exports.iter().map(|export| export.name.clone()))
            .collect();
        let begun: Vec<String> = names
            .iter()
            .filter(|name| !known.contains(name))
            .cloned()
            .collect();
        let mut servers = before;
        if !begun.is_empty() {
            let act = NbdAct::Serve {
                volumes: begun.clone(),
                read_only: is_read_only,
                listen: NbdListen::default(),
            };
            servers = ask(act, context)?;
        }
        let mut served = Self {
            devices: Vec::new(),
            begun,
        };
        let connected = served.connect(names, is_read_only, &servers);
        match connected {
            Ok(()) => Ok(served),
            Err(reason) => {
                served.end(context)?;
                failed(reason)
            }
        }
    }

    fn connect(
        &mut self,
        names: &[String],
        is_read_only: bool,
        servers: &[NbdServer],
    ) -> Result<(), String> {
        let server = servers.iter().find(|server| server.is_default);
        let server = server.ok_or("the daemon does not listen for NBD clients")?;
        for name in names {
            let uris = uris(server, name);
            let uri = uris
                .first()
                .ok_or("the daemon's NBD server has no address")?;
            let device = NbdDevice::open(Path::new(uri), !is_read_only);
            let device = device.map_err(|error| format!("{name}: {error}"))?;
            if !is_read_only && !device.is_writable() {
                return Err(format!(
                    "{name} is served read-only; run 'cenote nbd stop {}' first, or use -r",
                    shell_word(name)
                ));
            }
            self.devices.push((name.clone(), Arc::new(device)));
        }
        Ok(())
    }

    /// Makes everything durable, and has the daemon serve no longer what nobody served before.
    pub fn end(self, context: &mut Context) -> Outcome {
        let mut failure = None;
        for (name, device) in self.devices {
            if device.is_writable()
                && let Err(error) = device.flush()
            {
                failure = Some(format!("{name}: {error}"));
            }
        }
        if !self.begun.is_empty() {
            let act = NbdAct::Stop {
                targets: self.begun,
                force: true,
            };
            ask(act, context)?;
        }
        failure.map_or(Ok(0), failed)
    }
}
