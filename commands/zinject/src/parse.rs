//! What a command line asks to be injected.

use crate::file::Found;
use cenote_control::model::{
    InjectAct, InjectedError, InjectedLabel, InjectedMetadata, InjectedPlace, InjectedWork,
    Injection,
};
use cenote_words::context::{Stop, usage};
use cenote_words::getopt::Parsed;

/// The parts of a whole, as the daemon counts them.
const MILLION: u32 = 1_000_000;
/// Copies that a block has at most.
const COPIES_MAX: u32 = 3;

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Wanted {
    Act(InjectAct),
    OfFile(OfFile),
}

/// A fault in a file that is still to be found.
#[derive(Debug)]
pub(crate) struct OfFile {
    pub path: String,
    pub remounts: bool,
    is_dnode: bool,
    level: u8,
    bytes: Option<(u64, u64)>,
    error: InjectedError,
    per_million: u32,
    copies: u8,
    flush: bool,
}

impl OfFile {
    pub fn act(&self, found: &Found) -> InjectAct {
        let (dataset, object, level) = (found.dataset.clone(), found.object, self.level);
        let place = match self.is_dnode {
            true => InjectedPlace::Dnode {
                dataset,
                object,
                level,
            },
            false => InjectedPlace::File {
                dataset,
                object,
                level,
                bytes: self.bytes,
            },
        };
        InjectAct::Add {
            pool: found.pool(),
            fault: Injection::Blocks {
                place,
                error: self.error,
                per_million: self.per_million,
                copies: self.copies,
            },
            flush: self.flush,
        }
    }
}

/// The one operand.
fn operand(parsed: &Parsed, what: &str) -> Result<String, Stop> {
    match parsed.operands.as_slice() {
        [one] => Ok(one.clone()),
        [] => usage(format!("the {what} is missing")),
        _ => usage("too many operands"),
    }
}

pub(crate) fn wanted(parsed: &Parsed) -> Result<Wanted, Stop> {
    if parsed.given("A") {
        return blame(parsed);
    }
    if parsed.given("D") {
        return delay(parsed);
    }
    if parsed.given("d") {
        return device(parsed);
    }
    if parsed.given("P") || parsed.given("i") {
        return pause(parsed);
    }
    if parsed.given("b") {
        return bookmark(parsed);
    }
    of_type(parsed)
}

fn blame(parsed: &Parsed) -> Result<Wanted, Stop> {
    parsed.only(&["d", "A"])?;
    let fault = match parsed.last("A").unwrap_or_default() {
        "fault" => true,
        "degrade" => false,
        other => return usage(format!("'{other}' is neither 'degrade' nor 'fault'")),
    };
    Ok(Wanted::Act(InjectAct::Blame {
        pool: operand(parsed, "pool")?,
        device: device_name(parsed)?,
        fault,
    }))
}

fn device_name(parsed: &Parsed) -> Result<String, Stop> {
    match parsed.last("d") {
        Some(device) if !device.is_empty() => Ok(device.to_owned()),
        _ => usage("the device is missing: -d DEVICE"),
    }
}

fn add_to_pool(parsed: &Parsed, fault: Injection) -> Result<Wanted, Stop> {
    Ok(Wanted::Act(InjectAct::Add {
        pool: operand(parsed, "pool")?,
        fault,
        flush: parsed.has("a"),
    }))
}

fn delay(parsed: &Parsed) -> Result<Wanted, Stop> {
    parsed.only(&["d", "D", "T", "a", "q"])?;
    let word = parsed.last("D").unwrap_or_default();
    let parts = word.split_once(':');
    let numbers = parts.and_then(|(latency, lanes)| {
        Some((latency.trim().parse().ok()?, lanes.trim().parse().ok()?))
    });
    let Some((latency_ms, lanes)) = numbers else {
        return usage(format!("'{word}' is not LATENCY:LANES, such as 25:1"));
    };
    let work = work(parsed)?;
    let all = [InjectedWork::All, InjectedWork::Read, InjectedWork::Write];
    if !all.contains(&work) {
        return usage("only reads and writes can be delayed");
    }
    let device = device_name(parsed)?;
    add_to_pool(
        parsed,
        Injection::Delay {
            device,
            latency_ms,
            lanes,
            work,
        },
    )
}

