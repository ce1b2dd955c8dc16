//! Programs that people use, on a mount: what they do must come out right, and stay.
//!
//! A client is a script that works in a new file system and compares by means of its own: `git
//! fsck`, the sums that fio writes into its blocks, PostgreSQL's checksums. After it everything is
//! hashed, the pool is exported, OpenZFS judges it, and after an import the hashes have to come
//! again. Each client has a pool of its own, so that a failure names one program.
//!
//! Some clients live for days: their daemon has a clock that the script sets (by libfaketime), and
//! `timed` in the script runs a program by it.
//!
//! Deliberately absent: the network. What is cloned, built and copied lies on the machine. Packages
//! that depend on OpenZFS, whose commands are ours here, are not installed but unpacked (`apt-get
//! download`, `dpkg -x`) to `target/unpacked` or where `$CENOTE_UNPACKED` says: sanoid,
//! libconfig-inifiles-perl, libcapture-tiny-perl, zfs-auto-snapshot, libfaketime.
//!
//! zfs-autobackup and bzfs bring test suites, which make pools of their own. They come from PyPI:
//! `pip install --target target/unpacked/python zfs-autobackup==4.0rc2 unittest2 mock
//! bzfs==1.25.0`, and the former's source package, which has its tests, unpacked as
//! `target/unpacked/zfs_autobackup`. Cases that fail are named in the scripts with the reason.

use crate::golden;
use crate::site::{self, Site};
use crate::skip;
use anyhow::{Context, Result, ensure};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The end of a client's output, in messages.
const SHOWN_LINES: usize = 30;

/// A program, and the script that uses it.
struct Client {
    name: &'static str,
    /// What has to be installed.
    programs: &'static [&'static str],
    script: &'static str,
    needs_root: bool,
    /// Whether it sets the clock.
    is_timed: bool,
    /// Options of `zfs create`.
    properties: &'static str,
}

const fn client(
    name: &'static str,
    programs: &'static [&'static str],
    script: &'static str,
) -> Client {
    Client {
        name,
        programs,
        script,
        needs_root: false,
        is_timed: false,
        properties: "",
    }
}

/// What makes up a clock, where Debian has it.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
/// Makes `timed` of a script.
const TIMED: &str = "timed() { env LD_PRELOAD=\"$CLOCK_LIBRARY\" \"$@\"; }\n";

const CLIENTS: [Client; 13] = [
    client("git", &["git", "tar", "diff"], include_str!("git.sh")),
    client("build", &["cc", "make", "ar"], include_str!("build.sh")),
    Client {
        needs_root: true,
        ..client(
            "postgresql",
            &["setpriv", "/usr/lib/postgresql"],
            include_str!("postgresql.sh"),
        )
    },
    client("sqlite", &["sqlite3"], include_str!("sqlite.sh")),
    client(
        "lmdb",
        &["/usr/lib/python3/dist-packages/lmdb"],
        include_str!("lmdb.sh"),
    ),
    Client {
        needs_root: true,
        properties: "-o acltype=posix",
        ..client(
            "rsync",
            &["rsync", "setfacl", "getfattr"],
            include_str!("rsync.sh"),
        )
    },
    client("tar", &["tar", "gzip", "diff"], include_str!("tar.sh")),
    client("fio", &["fio"], include_str!("fio.sh")),
    Client {
        needs_root: true,
        is_timed: true,
        ..client(
            "sanoid",
            &["sanoid", "unshare", FAKETIME],
            include_str!("sanoid.sh"),
        )
    },
    Client {
        needs_root: true,
        ..client("syncoid", &["syncoid", "ps"], include_str!("syncoid.sh"))
    },
    Client {
        needs_root: true,
        ..client(
            "zfs-autobackup",
            &[
                "unshare",
                "/usr/sbin/sshd",
                "pigz",
                "/zfs_autobackup/tests/basetest.py",
                "/python/unittest2",
                "/python/mock",
            ],
            concat!(include_str!("suite.sh"), include_str!("zfs-autobackup.sh")),
        )
    },
    Client {
        needs_root: true,
        ..client(
            "bzfs",
            &["unshare", "/usr/sbin/sshd", "/python/bzfs_tests"],
            concat!(include_str!("suite.sh"), include_str!("bzfs.sh")),
        )
    },
    Client {
        is_timed: true,
        ..client(
            "zfs-auto-snapshot",
            &["zfs-auto-snapshot", FAKETIME],
            include_str!("zfs-auto-snapshot.sh"),
        )
    },
];

/// Where packages are unpacked that cannot be installed.
fn unpacked() -> PathBuf {
    let place = std::env::var_os("CENOTE_UNPACKED").map(PathBuf::from);
    place.unwrap_or_else(|| golden::build_directory().join("unpacked"))
}

/// A file of a package, installed or unpacked.
fn installed(file: &str) -> Option<PathBuf> {
    let places = [
        PathBuf::from(file),
        unpacked().join(file.trim_start_matches('/')),
    ];
    places.into_iter().find(|place| place.exists())
}

/// Where programs are looked for.
fn program_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    places.extend(["usr/sbin", "usr/bin"].map(|place| unpacked().join(place)));
    places
}

