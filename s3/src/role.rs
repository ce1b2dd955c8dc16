//! Keys of the role that a machine, a task or a pod has, from its provider.
//!
//! ```text
//! what has it  by these variables                        provider
//! pod of EKS   AWS_WEB_IDENTITY_TOKEN_FILE, _ROLE_ARN    Amazon's tokens (STS)
//! task of ECS  AWS_CONTAINER_CREDENTIALS_RELATIVE_URI    its machine
//! pod of EKS   AWS_CONTAINER_CREDENTIALS_FULL_URI,       its machine
//!              AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE
//! machine      nothing of these                          itself (IMDS, version 2)
//! ```
//!
//! Keys come with the time at which they expire, and are used until shortly before.

use crate::allowance::Allowance;
use crate::http::{ANSWER_MAX, Http};
use crate::profiles::read as read_file;
use crate::refusal::Fault;
use crate::settings::amazon;
use crate::sign::{Credential, query};
use crate::surroundings::Surroundings;
use crate::xml;
use bytes::Bytes;
use cenote_base::rt;
use cenote_base::rt::process::Instant;
use cenote_http_client::http::header::{AUTHORIZATION, HeaderName};
use cenote_http_client::http::{Method, Request};
use jiff::Timestamp;
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Keys that are good for less are replaced.
const SHORT: Duration = Duration::from_secs(300);
/// How long new ones are used all the same, so that not each request asks for keys where all of
/// them are good for a short time.
const PATIENCE: Duration = Duration::from_millis(100);
const TOKEN_SECONDS: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");
const MACHINE_TOKEN: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token");

/// What hands keys out.
#[derive(Debug)]
enum Provider {
    Tokens {
        server: String,
        file: String,
        role: String,
        session: String,
    },
    Task(String),
    Pod {
        address: String,
        file: String,
    },
    Machine(String),
}

/// Keys that were handed out.
#[derive(Debug)]
struct Given {
    keys: Arc<Credential>,
    at: Instant,
    until: Instant,
}

impl Given {
    fn is_good(&self) -> bool {
        let left = self.until.saturating_duration_since(Instant::now());
        left > SHORT || (self.at.elapsed() < PATIENCE && !left.is_zero())
    }
}

/// A role, and its keys as long as they are good.
#[derive(Debug)]
pub(crate) struct Role {
    provider: Provider,
    http: Http,
    given: tokio::sync::Mutex<Option<Given>>,
}

/// Whether the keys of a role come from far away, where certificates are needed.
pub fn is_far(surroundings: &Surroundings) -> bool {
    surroundings.get("AWS_WEB_IDENTITY_TOKEN_FILE").is_some()
}

fn provider(surroundings: &Surroundings) -> Result<Provider, String> {
    let get = |name| surroundings.get(name);
    if let (Some(file), Some(role)) = (get("AWS_WEB_IDENTITY_TOKEN_FILE"), get("AWS_ROLE_ARN")) {
        let region = surroundings.first(&["AWS_REGION", "AWS_DEFAULT_REGION"]);
        let usual = || amazon("sts", region.as_deref().unwrap_or("us-east-1"));
        let session = get("AWS_ROLE_SESSION_NAME");
        return Ok(Provider::Tokens {
            server: get("AWS_ENDPOINT_URL_STS").map_or_else(usual, Ok)?,
            file,
            role,
            session: session.unwrap_or_else(|| "WebIdentitySession".into()),
        });
    }
    if let Some(path) = get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
        return Ok(Provider::Task(format!("http://169.254.170.2{path}")));
    }
    let address = get("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    let file = get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    if let Some((address, file)) = address.zip(file) {
        return Ok(Provider::Pod { address, file });
    }
    let server = get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    Ok(Provider::Machine(
        server.unwrap_or_else(|| "http://169.254.169.254".into()),
    ))
}

impl Role {
    /// The role that the surroundings speak of.
    ///
    /// # Errors
    /// What is wrong with what they say.
    pub(crate) fn new(surroundings: &Surroundings, http: Http) -> Result<Self, String> {
        Ok(Self {
            provider: provider(surroundings)?,
            http,
            given: tokio::sync::Mutex::new(None),
        })
    }

