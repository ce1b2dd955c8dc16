//! Figures of what is served: mounts, volumes, sites; and of the object stores below.

use super::table::{
    DISK_OPEN, DISK_READ, DISK_REQUESTS, DISK_WRITTEN, HTTP_CONNECTIONS, HTTP_FROM_MEMORY,
    HTTP_REFUSED, HTTP_REQUESTS, HTTP_SENT, HTTP_SITE_MADE, HTTP_SITE_OPEN, HTTP_SITE_READ,
    HTTP_SITE_READS, HTTP_SITE_SENT, HTTP_SITE_UP, HTTP_UNLOGGED, MOUNT_ERRORS, MOUNT_READ,
    MOUNT_REQUESTS, MOUNT_WRITTEN, NBD_CLIENTS, NBD_READ, NBD_REQUESTS, NBD_WRITTEN, STORE_DAMAGED,
    STORE_FAILURES, STORE_LOG_SIZE, STORE_LOG_USED, STORE_PENDING, STORE_RECEIVED, STORE_REQUESTS,
    STORE_SENT, STORE_UNREACHABLE,
};
use crate::clouds::act::report;
use crate::clouds::status::devices_of;
use crate::clouds::table::Clouds;
use crate::local_disks::table::LocalDisks;
use crate::mounts::mounter::MountFigures;
use crate::mounts::table::Mounts;
use crate::registry::imported::Imported;
use crate::serving::table::Servers;
use crate::sites::table::SiteServers;
use cenote_base::metrics::Sink;
use cenote_control::model::{HttpServer, NbdClient, NbdServer, StoreReport};
use std::collections::BTreeMap;

/// All mounts. A dataset that is mounted several times has the sum of its mounts.
pub(super) fn mounts(mounts: &Mounts, sink: &mut dyn Sink) {
    let mut datasets: BTreeMap<(String, String), MountFigures> = BTreeMap::new();
    for (pool, dataset, figures) in mounts.figures() {
        let sum = datasets.entry((pool, dataset)).or_default();
        sum.add(&figures);
    }
    for ((pool, dataset), figures) in datasets {
        let labels = [pool.as_str(), dataset.as_str()];
        sink.number(&MOUNT_ERRORS, &labels, figures.errors);
        sink.number(&MOUNT_READ, &labels, figures.read_bytes);
        sink.number(&MOUNT_WRITTEN, &labels, figures.written_bytes);
        for (operation, requests) in figures.operations {
            // Unused operations have no series: there are forty operations.
            if requests.count() > 0 {
                let labels = [&pool, &dataset, operation];
                sink.distribution(&MOUNT_REQUESTS, &labels, requests);
            }
        }
    }
}

/// All servers of volumes, with their clients by export.
pub(super) fn servers(servers: &Servers, sink: &mut dyn Sink) {
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
pub(super) fn disks(disks: &LocalDisks, sink: &mut dyn Sink) {
    for disk in disks.running() {
        let labels = [disk.device.as_str(), disk.dataset.as_str()];
        sink.number(&DISK_OPEN, &labels, u64::from(disk.is_open));
        sink.number(&DISK_REQUESTS, &labels, disk.requests);
        sink.number(&DISK_READ, &labels, disk.read_bytes);
        sink.number(&DISK_WRITTEN, &labels, disk.written_bytes);
    }
}

/// All servers of sites.
pub(super) fn sites(servers: &SiteServers, sink: &mut dyn Sink) {
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

/// The devices in object stores that a pool has open for writing.
pub(super) fn stores(clouds: &Clouds, imported: &Imported, sink: &mut dyn Sink) {
    for (place, device) in devices_of(clouds, imported) {
        store(imported.name(), &report(&place, &device), sink);
    }
}

fn store(pool: &str, report: &StoreReport, sink: &mut dyn Sink) {
    let status = &report.status;
    let place = status.place.as_str();
    for requests in &report.requests {
        let labels = [pool, place, requests.kind.as_str()];
        sink.number(&STORE_REQUESTS, &labels, requests.requests);
        sink.number(&STORE_SENT, &labels, requests.sent);
        sink.number(&STORE_RECEIVED, &labels, requests.received);
        let reasons = [
            ("transient", requests.transient),
            ("denied", requests.denied),
            ("failed", requests.failed),
        ];
        for (reason, count) in reasons {
            let labels = [pool, place, requests.kind.as_str(), reason];
            sink.number(&STORE_FAILURES, &labels, count);
        }
    }
    let labels = [pool, place];
    sink.number(&STORE_PENDING, &labels, status.pending_bytes);
    sink.number(&STORE_DAMAGED, &labels, status.damaged_count);
    let unreachable = status.unreachable_seconds.unwrap_or(0);
    sink.number(&STORE_UNREACHABLE, &labels, unreachable);
    if let (Some(used), Some(size)) = (status.log_used, status.log_size) {
        sink.number(&STORE_LOG_USED, &labels, used);
        sink.number(&STORE_LOG_SIZE, &labels, size);
    }
}
