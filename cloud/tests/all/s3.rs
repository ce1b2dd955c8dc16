//! A bucket as a store, and devices in it: with a real server, and with one that says what a test
//! wants.

use crate::fake::{Answered, Asked, FakeServer};
use crate::server::{KEY, LosingLine, SECRET, SecureServer, Server, keys, store};
use crate::stores::{body, client, keeps_the_contract};
use cenote_base::{Env, RealEnv};
use cenote_cloud::store::s3::{BucketName, BucketStore, Surroundings};
use cenote_cloud::store::{Answer, Client, Put, Rates, Request, RequestKind, Store, StoreError};
use cenote_cloud::{CloudDevice, CloudError, Options};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn real_client(store: Arc<dyn Store>) -> Client {
    client(store, Arc::new(RealEnv::new()))
}

#[test]
fn a_bucket_is_a_store() {
    let Some(server) = Server::get() else { return };
    keeps_the_contract(&real_client(store(&server.fresh())));
    // A whole bucket, and names that have to be escaped.
    let whole = real_client(store(&server.whole()));
    assert!(whole.get("device").expect("answers").is_none());
    let mut odd = server.fresh();
    odd.prefix += "/a b+c%20=&ä";
    keeps_the_contract(&real_client(store(&odd)));
}

#[test]
fn what_is_refused_is_not_missing() {
    let Some(server) = Server::get() else { return };
    let now = |name: &BucketName, surroundings: &Surroundings| {
        let store = BucketStore::new(name, surroundings).expect("a description");
        let client = real_client(Arc::new(store));
        client.set_patience(Some(Duration::ZERO));
        let errors = [
            client.get("device").expect_err("refused"),
            client.head("device").expect_err("refused"),
            client.list("", None, 10).expect_err("refused"),
            client
                .put_new(vec![("device".into(), body("x"))])
                .expect_err("refused"),
        ];
        (errors, client.statistics().health())
    };
    let (errors, health) = now(&server.named("nowhere/x"), &keys());
    for error in errors {
        assert!(matches!(error, StoreError::Other(_)), "{error}");
    }
    assert!(!health.is_denied && health.failing_since.is_some());
    let wrong = Surroundings::of_variables([
        ("AWS_ACCESS_KEY_ID", "testaccess"),
        ("AWS_SECRET_ACCESS_KEY", "hidden"),
    ]);
    let (errors, health) = now(&server.fresh(), &wrong);
    for error in errors {
        assert!(matches!(error, StoreError::Denied(_)), "{error}");
        assert!(!format!("{error} {error:?}").contains("hidden"));
    }
    assert!(health.is_denied);
}

#[test]
fn answers_that_are_lost_are_found_out() {
    let Some(server) = Server::get() else { return };
    let line = LosingLine::new(server.address, 7);
    let mut name = server.fresh();
    name.endpoint = Some(format!("http://{}", line.address));
    let client = real_client(store(&name));
    for number in 0..12 {
        let objects = (0..4).map(|at| (format!("k/{number}-{at}"), body("bytes")));
        let put = client.put_new(objects.collect());
        assert_eq!(put, Ok(vec![Put::Done; 4]), "number {number}");
    }
    assert_eq!(client.list("k/", None, 100).expect("answers").len(), 48);
    let other = client.put_new(vec![("k/0-0".into(), body("other"))]);
    assert_eq!(other, Ok(vec![Put::Taken(body("bytes"))]));
    assert!(line.lost.load(Ordering::Relaxed) > 3);
    assert!(client.statistics().of(RequestKind::Put).transient > 3);
}

