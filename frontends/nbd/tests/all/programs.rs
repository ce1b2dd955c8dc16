//! Other people's clients with our server, and our client with other people's servers.

use crate::common::{Site, wait_until};
use cenote_device::Device;
use cenote_nbd::{FileDisk, MemoryDisk};
use cenote_nbd_client::NbdDevice;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Runs a program; what it printed, or `None` if it is not installed.
fn run(program: &str, words: &[&str]) -> Option<String> {
    // A Python of our own has no bindings; the system's has.
    let path = std::env::var("PATH").unwrap_or_default();
    let command = Command::new(program)
        .args(words)
        .env("PATH", format!("/usr/bin:{path}"))
        .stdin(Stdio::null())
        .output();
    let Ok(output) = command else {
        cenote_tests::missing!("{program} is not installed");
        return None;
    };
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {words:?}: {printed}{complained}"
    );
    Some(printed)
}

/// A site with a sparse file of 64 MiB as `disk`, which has some contents.
fn file_site() -> (Site, std::path::PathBuf) {
    let site = Site::new();
    let path = site.directory.path().join("image");
    let file = std::fs::File::create(&path).expect("a file");
    file.set_len(64 << 20).expect("sparse");
    drop(file);
    let disk = FileDisk::open(&path, false).expect("a disk");
    let bytes: Vec<u8> = (0..1 << 20_u32).map(|n| (n / 3) as u8).collect();
    cenote_nbd::BlockDevice::write(&disk, 8 << 20, &bytes, false).expect("room");
    site.shelf.put("disk", Arc::new(disk));
    (site, path)
}

#[test]
fn libnbd_is_served() {
    let (site, path) = file_site();
    site.shelf
        .put("other", Arc::new(MemoryDisk::new(4096).read_only()));
    let url = site.url("disk", "");
    let Some(info) = run("nbdinfo", &[&url]) else {
        return;
    };
    for line in [
        "protocol: newstyle-fixed without TLS, using structured packets",
        "export-size: 67108864",
        "is_read_only: false",
        "can_multi_conn: true",
        "can_fast_zero: true",
        "can_fua: true",
        "base:allocation",
        "block_size_maximum: 33554432",
    ] {
        assert!(info.contains(line), "{line}: {info}");
    }
    let list = run("nbdinfo", &["--list", &site.url("", "")]).expect("it is there");
    assert!(list.contains("export=\"other\""), "{list}");
    let map = run("nbdinfo", &["--map", &url]).expect("it is there");
    let lengths: Vec<&str> = map
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    assert_eq!(lengths, ["8388608", "1048576", "57671680"], "{map}");

    let copy = site.directory.path().join("copy");
    let copy_name = copy.display().to_string();
    run("nbdcopy", &[&url, &copy_name]).expect("it is there");
    assert!(std::fs::read(&copy).expect("it works") == std::fs::read(&path).expect("it works"));
    let target = Arc::new(MemoryDisk::new(64 << 20));
    site.shelf.put("target", target);
    let target = site.url("target", "");
    run("nbdcopy", &[&copy_name, &target]).expect("it is there");
    run("nbdcopy", &["--flush", &target, &copy_name]).expect("it is there");
    assert!(std::fs::read(&copy).expect("it works") == std::fs::read(&path).expect("it works"));

    let script = format!(
        "h.set_strict_mode(0)\nh.add_meta_context('base:allocation')\nh.connect_uri('{url}')\n\
         h.pwrite(b'x' * 65536, 0, nbd.CMD_FLAG_FUA)\nassert h.pread(65536, 0) == b'x' * 65536\n\
         h.zero(4096, 0, nbd.CMD_FLAG_FAST_ZERO)\nassert h.pread(4096, 0) == bytes(4096)\n\
         h.trim(65536, 0)\nh.cache(65536, 0)\nh.flush()\n\
         try:\n  h.pread(512, 1 << 40)\n  assert False\nexcept nbd.Error as e:\n  \
         assert e.errno == 'EINVAL', e.errno\n"
    );
    run("nbdsh", &["-c", &script]);
}

