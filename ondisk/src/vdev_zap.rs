//! The ZAPs of vdevs: what a pool keeps of each vdev beside its configuration.
//!
//! Source: format/1c 8. The configuration names the ZAPs of a leaf, of a top-level vdev and of
//! the root vdev. Properties that a user set stand there under their own names.

/// Names of entries in the ZAP of a top-level vdev.
#[expect(missing_docs, reason = "format/1c 8 says what each is")]
pub mod top {
    pub const ALLOCATION_BIAS: &str = "org.zfsonlinux:allocation_bias";
    pub const UNFLUSHED_TXGS: &str = "com.delphix:ms_unflushed_phys_txgs";
    pub const OBSOLETE_SPACE_MAP: &str = "com.delphix:indirect_obsolete_sm";
    pub const OBSOLETE_COUNTS_ARE_PRECISE: &str = "com.delphix:obsolete_counts_are_precise";
    pub const CHECKPOINT_SPACE_MAP: &str = "com.delphix:pool_checkpoint_sm";
    pub const REBUILD: &str = "org.openzfs:vdev_rebuild";
}

/// Names of entries in the ZAP of a leaf.
#[expect(missing_docs, reason = "format/1c 8 says what each is")]
pub mod leaf {
    pub const INITIALIZE_OFFSET: &str = "com.delphix:next_offset_to_initialize";
    pub const INITIALIZE_STATE: &str = "com.delphix:vdev_initialize_state";
    pub const INITIALIZE_VALUE: &str = "org.openzfs:vdev_initialize_value";
    pub const INITIALIZE_TIME: &str = "com.delphix:vdev_initialize_action_time";
    pub const TRIM_OFFSET: &str = "org.zfsonlinux:next_offset_to_trim";
    pub const TRIM_STATE: &str = "org.zfsonlinux:vdev_trim_state";
    pub const TRIM_TIME: &str = "org.zfsonlinux:vdev_trim_action_time";
    pub const TRIM_RATE: &str = "org.zfsonlinux:vdev_trim_rate";
    pub const TRIM_IS_PARTIAL: &str = "org.zfsonlinux:vdev_trim_partial";
    pub const TRIM_IS_SECURE: &str = "org.zfsonlinux:vdev_trim_secure";
}
