//! PostgreSQL on a directory of the caller's: its programs, run as the user `postgres`.
//!
//! The server is a child of this process. `pg_ctl` finds a server by a file in its directory,
//! which cannot be read any more where the file system has died; a child can always be ended.

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Where Debian puts the programs, by version.
const INSTALLED: &str = "/usr/lib/postgresql";

/// How long a server may take to recover and to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

/// The name of the database in which callers work.
const DATABASE: &str = "bench";

/// The programs of the newest installed version; `None` without one, or if this process cannot
/// become the user `postgres`.
pub fn programs() -> Option<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let versions = fs::read_dir(INSTALLED).ok()?.flatten();
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<f64>().ok();
    let newest = versions
        .map(|entry| entry.path())
        .filter(|path| path.join("bin/postgres").exists())
        .max_by(|a, b| {
            version(a)
                .partial_cmp(&version(b))
                .expect("no version is NaN")
        })?;
    Some(newest.join("bin"))
}

/// A server and its directory.
pub struct Server {
    programs: PathBuf,
    data: PathBuf,
    /// For its socket and its log, away from what is tested.
    place: tempfile::TempDir,
    process: Option<Child>,
    settings: Vec<String>,
}

impl Server {
    /// Makes a cluster with checksums in `data`, which must not exist, its parent being writable
    /// to the user `postgres`; the server is not started. `settings` are words such as `fsync=on`.
    pub fn create(programs: PathBuf, data: &Path, settings: &[&str]) -> Result<Self> {
        let place = tempfile::Builder::new().prefix("cenote-pg.").tempdir()?;
        let server = Self {
            programs,
            data: data.to_owned(),
            place,
            process: None,
            settings: settings.iter().map(|&setting| setting.to_owned()).collect(),
        };
        give_to_postgres(server.place.path())?;
        let mut command = server.command("initdb");
        command.args(["-A", "trust", "-k", "-D"]).arg(&server.data);
        said(&mut command)?;
        Ok(server)
    }

    /// Starts the server, unless it runs, and waits until it has recovered and answers.
    pub fn start(&mut self) -> Result<()> {
        if self.process.is_some() {
            return Ok(());
        }
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.log())?;
        let mut command = self.command("postgres");
        command.arg("-D").arg(&self.data);
        command.arg("-k").arg(self.place.path());
        for setting in ["listen_addresses=", "shared_buffers=32MB"] {
            command.args(["-c", setting]);
        }
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        command.stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn().context("postgres")?);
        let began = Instant::now();
        loop {
            let mut question = self.command("psql");
            question.args(["-AtXc", "SELECT 1", "postgres"]);
            question.stdout(Stdio::null()).stderr(Stdio::null());
            if question.status()?.success() {
                return Ok(());
            }
            let has_ended = self.process.as_mut().map(Child::try_wait);
            let is_up = matches!(has_ended, Some(Ok(None)));
            let is_late = began.elapsed() > PATIENCE;
            ensure!(
                is_up && !is_late,
                "PostgreSQL did not start: {}",
                self.last_words()
            );
            thread::sleep(POLL);
        }
    }

    /// Ends the server: at once and without a checkpoint, or properly.
    pub fn stop(&mut self, at_once: bool) -> Result<()> {
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        let signal = if at_once { Signal::QUIT } else { Signal::INT };
        let id = Pid::from_raw(i32::try_from(process.id())?).context("a process")?;
        let _ = kill_process(id, signal);
        let began = Instant::now();
        while process.try_wait()?.is_none() {
            ensure!(
                began.elapsed() < PATIENCE,
                "PostgreSQL does not end: {}",
                self.last_words()
            );
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Makes the database for callers.
    pub fn make_database(&self) -> Result<()> {
        said(self.command("createdb").arg(DATABASE)).map(drop)
    }

    /// What the server answers to one statement, as plain columns.
    pub fn ask(&self, statement: &str) -> Result<String> {
        let mut command = self.command("psql");
        command.args(["-AtX", "-v", "ON_ERROR_STOP=1", "-c", statement, DATABASE]);
        Ok(said(&mut command)?.trim_end().to_owned())
    }

    /// What `program` prints, given the database as its last word; it has to succeed.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        said(self.command(program).args(arguments).arg(DATABASE))
    }

    /// One of PostgreSQL's programs as its user, for this server.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=postgres", "--regid=postgres", "--init-groups"])
            .arg(self.programs.join(program))
            .env("PGHOST", self.place.path())
            .current_dir("/")
            .stdin(Stdio::null());
        command
    }

    /// The same for the callers' database, which has to be the last word.
    pub fn database() -> &'static str {
        DATABASE
    }

    /// The directory of the cluster.
    pub fn data(&self) -> &Path {
        &self.data
    }

    fn log(&self) -> PathBuf {
        self.place.path().join("log")
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.stop(true) {
            eprintln!("{error:#}");
        }
    }
}

/// Makes a directory the property of the user `postgres`, and lets others pass.
pub fn give_to_postgres(directory: &Path) -> Result<()> {
    let path = directory.display().to_string();
    said(Command::new("chown").args(["postgres", &path]))?;
    said(Command::new("chmod").args(["755", &path])).map(drop)
}

fn said(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().with_context(|| shown.clone())?;
    let errors = String::from_utf8_lossy(&stderr);
    ensure!(status.success(), "{shown}: {status}: {}", errors.trim());
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}
