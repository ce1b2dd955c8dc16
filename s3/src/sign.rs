//! Signatures of requests: Amazon's version 4, in the header `Authorization`.
//!
//! What is signed is a text, the *canonical request*:
//!
//! ```text
//! METHOD \n PATH \n QUERY \n NAME:VALUE\n for each header \n NAMES \n SHA-256 of the body
//! ```
//!
//! Path and query are escaped once, as they are sent; parameters and headers are sorted. The hash
//! of that text, the time and the *scope* (day, region, service) are signed with a key that is
//! derived from the secret and the scope. The hash of the body travels, too, so the store refuses
//! what was damaged on the way.
//!
//! All headers are signed that the request has by then, conditions and ranges among them.
//!
//! Not here: signatures in addresses, bodies in signed pieces, services other than S3.

use hmac::{Hmac, KeyInit, Mac};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderName};
use http::{HeaderMap, HeaderValue, Request, Uri};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::fmt::{self, Write};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const HASH: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Keys with which no request can be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the keys or the region have characters in them that cannot be sent")]
pub struct UnfitKeys;

/// What requests are signed with.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// Names the key.
    pub key_id: String,
    /// The key.
    pub secret_key: String,
    /// Belongs to keys that are good for a while only.
    pub token: Option<String>,
}

impl fmt::Debug for Credential {
    /// Without what is secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Credential");
        shown.field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// What a signature is made of, beside the request.
#[derive(Clone, Copy, Debug)]
pub struct Signer<'a> {
    /// The key.
    pub credential: &'a Credential,
    /// The region of the bucket.
    pub region: &'a str,
    /// When it is signed.
    pub now: Timestamp,
}

impl Signer<'_> {
    /// Signs a request, which has all its headers but for those that HTTP itself needs.
    ///
    /// # Errors
    /// A key that fits into no header.
    pub fn sign<Body: AsRef<[u8]>>(&self, request: &mut Request<Body>) -> Result<(), UnfitKeys> {
        let hash = hex(&Sha256::digest(request.body()));
        let time = self.now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let scope = format!("{}/{}/s3/aws4_request", &time[..8], self.region);
        let host = host(request.uri());
        let token = self.credential.token.as_deref();
        let headers = request.headers_mut();
        headers.insert(HOST, value(&host)?);
        headers.insert(DATE, value(&time)?);
        headers.insert(HASH, value(&hash)?);
        if let Some(token) = token {
            let mut token = value(token)?;
            token.set_sensitive(true);
            headers.insert(TOKEN, token);
        }
        let (names, lines) = canonical_headers(headers);
        let canonical = format!(
            "{}\n{}\n{}\n{lines}\n{names}\n{hash}",
            request.method(),
            request.uri().path(),
            canonical_query(request.uri()),
        );
        let canonical = hex(&Sha256::digest(canonical));
        let signature = self.signature(&format!("{ALGORITHM}\n{time}\n{scope}\n{canonical}"));
        let key_id = &self.credential.key_id;
        let signed = format!(
            "{ALGORITHM} Credential={key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
        );
        request.headers_mut().insert(AUTHORIZATION, value(&signed)?);
        Ok(())
    }

    fn signature(&self, text: &str) -> String {
        let day = self.now.strftime("%Y%m%d").to_string();
        let first = format!("AWS4{}", self.credential.secret_key);
        let parts = [&*day, self.region, "s3", "aws4_request", text];
        let key = parts.iter().fold(first.into_bytes(), |key, part| {
            let mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length will do");
            mac.chain_update(part).finalize().into_bytes().to_vec()
        });
        hex(&key)
    }
}

/// A header's value; the text is not shown, as it may be a secret.
fn value(text: &str) -> Result<HeaderValue, UnfitKeys> {
    HeaderValue::from_str(text).map_err(|_| UnfitKeys)
}

fn hex(bytes: &[u8]) -> String {
    let digit = |text: &mut String, byte: &u8| write!(text, "{byte:02x}");
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        digit(&mut text, byte).expect("a String takes everything");
    }
    text
}

