//! Real pools: what OpenZFS printed about the golden pools while they were imported.

use std::path::PathBuf;

use cenote_control::model::properties::POOL;
use cenote_control::model::{Dataset, PoolHealth, PoolRow};

use super::run;
use super::world::{Canned, parse_datasets, parse_lines};

/// The recorded sections of each golden pool: command line and output.
fn golden() -> Vec<(String, Vec<(String, String)>)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/pools");
    let kinds = std::fs::read_dir(root).expect("the golden pools are in the repository");
    let mut all = Vec::new();
    for kind in kinds.flatten() {
        let Ok(text) = std::fs::read_to_string(kind.path().join("zfs-get.txt")) else {
            continue;
        };
        let mut sections: Vec<(String, String)> = Vec::new();
        for line in text.lines() {
            if let Some(command) = line.strip_prefix("# ") {
                sections.push((command.to_owned(), String::new()));
            } else if let Some((_, output)) = sections.last_mut() {
                output.push_str(line);
                output.push('\n');
            }
        }
        let name = kind.file_name().to_string_lossy().into_owned();
        all.push((name, sections));
    }
    all.sort();
    all
}

fn section<'a>(sections: &'a [(String, String)], start: &str) -> &'a str {
    let found = sections
        .iter()
        .find(|(command, _)| command.starts_with(start));
    &found.expect("every recording has it").1
}

fn world(sections: &[(String, String)]) -> Canned {
    let lines = section(sections, "zpool get all");
    let properties = parse_lines(lines, POOL);
    let datasets: Vec<Dataset> = parse_datasets(section(sections, "zfs get"));
    let row = PoolRow {
        name: properties[0].0.clone(),
        guid: 0,
        txg: 0,
        version: 5000,
        health: PoolHealth::Online,
        properties: properties
            .into_iter()
            .map(|(_, property)| property)
            .collect(),
        vdevs: None,
    };
    Canned {
        pools: vec![row],
        datasets,
        ..Canned::empty()
    }
}

#[test]
fn recorded_properties_come_out_as_they_were() {
    let all = golden();
    if all.is_empty() {
        cenote_tests::skip!("there are no golden pools");
        return;
    }
    for (kind, sections) in all {
        let world = world(&sections);
        let ran = run("zfs get -Hp all -r -t all", world.clone());
        assert_eq!(ran.code, 0, "{kind}: {}", ran.err);
        assert_eq!(ran.out, section(&sections, "zfs get"), "{kind}");
        let columns = "name,type,used,refer,logicalreferenced,compressratio,creation,guid";
        let ran = run(&format!("zfs list -t all -Hp -o {columns}"), world.clone());
        assert_eq!(ran.out, section(&sections, "zfs list"), "{kind}");
        let ran = run("zpool get all -Hp", world);
        let expected = section(&sections, "zpool get all");
        // A pool's health is derived from the pool itself and is not recorded separately.
        let health = |text: &str| -> Vec<String> {
            let other = |line: &&str| !line.contains("\thealth\t");
            text.lines().filter(other).map(str::to_owned).collect()
        };
        assert_eq!(health(&ran.out), health(expected), "{kind}");
    }
}
