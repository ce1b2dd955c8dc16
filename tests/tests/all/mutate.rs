//! The mutator itself, without Cenote: it reads pools, moves blocks, and takes back what it did.

use anyhow::{Context, Result, ensure};
use cenote_tests::golden::Golden;
use cenote_tests::mutate::structure::Structure;
use cenote_tests::mutate::{Devices, Mutant, blind};
use cenote_tests::random::Random;
use cenote_tests::referee;

/// A pool of one disk that the repository carries.
const KIND: &str = "quotas";

fn devices(directory: &std::path::Path) -> Result<Devices> {
    let golden = Golden::find(KIND)?.context("the repository carries this pool")?;
    Devices::open(golden.copy_to(directory)?)
}

#[test]
fn mutants_are_taken_back() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let devices = devices(directory.path())?;
    let structure = Structure::read(&devices)?.context("the pool is a single disk")?;
    ensure!(
        structure.blocks() > 100,
        "only {} blocks",
        structure.blocks()
    );
    let size = usize::try_from(devices.size(0)?)?;
    let before = devices.read(0, 0, size)?;
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mutant = match seed % 3 {
            0 => blind::mutant(&devices, &mut random)?,
            _ => structure.mutant(&mut random)?,
        };
        let undo = devices.apply(&mutant)?;
        devices.restore(undo)?;
    }
    ensure!(devices.read(0, 0, size)? == before, "a mutant left traces");
    Ok(())
}

#[test]
fn the_same_seed_makes_the_same_mutant() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let devices = devices(directory.path())?;
    let structure = Structure::read(&devices)?.context("the pool is a single disk")?;
    for seed in 0..20 {
        let one = structure.mutant(&mut Random::new(seed))?;
        let two = structure.mutant(&mut Random::new(seed))?;
        ensure!(one.writes == two.writes, "seed {seed}: {}", one.description);
    }
    Ok(())
}

/// OpenZFS's `zdb` reads what the mutator wrote, where it is installed: then every address and
/// checksum on the way up is right.
fn another_reader_accepts(make: impl Fn(&Structure<'_>) -> Result<Mutant>) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let devices = devices(directory.path())?;
    let structure = Structure::read(&devices)?.context("the pool is a single disk")?;
    let golden = Golden::find(KIND)?.context("the repository carries this pool")?;
    let undo = devices.apply(&make(&structure)?)?;
    let place = directory.path().to_str().context("a path in UTF-8")?;
    let Some(output) = referee::zdb(&["-e", "-dd", "-p", place, &golden.manifest.pool])? else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{text}{errors}");
    for dataset in golden.manifest.datasets.keys() {
        ensure!(
            text.contains(&format!("Dataset {dataset} ")),
            "{dataset} is missing:\n{text}"
        );
    }
    devices.restore(undo)
}

#[test]
fn another_reader_accepts_moved_blocks() -> Result<()> {
    another_reader_accepts(|structure| structure.harmless_mutant(&mut Random::new(1)))
}

#[test]
fn another_reader_accepts_the_other_byte_order() -> Result<()> {
    another_reader_accepts(|structure| structure.big_endian_mutant())
}

/// Whatever pool is here, its structure can be read, and its mutants can be made.
#[test]
fn every_pool_has_mutants() -> Result<()> {
    for kind in cenote_tests::golden::kinds() {
        let golden = Golden::find(&kind)?.context("it was just listed")?;
        let directory = tempfile::tempdir()?;
        let devices = Devices::open(golden.copy_to(directory.path())?)?;
        let structure = Structure::read(&devices)?;
        let blocks = structure.as_ref().map(Structure::blocks);
        let log_blocks = structure.as_ref().map_or(0, Structure::log_blocks);
        eprintln!("{kind}: blocks to change: {blocks:?}, of logs: {log_blocks}");
        ensure!(
            log_blocks > 0 || !kind.starts_with("dirty"),
            "{kind}: {log_blocks}"
        );
        // Deduplicated indirect blocks are entered once, so one kind has only 90.
        ensure!(blocks > Some(80), "{kind}: {blocks:?} blocks");
        for number in 0..8 {
            let mutant = cenote_tests::zoo::mutant(&devices, structure.as_ref(), &kind, 1, number)
                .with_context(|| format!("{kind} mutant {number}"))?;
            eprintln!(
                "  {number}: {} ({} writes)",
                mutant.description,
                mutant.writes.len()
            );
        }
    }
    Ok(())
}
