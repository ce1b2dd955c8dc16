//! A bucket of S3 as a store: Amazon's, MinIO's, Ceph's, versitygw's and others that are
//! compatible.
//!
//! Names, keys, signatures, requests and lists are the crate `s3`. Here `refusal` says what a
//! refusal means. Nothing is tried again, because only [`super::Client`] knows what an answer that
//! was lost may have done.
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
//! *Lengths*: bytes are an object's once it is certain that they are all. A whole object whose
//! answer has no length, as some proxies send it, is compared with the length that is asked for.
//! Without any it is an answer from which nothing follows.
//!
//! Not here: parts of uploads (objects are small), versions, storage classes, other roles.

mod refusal;
mod runtime;

pub use cenote_s3::{BucketName, BucketNameError, Surroundings};

use super::{Answer, Condition, Meta, OBJECT_MAX, Request, Store, StoreError, Tag};
use bytes::Bytes;
use cenote_base::rt::{self, process::mpsc};
use cenote_http_client::http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderName, IF_MATCH, IF_NONE_MATCH, LAST_MODIFIED, RANGE,
};
use cenote_http_client::http::{HeaderMap, Method, Request as HttpRequest, StatusCode};
use cenote_http_client::tls;
use cenote_s3::{ANSWER_MAX, Allowance, Fault, Http, KeyRing, Limits, Seen, Whole};
use cenote_s3::{Signer, Sources, escaped, is_far, listing, query};
use jiff::Timestamp;
use refusal::{meaning, reading};
use runtime::Runtime;
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
/// Pages without any name that may follow one another, as where many objects were removed.
const EMPTY_PAGES_MAX: usize = 1000;

