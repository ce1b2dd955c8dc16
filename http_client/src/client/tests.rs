//! Requests to servers and proxies that are threads of a test.

use super::*;
use crate::{tls, wait};
use http::header::LOCATION;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const LIMIT: Duration = Duration::from_secs(20);

/// What came: the lines of a request's head in small letters, and its body.
type Heard = Arc<Mutex<Vec<(Vec<String>, String)>>>;

/// A request, if one comes.
fn hear(reader: &mut impl BufRead) -> Option<(Vec<String>, String)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end() {
            "" if lines.is_empty() => return None,
            "" => break,
            line => lines.push(line.to_lowercase()),
        }
    }
    let length = lines
        .iter()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().expect("a number"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((lines, String::from_utf8(body).expect("text")))
}

/// Listens, and hands each connection to `serve`; its threads end with the process.
fn listen(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for line in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(line));
        }
    });
    address
}

/// Answers each request of each connection in the same way.
struct Server {
    address: SocketAddr,
    heard: Heard,
    lines: Arc<AtomicUsize>,
}

impl Server {
    fn new(answer: &'static str) -> Self {
        let (heard, lines): (Heard, Arc<AtomicUsize>) = Default::default();
        let (told, count) = (Arc::clone(&heard), Arc::clone(&lines));
        let address = listen(move |line| {
            count.fetch_add(1, Ordering::Relaxed);
            let mut writer = line.try_clone().expect("a copy");
            let mut reader = BufReader::new(line);
            while let Some(request) = hear(&mut reader) {
                told.lock().expect("no panic").push(request);
                if writer.write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
        });
        Self {
            address,
            heard,
            lines,
        }
    }

    fn last(&self) -> (Vec<String>, String) {
        let heard = self.heard.lock().expect("no panic");
        heard.last().expect("a request").clone()
    }
}

const FINE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine";

fn client(bundle: Option<&Path>, proxy: Option<&str>, connecting: Duration) -> Client {
    let setup = Setup {
        tls: tls::config(bundle, bundle.is_some()).expect("a configuration"),
        uses_proxies: false,
        connecting,
        unacknowledged: LIMIT,
    };
    let matcher = proxy.map(|proxy| Matcher::builder().all(proxy).no("localhost").build());
    Client::by_way_of(matcher, setup)
}

fn get(address: &str) -> Request<Payload> {
    let request = Request::get(address).body(Payload::default());
    request.expect("a request")
}

/// The text of an answer.
async fn read(client: &Client, request: Request<Payload>) -> Result<String, HttpError> {
    let mut answer = client.send(request).await?;
    let mut text = String::new();
    while let Some(piece) = answer.piece().await? {
        text += std::str::from_utf8(&piece).expect("text");
    }
    Ok(text)
}

fn once(client: &Client, request: Request<Payload>) -> Result<String, HttpError> {
    let answer = wait(LIMIT, read(client, request)).expect("a runtime");
    answer.expect("an end in time")
}

#[test]
fn connections_are_kept_and_bodies_are_watched() {
    let server = Server::new(FINE);
    let client = client(None, None, LIMIT);
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let taken = move |length: usize| {
        assert!(length <= 64 << 10, "in pieces");
        counter.fetch_add(length, Ordering::Relaxed);
    };
    let address = format!("http://{}/k", server.address);
    let body = Payload::watched("x".repeat(200_000).into(), taken);
    let whole = Request::put(&address).body(body).expect("a request");
    let empty = Request::put(&address).body(Payload::default());
    let both = async {
        assert_eq!(read(&client, whole).await.expect("answered"), "fine");
        let empty = empty.expect("a request");
        assert_eq!(read(&client, empty).await.expect("answered"), "fine");
    };
    let done = wait(LIMIT, both).expect("a runtime");
    assert_eq!(done, Some(()));
    assert_eq!(sent.load(Ordering::Relaxed), 200_000);
    assert_eq!(server.lines.load(Ordering::Relaxed), 1);
    let (lines, _) = server.last();
    for line in ["put /k http/1.1", "content-length: 0", "accept: */*"] {
        assert!(lines.contains(&line.to_owned()), "{line} of {lines:?}");
    }
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("user-agent: cenote/"))
    );
}

