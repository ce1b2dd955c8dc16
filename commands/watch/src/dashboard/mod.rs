//! The dashboard: the daemon's activity as pages for a browser.
//!
//! [`recorder`] samples the daemon every ten seconds, and [`history`] stores the samples. Each
//! request for a page renders it on the server, from the samples and the daemon's answers. The
//! pages work without scripts; `refresh.js` only replaces their contents. Pages load nothing from
//! other servers, and the headers of each answer forbid it. [`access`] decides the rights of each
//! visitor, and [`actions`] performs the changes.
//!
//! `maud` generates all HTML and escapes its data.

mod access;
mod actions;
mod datasets;
mod graph;
mod history;
mod layout;
mod others;
mod overview;
mod pool;
pub mod recorder;
mod views;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use cenote_control::model::ControlError;
use cenote_control::protocol::Service;
use cenote_http::{Method, PageAnswer, PageRequest};
use maud::{Markup, html};
use zeroize::Zeroizing;

pub use access::read_token;
use access::{Access, LoginError, Visitor, is_loopback_host};
use history::History;
use layout::{decoded, field, page};
use recorder::{Asker, Recorder};

const HTML: &str = "text/html; charset=utf-8";
/// The content security policy: nothing from other servers, no inline scripts or styles.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Where a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The unix socket, to which only the daemon's user and root can connect.
    Socket,
    /// A TCP port.
    Port(SocketAddr),
}

/// The pages of one daemon.
pub struct Dashboard {
    recorder: Arc<Recorder>,
    access: Access,
}

impl Dashboard {
    /// The dashboard of this service. With a token, users that know it can act. The state directory
    /// stores a year of history.
    pub fn new(
        service: Arc<dyn Service>,
        token: Option<Zeroizing<String>>,
        state_directory: Option<PathBuf>,
    ) -> Self {
        let directory = state_directory.map(|state| state.join("history"));
        Self {
            recorder: Recorder::new(service, History::new(directory)),
            access: Access::new(token.as_ref().map(|token| token.as_str())),
        }
    }

    /// Starts sampling the daemon.
    pub fn start(&self) -> std::io::Result<()> {
        self.recorder.start()
    }

    /// Saves the unwritten part of the history. Called once the server has stopped.
    pub fn end(&self) {
        self.recorder.history.finish();
    }

    /// Answers a request from this door.
    pub fn answer(&self, request: &PageRequest, door: Door) -> PageAnswer {
        if let Some(refused) = refused(request, door) {
            return refused;
        }
        let visitor = self.access.visitor(request, door == Door::Socket);
        match (request.method, request.path.as_str()) {
            (Method::Get, "/style.css") => {
                file("text/css; charset=utf-8", include_str!("style.css"))
            }
            (Method::Get, "/refresh.js") => {
                file("text/javascript; charset=utf-8", include_str!("refresh.js"))
            }
            (Method::Get, "/login") => login(&visitor, None),
            (Method::Get, path) => self.page(path, request.query.as_deref(), &visitor),
            (Method::Post, "/login") => self.log_in(request, &visitor),
            (Method::Post, path) => self.act(path, request, &visitor),
        }
    }

    fn page(&self, path: &str, query: Option<&str>, visitor: &Visitor) -> PageAnswer {
        let recorder = self.recorder.as_ref();
        let asker = Asker::new(recorder, visitor.is_owner);
        let made = match path {
            "/" => overview::overview(recorder, &asker).map(|body| ("Pools".to_owned(), body)),
            "/caches" => Ok(("Caches".to_owned(), others::caches(recorder))),
            "/clients" => {
                others::clients(recorder, &asker).map(|body| ("Clients".to_owned(), body))
            }
            "/alarms" => others::alarms(&asker).map(|body| ("Alarms".to_owned(), body)),
            _ => match pool_of(path) {
                Some((name, what)) => self.pool_page((&name, what), query, (&asker, visitor)),
                None => return nothing_there(visitor),
            },
        };
        match made {
            Ok((title, body)) => {
                let done = query.and_then(|query| field(query, "done"));
                let body = html! {
                    @if let Some(done) = done.filter(|_| visitor.form.is_some()) {
                        p.notice role="status" { (done) }
                    }
                    (body)
                };
                answer(200, page(&title, path, visitor, body))
            }
            Err(error) => failed(&error, visitor),
        }
    }

