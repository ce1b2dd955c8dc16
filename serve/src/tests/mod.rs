//! What a daemon publishes of pools, and what it mounts, tested through clients' requests.

mod approvals;
mod late_mounts;
mod local_disks;
mod own_server;
mod pools;
mod sites;
