//! Names of devices: `file:///srv/store?size=1T`.
//!
//! A name is a URL. What stands before the question mark says where the store is, and is what
//! labels keep; what stands behind it is for one opening, and not kept:
//!
//! ```text
//! size=SIZE  how large the device is to be that is made
//! log=SIZE   how large the local log is to be, if there is none yet; 0: no log, and every flush
//!            waits for the store
//! cache=writeback     a flush is done once the local log is on disk
//! cache=writethrough  a flush is done once everything is in the store
//! ```
//!
//! One kind of store has a name so far, a directory. Escapes (`%20`) are not undone: a directory's
//! name stands there as it is, and cannot have a question mark.

use crate::options::WriteMode;
use cenote_base::parse_size;
use std::path::{Path, PathBuf};

/// Why a name is none of a device in a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// There is no such kind of store.
    #[error("there is no kind of store '{0}': it is file:///DIRECTORY")]
    Kind(String),
    /// The directory is named as of another host, or relative to something.
    #[error("'{0}' is no absolute path: it is file:///DIRECTORY")]
    Relative(String),
    /// There is no such option.
    #[error(
        "'{0}' is no option of a store: those are size=SIZE, log=SIZE, cache=writeback and \
         cache=writethrough"
    )]
    Option(String),
    /// An option's value is no size.
    #[error("{0}")]
    Size(String),
}

/// Where a device is, and how it is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The directory that is the store.
    pub directory: PathBuf,
    /// Bytes of the device, if it is to be made.
    pub size: Option<u64>,
    /// Bytes of the local log, if it is to be made; 0 for none. Not said, what the opener takes.
    pub log_size: Option<u64>,
    /// When flushes are done, if that is said.
    pub mode: Option<WriteMode>,
}

/// Whether a path is the name of a device in a store, rather than one of the system.
pub fn is_location(path: &Path) -> bool {
    path.to_str().is_some_and(|text| kind(text).is_some())
}

/// What labels keep of a name: where the store is, without what is for one opening.
pub fn place(path: &Path) -> PathBuf {
    match path.to_str().and_then(|text| text.split_once('?')) {
        Some((place, _)) if is_location(path) => place.into(),
        _ => path.into(),
    }
}

/// The kind of store, and what follows it.
fn kind(text: &str) -> Option<(&str, &str)> {
    let (kind, rest) = text.split_once("://")?;
    let is_word = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_word.then_some((kind, rest))
}

impl Location {
    /// What a name says.
    ///
    /// # Errors
    /// What of it cannot be.
    pub fn parse(text: &str) -> Result<Self, LocationError> {
        let (place, options) = text.split_once('?').unwrap_or((text, ""));
        let directory = match kind(place) {
            Some(("file", directory)) => directory,
            Some((kind, _)) => return Err(LocationError::Kind(kind.to_owned())),
            None => return Err(LocationError::Kind(place.to_owned())),
        };
        if !directory.starts_with('/') {
            return Err(LocationError::Relative(directory.to_owned()));
        }
        let mut location = Self {
            directory: PathBuf::from(directory),
            size: None,
            log_size: None,
            mode: None,
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let unknown = || LocationError::Option(option.to_owned());
            let (name, value) = option.split_once('=').ok_or_else(unknown)?;
            let size = || parse_size(value).map_err(|error| LocationError::Size(error.to_string()));
            match name {
                "size" => location.size = Some(size()?),
                "log" => location.log_size = Some(size()?),
                "cache" if value == "writeback" => location.mode = Some(WriteMode::Writeback),
                "cache" if value == "writethrough" => {
                    location.mode = Some(WriteMode::Writethrough);
                }
                _ => return Err(unknown()),
            }
        }
        Ok(location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        let text = "file:///a/b?size=1T&log=64M&cache=writethrough";
        let location = Location::parse(text).expect("a name");
        let expected = Location {
            directory: "/a/b".into(),
            size: Some(1 << 40),
            log_size: Some(64 << 20),
            mode: Some(WriteMode::Writethrough),
        };
        assert_eq!(location, expected);
        assert_eq!(place(Path::new(text)), Path::new("file:///a/b"));
        assert_eq!(place(Path::new("/a?b")), Path::new("/a?b"));
        let plain = Location::parse("file:///a").expect("a name");
        assert_eq!((plain.size, plain.log_size, plain.mode), (None, None, None));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let error = |text| Location::parse(text).expect_err("no name");
        assert_eq!(error("s3://bucket"), LocationError::Kind("s3".into()));
        assert_eq!(error("/a"), LocationError::Kind("/a".into()));
        assert_eq!(error("file://a"), LocationError::Relative("a".into()));
        assert_eq!(error("file:///a?x=1"), LocationError::Option("x=1".into()));
        assert!(matches!(error("file:///a?size=x"), LocationError::Size(_)));
        assert!(is_location(Path::new("s3://bucket")));
        assert!(!is_location(Path::new("/dev/sda")));
        assert!(!is_location(Path::new("/a://b")));
    }
}
