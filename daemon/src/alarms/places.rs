//! Finds the configuration file for alarms.

use std::ffi::OsString;
use std::path::PathBuf;

/// The system's file, for a daemon of root.
const SYSTEM_FILE: &str = "/etc/cenote/alarms.toml";
/// The variable that names another file; an empty value means no file.
const VARIABLE: &str = "CENOTE_ALARMS";

/// A file, and whether it must exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedFile {
    pub path: PathBuf,
    pub is_wanted: bool,
}

/// The `given` file, otherwise that of `$CENOTE_ALARMS`. The default is the system's file for root,
/// and a file in the user's configuration directory for others. `None` if there is to be no file.
pub fn place(
    given: Option<PathBuf>,
    is_root: bool,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Option<WantedFile> {
    let named = given.or_else(|| variable(VARIABLE).map(PathBuf::from));
    if let Some(path) = named {
        let is_wanted = true;
        return (!path.as_os_str().is_empty()).then_some(WantedFile { path, is_wanted });
    }
    let path = match is_root {
        true => PathBuf::from(SYSTEM_FILE),
        false => {
            let set = variable("XDG_CONFIG_HOME").map(PathBuf::from);
            let usual = || Some(PathBuf::from(variable("HOME")?).join(".config"));
            let directory = set.filter(|path| path.is_absolute()).or_else(usual)?;
            directory.join("cenote/alarms.toml")
        }
    };
    let is_wanted = false;
    Some(WantedFile { path, is_wanted })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(given: Option<&str>, is_root: bool, set: &[(&str, &str)]) -> Option<(String, bool)> {
        let variable = |name: &str| {
            let mut found = set.iter().filter(|(key, _)| *key == name);
            found.next().map(|(_, value)| OsString::from(value))
        };
        let place = place(given.map(PathBuf::from), is_root, &variable)?;
        Some((place.path.display().to_string(), place.is_wanted))
    }

    #[test]
    fn the_file_that_is_named_comes_before_the_usual_ones() {
        let own = |path: &str, is_wanted| Some((path.to_owned(), is_wanted));
        let named = [("CENOTE_ALARMS", "/b"), ("HOME", "/h")];
        assert_eq!(found(Some("/a"), true, &named), own("/a", true));
        assert_eq!(found(None, true, &named), own("/b", true));
        assert_eq!(found(None, true, &[("CENOTE_ALARMS", "")]), None);
        assert_eq!(found(None, true, &[]), own(SYSTEM_FILE, false));
        let home = [("HOME", "/h")];
        let usual = "/h/.config/cenote/alarms.toml";
        assert_eq!(found(None, false, &home), own(usual, false));
        let set = [("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")];
        assert_eq!(
            found(None, false, &set),
            own("/x/cenote/alarms.toml", false)
        );
        assert_eq!(found(None, false, &[]), None);
    }
}
