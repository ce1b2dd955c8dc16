//! A layout for `-n`: the vdevs that a pool has and those that it would get, by class.

use cenote_control::model::{NewVdev, NewVdevKind, NewVdevRole, VdevNaming, VdevTree};
use cenote_words::vdev_rows::{Row, Section, rows};
use std::os::unix::fs::FileTypeExt;

/// The lines below "… layout:", starting with the pool's name.
pub fn lines(
    pool: &str,
    tree: Option<&VdevTree>,
    new: &[NewVdev],
    naming: VdevNaming,
) -> Vec<String> {
    let mut lines = vec![format!("\t{pool}")];
    let sections = [
        (Section::Normal, NewVdevRole::Normal),
        (Section::Dedup, NewVdevRole::Dedup),
        (Section::Special, NewVdevRole::Special),
        (Section::Logs, NewVdevRole::Log),
        (Section::Cache, NewVdevRole::Cache),
        (Section::Spares, NewVdevRole::Spare),
    ];
    for (section, role) in sections {
        let mut found = Vec::new();
        for row in tree.map_or_else(Vec::new, |tree| rows(section, tree, naming)) {
            let name = match section {
                Section::Normal => row.name.as_str(),
                _ => without_number(&row),
            };
            let indent = 2 * row.depth;
            found.push(format!("\t{:indent$}{name}", ""));
        }
        for vdev in new.iter().filter(|vdev| vdev.role == role) {
            found.extend(group(vdev, naming));
        }
        if section != Section::Normal && !found.is_empty() {
            lines.push(format!("\t{}", section.header()));
        }
        lines.append(&mut found);
    }
    lines
}

/// The name of a group without its number, which OpenZFS shows here only for vdevs with data.
fn without_number<'a>(row: &'a Row<'_>) -> &'a str {
    match row.name.rsplit_once('-') {
        Some((group, _)) if !row.vdev.kind.is_leaf() => group,
        _ => &row.name,
    }
}

fn group(vdev: &NewVdev, naming: VdevNaming) -> Vec<String> {
    let group = match &vdev.kind {
        NewVdevKind::Disk => None,
        NewVdevKind::Mirror => Some("mirror".to_owned()),
        NewVdevKind::Raidz { parity } => Some(format!("raidz{parity}")),
        NewVdevKind::Draid { parity, .. } => Some(format!("draid{parity}")),
    };
    let indent = if group.is_some() { "    " } else { "  " };
    let mut lines: Vec<String> = group
        .map(|group| format!("\t  {group}"))
        .into_iter()
        .collect();
    let leaf = |path: &String| format!("\t{indent}{}", device(path, naming));
    lines.extend(vdev.devices.iter().map(leaf));
    lines
}

/// Disks are shown by their last path component, files by their path.
fn device(path: &str, naming: VdevNaming) -> &str {
    let kind = std::fs::metadata(path).map(|metadata| metadata.file_type());
    match path.rsplit_once('/') {
        Some((_, name)) if !naming.full_path && kind.is_ok_and(|kind| kind.is_block_device()) => {
            name
        }
        _ => path,
    }
}
