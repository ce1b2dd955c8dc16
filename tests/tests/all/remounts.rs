//! What changes about a mount while it is used: by properties, by `mount -o remount`, and by
//! other mounts of the same file system. The outcomes are those of OpenZFS 2.3.2's module.

use anyhow::{Result, ensure};
use cenote_tests::pool;
use cenote_tests::random::Random;
use cenote_tests::site::Site;
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn errno<T>(result: io::Result<T>) -> Option<Errno> {
    let number = result.err()?.raw_os_error()?;
    Some(Errno::from_raw_os_error(number))
}

/// A pool whose file system `tank/fs` has a program in it and another file system below.
fn site() -> Result<Site> {
    let site = Site::create("single", 128, "")?;
    site.ok("zfs create tank/fs")?;
    site.ok("zfs create tank/fs/below")?;
    let root = site.path("tank/fs");
    fs::copy("/bin/true", root.join("program"))?;
    fs::set_permissions(root.join("program"), fs::Permissions::from_mode(0o755))?;
    fs::write(root.join("below/file"), "below")?;
    Ok(site)
}

#[test]
fn properties_hold_at_once_for_what_is_in_use() -> Result<()> {
    if !pool::can_mount() || !pool::is_root() {
        return Ok(());
    }
    let site = site()?;
    let root = site.path("tank/fs");
    let in_use = File::open(&root)?;
    let mut written = File::create(root.join("written"))?;
    written.write_all(b"before")?;
    site.ok("zfs set readonly=on tank/fs")?;
    ensure!(errno(written.write_all(b"after")) == Some(Errno::ROFS));
    ensure!(errno(fs::write(root.join("new"), "")) == Some(Errno::ROFS));
    ensure!(errno(fs::remove_file(root.join("below/file"))) == Some(Errno::ROFS));
    ensure!(fs::read(root.join("written"))? == b"before");
    drop(written);
    site.ok("zfs inherit readonly tank/fs")?;
    let mut written = OpenOptions::new().append(true).open(root.join("written"))?;
    written.write_all(b" and after")?;
    written.sync_all()?;
    drop(written);
    let program = || Command::new(root.join("program")).status();
    ensure!(program()?.success());
    site.ok("zfs set exec=off tank/fs")?;
    ensure!(errno(program()) == Some(Errno::ACCESS), "exec=off");
    site.ok("zfs set exec=on tank/fs")?;
    ensure!(program()?.success());
    let lists_control = || -> Result<bool> {
        let names = fs::read_dir(&root)?.collect::<io::Result<Vec<_>>>()?;
        Ok(names.iter().any(|entry| entry.file_name() == ".zfs"))
    };
    for (value, is_listed, is_there) in [
        ("visible", true, true),
        ("disabled", false, false),
        ("hidden", false, true),
    ] {
        site.ok(&format!("zfs set snapdir={value} tank/fs"))?;
        ensure!(lists_control()? == is_listed, "listed with {value}");
        ensure!(
            root.join(".zfs/snapshot").is_dir() == is_there,
            "there with {value}"
        );
    }
    let name = "user.name";
    let flags = rustix::fs::XattrFlags::empty();
    let set = || rustix::fs::setxattr(root.join("program"), name, b"1", flags);
    site.ok("zfs set xattr=off tank/fs")?;
    ensure!(set() == Err(Errno::OPNOTSUPP));
    site.ok("zfs inherit xattr tank/fs")?;
    set()?;
    ensure!(fs::read(root.join("below/file"))? == b"below");
    drop(in_use);
    site.reopen(&["tank/fs", "tank/fs/below"])?;
    ensure!(fs::read(root.join("written"))? == b"before and after");
    site.finish()
}

#[test]
fn a_mount_is_changed_by_hand() -> Result<()> {
    if !pool::can_mount() || !pool::is_root() {
        return Ok(());
    }
    let site = site()?;
    let root = site.path("tank/fs");
    let in_use = File::open(&root)?;
    let shown = |properties: &str| {
        let line = format!("zfs get -H -o value,source {properties} tank/fs");
        Ok::<_, anyhow::Error>(site.ok(&line)?.replace('\n', " "))
    };
    site.ok("zfs mount -o remount,ro tank/fs")?;
    ensure!(errno(fs::write(root.join("new"), "")) == Some(Errno::ROFS));
    ensure!(shown("readonly")? == "on\ttemporary ");
    // Setting any of these properties ends what options said.
    site.ok("zfs set atime=off tank/fs")?;
    fs::write(root.join("new"), "")?;
    ensure!(shown("readonly,atime")? == "off\tdefault off\tlocal ");
    // As mount(8) calls its helper, with the words of the kernel's table.
    let words =
        "rw,noexec,noatime,user_id=0,group_id=0,default_permissions,allow_other,max_read=1048576";
    let at = root.display();
    site.ok(&format!("mount.zfs tank/fs {at} -o remount,{words}"))?;
    ensure!(errno(Command::new(root.join("program")).status()) == Some(Errno::ACCESS));
    ensure!(shown("exec,readonly")? == "off\ttemporary off\tdefault ");
    site.ok("zfs mount -o remount tank/fs")?;
    ensure!(Command::new(root.join("program")).status()?.success());
    let refused = site.fails("zfs mount -o remount,ro tank/absent")?;
    ensure!(
        refused.stderr.contains("does not exist"),
        "{}",
        refused.report()
    );
    site.ok("zfs unmount tank/fs/below")?;
    let refused = site.fails("zfs mount -o remount,ro tank/fs/below")?;
    ensure!(
        refused.stderr.contains("not currently mounted"),
        "{}",
        refused.report()
    );
    // What cannot be reached is left as it is.
    let tool = |words: &[&str]| Command::new(words[0]).args(&words[1..]).arg(&root).status();
    ensure!(tool(&["mount", "-t", "tmpfs", "none"])?.success());
    let refused = site.fails("zfs set readonly=on tank/fs")?;
    ensure!(refused.stderr.contains("busy"), "{}", refused.report());
    ensure!(tool(&["umount"])?.success());
    fs::write(root.join("new"), "still taken")?;
    site.ok("zfs inherit readonly tank/fs")?;
    drop(in_use);
    site.finish()
}

