//! Vdevs over disks in memory, and over the devices of golden pools.

mod changes;
mod golden_pools;
mod reflow;
mod resilver_targets;
mod settings;
mod support;
mod synthetic;
mod writing;