/// The server's name, as it is sent: with a port only if that is not the usual one.
fn host(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    let usual = if uri.scheme_str() == Some("https") {
        443
    } else {
        80
    };
    match uri.port_u16().filter(|port| *port != usual) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn canonical_query(uri: &Uri) -> String {
    let query = uri.query().unwrap_or_default();
    let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
    let whole = |parameter: &str| match parameter.contains('=') {
        true => parameter.to_owned(),
        false => format!("{parameter}="),
    };
    let mut parameters: Vec<String> = parameters.map(whole).collect();
    // By name, then by value. '=' would sort behind a name that continues with '-' or a digit.
    parameters.sort_unstable_by(|one, other| one.split_once('=').cmp(&other.split_once('=')));
    parameters.join("&")
}

/// The names of all headers, and a line for each of them.
fn canonical_headers(headers: &HeaderMap) -> (String, String) {
    let mut names: Vec<&HeaderName> = headers.keys().collect();
    names.retain(|name| ![AUTHORIZATION, CONTENT_LENGTH].contains(name));
    names.sort_unstable_by_key(|name| name.as_str());
    let mut lines = String::new();
    for name in &names {
        let words = |value: &HeaderValue| {
            let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let values: Vec<String> = headers.get_all(*name).iter().map(words).collect();
        lines += &format!("{name}:{}\n", values.join(","));
    }
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    (names.join(";"), lines)
}

/// Escapes text for a path, in which `/` stays, or for a parameter.
pub fn escaped(text: &str, is_path: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        match is_plain || (is_path && byte == b'/') {
            true => escaped.push(char::from(byte)),
            false => write!(escaped, "%{byte:02X}").expect("a String takes everything"),
        }
    }
    escaped
}

/// Parameters behind the `?` of an address.
pub fn query(parameters: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| format!("{name}={}", escaped(value, false));
    let pairs: Vec<String> = parameters.iter().map(pair).collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [&str; 2] = [
        "AKIAIOSFODNN7EXAMPLE",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ];

    struct Case<'a> {
        key: [&'a str; 2],
        time: &'a str,
        method: &'a str,
        address: &'a str,
        headers: &'a [(&'a str, &'a str)],
        body: &'a str,
        names: &'a str,
        signature: &'a str,
    }

    const GET: Case<'static> = Case {
        key: KEY,
        time: "2013-05-24T00:00:00Z",
        method: "GET",
        address: "https://examplebucket.s3.amazonaws.com/test.txt",
        headers: &[("range", "bytes=0-9")],
        body: "",
        names: "host;range;x-amz-content-sha256;x-amz-date",
        signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    };

    fn signed(case: &Case<'_>, token: Option<&str>) -> Result<Request<String>, UnfitKeys> {
        let mut request = Request::builder().method(case.method).uri(case.address);
        for (name, value) in case.headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(case.body.to_owned()).expect("a request");
        let [key_id, secret_key] = case.key.map(str::to_owned);
        let credential = Credential {
            key_id,
            secret_key,
            token: token.map(str::to_owned),
        };
        let signer = Signer {
            credential: &credential,
            region: "us-east-1",
            now: case.time.parse().expect("a time"),
        };
        signer.sign(&mut request)?;
        Ok(request)
    }

    fn check(case: &Case<'_>) {
        let request = signed(case, None).expect("good keys");
        let day = case.time[..10].replace('-', "");
        let expected = format!(
            "AWS4-HMAC-SHA256 Credential={}/{day}/us-east-1/s3/aws4_request, SignedHeaders={}, \
             Signature={}",
            case.key[0], case.names, case.signature
        );
        assert_eq!(
            request.headers()[AUTHORIZATION],
            *expected,
            "{}",
            case.address
        );
    }

    /// The examples of Amazon's manual ("Authenticating Requests: Using the Authorization
    /// Header"), and one with a port and an empty value.
    #[test]
    fn signatures_are_those_of_the_manual() {
        check(&GET);
        check(&Case {
            method: "PUT",
            address: "https://examplebucket.s3.amazonaws.com/test%24file.text",
            headers: &[
                ("date", "Fri, 24 May 2013 00:00:00 GMT"),
                ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                ("content-length", "21"),
            ],
            body: "Welcome to Amazon S3.",
            names: "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
            signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ..GET
        });
        let names = "host;x-amz-content-sha256;x-amz-date";
        check(&Case {
            address: "https://examplebucket.s3.amazonaws.com/?lifecycle",
            headers: &[],
            names,
            signature: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ..GET
        });
        check(&Case {
            address: "https://examplebucket.s3.amazonaws.com/?prefix=J&max-keys=2",
            headers: &[],
            names,
            signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ..GET
        });
        let search = query(&[
            ("delimiter", "/"),
            ("encoding-type", "url"),
            ("list-type", "2"),
            ("prefix", ""),
        ]);
        check(&Case {
            key: ["H20ABqCkLZID4rLe", "jMqRDgxSsBqqznfmddGdu1TmmZOJQxdM"],
            time: "2022-08-09T13:05:25Z",
            address: &format!("http://localhost:9000/tsm-schemas?{search}"),
            headers: &[],
            names,
            signature: "9ebf2f92872066c99ac94e573b4e1b80f4dbb8a32b1e8e23178318746e7d1b4d",
            ..GET
        });
    }

    #[test]
    fn tokens_are_sent_and_signed() {
        let request = signed(&GET, Some("session")).expect("a token");
        assert_eq!(request.headers()[TOKEN], "session");
        let signed_header = request.headers()[AUTHORIZATION].to_str().expect("ASCII");
        let names =
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date;x-amz-security-token,";
        assert!(signed_header.contains(names), "{signed_header}");
        let error = signed(&GET, Some("hid\nden")).expect_err("two lines");
        assert!(!error.to_string().contains("hid"), "{error}");
    }

    #[test]
    fn what_is_signed_is_what_is_sent() {
        let of = |text: &str| host(&text.parse().expect("an address"));
        assert_eq!(of("https://a.example:443/x"), "a.example");
        assert_eq!(of("http://a.example:443/x"), "a.example:443");
        assert_eq!(of("http://[::1]:80/x"), "[::1]");
        assert_eq!(
            escaped("a b+c%20=&ä/~", true),
            "a%20b%2Bc%2520%3D%26%C3%A4/~"
        );
        assert_eq!(escaped("/", false), "%2F");
        let sorted = canonical_query(&"http://h/?a-b=1&a=2&a1".parse().expect("an address"));
        assert_eq!(sorted, "a=2&a-b=1&a1=");
        let headers = [("if-match", " \"a   b\" "), ("range", "bytes=0-1")];
        let headers = headers.map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        let (names, lines) = canonical_headers(&HeaderMap::from_iter(headers));
        assert_eq!(names, "if-match;range");
        assert_eq!(lines, "if-match:\"a b\"\nrange:bytes=0-1\n");
    }
}