/// What takes unmounting is refused while it is used, and nothing has changed then.
#[test]
fn what_is_in_use_is_not_moved() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = site()?;
    let root = site.path("tank/fs");
    let listed = || site.ok("zfs list -H -r -o name,mountpoint,canmount,mounted tank");
    let before = listed()?;
    let in_use = File::open(root.join("program"))?;
    for line in [
        "zfs set mountpoint=/elsewhere tank/fs",
        "zfs set mountpoint=none tank/fs",
        "zfs set canmount=off tank/fs",
        "zfs rename tank/fs tank/other",
        "zfs destroy -r tank/fs",
    ] {
        let refused = site.fails(line)?;
        let expected = format!(
            "cannot unmount '{}': pool or dataset is busy\n",
            root.display()
        );
        ensure!(refused.stderr == expected, "{}", refused.report());
        if line.contains("destroy") {
            // The file systems below were not in use.
            break;
        }
        ensure!(listed()? == before, "{line}: {}", listed()?);
        ensure!(fs::read(root.join("below/file"))? == b"below", "{line}");
    }
    drop(in_use);
    site.ok("zfs rename tank/fs tank/other")?;
    let other = site.path("tank/other");
    ensure!(other.join("program").exists() && !root.exists());
    // A path means the dataset there, with everything below it.
    site.ok(&format!("zfs unmount {}", other.display()))?;
    ensure!(!other.join("program").exists());
    site.ok("zfs mount -a")?;
    site.ok("zfs set mountpoint=/moved tank/other")?;
    ensure!(!other.exists(), "that directory was not set explicitly");
    site.finish()
}

/// Moving a file system moves what has its place from it, and nothing else.
#[test]
fn only_heirs_move_along() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = site()?;
    site.ok("zfs create -o mountpoint=/apart tank/fs/apart")?;
    let mounted = || site.ok("zfs list -H -r -o name,mounted tank/fs");
    let place = site.ok("zfs get -H -o value mountpoint tank/fs/apart")?;
    let in_use = File::open(place.trim_end())?;
    site.ok("zfs set mountpoint=/moved tank/fs")?;
    ensure!(mounted()? == "tank/fs\tyes\ntank/fs/apart\tyes\ntank/fs/below\tyes\n");
    drop(in_use);
    site.ok("zfs unmount tank/fs")?;
    site.ok("zfs set mountpoint=/again tank/fs")?;
    ensure!(mounted()? == "tank/fs\tyes\ntank/fs/apart\tno\ntank/fs/below\tyes\n");
    // What was not mounted need not be after that: the property is set nevertheless.
    fs::write(site.path("again").join("file"), "")?;
    for (change, place) in [
        ("mountpoint=legacy", "/again/file"),
        ("overlay=off", "/again"),
    ] {
        site.ok(&format!("zfs set {change} tank/fs/apart"))?;
        site.ok(&format!("zfs set mountpoint={place} tank/fs/apart"))?;
        let state = site.ok("zfs get -H -o value mounted,mountpoint tank/fs/apart")?;
        let expected = format!("no\n{}\n", site.path(&place[1..]).display());
        ensure!(state == expected, "{state}");
        site.fails("zfs mount tank/fs/apart")?;
    }
    site.finish()
}

