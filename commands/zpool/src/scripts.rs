//! `-c` of `zpool iostat` and `zpool status`: columns that scripts print for each device.
//!
//! Scripts are programs that an administrator has put into certain directories. Names with slashes
//! are refused, so that nothing else can run. As root they run only if `ZPOOL_SCRIPTS_AS_ROOT`
//! allows it. A script has twenty seconds, since one that OpenZFS ships takes ten; after that it is
//! killed, and its columns are empty.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cenote_control::model::Vdev;
use cenote_words::context::{Context, Stop, failed};

/// The time limit of a script.
const TIME_MAX: Duration = Duration::from_secs(20);
/// How many bytes of a script's output to read.
const OUTPUT_MAX: u64 = 64 << 10;
/// Maximum number of columns of one script.
const COLUMNS_MAX: usize = 32;
/// The name of a column for lines without a name.
const UNNAMED: &str = "";

/// The scripts to run for each device.
pub struct Scripts(Vec<PathBuf>);

/// The output of scripts for one device: values by column.
pub type Said = Vec<(String, String)>;

/// The directories to search for scripts.
fn directories(context: &Context) -> Vec<PathBuf> {
    if let Some(path) = (context.variable)("ZPOOL_SCRIPTS_PATH") {
        return path
            .split(':')
            .filter(|part| !part.is_empty())
            .map(PathBuf::from)
            .collect();
    }
    let home = (context.variable)("HOME").map(|home| Path::new(&home).join(".zpool.d"));
    home.into_iter()
        .chain([PathBuf::from("/etc/zfs/zpool.d")])
        .collect()
}

/// Whether a variable switches something on; `None` if it is not set.
fn is_on(variable: &str, context: &Context) -> Option<bool> {
    let value = (context.variable)(variable)?.to_lowercase();
    let is_number = value.parse::<i64>().is_ok_and(|number| number != 0);
    Some(is_number || ["yes", "on"].contains(&value.as_str()))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let metadata = file.metadata();
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Lists the scripts that a subcommand can run.
pub fn list(subcommand: &str, context: &mut Context) {
    let mut names = BTreeMap::new();
    for directory in directories(context) {
        for entry in std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            if is_program(&entry.path()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                names.entry(name).or_insert_with(|| directory.clone());
            }
        }
    }
    if names.is_empty() {
        let directories = directories(context);
        let directories = directories
            .iter()
            .map(|directory| directory.display().to_string());
        let directories: Vec<String> = directories.collect();
        context.line(&format!(
            "There are no scripts in {}.",
            directories.join(", ")
        ));
        return;
    }
    context.line(&format!("Available 'zpool {subcommand} -c' commands:"));
    for (name, directory) in names {
        context.line(&format!("  {name:<16} {}", directory.join(&name).display()));
    }
}

impl Scripts {
    /// Finds the scripts of a list.
    ///
    /// # Errors
    /// If one of them cannot be run.
    pub fn find(names: &str, context: &Context) -> Result<Self, Stop> {
        if is_on("ZPOOL_SCRIPTS_ENABLED", context) == Some(false) {
            return failed("Can't run -c, disabled by ZPOOL_SCRIPTS_ENABLED.");
        }
        let is_allowed = is_on("ZPOOL_SCRIPTS_AS_ROOT", context) == Some(true);
        if rustix::process::geteuid().is_root() && !is_allowed {
            return failed(
                "Can't run -c as root: scripts run with your rights. \
                 Set ZPOOL_SCRIPTS_AS_ROOT=1 to allow it",
            );
        }
        let directories = directories(context);
        let mut found = Vec::new();
        for name in names.split(',').filter(|name| !name.is_empty()) {
            if name.contains('/') || name == "." || name == ".." {
                return failed(format!(
                    "'{name}' is no name of a script: it must not contain a slash"
                ));
            }
            let mut places = directories.iter().map(|directory| directory.join(name));
            let Some(script) = places.find(|place| is_program(place)) else {
                return failed(format!(
                    "there is no script '{name}'; 'zpool iostat -c' lists those that there are"
                ));
            };
            found.push(script);
        }
        Ok(Self(found))
    }

    /// Runs all scripts for the devices among these vdevs and those below them.
    pub fn run_below<'a>(&self, vdevs: impl Iterator<Item = &'a Vdev>) -> BTreeMap<u64, Said> {
        let mut devices = Vec::new();
        let mut stack: Vec<&Vdev> = vdevs.collect();
        while let Some(vdev) = stack.pop() {
            if let Some(path) = vdev.path.as_ref().filter(|_| vdev.kind.is_leaf()) {
                devices.push((vdev.guid, path.clone()));
            }
            stack.extend(&vdev.children);
        }
        self.run(&devices)
    }

    /// Runs all scripts for these devices, and collects their output.
    pub fn run(&self, devices: &[(u64, String)]) -> BTreeMap<u64, Said> {
        let mut said: BTreeMap<u64, Said> = BTreeMap::new();
        for script in &self.0 {
            // One script runs for all devices in parallel, because they wait for different disks.
            let deadline = Instant::now() + TIME_MAX;
            let started: Vec<(u64, Option<Child>)> = devices
                .iter()
                .map(|(guid, path)| (*guid, start(script, path)))
                .collect();
            for (guid, child) in started {
                let output = child
                    .map(|child| output_of(child, deadline))
                    .unwrap_or_default();
                said.entry(guid).or_default().extend(values(&output));
            }
        }
        said
    }
}