#[test]
fn only_those_who_are_trusted_are_asked() {
    let Some(server) = SecureServer::new() else {
        return;
    };
    let mut name = BucketName::parse("pools/secure").expect("a name");
    name.endpoint = Some(format!("https://localhost:{}", server.port));
    let of = |bundle: Option<&str>| {
        let variables = [
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_CA_BUNDLE", bundle.unwrap_or("")),
        ];
        let surroundings = Surroundings::of_variables(variables);
        let store = BucketStore::new(&name, &surroundings).expect("a description");
        let client = real_client(Arc::new(store));
        client.set_patience(Some(Duration::ZERO));
        client.put_new(vec![("device".into(), body("x"))])
    };
    let certificate = server.certificate();
    assert_eq!(of(Some(&certificate)), Ok(vec![Put::Done]));
    let error = of(None).expect_err("unknown to the system");
    assert!(matches!(error, StoreError::Transient(_)), "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
}

/// A store on a made-up server.
fn on(fake: &FakeServer) -> Arc<BucketStore> {
    let mut name = BucketName::parse("bucket/x").expect("a name");
    name.endpoint = Some(format!("http://{}", fake.address));
    store(&name)
}

fn one(store: &BucketStore, request: Request) -> StoreError {
    let answer = store.run(&[request]).pop().expect("an answer");
    answer.expect_err("refused")
}

fn get(range: Option<std::ops::Range<u64>>) -> Request {
    let key = "k".into();
    Request::Get { key, range }
}

/// Keeps objects as servers do that ignore conditions.
fn overwriting() -> impl Fn(&Asked) -> Answered + Send + Sync {
    let objects = Mutex::new(HashMap::new());
    move |asked| {
        let mut objects = objects.lock().expect("no panic");
        let found: Option<Vec<u8>> = objects.get(&asked.path).cloned();
        match (&*asked.method, found) {
            ("PUT", _) => {
                objects.insert(asked.path.clone(), asked.body.clone());
                Answered {
                    status: 200,
                    headers: vec![("server", "rclone/v1.75".into()), ("etag", "\"1\"".into())],
                    body: Vec::new(),
                }
            }
            ("GET", Some(body)) => Answered {
                status: 200,
                headers: vec![("etag", "\"1\"".into())],
                body,
            },
            ("DELETE", _) => Answered {
                status: 204,
                ..Answered::default()
            },
            _ => Answered::error(404, "NoSuchKey"),
        }
    }
}

#[test]
fn stores_without_conditions_are_refused_by_name() {
    let env: Arc<dyn Env> = Arc::new(RealEnv::new());
    let fake = FakeServer::new(overwriting());
    let options = Options::default();
    let refused = CloudDevice::create(on(&fake), 1 << 30, &options, &env);
    let Err(error @ CloudError::NoConditions { .. }) = refused else {
        panic!("{refused:?}");
    };
    let expected = format!(
        "s3://bucket/x?endpoint=http://{} (rclone/v1.75): puts",
        fake.address
    );
    assert!(error.to_string().starts_with(&expected), "{error}");
    let asked = fake.asked.lock().expect("no panic").clone();
    let puts = asked.iter().filter(|asked| asked.method == "PUT");
    let conditional = puts.filter(|put| put.headers.get("if-none-match").is_some_and(|c| c == "*"));
    assert_eq!(conditional.count(), 16, "eight pairs race");

    let honest = FakeServer::new(|_| Answered::error(501, "NotImplemented"));
    let refused = CloudDevice::create(on(&honest), 1 << 30, &options, &env);
    assert!(
        matches!(refused, Err(CloudError::NoConditions { .. })),
        "{refused:?}"
    );

    // Where there is a device already, it is tried with that.
    let client = Client::new(on(&fake), env.clone(), Rates::default());
    assert_eq!(client.keeps_name("device", &body("x")), Ok(false));
}

#[test]
fn refusals_are_what_they_are() {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let cases = [
        (403, "RequestTimeTooSkewed"),
        (400, "ExpiredToken"),
        (503, "SlowDown"),
        (307, "TemporaryRedirect"),
        (409, "ConditionalRequestConflict"),
    ];
    let next = Arc::new(AtomicU64::new(0));
    let number = Arc::clone(&next);
    let fake = FakeServer::new(move |_| {
        let (status, code) = cases[number.load(Ordering::Relaxed) as usize];
        Answered {
            headers: vec![
                ("date", date.into()),
                ("location", "http://127.0.0.1:1/".into()),
                ("x-amz-bucket-region", "far-1".into()),
            ],
            ..Answered::error(status, code)
        }
    });
    let store = on(&fake);
    let error = |index, request| {
        next.store(index, Ordering::Relaxed);
        one(&store, request)
    };
    let StoreError::Skewed { ahead } = error(0, get(None)) else {
        panic!("not skewed");
    };
    assert!(ahead < -900_000_000, "thirty years behind: {ahead}");
    assert!(matches!(error(1, get(None)), StoreError::Expired(_)));
    assert!(matches!(error(2, get(None)), StoreError::Busy(_)));
    let elsewhere = error(3, get(None)).to_string();
    assert!(elsewhere.contains("region=far-1"), "{elsewhere}");
    let put = |condition| Request::Put {
        key: "k".into(),
        body: body("x"),
        condition,
    };
    use cenote_cloud::store::{Condition, Tag};
    let taken = error(4, put(Condition::Absent));
    assert_eq!(taken, StoreError::Precondition, "the client reads the name");
    let busy = error(4, put(Condition::Matches(Tag("\"1\"".into()))));
    assert!(matches!(busy, StoreError::Transient(_)), "{busy}");
}

#[test]
fn roles_and_files_have_keys() {
    let machine = FakeServer::new(|asked| {
        let body = match (&*asked.method, &*asked.path) {
            ("PUT", "/latest/api/token") => "a-token",
            ("GET", "/latest/meta-data/iam/security-credentials/") => "a-role",
            ("GET", "/latest/meta-data/iam/security-credentials/a-role") => {
                r#"{"AccessKeyId": "OFROLE", "SecretAccessKey": "hidden", "Token": "session",
                    "Expiration": "2099-01-01T00:00:00Z"}"#
            }
            _ => return Answered::error(404, "NoSuchKey"),
        };
        Answered {
            status: 200,
            headers: Vec::new(),
            body: body.into(),
        }
    });
    let server = FakeServer::new(|_| Answered::error(404, "NoSuchKey"));
    let mut name = BucketName::parse("bucket/x").expect("a name");
    name.endpoint = Some(format!("http://{}", server.address));
    let home = tempfile::tempdir().expect("a directory");
    let variables = [
        ("HOME".to_owned(), home.path().display().to_string()),
        (
            "AWS_EC2_METADATA_SERVICE_ENDPOINT".to_owned(),
            format!("http://{}", machine.address),
        ),
    ];
    let ask = || {
        let surroundings = Surroundings::of_variables(variables.clone());
        let store = BucketStore::new(&name, &surroundings).expect("a description");
        assert_eq!(one(&store, get(None)), StoreError::NotFound);
        let asked = server
            .asked
            .lock()
            .expect("no panic")
            .pop()
            .expect("a request");
        let token = asked.headers.get("x-amz-security-token").cloned();
        (asked.headers["authorization"].clone(), token)
    };
    let (signed, token) = ask();
    assert!(signed.contains("Credential=OFROLE/"), "{signed}");
    assert_eq!(token.as_deref(), Some("session"));

    let aws = home.path().join(".aws");
    std::fs::create_dir(&aws).expect("made");
    let keys = "[default]\naws_access_key_id = OFFILE\naws_secret_access_key = hidden\n";
    std::fs::write(aws.join("credentials"), keys).expect("room");
    std::fs::write(aws.join("config"), "[default]\nregion = far-1\n").expect("room");
    let (signed, token) = ask();
    assert!(signed.contains("Credential=OFFILE/"), "{signed}");
    assert!(signed.contains("/far-1/s3/aws4_request"), "{signed}");
    assert_eq!(token, None);
}

