//! Volumes served by the daemon, to the programs that people use: libnbd's, QEMU's, fio.

use anyhow::{Context, Result, ensure};
use cenote_tests::missing;
use cenote_tests::nbd::{AsFile, nbdsh, program, run};
use cenote_tests::patience::wait_until;
use cenote_tests::site::Site;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

/// What `./test` installs for these tests.
const PROGRAMS: [&str; 5] = ["nbdinfo", "nbdsh", "qemu-img", "qemu-io", "fio"];

/// Whether the programs are there.
fn has_programs() -> bool {
    let lacks = |program: &&str| Command::new(*program).arg("--version").output().is_err();
    match PROGRAMS.into_iter().find(|program| lacks(program)) {
        None => true,
        Some(program) => {
            missing!("{program} is not installed");
            false
        }
    }
}

/// A client that stays connected.
struct Holder(Child, ChildStdin);

impl Holder {
    fn new(uri: &str) -> Result<Self> {
        Self::with(uri, "", "h.pread(512, 0)")
    }

    /// A client that runs `before`, connects, and later runs `then`.
    fn with(uri: &str, before: &str, then: &str) -> Result<Self> {
        let script = format!(
            "import sys\n{before}\nh.connect_uri('{uri}')\nprint('ready', flush=True)\n\
             sys.stdin.readline()\n{then}\n"
        );
        let mut child = program("nbdsh", &["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut line = String::new();
        BufReader::new(output.context("a pipe")?).read_line(&mut line)?;
        ensure!(line == "ready\n", "the client does not connect: {line}");
        Ok(Self(child, input.context("a pipe")?))
    }

    /// Whether that can still be done.
    fn goes_on(mut self) -> Result<bool> {
        writeln!(self.1)?;
        Ok(self.0.wait()?.success())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A site with a pool, and where its volumes are served.
struct Volumes {
    site: Site,
    socket: PathBuf,
}

impl Volumes {
    fn new() -> Result<Self> {
        let site = Site::create("single", 512, "-O mountpoint=none")?;
        let socket = site.cenote().directory().join("volumes");
        Ok(Self { site, socket })
    }

    fn uri(&self, name: &str) -> String {
        format!("nbd+unix:///{name}?socket={}", self.socket.display())
    }

    /// The address on the daemon's own socket.
    fn own_uri(&self, name: &str) -> String {
        let socket = self.site.cenote().socket();
        format!("nbd+unix:///{name}?socket={}.nbd", socket.display())
    }

    fn serve(&self, words: &str) -> Result<String> {
        let socket = self.socket.display();
        self.site
            .ok(&format!("cenote nbd serve --unix {socket} {words}"))
    }
}

/// The bytes of ranges for which a map has this number.
fn mapped(map: &str, number: &str) -> u64 {
    let lines = map
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let meant = lines.filter(|words| words.get(2) == Some(&number));
    meant
        .filter_map(|words| words.get(1)?.parse::<u64>().ok())
        .sum()
}

fn libnbd_is_served(volumes: &Volumes) -> Result<()> {
    let site = &volumes.site;
    site.ok("zfs create -s -V 64M tank/disk")?;
    let printed = volumes.serve("tank/disk")?;
    let uri = volumes.uri("tank/disk");
    ensure!(printed.trim() == uri, "{printed}");
    let info = run("nbdinfo", &[&uri])?;
    for line in [
        "export-size: 67108864",
        "is_read_only: false",
        "can_multi_conn: true",
        "can_fast_zero: true",
        "can_fua: true",
        "base:allocation",
        "block_size_preferred: 16384",
    ] {
        ensure!(info.contains(line), "{line}: {info}");
    }
    let list = run("nbdinfo", &["--list", &volumes.uri("")])?;
    ensure!(list.contains("export=\"tank/disk\""), "{list}");
    nbdsh(
        &uri,
        "h.pwrite(b'x' * 65536, 1 << 20, nbd.CMD_FLAG_FUA)\n\
         assert h.pread(65536, 1 << 20) == b'x' * 65536\n\
         h.pwrite(b'y' * 1000, (1 << 20) + 100)\n\
         assert h.pread(1200, 1 << 20) == b'x' * 100 + b'y' * 1000 + b'x' * 100\n\
         h.zero(20000, 1 << 20, nbd.CMD_FLAG_FAST_ZERO)\n\
         assert h.pread(65536, 1 << 20) == bytes(20000) + b'x' * 45536\n\
         h.trim(32768, (1 << 20) + 32768)\n\
         assert h.pread(65536, 1 << 20) == bytes(20000) + b'x' * 12768 + bytes(32768)\n\
         h.flush()\n\
         for call in [lambda: h.pread(512, 64 << 20), lambda: h.pwrite(bytes(512), 64 << 20)]:\n  \
         try:\n    call()\n    assert False\n  except nbd.Error as e:\n    \
         assert e.errno in ('EINVAL', 'ENOSPC'), e.errno\n",
    )?;
    let map = run("nbdinfo", &["--map", &uri])?;
    ensure!(mapped(&map, "0") == 32768 - 16384, "{map}");
    // A client that reconnects sees another size, and one that is connected can use it.
    let holder = Holder::new(&uri)?;
    site.ok("zfs set volsize=80M tank/disk")?;
    ensure!(holder.goes_on()?);
    ensure!(run("nbdinfo", &["--size", &uri])?.trim() == "83886080");
    nbdsh(&uri, "h.pwrite(b'z' * 512, (80 << 20) - 512)\n")?;
    Ok(())
}

fn qemu_and_fio_are_served(volumes: &Volumes) -> Result<()> {
    let site = &volumes.site;
    site.ok("zfs create -s -V 32M -o volblocksize=8k tank/image")?;
    site.ok("zfs create -s -V 32M -o compression=zstd tank/target")?;
    volumes.serve("tank/image tank/target")?;
    let (uri, target) = (volumes.uri("tank/image"), volumes.uri("tank/target"));
    let fio = |rw: &str, uri: &str| {
        let uri = format!("--uri={uri}");
        let words = [
            "--name=t",
            "--ioengine=nbd",
            &uri,
            rw,
            "--bsrange=512-256k",
            "--size=16m",
            "--iodepth=16",
            "--verify=crc32c",
            "--fsync=64",
            "--verify_fatal=1",
            "--verify_state_save=0",
        ];
        run("fio", &words)
    };
    fio("--rw=randrw", &uri)?;
    let image = site.cenote().directory().join("image.qcow2");
    let image = image.display().to_string();
    run("qemu-img", &["convert", "-O", "qcow2", &uri, &image])?;
    run("qemu-img", &["compare", &uri, &image])?;
    run("qemu-img", &["convert", "-n", "-O", "raw", &image, &target])?;
    run("qemu-img", &["compare", &target, &image])?;
    let words = [
        "-f",
        "raw",
        "-c",
        "write -P 7 4k 1M",
        "-c",
        "write -z -u 64k 64k",
        "-c",
        "flush",
        "-c",
        "discard 128k 64k",
        "-c",
        "read -P 7 4k 60k",
        "-c",
        "read -P 0 64k 128k",
        "-c",
        "read -P 7 192k 64k",
        &target,
    ];
    let printed = run("qemu-io", &words)?;
    ensure!(!printed.contains("failed"), "{printed}");
    let copy = site.cenote().directory().join("copy");
    let copy = copy.display().to_string();
    run("nbdcopy", &["--flush", &target, &copy])?;
    run("qemu-img", &["compare", "-f", "raw", &target, &copy])?;
    // A program that just ended does not keep its volume busy.
    run("nbdcopy", &[&copy, &target])?;
    site.ok("zfs rename tank/target tank/written")?;
    site.ok("cenote nbd stop tank/image tank/written")?;
    Ok(())
}

/// What a backup program copies is what differs: blocks that were written, zeroed or trimmed, and
/// not what was written before or never.
fn changes_are_told(volumes: &Volumes) -> Result<()> {
    let site = &volumes.site;
    site.ok("zfs create -s -V 64M tank/changes")?;
    volumes.serve("tank/changes")?;
    let uri = volumes.uri("tank/changes");
    nbdsh(
        &uri,
        "for n in range(100):\n  h.pwrite(bytes([n + 1]) * 16384, n * 40000)\nh.flush()\n",
    )?;
    site.ok("zfs snapshot tank/changes@a")?;
    nbdsh(
        &uri,
        "h.pwrite(b'new' * 1000, 100000)\nh.pwrite(b'far', 60 << 20)\n\
         h.zero(131072, 200000)\nh.trim(65536, 1 << 20)\nh.trim(4 << 20, 40 << 20)\n",
    )?;
    site.ok("zfs snapshot tank/changes@b")?;
    nbdsh(&uri, "h.pwrite(b'later', 50 << 20)\n")?;
    site.ok("zfs clone tank/changes@b tank/clone")?;
    volumes.serve("tank/changes@a tank/changes@b tank/clone")?;
    let script = "import sys\n\
        def content(name):\n  c = nbd.NBD()\n  c.connect_uri(uri(name))\n  \
        d = b''.join(c.pread(1 << 20, o << 20) for o in range(64))\n  c.shutdown()\n  return d\n\
        def check(new, old, context, most):\n  \
        a, b = content(new), content(old)\n  \
        block = lambda d, n: d[n << 14:(n + 1) << 14]\n  \
        differ = {n for n in range(4096) if block(a, n) != block(b, n)}\n  \
        c = nbd.NBD()\n  c.add_meta_context(context)\n  c.connect_uri(uri(new))\n  \
        assert c.can_meta_context(context)\n  told, at, flags = set(), 0, []\n  \
        def note(name, offset, entries, err):\n    flags.extend(entries)\n  \
        while at < 64 << 20:\n    del flags[:]\n    \
        c.block_status((64 << 20) - at, at, note)\n    \
        for length, flag in zip(flags[::2], flags[1::2]):\n      \
        assert length > 0 and flag in (0, 1)\n      \
        if flag: told |= set(range(at >> 14, (at + length + 16383) >> 14))\n      \
        at += length\n  \
        assert differ and differ <= told, (context, sorted(differ - told))\n  \
        assert len(told) <= most, (context, len(differ), sorted(told))\n";
    let place = format!(
        "def uri(name):\n  return '{}'.replace('NAME', name)\n",
        volumes.uri("NAME")
    );
    let checks = "check('tank/changes@b', 'tank/changes@a', 'cenote:changed-since:a', 20)\n\
        check('tank/changes', 'tank/changes@a', 'cenote:changed-since:a', 21)\n\
        check('tank/changes', 'tank/changes@b', 'cenote:changed-since:b', 1)\n\
        c = nbd.NBD()\nc.connect_uri(uri('tank/clone'))\nc.pwrite(b'clone', 3 << 20)\n\
        c.flush()\nc.shutdown()\n\
        check('tank/clone', 'tank/changes@b', 'cenote:changed-since:tank/changes@b', 1)\n\
        check('tank/clone', 'tank/changes@a', 'cenote:changed-since:tank/changes@a', 21)\n";
    run("nbdsh", &["-c", &format!("{place}{script}{checks}")])?;
    // A client that requested the changes since a snapshot must not get those since another one of
    // the same name. A snapshot created in its place had no changes, so a backup missed them.
    site.ok("zfs snapshot tank/changes@c")?;
    let context = "h.add_meta_context('cenote:changed-since:c')";
    let asks = "h.block_status(65536, 0, lambda *a: 0)";
    let holder = || Holder::with(&uri, context, asks);
    ensure!(holder()?.goes_on()?, "the snapshot is there");
    let holder = holder()?;
    site.ok("zfs destroy tank/changes@c")?;
    site.ok("zfs snapshot tank/changes@c")?;
    ensure!(!holder.goes_on()?, "another snapshot answers for it");
    // A snapshot that is read stays.
    let holder = Holder::new(&volumes.uri("tank/changes@a"))?;
    let refused = site.fails("zfs destroy tank/changes@a")?;
    ensure!(refused.stderr.contains("busy"), "{}", refused.stderr);
    ensure!(holder.goes_on()?);
    let read_only = nbdsh(&volumes.uri("tank/changes@a"), "h.pwrite(b'x', 0)\n");
    ensure!(read_only.is_err(), "a snapshot is written to");
    Ok(())
}

/// A client that had named the only export by the empty name was not counted and not disconnected,
/// and `readonly=on` was no obstacle to clients of what a command served.
fn clients_are_known_and_held_back(volumes: &Volumes) -> Result<()> {
    let site = &volumes.site;
    site.ok("zfs create -s -V 16M tank/first")?;
    site.ok("zfs create -s -V 16M tank/second")?;
    let socket = site.cenote().directory().join("nameless");
    let serve = format!("cenote nbd serve --unix {}", socket.display());
    let uri = |name: &str| format!("nbd+unix:///{name}?socket={}", socket.display());
    site.ok(&format!("{serve} tank/first"))?;
    let holder = Holder::new(&uri(""))?;
    site.ok(&format!("{serve} tank/second"))?;
    let refused = site.fails("cenote nbd stop tank/first")?.stderr;
    ensure!(
        refused.contains("1 client of 'tank/first' is connected"),
        "{refused}"
    );
    site.ok("cenote nbd stop -f tank/first")?;
    ensure!(!holder.goes_on()?, "it was disconnected");
    site.ok("zfs set readonly=on tank/second")?;
    let status = site.ok("cenote nbd status")?;
    ensure!(status.contains("read-only"), "{status}");
    ensure!(nbdsh(&uri("tank/second"), "h.pwrite(b'x' * 512, 0)\n").is_err());
    site.ok("zfs set readonly=off tank/second")?;
    nbdsh(&uri("tank/second"), "h.pwrite(b'x' * 512, 0)\n")?;
    site.ok("cenote nbd stop tank/second")?;
    Ok(())
}

/// Commands that would pull a volume from under its clients are refused, or disconnect them.
fn what_is_in_use_stays(volumes: &Volumes) -> Result<()> {
    let site = &volumes.site;
    site.ok("zfs create -s -V 16M tank/used")?;
    site.ok("zfs snapshot tank/used@old")?;
    site.ok("zfs snapshot tank/used@new")?;
    volumes.serve("tank/used")?;
    let uri = volumes.uri("tank/used");
    let holder = Holder::new(&uri)?;
    for line in [
        "zfs destroy -r tank/used",
        "zfs rename tank/used tank/other",
        "zfs rollback -r tank/used@old",
        "zpool export tank",
        "cenote nbd stop tank/used",
        "cenote daemon stop",
    ] {
        let refused = site.fails(line)?;
        let says = ["busy", "connected"]
            .iter()
            .any(|word| refused.stderr.contains(word));
        ensure!(says, "{line}: {}", refused.stderr);
    }
    site.ok("zfs list tank/used@new")?;
    ensure!(holder.goes_on()?, "a refusal disconnects no client");
    let holder = Holder::new(&uri)?;
    let status = site.ok("cenote nbd status")?;
    let line = status.lines().find(|line| line.contains("tank/used"));
    let line = line.with_context(|| status.clone())?;
    ensure!(line.contains("read-write"), "{status}");
    site.ok("zfs rename -f tank/used tank/moved")?;
    ensure!(!holder.goes_on()?, "it was disconnected");
    let holder = Holder::new(&volumes.uri("tank/moved"))?;
    site.ok("zfs destroy -rf tank/moved")?;
    ensure!(!holder.goes_on()?);
    ensure!(nbdsh(&volumes.uri("tank/moved"), "").is_err());
    // A command about the old volume does not serve another one of that name.
    site.ok("zfs create -s -V 16M tank/moved")?;
    ensure!(nbdsh(&volumes.uri("tank/moved"), "").is_err());
    Ok(())
}

fn properties_serve(volumes: &Volumes) -> Result<()> {
    let site = &volumes.site;
    site.ok("zfs create tank/vms")?;
    let refused = site.fails("zfs set cenote:nbd=yes tank/vms")?;
    ensure!(refused.stderr.contains("on | off"), "{}", refused.stderr);
    site.ok("zfs set cenote:nbd=on tank/vms")?;
    site.ok("zfs create -s -V 16M tank/vms/a")?;
    site.ok("zfs snapshot tank/vms/a@s")?;
    let uri = volumes.own_uri("tank/vms/a");
    nbdsh(&uri, "h.pwrite(b'by property', 0)\nh.flush()\n")?;
    let snapshot = volumes.own_uri("tank/vms/a@s");
    ensure!(nbdsh(&snapshot, "").is_err(), "snapdev is hidden");
    site.ok("zfs set snapdev=visible tank/vms")?;
    nbdsh(
        &snapshot,
        "assert h.is_read_only()\nassert h.pread(11, 0) == bytes(11)\n",
    )?;
    let list = run("nbdinfo", &["--list", &volumes.own_uri("")])?;
    ensure!(list.contains("\"tank/vms/a@s\""), "{list}");
    let refused = site.fails("cenote nbd stop tank/vms/a")?;
    ensure!(
        refused.stderr.contains("cenote:nbd=off"),
        "{}",
        refused.stderr
    );
    // It is served after an import, and by the next daemon.
    site.export()?;
    ensure!(nbdsh(&uri, "").is_err());
    site.import("")?;
    let read = "assert h.pread(11, 0) == b'by property'\n";
    nbdsh(&uri, read)?;
    site.crash()?;
    site.import("-f")?;
    nbdsh(&uri, read)?;
    site.ok("zfs set readonly=on tank/vms/a")?;
    nbdsh(&uri, "assert h.is_read_only()\n")?;
    let holder = Holder::new(&uri)?;
    site.ok("zfs set volmode=none tank/vms/a")?;
    ensure!(!holder.goes_on()?, "it is served no longer");
    site.ok("zfs inherit volmode tank/vms/a")?;
    nbdsh(&uri, read)?;
    site.ok("zfs set cenote:nbd=off tank/vms")?;
    ensure!(nbdsh(&uri, "").is_err());
    Ok(())
}

/// File systems of guests, made and filled by their own tools, are whole after an import.
fn file_systems_are_whole(volumes: &Volumes) -> Result<()> {
    if program("mkfs.xfs", &["-V"]).output().is_err() {
        missing!("xfsprogs is not installed");
        return Ok(());
    }
    let site = &volumes.site;
    for name in ["ext4", "xfs"] {
        site.ok(&format!("zfs create -s -V 320M tank/{name}"))?;
    }
    volumes.serve("tank/ext4 tank/xfs")?;
    let source = site.cenote().subdirectory("source")?;
    for number in 0..40_usize {
        let bytes: Vec<u8> = (0..number * 5000).map(|n| (n * number / 7) as u8).collect();
        std::fs::write(source.join(format!("file{number}")), bytes)?;
    }
    let source = source.display().to_string();
    let place = |name: &str| site.cenote().directory().join(format!("as-{name}"));
    let Some(disk) = AsFile::new(&volumes.uri("tank/ext4"), &place("ext4"))? else {
        return Ok(());
    };
    run("mkfs.ext4", &["-q", "-F", "-d", &source, &disk.path()])?;
    disk.end()?;
    let disk = AsFile::new(&volumes.uri("tank/xfs"), &place("xfs"))?.context("as before")?;
    run("mkfs.xfs", &["-q", "-f", &disk.path()])?;
    disk.end()?;
    site.export()?;
    site.import("")?;
    volumes.serve("tank/ext4 tank/xfs")?;
    let disk = AsFile::new(&volumes.uri("tank/ext4"), &place("ext4"))?.context("as before")?;
    run("e2fsck", &["-fn", &disk.path()])?;
    let target = site.cenote().subdirectory("target")?;
    let dump = format!("rdump / {}", target.display());
    run("debugfs", &["-R", &dump, &disk.path()])?;
    run(
        "rm",
        &["-r", &target.join("lost+found").display().to_string()],
    )?;
    run("diff", &["-r", &source, &target.display().to_string()])?;
    disk.end()?;
    let disk = AsFile::new(&volumes.uri("tank/xfs"), &place("xfs"))?.context("as before")?;
    run("xfs_repair", &["-n", "-f", &disk.path()])?;
    disk.end()?;
    site.ok("cenote nbd stop")?;
    site.ok("zfs destroy tank/ext4")?;
    site.ok("zfs destroy tank/xfs")?;
    Ok(())
}

/// Writes numbered blocks at random places over two connections, flushes now and then, and prints
/// what it flushed; until the server is gone.
const WRITER: &str = "import random, struct, sys\n\
    random.seed(7)\n\
    hs = []\n\
    for i in range(2):\n  c = nbd.NBD()\n  c.connect_uri(uri)\n  hs.append(c)\n\
    n = 0\n\
    try:\n  \
    while True:\n    \
    batch = []\n    \
    for i in range(random.randrange(1, 24)):\n      \
    n += 1\n      \
    block = random.randrange(0, 2048)\n      \
    fua = nbd.CMD_FLAG_FUA if n % 31 == 0 else 0\n      \
    hs[n % 2].pwrite(struct.pack('<Q', n) * 512, block * 4096, fua)\n      \
    if fua: print(f'{block} {n}', flush=True)\n      \
    batch.append(f'{block} {n}')\n    \
    hs[n % 2].flush()\n    \
    print('\\n'.join(batch), flush=True)\n\
    except nbd.Error:\n  print('gone', flush=True)\n";

/// Kill the daemon while a client writes: what was flushed, or written with FUA, is there.
fn what_was_flushed_outlives_a_crash(volumes: &Volumes) -> Result<()> {
    let site = &volumes.site;
    site.ok("zfs create -s -V 8M -b 16k tank/crash")?;
    for round in 0..2 {
        volumes.serve("tank/crash")?;
        let uri = volumes.uri("tank/crash");
        nbdsh(&uri, "h.zero(8 << 20, 0)\nh.flush()\n")?;
        let script = format!("uri = '{uri}'\n{WRITER}");
        let mut child = program("nbdsh", &["-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(child.stdout.take().context("a pipe")?);
        let mut flushed = std::collections::BTreeMap::new();
        let (mut count, mut has_gone) = (0, false);
        for line in output.lines() {
            let line = line?;
            let Some((block, number)) = line.split_once(' ') else {
                has_gone = line == "gone";
                continue;
            };
            flushed.insert(block.parse::<u64>()?, number.parse::<u64>()?);
            count += 1;
            if count == 150 + 100 * round {
                site.kill()?;
            }
        }
        child.wait()?;
        ensure!(has_gone && !flushed.is_empty(), "the writer ended early");
        site.start()?;
        let said = site.ok("cenote daemon resume")?;
        ensure!(said.contains("1 volume served"), "{said}");
        let expected: Vec<String> = flushed
            .iter()
            .map(|(block, number)| format!("{block}: {number}"))
            .collect();
        let script = format!(
            "import struct\nfor block, number in {{{}}}.items():\n  \
             words = set(struct.unpack('<512Q', h.pread(4096, block * 4096)))\n  \
             assert len(words) == 1 and min(words) >= number, (block, number, words)\n",
            expected.join(", ")
        );
        nbdsh(&uri, &script)?;
    }
    site.ok("cenote nbd stop")?;
    Ok(())
}

/// Clients that do not speak the protocol are disconnected, and others are served.
fn hostile_clients_are_sent_away(volumes: &Volumes) -> Result<()> {
    let site = &volumes.site;
    site.ok("zfs create -s -V 8M tank/public")?;
    volumes.serve("tank/public")?;
    let mut strangers = Vec::new();
    for number in 0..300 {
        // The server may close the connection at any point.
        let Ok(mut stranger) = std::os::unix::net::UnixStream::connect(&volumes.socket) else {
            continue;
        };
        let words: [&[u8]; 4] = [b"GET / HTTP/1.1\r\n\r\n", &[0xff; 4096], &[0; 4], b""];
        let _ = stranger.write_all(words[number % 4]);
        strangers.push(stranger);
    }
    drop(strangers);
    let uri = volumes.uri("tank/public");
    wait_until("served among strangers", || {
        Ok(nbdsh(&uri, "h.pread(512, 0)\n").is_ok())
    })?;
    ensure!(nbdsh(&volumes.uri("tank/secret"), "").is_err());
    let daemon = site.ok("cenote nbd status")?;
    ensure!(daemon.contains("tank/public"), "{daemon}");
    site.ok("cenote nbd stop tank/public")?;
    Ok(())
}

/// Over a port with certificates on both sides, and not without.
fn the_network_is_encrypted(volumes: &Volumes) -> Result<()> {
    let site = &volumes.site;
    let directory = site.cenote().subdirectory("tls")?;
    std::fs::write(directory.join("ext"), "subjectAltName=DNS:localhost\n")?;
    let path = directory.display();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    let ca = format!("-keyout {path}/ca-key.pem -out {path}/ca-cert.pem -days 9 -subj /CN=a");
    let mut lines = vec![format!("req -x509 {key} {ca}")];
    for name in ["server", "client"] {
        let own = format!("{path}/{name}");
        let files = format!("-keyout {own}-key.pem -out {own}.csr -subj /CN={name}");
        lines.push(format!("req {key} {files}"));
        lines.push(format!(
            "x509 -req -in {own}.csr -CA {path}/ca-cert.pem -CAkey {path}/ca-key.pem \
             -CAcreateserial -out {own}-cert.pem -days 9 -extfile {path}/ext"
        ));
    }
    for line in lines {
        run("openssl", &line.split_whitespace().collect::<Vec<_>>())?;
    }
    site.ok("zfs create -s -V 8M tank/remote")?;
    let refused = site.fails("cenote nbd serve --tcp 127.0.0.1:0 --tls-verify-peer tank/remote")?;
    ensure!(
        refused.stderr.contains("--tls-certificates"),
        "{}",
        refused.stderr
    );
    let printed = site.ok(&format!(
        "cenote nbd serve --tcp 127.0.0.1:0 --tls-certificates {path} --tls-verify-peer tank/remote"
    ))?;
    let uri = printed.trim().replace("127.0.0.1", "localhost");
    let good = format!("{uri}?tls-certificates={path}");
    let script = format!(
        "h.set_uri_allow_local_file(True)\nh.connect_uri('{good}')\n\
         h.pwrite(b'encrypted', 0)\nassert h.pread(9, 0) == b'encrypted'\n"
    );
    run("nbdsh", &["-c", &script])?;
    let plain = uri.replace("nbds:", "nbd:");
    ensure!(nbdsh(&plain, "").is_err(), "it takes clients without TLS");
    site.ok("cenote nbd stop tank/remote")?;
    Ok(())
}

/// A volume without its key is refused, and one in a pool that is only read is only read.
fn what_cannot_be_written_says_so(volumes: &Volumes) -> Result<()> {
    let site = &volumes.site;
    let key = site.cenote().directory().join("key");
    std::fs::write(&key, "a passphrase\n")?;
    let options = "-o encryption=on -o keyformat=passphrase -o pbkdf2iters=100000";
    let key = key.display();
    site.ok(&format!(
        "zfs create -s -V 8M {options} -o keylocation=file://{key} tank/secret"
    ))?;
    volumes.serve("tank/secret")?;
    let uri = volumes.uri("tank/secret");
    nbdsh(&uri, "h.pwrite(b'secret', 0)\n")?;
    wait_until("unused", || {
        Ok(site
            .cenote()
            .run("zfs", &["unload-key", "tank/secret"])?
            .code
            == Some(0))
    })?;
    ensure!(nbdsh(&uri, "").is_err(), "it has no key");
    site.ok("zfs load-key tank/secret")?;
    nbdsh(
        &uri,
        "assert h.pread(6, 0) == b'secret'\nassert not h.is_read_only()\n",
    )?;
    site.export()?;
    site.import("-o readonly=on")?;
    site.ok("zfs load-key tank/secret")?;
    volumes.serve("tank/secret")?;
    nbdsh(
        &uri,
        "assert h.pread(6, 0) == b'secret'\nassert h.is_read_only()\n",
    )?;
    site.export()?;
    site.import("")?;
    Ok(())
}

#[test]
fn volumes_are_served() -> Result<()> {
    if !has_programs() {
        return Ok(());
    }
    let volumes = Volumes::new()?;
    libnbd_is_served(&volumes)?;
    qemu_and_fio_are_served(&volumes)?;
    changes_are_told(&volumes)?;
    what_is_in_use_stays(&volumes)?;
    clients_are_known_and_held_back(&volumes)?;
    properties_serve(&volumes)?;
    hostile_clients_are_sent_away(&volumes)?;
    the_network_is_encrypted(&volumes)?;
    what_cannot_be_written_says_so(&volumes)?;
    file_systems_are_whole(&volumes)?;
    what_was_flushed_outlives_a_crash(&volumes)?;
    volumes.site.finish()
}
