//! Names of devices: `file:///srv/store?size=1T`, `s3://bucket/prefix?size=1T`.
//!
//! A name is a URL. Behind the question mark stand options. Two of them are for one opening:
//!
//! ```text
//! size=SIZE  how large the device is to be that is made
//! log=SIZE   how large the local log is to be, if there is none yet; 0: no log, and every flush
//!            waits for the store
//! cache=writeback     a flush is done once the local log is on disk
//! cache=writethrough  a flush is done once everything is in the store
//! ```
//!
//! The others say where the store is ([`crate::store::s3`] has those of buckets). They are part of
//! the name that a device is known by, and that labels keep.
//!
//! Escapes (`%20`) are not undone: names of directories and objects stand there as they are, and
//! cannot have a question mark.

use crate::options::WriteMode;
use crate::schemes::Scheme;
use crate::store::s3::{BucketName, BucketNameError};
use cenote_base::{parse_size, scheme};
use std::fmt;
use std::path::{Path, PathBuf};

/// The schemes of names of devices in stores.
pub const SCHEMES: [Scheme; 2] = [
    Scheme {
        name: "s3",
        form: "s3://BUCKET/PREFIX",
    },
    Scheme {
        name: "file",
        form: "file:///DIRECTORY",
    },
];

/// Why a name is none of a device in a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// There is no such kind of store.
    #[error("there is no kind of store '{0}': it is {forms}", forms = forms())]
    Kind(String),
    /// The directory is named as of another host, or relative to something.
    #[error("'{0}' is no absolute path: it is file:///DIRECTORY")]
    Relative(String),
    /// There is no bucket of that name.
    #[error(transparent)]
    Bucket(#[from] BucketNameError),
    /// There is no such option.
    #[error("'{option}' is no option of such a store: those are {known}")]
    Option {
        /// What is none.
        option: String,
        /// What there is.
        known: &'static str,
    },
    /// There is no such way of writing.
    #[error("'{0}' is neither writeback nor writethrough")]
    Mode(String),
    /// An option's value is no size.
    #[error("{0}")]
    Size(String),
}

/// What names of stores look like.
fn forms() -> String {
    SCHEMES.map(|scheme| scheme.form).join(" or ")
}

/// Which store it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreName {
    /// This directory.
    Directory(PathBuf),
    /// A bucket, or a part of one.
    Bucket(BucketName),
}

/// Where a device is, and how it is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The store.
    pub store: StoreName,
    /// Bytes of the device, if it is to be made.
    pub size: Option<u64>,
    /// Bytes of the local log, if it is to be made; 0 for none. Not said, what the opener takes.
    pub log_size: Option<u64>,
    /// When flushes are done, if that is said.
    pub mode: Option<WriteMode>,
}

/// Whether a path is the name of a device in a store, rather than one of the system, or one in
/// the network.
pub fn is_location(path: &Path) -> bool {
    let scheme = scheme(path);
    scheme.is_some_and(|scheme| SCHEMES.iter().any(|known| known.name == scheme))
}

/// What labels keep of a name: where the store is, without what is for one opening.
pub fn place(path: &Path) -> PathBuf {
    let location = path.to_str().map(Location::parse);
    match location {
        Some(Ok(location)) => location.store.to_string().into(),
        _ => path.into(),
    }
}

/// The kind of store, and what follows it.
fn kind(text: &str) -> Option<(&str, &str)> {
    scheme(Path::new(text))?;
    text.split_once("://")
}

impl fmt::Display for StoreName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(formatter, "file://{}", path.display()),
            Self::Bucket(name) => name.fmt(formatter),
        }
    }
}

impl StoreName {
    /// The store whose name begins with `place`.
    fn parse(place: &str) -> Result<Self, LocationError> {
        match kind(place) {
            Some(("file", directory)) if !directory.starts_with('/') => {
                Err(LocationError::Relative(directory.to_owned()))
            }
            Some(("file", directory)) => Ok(Self::Directory(directory.into())),
            Some(("s3", place)) => Ok(Self::Bucket(BucketName::parse(place)?)),
            Some((kind, _)) => Err(LocationError::Kind(kind.to_owned())),
            None => Err(LocationError::Kind(place.to_owned())),
        }
    }

    /// Takes an option; says whether there is one of that name.
    fn set(&mut self, option: &str, value: &str) -> Result<bool, LocationError> {
        match self {
            Self::Directory(_) => Ok(false),
            Self::Bucket(name) => Ok(name.set(option, value)?),
        }
    }

