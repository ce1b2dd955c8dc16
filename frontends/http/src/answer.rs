//! What is answered to `GET` and `HEAD`, as a function of the request and the tree.
//!
//! The same function is called twice. First by the thread that serves the connection, with a
//! [`Look`] that sees only what memory has: if that is enough, the answer is there. If not, by a
//! thread that may wait, from the beginning. So there is one description of what is right, and the
//! fast way cannot differ from the slow one.

use crate::body::{FIRST_READ, FileParts, Segment};
use crate::conditions::{self, Decision, Validators};
use crate::date;
use crate::listing::{Heading, Listing, Order};
use crate::mime;
use crate::multipart;
use crate::negotiate;
use crate::options::{ListingFormat, Rules};
use crate::ranges::{self, Wanted};
use crate::target::Target;
use crate::tree::{Entry, EntryKind, File, Found, Purpose, Resolved, Site, Tree, TreeError};
use bytes::Bytes;
use cenote_base::rt::wall_clock;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Uri};
use std::sync::Arc;

/// Links of a listing of which it is asked where they lead.
const LINKS_FOLLOWED: usize = 10_000;
/// How often a file that changes between its head and its first bytes is looked up again.
const TRIES: usize = 5;

/// A request that is about a tree.
pub(crate) struct Asked {
    pub is_head: bool,
    pub target: Target,
    pub uri: Uri,
    pub headers: HeaderMap,
}

/// An answer without a connection yet.
pub(crate) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub content: Content,
    /// The file changed meanwhile: another answer is due.
    is_outdated: bool,
}

/// What the body is made of.
pub(crate) enum Content {
    Text(Bytes),
    File(FileParts),
    Listing(Box<Listing>),
}

impl Answer {
    pub fn new(status: StatusCode) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            content: Content::Text(Bytes::new()),
            is_outdated: false,
        }
    }

    /// An answer that says in words what is wrong.
    pub fn saying(status: StatusCode, words: &str) -> Self {
        let mut answer = Self::new(status);
        let text = format!("{status}: {words}\n");
        answer.set(header::CONTENT_LENGTH, text.len().into());
        let kind = "text/plain; charset=utf-8";
        answer.set(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        answer.content = Content::Text(text.into());
        answer
    }

    /// The answer for something that is not there, as for what is hidden.
    pub fn not_found() -> Self {
        Self::saying(StatusCode::NOT_FOUND, "there is nothing at this address")
    }

    pub fn of_error(error: &TreeError) -> Self {
        match error {
            TreeError::NotFound => Self::not_found(),
            TreeError::Forbidden => {
                Self::saying(StatusCode::FORBIDDEN, "this is not served to you")
            }
            TreeError::Changed => Self {
                is_outdated: true,
                ..Self::unavailable("the file is being changed")
            },
            TreeError::Unavailable(_) => Self::unavailable("the storage is not available now"),
            TreeError::Storage(_) => Self::saying(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the storage cannot read this; its administrator finds the reason in the log",
            ),
        }
    }

    /// The answer for what may work later.
    pub fn unavailable(why: &str) -> Self {
        let words = format!("{why}; try again in a minute");
        let mut answer = Self::saying(StatusCode::SERVICE_UNAVAILABLE, &words);
        answer.set(header::RETRY_AFTER, HeaderValue::from_static("60"));
        answer
    }

    pub fn set(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.insert(name, value);
    }

    /// Sends the client to another path of the same server.
    fn redirect(path: String, uri: &Uri) -> Self {
        let mut answer = Self::saying(StatusCode::MOVED_PERMANENTLY, "it has another address");
        let place = match uri.query() {
            Some(query) => format!("{path}?{query}"),
            None => path,
        };
        // The path was encoded, and the query came as a valid one.
        if let Ok(place) = HeaderValue::try_from(place) {
            answer.set(header::LOCATION, place);
        }
        answer
    }
}

/// How a tree is read. `None` always means: not without waiting.
pub(crate) trait Look {
    fn find(&self, tree: &dyn Tree, path: &[Vec<u8>]) -> Option<Resolved>;

    fn read(
        &self,
        file: &dyn File,
        offset: u64,
        length: usize,
        purpose: Purpose,
    ) -> Option<Result<Vec<Bytes>, TreeError>>;

    fn may_wait(&self) -> bool;
}

/// Sees what memory has.
pub(crate) struct InMemory;

