//! `stores.toml`: what is known of stores, and their keys, where the environment does not say it.
//!
//! ```toml
//! [backup]                          # s3://…?store=backup, or any store below `url`
//! url = "s3://bucket/prefix"
//! endpoint = "https://s3.example.org"
//! region = "eu-1"
//! path_style = true
//! ca_bundle = "/etc/ssl/ours.pem"
//! profile = "pools"                 # keys of ~/.aws, or else
//! access_key_id = "…"
//! secret_access_key = "…"
//! session_token = "…"
//! ```
//!
//! A file with keys that others may read is refused.

use crate::name::{self, BucketName};
use crate::profiles;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What the file says of some stores.
#[derive(Clone, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Section {
    pub(crate) url: Option<String>,
    pub(crate) endpoint: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) path_style: Option<bool>,
    pub(crate) ca_bundle: Option<PathBuf>,
    pub(crate) profile: Option<String>,
    pub(crate) access_key_id: Option<String>,
    pub(crate) secret_access_key: Option<String>,
    pub(crate) session_token: Option<String>,
}

impl fmt::Debug for Section {
    /// Without keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Section");
        shown.field("url", &self.url).finish_non_exhaustive()
    }
}

impl Section {
    fn has_keys(&self) -> bool {
        self.secret_access_key.is_some() || self.session_token.is_some()
    }

    /// How much of a store's place the section's URL is; `None` if it is for others.
    fn fit(&self, place: &str) -> Option<usize> {
        let url = self.url.as_deref()?.trim_end_matches('/');
        let rest = place.strip_prefix(url)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(url.len())
    }

    fn check(&self) -> Result<(), String> {
        if let Some(url) = &self.url {
            let place = url.strip_prefix("s3://").map(BucketName::parse);
            match place {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(format!("url: {error}")),
                None => return Err(format!("url: '{url}' does not begin with s3://")),
            }
        }
        if let Some(endpoint) = &self.endpoint {
            name::endpoint(endpoint).map_err(|error| format!("endpoint: {error}"))?;
        }
        match (&self.access_key_id, &self.secret_access_key) {
            (Some(_), None) => Err("access_key_id is there, and no secret_access_key".into()),
            (None, Some(_)) => Err("secret_access_key is there, and no access_key_id".into()),
            _ => Ok(()),
        }
    }
}

/// A fault with its line. The line itself is not shown: it may be a key.
fn said(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(1, |before| before.matches('\n').count() + 1);
    format!("line {line}: {}", error.message().replace('\n', ", "))
}

type Sections = BTreeMap<String, Section>;

fn load(path: &Path) -> Result<Option<Sections>, String> {
    let place = path.display();
    let Some(text) = profiles::read(path)? else {
        return Ok(None);
    };
    let sections: Sections =
        toml::from_str(&text).map_err(|error| format!("{place}: {}", said(&text, &error)))?;
    for (name, section) in &sections {
        let checked = section.check();
        checked.map_err(|reason| format!("{place}: [{name}]: {reason}"))?;
    }
    let metadata = std::fs::metadata(path).map_err(|error| format!("{place}: {error}"))?;
    let is_open = metadata.permissions().mode() & 0o007 != 0;
    if is_open && sections.values().any(Section::has_keys) {
        return Err(format!(
            "{place}: has keys in it and can be read by everybody: chmod 600 it"
        ));
    }
    Ok(Some(sections))
}

/// What the file at `path` says of the store `name`.
///
/// # Errors
/// What is wrong with the file, or that the section that is named is not there.
pub(crate) fn section(path: Option<&Path>, name: &BucketName) -> Result<Section, String> {
    let sections = path.map(load).transpose()?.flatten();
    if let Some(wanted) = &name.section {
        let found = sections.and_then(|mut sections| sections.remove(wanted));
        return found.ok_or_else(|| match path {
            Some(path) => format!("{}: there is no section [{wanted}]", path.display()),
            None => format!("there is no file of stores to find section [{wanted}] in"),
        });
    }
    let place = name.place();
    let sections = sections.unwrap_or_default().into_values();
    let fits = sections.filter_map(|section| Some((section.fit(&place)?, section)));
    let best = fits.max_by_key(|(fit, _)| *fit);
    Ok(best.map(|(_, section)| section).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[all]\nurl = \"s3://pools\"\nregion = \"a\"\n\
                        [one]\nurl = \"s3://pools/one/\"\nregion = \"b\"\n\
                        [far]\nendpoint = \"https://far.example\"\n";

    fn written(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("stores.toml");
        std::fs::write(&path, text).expect("room");
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, permissions).expect("ours");
        (directory, path)
    }

    fn name(place: &str, store: Option<&str>) -> BucketName {
        let mut name = BucketName::parse(place).expect("a name");
        name.section = store.map(str::to_owned);
        name
    }

    #[test]
    fn the_closest_section_is_taken() {
        let (_directory, path) = written(FILE, 0o644);
        let region = |place| {
            let section = section(Some(&path), &name(place, None));
            section.expect("a good file").region
        };
        assert_eq!(region("pools/two").as_deref(), Some("a"));
        assert_eq!(region("pools/one/deep").as_deref(), Some("b"));
        assert_eq!(region("pools/one").as_deref(), Some("b"));
        assert_eq!(region("pools/oneself").as_deref(), Some("a"));
        assert_eq!(region("pools-2"), None);
        let far = section(Some(&path), &name("x", Some("far"))).expect("there");
        assert_eq!(far.endpoint.as_deref(), Some("https://far.example"));
        let missing = section(Some(&path), &name("x", Some("none"))).expect_err("no section");
        assert!(missing.ends_with("there is no section [none]"), "{missing}");
        let no_file = path.with_file_name("other");
        assert_eq!(
            section(Some(&no_file), &name("x", None)),
            Ok(Section::default())
        );
    }

    #[test]
    fn faults_are_said_without_keys() {
        let fault = |text: &str, mode| {
            let (_directory, path) = written(text, mode);
            section(Some(&path), &name("x", None)).expect_err("a fault")
        };
        let keys = "[a]\naccess_key_id = \"hidden\"\nsecret_access_key = \"hidden\"\n";
        assert!(fault(keys, 0o644).contains("chmod 600"));
        let half = fault("[a]\naccess_key_id = \"hidden\"\n", 0o600);
        assert!(half.contains("[a]: access_key_id"), "{half}");
        let unknown = fault("[a]\nsecret = \"hidden\"\n", 0o600);
        assert!(unknown.contains("line 2: unknown field"), "{unknown}");
        let torn = fault("[a]\nsecret_access_key = \"hidden\n", 0o600);
        assert!(torn.contains("line 2"), "{torn}");
        let other = fault("[a]\nurl = \"gs://x\"\n", 0o600);
        for text in [half, unknown, torn, other] {
            assert!(!text.contains("hidden"), "{text}");
        }
        let (_directory, path) = written(keys, 0o600);
        let section = section(Some(&path), &name("x", Some("a"))).expect("private");
        assert!(!format!("{section:?}").contains("hidden"));
    }
}
