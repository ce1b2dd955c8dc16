//! Where the zedlets of a daemon are.

use std::ffi::OsString;
use std::path::PathBuf;

/// The directory of OpenZFS's event daemon.
pub(crate) const MACHINE_DIRECTORY: &str = "/etc/zfs/zed.d";

/// The variable that names another directory; an empty value means none.
const VARIABLE: &str = "CENOTE_ZEDLETS";

/// The `given` directory, otherwise that of `$CENOTE_ZEDLETS`, where an empty name means none. The
/// default is the machine's for root, unless `$CENOTE_STATE` keeps the daemon apart from the
/// machine, and none for others.
pub fn directory_of_daemon(
    given: Option<PathBuf>,
    is_root: bool,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Option<PathBuf> {
    let is_machine = is_root && variable("CENOTE_STATE").is_none();
    let usual = is_machine.then(|| PathBuf::from(MACHINE_DIRECTORY));
    let named = given.or_else(|| variable(VARIABLE).map(PathBuf::from));
    named.or(usual).filter(|path| !path.as_os_str().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn found(given: Option<&str>, is_root: bool, set: &[(&str, &str)]) -> Option<PathBuf> {
        let variable = |name: &str| {
            let mut found = set.iter().filter(|(key, _)| *key == name);
            found.next().map(|(_, value)| OsString::from(value))
        };
        directory_of_daemon(given.map(PathBuf::from), is_root, &variable)
    }

    #[test]
    fn only_the_daemon_of_the_machine_has_the_directory_of_the_machine() {
        let named = [("CENOTE_ZEDLETS", "/b"), ("CENOTE_STATE", "/t")];
        let path = |path: &'static str| Some(Path::new(path).to_owned());
        assert_eq!(found(Some("/a"), true, &named), path("/a"));
        assert_eq!(found(None, false, &named), path("/b"));
        assert_eq!(found(Some(""), true, &named), None);
        assert_eq!(found(None, true, &[]), path(MACHINE_DIRECTORY));
        assert_eq!(found(None, true, &[("CENOTE_ZEDLETS", "")]), None);
        assert_eq!(found(None, true, &[("CENOTE_STATE", "/t")]), None);
        assert_eq!(found(None, false, &[]), None);
    }
}
