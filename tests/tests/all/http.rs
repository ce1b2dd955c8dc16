//! Files of datasets and snapshots served by the daemon over HTTP: to curl, and to sockets that
//! hold downloads open while datasets change below them.

use anyhow::{Context, Result, ensure};
use cenote_tests::missing;
use cenote_tests::patience::wait_until;
use cenote_tests::site::Site;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Larger than what sockets take in: a client that does not read holds such a file open.
const LARGE: usize = 16 << 20;

/// Bytes that do not compress, and differ by seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| next()).collect();
    bytes.truncate(length);
    bytes
}

/// A pool with a file system, and where it is served.
struct Served {
    site: Site,
    socket: PathBuf,
}

/// An answer.
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(own, _)| own.eq_ignore_ascii_case(name));
        found.next().map_or("", |(_, value)| value.trim())
    }
}

impl Served {
    fn new() -> Result<Self> {
        let site = Site::create("single", 512, "-O compression=lz4")?;
        site.ok("zfs create tank/pub")?;
        let socket = site.cenote().directory().join("http");
        let served = Self { site, socket };
        let root = served.path("");
        fs::write(root.join("small"), "hello\n")?;
        fs::write(root.join("large"), noise(1, LARGE))?;
        fs::write(root.join("secret"), "not for you\n")?;
        fs::set_permissions(root.join("secret"), fs::Permissions::from_mode(0o600))?;
        fs::create_dir(root.join("dir"))?;
        fs::write(root.join("dir/file"), vec![b'f'; 5000])?;
        fs::File::create(root.join("dir/sparse"))?.set_len(1 << 20)?;
        symlink("../small", root.join("dir/in"))?;
        symlink("../../../etc/passwd", root.join("dir/out"))?;
        symlink("/etc/passwd", root.join("dir/absolute"))?;
        fs::create_dir(root.join(".hidden"))?;
        fs::write(root.join(".hidden/file"), "hidden\n")?;
        symlink("../.hidden", root.join("dir/hidden"))?;
        symlink("hidden/file", root.join("dir/round"))?;
        symlink("circle", root.join("dir/circle"))?;
        Ok(served)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.site.path("tank/pub").join(name)
    }

    fn start(&self, words: &str) -> Result<String> {
        let socket = self.socket.display();
        self.site
            .ok(&format!("cenote http start --listen unix:{socket} {words}"))
    }

    /// What curl gets, with more options.
    fn get_with(&self, path: &str, options: &[&str]) -> Result<Answer> {
        let url = format!("http://mirror.test{path}");
        let output = Command::new("curl")
            .args([
                "-s",
                "-i",
                "--path-as-is",
                "--max-time",
                "60",
                "--unix-socket",
            ])
            .arg(&self.socket)
            .args(options)
            .arg(&url)
            .output()?;
        ensure!(output.status.success(), "curl {path}: {output:?}");
        let end = output
            .stdout
            .windows(4)
            .position(|four| four == b"\r\n\r\n");
        let end = end.with_context(|| format!("no head for {path}"))?;
        let head = String::from_utf8_lossy(&output.stdout[..end]).into_owned();
        let status = head.split(' ').nth(1).context("a status")?.parse()?;
        let body = output.stdout[end + 4..].to_vec();
        Ok(Answer { status, head, body })
    }

    fn get(&self, path: &str) -> Result<Answer> {
        self.get_with(path, &[])
    }

    fn body(&self, path: &str) -> Result<Vec<u8>> {
        let answer = self.get(path)?;
        ensure!(answer.status == 200, "{path}: {}", answer.head);
        Ok(answer.body)
    }
}

/// A download that is begun and not read on.
struct Download(UnixStream, Vec<u8>);

impl Download {
    fn begin(served: &Served, path: &str) -> Result<Self> {
        let mut stream = UnixStream::connect(&served.socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: m\r\nConnection: close\r\n\r\n"
        )?;
        let mut first = vec![0; 4096];
        stream.read_exact(&mut first)?;
        ensure!(
            first.starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&first)
        );
        Ok(Self(stream, first))
    }

    /// The body, as far as it comes.
    fn rest(mut self) -> Vec<u8> {
        // A server that ends a download cuts the connection.
        let _ = self.0.read_to_end(&mut self.1);
        let end = self.1.windows(4).position(|four| four == b"\r\n\r\n");
        end.map_or_else(Vec::new, |end| self.1.split_off(end + 4))
    }
}

