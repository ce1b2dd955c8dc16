//! Directories that only this process's user may change.
//!
//! Files there are trusted: if other users could write to the directory, they could replace our
//! files.

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether there is such a directory at `path`.
///
/// # Errors
/// There is something else, or other users may write there; and errors of the system.
pub fn is_private_directory(path: &Path) -> io::Result<bool> {
    let metadata = match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        metadata => metadata?,
    };
    let own = rustix::process::geteuid().as_raw();
    if metadata.is_dir() && metadata.uid() == own && metadata.mode() & 0o022 == 0 {
        return Ok(true);
    }
    let text = format!(
        "{} must be a directory that belongs to the user of this process and that only this user \
         can write; remove it",
        path.display()
    );
    Err(io::Error::new(ErrorKind::PermissionDenied, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_directories_of_our_own_are_trusted() {
        let above = std::env::temp_dir().join(format!("cenote-private-{}", std::process::id()));
        let (there, link) = (above.join("there"), above.join("link"));
        fs::create_dir_all(&there).expect("made");
        let set = |mode| fs::set_permissions(&there, fs::Permissions::from_mode(mode));
        set(0o700).expect("set");
        assert!(is_private_directory(&there).expect("ours"));
        assert!(!is_private_directory(&above.join("not there")).expect("nothing"));
        symlink(&there, &link).expect("linked");
        is_private_directory(&link).expect_err("a link may lead elsewhere");
        for mode in [0o720, 0o702] {
            set(mode).expect("set");
            let error = is_private_directory(&there).expect_err("others may write");
            assert!(error.to_string().contains("only this user"), "{error}");
        }
        fs::remove_dir_all(&above).expect("removed");
    }
}