/// Hands keys out for a token, as machines and as Amazon do.
fn provider_of_keys() -> FakeServer {
    let expiration = "2099-01-01T00:00:00Z";
    FakeServer::new(move |asked| {
        let path = &*asked.path;
        let body = match (&*asked.method, asked.headers.get("authorization")) {
            ("GET", Some(token)) if path == "/v1/credentials" && token == "a token" => format!(
                r#"{{"AccessKeyId": "OFPOD", "SecretAccessKey": "hidden", "Token": "pod's",
                     "Expiration": "{expiration}"}}"#
            ),
            ("POST", None) => format!(
                "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/\">\
                 <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>OFTOKEN</AccessKeyId>\
                 <SecretAccessKey>hidden</SecretAccessKey><SessionToken>a&amp;b</SessionToken>\
                 <Expiration>{expiration}</Expiration></Credentials>\
                 </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
            ),
            _ => return Answered::error(403, "AccessDenied"),
        };
        Answered {
            status: 200,
            headers: Vec::new(),
            body: body.into(),
        }
    })
}

/// Pods get their keys for a token that they find in a file: from their machine, or from Amazon.
#[test]
fn pods_have_keys() {
    let provider = provider_of_keys();
    let server = FakeServer::new(|_| Answered::error(404, "NoSuchKey"));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "a token\n").expect("room");
    let file = file.path().to_str().expect("text");
    let mut name = BucketName::parse("bucket/x").expect("a name");
    name.endpoint = Some(format!("http://{}", server.address));
    let ask = |variables: &[(&str, String)]| {
        let variables = variables.iter().map(|(name, value)| (*name, &**value));
        let surroundings = Surroundings::of_variables(variables);
        let store = BucketStore::new(&name, &surroundings).expect("a description");
        for _ in 0..2 {
            assert_eq!(one(&store, get(None)), StoreError::NotFound);
        }
        let asked = server.asked.lock().expect("no panic").pop();
        let headers = asked.expect("a request").headers;
        (
            headers["authorization"].clone(),
            headers["x-amz-security-token"].clone(),
        )
    };
    let (signed, token) = ask(&[
        (
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            format!("http://{}/v1/credentials", provider.address),
        ),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file.into()),
    ]);
    assert!(signed.contains("Credential=OFPOD/"), "{signed}");
    assert!(signed.contains(";x-amz-security-token,"), "{signed}");
    assert_eq!(token, "pod's");
    let (signed, token) = ask(&[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", file.into()),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r".into()),
        (
            "AWS_ENDPOINT_URL_STS",
            format!("http://{}", provider.address),
        ),
    ]);
    assert!(signed.contains("Credential=OFTOKEN/"), "{signed}");
    assert_eq!(token, "a&b");
    let asked = provider.asked.lock().expect("no panic");
    assert_eq!(asked.len(), 2, "keys are kept");
    assert_eq!(
        asked[1].path,
        "/?Action=AssumeRoleWithWebIdentity&DurationSeconds=3600&\
         RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=WebIdentitySession&\
         Version=2011-06-15&WebIdentityToken=a%20token"
    );
}