fn files_are_served(served: &Served) -> Result<()> {
    let printed = served.start("tank/pub")?;
    ensure!(printed.starts_with("unix:"), "{printed}");
    ensure!(served.body("/small")? == b"hello\n");
    ensure!(served.body("/dir/in")? == b"hello\n", "a link in the tree");
    ensure!(served.body("/large")? == noise(1, LARGE));
    ensure!(served.body("/dir/sparse")? == vec![0; 1 << 20]);
    let part = served.get_with("/large", &["-r", "1000000-1000999"])?;
    ensure!(part.status == 206 && part.body == noise(1, LARGE)[1_000_000..1_001_000]);
    // What is not on disk yet has no tag that lasts.
    served.site.ok("zpool sync")?;
    let whole = served.get("/small")?;
    let (tag, date) = (whole.header("ETag"), whole.header("Last-Modified"));
    ensure!(tag.starts_with('"') && !date.is_empty(), "{}", whole.head);
    let known = served.get_with("/small", &["-H", &format!("If-None-Match: {tag}")])?;
    ensure!(known.status == 304, "{}", known.head);
    let listing = served.get_with("/dir/", &["-H", "Accept: application/json"])?;
    let entries: serde_json::Value = serde_json::from_slice(&listing.body)?;
    let entries = entries.as_array().context("an array")?;
    let file = entries.iter().find(|entry| entry["name"] == "file");
    let file = file.with_context(|| format!("{entries:?}"))?;
    ensure!(file["type"] == "file" && file["size"] == 5000, "{file}");
    ensure!(
        served.get("/dir")?.status / 100 == 3,
        "to the path with a slash"
    );
    let jobs: serde_json::Value = serde_json::from_slice(&served.body("/status.json")?)?;
    ensure!(
        jobs[0]["name"] == "pub" && jobs[0]["status"] == "syncing",
        "{jobs}"
    );
    Ok(())
}

/// What leads out of the tree, or is not for everybody, is not served.
fn strangers_get_no_more(served: &Served) -> Result<()> {
    for (path, status) in [
        ("/secret", 403),
        ("/dir/out", 404),
        ("/dir/absolute", 404),
        // What `--hidden` hides stays hidden where links lead to it.
        ("/dir/hidden", 404),
        ("/dir/hidden/", 404),
        ("/dir/hidden/file", 404),
        ("/dir/round", 404),
        ("/dir/circle", 404),
        ("/small/", 404),
        ("/nothing", 404),
    ] {
        let answer = served.get(path)?;
        ensure!(answer.status == status, "{path}: {}", answer.head);
    }
    for path in [
        "/../../etc/passwd",
        "/dir/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/dir/..%2f..%2f..%2fetc/passwd",
        "/dir/%00",
        "/.zfs/snapshot/",
    ] {
        let answer = served.get(path)?;
        ensure!(
            matches!(answer.status, 300..=499),
            "{path}: {}",
            answer.head
        );
        ensure!(
            !String::from_utf8_lossy(&answer.body).contains("root:"),
            "{path}"
        );
    }
    Ok(())
}

/// A head's `ETag` depends on the contents: it stays if the file is on disk, and changes with it.
fn tags_follow_contents(served: &Served) -> Result<()> {
    let tag = || -> Result<String> { Ok(served.get("/dir/file")?.header("ETag").to_owned()) };
    served.site.ok("zpool sync")?;
    let first = tag()?;
    ensure!(tag()? == first, "nothing changed");
    let path = served.path("dir/file");
    let modified = fs::metadata(&path)?.modified()?;
    fs::write(&path, vec![b'g'; 5000])?;
    // As rsync does it: the time and the size are those of before.
    fs::File::options()
        .write(true)
        .open(&path)?
        .set_modified(modified)?;
    ensure!(served.body("/dir/file")? == vec![b'g'; 5000]);
    let second = tag()?;
    ensure!(
        second != first && tag()? != second,
        "not on disk yet: never the same"
    );
    served.site.ok("zpool sync")?;
    let third = tag()?;
    ensure!(third != first && tag()? == third);
    fs::rename(&path, served.path("dir/other"))?;
    ensure!(
        served.get("/dir/file")?.status == 404,
        "it has another name"
    );
    ensure!(
        served.get("/dir/other")?.header("ETag") == third,
        "and the same bytes"
    );
    fs::remove_file(served.path("dir/other"))?;
    ensure!(served.get("/dir/other")?.status == 404);
    Ok(())
}