    /// Its keys.
    ///
    /// # Errors
    /// Why there are none.
    pub(crate) async fn keys(&self) -> Result<Arc<Credential>, Fault> {
        // Requests that come meanwhile wait for the same keys.
        let mut given = self.given.lock().await;
        if let Some(given) = given.as_ref().filter(|given| given.is_good()) {
            return Ok(Arc::clone(&given.keys));
        }
        let new = self.ask().await?;
        let keys = Arc::clone(&new.keys);
        *given = Some(new);
        Ok(keys)
    }

    async fn ask(&self) -> Result<Given, Fault> {
        match &self.provider {
            Provider::Tokens {
                server,
                file,
                role,
                session,
            } => {
                let parameters = query(&[
                    ("Action", "AssumeRoleWithWebIdentity"),
                    ("DurationSeconds", "3600"),
                    ("RoleArn", role),
                    ("RoleSessionName", session),
                    ("Version", "2011-06-15"),
                    ("WebIdentityToken", &token(file)?),
                ]);
                let address = format!("{server}?{parameters}");
                of_xml(&self.get(Method::POST, &address, None).await?)
            }
            Provider::Task(address) => of_json(&self.get(Method::GET, address, None).await?),
            Provider::Pod { address, file } => {
                let token = (AUTHORIZATION, token(file)?);
                of_json(&self.get(Method::GET, address, Some(token)).await?)
            }
            Provider::Machine(server) => self.of_machine(server).await,
        }
    }

    async fn of_machine(&self, server: &str) -> Result<Given, Fault> {
        let address = format!("{server}/latest/api/token");
        // Good for ten minutes.
        let seconds = (TOKEN_SECONDS, "600".to_owned());
        let token = self.get(Method::PUT, &address, Some(seconds)).await?;
        let token = || Some((MACHINE_TOKEN, token.clone()));
        let roles = format!("{server}/latest/meta-data/iam/security-credentials/");
        let role = self.get(Method::GET, &roles, token()).await?;
        let keys = format!("{roles}{role}");
        of_json(&self.get(Method::GET, &keys, token()).await?)
    }

    /// The text that is answered.
    async fn get(
        &self,
        method: Method,
        address: &str,
        header: Option<(HeaderName, String)>,
    ) -> Result<String, Fault> {
        let mut request = Request::builder().method(method).uri(address);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        // Neither an address with a token in it nor a header is shown.
        let wrong = |_| Fault::Wrong("the provider of keys cannot be asked".into());
        let request = request.body(Bytes::new()).map_err(wrong)?;
        let answer = self.http.ask(request, &Allowance::new(ANSWER_MAX)).await?;
        String::from_utf8(answer.body).map_err(|_| unreadable(""))
    }
}

/// The token that a pod finds in a file.
fn token(file: &str) -> Result<String, Fault> {
    let text = read_file(Path::new(file)).map_err(Fault::Wrong)?;
    let text = text.ok_or_else(|| Fault::Wrong(format!("{file}: there is no such file")))?;
    Ok(text.trim_end().to_owned())
}