fn start(script: &Path, path: &str) -> Option<Child> {
    let underlying = std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
    let command = Command::new(script)
        .env("VDEV_PATH", path)
        .env("VDEV_UPATH", &underlying)
        .env("VDEV_ENC_SYSFS_PATH", enclosure(&underlying))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    command.ok()
}

/// The enclosure's directory in sysfs; empty if there is none.
fn enclosure(device: &Path) -> PathBuf {
    let name = device.file_name().unwrap_or_default();
    let device = Path::new("/sys/class/block").join(name).join("device");
    let entries = std::fs::read_dir(device).into_iter().flatten().flatten();
    let mut entries = entries.map(|entry| entry.path());
    let is_slot = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| name.starts_with("enclosure_device:"))
    };
    let slot = entries.find(is_slot);
    slot.and_then(|slot| slot.canonicalize().ok())
        .unwrap_or_default()
}

/// The output of a script until the deadline; empty if the script takes longer.
fn output_of(mut child: Child, deadline: Instant) -> String {
    let pipe = child.stdout.take();
    // The output may exceed a pipe's capacity, so it is read while the script runs.
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(OUTPUT_MAX).read_to_end(&mut text);
        }
        text
    });
    loop {
        match child.try_wait() {
            Ok(Some(_)) | Err(_) => break,
            Ok(None) if Instant::now() >= deadline => {
                let _ = child.kill();
                let _ = child.wait();
                // A grandchild may still have the pipe open; do not wait for its output.
                return String::new();
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    while !reader.is_finished() {
        if Instant::now() >= deadline {
            return String::new();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}

/// Parses a script's output: lines `name=value`, up to the first other line.
fn values(output: &str) -> Said {
    let mut said = Said::new();
    for line in output.lines().take(COLUMNS_MAX) {
        match line.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                let value = value.trim();
                let value = if value.is_empty() { "-" } else { value };
                said.push((name.trim().to_owned(), value.to_owned()));
            }
            _ => {
                if !line.trim().is_empty() {
                    said.push((UNNAMED.to_owned(), line.trim().to_owned()));
                }
                break;
            }
        }
    }
    said
}

/// The columns of all outputs with their widths.
pub fn widths(said: &BTreeMap<u64, Said>) -> Vec<(String, usize)> {
    let length = |text: &str| text.chars().count();
    let width = |name: &String| {
        let own = said.values().flatten().filter(|(column, _)| column == name);
        let longest = own.map(|(_, value)| length(value)).max();
        longest.unwrap_or(0).max(length(name)).max(1)
    };
    let columns = columns(said).into_iter();
    columns.map(|name| (name.clone(), width(&name))).collect()
}

/// The columns of all outputs, in the order of first appearance.
pub fn columns(said: &BTreeMap<u64, Said>) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for (name, _) in said.values().flatten() {
        if !columns.contains(name) {
            columns.push(name.clone());
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Canned;
    use cenote_words::testing::ran;

    #[test]
    fn output_is_read_up_to_what_is_no_value() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let output = "size=70G\nmodel=\nnot found\nmore=1\n";
        let expected = [
            pair("size", "70G"),
            pair("model", "-"),
            pair("", "not found"),
        ];
        assert_eq!(values(output), expected);
        assert!(values("").is_empty());
        let said = BTreeMap::from([(1, values("a=1\nb=2\n")), (2, values("b=3\nc=4\n"))]);
        assert_eq!(columns(&said), ["a", "b", "c"]);
    }

    /// `ZPOOL_SCRIPTS_ENABLED=0` had no effect.
    #[test]
    fn scripts_can_be_disabled() {
        for (value, is_on) in [("0", false), ("off", false), ("1", true), ("YES", true)] {
            let variable: fn(&str) -> Option<String> = match value {
                "0" => |_| Some("0".to_owned()),
                "off" => |_| Some("off".to_owned()),
                "1" => |_| Some("1".to_owned()),
                _ => |_| Some("YES".to_owned()),
            };
            let ran = ran(Canned::tank(), |context| {
                context.variable = variable;
                crate::run(&["iostat", "-c", ""].map(str::to_owned), context)
            });
            assert_eq!(
                ran.err.contains("disabled by ZPOOL_SCRIPTS_ENABLED"),
                !is_on,
                "{value}"
            );
            assert_eq!(ran.code, u8::from(!is_on), "{value}: {}", ran.err);
        }
    }

    #[test]
    fn a_script_sees_its_device_and_has_limited_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            use std::os::unix::fs::PermissionsExt;
            let file = directory.path().join(name);
            std::fs::write(&file, text).expect("written");
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&file, mode).expect("allowed");
            file
        };
        let script = write("path", "#!/bin/sh\necho path=$VDEV_PATH\n");
        let said = Scripts(vec![script]).run(&[(7, "/dev/null".to_owned())]);
        assert_eq!(said[&7], [("path".to_owned(), "/dev/null".to_owned())]);
        let slow = write("slow", "#!/bin/sh\nexec sleep 60\n");
        let child = start(&slow, "/dev/null").expect("started");
        let begun = Instant::now();
        assert_eq!(
            output_of(child, Instant::now() + Duration::from_millis(50)),
            ""
        );
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