impl Look for InMemory {
    fn find(&self, tree: &dyn Tree, path: &[Vec<u8>]) -> Option<Resolved> {
        tree.find_cached(path)
    }

    fn read(
        &self,
        file: &dyn File,
        offset: u64,
        length: usize,
        _purpose: Purpose,
    ) -> Option<Result<Vec<Bytes>, TreeError>> {
        let pieces = file.read_cached(offset, length);
        let has_some = pieces.iter().any(|piece| !piece.is_empty());
        has_some.then_some(Ok(pieces))
    }

    fn may_wait(&self) -> bool {
        false
    }
}

/// Waits for what memory has not.
pub(crate) struct MayWait;

impl Look for MayWait {
    fn find(&self, tree: &dyn Tree, path: &[Vec<u8>]) -> Option<Resolved> {
        Some(tree.find(path))
    }

    fn read(
        &self,
        file: &dyn File,
        offset: u64,
        length: usize,
        purpose: Purpose,
    ) -> Option<Result<Vec<Bytes>, TreeError>> {
        Some(file.read(offset, length, purpose))
    }

    fn may_wait(&self) -> bool {
        true
    }
}

/// What is answered; `None` only from a look that may not wait.
pub(crate) fn answer(asked: &Asked, site: &Site, rules: &Rules, look: &dyn Look) -> Option<Answer> {
    for _ in 1..TRIES {
        let answer = answer_once(asked, site, rules, look)?;
        if !answer.is_outdated {
            return Some(answer);
        }
    }
    answer_once(asked, site, rules, look)
}

/// What a path names, unless links lead there over a hidden name: what that stands for does not
/// exist for clients, whichever way they ask.
fn shown(resolved: Resolved, rules: &Rules) -> Result<Found, TreeError> {
    match resolved.linked.iter().any(|name| rules.is_hidden(name)) {
        true => Err(TreeError::NotFound),
        false => resolved.found,
    }
}

fn answer_once(asked: &Asked, site: &Site, rules: &Rules, look: &dyn Look) -> Option<Answer> {
    let target = &asked.target;
    if !target.is_canonical {
        return Some(Answer::redirect(target.canonical(), &asked.uri));
    }
    let path = target.path.get(site.prefix..).unwrap_or_default();
    if path.iter().any(|name| rules.is_hidden(name)) {
        return Some(Answer::not_found());
    }
    let tree = &*site.tree;
    let serving = Serving { asked, rules, look };
    match shown(look.find(tree, path)?, rules) {
        Err(TreeError::NotFound) => Some(robots(target, rules).unwrap_or_else(Answer::not_found)),
        Err(error) => Some(Answer::of_error(&error)),
        Ok(Found::File(_)) if target.is_directory => Some(Answer::not_found()),
        Ok(Found::File(file)) => serving.file(tree, path, file),
        Ok(Found::Directory { .. }) if !target.is_directory => {
            Some(Answer::redirect(target.canonical() + "/", &asked.uri))
        }
        Ok(Found::Directory { .. }) => serving.directory(tree, path),
    }
}

/// `/robots.txt` of the options, if the request is for it.
pub(crate) fn robots(target: &Target, rules: &Rules) -> Option<Answer> {
    let text = rules.options.robots.as_ref()?;
    if target.is_directory || target.path != [b"robots.txt"] {
        return None;
    }
    let mut answer = Answer::new(StatusCode::OK);
    answer.set(header::CONTENT_LENGTH, text.len().into());
    answer.set(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    answer.content = Content::Text(text.clone().into());
    Some(answer)
}

struct Serving<'a> {
    asked: &'a Asked,
    rules: &'a Rules,
    look: &'a dyn Look,
}

