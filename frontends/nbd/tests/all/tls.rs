//! Encrypted connections: with our client and with libnbd's.

use crate::common::Site;
use crate::raw::Raw;
use cenote_device::Device;
use cenote_nbd::protocol::{answer, option};
use cenote_nbd::{Limits, MemoryDisk, TlsPolicy};
use cenote_nbd_client::NbdDevice;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

fn openssl(directory: &Path, words: &str) -> bool {
    let status = Command::new("openssl")
        .args(words.split_whitespace())
        .current_dir(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// A directory with an authority, and certificates of it for `localhost` and for a client.
fn certificates() -> Option<TempDir> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    std::fs::write(path.join("server.ext"), "subjectAltName=DNS:localhost\n").expect("room");
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    let mut made = openssl(
        path,
        &format!("req -x509 {key} -keyout ca-key.pem -out ca-cert.pem -days 9 -subj /CN=authority"),
    );
    for name in ["server", "client"] {
        made &= openssl(
            path,
            &format!("req {key} -keyout {name}-key.pem -out {name}.csr -subj /CN={name}"),
        );
        made &= openssl(
            path,
            &format!(
                "x509 -req -in {name}.csr -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial \
                 -out {name}-cert.pem -days 9 -extfile server.ext"
            ),
        );
    }
    made.then_some(directory)
}

fn site(directory: &Path, checks_clients: bool) -> Site {
    let tls = TlsPolicy::required(directory, checks_clients).expect("certificates");
    let site = Site::with(Limits::default(), tls);
    site.shelf.put("disk", Arc::new(MemoryDisk::new(16 << 20)));
    site
}

fn open(site: &Site, options: &str) -> Result<NbdDevice, String> {
    let url = site.url("disk", options).replace("nbd+", "nbds+");
    NbdDevice::open(Path::new(&url), true).map_err(|error| error.to_string())
}

#[test]
fn bytes_go_over_tls() {
    let Some(directory) = certificates() else {
        cenote_tests::missing!("openssl cannot make certificates");
        return;
    };
    let path = directory.path();
    let site = site(path, false);
    let url = site.url("disk", "");
    let plain = NbdDevice::open(Path::new(&url), true).expect_err("not encrypted");
    assert!(plain.to_string().contains("TLS"), "{plain}");
    let options = format!(
        "&tls-hostname=localhost&tls-certificates={}",
        path.display()
    );
    let device = open(&site, &options).expect("a connection");
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 7) as u8).collect();
    device.write_at(1_000_001, &bytes).expect("written");
    device.flush().expect("flushed");
    assert!(device.read_vec(1_000_001, bytes.len()).expect("read") == bytes);
    assert!(site.server.as_ref().expect("it runs").connections()[0].is_encrypted);
    let other = options.replace("localhost", "elsewhere");
    assert!(open(&site, &other).is_err(), "another host's certificate");

    let program = Command::new("nbdcopy")
        .arg(format!(
            "nbds+unix:///disk?socket={}&tls-certificates={}",
            site.socket().display(),
            path.display()
        ))
        .arg(directory.path().join("copy"))
        .output();
    match program {
        Err(_) => cenote_tests::missing!("nbdcopy (package libnbd-bin) is not installed"),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{text}");
            let copy = std::fs::read(directory.path().join("copy")).expect("a copy");
            assert!(copy[1_000_001..][..bytes.len()] == bytes);
        }
    }
}

#[test]
fn clients_need_certificates_where_they_are_checked() {
    let Some(directory) = certificates() else {
        cenote_tests::missing!("openssl cannot make certificates");
        return;
    };
    let site = site(directory.path(), true);
    let stranger = tempfile::tempdir().expect("a directory");
    let ca = stranger.path().join("ca-cert.pem");
    std::fs::copy(directory.path().join("ca-cert.pem"), ca).expect("room");
    let with = |path: &Path| {
        let path = path.display();
        open(
            &site,
            &format!("&tls-hostname=localhost&tls-certificates={path}"),
        )
    };
    assert!(with(stranger.path()).is_err());
    assert!(with(directory.path()).is_ok());
}

/// Bytes in the clear behind STARTTLS could be injected by an attacker.
#[test]
fn bytes_before_tls_are_not_trusted_after_it() {
    let Some(directory) = certificates() else {
        cenote_tests::missing!("openssl cannot make certificates");
        return;
    };
    let site = site(directory.path(), false);
    let option = |option| cenote_nbd::protocol::handshake::encode_option(option, &[]);
    let mut raw = Raw::greeted(&site.socket());
    assert_eq!(raw.verdict(option::LIST, &[]), answer::TLS_REQUIRED);
    let both = [option(option::STARTTLS), option(option::LIST)].concat();
    raw.stream.write_all(&both).expect("sent");
    assert!(raw.is_closed());
    let mut raw = Raw::greeted(&site.socket());
    assert_eq!(raw.verdict(option::STARTTLS, &[]), answer::ACK);
    raw.send(&[0; 100]);
    assert!(raw.is_closed(), "that is no TLS");
}
