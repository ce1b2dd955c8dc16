//! Which places devices are looked for at.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Where spares and cache devices are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// At their recorded paths.
    Recorded,
    /// Also in the directories of these paths.
    Beside,
}

/// Whether a recorded path may be opened: a label may name any, and what is neither file nor block
/// device may do something when it is opened.
pub(crate) fn may_open(path: &Path) -> bool {
    if path.to_str().is_some_and(|name| name.contains("://")) {
        return true;
    }
    let kind = std::fs::metadata(path).map(|found| found.file_type());
    path.is_absolute() && kind.is_ok_and(|kind| kind.is_file() || kind.is_block_device())
}
