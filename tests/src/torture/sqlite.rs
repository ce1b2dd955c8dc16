//! SQLite: transactions one after the other, each acknowledged when `COMMIT` returned.

use super::load::{Load, succeed};
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

const SCHEMA: &str = "CREATE TABLE t(n INTEGER PRIMARY KEY, filling BLOB, twice INT);
CREATE INDEX i ON t(twice);
CREATE TABLE total(rows INT, numbers INT);
INSERT INTO total VALUES(0, 0);";

/// Numbers of transactions.
#[derive(Clone, Copy, Default)]
struct Ledger {
    /// The last one of which `COMMIT` returned.
    acknowledged: u64,
    /// The last one that was sent.
    attempted: u64,
}

/// A database, its kind of journal, and the thread that writes to it.
pub(super) struct Sqlite {
    name: &'static str,
    journal: &'static str,
    synchronous: &'static str,
    ledger: Option<Ledger>,
    thread: Option<JoinHandle<Result<Ledger>>>,
    is_made: bool,
}

impl Sqlite {
    pub fn new(name: &'static str, journal: &'static str, synchronous: &'static str) -> Self {
        Self {
            name,
            journal,
            synchronous,
            ledger: Some(Ledger::default()),
            thread: None,
            is_made: false,
        }
    }

    fn settings(&self) -> String {
        format!(
            "PRAGMA journal_mode={}; PRAGMA synchronous={}; PRAGMA wal_autocheckpoint=50;",
            self.journal, self.synchronous
        )
    }
}

/// One transaction after the other, until one fails.
fn work(database: &Path, settings: &str, mut ledger: Ledger) -> Result<Ledger> {
    let mut process = Command::new("sqlite3")
        .args(["-bail", "-batch"])
        .arg(database)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("sqlite3")?;
    let mut input = process.stdin.take().context("a pipe was asked for")?;
    let output = process.stdout.take().context("a pipe was asked for")?;
    let mut answers = BufReader::new(output).lines();
    let mut transact = || -> Result<()> {
        writeln!(input, "{settings}")?;
        loop {
            let n = ledger.acknowledged + 1;
            ledger.attempted = n;
            writeln!(
                input,
                "BEGIN IMMEDIATE; INSERT INTO t VALUES({n}, randomblob({}), 2*{n}); \
                 UPDATE total SET rows=rows+1, numbers=numbers+{n}; COMMIT; SELECT 'done {n}';",
                n * 37 % 6000
            )?;
            input.flush()?;
            // The settings have answers, too.
            loop {
                let answer = answers.next().context("it ended")??;
                if answer == format!("done {n}") {
                    break;
                }
            }
            ledger.acknowledged = n;
        }
    };
    // It ends when the file system does.
    let _ = transact();
    drop(input);
    process.kill()?;
    process.wait()?;
    Ok(ledger)
}

fn ask(database: &Path, statement: &str) -> Result<String> {
    let mut command = Command::new("sqlite3");
    command.arg("-bail").arg(database).arg(statement);
    Ok(succeed(&mut command)?.trim_end().to_owned())
}

impl Load for Sqlite {
    fn name(&self) -> &'static str {
        self.name
    }

    fn start(&mut self, root: &Path) -> Result<()> {
        let database = root.join("base.db");
        let settings = self.settings();
        if !self.is_made {
            ask(&database, &format!("{settings} {SCHEMA}"))?;
            std::fs::File::open(root)?.sync_all()?;
            self.is_made = true;
        }
        let ledger = self.ledger.take().context("it runs already")?;
        self.thread = Some(thread::spawn(move || work(&database, &settings, ledger)));
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        if let Some(thread) = self.thread.take() {
            self.ledger = Some(thread.join().expect("no panic")?);
        }
        Ok(())
    }

    fn check(&mut self, root: &Path) -> Result<u64> {
        let ledger = self.ledger.as_mut().context("it still runs")?;
        let database = root.join("base.db");
        let verdict = ask(&database, "PRAGMA integrity_check")?;
        ensure!(verdict == "ok", "integrity_check: {verdict}");
        let last = ask(&database, "SELECT coalesce(max(n), 0) FROM t")?;
        let last: u64 = last.parse().context("a number")?;
        let Ledger {
            acknowledged,
            attempted,
        } = *ledger;
        ensure!(
            (acknowledged..=attempted).contains(&last),
            "the last transaction is {last}; {acknowledged} was acknowledged, {attempted} sent"
        );
        let sums = "SELECT (SELECT count(*) = max(n) FROM t) \
                    AND (SELECT count(*) FROM t) = rows AND (SELECT sum(n) FROM t) = numbers \
                    AND (SELECT count(*) FROM t WHERE twice > 0) = rows FROM total";
        let is_whole = last == 0 || ask(&database, sums)? == "1";
        ensure!(is_whole, "a transaction before {last} is there in part");
        ledger.acknowledged = last;
        Ok(acknowledged)
    }
}
