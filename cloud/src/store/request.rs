//! What is asked of a store, and what it answers.

use super::statistics::RequestKind;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// What names a version of an object. Opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag(pub String);

/// On what condition a put is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The name is free.
    Absent,
    /// The name has this version.
    Matches(Tag),
    /// Always.
    None,
}

/// One request.
#[derive(Clone, Debug)]
pub enum Request {
    /// Stores an object.
    Put {
        /// Its name.
        key: String,
        /// Its bytes.
        body: Arc<Vec<u8>>,
        /// When it is done.
        condition: Condition,
    },
    /// Fetches an object, or a range of its bytes. A range ends within the object.
    Get {
        /// Its name.
        key: String,
        /// Which bytes; all of them if there is none.
        range: Option<Range<u64>>,
    },
    /// Asks for an object's length and version.
    Head {
        /// Its name.
        key: String,
    },
    /// Lists names in their order.
    List {
        /// What they begin with.
        prefix: String,
        /// Only names behind this one.
        after: Option<String>,
        /// At most so many.
        limit: usize,
    },
    /// Removes an object; one that is not there is no error.
    Delete {
        /// Its name.
        key: String,
    },
}

impl Request {
    /// The name that it is about.
    pub fn key(&self) -> &str {
        match self {
            Self::Put { key, .. }
            | Self::Get { key, .. }
            | Self::Head { key }
            | Self::List { prefix: key, .. }
            | Self::Delete { key } => key,
        }
    }

    /// The kind that it is counted as.
    pub fn kind(&self) -> RequestKind {
        match self {
            Self::Put { .. } => RequestKind::Put,
            Self::Get { .. } => RequestKind::Get,
            Self::Head { .. } => RequestKind::Head,
            Self::List { .. } => RequestKind::List,
            Self::Delete { .. } => RequestKind::Delete,
        }
    }

    /// Bytes that it sends.
    pub fn sends(&self) -> u64 {
        match self {
            Self::Put { body, .. } => body.len() as u64,
            _ => 0,
        }
    }
}

/// Bytes of an object, at most. Those of data have up to 64 MiB and a table of what is in them.
pub(crate) const OBJECT_MAX: u64 = 80 << 20;

/// An object without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Its name.
    pub key: String,
    /// Bytes.
    pub length: u64,
    /// Its version.
    pub tag: Option<Tag>,
    /// When it was put, in seconds since 1970 by the store's clock.
    pub modified: u64,
}

/// What a request brought.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The object is stored, in this version.
    Put(Option<Tag>),
    /// The bytes, and which version they are of.
    Get(Arc<Vec<u8>>, Option<Tag>),
    /// What is known of the object.
    Head(Meta),
    /// Objects in the order of their names.
    List(Vec<Meta>),
    /// The object is gone.
    Delete,
}

/// A request that was not done, or may not have been.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no object of that name. Nothing else is called so: not a refusal, not a missing
    /// bucket.
    #[error("there is no such object")]
    NotFound,
    /// The condition of a put does not hold.
    #[error("the condition of a put does not hold")]
    Precondition,
    /// It may succeed if it is tried again, and may have succeeded already.
    #[error("{0}")]
    Transient(String),
    /// The store asks for patience: too much was asked of it, whatever it was.
    #[error("{0}")]
    Busy(String),
    /// The answer does not say what it has to, so nothing follows from it: it was cut, or something
    /// between here and the store answered or changed it. The next one may be whole.
    #[error("{0}")]
    Unclear(String),
    /// The object is there, and is not what was put or cannot be read. Trying again would not
    /// change it.
    #[error("{key} is damaged: {what}")]
    Damaged {
        /// The object's name.
        key: String,
        /// What is wrong with it.
        what: String,
    },
    /// Credentials are missing, wrong, expired or do not suffice.
    #[error("refused: {0}")]
    Denied(String),
    /// The credentials were good for a while, and are no longer.
    #[error("the credentials have expired: {0}")]
    Expired(String),
    /// The clocks differ by so much that the store believes no signature.
    #[error(
        "the clock of this machine is wrong, or the store's: they differ by {} seconds",
        .ahead.unsigned_abs()
    )]
    Skewed {
        /// Seconds that the store's clock is ahead.
        ahead: i64,
    },
    /// The store cannot do what is asked, now or later.
    #[error("the store cannot do that: {0}")]
    Unsupported(String),
    /// Something that trying again at once will not mend.
    #[error("{0}")]
    Other(String),
    /// No caller waits for an answer any more.
    #[error("given up")]
    Closed,
}

impl StoreError {
    /// An object of the name `key` that is not as it was put.
    pub(crate) fn damaged(key: &str, what: impl ToString) -> Self {
        Self::Damaged {
            key: key.to_owned(),
            what: what.to_string(),
        }
    }

    /// The length of an object that has another one than it should.
    pub(crate) fn of_length(key: &str, length: u64) -> Self {
        Self::damaged(
            key,
            format!("it has {length} bytes, which is not its length"),
        )
    }
}

/// A set of objects.
pub trait Store: Debug + Send + Sync {
    /// Does the requests, in any order and at best at once; answers in their order.
    fn run(&self, requests: &[Request]) -> Vec<Result<Answer, StoreError>>;

    /// What it is, for people, without secrets.
    fn name(&self) -> String;

    /// Bytes of bodies that went out so far, those of requests under way too.
    fn sent_bytes(&self) -> u64;

    /// What the other end calls itself, if it has said so.
    fn software(&self) -> Option<String> {
        None
    }
}
