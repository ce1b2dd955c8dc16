//! What is answered about files and directories.

use crate::common::{Served, pattern};
use cenote_http::{ListingFormat, Options};

const DATE: &str = "Fri, 27 Nov 2026 03:00:00 GMT";

#[test]
fn a_file_is_served_with_what_clients_cache_it_by() {
    let served = Served::new();
    served.tree.put_bytes("a/b.txt", "hello");
    let answer = served.get("/a/b.txt");
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    for (name, value) in [
        ("content-type", "text/plain"),
        ("content-length", "5"),
        ("etag", "\"v1\""),
        ("last-modified", DATE),
        ("accept-ranges", "bytes"),
        ("vary", "accept-encoding"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    assert!(answer.header("date").is_some());
    let head = served.ask("HEAD", "/a/b.txt", &[]);
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), Some("5"));
    // A request is counted when its last byte was handed to the connection.
    let begun = std::time::Instant::now();
    while served.server.status().from_memory < 2 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(30));
        std::thread::yield_now();
    }
}

#[test]
fn ranges_and_conditions() {
    let served = Served::new();
    let bytes = pattern(100_000);
    served.tree.put_bytes("f.bin", bytes.clone());
    served.tree.put_bytes("empty", "");
    let ask = |headers: &[(&str, &str)]| served.ask("GET", "/f.bin", headers);
    let answer = ask(&[("Range", "bytes=10-19")]);
    assert_eq!((answer.status, &answer.body[..]), (206, &bytes[10..20]));
    assert_eq!(answer.header("content-range"), Some("bytes 10-19/100000"));
    assert_eq!(ask(&[("Range", "bytes=-7")]).body, bytes[99_993..]);
    let answer = ask(&[("Range", "bytes=100000-")]);
    assert_eq!(answer.status, 416);
    assert_eq!(answer.header("content-range"), Some("bytes */100000"));
    assert_eq!(
        served.ask("GET", "/empty", &[("Range", "bytes=0-")]).status,
        416
    );
    assert_eq!(served.get("/empty").header("content-length"), Some("0"));
    for (headers, status) in [
        (vec![("If-None-Match", "\"v1\"")], 304),
        (vec![("If-Modified-Since", DATE)], 304),
        (vec![("If-Match", "\"v2\"")], 412),
        (vec![("If-Range", "\"v1\""), ("Range", "bytes=0-0")], 206),
        (vec![("If-Range", "\"v2\""), ("Range", "bytes=0-0")], 200),
        (
            vec![("If-None-Match", "\"v1\""), ("Range", "bytes=0-0")],
            304,
        ),
        (vec![("Range", "lines=1-2")], 200),
    ] {
        let answer = ask(&headers);
        assert_eq!(answer.status, status, "{headers:?}");
        assert_eq!(answer.header("etag"), Some("\"v1\""), "{headers:?}");
        let has_body = status != 304;
        assert_eq!(!answer.body.is_empty(), has_body, "{headers:?}");
    }
}

#[test]
fn several_ranges_come_in_parts() {
    let served = Served::new();
    let bytes = pattern(600_000);
    served.tree.put_bytes("f.bin", bytes.clone());
    let answer = served.ask("GET", "/f.bin", &[("Range", "bytes=500000-599999,0-1,5-9")]);
    assert_eq!(answer.status, 206);
    let kind = answer.header("content-type").expect("a type");
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .expect("parts");
    let mut expected = Vec::new();
    for (begin, end) in [(500_000, 600_000), (0, 2), (5, 10)] {
        let head = format!(
            "\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n\
             Content-Range: bytes {begin}-{}/600000\r\n\r\n",
            end - 1
        );
        expected.extend_from_slice(head.as_bytes());
        expected.extend_from_slice(&bytes[begin..end]);
    }
    expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    assert_eq!(
        answer.header("content-length"),
        Some(&*expected.len().to_string())
    );
    assert!(answer.body == expected);
}

