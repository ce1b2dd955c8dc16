//! Projects and DOS attributes of files on a mount: a part of the test of its POSIX file system.

use crate::posix::errno;
use anyhow::{Result, ensure};
use cenote_tests::missing;
use cenote_tests::site::Site;
use rustix::io::Errno;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Sets the DOS attribute hidden by OpenZFS's `ioctl`s, and one that there is not.
const DOS: &str = "
import fcntl, struct, sys
file = open(sys.argv[1])
get = lambda: struct.unpack('<Q', fcntl.ioctl(file, 0x80088301, bytes(8)))[0]
put = lambda bits: fcntl.ioctl(file, 0x40088302, struct.pack('<Q', bits))
old = get()
put(old | 0x200000000)
print(hex(get() ^ old))
put(old)
try:
    put(1)
except OSError as error:
    print(error.errno, get() == old)
";

/// DOS attributes, which come by `ioctl`s that the kernel does not know.
pub(crate) fn dos_attributes(path: &Path) -> Result<()> {
    let Ok(output) = Command::new("python3").args(["-c", DOS]).arg(path).output() else {
        missing!("there is no python3");
        return Ok(());
    };
    let found = String::from_utf8_lossy(&output.stdout);
    ensure!(found == "0x200000000\n95 True\n", "{output:?}");
    Ok(())
}

/// Projects, which come down to what is made in a directory.
pub(crate) fn projects(site: &Site, directory: &Path) -> Result<()> {
    let run = |program: &str, arguments: &[&str], path: &Path| -> Result<Option<String>> {
        let output = Command::new(program).args(arguments).arg(path).output();
        let Ok(output) = output else {
            missing!("there is no {program}");
            return Ok(None);
        };
        ensure!(output.status.success(), "{program}: {output:?}");
        Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()))
    };
    if run("chattr", &["-p", "4711", "+P"], directory)?.is_none() {
        return Ok(());
    }
    fs::create_dir_all(directory.join("inner"))?;
    fs::write(directory.join("inner/file"), "")?;
    let shown = run("lsattr", &["-p"], &directory.join("inner"))?.unwrap_or_default();
    ensure!(shown.trim_start().starts_with("4711"), "{shown}");
    fs::write(directory.with_file_name("outside"), "")?;
    let moved = fs::rename(
        directory.with_file_name("outside"),
        directory.join("outside"),
    );
    ensure!(errno(moved)? == Errno::XDEV, "another project");
    let place = directory.display();
    let project = |words: &str| site.ok(&format!("zfs project {words} {place}"));
    ensure!(project("-d")? == format!(" 4711 P {place}\n"));
    ensure!(project("-c -r")?.is_empty() && project("")?.lines().count() == 2);
    project("-C -r -k")?;
    let wrong = project("-c -r -p 4711")?;
    let lacks_flag = |line: &str| line.ends_with(" - project inherit flag is not set");
    ensure!(
        wrong.lines().count() == 2 && wrong.lines().all(lacks_flag),
        "{wrong}"
    );
    project("-s -r -p 42")?;
    let shown = run("lsattr", &["-p"], &directory.join("inner"))?.unwrap_or_default();
    ensure!(shown.trim_start().starts_with("42"), "{shown}");
    ensure!(project("-c -r -0 -p 43")?.split_terminator('\0').count() == 3);
    project("-C -r")?;
    ensure!(
        project("-r")?
            .lines()
            .all(|line| line.starts_with("    0 - "))
    );
    let refused = site.fails(&format!("zfs project -c -r {place}/inner/file"))?;
    ensure!(
        refused.stderr.contains("are for directories"),
        "{}",
        refused.report()
    );
    Ok(())
}
