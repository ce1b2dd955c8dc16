//! A bucket of S3 as a store: Amazon's, MinIO's, Ceph's, versitygw's and others that are
//! compatible.
//!
//! `object_store` signs requests and reads answers. Everything that decides something is ours:
//! connections and how long they may be silent (`http`), what a refusal means (`refusal`), where
//! keys come from (`credentials`). Its own retries are off, because only [`super::Client`] knows
//! what an answer that was lost may have done.
//!
//! *Waiting*: a caller waits on its own thread while its requests run on the store's, so many
//! of them at once, and no more than [`REQUESTS_MAX`].
//!
//! *Conditions*: a put of a free name carries `If-None-Match: *`. Both 412 and 409 (another put is
//! under way) mean that the name may be taken; the client then reads what is there. A store that
//! does not know the condition says so, or overwrites, and the client's probe finds that out.
//!
//! *Missing*: only `NoSuchKey` is. An answer to HEAD has no words, so that one is followed by a
//! GET of one byte.
//!
//! Not here: parts of uploads (objects are small), versions, storage classes, other roles.

mod allowance;
mod credentials;
mod http;
mod name;
mod profiles;
mod refusal;
mod runtime;
mod settings;
mod stores_file;
mod surroundings;
mod tls;

pub use name::{BucketName, BucketNameError};
pub use surroundings::Surroundings;

use super::{Answer, Condition, Meta, OBJECT_MAX, Request, Store, StoreError, Tag};
use allowance::Allowance;
use bytes::Bytes;
use cenote_base::rt::process::mpsc;
use credentials::{KeyRing, no_retries};
use http::{Limits, Line, Seen};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, PutMode, PutOptions, UpdateVersion,
};
use refusal::{Fault, reading, store_error};
use runtime::Runtime;
use settings::Sources;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Requests that are under way at once.
const REQUESTS_MAX: usize = 64;
/// How long a connection may take.
const CONNECTING: Duration = Duration::from_secs(15);
/// Bytes of all whole objects that are requested at once: most of them are commits, which have some
/// hundred KiB. Requests for ranges state their number of bytes.
const WHOLE_MAX: u64 = 256 << 20;
/// Names that a server lists at once, at most.
const PAGE: usize = 1000;

/// Why a store cannot be used as it is described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{store}: {reason}")]
pub struct BucketError {
    /// The store.
    pub store: String,
    /// What is wrong with the settings.
    pub reason: String,
}

/// A store in a bucket.
#[derive(Debug)]
pub struct BucketStore {
    shared: Arc<Shared>,
    runtime: Runtime,
}

#[derive(Debug)]
struct Shared {
    s3: AmazonS3,
    name: BucketName,
    /// The server's address of the bucket.
    address: String,
    seen: Arc<Seen>,
    room: Semaphore,
}

