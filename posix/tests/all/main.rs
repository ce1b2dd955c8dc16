//! File systems: those that OpenZFS made, and those that are made and changed here.

#[path = "../../../dmu/tests/all/common/mod.rs"]
mod pool;
#[path = "../../../pool/tests/all/common/mod.rs"]
mod pools;

mod access_lists;
mod aged;
mod alongside;
mod common;
mod golden_diff;
mod golden_extras;
mod golden_files;
mod golden_kinds_write;
mod golden_replay;
mod golden_replay_write;
mod golden_volumes;
mod logged;
mod made;
mod mutants;
mod power_cut;
mod referee;
mod writing;
