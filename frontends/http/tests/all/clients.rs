//! Programs that people use: curl and wget, over HTTP/1.1, HTTP/2 and TLS.

use crate::common::{MemoryTree, Served, handler, pattern};
use cenote_http::{
    Address, Bound, DirectoryTree, Handler, Listen, OneTree, Options, Server, TlsFiles,
};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// What a program prints, or `None` if it is not installed.
fn run(program: &str, words: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output();
    match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("not tested: there is no {program}");
            None
        }
        output => {
            let output = output.expect("it runs");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program} {words:?}: {errors}");
            Some(output.stdout)
        }
    }
}

#[test]
fn curl_over_both_protocols() {
    let served = Served::new();
    let bytes = pattern(3 << 20);
    let file = served.tree.put_bytes("f.bin", bytes.clone());
    file.set_cached(1 << 20);
    let url = format!("http://{}/f.bin", served.address);
    for protocol in ["--http1.1", "--http2-prior-knowledge"] {
        let Some(found) = run("curl", &["-sSf", protocol, &url]) else {
            return;
        };
        assert!(found == bytes, "{protocol}");
        let part = run("curl", &["-sSf", protocol, "-r", "5-9", &url]).expect("as before");
        assert_eq!(part, bytes[5..10], "{protocol}");
        let words = [
            "-sS",
            protocol,
            "-o",
            "/dev/null",
            "-w",
            "%{http_version} %{http_code}",
        ];
        let missing = format!("http://{}/none", served.address);
        let told = run("curl", &[&words[..], &[&missing]].concat()).expect("as before");
        let told = String::from_utf8(told).unwrap();
        assert!(told.ends_with(" 404"), "{told}");
        assert_eq!(told.starts_with('2'), protocol.contains("http2"), "{told}");
    }
}

/// HTTP/2 has no `Host` header: pages that depend on the host answered such clients as if they had
/// sent none. Clients of a unix socket may be trusted more than others, so pages get that, too.
#[test]
fn pages_learn_who_asks_for_which_host() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("http");
    let tree = Arc::new(MemoryTree::default());
    let mut bound = Bound::new(None).unwrap();
    let address = bound.add(&Address::parse("127.0.0.1:0").unwrap()).unwrap();
    bound.add_private(&socket).unwrap();
    let _server = bound.serve(handler(&tree, Options::default()), None);
    let (url, socket) = (
        format!("http://{address}/page/client"),
        socket.display().to_string(),
    );
    for protocol in ["--http1.1", "--http2-prior-knowledge"] {
        let words = ["-sSf", "--noproxy", "*", protocol, &url];
        let Some(found) = run("curl", &words) else {
            return;
        };
        let expected = format!("Some(127.0.0.1) to Some(\"{address}\")");
        assert_eq!(String::from_utf8(found).unwrap(), expected, "{protocol}");
        let words = [&words[..], &["--unix-socket", &socket]].concat();
        let found = run("curl", &words).expect("as before");
        let expected = format!("None to Some(\"{address}\")");
        assert_eq!(String::from_utf8(found).unwrap(), expected, "{protocol}");
    }
}

/// Over TLS, for curl 7.88 cannot use a connection twice that it began with prior knowledge.
#[test]
fn many_downloads_on_one_connection() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let Some(files) = certificate(path, "many") else {
        eprintln!("not tested: openssl cannot make certificates");
        return;
    };
    let tree = Arc::new(MemoryTree::default());
    let bytes = pattern(700_000);
    for n in 0..40 {
        let file = tree.put_bytes(&format!("f{n}"), bytes.clone());
        file.set_cached(if n % 2 == 0 { 0 } else { 700_000 });
    }
    let (server, port) = over_tls(&tree, files);
    let (place, ca) = (path.join("f#1"), path.join("cert.pem"));
    let (place, ca) = (place.display().to_string(), ca.display().to_string());
    let urls = format!("https://localhost:{port}/f[0-39]");
    let words = ["--http2", "--parallel", "-o", &place, &urls];
    if curl_over_tls(&ca, &words).is_none() {
        return;
    }
    for n in 0..40 {
        let found = std::fs::read(path.join(format!("f{n}"))).unwrap();
        assert!(found == bytes, "f{n}");
    }
    assert!(server.status().accepted <= 2, "few connections");
}

/// What curl prints that trusts this certificate.
fn curl_over_tls(ca: &str, words: &[&str]) -> Option<Vec<u8>> {
    let common = ["-sSf", "--noproxy", "*", "-4", "--cacert", ca];
    run("curl", &[&common[..], words].concat())
}

/// A server with TLS, and its port.
fn over_tls(tree: &Arc<MemoryTree>, files: TlsFiles) -> (Server, u16) {
    let listen = Listen {
        addresses: vec![Address::parse("tls:127.0.0.1:0").unwrap()],
        tls: Some(files),
    };
    let server = Server::start(listen, handler(tree, Options::default()), None);
    let server = server.expect("it starts");
    let Address::Tcp { address, .. } = server.addresses()[0] else {
        panic!("a port");
    };
    (server, address.port())
}

