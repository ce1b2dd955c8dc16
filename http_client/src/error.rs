//! Why there is no answer.

use std::error::Error;
use std::{fmt, io};

/// A request without an answer, or whose answer has no end.
#[derive(Debug)]
pub struct HttpError {
    is_connecting: bool,
    source: Box<dyn Error + Send + Sync>,
}

impl HttpError {
    pub(crate) fn asking(error: hyper_util::client::legacy::Error) -> Self {
        Self {
            is_connecting: error.is_connect(),
            source: Box::new(error),
        }
    }

    pub(crate) fn reading(error: hyper::Error) -> Self {
        Self {
            is_connecting: false,
            source: Box::new(error),
        }
    }

    fn causes(&self) -> impl Iterator<Item = &(dyn Error + 'static)> {
        let first: &(dyn Error + 'static) = &*self.source;
        std::iter::successors(Some(first), |error| (*error).source())
    }

    fn is_slow(&self) -> bool {
        let is_slow = |error: &(dyn Error + 'static)| {
            let of_system = error.downcast_ref::<io::Error>();
            let of_protocol = error.downcast_ref::<hyper::Error>();
            of_system.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
                || of_protocol.is_some_and(hyper::Error::is_timeout)
        };
        self.causes().any(is_slow)
    }

    /// What the system said of it, or else the whole as an error of the system's.
    pub fn into_io(self) -> io::Error {
        let of_system = |error| <dyn Error>::downcast_ref::<io::Error>(error);
        let found = self.causes().filter_map(of_system).last();
        match found.map(|error| (error.raw_os_error(), error)) {
            Some((Some(code), _)) => io::Error::from_raw_os_error(code),
            Some((None, error)) => io::Error::new(error.kind(), error.to_string()),
            None => io::Error::other(self),
        }
    }
}

impl fmt::Display for HttpError {
    /// With all causes, of which most say little alone.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = match self {
            error if error.is_connecting => "no connection",
            error if error.is_slow() => "too slow",
            _ => "the connection broke",
        }
        .to_owned();
        for cause in self.causes() {
            let cause = cause.to_string();
            if !text.ends_with(&cause) {
                text = format!("{text}: {cause}");
            }
        }
        formatter.write_str(&text)
    }
}

impl Error for HttpError {}
