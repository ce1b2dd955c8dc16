//! The repository's pools, unpacked for one test, and `cenote` to read them.

use cenote_tests::manifest::Manifest;
use cenote_tests::{golden, sparse};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A pool's devices in a directory of their own, which the test may damage.
pub struct TestPool {
    directory: tempfile::TempDir,
    /// The contents of the pool.
    pub manifest: Manifest,
}

impl TestPool {
    /// Unpacks the pool of a kind.
    pub fn new(kind: &str) -> Self {
        let packed = golden::workspace_root().join("tests/data/pools").join(kind);
        let text = std::fs::read_to_string(packed.join("manifest.json")).expect("a manifest");
        let manifest = Manifest::parse(&text).expect("a good manifest");
        let directory = tempfile::tempdir().expect("a directory");
        let devices = directory.path().join("devices");
        std::fs::create_dir(&devices).expect("a directory");
        for name in &manifest.devices {
            let from = packed.join(format!("{name}.zst"));
            sparse::unpack(&from, &devices.join(name)).expect("a packed device");
        }
        Self {
            directory,
            manifest,
        }
    }

    /// The directory of the test.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The path of a device.
    pub fn device(&self, index: usize) -> PathBuf {
        self.directory()
            .join("devices")
            .join(&self.manifest.devices[index])
    }

    /// `cenote` with these words, which must contain `-d devices`.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cenote"));
        command.args(words).current_dir(self.directory());
        command.env("CENOTE_SOCKET", self.directory().join("no-socket"));
        command
            .env_remove("CENOTE_DEVICES")
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        command
    }

    /// Runs `cenote` with these words.
    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("cenote runs")
    }

    /// Runs `cenote COMMAND -d devices` with further words.
    pub fn cenote(&self, command: &str, words: &[&str]) -> Output {
        let all = [&[command, "-d", "devices"], words].concat();
        self.run(&all)
    }
}

/// Standard output as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
