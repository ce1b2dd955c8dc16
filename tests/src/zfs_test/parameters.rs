//! Files in place of module parameters, and a thread that passes changes of them to the daemon.

use crate::site::Site;
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks at the files: less than a script takes from one command to the next.
const INTERVAL: Duration = Duration::from_millis(10);

/// The files, until it goes out of scope; the namespace takes the mount with it.
pub(super) struct Parameters {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Parameters {
    /// Makes a file for each setting that the daemon knows, and has a thread look at them.
    pub fn mount(site: &Site) -> Result<Self> {
        let modules = site.cenote().subdirectory("modules")?;
        let parameters = modules.join("zfs/parameters");
        fs::create_dir_all(&parameters)?;
        let listed = site.ok("cenote settings list -aH")?;
        let mut values = BTreeMap::new();
        for line in listed.lines() {
            let mut columns = line.split('\t');
            let (Some(name), value) = (columns.next(), columns.next()) else {
                continue;
            };
            // Parameters without effect have no value until they are set.
            let value = value
                .filter(|value| *value != "-")
                .unwrap_or("0")
                .to_owned();
            fs::write(parameters.join(name), format!("{value}\n"))?;
            values.insert(name.to_owned(), value);
        }
        ensure!(!values.is_empty(), "the daemon has no settings");
        let mounted = Command::new("mount")
            .arg("--bind")
            .args([modules.as_path(), Path::new("/sys/module")])
            .status()?;
        ensure!(mounted.success(), "cannot mount on /sys/module");
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let set = site.cenote().command("cenote", &["settings", "set"]);
        let carrier = Carrier { parameters, set };
        let thread = std::thread::spawn(move || carrier.run(values, &told));
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Parameters {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It is done with its last file; what it could not do it has said.
            let _ = thread.join();
        }
    }
}

/// The thread that polls the files.
struct Carrier {
    parameters: PathBuf,
    /// The command that an assignment is to be added to.
    set: Command,
}

/// Whether a file was written to recently; the interval of polls is shorter.
fn is_fresh(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age < Duration::from_secs(1)))
}

impl Carrier {
    fn run(self, mut values: BTreeMap<String, String>, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(INTERVAL);
            for (name, known) in &mut values {
                let path = self.parameters.join(name);
                if !is_fresh(&path) {
                    continue;
                }
                // A script that has just opened it will have written in a moment.
                let text = fs::read_to_string(path).unwrap_or_default();
                let value = text.trim();
                if !value.is_empty() && value != known {
                    known.replace_range(.., value);
                    self.carry(name, value);
                }
            }
        }
    }

    fn carry(&self, name: &str, value: &str) {
        let mut set = Command::new(self.set.get_program());
        set.args(self.set.get_args())
            .arg(format!("{name}={value}"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        for (variable, value) in self.set.get_envs() {
            set.env(variable, value.unwrap_or_default());
        }
        match set.output() {
            Ok(done) if done.status.success() => {}
            Ok(done) => eprintln!(
                "parameter {name}={value}: {}",
                String::from_utf8_lossy(&done.stderr).trim()
            ),
            Err(error) => eprintln!("parameter {name}={value}: {error}"),
        }
    }
}