/// A list that comes in pages, with names that are escaped, and what is no list.
#[test]
fn lists_come_in_pages() {
    let page = |key: &str, next: &str| {
        format!(
            "<?xml version=\"1.0\"?><ListBucketResult><Contents><Key>x/{key}</Key><Size>3</Size>\
             <LastModified>2024-01-02T03:04:05.000Z</LastModified><ETag>&quot;e&quot;</ETag>\
             <StorageClass>STANDARD</StorageClass></Contents>{next}</ListBucketResult>"
        )
    };
    let fake = FakeServer::new(move |asked| Answered {
        status: 200,
        headers: Vec::new(),
        body: match asked.path.contains("continuation-token=a%2F%2B") {
            true => page("d/b &amp; c", "").into(),
            false => page("d/a", "<NextContinuationToken>a/+</NextContinuationToken>").into(),
        },
    });
    let list = |store: &BucketStore| {
        let request = Request::List {
            prefix: "d/".into(),
            after: Some("d/0".into()),
            limit: 10,
        };
        store.run(&[request]).pop().expect("an answer")
    };
    let Ok(Answer::List(found)) = list(&on(&fake)) else {
        panic!("no list");
    };
    let keys: Vec<&str> = found.iter().map(|meta| &*meta.key).collect();
    assert_eq!(keys, ["d/a", "d/b & c"]);
    assert_eq!((found[0].length, found[0].modified), (3, 1_704_164_645));
    let asked = fake.asked.lock().expect("no panic");
    assert_eq!(
        asked[0].path,
        "/bucket?list-type=2&max-keys=10&prefix=x%2Fd%2F&start-after=x%2Fd%2F0"
    );
    // What a gate of a network shows instead of the store is no empty list.
    let gate = FakeServer::new(|_| Answered {
        status: 200,
        headers: Vec::new(),
        body: "<html><body>Sign in</body></html>".into(),
    });
    let error = list(&on(&gate)).expect_err("no list");
    assert!(matches!(error, StoreError::Unclear(_)), "{error}");
}

fn names(store: &dyn Store, prefix: &str, limit: usize) -> Result<Vec<String>, StoreError> {
    let request = Request::List {
        prefix: prefix.into(),
        after: None,
        limit,
    };
    match store.run(&[request]).pop().expect("an answer")? {
        Answer::List(found) => Ok(found.into_iter().map(|meta| meta.key).collect()),
        other => panic!("{other:?}"),
    }
}

