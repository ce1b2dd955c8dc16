//! Keys to sign requests with, looked up again each minute.
//!
//! Files and environment are read again once their values are a minute old. A refused request is
//! tried again after that time, so new keys are found by then. Keys of a role come with the time at
//! which they expire, and `object_store` keeps them until shortly before.

use super::http::{Limits, Line, Seen};
use super::refusal::Fault;
use super::settings::{Keys, ROLE_VARIABLES, Sources};
use super::surroundings::Surroundings;
use async_trait::async_trait;
use cenote_base::rt::process::Instant;
use cenote_base::rt::{Mutex, ranks};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, AwsCredentialProvider};
use object_store::{BackoffConfig, CredentialProvider, RetryConfig};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long keys of files and environment are used without looking. Less than the shortest time
/// after which a refused request is tried again.
const FRESH: Duration = Duration::from_secs(20);
/// How long a machine may take to say whether it has a role.
const ROLE_LIMIT: Duration = Duration::from_secs(10);
/// How long connecting to the provider of roles may take, which is near or not there at all.
const ROLE_CONNECTING: Duration = Duration::from_secs(1);

/// Turns retries off: [`crate::store::Client`] alone retries requests.
pub(super) fn no_retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: 0,
        retry_timeout: Duration::ZERO,
    }
}

/// Finds and keeps the keys.
pub(super) struct KeyRing {
    sources: Sources,
    role: AwsCredentialProvider,
    known: Mutex<Option<(Instant, Arc<AwsCredential>)>, ranks::S3KeyRing>,
}

impl fmt::Debug for KeyRing {
    /// Without the keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KeyRing").finish_non_exhaustive()
    }
}

impl KeyRing {
    /// What `sources` say, and if they say nothing, the keys of the machine's role.
    ///
    /// # Errors
    /// What is wrong with the way to a role.
    pub(super) fn new(sources: Sources, tls: &rustls::ClientConfig) -> Result<Self, String> {
        Ok(Self {
            role: role(&sources, tls)?,
            sources,
            known: Mutex::new(None),
        })
    }

    fn fresh(&self) -> Option<Arc<AwsCredential>> {
        let known = self.known.lock();
        let (found, keys) = known.as_ref()?;
        (found.elapsed() < FRESH).then(|| Arc::clone(keys))
    }

    async fn keys(&self) -> Result<Arc<AwsCredential>, String> {
        if let Some(keys) = self.fresh() {
            return Ok(keys);
        }
        match self.sources.keys()? {
            Keys::Known(keys) => {
                let keys = Arc::new(keys);
                let mut known = self.known.lock();
                *known = Some((Instant::now(), Arc::clone(&keys)));
                Ok(keys)
            }
            Keys::Role => self.keys_of_role().await,
        }
    }

    async fn keys_of_role(&self) -> Result<Arc<AwsCredential>, String> {
        let none = "there are no keys: neither in stores.toml nor in the environment \
                    (AWS_ACCESS_KEY_ID) nor in ~/.aws";
        let is_disabled = self.sources.surroundings().get("AWS_EC2_METADATA_DISABLED");
        if is_disabled.is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return Err(none.into());
        }
        let asked = tokio::time::timeout(ROLE_LIMIT, self.role.get_credential()).await;
        let reason = match asked {
            Ok(Ok(keys)) => return Ok(keys),
            Ok(Err(error)) => match Fault::below(&error) {
                Some(fault) => fault.error().to_string(),
                None => error.to_string(),
            },
            Err(_) => "no answer".to_owned(),
        };
        Err(format!("{none}, and the machine has no role ({reason})"))
    }
}

#[async_trait]
impl CredentialProvider for KeyRing {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let found = self.keys().await;
        found.map_err(|reason| object_store::Error::Generic {
            store: "S3",
            source: Box::new(Fault::NoKeys(reason)),
        })
    }
}

/// Whether the keys of a role come from far away, where certificates are needed.
pub(super) fn is_role_secure(surroundings: &Surroundings) -> bool {
    surroundings.get("AWS_WEB_IDENTITY_TOKEN_FILE").is_some()
}

/// The provider of keys for a machine, a task or a pod that has a role.
fn role(sources: &Sources, tls: &rustls::ClientConfig) -> Result<AwsCredentialProvider, String> {
    let surroundings = sources.surroundings();
    let is_far = is_role_secure(surroundings);
    let line = Line {
        tls: tls.clone(),
        uses_proxies: is_far,
        connecting: if is_far { ROLE_LIMIT } else { ROLE_CONNECTING },
        limits: Limits::default(),
        seen: Arc::new(Seen::default()),
    };
    // A store that is used only for the keys that it would sign with.
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name("none")
        .with_retry(no_retries())
        .with_http_connector(line);
    for variable in ROLE_VARIABLES {
        let key: Result<AmazonS3ConfigKey, _> = variable.to_ascii_lowercase().parse();
        let key = key.map_err(|error| error.to_string())?;
        if let Some(value) = surroundings.get(variable) {
            builder = builder.with_config(key, value);
        }
    }
    let region = surroundings.first(&["AWS_REGION", "AWS_DEFAULT_REGION"]);
    if let Some(region) = region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = surroundings.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") {
        builder = builder.with_metadata_endpoint(endpoint);
    }
    let store = builder.build().map_err(|error| error.to_string())?;
    Ok(Arc::clone(store.credentials()))
}

#[cfg(test)]
mod tests {
    use super::super::name::BucketName;
    use super::super::tls;
    use super::*;

    fn asked<const COUNT: usize>(variables: [(&str, &str); COUNT]) -> Result<String, String> {
        let name = BucketName::parse("bucket").expect("a name");
        let sources = Sources::new(&name, &Surroundings::of_variables(variables));
        let tls = tls::config(None, false).expect("no certificates are needed");
        let ring = KeyRing::new(sources, &tls).expect("all variables are known");
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("a runtime");
        let keys = runtime.block_on(ring.keys())?;
        assert!(!format!("{ring:?} {keys:?}").contains("hidden"));
        Ok(keys.key_id.clone())
    }

    #[test]
    fn without_keys_it_says_where_they_could_be() {
        let known = [
            ("AWS_ACCESS_KEY_ID", "K"),
            ("AWS_SECRET_ACCESS_KEY", "hidden"),
        ];
        assert_eq!(asked(known), Ok("K".into()));
        let none = asked([("AWS_EC2_METADATA_DISABLED", "true")]).expect_err("no keys");
        assert!(
            none.contains("stores.toml") && none.contains("~/.aws"),
            "{none}"
        );
        // No server listens on this port.
        let nobody = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")];
        let refused = asked(nobody).expect_err("no role");
        assert!(
            refused.contains("the machine has no role (no connection"),
            "{refused}"
        );
    }
}
