//! The load: wrk for rates, curl for large files, and connections of our own that wait.

use super::options::{LARGE_FILES, Options};
use super::servers::Served;
use crate::read::rivals::output;
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes a second at which the scan beside hot files reads: the same for everybody.
const SCAN_RATE: &str = "100M";

/// Requests in a second for small files, in a random order.
pub fn small_rate(server: &Served, connections: u64, options: &Options) -> Result<f64> {
    let script = tempfile::Builder::new().suffix(".lua").tempfile()?;
    let text = format!(
        "math.randomseed(os.time())\nrequest = function()\n  \
         return wrk.format('GET', '/small/' .. math.random(0, {}))\nend\n",
        options.files - 1
    );
    std::fs::write(script.path(), text)?;
    let threads = format!("-t{}", connections.min(2));
    let words = [
        threads,
        format!("-c{connections}"),
        format!("-d{}s", options.seconds),
        "-s".to_owned(),
        script.path().display().to_string(),
        server.url(""),
    ];
    let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    let printed = output(Path::new("/usr/bin/wrk"), &words)?;
    ensure!(
        !printed.contains("Non-2xx"),
        "{} answers with errors: {printed}",
        server.name
    );
    let rate = printed
        .lines()
        .find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    Ok(rate.context("wrk tells no rate")?.trim().parse()?)
}

fn curl(server: &Served, number: u64) -> Command {
    let mut curl = Command::new("curl");
    curl.args(["-s", "-f", "-o", "/dev/null"])
        .arg(server.url(&format!("large{number}")))
        .stdin(Stdio::null());
    curl
}

/// Megabytes in a second of all large files at once, none of which is in memory.
pub fn large_rate(server: &Served, options: &Options) -> Result<f64> {
    server.begin()?;
    let began = Instant::now();
    let curls: Vec<_> = (0..LARGE_FILES)
        .map(|number| curl(server, number).spawn())
        .collect::<std::io::Result<_>>()?;
    for mut curl in curls {
        ensure!(curl.wait()?.success(), "a large file cannot be had");
    }
    let bytes = (options.mebibytes * LARGE_FILES) << 20;
    Ok(bytes as f64 / 1e6 / began.elapsed().as_secs_f64())
}

/// Requests in a second for small files, alone and beside a scan of large ones that are not in
/// memory.
pub fn mixed_rate(server: &Served, options: &Options) -> Result<(f64, f64)> {
    server.begin()?;
    small_rate(server, 64, options)?;
    let alone = small_rate(server, 64, options)?;
    let mut scan = Command::new("sh");
    let urls: Vec<String> = (0..LARGE_FILES)
        .map(|number| server.url(&format!("large{number}")))
        .collect();
    let line = format!(
        "while :; do curl -s --limit-rate {SCAN_RATE} -o /dev/null -o /dev/null -o /dev/null \
         -o /dev/null {} || exit 1; done",
        urls.join(" ")
    );
    let mut scan = scan.arg("-c").arg(line).stdin(Stdio::null()).spawn()?;
    let beside = small_rate(server, 64, options);
    let has_ended = scan.try_wait()?.is_some();
    let _ = scan.kill();
    let _ = scan.wait();
    ensure!(!has_ended, "the scan failed");
    Ok((alone, beside?))
}

/// KiB of memory that connections take of which each had an answer and waits.
pub fn idle_memory(server: &Served, options: &Options) -> Result<f64> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let files = Some(options.idle + 1000);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: files,
            maximum: files,
        },
    )?;
    let before = server.memory()?;
    let mut waiting = Vec::new();
    for number in 0..options.idle {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let path = number % options.files;
        write!(stream, "GET /small/{path} HTTP/1.1\r\nHost: bench\r\n\r\n")?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        ensure!(answer.ends_with(b"200"), "{} refuses", server.name);
        waiting.push(stream);
    }
    // What served them settles.
    std::thread::sleep(Duration::from_secs(1));
    let after = server.memory()?;
    drop(waiting);
    Ok(after.saturating_sub(before) as f64)
}