fn device(parsed: &Parsed) -> Result<Wanted, Stop> {
    parsed.only(&["d", "e", "L", "T", "f", "a", "q"])?;
    let (error, work) = (error(parsed, InjectedError::Nxio)?, work(parsed)?);
    if error == InjectedError::Corrupt && work != InjectedWork::Read {
        return usage("'-e corrupt' needs '-T read': it changes what is read");
    }
    let label = match parsed.last("L") {
        None => None,
        Some("nvlist") => Some(InjectedLabel::Nvlist),
        Some("pad1") => Some(InjectedLabel::Pad1),
        Some("pad2") => Some(InjectedLabel::Pad2),
        Some("uber") => Some(InjectedLabel::Uber),
        Some(other) => {
            return usage(format!(
                "'{other}' is no part of a label: nvlist, pad1, pad2, uber"
            ));
        }
    };
    let (device, per_million) = (device_name(parsed)?, share(parsed)?);
    add_to_pool(
        parsed,
        Injection::Device {
            device,
            error,
            work,
            label,
            per_million,
        },
    )
}

fn pause(parsed: &Parsed) -> Result<Wanted, Stop> {
    let is_short = parsed.given("i");
    let (allowed, name): (&[&str], _) = match is_short {
        true => (&["i", "q"], "i"),
        false => (&["P", "s", "q"], "s"),
    };
    parsed.only(allowed)?;
    let word = parsed.last(name).unwrap_or_default();
    let Ok(seconds) = word.parse() else {
        return usage(format!("'{word}' is no number of seconds: -s SECONDS"));
    };
    let what = match is_short {
        true => "import",
        false => parsed.last("P").unwrap_or_default(),
    };
    let fault = match what {
        "import" => Injection::Import { seconds },
        "export" => Injection::Export { seconds },
        other => return usage(format!("'{other}' is neither 'import' nor 'export'")),
    };
    Ok(Wanted::Act(InjectAct::Add {
        pool: operand(parsed, "pool")?,
        fault,
        flush: false,
    }))
}

/// What all faults of blocks have: the error, the share, the copies.
fn of_blocks(parsed: &Parsed) -> Result<(InjectedError, u32, u8), Stop> {
    if !matches!(work(parsed)?, InjectedWork::All | InjectedWork::Read) {
        return usage("blocks fail when they are read: '-T read'");
    }
    let error = error(parsed, InjectedError::Io)?;
    let copies = copies(parsed)?;
    let is_of_contents = [InjectedError::Decompress, InjectedError::Decrypt].contains(&error);
    if copies != 0 && is_of_contents {
        return usage("-C is for errors of copies: contents are decoded once");
    }
    Ok((error, share(parsed)?, copies))
}

fn bookmark(parsed: &Parsed) -> Result<Wanted, Stop> {
    parsed.only(&["b", "e", "C", "f", "T", "a", "q"])?;
    let word = parsed.last("b").unwrap_or_default();
    let numbers: Result<Vec<u64>, _> = word
        .split(':')
        .map(|part| u64::from_str_radix(part.trim_start_matches("0x"), 16))
        .collect();
    let place = match numbers.as_deref() {
        Ok([objset, object, level, start]) => Some([*objset, *object, *level, *start, *start]),
        Ok([objset, object, level, start, end]) => Some([*objset, *object, *level, *start, *end]),
        _ => None,
    };
    let level = place.and_then(|[_, _, level, ..]| u8::try_from(level).ok());
    let (Some([objset, object, _, start, end]), Some(level)) = (place, level) else {
        return usage(format!(
            "'{word}' is not OBJSET:OBJECT:LEVEL:START[:END] in hexadecimal"
        ));
    };
    let (error, per_million, copies) = of_blocks(parsed)?;
    let place = InjectedPlace::Bookmark {
        objset,
        object,
        level,
        start,
        end,
    };
    add_to_pool(
        parsed,
        Injection::Blocks {
            place,
            error,
            per_million,
            copies,
        },
    )
}

fn of_type(parsed: &Parsed) -> Result<Wanted, Stop> {
    let metadata = match parsed.last("t").unwrap_or_default() {
        word @ ("data" | "dnode") => return of_file(parsed, word == "dnode"),
        "mos" => InjectedMetadata::Mos,
        "mosdir" => InjectedMetadata::Mosdir,
        "config" => InjectedMetadata::Config,
        "bpobj" => InjectedMetadata::Bpobj,
        "spacemap" => InjectedMetadata::Spacemap,
        "metaslab" => InjectedMetadata::Metaslab,
        "errlog" => InjectedMetadata::Errlog,
        other => {
            return usage(format!(
                "'{other}' is no type: data, dnode, mos, mosdir, config, bpobj, spacemap, \
                 metaslab, errlog"
            ));
        }
    };
    parsed.only(&["t", "e", "C", "f", "l", "r", "T", "a", "q"])?;
    let (error, per_million, copies) = of_blocks(parsed)?;
    let place = InjectedPlace::Metadata {
        kind: metadata,
        level: level(parsed)?,
        blocks: range(parsed)?,
    };
    add_to_pool(
        parsed,
        Injection::Blocks {
            place,
            error,
            per_million,
            copies,
        },
    )
}

