//! Names of stores in buckets: `s3://bucket/prefix?endpoint=https://s3.example.org`.
//!
//! ```text
//! endpoint=URL       the server; without it Amazon's of the region
//! region=NAME        what requests are signed for
//! path_style=on|off  whether the bucket stands in the path or in the host's name
//! profile=NAME       whose keys are used, of those in `~/.aws`
//! store=NAME         the section of `stores.toml` that says the rest
//! ```
//!
//! All of them identify the store or the user of it, so they are part of its name, and labels keep
//! them; no secret can stand in them. Escapes (`%20`) are not undone.

use std::fmt;

/// Why a name is none of a store in a bucket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BucketNameError {
    /// The bucket's name cannot be.
    #[error(
        "'{0}' is no name of a bucket: it is s3://BUCKET/PREFIX, with letters, digits, '.', '-' \
         and '_' in BUCKET"
    )]
    Bucket(String),
    /// Keys have no place in a name, which is kept and shown. It is not repeated here.
    #[error("a store's name has no keys in it: those belong in stores.toml or in ~/.aws")]
    Keys,
    /// The prefix cannot be.
    #[error("'{0}' is no prefix: parts between slashes are not empty, '.' or '..'")]
    Prefix(String),
    /// The server's address is none.
    #[error("'{0}' is no endpoint: it is http://HOST:PORT or https://HOST:PORT")]
    Endpoint(String),
    /// An option is neither on nor off.
    #[error("'{0}' is neither on nor off")]
    Switch(String),
    /// An option has no value.
    #[error("'{0}=' needs a value")]
    Empty(String),
}

/// Where a store is that lies in a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketName {
    /// The bucket.
    pub bucket: String,
    /// What names of objects begin with, without slashes at its ends; may be empty.
    pub prefix: String,
    /// The server, if it is said: a URL without a slash at its end.
    pub endpoint: Option<String>,
    /// The region, if it is said.
    pub region: Option<String>,
    /// Whether the bucket stands in the path, if it is said.
    pub path_style: Option<bool>,
    /// The profile of `~/.aws`, if it is said.
    pub profile: Option<String>,
    /// The section of `stores.toml`, if it is said.
    pub section: Option<String>,
}

impl BucketName {
    /// The name that stands behind `s3://`, without options.
    ///
    /// # Errors
    /// What of it cannot be.
    pub fn parse(place: &str) -> Result<Self, BucketNameError> {
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        if bucket.contains('@') {
            return Err(BucketNameError::Keys);
        }
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let is_dots = bucket.bytes().all(|byte| byte == b'.');
        if is_dots || bucket.len() > 255 || !bucket.bytes().all(is_fit) {
            return Err(BucketNameError::Bucket(bucket.into()));
        }
        let prefix = prefix.trim_end_matches('/');
        let is_part = |part: &str| {
            !["", ".", ".."].contains(&part) && !part.bytes().any(|byte| byte.is_ascii_control())
        };
        if !prefix.is_empty() && !prefix.split('/').all(is_part) {
            return Err(BucketNameError::Prefix(prefix.into()));
        }
        Ok(Self {
            bucket: bucket.into(),
            prefix: prefix.into(),
            ..Self::default()
        })
    }

