//! How a store is reached, combined from all sources of settings.
//!
//! The source nearest to the store wins: its name, then its section of `stores.toml`, then the
//! environment, then the profile of `~/.aws`. A server is found once, when the store is opened.
//! Keys are looked up again and again, because they expire and people replace them.

use crate::name::{self, BucketName};
use crate::profiles::{self, Profile};
use crate::sign::Credential;
use crate::stores_file::{self, Section};
use crate::surroundings::Surroundings;
use std::path::PathBuf;

const KEY_VARIABLES: [&str; 2] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];

/// How a store is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The server, without the bucket.
    pub endpoint: String,
    /// What requests are signed for.
    pub region: String,
    /// Whether the bucket stands in the path.
    pub is_path_style: bool,
    /// Whose certificates are trusted instead of those that the system trusts.
    pub ca_bundle: Option<PathBuf>,
}

/// Where keys come from.
#[derive(Debug, PartialEq, Eq)]
pub enum Keys {
    /// These.
    Known(Credential),
    /// The machine has a role, and is asked for keys.
    Role,
}

/// The sources of settings.
#[derive(Clone, Debug)]
pub struct Sources {
    name: BucketName,
    surroundings: Surroundings,
}

/// What everybody says at one moment.
struct Said {
    section: Section,
    profile: Option<Profile>,
    profile_name: String,
    /// Whether the profile was asked for by the name or the section.
    is_profile_meant: bool,
}

impl Sources {
    /// Those of a store in these surroundings.
    pub fn new(name: &BucketName, surroundings: &Surroundings) -> Self {
        Self {
            name: name.clone(),
            surroundings: surroundings.clone(),
        }
    }

    /// Where they are.
    pub fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    fn ask(&self) -> Result<Said, String> {
        let file = self.surroundings.stores_file();
        let section = stores_file::section(file.as_deref(), &self.name)?;
        let meant = self
            .name
            .profile
            .clone()
            .or_else(|| section.profile.clone());
        let is_profile_meant = meant.is_some();
        let of_environment = || {
            self.surroundings
                .first(&["AWS_PROFILE", "AWS_DEFAULT_PROFILE"])
        };
        let named = meant.or_else(of_environment);
        let is_named = named.is_some();
        let profile_name = named.unwrap_or_else(|| "default".into());
        let profile = profiles::find(&self.surroundings, &profile_name)?;
        if is_named && profile.is_none() {
            return Err(format!("there is no profile '{profile_name}' in ~/.aws"));
        }
        Ok(Said {
            section,
            profile,
            profile_name,
            is_profile_meant,
        })
    }

    /// How the store is reached.
    ///
    /// # Errors
    /// What is wrong with what they say.
    pub fn settings(&self) -> Result<Settings, String> {
        let said = self.ask()?;
        let of_profile = |name: &str| Some(said.profile.as_ref()?.get(name)?.to_owned());
        let name = self.name.clone();
        let region = name
            .region
            .or(said.section.region)
            .or_else(|| {
                self.surroundings
                    .first(&["AWS_REGION", "AWS_DEFAULT_REGION"])
            })
            .or_else(|| of_profile("region"))
            .unwrap_or_else(|| "us-east-1".into());
        let endpoint = name
            .endpoint
            .or(said.section.endpoint)
            .or_else(|| {
                let variables = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
                self.surroundings.first(&variables)
            })
            .or_else(|| of_profile("endpoint_url"));
        let is_amazon = endpoint.is_none();
        let endpoint = match endpoint {
            Some(endpoint) => name::endpoint(&endpoint).map_err(|error| error.to_string())?,
            None => amazon("s3", &region)?,
        };
        // A dot in a bucket's name fits no certificate.
        let usual = !is_amazon || name.bucket.contains('.');
        let is_path_style = name.path_style.or(said.section.path_style).unwrap_or(usual);
        let ca_bundle = said
            .section
            .ca_bundle
            .or_else(|| self.surroundings.get("AWS_CA_BUNDLE").map(PathBuf::from))
            .or_else(|| of_profile("ca_bundle").map(PathBuf::from));
        Ok(Settings {
            endpoint,
            region,
            is_path_style,
            ca_bundle,
        })
    }