    fn known(&self) -> &'static str {
        match self {
            Self::Directory(_) => "size=SIZE, log=SIZE and cache=writeback|writethrough",
            Self::Bucket(_) => {
                "size=SIZE, log=SIZE, cache=writeback|writethrough, endpoint=URL, region=NAME, \
                 path_style=on|off, profile=NAME and store=NAME"
            }
        }
    }
}

fn mode(text: &str) -> Result<WriteMode, LocationError> {
    match text {
        "writeback" => Ok(WriteMode::Writeback),
        "writethrough" => Ok(WriteMode::Writethrough),
        _ => Err(LocationError::Mode(text.to_owned())),
    }
}

impl Location {
    /// What a name says.
    ///
    /// # Errors
    /// What of it cannot be.
    pub fn parse(text: &str) -> Result<Self, LocationError> {
        let (place, options) = text.split_once('?').unwrap_or((text, ""));
        let mut location = Self {
            store: StoreName::parse(place)?,
            size: None,
            log_size: None,
            mode: None,
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let size = || parse_size(value).map_err(|error| LocationError::Size(error.to_string()));
            match name {
                "size" => location.size = Some(size()?),
                "log" => location.log_size = Some(size()?),
                "cache" => location.mode = Some(mode(value)?),
                _ if location.store.set(name, value)? => {}
                _ => {
                    return Err(LocationError::Option {
                        option: name.to_owned(),
                        known: location.store.known(),
                    });
                }
            }
        }
        Ok(location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `base` has them all, for commands that take lists of names apart.
    #[test]
    fn every_scheme_is_known_in_lists() {
        let exports = crate::schemes::nbd_schemes();
        let all = SCHEMES.iter().chain(&exports).map(|scheme| scheme.name);
        assert!(all.eq(cenote_base::DEVICE_SCHEMES));
    }

    #[test]
    fn names_are_read() {
        let text = "file:///a/b?size=1T&log=64M&cache=writethrough";
        let location = Location::parse(text).expect("a name");
        let expected = Location {
            store: StoreName::Directory("/a/b".into()),
            size: Some(1 << 40),
            log_size: Some(64 << 20),
            mode: Some(WriteMode::Writethrough),
        };
        assert_eq!(location, expected);
        assert_eq!(place(Path::new(text)), Path::new("file:///a/b"));
        assert_eq!(place(Path::new("/a?b")), Path::new("/a?b"));
        let plain = Location::parse("file:///a").expect("a name");
        assert_eq!((plain.size, plain.log_size, plain.mode), (None, None, None));
        let text = "s3://b/p?size=1G&region=here&log=0&endpoint=https://s3.example.org";
        let bucket = Location::parse(text).expect("a name");
        assert_eq!((bucket.size, bucket.log_size), (Some(1 << 30), Some(0)));
        let kept = "s3://b/p?endpoint=https://s3.example.org&region=here";
        assert_eq!(bucket.store.to_string(), kept);
        assert_eq!(Location::parse(kept).expect("a name").store, bucket.store);
        let whole = Path::new(text);
        assert_eq!(place(whole), Path::new(kept), "labels lead back to it");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let error = |text| Location::parse(text).expect_err("no name");
        assert_eq!(error("gs://bucket"), LocationError::Kind("gs".into()));
        assert_eq!(error("/a"), LocationError::Kind("/a".into()));
        assert_eq!(error("file://a"), LocationError::Relative("a".into()));
        let unknown = |text| match error(text) {
            LocationError::Option { option, .. } => option,
            other => other.to_string(),
        };
        assert_eq!(unknown("file:///a?region=x"), "region");
        assert_eq!(unknown("s3://b?secret=x"), "secret");
        assert!(!error("s3://b?secret=hidden").to_string().contains("hidden"));
        assert!(matches!(error("file:///a?size=x"), LocationError::Size(_)));
        assert!(matches!(error("s3://b?cache=x"), LocationError::Mode(_)));
        assert!(matches!(
            error("s3://b?endpoint=x"),
            LocationError::Bucket(_)
        ));
        assert!(is_location(Path::new("s3://bucket")));
        assert!(!is_location(Path::new("/dev/sda")));
        assert!(!is_location(Path::new("/a://b")));
        assert!(!is_location(Path::new("nbd://host/export")));
    }
}
