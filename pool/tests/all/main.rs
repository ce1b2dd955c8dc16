//! Pools on files and on disks in memory: made, imported, written to, damaged.

#[path = "../../../dmu/tests/all/common/world.rs"]
#[allow(dead_code, reason = "its own crate uses more of it")]
mod model;

mod believed;
mod caching;
mod checkpoint;
mod common;
mod create;
mod dedup;
mod encryption_roots;
mod golden_write;
mod growth;
mod heads;
mod identity;
mod in_use;
mod late_targets;
mod log_devices;
mod log_writer;
mod missed;
mod moved_space;
mod multihost;
mod objects;
mod power_cut;
mod received;
mod scan;
mod settings;
mod snapshots;
mod spared;
mod spares;
mod treatments;
mod tree;
mod unread;
mod unreadable_heads;
mod unreplayed_logs;
mod verify_state;
mod waiting;
