//! Why a command fails, as a message for the user, and the exit code.
//!
//! Lower layers name objects in their errors. This layer adds the dataset, the path and what to do.
//! A command that continues after an error reports it with [`complain`] and ends with
//! [`Exit::Problems`].

use super::place::Place;
use cenote_dsl::DslError;
use cenote_pool::ImportError;
use cenote_posix::PosixError;
use cenote_volume::VolumeError;
pub use cenote_words::command::Exit;
use std::path::PathBuf;

/// Why a command cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command line is wrong.
    #[error("{command}: {problem}\nTry 'cenote help {command}'.")]
    Usage {
        /// The command.
        command: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// A malformed `POOL/DATASET:/path`.
    #[error("'{text}': {problem}")]
    Spec {
        /// What was given.
        text: String,
        /// What is wrong.
        problem: String,
    },
    /// No pool of this name was found; the text lists what was found.
    #[error("no pool '{pool}' found{diagnosis}")]
    NoPool {
        /// The name or guid asked for.
        pool: String,
        /// Where the command searched, and what it found.
        diagnosis: String,
    },
    /// The pool cannot be opened.
    #[error("{pool}: {source}{diagnosis}")]
    Import {
        /// The pool.
        pool: String,
        /// Why.
        source: Box<ImportError>,
        /// What is known about its devices, and suggestions.
        diagnosis: String,
    },
    /// A dataset cannot be opened.
    #[error("{dataset}: {}", dsl_words(source))]
    Dataset {
        /// The dataset.
        dataset: String,
        /// Why.
        source: Box<DslError>,
    },
    /// A dataset's key is needed.
    #[error(
        "{dataset}: it is encrypted and its key is not loaded; give it with --key {root}=FILE \
         (or --key {root}=prompt)"
    )]
    KeyNeeded {
        /// The dataset.
        dataset: String,
        /// Its encryption root.
        root: String,
    },
    /// Key material cannot be read.
    #[error("key for {dataset} from {location}: {source}")]
    KeyFile {
        /// The dataset that the key is for.
        dataset: String,
        /// Its location.
        location: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The dataset is not of the kind that the command reads.
    #[error("{dataset}: it is a {found}; {hint}")]
    WrongKind {
        /// The dataset.
        dataset: String,
        /// What it is.
        found: &'static str,
        /// Which command reads this kind.
        hint: &'static str,
    },
    /// A file in a pool cannot be read.
    #[error("{place}: {}", posix_words(source))]
    Path {
        /// The file.
        place: Box<Place>,
        /// Why.
        source: Box<PosixError>,
    },
    /// A volume cannot be read.
    #[error("{dataset}: {source}")]
    Volume {
        /// The volume.
        dataset: String,
        /// Why.
        source: Box<VolumeError>,
    },
    /// A file on this system cannot be read or written.
    #[error("{}: {action}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The failed action.
        action: &'static str,
        /// The reason, from the operating system.
        source: std::io::Error,
    },
    /// Metadata of the pool cannot be read.
    #[error("{what}: {source}")]
    Metadata {
        /// The unreadable part.
        what: String,
        /// Why not.
        source: Box<DslError>,
    },
    /// A requested item does not exist.
    #[error("{what}: {problem}")]
    Absent {
        /// Where it was expected.
        what: String,
        /// What is missing.
        problem: String,
    },
    /// The verification cannot start or continue.
    #[error("{pool}: {source}")]
    Verify {
        /// The pool.
        pool: String,
        /// Why.
        source: Box<cenote_pool::verify::VerifyError>,
    },
    /// A send stream is invalid or cannot be read.
    #[error("{file}: {}", crate::zstream::chain(source))]
    Stream {
        /// Its file.
        file: String,
        /// Why not.
        source: Box<cenote_stream::StreamError>,
    },
    /// Standard output cannot be written.
    #[error("standard output: {0}")]
    Output(#[source] std::io::Error),
}

impl Failure {
    /// Whether the pool is damaged, as opposed to a wrong name, key or command.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Dataset { source, .. } if source.is_damage())
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage { .. } | Self::Spec { .. } => Exit::Usage,
            // A closed pipe (`| head`) is not an error.
            Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Good,
            _ => Exit::Problems,
        }
    }

    /// Prints the error to standard error, unless it is a closed pipe.
    pub fn report(&self) {
        match self {
            Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            _ => complain(&self.to_string()),
        }
    }

    /// A file on this system and what was to be done with it.
    pub fn file(
        path: impl Into<PathBuf>,
        action: &'static str,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            path,
            action,
            source,
        }
    }
}

/// Reports the error of a command, if any, and returns how it ended.
pub fn ended(result: Result<Exit, Failure>) -> Exit {
    result.unwrap_or_else(|failure| {
        failure.report();
        failure.exit()
    })
}

/// Writes `cenote: MESSAGE` to standard error. Control characters, which names on a disk may have,
/// are replaced by `?`.
pub fn complain(message: &str) {
    eprintln!(
        "cenote: {}",
        cenote_words::format::harmless::harmless(message)
    );
}

/// The message for a path's error: the operating system's usual one if there is one.
pub fn posix_words(error: &PosixError) -> String {
    match error {
        PosixError::NotFound { .. } => "no such file or directory".into(),
        PosixError::NotDirectory { .. } => "not a directory".into(),
        PosixError::IsDirectory { .. } => "is a directory".into(),
        error => error.to_string(),
    }
}

fn dsl_words(error: &DslError) -> String {
    match error {
        DslError::NoSuchDataset { .. } => "no such dataset".into(),
        error => error.to_string(),
    }
}