    fn pool_page(
        &self,
        (name, what): (&str, PoolPage),
        query: Option<&str>,
        (asker, visitor): (&Asker<'_>, &Visitor),
    ) -> Result<(String, Markup), ControlError> {
        let recorder = self.recorder.as_ref();
        Ok(match what {
            PoolPage::Status => (
                format!("Pool {name}"),
                pool::pool(name, query, recorder, (asker, visitor))?,
            ),
            PoolPage::Datasets => (
                format!("Datasets of {name}"),
                datasets::page(name, query, asker)?,
            ),
            PoolPage::History => (format!("History of {name}"), others::history(name, asker)?),
        })
    }

    fn log_in(&self, request: &PageRequest, visitor: &Visitor) -> PageAnswer {
        let body = String::from_utf8_lossy(&request.body);
        let token = field(&body, "token").unwrap_or_default();
        match self.access.log_in(token.trim()) {
            Ok(cookie) => {
                let mut answer = see_other("/");
                answer.headers.push(("set-cookie", cookie));
                answer
            }
            Err(error) => login(visitor, Some(error)),
        }
    }

    /// Handles forms, which need a session.
    fn act(&self, path: &str, request: &PageRequest, visitor: &Visitor) -> PageAnswer {
        let body = String::from_utf8_lossy(&request.body);
        let form = field(&body, "form").unwrap_or_default();
        if !Access::has_form(visitor, &form) {
            let text = "This form is not valid any more, or you are not logged in. \
                        Log in, reload the page and try again.";
            return message(403, "Not allowed", text, visitor);
        }
        match path {
            "/logout" => {
                let mut answer = see_other("/");
                let cookie = self.access.log_out(request);
                answer.headers.push(("set-cookie", cookie));
                answer
            }
            "/action" => {
                let action = match actions::read(&body) {
                    Ok(action) => action,
                    Err(why) => return message(400, "Not understood", &why, visitor),
                };
                let asker = Asker::new(&self.recorder, visitor.is_owner);
                let text = match actions::carry_out(&action, &asker) {
                    Ok(text) => text,
                    Err(error) => error.to_string(),
                };
                see_other(&pool::done_path(&action.pool, &text))
            }
            _ => nothing_there(visitor),
        }
    }
}

/// The pages of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PoolPage {
    Status,
    Datasets,
    History,
}

/// The pool in a path, and which of its pages.
fn pool_of(path: &str) -> Option<(String, PoolPage)> {
    let rest = path.strip_prefix("/pool/")?;
    let (name, page) = match rest.split_once('/') {
        None => (rest, PoolPage::Status),
        Some((name, "datasets")) => (name, PoolPage::Datasets),
        Some((name, "history")) => (name, PoolPage::History),
        Some(_) => return None,
    };
    let name = decoded(name, false).filter(|name| !name.is_empty())?;
    Some((name, page))
}

/// Refuses requests that another site made the browser send.
fn refused(request: &PageRequest, door: Door) -> Option<PageAnswer> {
    let visitor = Visitor::default();
    if let Door::Port(address) = door
        && address.ip().is_loopback()
        && !is_loopback_host(request.header("host").unwrap_or_default())
    {
        let text = "This server answers to 'localhost' and loopback addresses only. \
                    Open it under such a name, or listen on another address.";
        return Some(message(421, "Another name", text, &visitor));
    }
    let comes_from = request.header("sec-fetch-site").unwrap_or("same-origin");
    if request.method == Method::Post && !matches!(comes_from, "same-origin" | "none") {
        let text = "Another site sent this form. Open the dashboard itself.";
        return Some(message(403, "Not allowed", text, &visitor));
    }
    None
}

fn headers() -> Vec<(&'static str, String)> {
    [
        ("content-security-policy", POLICY),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .to_vec()
}

fn answer(status: u16, page: Markup) -> PageAnswer {
    PageAnswer {
        status,
        content_type: HTML,
        headers: headers(),
        body: Bytes::from(page.into_string()),
    }
}

fn file(content_type: &'static str, text: &'static str) -> PageAnswer {
    PageAnswer {
        status: 200,
        content_type,
        headers: headers(),
        body: Bytes::from_static(text.as_bytes()),
    }
}

fn see_other(path: &str) -> PageAnswer {
    let mut headers = headers();
    headers.push(("location", path.to_owned()));
    PageAnswer {
        status: 303,
        content_type: HTML,
        headers,
        body: Bytes::new(),
    }
}

fn message(status: u16, title: &str, text: &str, visitor: &Visitor) -> PageAnswer {
    let body = html! {
        p { (text) }
        p { a href="/" { "To the overview" } }
    };
    answer(status, page(title, "", visitor, body))
}

fn nothing_there(visitor: &Visitor) -> PageAnswer {
    message(404, "No such page", "There is no page here.", visitor)
}

fn failed(error: &ControlError, visitor: &Visitor) -> PageAnswer {
    let (status, title) = match error {
        ControlError::NoSuchPool { .. } | ControlError::NoSuchDataset { .. } => (404, "Not found"),
        ControlError::PermissionDenied => (403, "Not allowed"),
        _ => (503, "The daemon cannot answer"),
    };
    message(status, title, &error.to_string(), visitor)
}

fn login(visitor: &Visitor, error: Option<LoginError>) -> PageAnswer {
    let (status, text) = match error {
        None => (200, ""),
        Some(LoginError::NoToken) => (403, "Logging in is not possible: the daemon has no token."),
        Some(LoginError::Wrong) => (403, "This is not the token."),
        Some(LoginError::TooMany) => (429, "Too many wrong tokens. Wait a minute."),
        Some(LoginError::NoRandom) => (503, "The system gives no random bytes."),
    };
    let body = html! {
        @if !text.is_empty() { p.notice.bad role="alert" { (text) } }
        @if visitor.can_log_in {
            form method="post" action="/login" {
                label for="token" { "Token" }
                input id="token" name="token" type="password" required
                    autocomplete="current-password";
                " "
                button type="submit" { "Log in" }
            }
        } @else {
            p {
                "The dashboard only shows. To act here, start the daemon with "
                code { "--dashboard-token-file FILE" } "."
            }
        }
    };
    answer(status, page("Log in", "/login", visitor, body))
}

#[cfg(test)]
mod tests;
