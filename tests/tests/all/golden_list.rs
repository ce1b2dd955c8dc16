//! `zpool list -v` of every golden pool, compared with what OpenZFS printed: every row in its
//! place, sizes and health exactly.
//!
//! OpenZFS's output was taken a little before the export. What is allocated may have moved with
//! the last transaction groups, and with it what is free and the two percentages; the figures of a
//! cache device are those of the running system that filled it.

use anyhow::{Result, ensure};
use cenote_tests::golden::Golden;
use cenote_tests::pool::{self, Import};
use cenote_tests::program::Cenote;
use cenote_tests::{skip, test_each_golden_pool};
use std::fs;

/// Bytes by which space may have changed in the last transaction groups before the export.
const SPACE_TOLERANCE: u64 = 4 << 20;

/// Positions of ALLOC and CKPOINT in a row.
const ALLOCATED: [usize; 2] = [2, 4];
/// FREE, FRAG and CAP, which follow from it.
const DERIVED: [usize; 3] = [3, 6, 7];
/// NAME SIZE ALLOC FREE CKPOINT EXPANDSZ FRAG CAP DEDUP HEALTH; ALTROOT is the import's own.
const COLUMNS: usize = 10;

fn compare_list(kind: &str) -> Result<()> {
    let Some(golden) = Golden::find(kind)? else {
        return Ok(());
    };
    let Ok(text) = fs::read_to_string(golden.directory.join("zfs-get.txt")) else {
        skip!("{kind} has no zfs-get.txt");
        return Ok(());
    };
    let mut import = Import::of(&golden);
    import.options.retain(|option| option == "-f");
    let cenote = Cenote::new()?;
    pool::import(&cenote, &golden, &golden.devices()?, &import)?;
    let output = cenote.ok(&format!("zpool list -vHp {}", golden.manifest.pool))?;
    let wanted = text.lines().skip_while(|l| !l.starts_with("# zpool list"));
    let wanted = wanted.skip(1).take_while(|line| !line.starts_with("# "));
    let (have, want) = (rows(output.lines()), rows(wanted));
    let mut differences = Vec::new();
    let mut is_cache = false;
    for (have, want) in have.iter().zip(&want) {
        is_cache = if want.len() == 1 {
            want[0] == "cache"
        } else {
            is_cache
        };
        let fields = have.iter().zip(want).enumerate();
        let wrong = fields.filter(|(field, (have, want))| !is_right(*field, have, want, is_cache));
        if have.len() != want.len() || wrong.count() > 0 {
            differences.push(format!("{have:?}, wanted {want:?}"));
        }
    }
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    ensure!(have.len() == want.len(), "{have:#?}, wanted {want:#?}");
    Ok(())
}

fn is_right(field: usize, have: &str, want: &str, is_cache: bool) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let distance = number(have).zip(number(want)).map(|(h, w)| h.abs_diff(w));
    if ALLOCATED.contains(&field) || DERIVED.contains(&field) {
        let is_near = !ALLOCATED.contains(&field) || distance.is_some_and(|d| d <= SPACE_TOLERANCE);
        return is_cache || have == want || (have != "-" && want != "-" && is_near);
    }
    have == want
}

/// The fields of each row; a heading of a class is one field. Devices are known by the last part
/// of their path.
fn rows<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Vec<&'a str>> {
    let row = |line: &'a str| -> Vec<&'a str> {
        if !line.contains('\t') {
            return vec![line.split(' ').next().unwrap_or("")];
        }
        let mut fields: Vec<&str> = line.trim_start_matches('\t').split('\t').collect();
        fields[0] = match fields[0].rsplit_once('/') {
            Some((_, name)) => name,
            None => disk_image(fields[0]),
        };
        fields.truncate(COLUMNS);
        fields
    };
    lines.filter(|line| !line.is_empty()).map(row).collect()
}

/// The image of what was a disk when OpenZFS looked.
fn disk_image(name: &str) -> &str {
    match name {
        "vdb" => "v0.img",
        "vdc" => "v1.img",
        "vdd" => "v2.img",
        _ => name,
    }
}

test_each_golden_pool!(compare_list);
