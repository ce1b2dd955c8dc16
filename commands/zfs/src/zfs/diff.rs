//! `zfs diff`.

use cenote_control::model::{
    ControlError, DatasetKind, Depth, DiffChange, DiffRecord, KindSet, Part, PropertySelection,
    RawName, Request, Response,
};

use cenote_words::context::{Context, Outcome, failed, usage};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::texts::{cannot_open, check_name, with_context};

/// `zfs diff [-FHth] SNAPSHOT [SNAPSHOT|FILESYSTEM]`
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let marks = Marks::of(&parsed);
    let (from, to) = match parsed.operands.as_slice() {
        [] => return usage("must provide at least one snapshot name"),
        [from] => (from, None),
        [from, to] => (from, Some(to)),
        _ => return usage("too many arguments"),
    };
    let Some((filesystem, _)) = from.split_once('@') else {
        return failed(format!(
            "Badly formed snapshot name {from}: missing '@' delimiter in snapshot name"
        ));
    };
    if let Err(fault) = check_name(from, true, false) {
        return failed(format!("Badly formed snapshot name {from}: {fault}"));
    }
    // `@b` means a snapshot of the same file system.
    let to = match to {
        Some(word) if word.starts_with('@') => Some(format!("{filesystem}{word}")),
        Some(word) => Some(word.clone()),
        None => None,
    };
    let newer = to
        .as_deref()
        .map_or(filesystem, |to| to.split('@').next().unwrap_or(to));
    let newer = newer.to_owned();
    // The file system itself, or a clone of it.
    let to = to.filter(|to| to != filesystem);
    let request = Request::Diff {
        from: from.clone(),
        to,
    };
    let mut records = Vec::new();
    let answer = context.ask_in_parts(request, &mut |part| {
        if let Part::Diff(more) = part {
            records.extend(more);
        }
    });
    match answer {
        Ok(_) => {}
        Err(error @ ControlError::NotEarlier { .. }) => {
            return failed(format!("Unable to obtain diffs: \n   {error}"));
        }
        Err(ControlError::NoSuchDataset { dataset })
            if dataset.contains('@') && is_there(&dataset, context) =>
        {
            return failed(format!("cannot open '{dataset}': snapshot does not exist"));
        }
        Err(error @ (ControlError::NoSuchDataset { .. } | ControlError::WrongKind { .. })) => {
            return failed(cannot_open(&named_in(&error, from), &error));
        }
        Err(error) => return failed(with_context(&format!("Unable to diff '{from}'"), &error)),
    }
    let Some(mountpoint) = mountpoint(&newer, context) else {
        return failed("Cannot diff an unmounted snapshot");
    };
    for record in &records {
        let line = text(record, &mountpoint, marks);
        context.print_bytes(&line);
    }
    Ok(0)
}

/// Whether the file system of a snapshot exists.
fn is_there(snapshot: &str, context: &mut Context) -> bool {
    let filesystem = snapshot.split('@').next().unwrap_or(snapshot);
    let request = Request::DatasetList {
        roots: vec![filesystem.to_owned()],
        depth: Depth::Roots,
        kinds: KindSet::of(DatasetKind::Filesystem),
        properties: PropertySelection::Named(Vec::new()),
    };
    let listing = context.ask_datasets(request);
    listing.is_ok_and(|listing| !listing.rows.is_empty())
}

/// The file system that an error concerns.
fn named_in(error: &ControlError, otherwise: &str) -> String {
    let name = match error {
        ControlError::NoSuchDataset { dataset } | ControlError::WrongKind { dataset } => dataset,
        _ => otherwise,
    };
    name.split('@').next().unwrap_or(name).to_owned()
}

fn mountpoint(dataset: &str, context: &mut Context) -> Option<String> {
    let Ok(Response::Mounts { mounts }) = context.ask(Request::MountList) else {
        return None;
    };
    let mount = mounts.into_iter().find(|mount| mount.dataset == dataset)?;
    Some(mount.mountpoint.trim_end_matches('/').to_owned())
}

/// The optional parts of a line.
#[derive(Clone, Copy)]
struct Marks {
    time: bool,
    file_type: bool,
    plain: bool,
    script: bool,
}

impl Marks {
    fn of(parsed: &Parsed) -> Self {
        Marks {
            time: parsed.has("t"),
            file_type: parsed.has("F"),
            plain: parsed.has("h"),
            script: parsed.has("H"),
        }
    }
}

fn text(record: &DiffRecord, mountpoint: &str, marks: Marks) -> Vec<u8> {
    let mut line = Vec::new();
    if marks.time {
        let (seconds, nanoseconds) = record.changed;
        line.extend(format!("{seconds:10}.{nanoseconds:09}\t").bytes());
    }
    line.push(match record.change {
        DiffChange::Added => b'+',
        DiffChange::Removed => b'-',
        DiffChange::Modified { .. } => b'M',
        DiffChange::Renamed { .. } => b'R',
    });
    line.push(b'\t');
    if marks.file_type {
        line.extend(record.file_type.to_string().bytes());
        line.push(b'\t');
    }
    push_path(&mut line, mountpoint, &record.path, marks.plain);
    match &record.change {
        DiffChange::Renamed { to } => {
            let arrow: &[u8] = if marks.script { b"\t" } else { b" -> " };
            line.extend(arrow);
            push_path(&mut line, mountpoint, to, marks.plain);
        }
        DiffChange::Modified { links } if *links != 0 => {
            line.extend(format!("\t({links:+})").bytes());
        }
        _ => {}
    }
    line.push(b'\n');
    line
}

/// Appends the path below the mount point. Unless `plain`, spaces, backslashes and bytes outside
/// printable ASCII are written as `\0NNN`.
fn push_path(line: &mut Vec<u8>, mountpoint: &str, path: &RawName, plain: bool) {
    let bytes = mountpoint.bytes().chain(path.0.iter().copied());
    for byte in bytes {
        if plain || (byte.is_ascii_graphic() && byte != b'\\') {
            line.push(byte);
        } else {
            line.extend(format!("\\{byte:04o}").bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(change: DiffChange, letters: &str) -> String {
        let record = DiffRecord {
            change,
            path: RawName::from("/a b\\"),
            file_type: 'F',
            changed: (1_700_000_000, 7),
        };
        let words: Vec<String> = letters.chars().map(|c| format!("-{c}")).collect();
        let parsed = crate::zfs::PROGRAM.parse("diff", &words).expect("options");
        String::from_utf8(super::text(&record, "/tank", Marks::of(&parsed))).expect("ASCII")
    }

    #[test]
    fn lines_have_the_marks_of_the_contract() {
        assert_eq!(text(DiffChange::Added, "h"), "+\t/tank/a b\\\n");
        assert_eq!(text(DiffChange::Removed, ""), "-\t/tank/a\\0040b\\0134\n");
        let links = DiffChange::Modified { links: 1 };
        assert_eq!(text(links, "h"), "M\t/tank/a b\\\t(+1)\n");
        let renamed = DiffChange::Renamed {
            to: RawName::from("/c"),
        };
        assert_eq!(text(renamed.clone(), "h"), "R\t/tank/a b\\ -> /tank/c\n");
        let all = "1700000000.000000007\tR\tF\t/tank/a b\\\t/tank/c\n";
        assert_eq!(text(renamed, "hHFt"), all);
    }
}
