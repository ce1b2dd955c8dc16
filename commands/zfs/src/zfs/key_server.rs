//! Keys on web servers: `keylocation=https://…` and `http://…`.
//!
//! The key is the body of the answer. Redirections are followed, because key servers move, but
//! never from HTTPS to HTTP. As in OpenZFS, four variables of the environment say which servers
//! to trust, and what proves to them that we may ask. A server gets half a minute in all; a boot
//! must not wait for it longer.

use cenote_http_client::http::header::{AUTHORIZATION, LOCATION};
use cenote_http_client::http::{Request, StatusCode, Uri};
use cenote_http_client::tls::{Trust, config_of};
use cenote_http_client::{Answer, Client, HttpError, Payload, Setup, basic_auth, wait};
use std::path::PathBuf;
use std::time::Duration;
use zeroize::Zeroizing;

/// How long all of it may take.
const LIMIT: Duration = Duration::from_secs(30);
/// How long a connection may take.
const CONNECTING: Duration = Duration::from_secs(15);
/// Redirections that are followed.
const REDIRECTIONS_MAX: usize = 5;

/// Whether a location is an address of a web server.
pub fn is_address(location: &str) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|scheme| location.starts_with(scheme))
}

/// What the environment says about certificates.
pub fn trust() -> Trust {
    let path = |name| {
        std::env::var_os(name)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
    };
    // A file may have both.
    let own = path("SSL_CLIENT_CERT_FILE").map(|certificate| {
        let key = path("SSL_CLIENT_KEY_FILE").unwrap_or_else(|| certificate.clone());
        (certificate, key)
    });
    Trust {
        bundle: path("SSL_CA_CERT_FILE"),
        directory: path("SSL_CA_CERT_PATH"),
        own,
    }
}

/// How a key is fetched.
struct Terms<'a> {
    trust: &'a Trust,
    size_max: usize,
    limit: Duration,
    uses_proxies: bool,
}

/// The first `size_max` bytes of what a server has at `location`.
pub fn fetch(location: &str, trust: &Trust, size_max: usize) -> Result<Zeroizing<Vec<u8>>, String> {
    let terms = Terms {
        trust,
        size_max,
        limit: LIMIT,
        uses_proxies: true,
    };
    fetch_on(location, &terms)
}

fn fetch_on(location: &str, terms: &Terms<'_>) -> Result<Zeroizing<Vec<u8>>, String> {
    let refuse = |why: &str| format!("Failed to fetch the key from '{}': {why}", shown(location));
    let place: Uri = location.parse().map_err(|_| refuse("it is no address"))?;
    let limit = terms.limit;
    let tls = match config_of(terms.trust, true) {
        // Without TLS no server is trusted.
        Err(_) if location.starts_with("http://") => config_of(&Trust::default(), false),
        config => config,
    };
    let client = Client::new(Setup {
        tls: tls.map_err(|error| refuse(&error))?,
        uses_proxies: terms.uses_proxies,
        connecting: CONNECTING.min(limit),
        unacknowledged: limit,
    });
    let fetched = wait(limit, fetch_from(&client, place, terms.size_max));
    let fetched = fetched.map_err(|error| refuse(&error.to_string()))?;
    let fetched = fetched.ok_or_else(|| {
        let seconds = limit.as_secs();
        refuse(&format!(
            "the server did not answer within {seconds} seconds"
        ))
    });
    fetched?.map_err(|error| refuse(&error))
}

async fn fetch_from(
    client: &Client,
    mut place: Uri,
    size_max: usize,
) -> Result<Zeroizing<Vec<u8>>, String> {
    for _ in 0..=REDIRECTIONS_MAX {
        let mut request = Request::get(&place);
        if let Some(user) = basic_auth(&place) {
            request = request.header(AUTHORIZATION, user);
        }
        let request = request.body(Payload::default());
        let request = request.map_err(|error| error.to_string())?;
        let answer = client
            .send(request)
            .await
            .map_err(|error| error.to_string())?;
        match answer.status() {
            StatusCode::OK => {
                let read = body(answer, size_max).await;
                return read.map_err(|error| error.to_string());
            }
            status if status.is_redirection() => place = next(&place, &answer)?,
            status => return Err(format!("the server answered '{status}'")),
        }
    }
    Err("there are too many redirections".to_owned())
}