#[test]
fn each_file_has_one_address() {
    let served = Served::new();
    served.tree.put_bytes("dir/f", "x");
    for (path, place) in [
        ("/dir", "/dir/"),
        ("/dir?C=M", "/dir/?C=M"),
        ("/dir//f", "/dir/f"),
        ("/dir/./f", "/dir/f"),
        ("/x/../dir/%2e/f?q", "/dir/f?q"),
        ("//evil.example/%2e%2e", "/"),
    ] {
        let answer = served.get(path);
        let found = (answer.status, answer.header("location"));
        assert_eq!(found, (301, Some(place)), "{path}");
    }
    for (path, status) in [
        ("/dir/f/", 404),
        ("/dir/f/x", 404),
        ("/nothing", 404),
        ("/../etc/passwd", 400),
        ("/%2e%2e/%2e%2e/etc/passwd", 400),
        ("/dir%2ff", 400),
        ("/dir/f%00", 400),
        ("/%zz", 400),
    ] {
        assert_eq!(served.get(path).status, status, "{path}");
    }
}

#[test]
fn hidden_names_do_not_exist() {
    let served = Served::with(Options {
        hidden: vec![".*".into(), "*.secret".into(), "!.well-known".into()],
        ..Options::default()
    });
    for path in [".git/config", "a.secret", ".well-known/x", "seen"] {
        served.tree.put_bytes(path, "x");
    }
    for path in [
        "/.git/config",
        "/.git/",
        "/.git",
        "/a.secret",
        "/%2egit/config",
    ] {
        let answer = served.get(path);
        assert_eq!(
            (answer.status, answer.text()),
            (404, served.get("/no").text()),
            "{path}"
        );
    }
    assert_eq!(served.get("/.well-known/x").status, 200);
    let listing = served.get("/").text();
    assert!(listing.contains("seen") && listing.contains(".well-known"));
    assert!(!listing.contains("secret") && !listing.contains(".git"));
}

#[test]
fn compressed_files_are_served_to_who_accepts_them() {
    let served = Served::new();
    served.tree.put_bytes("a.html", "plain");
    served.tree.put_bytes("a.html.gz", "gzipped");
    served.tree.put_bytes("a.html.br", "br");
    let ask = |accept: &str| {
        let answer = served.ask("GET", "/a.html", &[("Accept-Encoding", accept)]);
        assert_eq!(answer.header("content-type"), Some("text/html"));
        assert_eq!(answer.header("vary"), Some("accept-encoding"));
        let encoding = answer.header("content-encoding").map(str::to_owned);
        (answer.text(), encoding)
    };
    assert_eq!(ask("gzip"), ("gzipped".into(), Some("gzip".into())));
    assert_eq!(ask("gzip, br"), ("br".into(), Some("br".into())));
    assert_eq!(
        ask("gzip, br;q=0.1"),
        ("gzipped".into(), Some("gzip".into()))
    );
    assert_eq!(ask("zstd"), ("plain".into(), None));
    assert_eq!(ask("gzip;q=0"), ("plain".into(), None));
    let itself = served.ask("GET", "/a.html.gz", &[("Accept-Encoding", "gzip")]);
    assert_eq!(itself.header("content-type"), Some("application/gzip"));
    assert_eq!(itself.header("content-encoding"), None);
}

