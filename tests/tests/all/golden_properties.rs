//! What `zfs` and `zpool` print about every golden pool, compared with what OpenZFS printed.
//!
//! OpenZFS's output was taken while the pool was imported for writing, before its files were read
//! (which wrote access times) and before it was exported. So sizes moved on by a little, and are
//! compared roughly; what `zdb` said of the exported pool is compared exactly. A few properties
//! depend on how a pool is imported, and are named here with the reason. All else must be equal.

use anyhow::{Context, Result, ensure};
use cenote_tests::golden::Golden;
use cenote_tests::pool::{self, Import};
use cenote_tests::program::Cenote;
use cenote_tests::{skip, test_each_golden_pool};
use std::collections::BTreeMap;
use std::fs;

/// Differences that are shown.
const SHOWN_MAX: usize = 30;

/// Bytes by which space may have changed in the last transaction groups before the export.
const SPACE_TOLERANCE: u64 = 4 << 20;

/// Sections of OpenZFS's output, by the first words of their heading.
fn section<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with(heading));
    lines.next();
    lines.take_while(|line| !line.starts_with("# ")).collect()
}

/// (name, property) to (value, source).
type Properties<'a> = BTreeMap<(&'a str, &'a str), (&'a str, &'a str)>;

fn properties<'a>(lines: impl Iterator<Item = &'a str>) -> Properties<'a> {
    let mut properties = Properties::new();
    for line in lines {
        let mut fields = line.splitn(4, '\t');
        let mut next = || fields.next().unwrap_or("");
        let (name, property, value, source) = (next(), next(), next(), next());
        properties.insert((name, property), (value, source));
    }
    properties
}

fn compare_output(kind: &str) -> Result<()> {
    let Some(golden) = Golden::find(kind)? else {
        return Ok(());
    };
    let path = golden.directory.join("zfs-get.txt");
    let Ok(text) = fs::read_to_string(&path) else {
        skip!("{kind} has no zfs-get.txt");
        return Ok(());
    };
    // The text was written before the intent log, so the pool is imported without a replay.
    let mut import = Import::of(&golden);
    import.options.retain(|option| option == "-f");
    let cenote = Cenote::new()?;
    pool::import(&cenote, &golden, &golden.devices()?, &import)?;
    let pool = &golden.manifest.pool;
    let mut differences = Vec::new();
    dataset_list(&cenote, pool, &text, &mut differences)?;
    dataset_properties(&cenote, &golden, &text, &mut differences)?;
    referenced_space(&cenote, &golden, &mut differences)?;
    pool_properties(&cenote, pool, &text, &mut differences)?;
    pool_status(&cenote, pool, &text, &mut differences)?;
    let shown = &differences[..differences.len().min(SHOWN_MAX)];
    ensure!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        shown.join("\n")
    );
    Ok(())
}

/// `zfs list -t all`: the rows and their order, and the columns that are no sizes.
fn dataset_list(
    cenote: &Cenote,
    pool: &str,
    text: &str,
    differences: &mut Vec<String>,
) -> Result<()> {
    let output = cenote.ok(&format!(
        "zfs list -t all -r -Hp -o name,type,creation,guid {pool}"
    ))?;
    let have: Vec<&str> = output.lines().collect();
    // name, type, used, refer, logicalreferenced, compressratio, creation, guid
    let want = section(text, "# zfs list -t all").into_iter().map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        [0, 1, 6, 7].map(|column| fields[column]).join("\t")
    });
    let want: Vec<String> = want.collect();
    if want != have {
        differences.push(format!("zfs list: {have:#?}, wanted {want:#?}"));
    }
    Ok(())
}

/// Bytes and object set of each dataset and snapshot, as `zdb -dddd` says of the exported pool.
fn referenced_space(cenote: &Cenote, golden: &Golden, differences: &mut Vec<String>) -> Result<()> {
    let Ok(text) = fs::read_to_string(golden.directory.join("zdb.txt")) else {
        skip!("{} has no zdb.txt", golden.kind);
        return Ok(());
    };
    let pool = &golden.manifest.pool;
    let columns = "name,property,value";
    let wanted = "referenced,objsetid,createtxg";
    let output = cenote.ok(&format!(
        "zfs get -r -t all -Hp -o {columns} {wanted} {pool}"
    ))?;
    let have = properties(output.lines());
    // Dataset NAME [ZPL], ID 74, cr_txg 14, 2039808, 281 objects, ...
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("Dataset "));
    for line in lines {
        let fields: Vec<&str> = line.split(", ").collect();
        let Some((name, _)) = fields[0].rsplit_once(" [") else {
            continue;
        };
        // The summary has rounded sizes, and the pool's own metadata is no dataset.
        let is_exact = fields.len() > 4 && fields[3].bytes().all(|byte| byte.is_ascii_digit());
        if !is_exact || !have.contains_key(&(name, "referenced")) {
            continue;
        }
        let wanted = [
            ("objsetid", fields[1].trim_start_matches("ID ")),
            ("createtxg", fields[2].trim_start_matches("cr_txg ")),
            ("referenced", fields[3]),
        ];
        for (property, want) in wanted {
            let found = have.get(&(name, property)).map(|found| found.0);
            if found != Some(want) {
                differences.push(format!("{name} {property}: {found:?}, zdb says {want}"));
            }
        }
    }
    Ok(())
}

