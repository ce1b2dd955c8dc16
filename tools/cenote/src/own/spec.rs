//! How files in pools are named: `POOL/DATASET[@SNAPSHOT]:/PATH`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use thiserror::Error;

use cenote_control::model::NameFault;

use crate::texts::check_name;

/// The words do not name a file in a pool.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// The dataset's part is not UTF-8.
    #[error("'{0}': the dataset's name is not valid")]
    NotText(String),
    /// The dataset's part cannot be a dataset's name.
    #[error("'{name}': {fault}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong.
        fault: NameFault,
    },
}

/// A place in a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The dataset, without its snapshot.
    pub dataset: String,
    /// The snapshot's own name.
    pub snapshot: Option<String>,
    /// The path in the dataset, beginning with `/`; `/` if none was given.
    pub path: OsString,
}

impl Spec {
    /// Reads the words of a command line.
    ///
    /// The first `:/` ends the dataset: a dataset's name may have a colon, but hardly at its end.
    pub fn parse(word: &OsStr) -> Result<Self, SpecError> {
        let bytes = word.as_bytes();
        let end = bytes.windows(2).position(|pair| pair == b":/");
        let end = end.or_else(|| bytes.strip_suffix(b":").map(<[u8]>::len));
        let (name, path) = match end {
            Some(end) => (&bytes[..end], &bytes[end + 1..]),
            None => (bytes, &b""[..]),
        };
        let path = if path.is_empty() { b"/" } else { path };
        let lossy = || String::from_utf8_lossy(name).into_owned();
        let name = std::str::from_utf8(name).map_err(|_| SpecError::NotText(lossy()))?;
        check_name(name, true, false).map_err(|fault| SpecError::Name {
            name: name.to_owned(),
            fault,
        })?;
        let (dataset, snapshot) = match name.split_once('@') {
            Some((dataset, snapshot)) => (dataset, Some(snapshot.to_owned())),
            None => (name, None),
        };
        Ok(Spec {
            dataset: dataset.to_owned(),
            snapshot,
            path: OsString::from_vec(path.to_vec()),
        })
    }

    /// The pool.
    pub fn pool(&self) -> &str {
        self.dataset.split('/').next().unwrap_or(&self.dataset)
    }

    /// The dataset or snapshot by its full name.
    pub fn full_name(&self) -> String {
        match &self.snapshot {
            Some(snapshot) => format!("{}@{snapshot}", self.dataset),
            None => self.dataset.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(word: &str) -> Spec {
        Spec::parse(OsStr::new(word)).expect(word)
    }

    #[test]
    fn dataset_snapshot_and_path_come_apart() {
        let spec = parse("tank/home@monday:/a:/b");
        assert_eq!(spec.full_name(), "tank/home@monday");
        assert_eq!((spec.pool(), spec.path.to_str()), ("tank", Some("/a:/b")));
        assert_eq!(parse("tank").path, "/");
        assert_eq!(parse("tank:").path, "/");
        assert_eq!(parse("tank/a:b").dataset, "tank/a:b");
    }

    #[test]
    fn paths_need_not_be_text() {
        let word = OsString::from_vec(b"tank:/\xff".to_vec());
        assert_eq!(Spec::parse(&word).expect("valid").path.as_bytes(), b"/\xff");
        let word = OsString::from_vec(b"t\xff:/".to_vec());
        assert!(matches!(Spec::parse(&word), Err(SpecError::NotText(_))));
        assert!(Spec::parse(OsStr::new("/tank")).is_err());
    }
}
