//! Tests the whole dashboard with canned answers.

use super::*;
use cenote_control::model::{MountEntry, Part, Request, Response};
use cenote_control::protocol::{Ending, Peer, Reply};
use std::sync::Mutex;
use std::time::Instant;

use super::super::sample::testing::{pool, sample};

const TOKEN: &str = "0123456789abcdef";

/// A daemon with one pool, which records the requested changes.
#[derive(Default)]
struct Canned {
    looks: Mutex<u64>,
    changes: Mutex<Vec<String>>,
}

impl Canned {
    fn carry_out(&self, request: Request, reply: &mut dyn Reply) -> Result<Response, ControlError> {
        match request {
            Request::Metrics { .. } => {
                let mut looks = self.looks.lock().expect("not poisoned");
                *looks += 1;
                let sample = sample(Instant::now(), *looks, *looks * 1000);
                reply.part(Part::Metrics(sample.figures.families().to_vec()))?;
                Ok(Response::Done)
            }
            Request::PoolStatus { pools, .. } => match pools.first().map(String::as_str) {
                None | Some("tank") => Ok(Response::Statuses {
                    pools: vec![pool("tank")],
                    failures: Vec::new(),
                }),
                Some(name) => {
                    let error = ControlError::NoSuchPool {
                        pool: name.to_owned(),
                    };
                    Ok(Response::Statuses {
                        pools: Vec::new(),
                        failures: vec![(name.to_owned(), error)],
                    })
                }
            },
            Request::DatasetList { .. } => Ok(Response::Failures {
                failures: Vec::new(),
                done: 0,
            }),
            Request::MountList => Ok(Response::Mounts {
                mounts: vec![MountEntry {
                    dataset: "tank/home".to_owned(),
                    mountpoint: "/<home>".to_owned(),
                    own_place: true,
                }],
            }),
            Request::ErrorHistory { .. } => Ok(Response::ErrorHistory {
                records: Vec::new(),
            }),
            Request::History { .. } | Request::Events { .. } => Ok(Response::Done),
            Request::Nbd { .. } => Ok(Response::Nbd {
                servers: Vec::new(),
            }),
            Request::Alarms { .. } => Ok(Response::Alarms {
                file: None,
                ways: Vec::new(),
            }),
            Request::Change { command, .. } => {
                self.changes.lock().expect("not poisoned").push(command);
                Ok(Response::Done)
            }
            other => panic!("{other:?}"),
        }
    }
}

impl Service for Canned {
    fn handle(
        &self,
        request: Request,
        _peer: Peer,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        self.carry_out(request, reply)
    }

    fn look(&self, request: Request, reply: &mut dyn Reply) -> Result<Response, ControlError> {
        match request.access() {
            cenote_control::model::Access::Look => self.carry_out(request, reply),
            _ => Err(ControlError::PermissionDenied),
        }
    }

    fn idle(&self) -> bool {
        false
    }

    fn shutdown(&self, _ending: Ending) -> Result<(), ControlError> {
        Ok(())
    }
}

fn dashboard(token: Option<&str>) -> (Dashboard, Arc<Canned>) {
    let canned = Arc::new(Canned::default());
    let token = token.map(|token| Zeroizing::new(token.to_owned()));
    let dashboard = Dashboard::new(Arc::clone(&canned) as _, token, None);
    for _ in 0..2 {
        dashboard.recorder.look().expect("an answer");
    }
    (dashboard, canned)
}

fn port() -> Door {
    Door::Port("127.0.0.1:9134".parse().expect("an address"))
}

fn request(path: &str, headers: &[(&str, &str)]) -> PageRequest {
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (path, None),
    };
    let host = [("host", "localhost:9134")];
    let headers = headers.iter().chain(&host);
    PageRequest {
        method: Method::Get,
        path: path.to_owned(),
        query,
        headers: headers
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        peer: None,
        body: Bytes::new(),
    }
}

fn post(path: &str, body: &str, headers: &[(&str, &str)]) -> PageRequest {
    PageRequest {
        method: Method::Post,
        body: Bytes::from(body.to_owned()),
        ..request(path, headers)
    }
}