#[test]
fn directories_are_listed_as_the_client_likes_it() {
    let served = Served::new();
    served.tree.put_bytes("d/b.txt", "12345");
    served.tree.put_bytes("d/sub/x", "");
    let html = served.get("/d/");
    assert_eq!(
        html.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(
        html.text().contains("<a href=\"./b.txt\">b.txt</a>"),
        "{}",
        html.text()
    );
    let json = served.ask("GET", "/d/", &[("Accept", "application/json")]);
    assert_eq!(json.header("content-type"), Some("application/json"));
    assert!(
        json.text()
            .contains("{ \"name\":\"sub\", \"type\":\"directory\"")
    );
    let line =
        format!("{{ \"name\":\"b.txt\", \"type\":\"file\", \"mtime\":\"{DATE}\", \"size\":5 }}");
    assert!(json.text().contains(&line), "{}", json.text());
    served.tree.put_bytes("d/index.html", "index");
    assert_eq!(served.get("/d/").text(), "index");
    let off = Options {
        listing: ListingFormat::Off,
        ..Options::default()
    };
    served.server.reload(off, None).expect("fine");
    assert_eq!(served.get("/d/sub/").status, 403);
    assert_eq!(served.get("/d/").status, 200);
}

#[test]
fn a_directory_with_more_entries_than_the_limit_says_so() {
    let mut options = Options::default();
    options.limits.listed_entries = 10;
    let served = Served::with(options);
    for n in 0..20 {
        served.tree.put_bytes(&format!("d/{n}"), "");
    }
    let html = served.get("/d/").text();
    assert!(html.contains("more than 10 entries"), "{html}");
    let json = served.ask("GET", "/d/", &[("Accept", "application/json")]);
    assert_eq!(
        json.status, 500,
        "half a list must not look like a whole one"
    );
}

#[test]
fn pages_answer_where_no_site_does() {
    let served = Served::with(Options {
        robots: Some("User-agent: *\n".into()),
        headers: vec![("X-Mirror".into(), "yes".into())],
        ..Options::default()
    });
    let page = served.ask("GET", "/page/a?b=c", &[("X-Test", "t")]);
    assert_eq!(page.text(), "Get /page/a Some(\"b=c\") t 0");
    assert_eq!(
        (page.header("x-page"), page.header("x-mirror")),
        (Some("yes"), Some("yes"))
    );
    let post = served.raw(
        "POST /page HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
    );
    assert!(post.ends_with("Post /page None - 5"), "{post}");
    assert_eq!(served.get("/page/panic").status, 503);
    assert_eq!(served.get("/page/again").status, 200);
    assert_eq!(served.get("/robots.txt").text(), "User-agent: *\n");
    served.tree.put_bytes("robots.txt", "own");
    assert_eq!(served.get("/robots.txt").text(), "own");
}

#[test]
fn methods_and_hosts() {
    let served = Served::new();
    served.tree.put_bytes("f", "x");
    let options = served.ask("OPTIONS", "/f", &[]);
    let allowed = (options.status, options.header("allow"));
    assert_eq!(allowed, (204, Some("GET, HEAD, OPTIONS")));
    assert_eq!(served.ask("OPTIONS", "*", &[]).status, 204);
    for method in ["PUT", "DELETE", "POST", "TRACE", "PATCH", "BREW"] {
        let answer = served.ask(method, "/f", &[]);
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.header("allow").is_some(), "{method}");
    }
    let status = |request: &str| served.raw(request).get(9..12).map(str::to_owned);
    let close = "Connection: close\r\n\r\n";
    for (head, expected) in [
        ("GET /f HTTP/1.0\r\n", "200"),
        ("GET /f HTTP/1.1\r\n", "400"),
        ("GET /f HTTP/1.1\r\nHost: a\r\nHost: b\r\n", "400"),
        ("GET /f HTTP/1.1\r\nHost: a b\r\n", "400"),
        ("GET http://example.org/f HTTP/1.1\r\nHost: x\r\n", "200"),
        ("GET /page HTTP/1.1\r\nHost: nowhere.example\r\n", "200"),
    ] {
        let found = status(&format!("{head}{close}"));
        assert_eq!(found.as_deref(), Some(expected), "{head}");
    }
}

#[test]
fn blocked_agents_are_refused() {
    let served = Served::with(Options {
        blocked_agents: vec!["BadBot".into()],
        ..Options::default()
    });
    served.tree.put_bytes("f", "x");
    let ask = |agent: &str| served.ask("GET", "/f", &[("User-Agent", agent)]).status;
    assert_eq!((ask("Mozilla (badbot/1)"), ask("curl")), (403, 200));
}
