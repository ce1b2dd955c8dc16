//! A real server of S3 (versitygw) on loopback, and lines to it that lose answers.
//!
//! `tests/peer/s3-dev-server install` installs the server. Where it is not installed, tests that
//! need it say so and pass.
//!
//! `CENOTE_S3_ENDPOINT=http://HOST:PORT` has them use another server, with the bucket
//! `CENOTE_S3_BUCKET` and the keys of the usual variables.

use cenote_cloud::store::s3::{BucketName, BucketStore, Surroundings};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

pub(crate) const KEY: &str = "testaccess";
pub(crate) const SECRET: &str = "testsecret0";
const BUCKET: &str = "pools";

/// Says that a test cannot run here, where `./test` finds it.
pub(crate) fn skip(reason: &str) {
    let thread = std::thread::current();
    let line = format!("skipped {}: {reason}\n", thread.name().unwrap_or("a test"));
    std::io::stderr().write_all(line.as_bytes()).ok();
    if let Some(path) = std::env::var_os("CENOTE_SKIP_LIST") {
        let mut list = std::fs::File::options();
        let list = list.create(true).append(true).open(path);
        list.and_then(|mut list| list.write_all(line.as_bytes()))
            .expect("a list");
    }
}

/// The program of the server, if it is installed.
fn program() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from);
    let own = || Some(set("HOME")?.join(".local/state"));
    let state = || Some(set("XDG_STATE_HOME").or_else(own)?.join("s3-dev"));
    let bin = || Some(set("S3_DEV_DIR").or_else(state)?.join("bin"));
    let path = set("S3_DEV_BIN").or_else(bin)?.join("versitygw");
    path.is_file().then_some(path)
}

/// A program of `tests/peer`.
pub(crate) fn peer(name: &str) -> Option<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = here.join("../tests/peer").join(name);
    path.is_file().then_some(path)
}

/// A port that is free at the moment.
pub(crate) fn free_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound")
}

/// A program that ends with its owner.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The server, which all tests share that run at the same time.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    bucket: String,
    running: Option<(Running, tempfile::TempDir)>,
}

static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Waits until a server listens there.
pub(crate) fn wait_for(address: SocketAddr) {
    let start = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "no server listens"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn start(program: &Path, directory: &Path, address: SocketAddr, options: &[&str]) -> Running {
    std::fs::create_dir_all(directory.join(BUCKET)).expect("a bucket");
    let mut command = Command::new(program);
    command
        .args(["--quiet", "--port", &address.to_string()])
        .args(options)
        .arg("posix")
        .arg(directory)
        .env("ROOT_ACCESS_KEY", KEY)
        .env("ROOT_SECRET_KEY", SECRET)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Running(command.spawn().expect("started"))
}

/// A server that uses TLS, with a certificate of its own.
pub(crate) struct SecureServer {
    pub(crate) port: u16,
    directory: tempfile::TempDir,
    _running: Running,
}

impl SecureServer {
    /// `None` where the server or openssl is not installed.
    pub(crate) fn new() -> Option<Self> {
        let Some(program) = program() else {
            skip("there is no server of S3 (s3-dev-server install)");
            return None;
        };
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name).display().to_string();
        let mut openssl = Command::new("openssl");
        openssl
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
            ])
            .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
            .args(["-addext", "subjectAltName=DNS:localhost"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-keyout", &at("key"), "-out", &at("certificate")])
            .stderr(Stdio::null());
        if !openssl.status().is_ok_and(|status| status.success()) {
            skip("there is no openssl to make a certificate with");
            return None;
        }
        std::fs::create_dir(directory.path().join("data")).expect("made");
        let address = free_port();
        let options = ["--cert", &at("certificate"), "--key", &at("key")];
        let running = start(&program, &directory.path().join("data"), address, &options);
        wait_for(address);
        Some(Self {
            port: address.port(),
            directory,
            _running: running,
        })
    }

    pub(crate) fn certificate(&self) -> String {
        self.directory
            .path()
            .join("certificate")
            .display()
            .to_string()
    }
}

/// A server of a test's own, which it can stop and start again.
pub(crate) struct OwnServer {
    program: PathBuf,
    directory: tempfile::TempDir,
    address: SocketAddr,
    running: Option<Running>,
}

impl OwnServer {
    /// A server that ends each connection after one answer; `None` where it is not installed.
    pub(crate) fn new() -> Option<Self> {
        let Some(program) = program() else {
            skip("there is no server of S3 (s3-dev-server install)");
            return None;
        };
        let mut server = Self {
            program,
            directory: tempfile::tempdir().expect("a directory"),
            address: free_port(),
            running: None,
        };
        server.start();
        Some(server)
    }

