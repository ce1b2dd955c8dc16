//! The words after the pool's name: devices, their grouping and their purpose.
//!
//! `[mirror|raidz[1-3]|draid…] DEVICE…`; `log`, `cache`, `spare`, `special` and `dedup` set the
//! class of the groups after them (cli/contract-zpool 5).

use cenote_base::is_url;
use cenote_control::model::{NewVdev, NewVdevKind, NewVdevRole};
use cenote_words::vdev_rows::VDEV_WORDS;
use std::path::Path;

/// Parses a layout; devices must be absolute paths, URLs, or names in `/dev`.
pub fn parse(words: &[String]) -> Result<Vec<NewVdev>, String> {
    let mut vdevs: Vec<NewVdev> = Vec::new();
    let mut role = NewVdevRole::Normal;
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if let Some(found) = role_of(word) {
            role = found;
            check_once(word, role, &vdevs)?;
            if !is_followed(role, words.peek())? {
                return Err(format!(
                    "invalid vdev specification: '{word}' requires at least 1 devices"
                ));
            }
            continue;
        }
        let Some(kind) = kind_of(word)? else {
            let devices = vec![device(word)?];
            let kind = NewVdevKind::Disk;
            vdevs.push(NewVdev {
                role,
                kind,
                devices,
            });
            continue;
        };
        if ends_with_group(role) {
            role = NewVdevRole::Normal;
        }
        check_role(word, role)?;
        let mut devices = Vec::new();
        while let Some(next) = words.peek() {
            if role_of(next).is_some() || kind_of(next)?.is_some() {
                break;
            }
            devices.push(device(next)?);
            words.next();
        }
        check_count(word, &kind, devices.len())?;
        vdevs.push(NewVdev {
            role,
            kind,
            devices,
        });
    }
    Ok(vdevs)
}

/// Whether a group ends the list of devices of a role: spares and cache devices are single devices,
/// and the group after them holds data.
fn ends_with_group(role: NewVdevRole) -> bool {
    matches!(role, NewVdevRole::Spare | NewVdevRole::Cache)
}

/// Whether the word after that of a role begins something that has the role.
fn is_followed(role: NewVdevRole, next: Option<&&String>) -> Result<bool, String> {
    Ok(match next {
        None => false,
        Some(next) if role_of(next).is_some() => false,
        Some(next) => !ends_with_group(role) || kind_of(next)?.is_none(),
    })
}

/// Each of logs, caches and spares must be listed in one place.
fn check_once(word: &str, role: NewVdevRole, vdevs: &[NewVdev]) -> Result<(), String> {
    use NewVdevRole::{Cache, Log, Spare};
    let is_again = vdevs.iter().any(|vdev| vdev.role == role);
    match is_again && matches!(role, Log | Cache | Spare) {
        true => Err(format!(
            "invalid vdev specification: '{word}' can be specified only once"
        )),
        false => Ok(()),
    }
}

fn role_of(word: &str) -> Option<NewVdevRole> {
    Some(match word {
        "log" => NewVdevRole::Log,
        "cache" => NewVdevRole::Cache,
        "spare" => NewVdevRole::Spare,
        "special" => NewVdevRole::Special,
        "dedup" => NewVdevRole::Dedup,
        _ => return None,
    })
}

fn kind_of(word: &str) -> Result<Option<NewVdevKind>, String> {
    if word == "mirror" {
        return Ok(Some(NewVdevKind::Mirror));
    }
    if let Some(parity) = word.strip_prefix("raidz") {
        let parity = match parity {
            "" | "1" => 1,
            "2" => 2,
            "3" => 3,
            // Other words can only be devices.
            _ => return Ok(None),
        };
        return Ok(Some(NewVdevKind::Raidz { parity }));
    }
    match word.strip_prefix("draid") {
        Some(rest) => draid(word, rest),
        None => Ok(None),
    }
}

/// `draid[PARITY][:Nd][:Nc][:Ns]`.
fn draid(word: &str, rest: &str) -> Result<Option<NewVdevKind>, String> {
    let bad = || format!("invalid dRAID syntax; expected [:<number><c|d|s>] not '{word}'");
    let mut parts = rest.split(':');
    let parity = match parts.next().unwrap_or_default() {
        "" | "1" => 1,
        "2" => 2,
        "3" => 3,
        _ => return Ok(None),
    };
    let (mut data, mut children, mut spares) = (None, None, 0);
    for part in parts {
        let last = part.char_indices().next_back();
        let (digits, letter) = part.split_at(last.map_or(0, |(at, _)| at));
        let number: u64 = digits.parse().map_err(|_| bad())?;
        match letter {
            "d" if number > 0 => data = Some(number),
            "c" => children = Some(number),
            "s" => spares = number,
            _ => return Err(bad()),
        }
    }
    Ok(Some(NewVdevKind::Draid {
        parity,
        data,
        children,
        spares,
    }))
}

