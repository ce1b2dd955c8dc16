//! The kinds of devices: which opener a device's name belongs to.
//!
//! The name of a device is a path, or a URL such as `s3://bucket/prefix`. [`Schemes`] is the one
//! place that chooses the opener by the URL's scheme. A program that opens devices by name puts one
//! together: the opener of paths, and beside it one opener for each family of schemes. A name with
//! an unregistered scheme is an error, and never a path.

use cenote_base::scheme;
use cenote_device::{Device, DeviceError, Entry, Opener};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A kind of device that is named by a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// What stands before `://`.
    pub name: &'static str,
    /// What a whole name looks like, for messages.
    pub form: &'static str,
}

/// Exports of NBD servers.
pub(crate) fn nbd_schemes() -> [Scheme; 4] {
    cenote_nbd_client::SCHEMES.map(|(name, form)| Scheme { name, form })
}

/// A name has a scheme for which there is no opener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownScheme {
    /// The scheme.
    pub scheme: String,
    /// Those that there are.
    pub known: Vec<Scheme>,
}

impl fmt::Display for UnknownScheme {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forms: Vec<&str> = self.known.iter().map(|scheme| scheme.form).collect();
        let scheme = &self.scheme;
        write!(formatter, "there is no kind of device '{scheme}': ")?;
        match forms.is_empty() {
            true => write!(formatter, "name it by its path"),
            false => write!(
                formatter,
                "name it by its path, or as {}",
                forms.join(" or ")
            ),
        }
    }
}

impl std::error::Error for UnknownScheme {}

/// Opens devices of all kinds, each by the opener that its scheme is registered for.
#[derive(Clone, Debug)]
pub struct Schemes {
    paths: Arc<dyn Opener>,
    others: Vec<(Scheme, Arc<dyn Opener>)>,
}

impl Schemes {
    /// Opens paths by `paths`, and no URLs yet.
    pub fn new(paths: Arc<dyn Opener>) -> Self {
        Self {
            paths,
            others: Vec::new(),
        }
    }

    /// The same, which opens names of these schemes by `opener`.
    #[must_use]
    pub fn with(mut self, schemes: &[Scheme], opener: &Arc<dyn Opener>) -> Self {
        for scheme in schemes {
            self.others.retain(|(known, _)| known.name != scheme.name);
            self.others.push((*scheme, Arc::clone(opener)));
        }
        self
    }

    /// The same, which opens exports of NBD servers by `opener`.
    #[must_use]
    pub fn with_nbd(self, opener: &Arc<dyn Opener>) -> Self {
        self.with(&nbd_schemes(), opener)
    }

    /// The opener for the device of this name.
    fn of(&self, name: &Path) -> Result<&dyn Opener, DeviceError> {
        let Some(scheme) = scheme(name) else {
            return Ok(self.paths.as_ref());
        };
        let mut others = self.others.iter();
        match others.find(|(known, _)| known.name == scheme) {
            Some((_, opener)) => Ok(opener.as_ref()),
            None => Err(DeviceError::Open {
                path: name.into(),
                source: io::Error::new(
                    io::ErrorKind::InvalidInput,
                    UnknownScheme {
                        scheme: scheme.to_owned(),
                        known: self.others.iter().map(|(known, _)| *known).collect(),
                    },
                ),
            }),
        }
    }
}

impl Opener for Schemes {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        self.of(path)?.open(path)
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        self.of(path)?.open_writable(path)
    }

    fn identity(&self, path: &Path) -> Option<(u64, u64)> {
        self.of(path).ok()?.identity(path)
    }

    fn list(&self, path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        self.of(path)?.list(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_device::MemoryDevice;

    /// Has one device, whatever it is asked for.
    #[derive(Debug)]
    struct One(u8);

    impl Opener for One {
        fn open(&self, _path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
            Ok(Arc::new(MemoryDevice::new("one", vec![self.0; 1])))
        }

        fn identity(&self, _path: &Path) -> Option<(u64, u64)> {
            Some((u64::from(self.0), 0))
        }

        fn list(&self, _path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
            Ok(None)
        }
    }

    const FILE: Scheme = Scheme {
        name: "file",
        form: "file:///DIRECTORY",
    };

    #[test]
    fn each_name_goes_to_the_opener_of_its_scheme() {
        let stores: Arc<dyn Opener> = Arc::new(One(2));
        let schemes = Schemes::new(Arc::new(One(1))).with(&[FILE], &stores);
        let byte = |name: &str| {
            let device = schemes.open(Path::new(name))?;
            Ok::<u8, DeviceError>(device.read_vec(0, 1)?[0])
        };
        for path in [
            "/dev/sda", "a", "/a://b", "://x", "+://x", "a-b://c", "file:/x",
        ] {
            assert_eq!(byte(path).expect("a path"), 1, "{path}");
            assert_eq!(schemes.identity(Path::new(path)), Some((1, 0)));
        }
        assert_eq!(byte("file:///srv").expect("a store"), 2);
        assert_eq!(schemes.identity(Path::new("file:///srv")), Some((2, 0)));
    }

    #[test]
    fn an_unknown_scheme_is_an_error_that_names_the_known_ones() {
        let stores: Arc<dyn Opener> = Arc::new(One(2));
        let schemes = Schemes::new(Arc::new(One(1))).with(&[FILE], &stores);
        let name = Path::new("gs://bucket");
        assert_eq!(scheme(Path::new("nbd+unix:///e")), Some("nbd+unix"));
        let expected = "gs://bucket: cannot open: there is no kind of device 'gs': name it by its \
                        path, or as file:///DIRECTORY";
        for error in [
            schemes.open(name).map(drop),
            schemes.open_writable(name).map(drop),
            schemes.list(name).map(drop),
        ] {
            assert_eq!(error.expect_err("no opener takes it").to_string(), expected);
        }
        assert_eq!(schemes.identity(name), None);
    }
}
