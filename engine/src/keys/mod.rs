//! Keys of encrypted datasets: loaded and unloaded (`load`), given to new datasets (`new`), and
//! changed (`change`). The keys themselves are kept by the pools.

pub(crate) mod change;
pub(crate) mod load;
pub(crate) mod new;