    /// Takes an option of a name; says whether there is one of that name.
    ///
    /// # Errors
    /// What is wrong with its value.
    pub fn set(&mut self, option: &str, value: &str) -> Result<bool, BucketNameError> {
        let text = || match value.is_empty() {
            true => Err(BucketNameError::Empty(option.into())),
            false => Ok(Some(value.to_owned())),
        };
        match option {
            "endpoint" => self.endpoint = Some(endpoint(value)?),
            "region" => self.region = text()?,
            "path_style" => self.path_style = Some(switch(value)?),
            "profile" => self.profile = text()?,
            "store" => self.section = text()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The name of an object.
    pub fn key(&self, key: &str) -> String {
        match self.prefix.is_empty() {
            true => key.into(),
            false => format!("{}/{key}", self.prefix),
        }
    }

    /// The place alone.
    pub fn place(&self) -> String {
        let separator = if self.prefix.is_empty() { "" } else { "/" };
        format!("s3://{}{separator}{}", self.bucket, self.prefix)
    }
}

impl fmt::Display for BucketName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.place())?;
        let switch = |is_on| if is_on { "on" } else { "off" };
        let options = [
            ("endpoint", self.endpoint.as_deref()),
            ("region", self.region.as_deref()),
            ("path_style", self.path_style.map(switch)),
            ("profile", self.profile.as_deref()),
            ("store", self.section.as_deref()),
        ];
        let said = options
            .iter()
            .filter_map(|(name, value)| Some((name, (*value)?)));
        for (index, (name, value)) in said.enumerate() {
            let mark = if index == 0 { '?' } else { '&' };
            write!(formatter, "{mark}{name}={value}")?;
        }
        Ok(())
    }
}

/// A server's address, without a slash at its end.
pub(crate) fn endpoint(text: &str) -> Result<String, BucketNameError> {
    let host = ["http://", "https://"]
        .iter()
        .find_map(|kind| text.strip_prefix(kind));
    let is_address = |host: &str| {
        let is_fit = |byte: u8| byte.is_ascii_graphic() && !b"?#\\".contains(&byte);
        !host.is_empty() && !host.starts_with('/') && host.bytes().all(is_fit)
    };
    match host {
        Some(host) if host.contains('@') => Err(BucketNameError::Keys),
        Some(host) if is_address(host) => Ok(text.trim_end_matches('/').into()),
        _ => Err(BucketNameError::Endpoint(text.into())),
    }
}

fn switch(text: &str) -> Result<bool, BucketNameError> {
    match text {
        "on" | "true" | "1" | "yes" => Ok(true),
        "off" | "false" | "0" | "no" => Ok(false),
        _ => Err(BucketNameError::Switch(text.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_said_again() {
        let mut name = BucketName::parse("pools/tank/a/").expect("a name");
        assert_eq!((&*name.bucket, &*name.prefix), ("pools", "tank/a"));
        assert_eq!(name.to_string(), "s3://pools/tank/a");
        assert_eq!(name.key("device"), "tank/a/device");
        assert_eq!(name.set("endpoint", "http://127.0.0.1:9000/"), Ok(true));
        assert_eq!(name.set("path_style", "on"), Ok(true));
        assert_eq!(name.set("size", "1T"), Ok(false));
        let text = "s3://pools/tank/a?endpoint=http://127.0.0.1:9000&path_style=on";
        assert_eq!(name.to_string(), text);
        let all = BucketName::parse("pools").expect("a whole bucket");
        assert_eq!(
            (all.to_string(), all.key("device")),
            ("s3://pools".into(), "device".into())
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let error = |place: &str| BucketName::parse(place).expect_err("no name");
        assert_eq!(error("key:secret@bucket/x"), BucketNameError::Keys);
        for place in ["", "..", "a b", "a?b", "a:9"] {
            assert_eq!(error(place), BucketNameError::Bucket(place.into()));
        }
        for prefix in ["a//b", "../x", "a/\u{7}"] {
            let refused = BucketNameError::Prefix(prefix.into());
            assert_eq!(error(&format!("bucket/{prefix}")), refused);
        }
        for text in [
            "",
            "s3.example.org",
            "ftp://x",
            "http://",
            "http:///x",
            "http://a b",
        ] {
            assert_eq!(endpoint(text), Err(BucketNameError::Endpoint(text.into())));
        }
        assert_eq!(endpoint("https://a:b@c"), Err(BucketNameError::Keys));
        let mut name = BucketName::default();
        assert!(name.set("path_style", "maybe").is_err() && name.set("region", "").is_err());
    }
}
