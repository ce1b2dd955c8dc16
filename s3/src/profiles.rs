//! Profiles of Amazon's own programs: `~/.aws/config` and `~/.aws/credentials`.
//!
//! Both are lines of `[section]` and `name = value`. In `config` a section is called `profile NAME`
//! unless it is `default`, in `credentials` just `NAME`; what stands in `credentials` wins. What
//! this does not know is how to get keys from elsewhere (single sign-on, other roles, programs);
//! a profile that needs that is refused with the reason.

use crate::surroundings::Surroundings;
use std::collections::HashMap;
use std::path::Path;

/// Bytes of a file that is read.
pub(crate) const FILE_MAX: u64 = 1 << 20;

/// Names that stand for ways to keys that are not gone here.
const ELSEWHERE: [&str; 5] = [
    "role_arn",
    "sso_session",
    "sso_start_url",
    "credential_process",
    "login_session",
];

/// What a profile says.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    values: HashMap<String, String>,
}

impl Profile {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// A way to keys that it needs and that is not gone here.
    pub(crate) fn elsewhere(&self) -> Option<&'static str> {
        ELSEWHERE.into_iter().find(|name| self.get(name).is_some())
    }
}

/// A file as text; `None` if it is not there.
pub fn read(path: &Path) -> Result<Option<String>, String> {
    let fail = |error: std::io::Error| format!("{}: {error}", path.display());
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
        Ok(metadata) if !metadata.is_file() || metadata.len() > FILE_MAX => {
            return Err(format!("{}: no file of settings", path.display()));
        }
        Ok(_) => {}
    }
    std::fs::read_to_string(path).map(Some).map_err(fail)
}

/// Adds what `text` says of the section `wanted`; says whether there is such a section.
fn add(profile: &mut Profile, text: &str, wanted: &[&str]) -> bool {
    let mut is_there = false;
    let mut is_inside = false;
    for line in text.lines() {
        let is_nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(section) = line
            .strip_prefix('[')
            .and_then(|line| line.split(']').next())
        {
            let words: Vec<&str> = section.split_whitespace().collect();
            is_inside = words == wanted;
            is_there |= is_inside;
        } else if is_inside
            && !is_nested
            && let Some((name, value)) = line.split_once('=')
        {
            let value = value.split(" #").next().unwrap_or("").trim();
            if !value.is_empty() {
                let name = name.trim().to_ascii_lowercase();
                profile.values.insert(name, value.to_owned());
            }
        }
    }
    is_there
}

/// The profile `name`; `None` if there is none.
pub(crate) fn find(surroundings: &Surroundings, name: &str) -> Result<Option<Profile>, String> {
    let mut profile = Profile::default();
    let mut is_there = false;
    if let Some(path) = surroundings.aws_file("AWS_CONFIG_FILE", "config")
        && let Some(text) = read(&path)?
    {
        is_there |= add(&mut profile, &text, &["profile", name]);
        if name == "default" {
            is_there |= add(&mut profile, &text, &["default"]);
        }
    }
    if let Some(path) = surroundings.aws_file("AWS_SHARED_CREDENTIALS_FILE", "credentials")
        && let Some(text) = read(&path)?
    {
        is_there |= add(&mut profile, &text, &[name]);
    }
    Ok(is_there.then_some(profile))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let home = directory.path().to_str().expect("text").to_owned();
        let aws = directory.path().join(".aws");
        std::fs::create_dir(&aws).expect("made");
        let config = "# a comment\n[default]\nregion = eu-central-1\n\n[profile pools]\n\
                      region=us-west-2 # near\naws_access_key_id = old\ns3 =\n  region = nested\n\
                      [profile elsewhere]\nrole_arn = arn:x\n";
        std::fs::write(aws.join("config"), config).expect("room");
        let credentials = "[default]\naws_access_key_id = A\n[pools]\nAWS_ACCESS_KEY_ID=B\n";
        std::fs::write(aws.join("credentials"), credentials).expect("room");
        let surroundings = Surroundings::of_variables([("HOME", &*home)]);
        let find = |name| find(&surroundings, name).expect("readable");
        let value = |profile: &Profile, name| profile.get(name).map(str::to_owned);
        let default = find("default").expect("there");
        assert_eq!(value(&default, "region").as_deref(), Some("eu-central-1"));
        assert_eq!(value(&default, "aws_access_key_id").as_deref(), Some("A"));
        let pools = find("pools").expect("there");
        assert_eq!(value(&pools, "region").as_deref(), Some("us-west-2"));
        assert_eq!(value(&pools, "aws_access_key_id").as_deref(), Some("B"));
        assert_eq!(pools.elsewhere(), None);
        let elsewhere = find("elsewhere").expect("there");
        assert_eq!(elsewhere.elsewhere(), Some("role_arn"));
        assert!(find("none").is_none());
    }

    #[test]
    fn what_is_no_file_is_said() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(read(&directory.path().join("none")), Ok(None));
        assert!(read(directory.path()).is_err());
    }
}