/// What is wrong with an answer that may not be whole.
const NO_LENGTH: &str = "the answer had no length";

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
    http: Http,
    keys: KeyRing,
    region: String,
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
        let is_needed = settings.is_secure() || is_far(surroundings);
        let bundle = settings.ca_bundle.as_deref().filter(|_| is_needed);
        let tls = tls::config(bundle, is_needed)?;
        let seen = Arc::new(Seen::default());
        let keys = KeyRing::new(sources, &tls)?;
        let address = settings.bucket(&name.bucket);
        let http = Http::new(tls, true, CONNECTING, Limits::default(), Arc::clone(&seen));
        let runtime = Runtime::new().map_err(|error| format!("no thread for requests: {error}"))?;
        let shared = Shared {
            http,
            keys,
            region: settings.region,
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
        let whole = Allowance::shared(WHOLE_MAX, OBJECT_MAX);
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
            } => self.put(&key, body, condition).await,
            Request::Get { key, range } => self.get(&key, range, whole).await,
            Request::Head { key } => self.head(&key).await.map(Answer::Head),
            Request::List {
                prefix,
                after,
                limit,
            } => {
                let found = self.list(&prefix, after.as_deref(), limit).await;
                found.map(Answer::List)
            }
            Request::Delete { key } => self.delete(&key).await,
        }
    }

    /// The address of an object.
    fn object(&self, key: &str) -> Result<String, StoreError> {
        let whole = self.name.key(key);
        let is_part = |part: &str| {
            !["", ".", ".."].contains(&part) && !part.bytes().any(|byte| byte.is_ascii_control())
        };
        match whole.split('/').all(is_part) {
            true => Ok(format!("{}/{}", self.address, escaped(&whole, true))),
            false => Err(StoreError::Other(format!(
                "'{key}' is no name of an object"
            ))),
        }
    }

    /// Signs a request and sends it.
    async fn ask(
        &self,
        method: Method,
        address: &str,
        header: Option<(HeaderName, String)>,
        body: Bytes,
        allowance: &Allowance,
    ) -> Result<Whole, Fault> {
        let mut request = HttpRequest::builder().method(method).uri(address);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let request = request.body(body);
        let wrong = |error| Fault::Wrong(format!("'{address}' cannot be asked: {error}"));
        let mut request = request.map_err(wrong)?;
        let credential = self.keys.keys().await.map_err(Fault::NoKeys)?;
        let signer = Signer {
            credential: &credential,
            region: &self.region,
            now: now(),
        };
        let signed = signer.sign(&mut request);
        signed.map_err(|error| Fault::NoKeys(error.to_string()))?;
        self.http.ask(request, allowance).await
    }

    /// The same without a body, where the answer is no object's bytes.
    async fn ask_briefly(
        &self,
        method: Method,
        address: &str,
        header: Option<(HeaderName, String)>,
    ) -> Result<Whole, Fault> {
        let allowance = Allowance::new(ANSWER_MAX);
        self.ask(method, address, header, Bytes::new(), &allowance)
            .await
    }

    async fn put(
        &self,
        key: &str,
        body: Arc<Vec<u8>>,
        condition: Condition,
    ) -> Result<Answer, StoreError> {
        let is_for_free = condition == Condition::Absent;
        let header = match condition {
            Condition::Absent => Some((IF_NONE_MATCH, "*".to_owned())),
            Condition::None => None,
            Condition::Matches(Tag(tag)) => Some((IF_MATCH, tag)),
        };
        let (address, body) = (self.object(key)?, Bytes::from_owner(Shown(body)));
        let allowance = Allowance::new(ANSWER_MAX);
        let put = self.ask(Method::PUT, &address, header, body, &allowance);
        match put.await {
            Ok(answer) => match text(&answer.headers, ETAG) {
                Some(tag) => Ok(Answer::Put(Some(Tag(tag.to_owned())))),
                None => Err(StoreError::Other(
                    "the store does not say which version it has put".to_owned(),
                )),
            },
            Err(Fault::Refused(refusal)) if refusal.status == 409 && is_for_free => {
                Err(StoreError::Precondition)
            }
            Err(fault) => Err(meaning(&fault)),
        }
    }

    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        whole: Allowance,
    ) -> Result<Answer, StoreError> {
        let address = self.object(key)?;
        if range.as_ref().is_some_and(Range::is_empty) {
            return Err(StoreError::damaged(key, "no bytes of it were asked for"));
        }
        let of_range = |range: &Range<u64>| Allowance::new(range.end.saturating_sub(range.start));
        let allowance = range.as_ref().map_or(whole, of_range);
        let header = range.as_ref().map(range_header);
        let answer = self.ask(Method::GET, &address, header, Bytes::new(), &allowance);
        let answer = answer.await.map_err(|fault| reading(key, &fault))?;
        let size = size(&answer, range.as_ref());
        let size = match size.map_err(|reason| StoreError::damaged(key, reason))? {
            Some(size) => size,
            None => self.checked_length(key, answer.body.len() as u64).await?,
        };
        let wanted = match &range {
            Some(range) => range.end - range.start,
            None => size,
        };
        if answer.body.len() as u64 != wanted || wanted > OBJECT_MAX {
            return Err(StoreError::of_length(key, size));
        }
        let tag = text(&answer.headers, ETAG).map(|tag| Tag(tag.to_owned()));
        Ok(Answer::Get(Arc::new(answer.body), tag))
    }

    /// The length of an object of which so many bytes came without their number; an error if it is
    /// another one.
    async fn checked_length(&self, key: &str, came: u64) -> Result<u64, StoreError> {
        match self.head(key).await?.length {
            length if length == came => Ok(length),
            length => Err(StoreError::Unclear(format!(
                "{NO_LENGTH}: {came} bytes came, and the object has {length}"
            ))),
        }
    }

    async fn head(&self, key: &str) -> Result<Meta, StoreError> {
        let address = self.object(key)?;
        let answer = self.ask_briefly(Method::HEAD, &address, None).await;
        let is_poor = match &answer {
            Err(Fault::Refused(refusal)) => refusal.status == 404,
            Ok(answer) => text(&answer.headers, CONTENT_LENGTH).is_none(),
            Err(_) => false,
        };
        let range = is_poor.then_some(0..1);
        let answer = match &range {
            Some(range) => {
                let header = Some(range_header(range));
                self.ask_briefly(Method::GET, &address, header).await
            }
            None => answer,
        };
        let answer = answer.map_err(|fault| meaning(&fault))?;
        let modified = match text(&answer.headers, LAST_MODIFIED) {
            Some(date) => jiff::fmt::rfc2822::parse(date).ok(),
            None => None,
        };
        let unclear = |reason| StoreError::Unclear(format!("{NO_LENGTH}: {reason}"));
        let size = size(&answer, range.as_ref()).map_err(unclear)?;
        Ok(Meta {
            key: key.to_owned(),
            length: size.ok_or_else(|| StoreError::Unclear(NO_LENGTH.to_owned()))?,
            tag: text(&answer.headers, ETAG).map(|tag| Tag(tag.to_owned())),
            modified: modified_seconds(key, modified.map(|date| date.timestamp()))?,
        })
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Meta>, StoreError> {
        let prefix = self.name.key(prefix);
        let after = after.map(|after| self.name.key(after));
        let ours = self.name.key("");
        let mut found: Vec<Meta> = Vec::new();
        let mut next: Option<String> = None;
        let mut empty_pages = 0;
        while found.len() < limit {
            let count = (limit - found.len()).min(PAGE).to_string();
            let parameters = [
                ("continuation-token", next.as_deref()),
                ("list-type", Some("2")),
                ("max-keys", Some(&count)),
                ("prefix", Some(&*prefix).filter(|prefix| !prefix.is_empty())),
                ("start-after", after.as_deref()),
            ];
            let said = parameters
                .iter()
                .filter_map(|(name, value)| Some((*name, (*value)?)));
            let said: Vec<(&str, &str)> = said.collect();
            let address = format!("{}?{}", self.address, query(&said));
            let answer = self.ask_briefly(Method::GET, &address, None).await;
            let answer = answer.map_err(|fault| meaning(&fault))?;
            let page = listing::read(&answer.body).map_err(|reason| {
                StoreError::Unclear(format!("the store's list cannot be read: {reason}"))
            })?;
            empty_pages = match page.objects.is_empty() {
                true => empty_pages + 1,
                false => 0,
            };
            for object in page.objects {
                let key = object.key.strip_prefix(&ours).unwrap_or(&object.key);
                found.push(Meta {
                    key: key.to_owned(),
                    length: object.size,
                    tag: object.tag.map(Tag),
                    modified: modified_seconds(key, Some(object.modified))?,
                });
            }
            let is_again = page.next.is_some() && page.next == next;
            next = page.next;
            if next.is_none() {
                break;
            }
            // Such a server would be asked for ever.
            if is_again || empty_pages == EMPTY_PAGES_MAX {
                return Err(StoreError::Unclear(
                    "the store's list has no end".to_owned(),
                ));
            }
        }
        found.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        found.truncate(limit);
        Ok(found)
    }

    async fn delete(&self, key: &str) -> Result<Answer, StoreError> {
        let address = self.object(key)?;
        match self.ask_briefly(Method::DELETE, &address, None).await {
            Ok(_) => Ok(Answer::Delete),
            Err(fault) => match meaning(&fault) {
                StoreError::NotFound => Ok(Answer::Delete),
                error => Err(error),
            },
        }
    }
}

