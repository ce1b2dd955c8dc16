//! `POOL/DATASET[@SNAPSHOT]:/path`: a file in a pool.
//!
//! The dataset's name ends at `:/`, or at a last `:`. Without either the whole text is a name, and
//! means the root directory. Names may contain single colons, paths any bytes.

use super::failure::Failure;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A place as the user typed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The dataset or snapshot.
    pub dataset: String,
    /// The path in it, if one was given: begins with a slash or is empty.
    pub path: Option<Vec<u8>>,
}

impl Spec {
    /// Parses a place.
    pub fn parse(text: &OsStr) -> Result<Self, Failure> {
        let bytes = text.as_bytes();
        let wrong = |problem: &str| Failure::Spec {
            text: text.to_string_lossy().into_owned(),
            problem: problem.into(),
        };
        let (dataset, path) = match bytes.windows(2).position(|pair| pair == b":/") {
            Some(at) => (&bytes[..at], Some(bytes[at + 1..].to_vec())),
            None => match bytes.strip_suffix(b":") {
                Some(dataset) => (dataset, Some(b"/".to_vec())),
                None => (bytes, None),
            },
        };
        let dataset =
            std::str::from_utf8(dataset).map_err(|_| wrong("a dataset's name is UTF-8"))?;
        if dataset.is_empty() {
            return Err(wrong("the pool's name is missing: give POOL/DATASET:/path"));
        }
        Ok(Self {
            dataset: dataset.into(),
            path,
        })
    }

    /// The pool: a name or a guid.
    pub fn pool(&self) -> &str {
        let end = self
            .dataset
            .find(['/', '@', '#'])
            .unwrap_or(self.dataset.len());
        &self.dataset[..end]
    }

    /// The path, the root directory if none was given.
    pub fn path_or_root(&self) -> &[u8] {
        self.path.as_deref().unwrap_or(b"/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (String, Option<String>) {
        let spec = Spec::parse(OsStr::new(text)).expect("a place");
        let path = spec
            .path
            .map(|path| String::from_utf8_lossy(&path).into_owned());
        (spec.dataset, path)
    }

    #[test]
    fn the_first_colon_with_a_slash_divides() {
        assert_eq!(parse("tank"), ("tank".into(), None));
        assert_eq!(
            parse("tank/a@s:/x/y"),
            ("tank/a@s".into(), Some("/x/y".into()))
        );
        assert_eq!(parse("tank/a:"), ("tank/a".into(), Some("/".into())));
        assert_eq!(
            parse("tank/a:b:/c:/d"),
            ("tank/a:b".into(), Some("/c:/d".into()))
        );
        assert!(Spec::parse(OsStr::new(":/x")).is_err());
        assert!(Spec::parse(OsStr::from_bytes(b"t\xff:/x")).is_err());
        let path = Spec::parse(OsStr::from_bytes(b"t:/\xff"))
            .expect("any bytes")
            .path;
        assert_eq!(path.as_deref(), Some(b"/\xff".as_slice()));
    }

    #[test]
    fn the_pool_comes_first() {
        let pool = |text: &str| {
            Spec::parse(OsStr::new(text))
                .expect("a place")
                .pool()
                .to_owned()
        };
        assert_eq!(pool("tank@s:/"), "tank");
        assert_eq!(pool("12345/a:/"), "12345");
    }
}