/// A mirror never shows half a sync: a new snapshot is shown from the next request on, and running
/// downloads continue with the old one.
fn the_latest_snapshot_is_shown(served: &Served) -> Result<()> {
    let site = &served.site;
    site.ok("cenote http stop")?;
    site.ok("zfs snapshot tank/pub@sync-1")?;
    served.start("--snapshot sync-* tank/pub")?;
    let before = served.get("/large")?;
    let slow = Download::begin(served, "/large")?;
    fs::write(served.path("large"), noise(2, LARGE))?;
    fs::write(served.path("small"), "half a sync\n")?;
    ensure!(served.body("/small")? == b"hello\n", "nothing of the head");
    site.ok("zfs snapshot tank/pub@other")?;
    ensure!(
        served.body("/small")? == b"hello\n",
        "the name does not match"
    );
    let small = served.get("/dir/in")?.header("ETag").to_owned();
    fs::write(served.path("small"), "new\n")?;
    site.ok("zfs snapshot tank/pub@sync-2")?;
    ensure!(served.body("/small")? == b"new\n");
    let after = served.get("/large")?;
    ensure!(after.body == noise(2, LARGE) && after.header("ETag") != before.header("ETag"));
    ensure!(served.get("/dir/in")?.header("ETag") != small);
    let sparse = served.get("/dir/sparse")?.header("ETag").to_owned();
    let busy = site.fails("zfs destroy tank/pub@sync-1")?.report();
    ensure!(busy.contains("1 download "), "{busy}");
    ensure!(slow.rest() == noise(1, LARGE), "the old state to the end");
    wait_until("the snapshot is free", || {
        Ok(site
            .cenote()
            .run("zfs", &["destroy", "tank/pub@sync-1"])?
            .code
            == Some(0))
    })?;
    site.ok("zfs snapshot tank/pub@sync-3")?;
    ensure!(
        served.get("/dir/sparse")?.header("ETag") == sparse,
        "the same bytes"
    );
    let status = site.ok("cenote http status -j")?;
    ensure!(status.contains("tank/pub@sync-3"), "{status}");
    let jobs: serde_json::Value = serde_json::from_slice(&served.body("/status.json")?)?;
    ensure!(jobs[0]["status"] == "success", "{jobs}");
    // Downloads of an old one can be ended.
    let slow = Download::begin(served, "/large")?;
    site.ok("zfs snapshot tank/pub@sync-4")?;
    ensure!(served.body("/small")? == b"new\n");
    site.ok("cenote http stop --grace 0 tank/pub@sync-3")?;
    ensure!(slow.rest().len() < LARGE, "it ends");
    site.ok("zfs destroy tank/pub@sync-3")?;
    // The one that is shown can be destroyed, too: then it is the one before.
    site.ok("zfs destroy tank/pub@sync-4")?;
    ensure!(served.body("/small")? == b"new\n");
    site.ok("zfs rename tank/pub tank/moved")?;
    ensure!(served.body("/small")? == b"new\n", "under its new name");
    site.ok("zfs rename tank/moved tank/pub")?;
    Ok(())
}

fn metrics_tell(served: &Served) -> Result<()> {
    let text = served.site.ok("cenote metrics")?;
    for name in [
        "cenote_http_requests_total",
        "cenote_http_site_snapshot_seconds",
    ] {
        ensure!(text.contains(name), "{name}: {text}");
    }
    let shown = served.site.ok("cenote http status")?;
    ensure!(
        shown.contains("tank/pub@sync-2") && shown.contains("requests"),
        "{shown}"
    );
    Ok(())
}