#[test]
fn wget_resumes_and_mirrors() {
    let served = Served::new();
    let bytes = pattern(1 << 20);
    served.tree.put_bytes("d/f.bin", bytes.clone());
    served.tree.put_bytes("d/sub/a b&c.txt", "x");
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("f.bin");
    std::fs::write(&place, &bytes[..300_000]).unwrap();
    let base = format!("http://{}/d/", served.address);
    let (url, out) = (format!("{base}f.bin"), place.display().to_string());
    if run("wget", &["-q", "-c", "-O", &out, &url]).is_none() {
        return;
    }
    assert!(std::fs::read(&place).unwrap() == bytes);
    let prefix = directory.path().display().to_string();
    let words = [
        "-q",
        "-r",
        "-np",
        "-nH",
        "-R",
        "index.html*",
        "-P",
        &prefix,
        &base,
    ];
    run("wget", &words).expect("as before");
    let found = std::fs::read(directory.path().join("d/sub/a b&c.txt")).unwrap();
    assert_eq!(found, b"x");
}

fn certificate(directory: &Path, name: &str) -> Option<TlsFiles> {
    let words = format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 9 \
         -subj /CN={name} -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem"
    );
    let status = Command::new("openssl")
        .args(words.split_whitespace())
        .current_dir(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let is_made = status.is_ok_and(|status| status.success());
    is_made.then(|| TlsFiles {
        certificate: directory.join("cert.pem"),
        key: directory.join("key.pem"),
    })
}

#[test]
fn curl_over_tls_and_a_certificate_that_is_renewed() {
    let directory = tempfile::tempdir().unwrap();
    let Some(files) = certificate(directory.path(), "first") else {
        eprintln!("not tested: openssl cannot make certificates");
        return;
    };
    let tree = Arc::new(MemoryTree::default());
    let bytes = pattern(2 << 20);
    tree.put_bytes("f", bytes.clone());
    let (server, port) = over_tls(&tree, files.clone());
    let url = format!("https://localhost:{port}/f");
    let ca = directory.path().join("cert.pem").display().to_string();
    let get = |protocol: &str| curl_over_tls(&ca, &[protocol, &url]);
    for protocol in ["--http1.1", "--http2"] {
        match get(protocol) {
            Some(found) => assert!(found == bytes, "{protocol}"),
            None => return,
        }
    }
    std::fs::write(&files.key, "no key").unwrap();
    let error = server
        .reload(Options::default(), Some(files.clone()))
        .expect_err("no key");
    assert!(error.to_string().contains("key.pem"), "{error}");
    assert!(
        get("--http2").expect("as before") == bytes,
        "the old one is kept"
    );
    assert!(certificate(directory.path(), "second").is_some());
    server
        .reload(Options::default(), Some(files))
        .expect("a new one");
    assert!(get("--http2").expect("as before") == bytes);
    assert!(
        server.reload(Options::default(), None).is_err(),
        "TLS needs one"
    );
}

/// Links that lead out of the directory or to hidden names, devices and pipes are not there.
#[test]
fn a_directory_serves_what_is_in_it_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let root = path.join("root");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::write(path.join("outside"), "secret").unwrap();
    std::fs::create_dir_all(root.join(".hid")).unwrap();
    for file in ["sub/f", ".hid/f"] {
        std::fs::write(root.join(file), "inside").unwrap();
    }
    for (link, place) in [
        ("absolute", "/etc/hostname"),
        ("up", "../outside"),
        ("circle", "circle"),
        ("inside", "sub/f"),
        ("around", "sub/../sub/f"),
        ("hidden", ".hid/f"),
        ("sub/hidden", "../.hid"),
    ] {
        std::os::unix::fs::symlink(place, root.join(link)).unwrap();
    }
    let pipe = root.join("pipe").display().to_string();
    run("mkfifo", &[&pipe]);
    let listen = Listen {
        addresses: vec![Address::Unix(path.join("http"))],
        tls: None,
    };
    let tree = DirectoryTree::open(&root).expect("a directory");
    let handler = Handler {
        sites: Arc::new(OneTree(Arc::new(tree))),
        pages: None,
        options: Options::default(),
    };
    let _server = Server::start(listen, handler, None).expect("it starts");
    let get = |name: &str| {
        use std::io::{Read, Write};
        let socket = path.join("http");
        let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
        let request = format!("GET /{name} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for name in ["sub/f", "inside", "around"] {
        assert!(
            get(name).ends_with("\r\n\r\ninside"),
            "{name}: {}",
            get(name)
        );
    }
    let absent = "absolute up circle pipe sub/f/x hidden sub/hidden sub/hidden/f";
    for name in absent.split(' ') {
        assert!(
            get(name).starts_with("HTTP/1.1 404"),
            "{name}: {}",
            get(name)
        );
    }
    let listing = get("");
    assert!(listing.contains("<a href=\"./sub/\">sub/</a>"), "{listing}");
    assert!(!listing.contains("secret"), "{listing}");
}
