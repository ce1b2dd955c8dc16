//! PostgreSQL: its own load, and transactions that are written down as they are acknowledged.

use super::load::Load;
use crate::postgresql::{self, Server};
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

const SETTINGS: [&str; 3] = [
    "max_wal_size=64MB",
    "min_wal_size=32MB",
    "checkpoint_timeout=30s",
];

/// The last transaction that was acknowledged, and the last one that was sent.
type Ledger = (u64, u64);

/// A cluster and the client that writes to it.
pub(super) struct Postgresql {
    programs: PathBuf,
    server: Option<Server>,
    load: Option<Child>,
    ledger: Ledger,
    thread: Option<JoinHandle<Ledger>>,
}

impl Postgresql {
    pub fn new(programs: PathBuf) -> Self {
        Self {
            programs,
            server: None,
            load: None,
            ledger: (0, 0),
            thread: None,
        }
    }

    fn prepare(&mut self, root: &Path) -> Result<()> {
        postgresql::give_to_postgres(root)?;
        let data = root.join("data");
        let mut server = Server::create(self.programs.clone(), &data, &SETTINGS)?;
        server.start()?;
        server.make_database()?;
        server.run("pgbench", &["-i", "-q", "-s", "1"])?;
        server.ask("CREATE TABLE ledger(n bigint PRIMARY KEY, filling text)")?;
        server.ask("CREATE EXTENSION amcheck")?;
        self.server = Some(server);
        Ok(())
    }
}

/// One transaction after the other, until one fails.
fn work(mut psql: Command, (mut acknowledged, mut attempted): Ledger) -> Result<Ledger> {
    let mut process = psql
        .args(["-AtXq", "-v", "ON_ERROR_STOP=1", Server::database()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("psql")?;
    let mut input = process.stdin.take().context("a pipe was asked for")?;
    let output = process.stdout.take().context("a pipe was asked for")?;
    let mut answers = BufReader::new(output).lines();
    let mut transact = || -> Result<()> {
        loop {
            let n = acknowledged + 1;
            attempted = n;
            writeln!(
                input,
                "INSERT INTO ledger VALUES ({n}, repeat('x', {})) RETURNING n;",
                n * 31 % 3000
            )?;
            input.flush()?;
            let answer = answers.next().context("it ended")??;
            ensure!(answer == n.to_string(), "{answer}");
            acknowledged = n;
        }
    };
    // It ends when the file system does.
    let _ = transact();
    drop(input);
    process.kill()?;
    process.wait()?;
    Ok((acknowledged, attempted))
}

impl Load for Postgresql {
    fn name(&self) -> &'static str {
        "postgresql"
    }

    fn properties(&self) -> &'static str {
        "-o recordsize=8K"
    }

    fn start(&mut self, root: &Path) -> Result<()> {
        if self.server.is_none() {
            self.prepare(root)?;
        }
        let server = self.server.as_mut().context("a server")?;
        server.start()?;
        let mut load = server.command("pgbench");
        load.args(["-n", "-c", "2", "-T", "3600", Server::database()]);
        load.stdout(Stdio::null()).stderr(Stdio::null());
        self.load = Some(load.spawn()?);
        let (psql, ledger) = (server.command("psql"), self.ledger);
        self.thread = Some(thread::spawn(move || work(psql, ledger).unwrap_or(ledger)));
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        if let Some(server) = &mut self.server {
            server.stop(true)?;
        }
        if let Some(mut load) = self.load.take() {
            let _ = load.kill();
            load.wait()?;
        }
        if let Some(thread) = self.thread.take() {
            self.ledger = thread.join().expect("no panic");
        }
        Ok(())
    }

    fn check(&mut self, _root: &Path) -> Result<u64> {
        let Some(server) = &mut self.server else {
            return Ok(0);
        };
        server.start().context("recovery")?;
        let (acknowledged, attempted) = self.ledger;
        let answer = server.ask("SELECT coalesce(max(n), 0) || ' ' || count(*) FROM ledger")?;
        let (last, count) = answer.split_once(' ').context("two numbers")?;
        let last: u64 = last.parse()?;
        ensure!(
            (acknowledged..=attempted).contains(&last),
            "the last transaction is {last}; {acknowledged} was acknowledged, {attempted} sent"
        );
        ensure!(
            count == last.to_string(),
            "{count} of {last} transactions are there"
        );
        let sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) \
                    = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)";
        ensure!(
            server.ask(sums)? == "t",
            "pgbench's balances do not agree with its history"
        );
        server.run("pg_amcheck", &["--no-dependent-toast"])?;
        self.ledger = (last, last);
        Ok(acknowledged)
    }
}
