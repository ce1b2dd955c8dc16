//! Mounting through `fusermount3`, the set-user-id helper of libfuse.
//!
//! The helper opens `/dev/fuse`, mounts it, and passes the descriptor over a socket whose number
//! it finds in an environment variable. The socket is given as its standard input, so that no
//! other process started at the same moment can inherit it.

use super::error::MountError;
use super::options::{MountOptions, OTHERS_SETTING, SETTINGS, lets_others_in};
use crate::transport::Device;
use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};
use std::ffi::OsString;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The helper's names, in order of preference.
const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];

/// Mounts at `mount_point` and returns the connection; `None` when no helper is installed.
pub(super) fn mount(
    mount_point: &Path,
    options: &MountOptions,
) -> Result<Option<Device>, MountError> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(MountError::Channel)?;
    for helper in HELPERS {
        let theirs = theirs.try_clone().map_err(MountError::HelperRun)?;
        let outcome = Command::new(helper)
            .arg("-o")
            .arg(option_text(options))
            .arg("--")
            .arg(mount_point)
            .env("_FUSE_COMMFD", "0")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output();
        match outcome {
            Ok(output) => {
                judge(&output)?;
                return receive_descriptor(&ours).map(|fd| Some(Device::from_descriptor(fd)));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(MountError::HelperRun(error)),
        }
    }
    Ok(None)
}

/// Unmounts through the helper; `None` when no helper is installed.
pub(super) fn unmount(mount_point: &Path, lazily: bool) -> Option<Result<(), MountError>> {
    for helper in HELPERS {
        let mut command = Command::new(helper);
        command.arg("-u");
        if lazily {
            command.arg("-z");
        }
        let command = command.arg("--").arg(mount_point);
        match command.stdin(Stdio::null()).stdout(Stdio::null()).output() {
            Ok(output) => return Some(judge(&output)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Some(Err(MountError::HelperRun(error))),
        }
    }
    None
}

fn judge(output: &Output) -> Result<(), MountError> {
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if message.contains("busy") {
        return Err(MountError::Busy);
    }
    Err(MountError::HelperRefused {
        message: with_advice(message),
    })
}

/// Adds what to do when the mount point lies in another mount of the same user.
fn with_advice(message: String) -> String {
    let keeps_out = message.contains("failed to access mountpoint");
    if !keeps_out && !message.contains("no write access to mountpoint") {
        return message;
    }
    let setting = match keeps_out && !lets_others_in() {
        true => {
            format!("a line '{OTHERS_SETTING}' in {SETTINGS} lets the helper into your mounts; ")
        }
        false => String::new(),
    };
    format!(
        "{message}; {setting}a shell made by 'unshare --user --map-root-user --mount' needs no \
         helper"
    )
}

/// The `-o` argument. Commas and backslashes inside the source's name are escaped.
fn option_text(options: &MountOptions) -> OsString {
    let mut text = Vec::from(&b"fsname="[..]);
    for byte in options.source.as_bytes() {
        if matches!(byte, b',' | b'\\') {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    let size = options.request_size_max;
    text.extend_from_slice(format!(",subtype=cenote,max_read={size}").as_bytes());
    let switches = [
        (options.default_permissions(), ",default_permissions"),
        (options.allow_other, ",allow_other"),
        (options.read_only, ",ro"),
        (!options.executables, ",noexec"),
        (!options.access_times, ",noatime"),
    ];
    for (_, name) in switches.iter().filter(|(on, _)| *on) {
        text.extend_from_slice(name.as_bytes());
    }
    OsString::from_vec(text)
}

fn receive_descriptor(socket: &OwnedFd) -> Result<OwnedFd, MountError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    let mut pieces = [IoSliceMut::new(&mut byte)];
    // The helper has ended, so all that it sent has arrived; do not wait.
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    recvmsg(socket, &mut pieces, &mut control, flags).map_err(MountError::Channel)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message
            && let Some(descriptor) = descriptors.next()
        {
            return Ok(descriptor);
        }
    }
    Err(MountError::HelperRefused {
        message: "it passed no descriptor".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        let mut options = MountOptions::new("tank/a,b\\c");
        options.allow_other = false;
        options.request_size_max = 4096;
        let text = option_text(&options);
        assert_eq!(
            text,
            "fsname=tank/a\\,b\\\\c,subtype=cenote,max_read=4096,default_permissions,ro"
        );
        let checks = |options: &MountOptions| {
            option_text(options)
                .to_string_lossy()
                .contains("default_permissions")
        };
        options.check_permissions = false;
        assert!(!checks(&options));
        options.allow_other = true;
        assert!(
            checks(&options),
            "with others let in, the checks cannot be switched off"
        );
    }
}
