//! Absurd command lines: each is an error, never a panic or a hang.
//!
//! Words are long, not UTF-8, nested, absurd numbers, or drawn at random from the commands' own
//! words. All are run twice: without a daemon that could be started, and with one that has a pool.

use anyhow::{Result, ensure};
use cenote_tests::program::{self, Cenote, Limits};
use cenote_tests::random::Random;
use cenote_tests::site::Site;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

/// Subcommands of each program, with what is between them and the hostile words.
const COMMANDS: [&str; 48] = [
    "zpool create -n",
    "zpool create -n -f t",
    "zpool create -o",
    "zpool create -n -o",
    "zpool create -n -O",
    "zpool add -n t",
    "zpool import -N -d",
    "zpool import -o",
    "zpool export",
    "zpool list -o",
    "zpool list",
    "zpool get",
    "zpool get all",
    "zpool set",
    "zpool status",
    "zpool iostat",
    "zpool history",
    "zpool events",
    "zpool upgrade",
    "zpool labelclear",
    "zpool trim",
    "zpool initialize",
    "zpool",
    "zfs list -o",
    "zfs list -s",
    "zfs list -d",
    "zfs list",
    "zfs get",
    "zfs get all",
    "zfs set",
    "zfs inherit",
    "zfs create",
    "zfs create -n -o",
    "zfs create -n -V",
    "zfs destroy -n",
    "zfs rename",
    "zfs mount",
    "zfs load-key -n",
    "zfs userspace",
    "zfs diff",
    "zfs",
    "cenote settings set",
    "cenote settings get",
    "cenote daemon run --memory",
    "cenote mount --offset",
    "cenote cat",
    "cenote find -d /nowhere",
    "cenote",
];

fn bytes(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

/// Argument lists that are hostile by themselves.
fn hostile() -> Vec<Vec<OsString>> {
    let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
    let long = "a".repeat(100_000);
    let mut lists = vec![
        vec![OsString::new()],
        vec![OsString::new(), OsString::new()],
        vec![bytes(b"\xff\xfe=\x80")],
        vec![bytes(b"t/\xff@\xff")],
        vec![bytes(b"-o"), bytes(b"\xff")],
        vec![bytes(b"--\xff")],
        vec![long.clone().into()],
        vec![format!("{long}=1").into()],
        vec![format!("x={long}").into(), "t".into()],
        vec!["t".into(), format!("/{long}").into()],
        vec!["/".repeat(5000).into()],
        vec!["t/a".repeat(4000).into()],
        vec!["@".into(), "#".into(), "t@@a".into(), "t#@".into()],
        vec![
            "\u{1F980}\n\u{0}".replace('\0', "").into(),
            "\u{202E}t".into(),
        ],
        words("t mirror mirror mirror a b"),
        words("t raidz raidz2 raidz3 draid a"),
        words("t raidz0 a b"),
        words("t raidz4294967296 a b"),
        words("t raidz18446744073709551616 a b"),
        words("t raidz-1 a b"),
        words("t draid99999999999999999999:1d:1c:1s a b"),
        words("t draid1:0d:0c:0s a b"),
        words("t draid1:255d:255c:255s a b"),
        words("t draid::::: a b"),
        words("t draid1:dd:cc:ss a"),
        words("t spare spare log log cache special dedup"),
        words("t log mirror spare cache a special raidz"),
        words("t mirror"),
        words("ashift=99999999999999999999 t a"),
        words("ashift=-1 t a"),
        words("volsize=1e999 t/v"),
        words("18446744073709551616E t/v"),
        words("99999999999999999999999999Z t/v"),
        words("0.0000000000000000000000001K t/v"),
        words("NaN t"),
        words("-1 t"),
        words("quota=-0 t"),
        words("userquota@=1 t"),
        words("userquota@999999999999999999999=1 t"),
        words("recordsize=18446744073709551615 t"),
        words("-- -- -- --"),
        words("- - -"),
        words("-pppppHHHHHjjjj"),
        words("--json --json=1 --help=2"),
        words("-o -o -o -o"),
        words(",,,,"),
        words("all,all,all,,none"),
        words("name,used,name,x:y,userused@,written@"),
    ];
    lists.push((0..5000).map(|n| format!("d{n}").into()).collect());
    lists.push((0..2000).map(|_| "mirror".into()).collect());
    lists.push((0..2000).map(|_| "-v".into()).collect());
    lists
}

/// Words that the commands know, and some that they do not.
const WORDS: [&str; 40] = [
    "mirror",
    "raidz",
    "raidz3",
    "draid2:3d:7c:1s",
    "spare",
    "log",
    "cache",
    "special",
    "dedup",
    "t",
    "t/a",
    "t@s",
    "t#b",
    "-o",
    "-O",
    "-n",
    "-f",
    "-r",
    "-R",
    "-H",
    "-p",
    "-j",
    "-d",
    "-t",
    "-s",
    "-V",
    "ashift=12",
    "compression=zstd-99",
    "all",
    "none",
    "/dev/null",
    "/nowhere",
    "0",
    "-1",
    "1T",
    "=",
    "==",
    "name=value",
    "--",
    "\u{E9}",
];

/// Runs a command line with hostile words behind it, with a daemon or where none can be.
fn check(cenote: &Cenote, line: &str, list: &[OsString], has_daemon: bool) -> Result<()> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or("cenote");
    let arguments: Vec<OsString> = words
        .map(OsString::from)
        .chain(list.iter().cloned())
        .collect();
    let mut command = cenote.command(program, &arguments);
    command.env("RUST_BACKTRACE", "0");
    if !has_daemon {
        command.env("CENOTE_SOCKET", "/dev/null/socket");
    }
    let limits = Limits {
        time: Duration::from_secs(60),
        ..Limits::default()
    };
    let outcome = program::run(command, b"", limits)?;
    let shown: String = format!("{line} {list:?}").chars().take(300).collect();
    let said: String = outcome.stderr.chars().take(2000).collect();
    let is_good = !outcome.has_crashed() && outcome.limit.is_none();
    ensure!(is_good, "{shown}: {:?}, {said}", outcome.code);
    Ok(())
}

