//! Alarms: events of a pool reach administrators by every channel, and a receiver that does not
//! answer delays nothing.

use anyhow::{Context, Result, ensure};
use cenote_tests::patience::wait_until;
use cenote_tests::pool;
use cenote_tests::site::Site;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The messages that a server received so far.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn all(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn add(&self, text: String) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(text);
    }
}

/// A server on this machine: returns its port and its received messages. It ends with the process.
fn server(talk: fn(TcpStream, &Told) -> Result<()>) -> Result<(u16, Told)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (port, told) = (listener.local_addr()?.port(), Told::default());
    let own = told.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away in the middle is not this server's concern.
            let _ = talk(stream, &own);
        }
    });
    Ok((port, told))
}

/// Takes one HTTP request; a path with `no` in it is refused.
fn http(stream: TcpStream, told: &Told) -> Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut length, mut head) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        head.push_str(&line);
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let status = match head.starts_with("POST /no ") {
        true => "503 Not Now",
        false => "204 Thanks",
    };
    told.add(format!("{head}{}", String::from_utf8(body)?));
    let answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\n\r\n");
    (&stream).write_all(answer.as_bytes())?;
    Ok(())
}

/// Takes messages by SMTP, without extensions.
fn smtp(stream: TcpStream, told: &Told) -> Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let say = |text: &str| (&stream).write_all(format!("{text}\r\n").as_bytes());
    say("220 here")?;
    let mut message = String::new();
    while let Some(line) = lines.next() {
        let line = line?;
        message.push_str(&format!("{line}\n"));
        match line.split(' ').next().unwrap_or_default() {
            "DATA" => {
                say("354 send")?;
                for line in lines.by_ref() {
                    let line = line?;
                    if line == "." {
                        break;
                    }
                    message.push_str(&format!("{line}\n"));
                }
                say("250 taken")?;
                told.add(std::mem::take(&mut message));
            }
            "QUIT" => return Ok(say("221 bye")?),
            _ => say("250 well")?,
        }
    }
    Ok(())
}

/// Takes connections and never answers.
fn silence(stream: TcpStream, told: &Told) -> Result<()> {
    told.add("a connection".into());
    std::mem::forget(stream);
    Ok(())
}

/// A shell script that can be run.
fn script(place: &Path, text: &str) -> Result<()> {
    fs::write(place, format!("#!/bin/sh\n{text}\n"))?;
    Ok(fs::set_permissions(
        place,
        fs::Permissions::from_mode(0o755),
    )?)
}

/// A site whose daemon has this configuration of alarms, and the file.
fn site_with(alarms: &str) -> Result<(Site, PathBuf)> {
    let site = Site::new("tank")?;
    let file = site.cenote().directory().join("alarms.toml");
    fs::write(&file, alarms)?;
    site.kill()?;
    site.start_with(&[("CENOTE_ALARMS", file.display().to_string())])?;
    Ok((site, file))
}

/// A mirror of two files.
fn create(site: &Site) -> Result<Vec<PathBuf>> {
    let devices = ["a.img", "b.img"].map(|name| site.devices().join(name));
    for device in &devices {
        fs::File::create(device)?.set_len(128 << 20)?;
    }
    let (root, [a, b]) = (site.path(""), devices.each_ref().map(|path| path.display()));
    let root = root.display();
    site.ok(&format!(
        "zpool create -O compression=off -R {root} tank mirror {a} {b}"
    ))?;
    Ok(devices.to_vec())
}

/// Overwrites the contents of a file of sevens on one device.
fn rot(device: &Path) -> Result<()> {
    let device = fs::OpenOptions::new().read(true).write(true).open(device)?;
    let mut found = vec![0; 4096];
    let mut spoiled = 0;
    for sector in 1024..device.metadata()?.len() / 4096 - 1024 {
        device.read_exact_at(&mut found, sector * 4096)?;
        if found.iter().all(|byte| *byte == 7) {
            device.write_all_at(&[0xAA; 4096], sector * 4096)?;
            spoiled += 1;
        }
    }
    ensure!(spoiled > 0, "the file's data were not found");
    Ok(())
}

/// The alarms that a web server received.
fn alarms(told: &Told) -> Result<Vec<Value>> {
    let body = |request: String| -> Result<Value> {
        let (_, body) = request.split_once("\r\n\r\n").context("a body")?;
        Ok(serde_json::from_str(body)?)
    };
    told.all().into_iter().map(body).collect()
}

