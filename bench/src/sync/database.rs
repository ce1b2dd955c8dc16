//! PostgreSQL under its own load: each transaction waits for `fdatasync` of its log.

use super::options::Options;
use super::rival::{OURS, Rival};
use crate::write::report::{Figures, Report};
use anyhow::{Context, Result};
use cenote_tests::postgresql::{self, Server};
use std::path::PathBuf;

const CLIENTS: [usize; 2] = [1, 8];
/// Times 100,000 accounts.
const SCALE: &str = "4";
/// What PostgreSQL writes again after a checkpoint is to be a small part of it.
const SETTINGS: [&str; 3] = [
    "max_wal_size=192MB",
    "min_wal_size=96MB",
    "checkpoint_timeout=1h",
];
/// The record size that is recommended for PostgreSQL, whose pages have 8 KiB.
const PROPERTIES: [&str; 1] = ["recordsize=8K"];

/// One client and eight.
pub fn run(options: &Options) -> Result<Report> {
    let programs = postgresql::programs();
    let programs = programs.context("PostgreSQL is not installed, or this is not root")?;
    let rivals = Rival::all(options)?;
    let mut servers = Vec::new();
    for rival in &rivals {
        let server = prepare(rival, programs.clone());
        servers.push(server.with_context(|| rival.name)?);
    }
    let mut report = Report::default();
    for clients in CLIENTS {
        for _ in 0..options.rounds {
            for (rival, server) in rivals.iter().zip(&servers) {
                let figures = measure(rival, server, clients, options.seconds)?;
                report.add(&case(clients), rival.name, figures);
            }
        }
    }
    drop(servers);
    for clients in CLIENTS {
        report.want_rate(&case(clients), (OURS, "xfs"), 1.0);
        report.want_rate(&case(clients), (OURS, "ext4"), 0.0);
    }
    Ok(report)
}

fn case(clients: usize) -> String {
    format!("{clients} clients")
}

fn prepare(rival: &Rival, programs: PathBuf) -> Result<Server> {
    let place = rival.place("database", &PROPERTIES)?;
    postgresql::give_to_postgres(&place)?;
    let mut server = Server::create(programs, &place.join("data"), &SETTINGS)?;
    server.start()?;
    server.make_database()?;
    server.run("pgbench", &["-i", "-q", "-s", SCALE])?;
    server.ask("CHECKPOINT")?;
    rival.settle()?;
    Ok(server)
}

fn measure(rival: &Rival, server: &Server, clients: usize, seconds: u64) -> Result<Figures> {
    let (clients, seconds) = (clients.to_string(), seconds.to_string());
    let clocks = rival.clocks()?;
    let said = server.run(
        "pgbench",
        &["-n", "-c", &clients, "-j", "2", "-T", &seconds],
    )?;
    let spent = rival.clocks()?.since(&clocks);
    let mut lines = said.lines();
    let rate = lines.find_map(|line| line.strip_prefix("tps = ")?.split(' ').next());
    let rate: f64 = rate.context("pgbench says nothing of tps")?.parse()?;
    let transactions = (rate * seconds.parse::<f64>()?) as u64;
    Ok(spent.per_ten_thousand(rate, transactions.max(1)))
}
