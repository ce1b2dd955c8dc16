//! Volumes that the daemon serves to one command as its client.

use crate::nbd::address::uris;
use cenote_control::model::{
    ControlError, NbdAct, NbdListen, NbdRefusal, NbdServer, Refusal, Request, Response,
};
use cenote_control::protocol::socket_of_process;
use cenote_device::Device;
use cenote_nbd_client::NbdDevice;
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch};
use std::path::Path;
use std::sync::Arc;

/// The suffix of a command's socket, between the daemon's path and the process number.
const SUFFIX: &str = ".nbd.";

/// Connections per server, minus some in reserve, and connections per volume.
const CONNECTIONS_MAX: usize = 240;
const CONNECTIONS: usize = 4;

/// The connected volumes.
pub struct Served {
    pub devices: Vec<(String, Arc<NbdDevice>)>,
    /// The socket on which they are served.
    address: String,
}

fn ask(act: NbdAct, context: &mut Context) -> Result<Vec<NbdServer>, Stop> {
    match context.ask(Request::Nbd { act }) {
        Ok(Response::Nbd { servers }) => Ok(servers),
        Ok(Response::Done) => Ok(Vec::new()),
        Ok(_) => failed(mismatch().to_string()),
        Err(error) => failed(error.to_string()),
    }
}

/// The socket of one command, beside the daemon's.
///
/// On the daemon's own server, other clients could use the volume, too. And ending this command
/// would end what another command or the user serves there.
fn socket_of(process: u32) -> String {
    let socket = socket_of_process();
    let socket = std::path::absolute(&socket).unwrap_or(socket);
    format!("{}{SUFFIX}{process}", socket.display())
}

/// The process number of the command that owns a socket.
fn process_of(address: &str) -> Option<u32> {
    let (start, process) = address.rsplit_once(SUFFIX)?;
    let process = process.parse().ok()?;
    (socket_of(process) == address && !start.is_empty()).then_some(process)
}

fn withdraw(address: String, context: &mut Context) -> Result<(), Stop> {
    let act = NbdAct::Stop {
        targets: vec![address],
        force: true,
    };
    let request = Request::Nbd { act };
    // The first request fails if the daemon has been restarted since the last one.
    let asked = context.ask(request.clone());
    match asked.or_else(|_| context.ask(request)) {
        // It ended already, with its pool or volume.
        Ok(_) | Err(ControlError::Refused(Refusal::Nbd(NbdRefusal::NotServed { .. }))) => Ok(()),
        Err(error) => failed(error.to_string()),
    }
}

/// Ends the servers of killed commands.
fn withdraw_left(context: &mut Context) -> Result<(), Stop> {
    for server in ask(NbdAct::Status, context)? {
        for address in server.addresses {
            let process = process_of(&address);
            if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
                withdraw(address, context)?;
            }
        }
    }
    Ok(())
}

impl Served {
    /// Asks the daemon to serve volumes, and connects to them.
    pub fn begin(
        names: &[String],
        is_read_only: bool,
        context: &mut Context,
    ) -> Result<Self, Stop> {
        if names.len() > CONNECTIONS_MAX {
            let count = names.len();
            return failed(format!(
                "{count} volumes are too many for one command; name {CONNECTIONS_MAX} at most"
            ));
        }
        withdraw_left(context)?;
        let address = socket_of(std::process::id());
        let act = NbdAct::Serve {
            volumes: names.to_vec(),
            read_only: is_read_only,
            listen: NbdListen {
                unix: Some(address.clone()),
                ..NbdListen::default()
            },
        };
        let servers = ask(act, context)?;
        let mut served = Self {
            devices: Vec::new(),
            address,
        };
        match served.connect(names, is_read_only, &servers) {
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
        let server = servers
            .first()
            .ok_or("the daemon does not listen for NBD clients")?;
        let connections = CONNECTIONS_MAX / names.len().max(1);
        for name in names {
            let uris = uris(server, name);
            let uri = uris
                .first()
                .ok_or("the daemon's NBD server has no address")?;
            // Only with many volumes: QEMU's programs, which get the URI of a single volume, do not
            // know the option.
            let uri = match connections < CONNECTIONS {
                true => &format!("{uri}&connections={connections}"),
                false => uri,
            };
            let device = NbdDevice::open(Path::new(uri), !is_read_only);
            let device = device.map_err(|error| format!("{name}: {error}"))?;
            if !is_read_only && !device.is_writable() {
                return Err(format!(
                    "{name} is read-only: its property readonly is on, it is a snapshot, or its \
                     pool is imported read-only"
                ));
            }
            self.devices.push((name.clone(), Arc::new(device)));
        }
        Ok(())
    }

    /// Flushes all data and ends the server.
    pub fn end(self, context: &mut Context) -> Outcome {
        let mut failure = None;
        for (name, device) in self.devices {
            if device.is_writable()
                && let Err(error) = device.flush()
            {
                failure = Some(format!("{name}: {error}"));
            }
        }
        withdraw(self.address, context)?;
        failure.map_or(Ok(0), failed)
    }
}