/// Where an answer says that the key is.
fn next(place: &Uri, answer: &Answer) -> Result<Uri, String> {
    let status = answer.status();
    let told = answer.headers().get(LOCATION);
    let told = told.and_then(|told| told.to_str().ok());
    let Some(told) = told else {
        return Err(format!("the server answered '{status}' without an address"));
    };
    let scheme = place.scheme_str().unwrap_or_default();
    let absolute = match (
        is_address(told),
        told.starts_with("//"),
        told.starts_with('/'),
    ) {
        (true, _, _) => told.to_owned(),
        (_, true, _) => format!("{scheme}:{told}"),
        (_, _, true) => {
            let authority = place.authority().map(|authority| authority.as_str());
            format!("{scheme}://{}{told}", authority.unwrap_or_default())
        }
        _ => return Err(format!("the server redirects to '{told}'")),
    };
    let next: Uri = absolute
        .parse()
        .map_err(|_| format!("the server redirects to '{told}'"))?;
    match (scheme, next.scheme_str()) {
        ("https", Some("http")) => Err("the server redirects to an address without TLS".to_owned()),
        _ => Ok(next),
    }
}

async fn body(mut answer: Answer, size_max: usize) -> Result<Zeroizing<Vec<u8>>, HttpError> {
    // Never grown: what a vector leaves behind when it grows is not wiped.
    let mut bytes = Zeroizing::new(Vec::with_capacity(size_max));
    while bytes.len() < size_max
        && let Some(piece) = answer.piece().await?
    {
        let taken = piece.len().min(size_max - bytes.len());
        bytes.extend_from_slice(&piece[..taken]);
    }
    Ok(bytes)
}

/// An address without the user's name and password.
fn shown(location: &str) -> String {
    let Some((scheme, rest)) = location.split_once("://") else {
        return location.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    /// A server that answers by path; its threads end with the process.
    fn serve() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            for mut line in listener.incoming().flatten() {
                let mut asked = String::new();
                let mut reader = BufReader::new(line.try_clone().expect("a copy"));
                let _ = reader.read_line(&mut asked);
                let answer = match asked.split(' ').nth(1).unwrap_or_default() {
                    "/key" => "200 OK\r\ncontent-length: 14\r\n\r\ncorrect horse\n".to_owned(),
                    "/moved" => {
                        "302 Found\r\nlocation: /key\r\ncontent-length: 0\r\n\r\n".to_owned()
                    }
                    "/circle" => {
                        "301 Moved\r\nlocation: /circle\r\ncontent-length: 0\r\n\r\n".to_owned()
                    }
                    "/endless" => format!("200 OK\r\n\r\n{}", "x".repeat(1 << 20)),
                    "/silent" => {
                        std::thread::sleep(Duration::from_secs(60));
                        continue;
                    }
                    _ => "404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
                };
                let _ = line.write_all(format!("HTTP/1.1 {answer}").as_bytes());
            }
        });
        format!("http://user:pass@{address}")
    }

    #[test]
    fn keys_come_from_servers_in_bounded_size_and_time() {
        let server = serve();
        let terms = Terms {
            trust: &Trust::default(),
            size_max: 20,
            limit: Duration::from_millis(500),
            uses_proxies: false,
        };
        let get = |path: &str| fetch_on(&format!("{server}{path}"), &terms);
        for path in ["/key", "/moved"] {
            assert_eq!(*get(path).expect("a key"), b"correct horse\n", "{path}");
        }
        assert_eq!(get("/endless").expect("a beginning").len(), 20);
        for (path, why) in [
            ("/none", "404"),
            ("/circle", "too many redirections"),
            ("/silent", "did not answer"),
        ] {
            let error = get(path).expect_err("refused");
            assert!(error.contains(why) && !error.contains("pass@"), "{error}");
        }
        let error = fetch_on("http://127.0.0.1:1/key", &terms).expect_err("refused");
        assert!(error.contains("no connection"), "{error}");
    }
}
