//! The servers: the daemon, and nginx on other file systems.

use super::options::{LARGE_FILES, Options};
use crate::read::rivals::output;
use crate::write::product::{Daemon, POOL};
use crate::write::rivals::Kernel;
use anyhow::{Context, Result, ensure};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

enum System {
    Ours {
        daemon: Box<Daemon>,
        device: PathBuf,
    },
    Nginx {
        /// Unmounted with this.
        _kernel: Kernel,
        process: Option<Child>,
        configuration: PathBuf,
    },
}

/// A server with its files.
pub struct Served {
    pub name: &'static str,
    /// Where its files are written.
    pub root: PathBuf,
    pub port: u16,
    system: System,
}

impl Drop for Served {
    fn drop(&mut self) {
        if let System::Nginx {
            process: Some(process),
            ..
        } = &mut self.system
        {
            // Its workers end with it.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A free port.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn image(directory: &Path, name: &str, options: &Options) -> Result<PathBuf> {
    let path = directory.join(format!("{name}.img"));
    let mebibytes = options.mebibytes * LARGE_FILES + options.files / 64 + 1024;
    File::create(&path)?.set_len(mebibytes << 20)?;
    Ok(path)
}

/// nginx as its manual tunes it for many small static files.
fn configuration(directory: &Path, root: &Path, port: u16) -> String {
    let directory = directory.display();
    let root = root.display();
    format!(
        "daemon off;\nmaster_process on;\nworker_processes auto;\nworker_rlimit_nofile 65536;\n\
         user root;\npid {directory}/nginx.pid;\nerror_log {directory}/error.log;\n\
         events {{ worker_connections 20000; multi_accept on; }}\n\
         http {{\n  access_log off;\n  sendfile on;\n  tcp_nopush on;\n  tcp_nodelay on;\n  \
         keepalive_timeout 300;\n  keepalive_requests 100000000;\n  \
         open_file_cache max=200000 inactive=300s;\n  open_file_cache_valid 300s;\n  \
         client_body_temp_path {directory}/body;\n  proxy_temp_path {directory}/proxy;\n  \
         fastcgi_temp_path {directory}/fastcgi;\n  uwsgi_temp_path {directory}/uwsgi;\n  \
         scgi_temp_path {directory}/scgi;\n  \
         server {{ listen 127.0.0.1:{port} backlog=4096; root {root}; }}\n}}\n"
    )
}

impl Served {
    /// All that can be made here; of the others a line says why not.
    pub fn all(directory: &Path, options: &Options) -> Result<Vec<Self>> {
        let mut servers = vec![Self::ours(directory, options)?];
        for (name, kind) in [("nginx on xfs", "xfs"), ("nginx on btrfs", "btrfs")] {
            match Self::nginx(directory, (name, kind), options) {
                Ok(server) => servers.push(server),
                Err(error) => println!("  {name} is not measured: {error:#}"),
            }
        }
        Ok(servers)
    }

    fn ours(directory: &Path, options: &Options) -> Result<Self> {
        let device = image(directory, "cenote", options)?;
        let daemon = Daemon::create_of(&[OsString::from(&device)], &[])?;
        Ok(Self {
            name: "cenote",
            root: daemon.path(),
            port: free_port()?,
            system: System::Ours {
                daemon: Box::new(daemon),
                device,
            },
        })
    }

    fn nginx(
        directory: &Path,
        (name, kind): (&'static str, &str),
        options: &Options,
    ) -> Result<Self> {
        ensure!(
            Command::new("nginx").arg("-v").output().is_ok(),
            "nginx is not installed"
        );
        let kernel = Kernel::on(&image(directory, kind, options)?, kind, "")?;
        let (root, port) = (kernel.path().to_owned(), free_port()?);
        let own = directory.join(format!("nginx-{kind}"));
        fs::create_dir(&own)?;
        let file = own.join("nginx.conf");
        fs::write(&file, configuration(&own, &root, port))?;
        Ok(Self {
            name,
            root,
            port,
            system: System::Nginx {
                _kernel: kernel,
                process: Some(
                    Command::new("nginx")
                        .arg("-c")
                        .arg(&file)
                        .stdin(Stdio::null())
                        .spawn()?,
                ),
                configuration: file,
            },
        })
    }

    /// Its address for a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// Serves what was written, from memory that has none of it.
    pub fn begin(&self) -> Result<()> {
        match &self.system {
            System::Ours { daemon, device } => {
                let run = |line: &str| {
                    let words: Vec<&OsStr> = line.split(' ').map(OsStr::new).collect();
                    daemon.run(&words)
                };
                let snapshots = run(&format!("zfs list -H -t snapshot -o name {POOL}"))?;
                if snapshots.trim().is_empty() {
                    run(&format!("zfs snapshot {POOL}@bench"))?;
                } else {
                    run("http stop --grace 0")?;
                }
                run(&format!("zpool export {POOL}"))?;
                let directory = device.parent().context("a directory")?.display();
                let root = daemon.root();
                run(&format!(
                    "zpool import -d {directory} -R {} {POOL}",
                    root.display()
                ))?;
                run(&format!(
                    "http start --listen 127.0.0.1:{} --snapshot latest --limit-connections 30000 \
                     --limit-address 30000 {POOL}",
                    self.port
                ))?;
            }
            System::Nginx { configuration, .. } => {
                ensure!(configuration.exists(), "nginx has no configuration");
                rustix::fs::sync();
                fs::write("/proc/sys/vm/drop_caches", "3")?;
            }
        }
        let limit = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            ensure!(Instant::now() < limit, "{} does not listen", self.name);
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Memory of its processes that is resident and their own, in KiB.
    pub fn memory(&self) -> Result<u64> {
        let processes = match &self.system {
            System::Ours { daemon, .. } => vec![daemon.process()],
            System::Nginx { process, .. } => {
                let own = process.as_ref().context("it runs")?.id();
                let workers = output(
                    Path::new("/usr/bin/pgrep"),
                    &[OsStr::new("-P"), OsStr::new(&own.to_string())],
                )?;
                workers
                    .lines()
                    .filter_map(|line| line.parse().ok())
                    .chain([own])
                    .collect()
            }
        };
        let mut sum = 0;
        for process in processes {
            let status = fs::read_to_string(format!("/proc/{process}/status"))?;
            let line = status.lines().find(|line| line.starts_with("RssAnon:"));
            let words = line.and_then(|line| line.split_whitespace().nth(1));
            sum += words.context("no RssAnon")?.parse::<u64>()?;
        }
        Ok(sum)
    }
}
