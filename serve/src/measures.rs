//! Figures of what is published: volumes, disks, sites.

use crate::context::Context;
use crate::disks::table::LocalDisks;
use crate::servers::Servers;
use crate::sites::table::Running;
use crate::volumes::table::VolumeServers;
use cenote_base::metrics::Sink;
use cenote_control::measures::{
    DISK_OPEN, DISK_READ, DISK_REQUESTS, DISK_WRITTEN, HTTP_CONNECTIONS, HTTP_FROM_MEMORY,
    HTTP_REFUSED, HTTP_REQUESTS, HTTP_SENT, HTTP_SITE_MADE, HTTP_SITE_OPEN, HTTP_SITE_READ,
    HTTP_SITE_READS, HTTP_SITE_SENT, HTTP_SITE_UP, HTTP_UNLOGGED, NBD_CLIENTS, NBD_READ,
    NBD_REQUESTS, NBD_WRITTEN,
};
use cenote_control::model::{HttpServer, NbdClient, NbdServer};

/// Those that are wanted.
pub(crate) fn measure(context: &Context, sink: &mut dyn Sink) {
    if sink.wants("cenote_nbd_") {
        servers(&context.volumes, sink);
    }
    if sink.wants("cenote_disk_") {
        disks(&context.disks, sink);
    }
    if sink.wants("cenote_http_") {
        sites(&context.sites, sink);
    }
}

/// All servers of volumes, with their clients by export.
fn servers(servers: &VolumeServers, sink: &mut dyn Sink) {
    for running in servers.running() {
        server(&running.status(), sink);
    }
}

fn server(server: &NbdServer, sink: &mut dyn Sink) {
    let address = server.addresses.join(",");
    for export in &server.exports {
        let labels = [address.as_str(), export.name.as_str()];
        let is_own = |client: &&NbdClient| client.export.as_deref() == Some(&export.name);
        let own: Vec<&NbdClient> = server.clients.iter().filter(is_own).collect();
        let sum = |figure: fn(&NbdClient) -> u64| own.iter().map(|client| figure(client)).sum();
        sink.number(&NBD_CLIENTS, &labels, own.len() as u64);
        sink.number(&NBD_REQUESTS, &labels, sum(|client| client.requests));
        sink.number(&NBD_READ, &labels, sum(|client| client.read_bytes));
        sink.number(&NBD_WRITTEN, &labels, sum(|client| client.written_bytes));
    }
}

/// All disks of this machine.
fn disks(disks: &LocalDisks, sink: &mut dyn Sink) {
    for disk in disks.running() {
        let labels = [disk.device.as_str(), disk.dataset.as_str()];
        sink.number(&DISK_OPEN, &labels, u64::from(disk.is_open));
        sink.number(&DISK_REQUESTS, &labels, disk.requests);
        sink.number(&DISK_READ, &labels, disk.read_bytes);
        sink.number(&DISK_WRITTEN, &labels, disk.written_bytes);
    }
}

/// All servers of sites.
fn sites(servers: &Servers<Running>, sink: &mut dyn Sink) {
    for running in servers.running() {
        site_server(&running.status(), sink);
    }
}

fn site_server(server: &HttpServer, sink: &mut dyn Sink) {
    let address = server.addresses.join(",");
    let (labels, figures) = ([address.as_str()], &server.figures);
    sink.number(&HTTP_CONNECTIONS, &labels, figures.connections);
    sink.number(&HTTP_REQUESTS, &labels, figures.requests);
    sink.number(&HTTP_FROM_MEMORY, &labels, figures.from_memory);
    sink.number(&HTTP_SENT, &labels, figures.sent_bytes);
    sink.number(&HTTP_REFUSED, &labels, figures.refused);
    sink.number(&HTTP_UNLOGGED, &labels, figures.unlogged);
    for site in &server.sites {
        let host = site.site.host.as_deref().unwrap_or_default();
        let place = format!("{host}{}", site.site.path);
        let labels = [address.as_str(), &place, &site.site.dataset];
        sink.number(&HTTP_SITE_READS, &labels, site.reads);
        sink.number(&HTTP_SITE_SENT, &labels, site.sent_bytes);
        sink.number(&HTTP_SITE_READ, &labels, site.read_bytes);
        sink.number(&HTTP_SITE_OPEN, &labels, site.open_files);
        sink.number(&HTTP_SITE_UP, &labels, u64::from(site.problem.is_none()));
        if let Some(made) = site.made {
            sink.number(&HTTP_SITE_MADE, &labels, made);
        }
    }
}