fn text(answer: &PageAnswer) -> String {
    String::from_utf8(answer.body.to_vec()).expect("text")
}

fn header<'a>(answer: &'a PageAnswer, name: &str) -> Option<&'a str> {
    let found = answer.headers.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| value.as_str())
}

/// The cookie of a new session and the secret of its forms.
fn logged_in(dashboard: &Dashboard) -> (String, String) {
    let answer = dashboard.answer(&post("/login", &format!("token={TOKEN}"), &[]), port());
    assert_eq!(answer.status, 303);
    let cookie = header(&answer, "set-cookie").expect("a cookie");
    let cookie = cookie.split(';').next().expect("a pair").to_owned();
    let page = dashboard.answer(&request("/pool/tank", &[("cookie", &cookie)]), port());
    let page = text(&page);
    let (_, rest) = page.split_once("name=\"form\" value=\"").expect("a form");
    let form = rest.split('"').next().expect("its secret").to_owned();
    (cookie, form)
}

/// Every link on every page leads to a page, and every page has what assistive programs need.
#[test]
fn all_pages_are_whole_and_no_link_is_dead() {
    let (dashboard, _) = dashboard(None);
    let mut open = vec!["/refresh.js".to_owned(), "/".to_owned()];
    let mut seen: Vec<String> = Vec::new();
    while let Some(path) = open.pop() {
        if seen.contains(&path) || path == "/metrics" {
            continue;
        }
        let answer = dashboard.answer(&request(&path, &[]), Door::Socket);
        assert_eq!(answer.status, 200, "{path}: {}", text(&answer));
        let policy = header(&answer, "content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        seen.push(path.clone());
        if answer.content_type != HTML {
            continue;
        }
        let page = text(&answer);
        check_page(&path, &page);
        for place in page.split("href=\"").skip(1) {
            let link = place.split('"').next().expect("an end");
            let base = path.split('?').next().unwrap_or_default();
            open.push(match link {
                "data:," | "#contents" => continue,
                link if link.starts_with('?') => format!("{base}{link}"),
                link => link.to_owned(),
            });
        }
    }
    for wanted in [
        "/alarms",
        "/pool/tank/history",
        "/pool/tank?span=year",
        "/refresh.js",
    ] {
        assert!(seen.iter().any(|path| path == wanted), "{wanted}: {seen:?}");
    }
}

fn check_page(path: &str, page: &str) {
    for part in [
        "<html lang=\"en\">",
        "<main id=\"contents\"",
        "<nav aria-label",
        "<footer>",
    ] {
        assert!(page.contains(part), "{path}: no {part}");
    }
    assert_eq!(page.matches("<h1>").count(), 1, "{path}");
    assert!(
        !page.contains(" style=") && !page.contains("onclick"),
        "{path}"
    );
    for element in ["svg", "table"] {
        for found in page.split(&format!("<{element}")).skip(1) {
            let tag = found.split('>').next().unwrap_or_default();
            let is_named = match element {
                "svg" => tag.contains("aria-label=") || tag.contains("aria-hidden"),
                _ => found.trim_start_matches('>').starts_with("<caption>"),
            };
            assert!(is_named, "{path}: <{element}{tag}>");
        }
    }
    // Each visible field has a label.
    for found in page.split("<input ").skip(1) {
        let tag = found.split('>').next().unwrap_or_default();
        if tag.contains("type=\"hidden\"") {
            continue;
        }
        let (_, id) = tag.split_once("id=\"").expect("an id");
        let id = id.split('"').next().unwrap_or_default();
        assert!(
            page.contains(&format!("<label for=\"{id}\"")),
            "{path}: {id}"
        );
    }
    assert!(!page.contains("<home>"), "{path}: what is not escaped");
}

#[test]
fn strangers_see_no_private_page_and_no_form() {
    let (dashboard, canned) = dashboard(None);
    for path in ["/alarms", "/pool/tank/history"] {
        assert_eq!(
            dashboard.answer(&request(path, &[]), port()).status,
            403,
            "{path}"
        );
    }
    let page = text(&dashboard.answer(&request("/pool/tank", &[]), port()));
    assert!(
        !page.contains("<form") && !page.contains("/history"),
        "{page}"
    );
    let clients = text(&dashboard.answer(&request("/clients", &[]), port()));
    assert!(clients.contains("to the daemon") && clients.contains("/&lt;home&gt;"));
    assert!(clients.contains("Files served over HTTP"), "{clients}");
    assert!(clients.contains("0.0.0.0:80 /mirror"), "{clients}");
    let answer = dashboard.answer(&post("/action", "pool=tank&action=scrub", &[]), port());
    assert_eq!(answer.status, 403);
    // Without a session even the daemon's own user may not act.
    let answer = dashboard.answer(
        &post("/action", "pool=tank&action=scrub", &[]),
        Door::Socket,
    );
    assert_eq!(answer.status, 403);
    assert!(canned.changes.lock().expect("not poisoned").is_empty());
}

#[test]
fn a_session_with_its_form_acts() {
    let (dashboard, canned) = dashboard(Some(TOKEN));
    let (cookie, form) = logged_in(&dashboard);
    let cookie = [("cookie", cookie.as_str())];
    let body = format!("form={form}&pool=tank&action=scrub");
    let answer = dashboard.answer(&post("/action", &body, &cookie), port());
    assert_eq!(answer.status, 303);
    let place = header(&answer, "location").expect("a place");
    assert_eq!(place, "/pool/tank?done=Done%3A%20zpool%20scrub%20tank");
    let page = text(&dashboard.answer(&request(place, &cookie), port()));
    assert!(page.contains("Done: zpool scrub tank"), "{page}");
    // The text of a link is not shown without a session.
    let page = text(&dashboard.answer(&request(place, &[]), port()));
    assert!(!page.contains("Done: zpool scrub tank"), "{page}");
    for body in ["pool=tank&action=clear", "form=0&pool=tank&action=clear"] {
        let answer = dashboard.answer(&post("/action", body, &cookie), port());
        assert_eq!(answer.status, 403, "{body}");
    }
    let wrong = format!("form={form}&pool=tank&action=destroy");
    assert_eq!(
        dashboard
            .answer(&post("/action", &wrong, &cookie), port())
            .status,
        400
    );
    let foreign = [cookie[0], ("sec-fetch-site", "cross-site")];
    let body = format!("form={form}&pool=tank&action=clear");
    assert_eq!(
        dashboard
            .answer(&post("/action", &body, &foreign), port())
            .status,
        403
    );
    assert_eq!(
        *canned.changes.lock().expect("not poisoned"),
        ["zpool scrub tank"]
    );
    let out = post("/logout", &format!("form={form}"), &cookie);
    assert_eq!(dashboard.answer(&out, port()).status, 303);
    assert_eq!(
        dashboard
            .answer(&request("/alarms", &cookie), port())
            .status,
        403
    );
}

#[test]
fn a_wrong_token_is_said_and_opens_nothing() {
    let (dashboard, _) = dashboard(Some(TOKEN));
    let answer = dashboard.answer(&post("/login", "token=guess", &[]), port());
    assert_eq!(answer.status, 403);
    assert!(header(&answer, "set-cookie").is_none());
    assert!(text(&answer).contains("This is not the token."));
}

/// Previously, another site could read everything with a name that resolved to loopback.
#[test]
fn loopback_answers_to_its_own_names_only() {
    let (dashboard, _) = dashboard(None);
    let mut foreign = request("/", &[]);
    foreign.headers = vec![("host".to_owned(), "rebound.example:9134".to_owned())];
    assert_eq!(dashboard.answer(&foreign, port()).status, 421);
    let open = Door::Port("192.0.2.1:9134".parse().expect("an address"));
    assert_eq!(dashboard.answer(&foreign, open).status, 200);
    assert_eq!(dashboard.answer(&foreign, Door::Socket).status, 200);
}

#[test]
fn what_is_not_there_is_not_found() {
    let (dashboard, _) = dashboard(None);
    for path in [
        "/nothing",
        "/pool/",
        "/pool/other",
        "/pool/tank/x",
        "/pool/%ff",
        "/%2e%2e",
    ] {
        let answer = dashboard.answer(&request(path, &[]), port());
        assert_eq!(answer.status, 404, "{path}: {}", text(&answer));
    }
}
