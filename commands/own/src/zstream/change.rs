//! `zstream redup`, `recompress` and `decompress`: a stream in, another one out.

use super::dump::system_words;
use super::ends::{Outcome, Stop, finish, input, output, stop};
use cenote_base::ObjectId;
use cenote_codec::compress::Compression;
use cenote_stream::repair::{self, Done, Selection, Target};
use cenote_words::program::CommandLine;
use std::fs::File;

/// The zstd level of `compression=zstd`.
const ZSTD_LEVEL: i32 = 3;
/// The gzip level of `compression=gzip`.
const GZIP_LEVEL: u8 = 6;

/// Runs `zstream redup`.
pub(super) fn redup(line: &CommandLine<'_>) -> Outcome {
    let parsed = line.parse()?;
    let [path] = parsed.operands.as_slice() else {
        return Err(Stop::Usage(String::new()));
    };
    let file = File::open(path).map_err(|error| {
        let reason = system_words(&error);
        Stop::Failed(format!("Error while opening file '{path}': {reason}"))
    })?;
    let mut out = output()?;
    let done = repair::redup(&file, &mut out).map_err(|error| stop(&error))?;
    finish(out)?;
    if parsed.has("v") {
        eprintln!(
            "converted stream with {} references, {} bytes of blocks in their places",
            done.references, done.bytes
        );
    }
    Ok(())
}

/// Runs `zstream recompress`.
pub(super) fn recompress(line: &CommandLine<'_>) -> Outcome {
    let parsed = line.parse()?;
    let [name] = parsed.operands.as_slice() else {
        return Err(Stop::Usage(String::new()));
    };
    let level = match parsed.last("l") {
        None => None,
        Some(text) => {
            let level = text.parse::<i32>();
            Some(level.map_err(|_| Stop::Failed(format!("invalid level '{text}'")))?)
        }
    };
    let target = target(name, level)?;
    let mut out = output()?;
    let result = repair::recompress(input()?, &mut out, target);
    result.map_err(|error| stop(&error))?;
    finish(out)
}

/// The function for a value of the property `compression`, with a level if it takes one.
fn target(name: &str, level: Option<i32>) -> Result<Target, Stop> {
    let invalid = || Stop::Failed(format!("Invalid compression type {name}."));
    let level_range = || Stop::Failed(format!("{name} has no level {}", level.unwrap_or(0)));
    let gzip = |level| Some(Compression::Gzip(level));
    let kind = match name.split_once('-') {
        None => match name {
            "off" => None,
            "lzjb" => Some(Compression::Lzjb),
            "zle" => Some(Compression::Zle),
            "lz4" => Some(Compression::Lz4),
            "zstd" => Some(Compression::Zstd),
            "gzip" => match level {
                None => gzip(GZIP_LEVEL),
                Some(level @ 1..=9) => gzip(level as u8),
                Some(_) => return Err(level_range()),
            },
            _ => return Err(invalid()),
        },
        Some(("gzip", digit)) => match digit.parse() {
            Ok(level @ 1..=9) => gzip(level),
            _ => return Err(invalid()),
        },
        // zstd levels can also be part of the name, as in the property.
        Some(("zstd", digits)) => {
            let level = match digits.strip_prefix("fast-") {
                Some(fast) => fast.parse::<i32>().map(|level| -level),
                None => digits.parse(),
            };
            let level = level.map_err(|_| invalid())?;
            return zstd(level, invalid);
        }
        Some(_) => return Err(invalid()),
    };
    match (kind, level) {
        (Some(Compression::Zstd), level) => zstd(level.unwrap_or(ZSTD_LEVEL), level_range),
        (kind, _) => Ok(Target { kind, level: 0 }),
    }
}

fn zstd(level: i32, wrong: impl FnOnce() -> Stop) -> Result<Target, Stop> {
    let kind = Some(Compression::Zstd);
    match cenote_codec::compress::zstd_level_to_stored(level) {
        Some(_) => Ok(Target { kind, level }),
        None => Err(wrong()),
    }
}

/// Runs `zstream decompress`.
pub(super) fn decompress(line: &CommandLine<'_>) -> Outcome {
    let parsed = line.parse()?;
    if parsed.operands.is_empty() {
        return Err(Stop::Usage(String::new()));
    }
    let selections = parsed.operands.iter().map(|text| selection(text));
    let selections: Vec<Selection> = selections.collect::<Result<_, _>>()?;
    let mut out = output()?;
    let tell = |selection: &Selection, done: Done| {
        let (object, offset) = (selection.object, selection.offset);
        match done {
            Done::Failed => {
                eprintln!("zstream: decompression failed for ino {object} offset {offset}");
            }
            _ if !parsed.has("v") => {}
            Done::Decompressed => {
                eprintln!("successfully decompressed ino {object} offset {offset}");
            }
            Done::Reset => {
                eprintln!("Resetting compression type to off for ino {object} offset {offset}");
            }
        }
    };
    repair::decompress(input()?, &mut out, &selections, |_, selection, done| {
        tell(selection, done);
    })
    .map_err(|error| stop(&error))?;
    finish(out)
}

/// `OBJECT,OFFSET[,TYPE]`.
fn selection(text: &str) -> Result<Selection, Stop> {
    let mut parts = text.splitn(3, ',');
    let mut number = |name: &str| match parts.next() {
        None => Err(Stop::Usage(String::new())),
        Some(digits) => {
            let number = match digits.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => digits.parse(),
            };
            number.map_err(|_| Stop::Failed(format!("zstream: invalid value for {name}")))
        }
    };
    let (object, offset) = (ObjectId(number("object")?), number("offset")?);
    let kind = match parts.next() {
        None | Some("lz4") => Some(Compression::Lz4),
        Some("off") => None,
        Some("lzjb") => Some(Compression::Lzjb),
        Some("gzip") => Some(Compression::Gzip(GZIP_LEVEL)),
        Some("zle") => Some(Compression::Zle),
        Some("zstd") => Some(Compression::Zstd),
        Some(other) => {
            return Err(Stop::Failed(format!(
                "Invalid compression type {other}.\n\
                 Supported types are off, lz4, lzjb, gzip, zle, and zstd"
            )));
        }
    };
    Ok(Selection {
        object,
        offset,
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_values_of_the_property() {
        let target = |name, level| target(name, level).ok().map(|t| (t.kind, t.level));
        assert_eq!(target("off", None), Some((None, 0)));
        assert_eq!(
            target("gzip-3", None),
            Some((Some(Compression::Gzip(3)), 0))
        );
        assert_eq!(
            target("gzip", Some(9)),
            Some((Some(Compression::Gzip(9)), 0))
        );
        assert_eq!(
            target("zstd", Some(19)),
            Some((Some(Compression::Zstd), 19))
        );
        assert_eq!(
            target("zstd-fast-10", None),
            Some((Some(Compression::Zstd), -10))
        );
        for (name, level) in [
            ("on", None),
            ("gzip-0", None),
            ("zstd", Some(20)),
            ("x-y", None),
        ] {
            assert_eq!(target(name, level), None, "{name}");
        }
    }

    #[test]
    fn selections_have_two_or_three_parts() {
        let parse = |text| selection(text).ok().map(|s| (s.object.0, s.offset, s.kind));
        assert_eq!(parse("128,0"), Some((128, 0, Some(Compression::Lz4))));
        assert_eq!(parse("0x80,512,off"), Some((128, 512, None)));
        for wrong in ["", "1", "x,1", "1,x", "1,2,y", "1,2,lz4,3"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