#[test]
fn redirections_are_answers() {
    let text = "HTTP/1.1 307 There\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    let server = Server::new(text);
    let client = client(None, None, LIMIT);
    let answer = client.send(get(&format!("http://{}/", server.address)));
    let answer = wait(LIMIT, answer).expect("a runtime").expect("in time");
    let answer = answer.expect("an answer");
    assert_eq!(answer.status(), StatusCode::TEMPORARY_REDIRECT);
    assert_eq!(answer.length(), Some(0));
    assert_eq!(answer.into_headers()[LOCATION], "http://127.0.0.1:1/");
}

#[test]
fn proxies_forward_requests() {
    let proxy = Server::new(FINE);
    let of_environment = format!("http://user:pa%20ss@{}", proxy.address);
    let client = client(None, Some(&of_environment), LIMIT);
    let answer = once(&client, get("http://store.example/k?x=1"));
    assert_eq!(answer.expect("answered"), "fine");
    let (lines, _) = proxy.last();
    for line in [
        "get http://store.example/k?x=1 http/1.1",
        "host: store.example",
        "proxy-authorization: basic dxnlcjpwysbzcw==",
    ] {
        assert!(lines.contains(&line.to_owned()), "{line} of {lines:?}");
    }
    // A host that needs no proxy hears the request itself.
    let server = Server::new(FINE);
    let near = format!("http://localhost:{}/k", server.address.port());
    assert_eq!(once(&client, get(&near)).expect("answered"), "fine");
    let (lines, _) = server.last();
    assert_eq!(lines[0], "get /k http/1.1");
    assert!(
        !lines.iter().any(|line| line.starts_with("proxy-")),
        "{lines:?}"
    );
}

const WITH_NAME: &str = "-addext subjectAltName=DNS:store.example \
                         -addext basicConstraints=critical,CA:FALSE";

/// A certificate for `store.example` and its key; `false` without openssl.
fn certificate(directory: &Path, extensions: &str) -> bool {
    let at = |name: &str| directory.join(name).display().to_string();
    let mut openssl = Command::new("openssl");
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
                 -subj /O=Example/CN=store.example";
    let words = format!("{words} {extensions}");
    openssl
        .args(words.split_whitespace())
        .args(["-keyout", &at("key"), "-out", &at("certificate")])
        .stderr(Stdio::null());
    openssl.status().is_ok_and(|status| status.success())
}

/// A proxy that carries a connection to a server, which is the proxy itself.
fn carrying(directory: &Path, heard: &Heard) -> SocketAddr {
    let certificate = CertificateDer::from_pem_file(directory.join("certificate"));
    let key = PrivateKeyDer::from_pem_file(directory.join("key"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.expect("a certificate")],
            key.expect("a key"),
        );
    let config = Arc::new(config.expect("they fit"));
    let heard = Arc::clone(heard);
    listen(move |line| {
        let mut plain = BufReader::new(line.try_clone().expect("a copy"));
        let Some(request) = hear(&mut plain) else {
            return;
        };
        heard.lock().expect("no panic").push(request);
        let mut line = line;
        let carries = b"HTTP/1.1 200 Connection established\r\n\r\n";
        line.write_all(carries).expect("sent");
        let server = ServerConnection::new(Arc::clone(&config)).expect("a server");
        let mut secure = BufReader::new(StreamOwned::new(server, line));
        // One whose certificate is not trusted hears nothing.
        let Some(request) = hear(&mut secure) else {
            return;
        };
        heard.lock().expect("no panic").push(request);
        let sent = secure.get_mut().write_all(FINE.as_bytes());
        sent.expect("sent");
    })
}