/// What is rolled back, exported or killed below a server.
fn pools_go_and_come_back(served: &Served) -> Result<()> {
    let site = &served.site;
    site.ok("cenote http stop")?;
    served.start("tank/pub")?;
    fs::write(served.path("small"), "after the snapshot\n")?;
    ensure!(served.body("/small")? == b"after the snapshot\n");
    site.ok("zfs rollback -r tank/pub@sync-2")?;
    ensure!(
        served.body("/small")? == b"new\n",
        "the state of the snapshot"
    );
    let slow = Download::begin(served, "/large")?;
    let busy = site.fails("zpool export tank")?.report();
    ensure!(busy.contains("1 download "), "{busy}");
    ensure!(served.body("/small")? == b"new\n", "other requests work");
    site.kill()?;
    drop(slow);
    site.start()?;
    let said = site.ok("cenote daemon resume")?;
    ensure!(said.contains("1 site served"), "{said}");
    ensure!(served.body("/small")? == b"new\n");
    let slow = Download::begin(served, "/large")?;
    site.ok("zpool export -f tank")?;
    ensure!(slow.rest().len() < LARGE, "it ends");
    site.import("")?;
    let status = site.ok("cenote http status")?;
    ensure!(status.contains("no sites"), "{status}");
    hits_are_counted(served)
}

/// What a site sent and what was read from devices for that, of a pool that was just imported.
fn sent_and_read(served: &Served) -> Result<(u64, u64)> {
    let status = served.site.ok("cenote http status -j")?;
    let status: serde_json::Value = serde_json::from_str(&status)?;
    let site = &status["servers"][0]["sites"][0];
    let of = |name: &str| site[name].as_u64().with_context(|| status.to_string());
    Ok((of("sent_bytes")?, of("read_bytes")?))
}

/// All of a large file counted as read from devices, also from memory, and the head of a request
/// that memory had made the request one from memory.
fn hits_are_counted(served: &Served) -> Result<()> {
    served.start("tank/pub")?;
    let size = LARGE as u64;
    ensure!(served.body("/large")?.len() == LARGE);
    let (sent, read) = sent_and_read(served)?;
    ensure!(sent == size && read >= size, "{sent} {read}");
    fs::read(served.path("large"))?;
    ensure!(served.body("/large")?.len() == LARGE);
    let (sent, again) = sent_and_read(served)?;
    ensure!(sent == 2 * size && again == read, "{sent} {again} {read}");
    let text = served.site.ok("cenote metrics")?;
    let series = "cenote_http_site_sent_bytes_total{";
    let line = text.lines().find(|line| line.starts_with(series));
    let line = line.with_context(|| text.clone())?;
    ensure!(
        line.contains("tank/pub") && line.ends_with(&sent.to_string()),
        "{line}"
    );
    served.site.ok("cenote http stop")?;
    Ok(())
}

/// A key that is unloaded takes its files from clients, and a pool that is only read has files.
fn keys_and_read_only_pools(served: &Served) -> Result<()> {
    let site = &served.site;
    let key = site.cenote().directory().join("key");
    fs::write(&key, "5".repeat(64))?;
    site.ok(&format!(
        "zfs create -o encryption=on -o keyformat=hex -o keylocation=file://{} tank/locked",
        key.display()
    ))?;
    fs::write(site.path("tank/locked").join("file"), "locked\n")?;
    served.start("tank/locked")?;
    ensure!(served.body("/file")? == b"locked\n");
    site.ok("zfs unmount tank/locked")?;
    ensure!(served.body("/file")? == b"locked\n", "without a mount");
    site.ok("zfs unload-key tank/locked")?;
    ensure!(served.get("/file")?.status == 503, "it has no key");
    let refused = site
        .fails("cenote http start --listen 127.0.0.1:0 tank/locked")?
        .report();
    ensure!(refused.contains("key"), "{refused}");
    site.ok("zfs load-key tank/locked")?;
    ensure!(served.body("/file")? == b"locked\n");
    site.export()?;
    site.import("-o readonly=on")?;
    served.start("tank/pub")?;
    ensure!(served.body("/small")? == b"new\n");
    let tag = served.get("/small")?.header("ETag").to_owned();
    ensure!(!tag.is_empty() && served.get("/small")?.header("ETag") == tag);
    site.export()?;
    site.import("")?;
    Ok(())
}

