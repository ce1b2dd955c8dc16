//! What a daemon publishes of pools, tested through clients' requests.

mod approvals;
mod local_disks;
mod pools;
mod sites;
