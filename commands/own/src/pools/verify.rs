//! `cenote verify`: reads and checks every block of a pool.

use crate::reading::failure::{Exit, Failure, ended};
use crate::reading::options::PoolOptions;
use crate::reading::output::{Output, escaped};
use crate::reading::session::{OpenFileSystem, Session};
use crate::reading::spec::Spec;
use crate::reading::stop::Stop;
use cenote_base::ObjectId;
use cenote_dsl::DatasetType;
use cenote_pool::verify::{
    DamagedBlock, PROBLEMS_MAX, VerifyOptions, VerifyProgress, VerifyReport, Watcher, verify,
};
use cenote_words::command::{Command, Run, flags};
use cenote_words::format::number::{counted, nicebytes};
use cenote_words::progress::{Progress, Style};
use std::ffi::OsString;
use std::path::PathBuf;

/// The command.
pub const COMMAND: Command = Command {
    name: "verify",
    summary: "Read and check every block of a pool",
    synopsis: "[OPTION]... POOL",
    about: "\
Reads every block of every dataset and snapshot once, in the order of the disks, and checks
it: its checksum, that it decompresses and, where the key is given, that it is authentic.
Then the space maps are compared with the blocks found (leaks, double allocations), and the
accounting of datasets and features with what it should be.

Damaged files are named by their paths, devices that lack what was written while they were
away as stale. The exit code is 0 only when nothing is damaged and no device is stale.

Example:
  cenote verify --all-copies --state /tmp/tank.state -d /dev/disk/by-id tank",
    flags: flags! {
        'A' "all-copies" _ "judge every copy and all parity, not only what a reader needs";
        _ "state" "FILE" "save the state in FILE once a minute and when interrupted, and resume\n\
            from there if it is of the same pool and txg";
        'j' "json" _ "the report as JSON, and progress as JSON on standard error";
        'q' "quiet" _ "no progress bar";
    },
    run: Run::Reading(|words| ended(run(words))),
};

#[derive(Debug)]
struct Arguments {
    pool: PoolOptions,
    all_copies: bool,
    state: Option<PathBuf>,
    json: bool,
    style: Style,
    spec: Spec,
}

fn parse(words: &[OsString]) -> Result<Arguments, Failure> {
    let (line, pool) = PoolOptions::read(&COMMAND, words)?;
    let spec = match line.operands.as_slice() {
        [word] => Spec::parse(word)?,
        _ => return Err(line.wrong("give one pool")),
    };
    if spec.pool() != spec.dataset || spec.path.is_some() {
        return Err(line.wrong("give a pool: what is verified is all of it"));
    }
    Ok(Arguments {
        pool,
        all_copies: line.has("all-copies"),
        state: line.last("state").map(PathBuf::from),
        json: line.has("json"),
        style: line.style(),
        spec,
    })
}

/// Shows progress and watches for signals.
struct Follower {
    progress: Progress,
    stop: Stop,
}

impl Watcher for Follower {
    fn progress(&self, now: &VerifyProgress) {
        let at = match now.problems {
            0 => now.dataset.clone(),
            problems => format!("{}; {}", counted(problems, "problem"), now.dataset),
        };
        self.progress
            .set(now.bytes_done, Some(now.bytes_total), &at);
    }

    fn cancelled(&self) -> bool {
        self.stop.is_set()
    }
}

fn run(words: Vec<OsString>) -> Result<Exit, Failure> {
    let arguments = parse(&words)?;
    let stop = Stop::on_signals()?;
    let session = Session::open(&arguments.pool, arguments.spec.pool())?;
    session.unlock_all()?;
    let options = VerifyOptions {
        all_copies: arguments.all_copies,
        state_file: arguments.state.clone(),
    };
    let follower = Follower {
        progress: Progress::new(arguments.style, None),
        stop,
    };
    let report = verify(session.pool(), &options, &follower);
    follower.progress.finish();
    let mut report = report.map_err(|source| Failure::Verify {
        pool: session.pool().name().to_owned(),
        source: Box::new(source),
    })?;
    name_files(&session, &mut report.damaged);
    let mut output = Output::new();
    match arguments.json {
        true => print_json(&report, &mut output)?,
        false => print(&report, &arguments, &mut output)?,
    }
    output.flush()?;
    Ok(exit(&report))
}

fn exit(report: &VerifyReport) -> Exit {
    match (report.complete, report.problems) {
        (true, 0) if report.stale.is_empty() => Exit::Good,
        (true, _) => Exit::Problems,
        (false, _) => Exit::Interrupted,
    }
}

/// Finds the file's path for each damaged block.
///
/// The blocks of a dataset are adjacent, so only one file system is open at a time.
fn name_files(session: &Session, damaged: &mut [DamagedBlock]) {
    let mut open: Option<(String, Option<OpenFileSystem>)> = None;
    for block in damaged {
        if block.dataset.is_empty() {
            continue;
        }
        if open.as_ref().is_none_or(|(name, _)| *name != block.dataset) {
            open = Some((block.dataset.clone(), open_files(session, &block.dataset)));
        }
        let files = open.as_ref().and_then(|(_, files)| files.as_ref());
        block.path = files.and_then(|files| path_of(files, block));
    }
}

