//! Zedlets: programs that the daemon, or `zed`, runs for events.

use anyhow::{Context, Result, ensure};
use cenote_tests::patience::wait_until;
use cenote_tests::site::Site;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Writes a shell script that can be run.
fn script(place: &Path, text: &str) -> Result<()> {
    fs::write(place, format!("#!/bin/sh\n{text}\n"))?;
    let mode = fs::Permissions::from_mode(0o700);
    Ok(fs::set_permissions(place, mode)?)
}

/// The lines of a file that zedlets write.
fn lines(place: &Path) -> Vec<String> {
    let text = fs::read_to_string(place).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// A directory of the site with one zedlet for all events, and the file that it appends to: the
/// number and the last part of the class of each event.
fn directory(site: &Site, name: &str) -> Result<(PathBuf, PathBuf)> {
    let directory = site.cenote().subdirectory(name)?;
    let seen = directory.join("seen");
    let text = format!("echo $ZEVENT_EID $ZEVENT_SUBCLASS >>{}", seen.display());
    script(&directory.join("all-see.sh"), &text)?;
    Ok((directory, seen))
}

/// The daemon runs them for every event, also for those of its last moments.
#[test]
fn the_daemon_runs_zedlets_until_it_ends() -> Result<()> {
    let site = Site::new("tank")?;
    site.kill()?;
    let (place, seen) = directory(&site, "zed.d")?;
    let created = place.join("created");
    let text = format!(
        "{{ env; $ZPOOL list -Ho name; }} >{0}.new; mv {0}.new {0}; echo so it is; exit 3",
        created.display()
    );
    script(&place.join("pool_create-tell.sh"), &text)?;
    let exported = place.join("exported");
    let slow = format!("sleep 1; echo $ZEVENT_POOL >>{}", exported.display());
    script(&place.join("sysevent.fs.zfs.pool_export-slow.sh"), &slow)?;
    // Zedlets do not have this path; it only leads to our own commands.
    let path = site.cenote().directory().join("bin");
    let path = format!("{}:{}", path.display(), std::env::var("PATH")?);
    let zedlets = place.display().to_string();
    site.start_with(&[("CENOTE_ZEDLETS", zedlets), ("PATH", path)])?;
    let disk = site.devices().join("a.img");
    fs::File::create(&disk)?.set_len(128 << 20)?;
    let disk = disk.display();
    site.ok(&format!("zpool create -O mountpoint=none tank {disk}"))?;
    wait_until("created", || Ok(created.exists()))?;
    environment_is_of_event(&site, &place, &lines(&created))?;
    let logged = [
        "zedlet pool_create-tell.sh, event ",
        ": so it is",
        "exit status: 3",
    ];
    wait_until("logged", || {
        let log = site.ok("cenote daemon log")?;
        Ok(logged.iter().all(|words| log.contains(words)))
    })?;
    site.ok("zpool scrub -w tank")?;
    site.ok("zpool export tank")?;
    site.ok("cenote daemon stop")?;
    wait_until("ended", || Ok(exported.exists()))?;
    let events = site_events(&lines(&seen));
    let names: Vec<&str> = events.values().map(String::as_str).collect();
    for name in ["pool_create", "scrub_start", "scrub_finish", "pool_export"] {
        ensure!(names.contains(&name), "{name} in {names:?}");
    }
    ensure!(events.len() == lines(&seen).len(), "none twice: {names:?}");
    let count = u64::try_from(events.len())?;
    ensure!(
        events.keys().copied().eq(1..=count),
        "none is missing: {events:?}"
    );
    ensure!(lines(&exported) == ["tank"]);
    site.start()?;
    site.ok(&format!(
        "zpool import -d {} tank",
        site.devices().display()
    ))?;
    site.finish()
}

/// The lines that the zedlet printed: its environment, and the list of pools.
fn environment_is_of_event(site: &Site, place: &Path, words: &[String]) -> Result<()> {
    ensure!(words.last().is_some_and(|line| line == "tank"), "{words:?}");
    let variables = words.iter().filter_map(|line| line.split_once('='));
    let variables: BTreeMap<&str, &str> = variables.collect();
    let is = |name: &str, value: &str| ensure_is(&variables, name, value);
    is("ZEVENT_CLASS", "sysevent.fs.zfs.pool_create")?;
    is("ZEVENT_POOL", "tank")?;
    is("ZED_ZEDLET_DIR", &place.display().to_string())?;
    is("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")?;
    is(
        "CENOTE_SOCKET",
        &site.cenote().socket().display().to_string(),
    )?;
    let guid = site
        .ok("zpool get -Hpo value guid tank")?
        .trim()
        .parse::<u64>()?;
    is("ZEVENT_POOL_GUID", &format!("0x{guid:016X}"))?;
    ensure!(
        !variables.contains_key("RUST_BACKTRACE"),
        "the daemon's own"
    );
    Ok(())
}

fn ensure_is(variables: &BTreeMap<&str, &str>, name: &str, value: &str) -> Result<()> {
    let found = variables.get(name).copied();
    ensure!(found == Some(value), "{name} is {found:?}, not {value}");
    Ok(())
}

/// The events that a zedlet saw, by their number.
fn site_events(lines: &[String]) -> BTreeMap<u64, String> {
    let pairs = lines.iter().filter_map(|line| line.split_once(' '));
    let pairs = pairs.filter_map(|(id, name)| Some((id.parse().ok()?, name.to_owned())));
    pairs.collect()
}

/// `zed` in the background, from a shell that has more descriptors open.
fn zed(site: &Site, place: &Path) -> Result<Child> {
    let program = site.cenote().command::<&str>("cenote", &[]);
    let program = program.get_program().to_owned();
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "exec 9>/dev/null; exec \"$0\" zed -F -v -j 1 -d \"$1\" -s \"$1/state\"",
        ])
        .arg(program)
        .arg(place);
    let mut command = site.cenote().in_environment(command);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    Ok(command.spawn()?)
}