/// Several datasets on one address, by host and path, with what is below them.
fn hosts_and_paths_have_their_datasets(served: &Served) -> Result<()> {
    let site = &served.site;
    site.ok("zfs create tank/pub/below")?;
    fs::write(served.path("below/file"), "below\n")?;
    let refused = site.fails("cenote http start tank/nothing")?.report();
    ensure!(refused.contains("tank/nothing"), "{refused}");
    site.ok("zfs create -s -V 8M tank/disk")?;
    let refused = site.fails("cenote http start tank/disk")?.report();
    ensure!(refused.contains("volume"), "{refused}");
    served.start("-r --site a.test/x/y=tank/pub --site /z=tank/pub/below")?;
    let host = |host: &str, path: &str| -> Result<u16> {
        let header = format!("Host: {host}");
        Ok(served.get_with(path, &["-H", &header])?.status)
    };
    ensure!(host("A.test:80", "/x/y/small")? == 200);
    ensure!(
        host("a.test", "/x/y/below/file")? == 200,
        "a file system below"
    );
    ensure!(host("b.test", "/x/y/small")? == 404);
    ensure!(host("b.test", "/z/file")? == 200);
    let address = format!("unix:{}", served.socket.display());
    let refused = site.fails(&format!(
        "cenote http start --listen {address} --autoindex off --site /q=tank/pub"
    ))?;
    ensure!(
        refused.report().contains("other options"),
        "{}",
        refused.report()
    );
    site.ok("zfs destroy tank/pub/below")?;
    ensure!(host("b.test", "/z/file")? == 404, "it is gone");
    ensure!(host("a.test", "/x/y/below/file")? == 404);
    site.ok("cenote http stop tank/pub")?;
    let status = site.ok("cenote http status")?;
    ensure!(
        status.contains("no sites"),
        "the last site ends its server: {status}"
    );
    Ok(())
}

/// A server that lets downloads end is shown, has no address any more, and can be hurried.
fn an_ending_server_can_be_hurried(served: &Served) -> Result<()> {
    let site = &served.site;
    let refused = site.fails("cenote http start --hidden */sec tank/pub")?;
    let refused = refused.report();
    ensure!(refused.contains("no name contains '/'"), "{refused}");
    fs::write(served.path("large"), noise(3, LARGE))?;
    let address = format!("unix:{}", served.socket.display());
    served.start("tank/pub")?;
    for (by, target) in [("address", address.as_str()), ("dataset", "tank/pub")] {
        let slow = Download::begin(served, "/large")?;
        std::thread::scope(|scope| {
            let stop = scope.spawn(|| site.ok(&format!("cenote http stop --grace 600 {target}")));
            wait_until("it is ending", || {
                Ok(site.ok("cenote http status")?.contains(" (ending)"))
            })?;
            ensure!(UnixStream::connect(&served.socket).is_err(), "{by}");
            served.start("tank/pub")?;
            ensure!(served.get("/large")?.status == 200, "another one listens");
            site.ok(&format!("cenote http stop --grace 0 {target}"))?;
            stop.join().expect("no panic")?;
            ensure!(slow.rest().len() < LARGE, "stopped by its {by}: it was cut");
            let status = site.ok("cenote http status")?;
            ensure!(status.contains("no sites"), "{status}");
            Ok(())
        })?;
        served.start("tank/pub")?;
    }
    site.ok("cenote http stop --grace 0")?;
    Ok(())
}

#[test]
fn sites_are_served() -> Result<()> {
    if Command::new("curl").arg("--version").output().is_err() {
        missing!("curl is not installed");
        return Ok(());
    }
    let served = Served::new()?;
    files_are_served(&served)?;
    strangers_get_no_more(&served)?;
    tags_follow_contents(&served)?;
    the_latest_snapshot_is_shown(&served)?;
    metrics_tell(&served)?;
    pools_go_and_come_back(&served)?;
    keys_and_read_only_pools(&served)?;
    hosts_and_paths_have_their_datasets(&served)?;
    an_ending_server_can_be_hurried(&served)?;
    served.site.finish()
}