    /// The keys as of now.
    ///
    /// # Errors
    /// What is wrong with what they say.
    pub fn keys(&self) -> Result<Keys, String> {
        let said = self.ask()?;
        let Section {
            access_key_id,
            secret_access_key,
            session_token,
            ..
        } = said.section;
        if let Some((key_id, secret_key)) = access_key_id.zip(secret_access_key) {
            return Ok(Keys::Known(Credential {
                key_id,
                secret_key,
                token: session_token,
            }));
        }
        if !said.is_profile_meant
            && let Some(found) = self.keys_of_environment()?
        {
            return Ok(Keys::Known(found));
        }
        let Some(profile) = said.profile else {
            return Ok(Keys::Role);
        };
        let key = |name: &str| profile.get(name).map(str::to_owned);
        if let Some((key_id, secret_key)) =
            key("aws_access_key_id").zip(key("aws_secret_access_key"))
        {
            return Ok(Keys::Known(Credential {
                key_id,
                secret_key,
                token: key("aws_session_token"),
            }));
        }
        let name = &said.profile_name;
        match profile.elsewhere() {
            Some(way) => Err(format!(
                "profile '{name}' gets its keys by {way}, which Cenote cannot: put keys into the \
                 environment (aws configure export-credentials), or use a role of the machine"
            )),
            None if said.is_profile_meant => Err(format!("profile '{name}' has no keys")),
            None => Ok(Keys::Role),
        }
    }

    fn keys_of_environment(&self) -> Result<Option<Credential>, String> {
        let [id, secret] = KEY_VARIABLES;
        match (self.surroundings.get(id), self.surroundings.get(secret)) {
            (Some(key_id), Some(secret_key)) => Ok(Some(Credential {
                key_id,
                secret_key,
                token: self.surroundings.get("AWS_SESSION_TOKEN"),
            })),
            (Some(_), None) => Err(format!("{id} is set, and {secret} is not")),
            (None, Some(_)) => Err(format!("{secret} is set, and {id} is not")),
            (None, None) => Ok(None),
        }
    }
}

/// Amazon's server of a service for a region.
///
/// # Errors
/// A text that is no region.
pub fn amazon(service: &str, region: &str) -> Result<String, String> {
    let is_word = region
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_word {
        return Err(format!("'{region}' is no region"));
    }
    let china = if region.starts_with("cn-") { ".cn" } else { "" };
    Ok(format!("https://{service}.{region}.amazonaws.com{china}"))
}

impl Settings {
    /// The address of a bucket.
    pub fn bucket(&self, bucket: &str) -> String {
        let Self { endpoint, .. } = self;
        match endpoint.split_once("://").filter(|_| !self.is_path_style) {
            Some((scheme, host)) => format!("{scheme}://{bucket}.{host}"),
            None => format!("{endpoint}/{bucket}"),
        }
    }

    /// Whether what goes over the line is hidden from others.
    pub fn is_secure(&self) -> bool {
        self.endpoint.starts_with("https://")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Self {
            let home = Self(tempfile::tempdir().expect("a directory"));
            home.write(
                ".aws/config",
                "[profile far]\nregion = far-1\n[profile sso]\nsso_session=x\n",
            );
            home.write(
                ".aws/credentials",
                "[default]\naws_access_key_id=D\naws_secret_access_key=d\n\
                 [far]\naws_access_key_id=F\naws_secret_access_key=f\naws_session_token=t\n",
            );
            home
        }

        fn write(&self, name: &str, text: &str) {
            use std::os::unix::fs::PermissionsExt;
            let path = self.0.path().join(name);
            std::fs::create_dir_all(path.parent().expect("below")).expect("made");
            std::fs::write(&path, text).expect("room");
            let private = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(&path, private).expect("ours");
        }

        fn sources<const COUNT: usize>(
            &self,
            options: &[(&str, &str)],
            variables: [(&str, &str); COUNT],
        ) -> Sources {
            let mut name = BucketName::parse("pools/one").expect("a name");
            for (option, value) in options {
                assert_eq!(name.set(option, value), Ok(true));
            }
            let home = self.0.path().to_str().expect("text");
            let with_home = Surroundings::of_variables([("HOME", home)]);
            let variables = Surroundings::of_variables(variables);
            let both = Surroundings::joined(variables, with_home);
            Sources::new(&name, &both)
        }
    }

