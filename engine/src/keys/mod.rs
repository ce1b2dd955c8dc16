//! Keys of encrypted datasets: loaded and unloaded (`load`), and changed (`change`). The keys
//! themselves are kept by the pools.

pub(crate) mod change;
pub(crate) mod load;