/// The first of them of this kind.
fn of_kind(told: &Told, kind: &str) -> Result<Option<Value>> {
    let mut all = alarms(told)?.into_iter();
    Ok(all.find(|alarm| alarm["kind"] == kind))
}

fn await_kind(told: &Told, kind: &str) -> Result<Value> {
    wait_until(kind, || Ok(of_kind(told, kind)?.is_some()))?;
    of_kind(told, kind)?.context("it was there")
}

#[test]
fn what_goes_wrong_is_told_by_every_way() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let ((http, heard), (smtp, mailed)) = (server(http)?, server(smtp)?);
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name);
    script(
        &path("sendmail"),
        &format!("cat >> {}/mail", directory.path().display()),
    )?;
    script(
        &path("note"),
        &format!(
            "env | sort >> {}/notes; cat > /dev/null",
            directory.path().display()
        ),
    )?;
    let (site, _) = site_with(&format!(
        r#"
        full_percent = 2
        gather_seconds = 1
        [[webhook]]
        url = "http://127.0.0.1:{http}/hook"
        headers = {{ X-Key = "k" }}
        [[mail]]
        smtp = "127.0.0.1"
        port = {smtp}
        tls = "no"
        from = "nas@example.org"
        to = ["Admin <admin@example.org>"]
        least = "danger"
        [[mail]]
        name = "local"
        to = ["root"]
        sendmail = "{0}/sendmail"
        on = ["device", "scan"]
        [[program]]
        path = "{0}/note"
        on = ["device"]
        "#,
        directory.path().display()
    ))?;
    let devices = create(&site)?;
    let tried = site.ok("cenote alarm test")?;
    ensure!(tried.matches(": sent\n").count() == 4, "{tried}");
    ensure!(mailed.all().len() == 1 && of_kind(&heard, "test")?.is_some());

    errors_and_scans(&site, &devices[0], &heard)?;
    let first = devices[0].display().to_string();
    device_that_fails(&site, &first, &heard)?;
    programs_and_mail(&path, &first, &mailed)?;
    ensure!(heard.all()[0].to_lowercase().contains("x-key: k"));
    site.ok("zpool clear tank")?;
    site.finish()
}

/// A pool that fills up, a device that returns wrong data, and the scrub that repairs it.
fn errors_and_scans(site: &Site, device: &Path, heard: &Told) -> Result<()> {
    let file = site.path("tank").join("file");
    fs::write(&file, vec![7; 8 << 20])?;
    let full = await_kind(heard, "full")?;
    ensure!(
        full["severity"] == "attention" && full["pool"] == "tank",
        "{full}"
    );
    site.export()?;
    rot(device)?;
    site.import("")?;
    site.ok("zpool scrub -w tank")?;
    let errors = await_kind(heard, "errors")?;
    let first = device.display().to_string();
    ensure!(errors["device"] == first.as_str(), "{errors}");
    ensure!(
        errors["event"]["class"] == "ereport.fs.zfs.checksum",
        "{errors}"
    );
    ensure!(
        errors["subject"].to_string().contains("checksum error"),
        "{errors}"
    );
    let scan = await_kind(heard, "scan")?;
    ensure!(scan["severity"] == "note", "all was repaired: {scan}");
    ensure!(
        scan["subject"].to_string().contains("scrub finished"),
        "{scan}"
    );
    Ok(())
}

/// A device that is out of service.
fn device_that_fails(site: &Site, first: &str, heard: &Told) -> Result<()> {
    site.ok(&format!("zpool offline -f tank {first}"))?;
    // Its errors may have degraded it before.
    let is_faulted = |alarm: &Value| alarm["kind"] == "device" && alarm["severity"] == "danger";
    wait_until("faulted", || Ok(alarms(heard)?.iter().any(is_faulted)))?;
    let device = alarms(heard)?.into_iter().find(is_faulted);
    let device = device.context("it was there")?;
    ensure!(device["device"] == first, "{device}");
    ensure!(device["event"]["vdev_path"] == first, "{device}");
    Ok(())
}