/// A mount belongs to its dataset, whatever that is called later.
#[test]
fn mounts_keep_their_dataset() -> Result<()> {
    if !pool::can_mount() || !pool::is_root() {
        return Ok(());
    }
    let site = site()?;
    let root = site.path("tank/fs");
    site.ok("zfs rename -u tank/fs tank/other")?;
    let listed = site.ok("zfs list -H -r -o name,mounted tank/other")?;
    ensure!(
        listed == "tank/other\tyes\ntank/other/below\tyes\n",
        "{listed}"
    );
    site.ok("zfs mount -a")?;
    ensure!(
        !site.path("tank/other").join("program").exists(),
        "mounted once"
    );
    site.ok("zfs set readonly=on tank/other")?;
    ensure!(errno(fs::write(root.join("new"), "")) == Some(Errno::ROFS));
    // What is unmounted on the way to something busy comes back.
    let in_use = File::open(root.join("program"))?;
    let refused = site.fails("zfs unmount tank/other")?;
    ensure!(refused.stderr.contains("is busy"), "{}", refused.report());
    let below = site.ok("zfs get -H -o value mounted tank/other/below")?;
    ensure!(below == "yes\n", "{below}");
    let refused = site.fails("zpool export tank")?;
    let expected = format!(
        "cannot unmount '{}': pool or dataset is busy\n",
        root.display()
    );
    ensure!(refused.stderr == expected, "{}", refused.report());
    drop(in_use);
    site.finish()
}

/// When a name is dropped from the kernel's cache, the kernel unmounts what is mounted on it.
#[test]
fn a_second_mount_leaves_what_is_mounted_below_the_first() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = site()?;
    let root = site.path("tank/fs");
    let below = |root: &Path| fs::read(root.join("below/file"));
    let second = pool::mount(site.cenote(), "tank/fs")?;
    ensure!(below(&root)? == b"below");
    ensure!(
        below(&second).is_err(),
        "only the first has the other file system"
    );
    fs::write(second.join("from the second"), "")?;
    ensure!(fs::read_dir(&root)?.count() == 3);
    ensure!(below(&root)? == b"below");
    pool::unmount(site.cenote(), &second)?;
    ensure!(below(&root)? == b"below");
    site.finish()
}

/// This used to need an unmount, which is refused while the mount is in use.
#[test]
fn what_was_mounted_to_be_read_takes_changes_while_it_is_used() -> Result<()> {
    if !pool::can_mount() || !pool::is_root() {
        return Ok(());
    }
    let site = site()?;
    let root = site.path("tank/fs");
    let shown = || site.ok("zfs get -H -o value,source readonly tank/fs");
    let write = |name: &str| errno(fs::write(root.join(name), "contents"));
    site.ok("zfs set readonly=on tank/fs")?;
    site.ok("zfs unmount tank/fs")?;
    site.ok("zfs mount -a")?;
    ensure!(shown()? == "on\tlocal\n");
    let in_use = File::open(&root)?;
    ensure!(write("early") == Some(Errno::ROFS));
    site.ok("zfs set readonly=off tank/fs")?;
    ensure!(shown()? == "off\tlocal\n");
    ensure!(write("late").is_none());
    // What its heirs were mounted as follows them.
    fs::write(root.join("below/late"), "contents")?;
    site.ok("zfs set readonly=on tank/fs")?;
    ensure!(write("later") == Some(Errno::ROFS));
    // An option overrules the property, until that is set.
    site.ok("zfs mount -o remount,rw tank/fs")?;
    ensure!(shown()? == "off\ttemporary\n");
    ensure!(write("later").is_none());
    site.ok("zfs set atime=off tank/fs")?;
    ensure!(shown()? == "on\tlocal\n");
    drop(in_use);
    site.ok("zfs unmount tank/fs")?;
    site.ok("zfs mount -o rw tank/fs")?;
    ensure!(shown()? == "off\ttemporary\n");
    ensure!(write("last").is_none());
    site.ok("zfs inherit readonly tank/fs")?;
    site.ok("zfs mount -a")?;
    site.reopen(&["tank/fs", "tank/fs/below"])?;
    for name in ["late", "later", "last"] {
        ensure!(fs::read(root.join(name))? == b"contents", "{name}");
    }
    site.finish()
}

/// Files that lost their names before a crash wait until the file system may be changed.
#[test]
fn the_delete_queue_waits_for_a_mount_that_may_change() -> Result<()> {
    if !pool::can_mount() || !pool::is_root() {
        return Ok(());
    }
    let site = site()?;
    let root = site.path("tank/fs");
    let mut data = vec![0; 8 << 20];
    Random::new(1).fill(&mut data);
    fs::write(root.join("unnamed"), data)?;
    let held = File::open(root.join("unnamed"))?;
    fs::remove_file(root.join("unnamed"))?;
    site.ok("zfs set readonly=on tank/fs")?;
    site.ok("zpool sync tank")?;
    site.crash()?;
    drop(held);
    site.import("-f")?;
    let is_freed = || {
        site.ok("zpool sync tank")?;
        let referenced = site.ok("zfs get -Hp -o value referenced tank/fs")?;
        anyhow::Ok(referenced.trim_end().parse::<u64>()? < 4 << 20)
    };
    let in_use = File::open(&root)?;
    ensure!(!is_freed()?, "nothing may change");
    site.ok("zfs set readonly=off tank/fs")?;
    ensure!(is_freed()?, "it is still there");
    drop(in_use);
    site.finish()
}