/// Opens the file system of a dataset; `None` for volumes and datasets that cannot be opened.
fn open_files(session: &Session, name: &str) -> Option<OpenFileSystem> {
    let dataset = session.dataset(name).ok()?;
    match session.dataset_type(&dataset).ok()? {
        DatasetType::Filesystem => session.file_system_of(dataset).ok(),
        DatasetType::Volume => None,
    }
}

fn path_of(open: &OpenFileSystem, block: &DamagedBlock) -> Option<String> {
    let path = open.files.path_of(ObjectId(block.object)).ok()?;
    Some(format!("/{}", escaped(&path)))
}

fn print_json(report: &VerifyReport, output: &mut Output) -> Result<(), Failure> {
    let value = serde_json::to_value(report);
    let mut value = value.map_err(|error| Failure::Output(error.into()))?;
    value["clean"] = report.is_clean().into();
    output.json_pretty(&value)
}

/// A description of what a damaged block belongs to.
fn place_of(block: &DamagedBlock) -> String {
    let part = match (block.level, block.block) {
        (0, u64::MAX) => "its attributes (spill block)".to_owned(),
        (0, number) => format!("block {number}"),
        (level, number) => format!("block {number} of level {level}"),
    };
    match (&block.path, block.dataset.as_str()) {
        (Some(path), dataset) => format!("{dataset}:{path}: {part}"),
        (None, "") => format!("the pool's metadata, object {}: {part}", block.object),
        (None, dataset) => format!("{dataset}, object {}: {part}", block.object),
    }
}

fn print(report: &VerifyReport, arguments: &Arguments, out: &mut Output) -> Result<(), Failure> {
    out.line(&format!("{}: state of txg {}", report.pool, report.txg))?;
    out.line(&format!(
        "  {} blocks read: {} stored, {} uncompressed, {} allocated",
        report.blocks,
        nicebytes(report.bytes_physical),
        nicebytes(report.bytes_logical),
        nicebytes(report.bytes_allocated)
    ))?;
    if report.blocks_shared > 0 {
        let shared = report.blocks_shared;
        out.line(&format!(
            "  {shared} further references to blocks by dedup or cloning"
        ))?;
    }
    if report.blocks_without_key > 0 {
        let locked = report.blocks_without_key;
        out.line(&format!(
            "  {locked} blocks checked by their checksum only: their key is not loaded"
        ))?;
    }
    if report.bad_copies > 0 {
        let bad = report.bad_copies;
        out.line(&format!(
            "  {bad} bad copies of blocks that are whole thanks to redundancy"
        ))?;
    }
    let damaged = report.damaged.iter().map(|block| {
        let problem = escaped(block.problem.as_bytes());
        format!("{}: {problem}", place_of(block))
    });
    list(out, "damaged", damaged.collect())?;
    list(out, "space maps", report.space.clone())?;
    list(out, "accounting", report.accounting.clone())?;
    let stale = report.stale.iter().map(|device| {
        format!("{device}: lacks what was written while it was away; take no other device away")
    });
    list(out, "stale devices", stale.collect())?;
    list(out, "notes", report.notes.clone())?;
    out.line(&match (report.complete, report.problems) {
        (true, 0) => match report.stale.is_empty() {
            true => "no problems found".to_owned(),
            false => {
                "no blocks are damaged, but devices are stale: run 'zpool resilver'".to_owned()
            }
        },
        (true, problems) => format!("{} found", counted(problems, "problem")),
        (false, problems) => {
            let resume = match &arguments.state {
                Some(path) => format!("; run again to resume from {}", path.display()),
                None => "; use --state FILE to be able to resume".to_owned(),
            };
            let problems = counted(problems, "problem");
            format!("interrupted, {problems} found so far{resume}")
        }
    })
}

fn list(output: &mut Output, title: &str, lines: Vec<String>) -> Result<(), Failure> {
    if lines.is_empty() {
        return Ok(());
    }
    output.line(&format!("  {title}:"))?;
    for line in &lines {
        output.line(&format!("    {line}"))?;
    }
    match lines.len() >= PROBLEMS_MAX {
        true => output.line("    further ones are only counted"),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_tells_the_outcome() {
        let report = |complete, problems| VerifyReport {
            complete,
            problems,
            ..VerifyReport::default()
        };
        assert_eq!(exit(&report(true, 0)), Exit::Good);
        assert_eq!(exit(&report(true, 3)), Exit::Problems);
        let stale = VerifyReport {
            stale: vec!["/dev/sdb".to_owned()],
            ..report(true, 0)
        };
        assert_eq!(exit(&stale), Exit::Problems);
        assert!(!stale.is_clean());
        assert_eq!(exit(&report(false, 0)), Exit::Interrupted);
    }

    #[test]
    fn damage_is_named_as_closely_as_it_can_be() {
        let block = |dataset: &str, path: Option<&str>, level, block| DamagedBlock {
            dataset: dataset.into(),
            objset: 5,
            object: 7,
            level,
            block,
            problem: "x".into(),
            path: path.map(str::to_owned),
        };
        let file = block("t/a@s", Some("/d/f"), 0, 3);
        assert_eq!(place_of(&file), "t/a@s:/d/f: block 3");
        let indirect = block("t/v", None, 1, 0);
        assert_eq!(place_of(&indirect), "t/v, object 7: block 0 of level 1");
        let spill = block("", None, 0, u64::MAX);
        let words = "the pool's metadata, object 7: its attributes (spill block)";
        assert_eq!(place_of(&spill), words);
    }
}