/// The messages about the device on the other channels.
fn programs_and_mail(path: &dyn Fn(&str) -> PathBuf, first: &str, mailed: &Told) -> Result<()> {
    let notes = || fs::read_to_string(path("notes")).unwrap_or_default();
    wait_until("the program", || {
        Ok(notes().contains("ZEVENT_VDEV_STATE_STR=FAULTED\n"))
    })?;
    for line in ["ZEVENT_POOL=tank\n", "ZEVENT_SUBCLASS=statechange\n"] {
        ensure!(notes().contains(line), "{}", notes());
    }
    ensure!(
        notes().contains(&format!("ZEVENT_VDEV_PATH={first}\n")),
        "{}",
        notes()
    );
    let mail = || fs::read_to_string(path("mail")).unwrap_or_default();
    wait_until("sendmail", || Ok(mail().contains("FAULTED")))?;
    ensure!(
        mail().contains("To: root\n") && mail().contains("scrub finished"),
        "{}",
        mail()
    );
    ensure!(!mail().contains("of its space"), "{}", mail());
    wait_until("the mail server", || Ok(mailed.all().len() == 2))?;
    let message = mailed.all().pop().context("a message")?;
    for part in [
        "MAIL FROM:<nas@example.org>",
        "RCPT TO:<admin@example.org>",
        "Subject: [danger] pool tank",
        "(FAULTED)",
    ] {
        ensure!(message.contains(part), "no '{part}' in {message}");
    }
    Ok(())
}

#[test]
fn receivers_that_do_not_answer_hold_nothing_up() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let ((silent, met), (http, heard)) = (server(silence)?, server(http)?);
    let (site, file) = site_with(&format!(
        r#"
        retry_seconds = [1, 1]
        [[webhook]]
        name = "silent"
        url = "http://127.0.0.1:{silent}/"
        timeout_seconds = 2
        [[webhook]]
        name = "refusing"
        url = "http://127.0.0.1:{http}/no"
        "#
    ))?;
    let devices = create(&site)?;
    let test = site.fails("cenote alarm test")?;
    let said = test.text();
    ensure!(test.code == Some(1), "{}", test.report());
    ensure!(said.contains("silent  webhook http://127.0.0.1"), "{said}");
    ensure!(
        said.contains("FAILED") && said.contains("no answer within 2 s"),
        "{said}"
    );
    ensure!(said.contains("the server answered 503"), "{said}");

    let second = devices[1].display();
    site.ok(&format!("zpool offline -f tank {second}"))?;
    wait_until("a try", || Ok(met.all().len() >= 2))?;
    // While an alarm waits for a receiver, the pool works, and so does the daemon.
    let file_of_pool = site.path("tank").join("file");
    fs::write(&file_of_pool, vec![3; 1 << 20])?;
    site.ok("zpool sync tank")?;
    site.ok("zpool status tank")?;
    let list = || -> Result<Value> { Ok(serde_json::from_str(&site.ok("cenote alarm -j")?)?) };
    wait_until("given up", || {
        let ways = list()?["ways"].clone();
        Ok(ways[0]["failed"] == 1 && ways[1]["failed"] == 1)
    })?;
    // Once at the test, and thrice for the alarm.
    let refused = heard.all().len();
    ensure!(refused == 4, "{refused} requests");

    file_is_read_anew(&site, &file, &second.to_string(), http, &list)?;
    site.ok("zpool clear tank")?;
    site.finish()
}

/// What is wrong with a file changes nothing, and one that is right holds at once.
fn file_is_read_anew(
    site: &Site,
    file: &Path,
    device: &str,
    http: u16,
    list: &dyn Fn() -> Result<Value>,
) -> Result<()> {
    // The command reports the file's error, and the old settings stay.
    fs::write(file, "full_procent = 3\n")?;
    let fault = site.fails("cenote alarm test")?;
    ensure!(
        fault
            .stderr
            .contains("alarms.toml: line 1: unknown field `full_procent`"),
        "{}",
        fault.stderr
    );
    ensure!(list()?["ways"][1]["name"] == "refusing");
    let start = site.fails(&format!("cenote daemon run --alarms {}", file.display()))?;
    ensure!(
        start.stderr.contains("alarms.toml: line 1: unknown"),
        "{}",
        start.stderr
    );
    let right = format!("[[webhook]]\nurl = \"http://127.0.0.1:{http}/\"\n");
    fs::write(file, right)?;
    site.ok("cenote alarm reload")?;
    site.ok("zpool clear tank")?;
    site.ok(&format!("zpool offline -f tank {device}"))?;
    wait_until("the new way", || {
        Ok(list()?["ways"][0]["sent"].as_u64() >= Some(1))
    })
}
