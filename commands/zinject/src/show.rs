//! How faults are printed: one line each, in a table for each kind.

use cenote_control::model::{Injected, InjectedError, InjectedLabel, InjectedWork, InjectionRow};

fn error_name(error: InjectedError) -> &'static str {
    match error {
        InjectedError::Io => "io",
        InjectedError::Nxio => "nxio",
        InjectedError::Checksum => "checksum",
        InjectedError::Decompress => "decompress",
        InjectedError::Decrypt => "decrypt",
        InjectedError::Corrupt => "corrupt",
        InjectedError::Dtl => "dtl",
        InjectedError::Noop => "noop",
    }
}

fn work_name(work: InjectedWork) -> &'static str {
    match work {
        InjectedWork::All => "all",
        InjectedWork::Read => "read",
        InjectedWork::Write => "write",
        InjectedWork::Free => "free",
        InjectedWork::Flush => "flush",
        InjectedWork::Probe => "probe",
    }
}

fn label_name(label: InjectedLabel) -> &'static str {
    match label {
        InjectedLabel::Nvlist => "nvlist",
        InjectedLabel::Pad1 => "pad1",
        InjectedLabel::Pad2 => "pad2",
        InjectedLabel::Uber => "uber",
    }
}

fn percent(per_million: u32) -> String {
    format!("{}.{:04}%", per_million / 10_000, per_million % 10_000)
}

fn range(blocks: Option<(u64, u64)>) -> String {
    match blocks {
        None => "all".to_owned(),
        Some((start, end)) => format!("[{start}, {end}]"),
    }
}

/// Which table a fault is in.
fn kind(fault: &Injected) -> usize {
    match fault {
        Injected::Blocks { .. } => 0,
        Injected::Device { .. } => 1,
        Injected::Delay { .. } => 2,
        Injected::Import { .. } | Injected::Export { .. } => 3,
    }
}

/// The heads of the tables: names of columns and their widths.
const TABLES: [&[(&str, usize)]; 4] = [
    &[
        ("OBJSET", 6),
        ("OBJECT", 6),
        ("TYPE", 8),
        ("LVL", 3),
        ("DVAs", 4),
        ("RANGE", 15),
        ("ERROR", 10),
        ("FREQ", 9),
    ],
    &[
        ("GUID", 16),
        ("TYPE", 5),
        ("ERROR", 10),
        ("LABEL", 6),
        ("FREQ", 9),
    ],
    &[("DELAY (ms)", 15), ("LANES", 15), ("GUID", 16)],
    &[("FUNCTION", 8), ("SECONDS", 7)],
];

fn cells(fault: &Injected) -> Vec<String> {
    match fault {
        Injected::Blocks {
            objset,
            object,
            object_type,
            level,
            blocks,
            error,
            per_million,
            copies,
        } => vec![
            objset.to_string(),
            object.map_or("-".to_owned(), |object| object.to_string()),
            object_type.map_or("-".to_owned(), |kind| kind.to_string()),
            level.to_string(),
            format!("{copies:#04x}"),
            range(*blocks),
            error_name(*error).to_owned(),
            percent(*per_million),
        ],
        Injected::Device {
            guid,
            error,
            work,
            label,
            per_million,
        } => vec![
            format!("{guid:x}"),
            work_name(*work).to_owned(),
            error_name(*error).to_owned(),
            label.map_or("-", label_name).to_owned(),
            percent(*per_million),
        ],
        Injected::Delay {
            guid,
            latency_ms,
            lanes,
        } => vec![
            latency_ms.to_string(),
            lanes.to_string(),
            format!("{guid:x}"),
        ],
        Injected::Import { seconds } => vec!["import".to_owned(), seconds.to_string()],
        Injected::Export { seconds } => vec!["export".to_owned(), seconds.to_string()],
    }
}

/// All faults, each kind in a table of its own.
pub(crate) fn table(rows: &[InjectionRow]) -> String {
    if rows.is_empty() {
        return "No handlers registered.\n".to_owned();
    }
    let mut text = String::new();
    for (index, columns) in TABLES.iter().enumerate() {
        let of_kind = rows.iter().filter(|row| kind(&row.fault) == index);
        let of_kind: Vec<&InjectionRow> = of_kind.collect();
        if of_kind.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        let columns: Vec<(&str, usize)> = [("ID", 3), ("POOL", 15)]
            .into_iter()
            .chain(columns.iter().copied())
            .collect();
        let line = |cells: Vec<String>| {
            let cells = cells.iter().zip(&columns).enumerate();
            let padded = cells.map(|(place, (cell, (_, width)))| match place {
                0 => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            });
            let padded: Vec<String> = padded.collect();
            format!("{}\n", padded.join("  ").trim_end())
        };
        text.push_str(&line(
            columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
        ));
        text.push_str(&line(
            columns
                .iter()
                .map(|(_, width)| "-".repeat(*width))
                .collect(),
        ));
        for row in of_kind {
            let mut all = vec![row.id.to_string(), row.pool.clone()];
            all.extend(cells(&row.fault));
            text.push_str(&line(all));
        }
    }
    text
}

/// A fault that was just added.
pub(crate) fn added(row: &InjectionRow) -> String {
    let mut text = format!(
        "Added handler {} with the following properties:\n  pool: {}\n",
        row.id, row.pool
    );
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:>6}: {value}\n"));
    match &row.fault {
        Injected::Device { guid, .. } | Injected::Delay { guid, .. } => {
            line("vdev", format!("{guid:x}"));
        }
        Injected::Blocks {
            objset,
            object,
            object_type,
            level,
            blocks,
            copies,
            ..
        } => {
            line("objset", objset.to_string());
            line("object", object.unwrap_or(0).to_string());
            line("type", object_type.unwrap_or(0).to_string());
            line("level", level.to_string());
            line("range", range(*blocks));
            line("dvas", format!("{copies:#x}"));
        }
        Injected::Import { seconds } => line("import", format!("{seconds} s longer")),
        Injected::Export { seconds } => line("export", format!("{seconds} s longer")),
    }
    text
}