/// Bytes that are sent from where they are.
struct Shown(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shown {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl BucketStore {
    /// The store `name`; nothing is asked of it yet.
    ///
    /// # Errors
    /// What is wrong with the settings that are found for it.
    pub fn new(name: &BucketName, surroundings: &Surroundings) -> Result<Self, BucketError> {
        let store = Self::build(name, surroundings);
        store.map_err(|reason| BucketError {
            store: name.to_string(),
            reason,
        })
    }

    fn build(name: &BucketName, surroundings: &Surroundings) -> Result<Self, String> {
        let sources = Sources::new(name, surroundings);
        let settings = sources.settings()?;
        let is_needed = settings.is_secure() || credentials::is_role_secure(surroundings);
        let bundle = settings.ca_bundle.as_deref().filter(|_| is_needed);
        let tls = tls::config(bundle, is_needed)?;
        let seen = Arc::new(Seen::default());
        let keys = KeyRing::new(sources, &tls)?;
        let line = Line {
            tls,
            uses_proxies: true,
            connecting: CONNECTING,
            limits: Limits::default(),
            seen: Arc::clone(&seen),
        };
        let address = settings.bucket(&name.bucket);
        let s3 = AmazonS3Builder::new()
            .with_bucket_name(&name.bucket)
            .with_region(settings.region)
            // The address has the bucket in it already, wherever that stands.
            .with_virtual_hosted_style_request(true)
            .with_endpoint(&address)
            .with_credentials(Arc::new(keys))
            .with_retry(no_retries())
            .with_http_connector(line)
            // One request for each name: not all servers can do more, and few are removed.
            .with_disable_bulk_delete(true)
            .build()
            .map_err(|error| error.to_string())?;
        let runtime = Runtime::new().map_err(|error| format!("no thread for requests: {error}"))?;
        let shared = Shared {
            s3,
            name: name.clone(),
            address,
            seen,
            room: Semaphore::new(REQUESTS_MAX),
        };
        Ok(Self {
            shared: Arc::new(shared),
            runtime,
        })
    }

    /// Where objects are, however the store was named: server, bucket and prefix.
    pub fn address(&self) -> String {
        match self.shared.name.prefix.is_empty() {
            true => self.shared.address.clone(),
            false => format!("{}/{}", self.shared.address, self.shared.name.prefix),
        }
    }
}

impl Store for BucketStore {
    fn run(&self, requests: &[Request]) -> Vec<Result<Answer, StoreError>> {
        let (sender, receiver) = mpsc::channel();
        let whole = Allowance::new(WHOLE_MAX);
        for (index, request) in requests.iter().cloned().enumerate() {
            let (shared, sender) = (Arc::clone(&self.shared), sender.clone());
            let whole = whole.clone();
            self.runtime.spawn(async move {
                // The semaphore is never closed.
                let _room = shared.room.acquire().await;
                let answer = shared.answer(request, whole).await;
                // The caller waits for all answers.
                let _ = sender.send((index, answer));
            });
        }
        drop(sender);
        let unanswered = || StoreError::Transient("the request was given up".into());
        let mut answers: Vec<_> = requests.iter().map(|_| Err(unanswered())).collect();
        for (index, answer) in receiver {
            answers[index] = answer;
        }
        answers
    }

    fn sent_bytes(&self) -> u64 {
        self.shared.seen.sent_bytes()
    }

    fn name(&self) -> String {
        self.shared.name.to_string()
    }

    fn software(&self) -> Option<String> {
        self.shared.seen.server()
    }
}

impl Shared {
    async fn answer(&self, request: Request, whole: Allowance) -> Result<Answer, StoreError> {
        match request {
            Request::Put {
                key,
                body,
                condition,
            } => self.put(&self.path(&key)?, body, condition).await,
            Request::Get { key, range } => self.get(&key, range, whole).await,
            Request::Head { key } => self.head(key).await.map(Answer::Head),
            Request::List {
                prefix,
                after,
                limit,
            } => {
                let found = self.list(&prefix, after.as_deref(), limit).await;
                found.map(Answer::List)
            }
            Request::Delete { key } => self.delete(&self.path(&key)?).await,
        }
    }

    fn path(&self, key: &str) -> Result<Path, StoreError> {
        let path = Path::parse(self.name.key(key));
        path.map_err(|error| StoreError::Other(error.to_string()))
    }

    async fn put(
        &self,
        path: &Path,
        body: Arc<Vec<u8>>,
        condition: Condition,
    ) -> Result<Answer, StoreError> {
        let is_for_free = condition == Condition::Absent;
        let mode = match condition {
            Condition::Absent => PutMode::Create,
            Condition::None => PutMode::Overwrite,
            Condition::Matches(Tag(tag)) => PutMode::Update(UpdateVersion {
                e_tag: Some(tag),
                version: None,
            }),
        };
        let payload = Bytes::from_owner(Shown(body)).into();
        let put = self
            .s3
            .put_opts(path, payload, PutOptions::from(mode))
            .await;
        match put {
            Ok(result) => Ok(Answer::Put(result.e_tag.map(Tag))),
            Err(error) => {
                let is_conflict = matches!(
                    Fault::below(&error),
                    Some(Fault::Refused(refusal)) if refusal.status == 409
                );
                match is_conflict && is_for_free {
                    true => Err(StoreError::Precondition),
                    false => Err(store_error(&error)),
                }
            }
        }
    }

    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        whole: Allowance,
    ) -> Result<Answer, StoreError> {
        let path = self.path(key)?;
        let mut options = GetOptions {
            range: range.clone().map(GetRange::Bounded),
            ..GetOptions::default()
        };
        let of_range = |range: &Range<u64>| Allowance::new(range.end.saturating_sub(range.start));
        let allowance = range.as_ref().map_or(whole, of_range);
        options.extensions.insert(allowance);
        let result = self.s3.get_opts(&path, options).await;
        let result = result.map_err(|error| reading(key, &error))?;
        let tag = result.meta.e_tag.clone().map(Tag);
        let size = result.meta.size;
        let bytes = result.bytes().await;
        let bytes = bytes.map_err(|error| reading(key, &error))?;
        let wanted = match &range {
            Some(range) => range.end - range.start,
            None => size,
        };
        if bytes.len() as u64 != wanted || wanted > OBJECT_MAX {
            return Err(StoreError::of_length(key, size));
        }
        Ok(Answer::Get(Arc::new(bytes.into()), tag))
    }

    async fn ask(&self, path: &Path, options: GetOptions) -> Result<GetResult, StoreError> {
        let result = self.s3.get_opts(path, options).await;
        result.map_err(|error| store_error(&error))
    }

    async fn head(&self, key: String) -> Result<Meta, StoreError> {
        let path = self.path(&key)?;
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        let result = self.s3.get_opts(&path, options).await;
        let error = match result {
            Ok(result) => return self.meta(&result.meta),
            Err(error) => error,
        };
        match Fault::below(&error) {
            Some(Fault::Refused(refusal)) if refusal.status == 404 => {}
            _ => return Err(store_error(&error)),
        }
        let options = GetOptions {
            range: Some(GetRange::Bounded(0..1)),
            ..GetOptions::default()
        };
        let result = self.ask(&path, options).await?;
        self.meta(&result.meta)
    }

    fn meta(&self, meta: &ObjectMeta) -> Result<Meta, StoreError> {
        let seconds = meta.last_modified.timestamp();
        let modified = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
        let location = meta.location.as_ref();
        let prefix = self.name.key("");
        let key = location.strip_prefix(&prefix).unwrap_or(location);
        Ok(Meta {
            key: key.into(),
            length: meta.size,
            tag: meta.e_tag.clone().map(Tag),
            modified: modified.ok_or_else(|| {
                StoreError::Other(format!("the store does not say how old '{key}' is"))
            })?,
        })
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Meta>, StoreError> {
        let prefix = self.name.key(prefix);
        let mut found: Vec<Meta> = Vec::new();
        let mut page_token = None;
        while found.len() < limit {
            let options = PaginatedListOptions {
                offset: after.map(|after| self.name.key(after)),
                max_keys: Some((limit - found.len()).min(PAGE)),
                page_token: page_token.take(),
                ..PaginatedListOptions::default()
            };
            let prefix = Some(&*prefix).filter(|prefix| !prefix.is_empty());
            let page = self.s3.list_paginated(prefix, options).await;
            let page = page.map_err(|error| store_error(&error))?;
            let count = page.result.objects.len();
            for meta in &page.result.objects {
                found.push(self.meta(meta)?);
            }
            page_token = page.page_token;
            // A server that continues with empty pages would be asked for ever.
            if page_token.is_none() || count == 0 {
                break;
            }
        }
        found.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        found.truncate(limit);
        Ok(found)
    }

    async fn delete(&self, path: &Path) -> Result<Answer, StoreError> {
        match object_store::ObjectStoreExt::delete(&self.s3, path).await {
            Ok(()) => Ok(Answer::Delete),
            Err(error) => match store_error(&error) {
                StoreError::NotFound => Ok(Answer::Delete),
                error => Err(error),
            },
        }
    }
}