/// Regression: a list ended at the first page without names, though it said how to continue, and
/// whether a page was the last was not read. So objects that were there were not listed.
#[test]
fn a_list_ends_where_it_says() {
    let object = "<Contents><Key>x/a</Key><Size>3</Size>\
                  <LastModified>2024-01-02T03:04:05.000Z</LastModified></Contents>";
    let page = |is_cut: bool, inside: &str, next: &str| {
        format!(
            "<ListBucketResult><IsTruncated>{is_cut}</IsTruncated>{inside}\
             <NextContinuationToken>{next}</NextContinuationToken></ListBucketResult>"
        )
    };
    let listed = |pages: Vec<String>| {
        let next = AtomicU64::new(0);
        let fake = FakeServer::new(move |_| {
            let number = next.fetch_add(1, Ordering::Relaxed) as usize;
            Answered {
                status: 200,
                headers: Vec::new(),
                body: pages[number.min(pages.len() - 1)].clone().into(),
            }
        });
        names(&*on(&fake), "", 10)
    };
    let (first, second) = (page(true, "", "1"), page(true, "", "2"));
    let found = listed(vec![first.clone(), second, page(false, object, "")]);
    assert_eq!(found, Ok(vec!["a".to_owned()]), "behind two empty pages");
    let unclear = |pages: Vec<String>, expected: &str| {
        let error = listed(pages).expect_err("no list");
        assert!(matches!(error, StoreError::Unclear(_)), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    unclear(vec![page(true, object, "")], "not the last page");
    unclear(vec![first.clone(), page(true, "", "")], "not the last page");
    unclear(vec![first.clone()], "has no end");
    unclear(vec![first, "<html/>".into()], "no list of a bucket");
    unclear(vec!["<ListBucketResult>".into()], "cannot be read");
}

/// Three pages of a real server.
#[test]
fn long_lists_are_whole() {
    let Some(server) = Server::get() else { return };
    let name = server.fresh();
    let store = store(&name);
    let expected: Vec<String> = (0..2100).map(|number| format!("d/{number:05}")).collect();
    let client = real_client(store.clone());
    let (last, others) = expected.split_last().expect("there is one");
    let put = client.put_new(vec![(last.clone(), body("x"))]);
    assert_eq!(put, Ok(vec![Put::Done]));
    match server.directory(&name) {
        // Each put waits for the disk.
        Some(directory) => others.iter().for_each(|key| {
            std::fs::write(directory.join(key), "x").expect("room");
        }),
        None => {
            let objects = others.iter().map(|key| (key.clone(), body("x")));
            client.put_new(objects.collect()).expect("answers");
        }
    }
    assert_eq!(names(&*store, "d/", 5000).as_ref(), Ok(&expected));
    assert_eq!(names(&*store, "", 5000).as_ref(), Ok(&expected));
    let some = names(&*store, "d/", 1500).expect("answers");
    assert_eq!(some, expected[..1500]);
    // From a name on that is none.
    let rest = client.list("", Some("d/0105".into()), 5000);
    let rest = rest.expect("answers").into_iter().map(|meta| meta.key);
    assert_eq!(rest.collect::<Vec<_>>(), expected[1050..]);
}

/// Regression: a proxy passed whole objects on in chunks, without their length, and each was called
/// damaged.
#[test]
fn objects_without_their_length_are_not_damaged() {
    /// What the server says of the length, and where.
    #[derive(Clone, Copy)]
    struct Says {
        head: Option<u64>,
        of_range: bool,
        of_whole: bool,
    }
    let read = |says: Says| {
        let fake = FakeServer::new(move |asked| {
            let is_part = asked.headers.contains_key("range");
            let mut headers = vec![("last-modified", "Sun, 06 Nov 2033 08:49:37 GMT".into())];
            match (&*asked.method, says.head) {
                ("HEAD", Some(length)) => headers.push(("content-length", length.to_string())),
                _ => headers.push(("transfer-encoding", "chunked".into())),
            }
            if is_part && says.of_range {
                headers.push(("content-range", "bytes 0-0/12000".into()));
            } else if !is_part && says.of_whole {
                headers.push(("content-range", "bytes 0-11999/12000".into()));
            }
            Answered {
                status: if is_part { 206 } else { 200 },
                headers,
                body: vec![7; if is_part { 1 } else { 12000 }],
            }
        });
        let store = on(&fake);
        let answer = store.run(&[get(None)]).pop().expect("an answer");
        let asked = fake.asked.lock().expect("no panic").len();
        answer.map(|answer| match answer {
            Answer::Get(bytes, _) => (bytes.len(), asked),
            other => panic!("{other:?}"),
        })
    };
    let says = |head, of_range, of_whole| Says {
        head,
        of_range,
        of_whole,
    };
    assert_eq!(read(says(Some(12000), false, false)), Ok((12000, 2)));
    assert_eq!(read(says(None, true, false)), Ok((12000, 3)));
    assert_eq!(read(says(None, false, true)), Ok((12000, 1)));
    for other in [says(None, false, false), says(Some(13000), false, false)] {
        let error = read(other).expect_err("nothing says that it is whole");
        assert!(matches!(error, StoreError::Unclear(_)), "{error}");
        assert!(error.to_string().contains("had no length"), "{error}");
    }
    // It is bounded all the same.
    let endless = FakeServer::new(|_| Answered {
        status: 200,
        headers: vec![("transfer-encoding", "chunked".into())],
        body: vec![0; (80 << 20) + 1],
    });
    let error = one(&on(&endless), get(None));
    assert!(error.to_string().contains("longer than"), "{error}");
}

#[test]
fn answers_that_cannot_be_are_refused() {
    let fake = FakeServer::new(|asked| match asked.headers.get("range") {
        // Less than was asked for.
        Some(_) => Answered {
            status: 206,
            headers: vec![("content-range", "bytes 0-1/2".into())],
            body: b"ab".to_vec(),
        },
        None => Answered {
            status: 200,
            headers: vec![("last-modified", "yesterday".into())],
            body: b"ab".to_vec(),
        },
    });
    let store = on(&fake);
    let short = one(&store, get(Some(0..9)));
    assert!(matches!(short, StoreError::Damaged { .. }), "{short}");
    let head = Request::Head { key: "k".into() };
    assert!(matches!(one(&store, head), StoreError::Unclear(_)));
    // More than any object has, whether it comes or not.
    let huge = FakeServer::new(|_| Answered {
        status: 200,
        headers: vec![("content-length", (1_u64 << 40).to_string())],
        body: Vec::new(),
    });
    let error = one(&on(&huge), get(None));
    assert!(error.to_string().contains("longer than"), "{error}");
    let more = FakeServer::new(|_| Answered {
        status: 206,
        headers: vec![("content-range", "bytes 0-1/1000".into())],
        body: vec![0; 1000],
    });
    let error = one(&on(&more), get(Some(0..2)));
    assert!(error.to_string().contains("longer than"), "{error}");
    // Another part than was asked for, and all of it instead of a part.
    for (status, range) in [
        (206, "bytes 1-2/9"),
        (206, "bytes 0-/9"),
        (200, "bytes 0-1/9"),
    ] {
        let other = FakeServer::new(move |_| Answered {
            status,
            headers: vec![("content-range", range.into())],
            body: b"ab".to_vec(),
        });
        let error = one(&on(&other), get(Some(0..2)));
        assert!(
            matches!(error, StoreError::Damaged { .. }),
            "{range}: {error}"
        );
    }
    let cut = FakeServer::new(|_| Answered {
        status: 200,
        headers: vec![
            ("content-length", "100".into()),
            ("connection", "close".into()),
        ],
        body: b"ab".to_vec(),
    });
    let error = one(&on(&cut), get(None));
    assert!(matches!(error, StoreError::Transient(_)), "{error}");
    let outside = Request::Head { key: "../k".into() };
    assert!(matches!(one(&store, outside), StoreError::Other(_)));
    // No server answers at all.
    drop(store);
    let mut name = BucketName::parse("bucket").expect("a name");
    name.endpoint = Some("http://127.0.0.1:1".into());
    let gone = one(&crate::server::store(&name), get(None));
    assert!(matches!(gone, StoreError::Transient(_)), "{gone}");
}
