//! OpenZFS's on-disk format: one structure per file, pure decoding and encoding.
//!
//! Nothing here does I/O or keeps state. Every decoder takes bytes that may be hostile and
//! returns a [`Result`]. Unless a module says otherwise the bytes are little-endian: a block
//! that a big-endian host wrote goes through [`byteswap`] first, once, so that no other
//! decoder needs two variants.

#![forbid(unsafe_code)]

pub mod acl;
pub mod block_pointer;
pub mod bookmark_phys;
pub mod boot_environment;
pub mod bpobj;
pub mod bptree;
pub mod brt;
pub mod byteswap;
pub mod cache_file;
pub mod checksum_kind;
pub mod compatibility;
pub mod compression_kind;
pub mod config_encode;
pub mod crypto_key;
pub mod ddt;
pub mod deadlist;
pub mod device_removal;
pub mod dir_entry;
pub mod dnode;
pub mod dsl_dataset;
pub mod dsl_dir;
pub mod embedded_checksum;
mod error;
pub mod feature_sets;
pub mod features;
pub mod history;
pub mod intent_log;
pub mod l2arc;
pub mod label;
pub mod log_notes;
pub mod master_node;
pub mod nvlist;
pub mod object_directory;
pub mod object_type;
pub mod objset;
pub mod pool_config;
pub mod properties;
pub mod redaction_list;
pub mod resilver_targets;
pub mod scan;
pub mod space_map;
pub mod space_map_writer;
pub mod stream;
pub mod system_attributes;
pub mod system_attributes_encode;
pub mod uberblock;
pub mod vdev_config;
pub mod vdev_zap;
pub mod volume_objects;
pub mod wire;
pub mod zap;
pub mod znode_phys;

pub use block_pointer::{BlockPointer, Dva};
pub use checksum_kind::ChecksumKind;
pub use compression_kind::CompressionKind;
pub use dnode::Dnode;
pub use dsl_dataset::DslDataset;
pub use dsl_dir::DslDir;
pub use error::DecodeError;
pub use nvlist::{NvList, NvValue};
pub use object_type::ObjectType;
pub use objset::Objset;
pub use pool_config::PoolConfig;
pub use uberblock::Uberblock;
pub use vdev_config::{VdevConfig, VdevKind};