#[test]
fn servers_that_signed_their_own_certificates_are_believed_if_these_are_listed() {
    // As `openssl req -x509` makes them, and with another name than the common one.
    for (extensions, is_believed) in [("", true), ("-addext subjectAltName=DNS:a.example", false)] {
        let directory = tempfile::tempdir().expect("a directory");
        if !certificate(directory.path(), extensions) {
            eprintln!("not tested: openssl cannot make certificates");
            return;
        }
        let proxy = carrying(directory.path(), &Heard::default()).to_string();
        let bundle = directory.path().join("certificate");
        let get = |bundle: &Path, name: &str| {
            let client = client(Some(bundle), Some(&proxy), LIMIT);
            once(&client, get(&format!("https://{name}/k")))
        };
        let answer = get(&bundle, "store.example");
        assert_eq!(answer.is_ok(), is_believed, "{extensions}: {answer:?}");
        assert!(get(&bundle, "other.example").is_err(), "another name");
        let other = tempfile::tempdir().expect("a directory");
        assert!(certificate(other.path(), extensions));
        let listed = other.path().join("certificate");
        assert!(
            get(&listed, "store.example").is_err(),
            "another certificate"
        );
    }
}

#[test]
fn proxies_carry_connections() {
    let directory = tempfile::tempdir().expect("a directory");
    if !certificate(directory.path(), WITH_NAME) {
        eprintln!("not tested: openssl cannot make certificates");
        return;
    }
    let heard = Heard::default();
    let proxy = format!("user:key@{}", carrying(directory.path(), &heard));
    let bundle = directory.path().join("certificate");
    let trusting = client(Some(&bundle), Some(&proxy), LIMIT);
    let answer = once(&trusting, get("https://store.example/k"));
    assert_eq!(answer.expect("answered"), "fine");
    let (outer, inner) = {
        let heard = heard.lock().expect("no panic");
        (heard[0].0.clone(), heard[1].0.clone())
    };
    assert_eq!(outer[0], "connect store.example:443 http/1.1");
    let key = "proxy-authorization: basic dxnlcjprzxk=";
    assert!(outer.contains(&key.to_owned()), "{outer:?}");
    assert_eq!(inner[0], "get /k http/1.1");
    assert!(!inner.contains(&key.to_owned()), "{inner:?}");
    // The proxy is trusted with nothing.
    let other = client(Some(&bundle), Some(&proxy), LIMIT);
    let error = once(&other, get("https://other.example/k")).expect_err("another name");
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[test]
fn errors_say_what_happened() {
    let refusing = Server::new("HTTP/1.1 407 No\r\n\r\n");
    let proxy = format!("http://{}", refusing.address);
    let refused = client(None, Some(&proxy), LIMIT);
    let error = once(&refused, get("https://store.example/")).expect_err("refused");
    let text = error.to_string();
    assert!(text.starts_with("no connection: "), "{text}");
    assert!(
        text.ends_with("tunnel error: proxy authorization required"),
        "{text}"
    );

    let silent = listen(|line| {
        // It listens until the other end has gone.
        let _ = BufReader::new(line).read_to_end(&mut Vec::new());
    });
    let short = Duration::from_millis(300);
    let waiting = client(None, Some(&format!("http://{silent}")), short);
    let error = once(&waiting, get("https://store.example/")).expect_err("silence");
    let text = error.to_string();
    assert!(text.ends_with("operation timed out"), "{text}");
    assert_eq!(error.into_io().kind(), std::io::ErrorKind::TimedOut);

    let direct = client(None, None, LIMIT);
    let error = once(&direct, get("http://127.0.0.1:1/")).expect_err("no server");
    assert!(error.to_string().starts_with("no connection: "), "{error}");
    let refused = error.into_io();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(refused.to_string(), "Connection refused (os error 111)");

    let endless = Server::new("HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\n");
    let line = wait(
        short,
        read(&direct, get(&format!("http://{}/", endless.address))),
    );
    assert!(line.expect("a runtime").is_none(), "given up in time");
}

#[test]
fn users_of_addresses_are_told() {
    let of = |text: &str| basic_auth(&text.parse().expect("an address"));
    assert_eq!(
        of("http://user:key@h/x").expect("a user"),
        "Basic dXNlcjprZXk="
    );
    assert_eq!(of("http://user@h/x").expect("a user"), "Basic dXNlcjo=");
    assert_eq!(of("http://h/x"), None);
}
