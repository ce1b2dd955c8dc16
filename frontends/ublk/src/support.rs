//! Whether this kernel and this user can have devices, and if not, why, in plain words.

use crate::UblkError;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;

/// Where commands go to.
pub(crate) const CONTROL_PATH: &str = "/dev/ublk-control";

/// 0: all processes may use io_uring; 1: only a group of users and those with CAP_SYS_ADMIN; 2:
/// none.
const IO_URING_PATH: &str = "/proc/sys/kernel/io_uring_disabled";

/// Whether this kernel and user can have devices of ublk.
///
/// # Errors
/// The reason why not, in plain words, with what to do about it.
pub fn check() -> Result<(), UblkError> {
    if !cfg!(feature = "ublk") {
        return Err(UblkError::NotBuilt);
    }
    check_node(Path::new(CONTROL_PATH))?;
    check_setting(std::fs::read_to_string(IO_URING_PATH).ok().as_deref())?;
    #[cfg(feature = "ublk")]
    crate::kernel::check_features(crate::kernel::features()?)?;
    Ok(())
}

/// Whether the driver is there and this user may speak with it.
fn check_node(path: &Path) -> Result<(), UblkError> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(match error.kind() {
            // A node whose driver is gone says "no such device".
            ErrorKind::NotFound => UblkError::NoDriver,
            ErrorKind::PermissionDenied => UblkError::NotPermitted { path: path.into() },
            _ if has_no_device(&error) => UblkError::NoDriver,
            _ => UblkError::Kernel {
                what: format!("be reached through {}", path.display()),
                source: error,
            },
        }),
    }
}

fn has_no_device(error: &std::io::Error) -> bool {
    let code = rustix::io::Errno::from_io_error(error);
    matches!(
        code,
        Some(rustix::io::Errno::NXIO | rustix::io::Errno::NODEV)
    )
}

/// What the setting says; kernels before 6.6 have none.
fn check_setting(text: Option<&str>) -> Result<(), UblkError> {
    match text.map(|text| text.trim().parse::<u8>()) {
        // With 1, processes with CAP_SYS_ADMIN still may, and only they can open the control node.
        None | Some(Ok(0 | 1) | Err(_)) => Ok(()),
        Some(Ok(value)) => Err(UblkError::IoUringForbidden { value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_plain() {
        let missing = check_node(Path::new("/nonexistent/ublk-control"));
        let missing = missing.expect_err("there is none").to_string();
        assert!(missing.contains("modprobe ublk_drv"), "{missing}");
        assert!(missing.contains("6.5"), "{missing}");
        assert!(check_setting(None).is_ok());
        assert!(check_setting(Some("0\n")).is_ok());
        assert!(check_setting(Some("1\n")).is_ok());
        let forbidden = check_setting(Some("2\n")).expect_err("it is forbidden");
        assert!(forbidden.to_string().contains("io_uring_disabled=2"));
    }
}