    fn key_id(sources: &Sources) -> String {
        match sources.keys() {
            Ok(Keys::Known(keys)) => keys.key_id,
            Ok(Keys::Role) => "role".into(),
            Err(reason) => reason,
        }
    }

    #[test]
    fn who_is_closer_wins() {
        let home = Home::new();
        let settings = |sources: Sources| sources.settings().expect("good");
        let plain = settings(home.sources(&[], []));
        assert_eq!(
            plain.bucket("pools"),
            "https://pools.s3.us-east-1.amazonaws.com"
        );
        assert!(plain.is_secure());
        let of_profile = settings(home.sources(&[("profile", "far")], []));
        assert_eq!(of_profile.region, "far-1");
        let near = [
            ("AWS_REGION", "near-1"),
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/"),
            ("AWS_CA_BUNDLE", "/ca.pem"),
        ];
        let of_environment = settings(home.sources(&[("profile", "far")], near));
        assert_eq!(of_environment.region, "near-1");
        assert_eq!(
            of_environment.bucket("pools"),
            "http://127.0.0.1:9000/pools"
        );
        assert_eq!(of_environment.ca_bundle, Some("/ca.pem".into()));
        home.write(
            ".config/cenote/stores.toml",
            "[one]\nurl = \"s3://pools\"\nregion = \"file-1\"\nendpoint = \"https://file\"\n\
             path_style = false\nca_bundle = \"/file.pem\"\n",
        );
        let of_file = settings(home.sources(&[], near));
        assert_eq!(of_file.bucket("pools"), "https://pools.file");
        assert_eq!(of_file.region, "file-1");
        assert_eq!(of_file.ca_bundle, Some("/file.pem".into()));
        let of_name = settings(home.sources(&[("endpoint", "http://name")], near));
        assert_eq!(
            (&*of_name.endpoint, &*of_name.region),
            ("http://name", "file-1")
        );
    }

    #[test]
    fn keys_are_found_in_their_order() {
        let home = Home::new();
        assert_eq!(key_id(&home.sources(&[], [])), "D");
        let keys = [("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "e")];
        assert_eq!(key_id(&home.sources(&[], keys)), "E");
        assert_eq!(key_id(&home.sources(&[("profile", "far")], keys)), "F");
        assert_eq!(key_id(&home.sources(&[], [("AWS_PROFILE", "far")])), "F");
        let half = key_id(&home.sources(&[], [("AWS_ACCESS_KEY_ID", "E")]));
        assert_eq!(
            half,
            "AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not"
        );
        let sso = key_id(&home.sources(&[("profile", "sso")], []));
        assert!(
            sso.starts_with("profile 'sso' gets its keys by sso_session"),
            "{sso}"
        );
        let none = key_id(&home.sources(&[("profile", "none")], []));
        assert_eq!(none, "there is no profile 'none' in ~/.aws");
        home.write(
            ".config/cenote/stores.toml",
            "[one]\nurl = \"s3://pools\"\naccess_key_id = \"S\"\nsecret_access_key = \"s\"\n",
        );
        assert_eq!(key_id(&home.sources(&[], keys)), "S");
        home.write(".aws/credentials", "");
        home.write(".config/cenote/stores.toml", "");
        assert_eq!(key_id(&home.sources(&[], [])), "role");
    }

    #[test]
    fn regions_make_no_hosts() {
        assert!(amazon("s3", "evil.example/").is_err());
        let china = amazon("s3", "cn-north-1").expect("a region");
        assert_eq!(china, "https://s3.cn-north-1.amazonaws.com.cn");
    }
}