/// An answer without keys. It is not shown: there may be some in it.
fn unreadable(place: &str) -> Fault {
    Fault::Wrong(format!("the provider's answer has no keys{place}"))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Keys {
    access_key_id: String,
    secret_access_key: String,
    token: String,
    expiration: String,
}

impl Keys {
    fn given(self) -> Result<Given, Fault> {
        let until: Timestamp = self.expiration.parse().map_err(|_| unreadable(""))?;
        let now = rt::wall_clock().as_secs().cast_signed();
        let left = u64::try_from(until.as_second() - now).unwrap_or(0);
        let at = Instant::now();
        Ok(Given {
            keys: Arc::new(Credential {
                key_id: self.access_key_id,
                secret_key: self.secret_access_key,
                token: Some(self.token),
            }),
            at,
            // Timestamps end in the year 9999.
            until: at + Duration::from_secs(left),
        })
    }
}

fn of_json(text: &str) -> Result<Given, Fault> {
    let keys: Result<Keys, _> = serde_json::from_str(text);
    let place = |error: serde_json::Error| format!(" (line {}, {})", error.line(), error.column());
    keys.map_err(|error| unreadable(&place(error)))?.given()
}

fn of_xml(text: &str) -> Result<Given, Fault> {
    let mut keys = Keys::default();
    let read = xml::read(text, |names, text| {
        let [.., "AssumeRoleWithWebIdentityResult", "Credentials", name] = names else {
            return Ok(());
        };
        match *name {
            "AccessKeyId" => keys.access_key_id = text.into(),
            "SecretAccessKey" => keys.secret_access_key = text.into(),
            "SessionToken" => keys.token = text.into(),
            "Expiration" => keys.expiration = text.into(),
            _ => {}
        }
        Ok(())
    });
    let parts = [&keys.access_key_id, &keys.secret_access_key, &keys.token];
    match read.is_ok() && parts.iter().all(|part| !part.is_empty()) {
        true => keys.given(),
        false => Err(unreadable("")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<const COUNT: usize>(variables: [(&str, &str); COUNT]) -> String {
        let found = provider(&Surroundings::of_variables(variables));
        format!("{:?}", found.expect("a provider"))
    }

    #[test]
    fn providers_are_found_in_their_order() {
        assert_eq!(of([]), "Machine(\"http://169.254.169.254\")");
        let far = [
            ("AWS_WEB_IDENTITY_TOKEN_FILE", "/t"),
            ("AWS_ROLE_ARN", "arn:r"),
            ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x"),
            ("AWS_REGION", "eu-1"),
        ];
        assert_eq!(
            of(far),
            "Tokens { server: \"https://sts.eu-1.amazonaws.com\", file: \"/t\", role: \"arn:r\", \
             session: \"WebIdentitySession\" }"
        );
        let task = [("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x")];
        assert_eq!(of(task), "Task(\"http://169.254.170.2/x\")");
        let pod = [
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://p/"),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/t"),
        ];
        assert_eq!(of(pod), "Pod { address: \"http://p/\", file: \"/t\" }");
    }

    #[test]
    fn keys_are_good_until_shortly_before_their_end() {
        let given = |seconds: u64| {
            let at = Instant::now();
            let until = at + Duration::from_secs(seconds);
            let keys = Credential {
                key_id: "K".into(),
                secret_key: "hidden".into(),
                token: None,
            };
            let keys = Arc::new(keys);
            Given { keys, at, until }
        };
        assert!(given(3600).is_good() && given(10).is_good() && !given(0).is_good());
        let mut old = given(10);
        old.at = old.at.checked_sub(PATIENCE).expect("a machine that is up");
        assert!(!old.is_good());
        old.until += SHORT;
        assert!(old.is_good());
        assert!(!format!("{old:?}").contains("hidden"));
    }

    #[test]
    fn answers_without_keys_are_not_shown() {
        let json = r#"{"AccessKeyId": "K", "SecretAccessKey": ["hidden"], "Token": "t"}"#;
        let error = of_json(json).expect_err("a list").to_string();
        assert!(
            error.contains("no keys") && !error.contains("hidden"),
            "{error}"
        );
        let keys = "<SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>\
                    <Expiration>2099-01-01T00:00:00Z</Expiration>";
        let answer = |keys: &str| {
            let result = "AssumeRoleWithWebIdentityResult";
            of_xml(&format!(
                "<R><{result}><Credentials>{keys}</Credentials></{result}></R>"
            ))
        };
        let whole = answer(&format!("<AccessKeyId>K</AccessKeyId>{keys}")).expect("keys");
        assert!(whole.keys.key_id == "K" && whole.keys.secret_key == "s" && whole.is_good());
        assert_eq!(whole.keys.token.as_deref(), Some("t"));
        assert!(answer(keys).is_err() && of_xml("<html>").is_err());
        let ever = answer(&format!("<AccessKeyId>K</AccessKeyId>{keys}").replace("2099", "9999"));
        assert!(ever.expect("keys").is_good());
    }
}
