//! The two objects of a volume.
//!
//! Source: format/3c 5, "zvol objects".

use cenote_base::ObjectId;

/// The object with the data.
pub const VOLUME_DATA: ObjectId = ObjectId(1);
/// The ZAP with the size.
pub const VOLUME_PROPERTIES: ObjectId = ObjectId(2);
/// The entry with the size in bytes.
pub const VOLUME_SIZE: &str = "size";