fn of_file(parsed: &Parsed, is_dnode: bool) -> Result<Wanted, Stop> {
    parsed.only(&["t", "e", "C", "f", "l", "r", "T", "a", "m", "q"])?;
    if is_dnode && parsed.given("r") {
        return usage("-r is for the contents of a file");
    }
    let (error, per_million, copies) = of_blocks(parsed)?;
    Ok(Wanted::OfFile(OfFile {
        path: operand(parsed, "file")?,
        remounts: parsed.has("m"),
        is_dnode,
        level: level(parsed)?,
        bytes: range(parsed)?,
        error,
        per_million,
        copies,
        flush: parsed.has("a"),
    }))
}

fn error(parsed: &Parsed, default: InjectedError) -> Result<InjectedError, Stop> {
    Ok(match parsed.last("e") {
        None => default,
        Some("io") => InjectedError::Io,
        Some("nxio") => InjectedError::Nxio,
        Some("checksum") => InjectedError::Checksum,
        Some("decompress") => InjectedError::Decompress,
        Some("decrypt") => InjectedError::Decrypt,
        Some("corrupt") => InjectedError::Corrupt,
        Some("dtl") => InjectedError::Dtl,
        Some("noop") => InjectedError::Noop,
        Some(other) => {
            return usage(format!(
                "'{other}' is no error: checksum, corrupt, decompress, decrypt, dtl, io, noop, nxio"
            ));
        }
    })
}

fn work(parsed: &Parsed) -> Result<InjectedWork, Stop> {
    Ok(match parsed.last("T") {
        None | Some("all") => InjectedWork::All,
        Some("read") => InjectedWork::Read,
        Some("write") => InjectedWork::Write,
        Some("free") => InjectedWork::Free,
        Some("flush") => InjectedWork::Flush,
        Some("probe") => InjectedWork::Probe,
        Some("claim") => return usage("claims of log blocks reach no device"),
        Some(other) => {
            return usage(format!(
                "'{other}' is no kind of request: all, read, write, free, flush, probe"
            ));
        }
    })
}

/// How many requests of a million.
fn share(parsed: &Parsed) -> Result<u32, Stop> {
    let Some(word) = parsed.last("f") else {
        return Ok(MILLION);
    };
    let percent: Option<f64> = word.parse().ok();
    match percent.filter(|percent| (0.0001..=100.0).contains(percent)) {
        Some(percent) => Ok((percent * 10_000.0).round() as u32),
        None => usage(format!("'{word}' is no share: 0.0001 to 100 percent")),
    }
}

fn copies(parsed: &Parsed) -> Result<u8, Stop> {
    let mut mask = 0;
    for word in parsed
        .last("C")
        .into_iter()
        .flat_map(|list| list.split(','))
    {
        match word.parse::<u32>() {
            Ok(copy) if copy < COPIES_MAX => mask |= 1 << copy,
            _ => return usage(format!("'{word}' is no copy: 0, 1 or 2")),
        }
    }
    Ok(mask)
}

/// A number as C reads it: hexadecimal after `0x`.
fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

fn level(parsed: &Parsed) -> Result<u8, Stop> {
    let word = parsed.last("l").unwrap_or("0");
    match number(word).and_then(|level| u8::try_from(level).ok()) {
        Some(level) => Ok(level),
        None => usage(format!("'{word}' is no level")),
    }
}

fn range(parsed: &Parsed) -> Result<Option<(u64, u64)>, Stop> {
    let Some(word) = parsed.last("r").filter(|word| *word != "all") else {
        return Ok(None);
    };
    let (start, end) = word.split_once(',').unwrap_or((word, word));
    match (number(start), number(end)) {
        (Some(start), Some(end)) if start <= end => Ok(Some((start, end))),
        _ => usage(format!("'{word}' is no range: START[,END]")),
    }
}
