//! `cargo xtask`: the developer's commands behind one door.
//!
//! Each command is a module of its own; this file only chooses. Long runs print how to repeat them,
//! with the seed.

#![forbid(unsafe_code)]

mod arm;
mod book;
mod ci;
mod delegate;
mod fuzz;
mod notes;
mod package;
mod release;
mod suite;
mod workspace;
mod zts;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND [ARGUMENT...]

  ci                          format, lints, tidy and all tests; what a change must pass
  suite [--lints]             all tests, their programs side by side, and the slowest of them;
                              with --lints formatting and lints beside them
  tidy                        the rules of STYLE.md that a program can check
  golden [KIND...]            compare pools made by OpenZFS with what Cenote reads from them
  zoo [--from N] [--mutants N] [--seed S] [--keep] [--write] [KIND...]
                              damaged pools: no panic, no hang, no unbounded memory; with --write
                              they are opened for writing
  mutate [--from N] [--mutants N] [--seed S] [--jobs N] [--keep DIRECTORY] [KIND...]
                              pools with wrong tables below right checksums, opened for writing,
                              worked with, scrubbed and emptied: no panic, no hang
  model [SEED] [--operations N] [--reopen N] [--workers N] [--kills N]
                              random operations on mounts, beside a model in memory
  history [SEED] [--steps N] [--seeds N] [--judge N] [--kills N] [--foreign N]
                              random snapshots, clones, promotions, rollbacks, beside a model;
                              with --foreign OpenZFS takes a turn after each judgement
  pingpong [SEED] [--rounds N] [--seeds N|--layouts] [--operations N] [--foreign N] [--vm]
                              Cenote and OpenZFS (with --vm its kernel module) write in turns
  repair [LAYOUT|MISHAP...] [--sets N|--all] [--seed N]
                              devices are spoiled, exchanged or come back stale under writes;
                              scrubs and resilvers mend them, crashes included
  chaos [SEED] [--count N] [--storms N] [--judge N]
                              devices come, go, are replaced and spared, many at once, under a
                              writer, with kills; then others are taken away and all is compared
  identity [SEED] [--count N]
                              random histories of devices that go, are written to apart, are
                              copied, and come back, beside a model
  sim SEED [--count N] [--trace] [--weather] [--referee N]
                              simulated machines lose their power: pools on simulated devices,
                              files, volumes and datasets, sick disks, one seed for everything;
                              with --referee OpenZFS looks at what each N-th seed left
  sim --sequences LENGTH [SEED --count N]
                              all histories of so many operations on files with fsync between, or
                              a sample of them, each with a power cut at its end
  sim --names [SEED --count N]
                              disks whose names lead to copies, older copies and other disks
                              while the pool runs
  sim --disks [SEED --count N]
                              disks of the kernel whose daemons are killed at any moment, with
                              writes that are not flushed
  sim --history WORDS         one such history, for example
                              'rename foo bar; create foo; fsync foo'
  torture [SEED] [--kills N] [--session N] [--judge N] [--foreign N] [--load NAME]...
          [--json FILE]
                              the daemon is killed under fio, SQLite, PostgreSQL, an untar and a
                              storm of synced files; nothing acknowledged may be lost; --foreign:
                              OpenZFS's kernel module replays our logs, and we replay its;
                              --json: counts, which a later run continues
  recorder [SEED] [--count N] [--time MS] [--cuts N] [--judge N]
                              the daemon works on disks that record, and pools are made of what a
                              power cut would have left of them
  pjdfstest [PATTERN...]      pjdfstest's cases of POSIX on a mount, as root
  replicate [SEED] [--seeds N] [--steps N] [--operations N] [--sources N]
            [--trees N|--cuts N|--mutants N]
                              random histories sent and received, by Cenote and by OpenZFS;
                              N packages of trees; streams cut at each record and at N bytes;
                              N changed streams, which are to be refused
  keys [SEED] [--count N]     random trees of encryption roots: after each change every key opens
                              what it opened before, or the change was refused
  cloud [SEED] [--steps N] [--seeds N]
                              a pool in a directory as its store, beside a model: daemons killed,
                              local sides lost, take-overs by a second machine, outages
  network [SEED] [--rounds N] [--outage SECONDS] [--seeds N]
                              a mirror on NBD servers under load: servers and daemons killed,
                              outages; what fsync promised is there, and OpenZFS judges the pool
  clients [--small] [--layout L] [--properties OPTIONS] [--size MIB] [NAME...]
                              git, builds, PostgreSQL, SQLite, LMDB, rsync, tar and fio on a mount,
                              sanoid and zfs-auto-snapshot over simulated weeks, syncoid, and the
                              test suites of zfs-autobackup and bzfs
  dashboard [--pictures DIRECTORY]
                              Chromium clicks through the dashboard, small and large, light and
                              dark: no dead link, no complaint, enough contrast; then it acts
  fstests DIRECTORY [--properties OPTIONS] [--size MIB] [TEST...|-g GROUP]
                              xfstests, built in DIRECTORY, on two mounts
  zts [GROUP|GROUP/TEST...] [--failed] [--since COMMIT] [--required [--minutes N]]
      [-j LANES] [-t SECONDS] [--output FILE]
                              OpenZFS's own test suite (Debian's package zfs-test), each group in a
                              machine of its own; keeps each result in tests/peer/zts, and fails if
                              a test of required.txt does; as root
  zts --groups|--table        lists groups; writes the table in docs/compatibility.md
  guest-ublk [--accelerator kvm|tcg] [--directory DIR]
                              a guest with the driver ublk_drv: volumes as its disks, file systems
                              on them, the daemon killed under fio; OpenZFS judges the pool
  guest-volume [--accelerator kvm|tcg] [--directory DIR]
                              a guest made by mmdebstrap boots from a clone of a volume, works
                              there, is rolled back, and its file system and the pool are whole
  boot [--program PATH] [--accelerator kvm|tcg] [--directory DIR] [bookworm|trixie]
                              a guest with systemd and the packages: started again, its daemon
                              killed under rsync, its power taken away; all comes back by itself
  fuzz NAME|all [--minutes N] [--input FILE]
                              fuzz targets, one per decoder, or one input again
  arm [ARGUMENT...]           the engine's tests on 64-bit ARM, emulated
  book [--program PATH] [--to DIRECTORY]
                              the handbook as a site, by mdBook: documents and manual pages
  book --test [PAGE...]       run the commands of the handbook, in a root of their own; as root
  package [--program PATH] [--to DIRECTORY] [--version VERSION]
                              .deb, .rpm and an archive of a release build, without its symbols
  try-packages [--program PATH] [--keep DIRECTORY] [RELEASE...]
                              the packages in bare Debians: installed, used, upgraded with pools
                              imported, removed; as root
  notes [--draft]             joins the notes in changelog/ into a section of CHANGELOG.md
  release [--program PATH] [--to DIRECTORY] [--draft] [--no-handbook]
                              builds this version from a clean tree: packages, manual pages,
                              handbook, notes, SBOM and checksums
  bench NAME [ARGUMENT...]    measurements beside the machine's ceiling and the rival
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    let result = match command {
        "ci" => ci::run(),
        "suite" => suite::run(rest),
        "tidy" => ci::tidy(),
        "mutate" => delegate::mutate(rest),
        "identity" => delegate::identity(rest),
        "sim" => delegate::sim(rest),
        "keys" => delegate::keys(rest),
        "arm" => arm::run(rest),
        "book" => book::run(rest),
        "fuzz" => fuzz::run(rest),
        "boot" => package::boot(rest),
        "package" => package::run(rest),
        "try-packages" => package::try_packages(rest),
        "notes" => notes::run(rest),
        "release" => release::run(rest),
        "zts" => zts::run(rest),
        "bench" => delegate::bench(rest),
        name if delegate::TRIALS.contains(&name) => delegate::trial(name, rest),
        "help" | "-h" | "--help" => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("xtask: no command '{command}'\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
