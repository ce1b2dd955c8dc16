//! Keys to sign requests with, looked up again each minute.
//!
//! Files and environment are read again once their values are a minute old. A refused request is
//! tried again after that time, so new keys are found by then. Those of a role are kept by `role`.

use crate::http::{Http, Limits, Seen};
use crate::role::{self, Role};
use crate::settings::{Keys, Sources};
use crate::sign::Credential;
use cenote_base::rt::process::Instant;
use cenote_base::rt::{Mutex, ranks};
use rustls::ClientConfig;
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

/// Finds and keeps the keys.
pub struct KeyRing {
    sources: Sources,
    role: Role,
    known: Mutex<Option<(Instant, Arc<Credential>)>, ranks::S3KeyRing>,
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
    pub fn new(sources: Sources, tls: &ClientConfig) -> Result<Self, String> {
        Ok(Self {
            role: role(&sources, tls)?,
            sources,
            known: Mutex::new(None),
        })
    }

    fn fresh(&self) -> Option<Arc<Credential>> {
        let known = self.known.lock();
        let (found, keys) = known.as_ref()?;
        (found.elapsed() < FRESH).then(|| Arc::clone(keys))
    }

    /// The keys as of now.
    ///
    /// # Errors
    /// Why there are none.
    pub async fn keys(&self) -> Result<Arc<Credential>, String> {
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

    async fn keys_of_role(&self) -> Result<Arc<Credential>, String> {
        let none = "there are no keys: neither in stores.toml nor in the environment \
                    (AWS_ACCESS_KEY_ID) nor in ~/.aws";
        let is_disabled = self.sources.surroundings().get("AWS_EC2_METADATA_DISABLED");
        if is_disabled.is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return Err(none.into());
        }
        let asked = tokio::time::timeout(ROLE_LIMIT, self.role.keys()).await;
        let reason = match asked {
            Ok(Ok(keys)) => return Ok(keys),
            Ok(Err(fault)) => fault.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        Err(format!("{none}, and the machine has no role ({reason})"))
    }
}

/// The role, with the way to its provider of keys.
fn role(sources: &Sources, tls: &ClientConfig) -> Result<Role, String> {
    let surroundings = sources.surroundings();
    let is_far = role::is_far(surroundings);
    let connecting = if is_far { ROLE_LIMIT } else { ROLE_CONNECTING };
    let http = Http::new(
        tls.clone(),
        is_far,
        connecting,
        Limits::default(),
        Arc::new(Seen::default()),
    );
    Role::new(surroundings, http)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::BucketName;
    use crate::surroundings::Surroundings;
    use cenote_http_client::tls;

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
