//! cenote-vdev
