//! What is published of pools, asked as a client asks it.

mod approvals;
mod local_disks;
mod pools;
mod sites;
