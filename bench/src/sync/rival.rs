//! The file systems that are compared, mounted side by side.

use super::options::Options;
use crate::write::machine::{self, Clocks};
use crate::write::product::Daemon;
use crate::write::rivals::Kernel;
use anyhow::{Context, Result};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Our rows, without a log device and with a fast one.
pub const OURS: &str = "cenote";
pub const OURS_WITH_LOG: &str = "cenote, log in memory";

/// MiB of the file that each file system lies on, and of the log device.
const DEVICE_MEBIBYTES: usize = 640;
const LOG_MEBIBYTES: u64 = 256;

/// Where files are kept in memory.
const MEMORY: &str = "/dev/shm";

enum System {
    Ours {
        daemon: Box<Daemon>,
        /// The log device, which goes with the pool.
        _log: Option<tempfile::NamedTempFile>,
    },
    Kernel(Kernel),
}

/// A file system that takes part.
pub struct Rival {
    pub name: &'static str,
    system: System,
}

impl Rival {
    /// All that can be made here; of the others a line says why not.
    pub fn all(options: &Options) -> Result<Vec<Self>> {
        let mut rivals = vec![Self::ours(options, false)?, Self::ours(options, true)?];
        for kind in ["xfs", "btrfs", "ext4"] {
            let made = image(options, kind).and_then(|image| Kernel::on(&image, kind, ""));
            match made {
                Ok(kernel) => rivals.push(Self {
                    name: kind,
                    system: System::Kernel(kernel),
                }),
                Err(error) => println!("  {kind} is not measured: {error:#}"),
            }
        }
        Ok(rivals)
    }

    fn ours(options: &Options, has_log: bool) -> Result<Self> {
        let name = if has_log { OURS_WITH_LOG } else { OURS };
        let device = image(options, if has_log { "cenote-log" } else { "cenote" })?;
        let mut vdevs = vec![device.into_os_string()];
        let log = match has_log {
            true => {
                let file = tempfile::Builder::new()
                    .prefix("cenote-log.")
                    .tempfile_in(MEMORY)?;
                file.as_file().set_len(LOG_MEBIBYTES << 20)?;
                vdevs.push(OsString::from("log"));
                vdevs.push(file.path().into());
                Some(file)
            }
            false => None,
        };
        let daemon = Daemon::create_of(&vdevs, &[])?;
        machine_may_pass(daemon.directory())?;
        Ok(Self {
            name,
            system: System::Ours {
                daemon: Box::new(daemon),
                _log: log,
            },
        })
    }

    /// A new directory for one measurement; ours is a file system with these properties.
    pub fn place(&self, name: &str, properties: &[&str]) -> Result<PathBuf> {
        match &self.system {
            System::Ours { daemon, .. } => {
                let dataset = format!("{}/{name}", crate::write::product::POOL);
                let mut words = vec![OsStr::new("zfs"), OsStr::new("create")];
                for property in properties {
                    words.extend([OsStr::new("-o"), OsStr::new(*property)]);
                }
                words.push(OsStr::new(&dataset));
                daemon.run(&words)?;
                Ok(daemon.path().join(name))
            }
            System::Kernel(kernel) => {
                machine_may_pass(kernel.path())?;
                let path = kernel.path().join(name);
                std::fs::create_dir(&path)?;
                Ok(path)
            }
        }
    }

    /// Removes what [`Rival::place`] made.
    pub fn clear(&self, name: &str) -> Result<()> {
        match &self.system {
            System::Ours { daemon, .. } => {
                let dataset = format!("{}/{name}", crate::write::product::POOL);
                daemon.run(&["zfs", "destroy", &dataset].map(OsStr::new))?;
            }
            System::Kernel(kernel) => std::fs::remove_dir_all(kernel.path().join(name))?,
        }
        self.settle()
    }

    /// Writes everything that is still in memory.
    pub fn settle(&self) -> Result<()> {
        match &self.system {
            System::Ours { daemon, .. } => {
                daemon.run(&["zpool", "sync"].map(OsStr::new))?;
            }
            System::Kernel(kernel) => rustix::fs::syncfs(File::open(kernel.path())?)?,
        }
        Ok(())
    }

    /// Bytes that it wrote to its disk so far.
    pub fn written(&self) -> Result<u64> {
        match &self.system {
            System::Ours { daemon, .. } => written_by(daemon.process()),
            System::Kernel(kernel) => written_to_loop(kernel.path()),
        }
    }

    /// The clocks of the process that does the work.
    pub fn clocks(&self) -> Result<Clocks> {
        match &self.system {
            System::Ours { daemon, .. } => daemon.clocks(),
            System::Kernel(_) => Clocks::now(None),
        }
    }
}

fn image(options: &Options, name: &str) -> Result<PathBuf> {
    let path = options.directory.join(format!("{name}.img"));
    machine::fill(&path, DEVICE_MEBIBYTES)?;
    Ok(path)
}

/// Lets other users through, such as the one that databases run as.
fn machine_may_pass(directory: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let permissions = std::fs::Permissions::from_mode(0o755);
    Ok(std::fs::set_permissions(directory, permissions)?)
}

/// Bytes that a process sent to block devices.
fn written_by(process: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/io"))?;
    let mut lines = text.lines();
    let bytes = lines.find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(bytes.context("no write_bytes in /proc")?.parse()?)
}

/// Bytes that were written to the loop device that is mounted on `place`.
fn written_to_loop(place: &Path) -> Result<u64> {
    const SECTOR: u64 = 512;
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let device = mounts.lines().find_map(|line| {
        let (device, rest) = line.split_once(' ')?;
        let (mounted, _) = rest.split_once(' ')?;
        (Path::new(mounted) == place).then_some(device)
    });
    let device = device.context("the file system is not mounted")?;
    let name = device.strip_prefix("/dev/").context("no device")?;
    let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat"))?;
    // Reads, merged, sectors, ms; writes, merged, sectors.
    let sectors = stat.split_whitespace().nth(6).context("/sys/block")?;
    Ok(sectors.parse::<u64>()? * SECTOR)
}
