//! `/status.json`: how old each site is, in the form of tunasync.
//!
//! Mirrors' start pages and monitors read this form: an array of jobs. A job of tunasync describes
//! a run of rsync. A site describes a snapshot instead, which was made after a successful run. So
//! `status` is `success` if a snapshot is shown and `failed` if none can be. The times of the last
//! update, start and end are all that of the snapshot. A head has no such time: its status is
//! `syncing`. `size` is the referenced space, `upstream` the property `cenote:upstream`. The time
//! of the next run is not known, so `next_schedule` is tunasync's zero.
//!
//! If there is no site at `/`, that path answers with a list of the sites.

use std::sync::Arc;

use super::offer::Offer;
use super::report::{STATUS_PAGE, SiteReport};
use bytes::Bytes;
use cenote_http::{Method, PageAnswer, PageRequest, Pages, encoded_path, requested_host};
use jiff::Timestamp;
use serde_json::{Value, json};

use cenote_advisor::numbers::nicebytes;

/// tunasync's zero, which stands for an unknown time.
const NEVER: &str = "0001-01-01 00:00:00 +0000";
const NEVER_SECONDS: i64 = -62_135_596_800;

const NOT_FOUND: Bytes = Bytes::from_static(b"not found\n");

/// Text, escaped for HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A list of the sites of a host; `None` if it has none.
fn index(reports: &[SiteReport], host: &str) -> Option<String> {
    let host = requested_host(host);
    let is_shown = |report: &&SiteReport| {
        let own = report.status.site.host.as_deref();
        own.is_none_or(|own| own == host)
    };
    let mut paths: Vec<&str> = reports
        .iter()
        .filter(is_shown)
        .map(|report| report.status.site.path.trim_matches('/'))
        .collect();
    paths.sort_unstable();
    paths.dedup();
    let lines = paths.iter().map(|path| {
        let (link, text) = (encoded_path(path), escaped(path));
        format!("<li><a href=\"/{link}/\">{text}</a>\n")
    });
    let lines: String = lines.collect();
    let page = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
                <meta name=\"viewport\" content=\"width=device-width\">\n\
                <meta name=\"color-scheme\" content=\"light dark\">\n<title>Sites</title>\n";
    (!lines.is_empty()).then(|| format!("{page}<h1>Sites</h1>\n<ul>\n{lines}</ul>\n"))
}

/// The page.
pub(super) struct StatusPage(pub Arc<Offer>);

fn time(seconds: Option<u64>) -> (String, i64) {
    let seconds = seconds.and_then(|seconds| i64::try_from(seconds).ok());
    let known = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    match known {
        Some(time) => (
            time.strftime("%Y-%m-%d %H:%M:%S +0000").to_string(),
            time.as_second(),
        ),
        None => (NEVER.to_owned(), NEVER_SECONDS),
    }
}

fn job(report: &SiteReport) -> Value {
    let status = &report.status;
    let last = status.site.dataset.split('@').next().unwrap_or_default();
    let name = match status.site.path.trim_matches('/') {
        "" => last.rsplit('/').next().unwrap_or(last),
        path => path,
    };
    let (text, seconds) = time(status.made);
    let (next, next_seconds) = time(None);
    json!({
        "name": name,
        "is_master": true,
        "status": match (&status.problem, status.made) {
            (Some(_), _) => "failed",
            (None, Some(_)) => "success",
            (None, None) => "syncing",
        },
        "last_update": text,
        "last_update_ts": seconds,
        "last_started": text,
        "last_started_ts": seconds,
        "last_ended": text,
        "last_ended_ts": seconds,
        "next_schedule": next,
        "next_schedule_ts": next_seconds,
        "upstream": report.upstream,
        "size": nicebytes(report.bytes),
    })
}

impl Pages for StatusPage {
    fn answer(&self, request: &PageRequest) -> PageAnswer {
        let answer = |status, content_type, body| PageAnswer {
            status,
            content_type,
            headers: Vec::new(),
            body,
        };
        if request.path == "/" && request.method == Method::Get {
            return match index(&self.0.status(), request.header("host").unwrap_or_default()) {
                Some(text) => answer(200, "text/html; charset=utf-8", Bytes::from(text)),
                None => answer(404, "text/plain; charset=utf-8", NOT_FOUND),
            };
        }
        let is_it = request.path.trim_start_matches('/').as_bytes() == STATUS_PAGE;
        if !is_it || request.method != Method::Get {
            return answer(404, "text/plain; charset=utf-8", NOT_FOUND);
        }
        let jobs: Vec<Value> = self.0.status().iter().map(job).collect();
        let text = Value::from(jobs).to_string();
        answer(200, "application/json", Bytes::from(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::model::{HttpSite, HttpSiteStatus};

    #[test]
    fn sites_of_a_host_are_listed() {
        let report = |host: Option<&str>, path: &str| SiteReport {
            status: HttpSiteStatus {
                site: HttpSite {
                    host: host.map(str::to_owned),
                    path: path.to_owned(),
                    ..HttpSite::default()
                },
                ..HttpSiteStatus::default()
            },
            bytes: 0,
            upstream: String::new(),
        };
        let reports = [
            report(None, "/a<b"),
            report(Some("x.org"), "/c"),
            report(Some("y"), "/d"),
        ];
        let page = index(&reports, "X.org:80").expect("two");
        assert!(page.contains("<a href=\"/a%3Cb/\">a&lt;b</a>"), "{page}");
        assert!(page.contains("\"/c/\"") && !page.contains("/d/"), "{page}");
        assert!(index(&reports[1..], "z").is_none());
        // As a site is found for a request, so is its line.
        for host in ["x.org", "X.ORG.", "x.org.:80"] {
            let page = index(&reports, host).expect("two");
            assert!(page.contains("\"/c/\""), "{host}: {page}");
        }
    }

    #[test]
    fn jobs_are_in_tunasyncs_form() {
        let mut report = SiteReport {
            status: HttpSiteStatus {
                site: HttpSite {
                    path: "/".to_owned(),
                    dataset: "tank/debian".to_owned(),
                    ..HttpSite::default()
                },
                made: Some(1_700_000_000),
                ..HttpSiteStatus::default()
            },
            bytes: 3 << 30,
            upstream: "rsync://deb.example.org/debian/".to_owned(),
        };
        let made = job(&report);
        assert_eq!(made["name"], "debian");
        assert_eq!(made["status"], "success");
        assert_eq!(made["last_update"], "2023-11-14 22:13:20 +0000");
        assert_eq!(made["last_update_ts"], 1_700_000_000);
        assert_eq!(made["size"], "3G");
        report.status.made = None;
        report.status.site.path = "/a/b".to_owned();
        assert_eq!(job(&report)["name"], "a/b");
        assert_eq!(job(&report)["last_update_ts"], NEVER_SECONDS);
        report.status.problem = Some("no snapshot matches".to_owned());
        assert_eq!(job(&report)["status"], "failed");
    }
}