#[test]
fn qemu_is_served() {
    let (site, path) = file_site();
    let url = site.url("disk", "");
    let Some(map) = run("qemu-img", &["map", "--output=json", &url]) else {
        return;
    };
    let holes = map.matches("\"data\": false").count();
    assert_eq!(holes, 2, "{map}");
    let image = site.directory.path().join("image.qcow2");
    let image = image.display().to_string();
    run("qemu-img", &["convert", "-O", "qcow2", &url, &image]).expect("it is there");
    run("qemu-img", &["compare", &url, &image]).expect("it is there");
    run(
        "qemu-img",
        &["compare", "-f", "raw", &path.display().to_string(), &image],
    );
    site.shelf
        .put("target", Arc::new(MemoryDisk::new(64 << 20)));
    let target = site.url("target", "");
    run("qemu-img", &["convert", "-n", "-O", "raw", &image, &target]).expect("it is there");
    run("qemu-img", &["compare", &target, &image]).expect("it is there");
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
        "read -P 0 64k 64k",
        "-c",
        "read -P 7 192k 64k",
        &target,
    ];
    let printed = run("qemu-io", &words).expect("it is there");
    assert!(!printed.contains("failed"), "{printed}");
}

#[test]
fn fio_verifies_what_it_wrote() {
    let (site, _) = file_site();
    let uri = format!("--uri={}", site.url("disk", ""));
    let words = [
        "--name=t",
        "--ioengine=nbd",
        &uri,
        "--rw=randrw",
        "--bsrange=512-256k",
        "--size=16m",
        "--iodepth=16",
        "--verify=crc32c",
        "--fsync=32",
        "--verify_fatal=1",
        "--verify_state_save=0",
    ];
    let engines = run("fio", &["--enghelp"]).unwrap_or_default();
    if !engines.split_whitespace().any(|engine| engine == "nbd") {
        cenote_tests::missing!("fio has no engine for NBD");
        return;
    }
    run("fio", &words);
}

/// Ends a program that a test started.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn servers_of_others_are_used() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("socket");
    let name = socket.display().to_string();
    let image = directory.path().join("image");
    std::fs::write(&image, vec![0; 8 << 20]).expect("room");
    let image = image.display().to_string();
    let servers: [&[&str]; 4] = [
        &["nbdkit", "-f", "-U", &name, "memory", "8M"],
        &["nbdkit", "-f", "--no-sr", "-U", &name, "memory", "8M"],
        &[
            "nbdkit",
            "-f",
            "-U",
            &name,
            "--filter=blocksize-policy",
            "memory",
            "8M",
            "blocksize-minimum=4k",
            "blocksize-preferred=4k",
            "blocksize-maximum=1M",
        ],
        &[
            "qemu-nbd", "-t", "-e", "4", "-f", "raw", "-k", &name, &image,
        ],
    ];
    for words in servers {
        let _ = std::fs::remove_file(&socket);
        let started = Command::new(words[0])
            .args(&words[1..])
            .stderr(Stdio::null())
            .spawn();
        let Ok(server) = started else {
            cenote_tests::missing!("{} is not installed", words[0]);
            continue;
        };
        let _server = Ended(server);
        let url = match words[0] {
            "nbdkit" => format!("nbd+unix:///?socket={name}"),
            _ => format!("nbd+unix:///?socket={name}&connections=2"),
        };
        let mut device = None;
        wait_until("the server listens", || {
            device = NbdDevice::open(Path::new(&url), true).ok();
            device.is_some()
        });
        let device = device.expect("it was opened");
        assert_eq!(device.size(), 8 << 20, "{words:?}");
        let bytes: Vec<u8> = (0..3 << 20).map(|n| (n / 999) as u8).collect();
        device.write_at(5001, &bytes).expect("written");
        device.flush().expect("flushed");
        device.discard(0, 4096).expect("discarded");
        let read = device.read_vec(5001, bytes.len()).expect("read");
        assert!(read == bytes, "{words:?}");
        assert!(
            device
                .read_vec(6 << 20, 2 << 20)
                .expect("read")
                .iter()
                .all(|b| *b == 0)
        );
    }
}