/// The names of all clients.
pub fn names() -> impl Iterator<Item = &'static str> {
    CLIENTS.iter().map(|client| client.name)
}

/// How clients are run.
pub struct Options {
    /// The pool's layout, by [`site::layouts`].
    pub layout: String,
    /// Options of `zpool create`.
    pub properties: String,
    /// The size of each device in MiB.
    pub device_mebibytes: u64,
    /// Seconds instead of minutes.
    pub is_small: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            layout: "raidz1".into(),
            properties: "-O compression=lz4".into(),
            device_mebibytes: 3072,
            is_small: false,
        }
    }
}

/// Runs one client, and everything that has to hold after it. `None` with a notice where a
/// program is missing; otherwise how long the client itself took.
pub fn run(name: &str, options: &Options) -> Result<Option<Duration>> {
    let known = CLIENTS.iter().find(|client| client.name == name);
    let client = known.with_context(|| {
        let names: Vec<&str> = names().collect();
        format!("no client '{name}'; there are: {}", names.join(", "))
    })?;
    if let Some(missing) = missing(client) {
        skip!("{missing} is not here for {name}");
        return Ok(None);
    }
    let site = Site::create(
        &options.layout,
        options.device_mebibytes,
        &options.properties,
    )?;
    if client.is_timed {
        set_clock(&site)?;
    }
    let dataset = format!("tank/{name}");
    site.ok(&format!("zfs create {} {dataset}", client.properties))?;
    // Another user may be on the way to the mount.
    fs::set_permissions(site.cenote().directory(), Permissions::from_mode(0o755))?;
    let start = Instant::now();
    script(client, &site, options.is_small).with_context(|| name.to_string())?;
    let elapsed = start.elapsed();
    site.ok("zpool sync tank")?;
    let before = site.walk(&dataset)?;
    site.export()?;
    site.judge()?;
    site.import("")?;
    let after = site.walk(&dataset)?;
    site::same(&before, &after).with_context(|| format!("{name} after an import"))?;
    site.finish()?;
    Ok(Some(elapsed))
}

fn missing(client: &Client) -> Option<&'static str> {
    if client.needs_root && !rustix::process::geteuid().is_root() {
        return Some("root");
    }
    let is_there = |program: &str| match program.starts_with('/') {
        true => installed(program).is_some(),
        false => program_path()
            .iter()
            .any(|place| place.join(program).exists()),
    };
    let mut programs = client.programs.iter();
    programs.find(|program| !is_there(program)).copied()
}

/// The file by which a script sets the daemon's clock.
fn clock(site: &Site) -> PathBuf {
    site.cenote().directory().join("clock")
}

/// What a program needs to go by that clock.
fn clock_variables(site: &Site) -> Vec<(&'static str, String)> {
    let library = installed(FAKETIME).unwrap_or_default();
    vec![
        ("CLOCK_LIBRARY", library.display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", clock(site).display().to_string()),
        ("FAKETIME_NO_CACHE", "1".into()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ("NO_FAKE_STAT", "1".into()),
    ]
}

/// Starts another daemon, whose clock can be set.
fn set_clock(site: &Site) -> Result<()> {
    fs::write(clock(site), "2026-01-01 00:00:00\n")?;
    site.export()?;
    site.kill()?;
    let mut variables = clock_variables(site);
    let library = std::mem::take(&mut variables[0].1);
    variables[0] = ("LD_PRELOAD", library);
    site.start_with(&variables)?;
    site.import("")
}

fn script(client: &Client, site: &Site, is_small: bool) -> Result<()> {
    let scratch = site.cenote().subdirectory("scratch")?;
    fs::set_permissions(&scratch, Permissions::from_mode(0o755))?;
    let log = site.cenote().directory().join("client.log");
    let output = File::create(&log)?;
    let mut places = vec![site.cenote().directory().join("bin")];
    places.extend(program_path());
    let text = match client.is_timed {
        true => format!("{TIMED}{}", client.script),
        false => client.script.to_owned(),
    };
    let status = site
        .cenote()
        .in_environment(Command::new("bash"))
        .args(["-euo", "pipefail", "-c", &text])
        .env("PATH", std::env::join_paths(places)?)
        .env("PERL5LIB", unpacked().join("usr/share/perl5"))
        .env("UNPACKED", unpacked())
        .env("CLOCK", clock(site))
        .envs(clock_variables(site))
        .current_dir(site.path("tank").join(client.name))
        .env("SCRATCH", &scratch)
        .env("SOURCE", golden::workspace_root())
        .env("SIZE", if is_small { "small" } else { "full" })
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()
        .context("bash")?;
    let said = fs::read_to_string(log)?;
    let lines: Vec<&str> = said.lines().collect();
    let tail = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
    ensure!(status.success(), "{status}\n{tail}");
    // Suites print their number of cases.
    let counts = lines.iter().filter(|line| line.contains(" cases passed"));
    counts.for_each(|line| println!("{}: {line}", client.name));
    // What it wrote besides the mount can be large.
    fs::remove_dir_all(scratch).context("scratch")
}