impl Serving<'_> {
    /// An index file, or a listing.
    fn directory(&self, tree: &dyn Tree, path: &[Vec<u8>]) -> Option<Answer> {
        let mut below = path.to_vec();
        for name in &self.rules.options.index {
            below.push(name.as_bytes().to_vec());
            match shown(self.look.find(tree, &below)?, self.rules) {
                Ok(Found::File(file)) => return self.file(tree, &below, file),
                Ok(Found::Directory { .. }) | Err(TreeError::NotFound) => {}
                Err(error) => return Some(Answer::of_error(&error)),
            }
            below.pop();
        }
        let format = negotiate::listing(&self.asked.headers, self.rules.options.listing);
        if format == ListingFormat::Off {
            let words = "this directory is not listed";
            return Some(Answer::saying(StatusCode::FORBIDDEN, words));
        }
        if !self.look.may_wait() {
            return None;
        }
        Some(match self.listing(tree, path, format) {
            Ok(answer) => answer,
            Err(error) => Answer::of_error(&error),
        })
    }

    fn listing(
        &self,
        tree: &dyn Tree,
        path: &[Vec<u8>],
        format: ListingFormat,
    ) -> Result<Answer, TreeError> {
        let (mut entries, mut is_cut) = (Vec::new(), false);
        let entries_max = self.rules.limits().listed_entries;
        tree.list(path, &mut |entry| {
            if self.rules.is_hidden(&entry.name) {
                return true;
            }
            is_cut = entries.len() >= entries_max;
            if !is_cut {
                entries.push(entry);
            }
            !is_cut
        })?;
        if is_cut && format != ListingFormat::Html {
            let words = format!(
                "this directory has more than {entries_max} entries, the limit of listings; its \
                 administrator can raise it"
            );
            return Ok(Answer::saying(StatusCode::INTERNAL_SERVER_ERROR, &words));
        }
        follow_links(tree, path, &mut entries, self.rules);
        let order = match format {
            ListingFormat::Html => Order::of_query(self.asked.uri.query()),
            _ => Order::default(),
        };
        let heading = Heading {
            path: self.asked.target.path.clone(),
            order,
            is_cut,
            style_sheet: self.rules.options.style_sheet.clone(),
        };
        let listing = Box::new(Listing::new(entries, format, heading));
        let mut answer = Answer::new(StatusCode::OK);
        let kind = HeaderValue::from_static(listing.content_type());
        answer.set(header::CONTENT_TYPE, kind);
        answer.set(header::VARY, HeaderValue::from_static("accept"));
        let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:";
        answer.set(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(policy),
        );
        answer.content = Content::Listing(listing);
        Ok(answer)
    }

    /// A file, or a compressed one beside it.
    fn file(&self, tree: &dyn Tree, path: &[Vec<u8>], file: Arc<dyn File>) -> Option<Answer> {
        let kind = path.last().map_or(mime::UNKNOWN, |name| mime::of(name));
        let varies = self.rules.options.precompressed && mime::is_compressible(kind);
        let mut chosen = (file, None);
        if varies {
            for encoding in negotiate::encodings(&self.asked.headers) {
                let mut beside = path.to_vec();
                if let Some(name) = beside.last_mut() {
                    name.extend_from_slice(encoding.suffix());
                }
                // One that is older is of other content.
                if let Ok(Found::File(other)) = shown(self.look.find(tree, &beside)?, self.rules)
                    && other.modified() >= chosen.0.modified()
                {
                    chosen = (other, Some(encoding));
                    break;
                }
            }
        }
        let (file, encoding) = chosen;
        let tag = file.entity_tag();
        let validators = Validators {
            tag: &tag,
            modified: date::seconds(file.modified()),
            now: wall_clock().as_secs(),
        };
        let mut answer = match conditions::judge(&self.asked.headers, validators) {
            Decision::Proceed => self.body(&file, &tag, kind, validators)?,
            Decision::NotModified => Answer::new(StatusCode::NOT_MODIFIED),
            Decision::Failed => Answer::saying(
                StatusCode::PRECONDITION_FAILED,
                "the file is not what the request expects",
            ),
        };
        // What is about the storage is not about this version of the file.
        if !matches!(answer.status.as_u16(), 200 | 206 | 304 | 412 | 416) {
            return Some(answer);
        }
        let quoted = HeaderValue::try_from(format!("\"{tag}\""));
        if let Ok(quoted) = quoted {
            answer.set(header::ETAG, quoted);
        }
        let modified = date::format(file.modified());
        if let Ok(modified) = HeaderValue::try_from(modified) {
            answer.set(header::LAST_MODIFIED, modified);
        }
        answer.set(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if varies {
            answer.set(header::VARY, HeaderValue::from_static("accept-encoding"));
        }
        if let Some(encoding) = encoding.filter(|_| answer.status.is_success()) {
            let name = HeaderValue::from_static(encoding.name());
            answer.set(header::CONTENT_ENCODING, name);
        }
        Some(answer)
    }

    /// 200, 206 or 416, or an error when the first bytes cannot be read.
    fn body(
        &self,
        file: &Arc<dyn File>,
        tag: &str,
        kind: &'static str,
        validators: Validators<'_>,
    ) -> Option<Answer> {
        let size = file.size();
        let headers = &self.asked.headers;
        let wanted = match headers.get(header::RANGE).map(HeaderValue::to_str) {
            Some(Ok(value)) if conditions::range_fits(headers, validators) => {
                ranges::wanted(value, size, self.rules.limits().ranges)
            }
            _ => Wanted::Whole,
        };
        let ranges = match wanted {
            Wanted::Unsatisfiable => {
                let status = StatusCode::RANGE_NOT_SATISFIABLE;
                let words = format!("the file has {size} bytes");
                let mut answer = Answer::saying(status, &words);
                answer.set_text(header::CONTENT_RANGE, format!("bytes */{size}"));
                return Some(answer);
            }
            Wanted::Whole => None,
            Wanted::Ranges(ranges) => Some(ranges),
        };
        let status = match ranges {
            Some(_) => StatusCode::PARTIAL_CONTENT,
            None => StatusCode::OK,
        };
        let mut answer = Answer::new(status);
        let mut content_type = HeaderValue::from_static(kind);
        let segments = match ranges.as_deref() {
            None if size == 0 => Vec::new(),
            None => vec![Segment::Range {
                begin: 0,
                end: size,
            }],
            Some([range]) => {
                let (begin, end) = (range.start, range.end);
                let value = format!("bytes {begin}-{}/{size}", end - 1);
                answer.set_text(header::CONTENT_RANGE, value);
                vec![Segment::Range { begin, end }]
            }
            Some(many) => {
                let parts = multipart::parts(many, size, kind);
                content_type = parts.content_type;
                parts.segments
            }
        };
        answer.set(header::CONTENT_TYPE, content_type);
        let length: u64 = segments.iter().map(Segment::length).sum();
        answer.set(header::CONTENT_LENGTH, length.into());
        if self.asked.is_head || length == 0 {
            return Some(answer);
        }
        self.content(file, tag, segments, length).map(|content| {
            match content {
                Ok(content) => answer.content = content,
                Err(error) => answer = Answer::of_error(&error),
            }
            answer
        })
    }

    /// Reads the first bytes, so that what cannot be read has an answer of its own.
    fn content(
        &self,
        file: &Arc<dyn File>,
        tag: &str,
        segments: Vec<Segment>,
        length: u64,
    ) -> Option<Result<Content, TreeError>> {
        let purpose = match length >= self.rules.options.pass_through_bytes {
            true => Purpose::PassThrough,
            false => Purpose::Keep,
        };
        let range = segments.iter().find_map(|segment| match segment {
            Segment::Range { begin, end } => Some((*begin, *end)),
            Segment::Text(_) => None,
        });
        let (begin, end) = range?;
        let count = usize::try_from(end - begin).map_or(FIRST_READ, |rest| rest.min(FIRST_READ));
        let first = match self.look.read(&**file, begin, count, purpose)? {
            Ok(first) => first,
            Err(error) => return Some(Err(error)),
        };
        let read: usize = first.iter().map(Bytes::len).sum();
        if self.look.may_wait() && read != count {
            let became_shorter = "the file changed while it was read".to_owned();
            return Some(Err(TreeError::Unavailable(became_shorter)));
        }
        Some(Ok(Content::File(FileParts {
            file: Arc::clone(file),
            tag: tag.to_owned(),
            segments: segments.into(),
            purpose,
            first,
        })))
    }
}

impl Answer {
    /// Sets a header to a text of digits and the like.
    fn set_text(&mut self, name: HeaderName, text: String) {
        if let Ok(value) = HeaderValue::try_from(text) {
            self.headers.insert(name, value);
        }
    }
}

/// Shows links as what they lead to; those that lead nowhere stay links.
fn follow_links(tree: &dyn Tree, path: &[Vec<u8>], entries: &mut [Entry], rules: &Rules) {
    let is_link = |entry: &&mut Entry| entry.kind == EntryKind::Link;
    let mut below = path.to_vec();
    for entry in entries.iter_mut().filter(is_link).take(LINKS_FOLLOWED) {
        below.push(entry.name.clone());
        match shown(tree.find(&below), rules) {
            Ok(Found::File(file)) => {
                entry.kind = EntryKind::File;
                (entry.size, entry.modified) = (file.size(), file.modified());
            }
            Ok(Found::Directory { modified }) => {
                entry.kind = EntryKind::Directory;
                (entry.size, entry.modified) = (0, modified);
            }
            Err(_) => {}
        }
        below.pop();
    }
}