fn end(mut zed: Child) -> Result<()> {
    let id = Pid::from_raw(i32::try_from(zed.id())?).context("a process")?;
    kill_process(id, Signal::TERM)?;
    let status = zed.wait()?;
    ensure!(status.success(), "{status}");
    Ok(())
}

/// `zed` runs those of another directory, over restarts of itself and of the daemon.
#[test]
fn zed_handles_each_event_once() -> Result<()> {
    let site = Site::new("tank")?;
    site.kill()?;
    let (of_daemon, _) = directory(&site, "of_daemon")?;
    site.start_with(&[("CENOTE_ZEDLETS", of_daemon.display().to_string())])?;
    let (place, seen) = directory(&site, "of_zed")?;
    let open = place.join("open");
    let text = format!("ls /proc/self/fd >>{}", open.display());
    script(&place.join("pool_create-open.sh"), &text)?;
    let disk = site.devices().join("a.img");
    fs::File::create(&disk)?.set_len(128 << 20)?;
    let disk = disk.display();
    site.ok(&format!("zpool create -O mountpoint=none tank {disk}"))?;
    let has_seen = |name: &str, count: usize| {
        let all = lines(&seen);
        all.iter().filter(|line| line.ends_with(name)).count() == count
    };
    let taken = site.fails(&format!(
        "cenote zed -F -d {} -s {}/s",
        of_daemon.display(),
        place.display()
    ))?;
    ensure!(
        taken.stderr.contains("another process runs"),
        "{}",
        taken.stderr
    );
    ensure!(taken.code == Some(1));

    // The event was before zed.
    let first = zed(&site, &place)?;
    wait_until("seen", || Ok(has_seen("pool_create", 1) && open.exists()))?;
    // 3 is the directory that ls reads; 9 was the shell's.
    ensure!(lines(&open) == ["0", "1", "2", "3"], "{:?}", lines(&open));
    end(first)?;
    site.ok("zpool scrub -w tank")?;
    let second = zed(&site, &place)?;
    wait_until("seen", || Ok(has_seen("scrub_finish", 1)))?;

    site.ok("zpool export tank")?;
    site.ok("cenote daemon stop")?;
    site.start()?;
    site.ok(&format!(
        "zpool import -d {} tank",
        site.devices().display()
    ))?;
    wait_until("seen", || Ok(has_seen("pool_import", 1)))?;
    end(second)?;
    let all = lines(&seen);
    for name in ["pool_create", "scrub_start", "scrub_finish", "pool_import"] {
        ensure!(has_seen(name, 1), "{name} once: {all:?}");
    }
    site.finish()
}
