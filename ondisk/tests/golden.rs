//! Every structure of pools made by OpenZFS decodes, and says what is known of the pool.

mod golden_pools;
