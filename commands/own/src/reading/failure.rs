//! Why a command fails, in words for whoever typed it, and the exit code.
//!
//! Below here errors name objects; here the dataset, the path and what to do are added. A command
//! that goes on after an error says so with [`complain`] and ends with [`Exit::Problems`].

use super::place::Place;
use cenote_dsl::DslError;
use cenote_pool::ImportError;
use cenote_posix::PosixError;
use cenote_volume::VolumeError;
pub use cenote_words::command::Exit;
use std::path::PathBuf;

/// A command cannot go on.
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
    /// A `POOL/DATASET:/path` is none.
    #[error("'{text}': {problem}")]
    Spec {
        /// What was given.
        text: String,
        /// What is wrong.
        problem: String,
    },
    /// No pool of this name was found; the text tells what was.
    #[error("no pool '{pool}' found{diagnosis}")]
    NoPool {
        /// The name or guid asked for.
        pool: String,
        /// Where was looked, and what was found.
        diagnosis: String,
    },
    /// The pool cannot be opened.
    #[error("{pool}: {source}{diagnosis}")]
    Import {
        /// The pool.
        pool: String,
        /// Why.
        source: Box<ImportError>,
        /// What is known about its devices, and what may help.
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
        /// Where it should come from.
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
        /// Which command reads that.
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
        /// What was to be done.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Metadata of the pool cannot be read.
    #[error("{what}: {source}")]
    Metadata {
        /// What was to be read.
        what: String,
        /// Why not.
        source: Box<DslError>,
    },
    /// Something asked for is not there.
    #[error("{what}: {problem}")]
    Absent {
        /// Where it was looked for.
        what: String,
        /// What is not there.
        problem: String,
    },
    /// The verification cannot begin or go on.
    #[error("{pool}: {source}")]
    Verify {
        /// The pool.
        pool: String,
        /// Why.
        source: Box<cenote_pool::verify::VerifyError>,
    },
    /// A send stream is none, or cannot be read.
    #[error("{file}: {}", crate::zstream::chain(source))]
    Stream {
        /// Where it is.
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
            // A reader that left early (`| head`) has all that it wanted.
            Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Good,
            _ => Exit::Problems,
        }
    }

    /// Says it on standard error, unless there is nothing to say.
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

/// How a command ended, once what it failed with is said.
pub fn ended(result: Result<Exit, Failure>) -> Exit {
    result.unwrap_or_else(|failure| {
        failure.report();
        failure.exit()
    })
}

/// Writes `cenote: MESSAGE` to standard error. Control characters, which names on a disk may
/// hold, do not reach the terminal.
pub fn complain(message: &str) {
    eprintln!(
        "cenote: {}",
        cenote_words::format::harmless::harmless(message)
    );
}

/// The words for a path's error: the usual ones where there are usual ones.
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