    pub(crate) fn start(&mut self) {
        let Self {
            program,
            directory,
            address,
            ..
        } = &*self;
        self.running = Some(start(program, directory.path(), *address, &[]));
        wait_for(self.address);
    }

    pub(crate) fn stop(&mut self) {
        self.running = None;
    }

    pub(crate) fn named(&self) -> BucketName {
        let mut name = BucketName::parse(BUCKET).expect("a name");
        name.endpoint = Some(format!("http://{}", self.address));
        name
    }
}

impl Server {
    /// The server, started if it does not run; `None` where it is not installed.
    pub(crate) fn get() -> Option<Arc<Self>> {
        if let Ok(endpoint) = std::env::var("CENOTE_S3_ENDPOINT") {
            let host = endpoint.strip_prefix("http://").expect("http://HOST:PORT");
            let bucket = std::env::var("CENOTE_S3_BUCKET");
            return Some(Arc::new(Self {
                address: host.parse().expect("an address"),
                bucket: bucket.expect("a bucket"),
                running: None,
            }));
        }
        let Some(program) = program() else {
            skip("there is no server of S3 (s3-dev-server install)");
            return None;
        };
        let mut shared = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return Some(server);
        }
        let directory = tempfile::tempdir().expect("a directory");
        let address = free_port();
        let running = start(&program, directory.path(), address, &["--keep-alive"]);
        let server = Arc::new(Self {
            address,
            bucket: BUCKET.into(),
            running: Some((running, directory)),
        });
        wait_for(address);
        *shared = Arc::downgrade(&server);
        Some(server)
    }

    /// The name of a store that is unused so far.
    pub(crate) fn fresh(&self) -> BucketName {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let run = std::process::id();
        self.named(&format!("{}/test/{run}/{number}", self.bucket))
    }

    /// Where the server has a store's objects as files, if it is our own.
    pub(crate) fn directory(&self, name: &BucketName) -> Option<PathBuf> {
        let (_, directory) = self.running.as_ref()?;
        Some(directory.path().join(BUCKET).join(&name.prefix))
    }

    /// The whole bucket.
    pub(crate) fn whole(&self) -> BucketName {
        self.named(&self.bucket)
    }

    pub(crate) fn named(&self, place: &str) -> BucketName {
        let mut name = BucketName::parse(place).expect("a name");
        name.endpoint = Some(format!("http://{}", self.address));
        name
    }
}

/// Variables with keys that the server knows.
pub(crate) fn keys() -> Surroundings {
    let is_other = std::env::var_os("CENOTE_S3_ENDPOINT").is_some();
    let set = |name: &str, usual: &str| match is_other {
        true => std::env::var(name).expect("keys of the other server"),
        false => usual.into(),
    };
    let [id, secret] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    Surroundings::of_variables([
        (id.to_owned(), set(id, KEY)),
        (secret.to_owned(), set(secret, SECRET)),
    ])
}

pub(crate) fn store(name: &BucketName) -> Arc<BucketStore> {
    Arc::new(BucketStore::new(name, &keys()).expect("a description"))
}

/// A line that loses answers: the server carries requests out, but the client gets no answer.
pub(crate) struct LosingLine {
    pub(crate) address: SocketAddr,
    pub(crate) lost: Arc<AtomicU64>,
}

impl LosingLine {
    /// Loses one of so many answers. Its threads end with the test.
    pub(crate) fn new(to: SocketAddr, one_of: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let lost = Arc::new(AtomicU64::new(0));
        let (counter, answers) = (Arc::clone(&lost), Arc::new(AtomicU64::new(1)));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(to)) else {
                    return;
                };
                let (counter, answers) = (Arc::clone(&counter), Arc::clone(&answers));
                let pair = (client.try_clone(), server.try_clone());
                let (Ok(client_side), Ok(server_side)) = pair else {
                    return;
                };
                std::thread::spawn(move || pass(client_side, server_side, || false));
                std::thread::spawn(move || {
                    pass(server, client, || {
                        let number = answers.fetch_add(1, Ordering::Relaxed);
                        let is_lost = number.is_multiple_of(one_of);
                        counter.fetch_add(u64::from(is_lost), Ordering::Relaxed);
                        is_lost
                    });
                });
            }
        });
        Self { address, lost }
    }
}

/// Hands bytes on until one side ends, or a piece is lost.
fn pass(mut from: TcpStream, mut to: TcpStream, is_lost: impl Fn() -> bool) {
    let mut piece = [0; 16 << 10];
    while let Ok(length) = from.read(&mut piece) {
        if length == 0 || is_lost() || to.write_all(&piece[..length]).is_err() {
            break;
        }
    }
    from.shutdown(Shutdown::Both).ok();
    to.shutdown(Shutdown::Both).ok();
}
