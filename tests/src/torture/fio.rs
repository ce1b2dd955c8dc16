//! fio, which writes sums into its blocks and notes how many of its writes were acknowledged.
//!
//! Each write is synced (`O_DSYNC`). When the file system fails, fio saves the state by which the
//! same program verifies, after the import, exactly the blocks whose writes had returned.

use super::load::{Load, private, succeed};
use crate::random::Random;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Sizes of blocks.
const BLOCKS: [&str; 4] = ["--bs=4k", "--bs=16k", "--bs=128k", "--bsrange=4k-64k"];
const FILE: &str = "--size=24m";
/// What fio saves for the only job of that name.
const STATE: &str = "local-torture-0-verify.state";

/// A file for each run.
pub(super) struct Fio {
    random: Random,
    place: PathBuf,
    number: u64,
    options: Vec<String>,
    process: Option<Child>,
}

impl Fio {
    pub fn new(scratch: &Path, seed: u64) -> Result<Self> {
        Ok(Self {
            random: Random::new(seed),
            place: private(scratch, "fio")?,
            number: 0,
            options: Vec::new(),
            process: None,
        })
    }

    fn command(&self, root: &Path) -> Command {
        let mut command = Command::new("fio");
        command.args([
            "--name=torture",
            "--ioengine=psync",
            "--verify=crc32c",
            FILE,
        ]);
        command.arg(format!("--filename={}", file(root, self.number).display()));
        command.args(&self.options).current_dir(&self.place);
        command
    }
}

fn file(root: &Path, number: u64) -> PathBuf {
    root.join(format!("file-{number}"))
}

impl Load for Fio {
    fn name(&self) -> &'static str {
        "fio"
    }

    fn start(&mut self, root: &Path) -> Result<()> {
        let _ = fs::remove_file(self.place.join(STATE));
        let _ = fs::remove_file(file(root, self.number));
        self.number += 1;
        let rw = *self.random.choose(&["--rw=write", "--rw=randwrite"]);
        self.options = vec![
            rw.to_owned(),
            (*self.random.choose(&BLOCKS)).to_owned(),
            format!("--randseed={}", self.random.below(1 << 30)),
        ];
        let mut command = self.command(root);
        command.args(["--sync=dsync", "--do_verify=0", "--verify_state_save=1"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(command.spawn().context("fio")?);
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.wait()?;
        }
        Ok(())
    }

    fn check(&mut self, root: &Path) -> Result<u64> {
        if !self.place.join(STATE).exists() {
            // It had not begun to write.
            return Ok(0);
        }
        let mut command = self.command(root);
        command.args([
            "--verify_only",
            "--verify_state_load=1",
            // Otherwise it counts itself, and the next check wants one block more.
            "--verify_state_save=0",
            "--output-format=json",
        ]);
        let said = succeed(&mut command)?;
        let said = said.get(said.find('{').unwrap_or(0)..).unwrap_or_default();
        let report: serde_json::Value = serde_json::from_str(said).context("fio's report")?;
        let blocks = report.pointer("/jobs/0/read/total_ios");
        Ok(blocks.and_then(serde_json::Value::as_u64).unwrap_or(0))
    }
}
