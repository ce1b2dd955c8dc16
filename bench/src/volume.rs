//! A volume served by the daemon beside `nbdkit file` and `qemu-nbd` on a raw file: the same
//! requests by fio over a unix socket, to all three in turns.

use crate::read::rivals::output;
use crate::write::product::Daemon;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the pool's device and the raw file lie.
    pub directory: PathBuf,
    /// Bytes of the volume.
    pub mebibytes: u64,
    /// Seconds for each figure.
    pub seconds: u64,
    /// `volblocksize`.
    pub block_size: String,
    /// Only cases whose name has this in it.
    pub only: String,
}

/// A pattern of requests.
struct Case {
    name: String,
    rw: &'static str,
    size: &'static str,
    depth: u32,
    connections: u32,
    is_flushed: bool,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for size in ["4k", "1m"] {
        for rw in ["randread", "read", "randwrite", "write"] {
            for (depth, connections) in [(1, 1), (16, 1), (16, 4)] {
                cases.push(Case {
                    name: format!("{rw} {size}, {depth} in flight, {connections} connections"),
                    rw,
                    size,
                    depth,
                    connections,
                    is_flushed: false,
                });
            }
        }
    }
    for depth in [1, 16] {
        cases.push(Case {
            name: format!("flushed randwrite 4k, {depth} in flight, 1 connections"),
            rw: "randwrite",
            size: "4k",
            depth,
            connections: 1,
            is_flushed: true,
        });
    }
    cases
}

/// A server, ended with this.
struct Server {
    name: &'static str,
    uri: String,
    process: Option<Child>,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Server {
    /// Starts another program's server; `None` if it is not installed.
    fn start(name: &'static str, words: &[&str], socket: &Path) -> Result<Option<Self>> {
        let started = Command::new(name)
            .args(words)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(process) = started else {
            eprintln!("{name} is not installed: it is left out");
            return Ok(None);
        };
        let limit = Instant::now() + Duration::from_secs(10);
        while !socket.exists() {
            ensure!(Instant::now() < limit, "{name} does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(Self {
            name,
            uri: format!("nbd+unix:///?socket={}", socket.display()),
            process: Some(process),
        }))
    }
}

fn fio(uri: &str, options: &Options, words: &[String]) -> Result<Value> {
    let uri = format!("--uri={uri}");
    let size = format!("--size={}m", options.mebibytes);
    let fixed = [
        "--name=bench",
        "--ioengine=nbd",
        &uri,
        &size,
        "--group_reporting",
        "--output-format=json",
        // Half of it compresses, as data of guests does.
        "--buffer_compress_percentage=50",
        "--refill_buffers",
    ];
    let words: Vec<&OsStr> = fixed
        .iter()
        .map(OsStr::new)
        .chain(words.iter().map(OsStr::new))
        .collect();
    let printed = output(Path::new("/usr/bin/fio"), &words)?;
    let json = printed.find('{').context("fio prints no JSON")?;
    Ok(serde_json::from_str(&printed[json..])?)
}

/// Requests in a second.
fn measure(server: &Server, case: &Case, options: &Options) -> Result<f64> {
    let mut words = vec![
        format!("--rw={}", case.rw),
        format!("--bs={}", case.size),
        format!("--iodepth={}", case.depth),
        format!("--numjobs={}", case.connections),
        format!("--runtime={}", options.seconds),
        "--time_based".to_owned(),
        "--ramp_time=1".to_owned(),
        "--norandommap".to_owned(),
    ];
    if case.is_flushed {
        words.push("--fsync=1".to_owned());
    }
    let json = fio(&server.uri, options, &words)?;
    let direction = match case.rw.contains("read") {
        true => "read",
        false => "write",
    };
    let found = json["jobs"][0][direction]["iops"].as_f64();
    found.context("fio tells no figure")
}

/// Runs the bench.
///
/// # Errors
/// A server or fio fails.
pub fn run(options: &Options) -> Result<bool> {
    std::fs::create_dir_all(&options.directory)?;
    let directory = tempfile::tempdir_in(&options.directory)?;
    let path = |name: &str| directory.path().join(name);
    let device = path("pool.img");
    File::create(&device)?.set_len((options.mebibytes * 3 + 512) << 20)?;
    let daemon = Daemon::start()?;
    let run = |line: &str| {
        let words: Vec<&OsStr> = line.split(' ').map(OsStr::new).collect();
        daemon.run(&words)
    };
    let (device, socket) = (device.display(), path("cenote"));
    run(&format!(
        "zpool create -o ashift=12 -O mountpoint=none -O compression=lz4 wb {device}"
    ))?;
    run(&format!(
        "zfs create -s -V {}M -o volblocksize={} wb/volume",
        options.mebibytes, options.block_size
    ))?;
    let uri = run(&format!("nbd serve --unix {} wb/volume", socket.display()))?;
    let raw = path("raw.img");
    File::create(&raw)?.set_len(options.mebibytes << 20)?;
    let raw = raw.display().to_string();
    let (nbdkit, qemu) = (path("nbdkit"), path("qemu"));
    let (nbdkit_name, qemu_name) = (nbdkit.display().to_string(), qemu.display().to_string());
    let mut servers = vec![Server {
        name: "cenote",
        uri: uri.trim().to_owned(),
        process: None,
    }];
    let words = ["-f", "-U", &nbdkit_name, "file", &raw];
    servers.extend(Server::start("nbdkit", &words, &nbdkit)?);
    let words = ["-t", "-e", "8", "-f", "raw", "-k", &qemu_name, &raw];
    servers.extend(Server::start("qemu-nbd", &words, &qemu)?);
    for server in &servers {
        let fill = ["--rw=write", "--bs=1m", "--iodepth=4", "--end_fsync=1"];
        fio(&server.uri, options, &fill.map(str::to_owned))?;
    }
    let names: Vec<String> = servers
        .iter()
        .map(|one| format!("{:>10}", one.name))
        .collect();
    println!("requests/s{:44}{}  cenote/nbdkit", "", names.join(""));
    for case in cases()
        .iter()
        .filter(|case| case.name.contains(&options.only))
    {
        let figures = servers.iter().map(|server| measure(server, case, options));
        let figures = figures.collect::<Result<Vec<f64>>>()?;
        let texts: Vec<String> = figures.iter().map(|one| format!("{one:>10.0}")).collect();
        let ratio = match figures.as_slice() {
            [own, other, ..] => format!("{:>13.2}", own / other),
            _ => String::new(),
        };
        println!("{:<54}{}{ratio}", case.name, texts.join(""));
    }
    Ok(true)
}
