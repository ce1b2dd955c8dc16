//! Where messages of zedlets go: the log of the daemon, or the standard error of `zed`.

use log::Level;

/// Writes a message to a log.
pub type Tell = fn(Level, &str);