/// How a dataset's property is compared.
enum Rule {
    /// The same value from the same source.
    Exact,
    /// A number of bytes that moved on.
    Near,
    /// Not at all.
    Loose,
}

fn rule(kind: &str, property: &str) -> Rule {
    let sizes = [
        "used",
        "referenced",
        "logicalused",
        "logicalreferenced",
        "written",
        "usedbydataset",
        "usedbysnapshots",
        "usedbychildren",
        "usedbyrefreservation",
    ];
    match property {
        // Of a pool that is imported read-only and without mounts.
        "mounted" | "readonly" => Rule::Loose,
        // What is free depends on what the last transaction groups freed.
        "available" => Rule::Loose,
        // Follow from the sizes.
        "compressratio" | "refcompressratio" => Rule::Loose,
        // Stored only by pools with features; others knew it as long as they were imported.
        "snapshots_changed" if ["version28", "legacy-features-off"].contains(&kind) => Rule::Loose,
        // The same contents, deflated by another compressor: the bytes differ.
        "receive_resume_token" => Rule::Loose,
        _ if sizes.contains(&property) => Rule::Near,
        _ => Rule::Exact,
    }
}

fn dataset_properties(
    cenote: &Cenote,
    golden: &Golden,
    text: &str,
    differences: &mut Vec<String>,
) -> Result<()> {
    let pool = &golden.manifest.pool;
    let output = cenote.ok(&format!("zfs get -r -t all -Hp all {pool}"))?;
    let have = properties(output.lines());
    let want = properties(section(text, "# zfs get").into_iter());
    for ((name, property), want) in &want {
        let found = have.get(&(*name, *property));
        let is_right = match rule(&golden.kind, property) {
            Rule::Loose => true,
            Rule::Near => found.is_some_and(|found| is_near(found.0, want.0).unwrap_or(false)),
            Rule::Exact => found == Some(want),
        };
        if !is_right {
            differences.push(format!("{name} {property}: {found:?}, wanted {want:?}"));
        }
    }
    Ok(())
}

fn pool_properties(
    cenote: &Cenote,
    pool: &str,
    text: &str,
    differences: &mut Vec<String>,
) -> Result<()> {
    let output = cenote.ok(&format!("zpool get -Hp all {pool}"))?;
    let have = properties(output.lines());
    let want = properties(section(text, "# zpool get").into_iter());
    for ((name, property), want) in &want {
        let Some(have) = have.get(&(*name, *property)) else {
            differences.push(format!("zpool {property}: missing, wanted {want:?}"));
            continue;
        };
        let is_right = match *property {
            // Random at each import.
            "load_guid" => true,
            // Options of the import.
            "readonly" | "cachefile" => true,
            // Given when the pool was made, and not stored.
            "ashift" => true,
            // Follows from the two below, rounded.
            "fragmentation" | "capacity" => true,
            "allocated" | "free" | "dedup_table_size" => is_near(have.0, want.0)?,
            "checkpoint" if want.0 != "-" => is_near(have.0, want.0)?,
            _ => have == want,
        };
        if !is_right {
            differences.push(format!("zpool {property}: {have:?}, wanted {want:?}"));
        }
    }
    Ok(())
}

fn is_near(have: &str, want: &str) -> Result<bool> {
    let number = |text: &str| text.parse::<u64>().with_context(|| text.to_string());
    Ok(number(have)?.abs_diff(number(want)?) <= SPACE_TOLERANCE)
}

/// `zpool status`: the state, the table of devices, and the messages about errors and past work.
/// The message about features is left out: it depends on how many the software knows.
fn pool_status(
    cenote: &Cenote,
    pool: &str,
    text: &str,
    differences: &mut Vec<String>,
) -> Result<()> {
    let output = cenote.ok(&format!("zpool status -v {pool}"))?;
    let want = essential(&section(text, "# zpool status"));
    let have = essential(&output.lines().collect::<Vec<_>>());
    if want != have {
        let (have, want) = (have.join("\n  "), want.join("\n  "));
        differences.push(format!("zpool status:\n  {have}\nwanted:\n  {want}"));
    }
    Ok(())
}

/// The lines of a status that do not depend on the paths of the devices or on the machine.
fn essential(lines: &[&str]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut is_remark = false;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(first) = words.first() else {
            continue;
        };
        is_remark =
            ["status:", "action:", "see:"].contains(first) || (is_remark && line.starts_with('\t'));
        if is_remark || *first == "config:" {
            is_remark = *first != "config:";
            continue;
        }
        // How far an expansion came, and how fast, was another matter at another time.
        if line.contains(" copied at ") {
            continue;
        }
        // What is not replayed was replayed, or not yet written.
        if line.trim() == "intent log:" {
            break;
        }
        if let Some((line, _)) = line.split_once(", consumes ") {
            kept.push(line.to_string());
            continue;
        }
        // A device is known by the last part of its path; widths follow from the names.
        let words = words.iter().map(|word| match word.rsplit_once('/') {
            Some((_, name)) if word.starts_with('/') => name,
            _ => disk_image(word),
        });
        kept.push(words.collect::<Vec<_>>().join(" "));
    }
    kept
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

test_each_golden_pool!(compare_output);
