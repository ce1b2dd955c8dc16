//! `suite`: builds all tests of the workspace and runs their programs side by side.
//!
//! `cargo test` runs one test program after another. Each has a slow tail, and those that use
//! daemons wait most of the time. Here as many programs run at once as the machine has cores, the
//! heaviest first. What a program prints is kept in a file, and shown if the program fails.
//!
//! With `--lints` a warning of the build fails the run, and so does formatting. `./test --lints`
//! has `clippy-driver` build everything, which compiles as `rustc` does and lints on the way.
//!
//! A test that fails runs once more after all others. If it then passes, the machine was only too
//! busy: the report lists it as unsteady, and it does not fail the run. Seeds are the same in each
//! run, so a fault that a random trial finds is found twice.
//!
//! The report ends with the slowest programs and tests, so that slow tests are noticed.

mod built;
mod report;

use crate::workspace;
use anyhow::{Context, Result, bail};
use built::{Built, Program, build};
use report::{Failure, Outcome, Report};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// A program that runs longer than this hangs. The slowest takes a third of it on a busy machine.
const LIMIT: Duration = Duration::from_secs(40 * 60);
/// How often a running program is checked.
const POLL: Duration = Duration::from_millis(50);
/// If more tests fail than this, it is not because the machine was busy.
const UNSTEADY_MAX: usize = 5;

/// Something that is run: a test program, or a command of Cargo.
#[derive(Debug)]
pub(super) struct Unit {
    name: String,
    command: Command,
    /// Where its output goes.
    log: PathBuf,
}

/// `suite [--lints]`.
pub fn run(arguments: &[String]) -> Result<bool> {
    let has_lints = match arguments {
        [] => false,
        [word] if word == "--lints" => true,
        _ => bail!("usage: cargo xtask suite [--lints]"),
    };
    let Some(built) = build()? else {
        return Ok(false);
    };
    let logs = built.target.join("suite");
    std::fs::create_dir_all(&logs)
        .with_context(|| format!("cannot make the directory {}", logs.display()))?;
    let mut units = tests(&built, &logs);
    units.reverse();
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut report = Report::default();
    if has_lints {
        check_lints(&built, &mut report);
    }
    let (sender, receiver) = channel();
    let queue = Mutex::new(units);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (sender, queue) = (sender.clone(), &queue);
            scope.spawn(move || {
                loop {
                    let unit = queue.lock().expect("no program runs under it").pop();
                    let Some(unit) = unit else { break };
                    finish(unit, &sender);
                }
            });
        }
        if has_lints {
            let (sender, logs) = (sender.clone(), &logs);
            scope.spawn(move || finish(formatting(logs), &sender));
        }
        drop(sender);
        for (unit, outcome) in receiver {
            report.add(&unit.name, &unit.log, outcome);
        }
    });
    let failed = report.take_failed_tests();
    match failed.iter().map(|failure| failure.tests.len()).sum() {
        0..=UNSTEADY_MAX => repeat(failed, &built, &logs, &mut report),
        _ => report.keep(failed),
    }
    Ok(report.end())
}

/// Has a warning fail the run, and a build without lints.
fn check_lints(built: &Built, report: &mut Report) {
    let is_linted = std::env::var_os("RUSTC_WORKSPACE_WRAPPER")
        .is_some_and(|wrapper| Path::new(&wrapper).ends_with("clippy-driver"));
    let reason = match (is_linted, built.warnings) {
        (false, _) => "lints: RUSTC_WORKSPACE_WRAPPER is not clippy-driver".to_owned(),
        (true, 0) => return,
        (true, count) => format!("lints: {count} warnings, shown where they were built"),
    };
    report.keep(vec![Failure {
        name: reason,
        tests: Vec::new(),
    }]);
}

/// Runs tests that failed once more, one after another.
fn repeat(failed: Vec<Failure>, built: &Built, logs: &Path, report: &mut Report) {
    for failure in failed {
        let program = built.programs.iter().find(|one| one.name == failure.name);
        let Some(program) = program else {
            report.keep(vec![failure]);
            continue;
        };
        let mut command = test_command(program, built);
        command.args(["--test-threads=1", "--exact"]);
        command.args(&failure.tests);
        let mut unit = unit(&format!("{} again", failure.name), command, logs);
        let begun = Instant::now();
        let status = attempt(&mut unit);
        let took = begun.elapsed();
        report.add_again(failure, &unit.log, Outcome { status, took });
    }
}

/// The test programs, the heaviest first, and the examples in documentation.
fn tests(built: &Built, logs: &Path) -> Vec<Unit> {
    let mut units: Vec<Unit> = built
        .programs
        .iter()
        .map(|program| {
            let mut command = test_command(program, built);
            // The time that each test took is not part of stable Rust.
            command.env("RUSTC_BOOTSTRAP", "1");
            command.args(["-Zunstable-options", "--report-time"]);
            unit(&program.name, command, logs)
        })
        .collect();
    let mut examples = workspace::cargo();
    examples.args(["test", "--workspace", "--locked", "--doc"]);
    units.push(unit("examples in documentation", examples, logs));
    units
}

/// Runs a test program as Cargo would.
fn test_command(program: &Program, built: &Built) -> Command {
    let mut command = Command::new(&program.path);
    command
        .current_dir(&program.directory)
        .env("CARGO_MANIFEST_DIR", &program.directory);
    if let Some(cenote) = &built.cenote {
        command.env("CENOTE_BIN", cenote);
    }
    command
}

fn formatting(logs: &Path) -> Unit {
    let mut format = workspace::cargo();
    format.args(["fmt", "--all", "--check"]);
    unit("formatting", format, logs)
}

fn unit(name: &str, command: Command, logs: &Path) -> Unit {
    Unit {
        name: name.to_owned(),
        command,
        log: logs.join(format!("{}.log", name.replace([' ', '/'], "-"))),
    }
}

/// Runs a unit to its end, and sends its outcome.
fn finish(mut unit: Unit, to: &Sender<(Unit, Outcome)>) {
    let begun = Instant::now();
    let status = attempt(&mut unit);
    let took = begun.elapsed();
    // Only the end of the whole run closes the other side.
    let _ = to.send((unit, Outcome { status, took }));
}

fn attempt(unit: &mut Unit) -> Result<ExitStatus> {
    let log = File::create(&unit.log)
        .with_context(|| format!("cannot write to {}", unit.log.display()))?;
    let copy = log.try_clone()?;
    let command = unit.command.stdin(Stdio::null()).stdout(log).stderr(copy);
    let child = command
        .spawn()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    wait(child)
}

fn wait(mut child: Child) -> Result<ExitStatus> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if begun.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            bail!("it was ended after {} minutes", LIMIT.as_secs() / 60);
        }
        std::thread::sleep(POLL);
    }
}