/// What a clock says that is right.
fn now() -> Timestamp {
    let seconds = rt::wall_clock().as_secs().cast_signed();
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A header that asks for a range.
fn range_header(range: &Range<u64>) -> (HeaderName, String) {
    let last = range.end.saturating_sub(1);
    (RANGE, format!("bytes={}-{last}", range.start))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Bytes of a whole object, by what an answer says that has all of it, or this range; `None` if it
/// does not say it.
fn size(answer: &Whole, range: Option<&Range<u64>>) -> Result<Option<u64>, String> {
    let Some(range) = range else {
        let length = text(&answer.headers, CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let of_all = || match content_range(text(&answer.headers, CONTENT_RANGE)?)? {
            (0, last, size) if last.checked_add(1) == Some(size) => Some(size),
            _ => None,
        };
        return Ok(length.or_else(of_all));
    };
    if answer.status != StatusCode::PARTIAL_CONTENT {
        return Err("the store was asked for a part, and did not answer with one".to_owned());
    }
    let said = text(&answer.headers, CONTENT_RANGE).unwrap_or_default();
    let (first, last, size) =
        content_range(said).ok_or("the store does not say which part of it that is")?;
    let end = range.end.min(size);
    match first == range.start && last.checked_add(1) == Some(end) {
        true => Ok(Some(size)),
        false => Err(format!(
            "the store answered with bytes {first} to {last}, not with {} to {}",
            range.start,
            range.end.saturating_sub(1)
        )),
    }
}

/// The parts of `bytes FIRST-LAST/SIZE`.
fn content_range(text: &str) -> Option<(u64, u64, u64)> {
    let (range, size) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?, size.parse().ok()?))
}

/// When an object was put, in seconds since 1970.
fn modified_seconds(key: &str, modified: Option<Timestamp>) -> Result<u64, StoreError> {
    let seconds = modified.and_then(|modified| u64::try_from(modified.as_second()).ok());
    seconds
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| StoreError::Unclear(format!("the store does not say how old '{key}' is")))
}