fn check_role(word: &str, role: NewVdevRole) -> Result<(), String> {
    match role == NewVdevRole::Log && word != "mirror" {
        true => Err(format!(
            "invalid vdev specification: unsupported 'log' device: {word}"
        )),
        false => Ok(()),
    }
}

fn check_count(word: &str, kind: &NewVdevKind, count: usize) -> Result<(), String> {
    let least = match kind {
        NewVdevKind::Disk => 1,
        NewVdevKind::Mirror => 2,
        NewVdevKind::Raidz { parity } => usize::from(*parity) + 1,
        NewVdevKind::Draid { parity, .. } => usize::from(*parity) + 1,
    };
    match count < least {
        true => Err(format!(
            "invalid vdev specification: {word} requires at least {least} devices"
        )),
        false => Ok(()),
    }
}

fn device(word: &str) -> Result<String, String> {
    if word.starts_with('/') || is_url(Path::new(word)) {
        return Ok(word.to_owned());
    }
    let in_dev = Path::new("/dev").join(word);
    if in_dev.exists() {
        return Ok(in_dev.display().to_string());
    }
    // Relative paths are refused, as in the reference, even if they exist.
    let question = cenote_words::texts::question(word, VDEV_WORDS);
    Err(format!(
        "cannot open '{word}': no such device in /dev\n\
         must be a full path or shorthand device name{question}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<NewVdev>, String> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn groups_and_roles_are_read() {
        let vdevs = read("mirror /a /b raidz2 /c /d /e log mirror /f /g cache /h spare /i /j")
            .expect("a layout");
        let shape: Vec<_> = vdevs
            .iter()
            .map(|vdev| (vdev.role, vdev.devices.len()))
            .collect();
        use NewVdevRole::{Cache, Log, Normal, Spare};
        let expected = [
            (Normal, 2),
            (Normal, 3),
            (Log, 2),
            (Cache, 1),
            (Spare, 1),
            (Spare, 1),
        ];
        assert_eq!(shape, expected);
        assert_eq!(vdevs[1].kind, NewVdevKind::Raidz { parity: 2 });
    }

    /// `mirror a b spare c mirror d e` was refused: a group ends the list of spares.
    #[test]
    fn a_group_ends_the_spares() {
        let vdevs = read("spare /a /b mirror /c /d cache /e raidz /f /g").expect("a layout");
        let shape: Vec<_> = vdevs
            .iter()
            .map(|vdev| (vdev.role, vdev.devices.len()))
            .collect();
        use NewVdevRole::{Cache, Normal, Spare};
        let expected = [(Spare, 1), (Spare, 1), (Normal, 2), (Cache, 1), (Normal, 2)];
        assert_eq!(shape, expected);
        let error = read("/a spare mirror /b /c").expect_err("no spares");
        assert!(
            error.ends_with("'spare' requires at least 1 devices"),
            "{error}"
        );
        let error = read("/a log raidz /b /c").expect_err("logs are mirrors");
        assert!(
            error.ends_with("unsupported 'log' device: raidz"),
            "{error}"
        );
        assert!(read("spare /a mirror /b /c spare /d").is_err());
    }

    #[test]
    fn draid_layouts_are_read() {
        let vdevs = read("draid2:4d:11c:1s /0 /1 /2 /3 /4 /5 /6 /7 /8 /9 /a").expect("a layout");
        let expected = NewVdevKind::Draid {
            parity: 2,
            data: Some(4),
            children: Some(11),
            spares: 1,
        };
        assert_eq!(vdevs[0].kind, expected);
        assert!(read("draid9 /a /b").is_err());
        assert!(read("draid:xd /a /b").is_err());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for wrong in ["mirror /a", "raidz3 /a /b /c", "raidz4 /a", "log", "/a log"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let error = read("relative").expect_err("no such device");
        assert!(error.starts_with("cannot open 'relative': no such device in /dev"));
        let error = read("mirorr /a /b").expect_err("no such word");
        assert!(error.ends_with("\ndid you mean 'mirror'?"), "{error}");
    }
}
