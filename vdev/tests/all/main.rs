//! Vdevs over disks in memory, and over the devices of golden pools.

mod golden_pools;
mod reflow;
mod settings;
mod synthetic;
mod writing;
