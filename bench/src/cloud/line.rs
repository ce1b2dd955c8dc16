//! The server, the slow line to it, and what goes through that.

use crate::read::rivals::{output, tool};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// The keys of the server, which is on loopback and has nothing else.
pub(super) const KEY: &str = "benchaccess";
pub(super) const SECRET: &str = "benchsecret0";
/// The bucket.
pub(super) const BUCKET: &str = "bench";

/// What the line is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// 25 ms, 3 MB/s up, 12 MB/s down.
    Slow,
    /// As the machine is.
    Fast,
}

impl Profile {
    fn options(self) -> [&'static str; 6] {
        match self {
            Self::Slow => ["--rtt", "25", "--up", "3M", "--down", "12M"],
            Self::Fast => ["--rtt", "0", "--up", "0", "--down", "0"],
        }
    }
}

/// What went through the line meanwhile.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    pub(super) seconds: f64,
    pub(super) requests: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// How many of each kind.
    pub(super) kinds: String,
}

/// A server behind a line. Both end with it, and the server's data are removed.
#[derive(Debug)]
pub(super) struct Line {
    proxy: Child,
    script: PathBuf,
    slow_net: PathBuf,
    control: PathBuf,
    directory: PathBuf,
    port: u16,
    server_port: u16,
    profile: Profile,
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Where the server's programs are installed by default.
fn programs() -> Result<PathBuf> {
    if let Some(set) = std::env::var_os("S3_DEV_BIN") {
        return Ok(set.into());
    }
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(home).context("no HOME")?;
    Ok(state.join("s3-dev/bin"))
}

impl Line {
    pub(super) fn start(directory: &Path, profile: Profile) -> Result<Self> {
        let script = tool("s3-dev-server")?;
        let slow_net = tool("slow-net")?;
        let (port, server_port) = (free_port()?, free_port()?);
        let _ = std::fs::remove_dir_all(directory);
        std::fs::create_dir_all(directory)?;
        let control = directory.join("control");
        let proxy = Command::new(&slow_net)
            .args(["proxy", "--listen", &format!("127.0.0.1:{port}")])
            .args(["--to", &format!("127.0.0.1:{server_port}")])
            .args(profile.options())
            .args(["--max-seconds", "7200", "--ctl"])
            .arg(&control)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = Self {
            proxy,
            script,
            slow_net,
            control,
            directory: directory.into(),
            port,
            server_port,
            profile,
        };
        line.server("start")?;
        let ready = line
            .proxy
            .stdout
            .take()
            .context("its output was asked for")?;
        let mut text = String::new();
        BufReader::new(ready).read_line(&mut text)?;
        ensure!(
            text.starts_with("ready "),
            "slow-net says '{}'",
            text.trim()
        );
        Ok(line)
    }

    fn server(&self, word: &str) -> Result<()> {
        let done = Command::new(&self.script)
            .arg(word)
            .env("S3_DEV_DIR", &self.directory)
            .env("S3_DEV_BIN", programs()?)
            .env("S3_DEV_PORT", self.server_port.to_string())
            .env("S3_DEV_BUCKET", BUCKET)
            .env("S3_DEV_KEY", KEY)
            .env("S3_DEV_SECRET", SECRET)
            .stdout(Stdio::null())
            .status()?;
        ensure!(done.success(), "s3-dev-server {word} failed");
        Ok(())
    }

    pub(super) fn describe(&self) -> String {
        let line = match self.profile {
            Profile::Slow => "25 ms, 3 MB/s up, 12 MB/s down",
            Profile::Fast => "without limits",
        };
        format!("versitygw behind a line: {line}")
    }

    /// Where clients find the server.
    pub(super) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The name of a device in the bucket.
    pub(super) fn name(&self, prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}?endpoint={}", self.endpoint())
    }

    fn control(&self, word: &str) -> Result<String> {
        let words = [
            OsStr::new("ctl"),
            self.control.as_os_str(),
            OsStr::new(word),
        ];
        output(&self.slow_net, &words)
    }

    /// Does something, and says how long it took and what went through the line.
    pub(super) fn measure<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(Traffic, T)> {
        self.control("reset")?;
        let start = Instant::now();
        let result = work()?;
        let seconds = start.elapsed().as_secs_f64();
        let stats: Value = serde_json::from_str(&self.control("stats")?)?;
        let number = |name: &str| stats[name].as_u64().context("a figure of the line's");
        let Some(kinds) = stats["by_kind"].as_object() else {
            bail!("the line does not tell kinds of requests");
        };
        let kinds = kinds.iter().map(|(kind, count)| format!("{count} {kind}"));
        let kinds: Vec<String> = kinds.collect();
        let traffic = Traffic {
            seconds,
            requests: number("requests")?,
            sent: number("bytes_up")?,
            received: number("bytes_down")?,
            kinds: kinds.join(", "),
        };
        Ok((traffic, result))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = self.control("quit");
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
        let _ = self.server("wipe");
    }
}