fn random_list(random: &mut Random, pool: &str) -> Vec<OsString> {
    let count = random.below(7);
    let mut word = || {
        let word = *random.choose(&WORDS);
        match word.strip_prefix('t') {
            Some(rest) if !rest.starts_with(char::is_alphabetic) => format!("{pool}{rest}").into(),
            _ => word.into(),
        }
    };
    (0..count).map(|_| word()).collect()
}

#[test]
fn hostile_words_get_an_error() -> Result<()> {
    let cenote = Cenote::new()?;
    for (number, list) in hostile().iter().enumerate() {
        // Each list for some of the commands, each command with some of the lists.
        for line in COMMANDS.iter().skip(number % 4).step_by(4) {
            check(&cenote, line, list, false)?;
        }
    }
    Ok(())
}

#[test]
fn random_words_get_an_error() -> Result<()> {
    let cenote = Cenote::new()?;
    let mut random = Random::new(20_261);
    for _ in 0..300 {
        let line = *random.choose(&COMMANDS);
        let list = random_list(&mut random, "t");
        check(&cenote, line, &list, false)?;
    }
    Ok(())
}

/// A daemon with a pool reads the same words, and lives on.
#[test]
fn a_daemon_lives_on() -> Result<()> {
    let site = Site::create("single", 128, "-O mountpoint=none")?;
    let mut random = Random::new(1_620);
    for list in hostile() {
        let line = *random.choose(&COMMANDS);
        check(site.cenote(), line, &list, true)?;
    }
    for _ in 0..200 {
        let line = *random.choose(&COMMANDS);
        let list = random_list(&mut random, "tank");
        check(site.cenote(), line, &list, true)?;
    }
    site.ok("cenote daemon status")?;
    let log = std::fs::read_to_string(site.cenote().directory().join("daemon.log"))?;
    ensure!(!log.contains("panicked"), "{log}");
    Ok(())
}
