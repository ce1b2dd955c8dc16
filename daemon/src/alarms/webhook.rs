//! Sends each alarm to a web server, as an HTTP POST of a JSON object.
//!
//! A status below 300 is success. Redirections are not followed, because they can turn a POST into
//! a GET. `https` trusts the system's certificates.

use cenote_engine::{Alarm, AlarmSendError, AlarmWay};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Error};

use super::program::subclass;
use cenote_words::format::json::{Json, Object};

/// One web server.
pub struct Webhook {
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub limit: Duration,
}

/// The body of the request.
pub fn body(alarm: &Alarm) -> String {
    let mut object = Object::new();
    object.put("kind", alarm.kind.word());
    object.put("severity", alarm.severity.word());
    object.put("host", alarm.host.as_str());
    object.put("pool", alarm.pool.as_str());
    if let Some(device) = &alarm.device {
        object.put("device", device.as_str());
    }
    object.put("subject", alarm.subject.as_str());
    object.put("text", alarm.text.as_str());
    object.put("time", alarm.event.seconds);
    object.put("lost", alarm.lost);
    let mut event = Object::new();
    event.put("class", alarm.event.class.as_str());
    event.put("subclass", subclass(&alarm.event.class));
    event.put("eid", alarm.event_id);
    let told = |name: &str| !["class", "eid"].contains(&name);
    let details = alarm.event.details.iter();
    for (name, value) in details.filter(|(name, _)| told(name)) {
        event.put(name, value.trim_matches('"'));
    }
    object.put("event", event);
    Json::from(object).to_string()
}

impl Webhook {
    fn agent(&self) -> Result<Agent, AlarmSendError> {
        let mut config = Agent::config_builder()
            .timeout_global(Some(self.limit))
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .proxy(None)
            .user_agent(concat!("cenote/", env!("CARGO_PKG_VERSION")));
        if self.url.starts_with("https://") {
            let found = rustls_native_certs::load_native_certs();
            if found.certs.is_empty() {
                let text = "the system has no certificates to trust (package ca-certificates)";
                return Err(AlarmSendError::Io {
                    place: self.url.clone(),
                    source: io::Error::new(io::ErrorKind::NotFound, text),
                });
            }
            let certificates = found.certs.iter();
            let certificates: Vec<Certificate<'static>> = certificates
                .map(|certificate| Certificate::from_der(certificate).to_owned())
                .collect();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let tls = TlsConfig::builder()
                .root_certs(RootCerts::new_with_certs(&certificates))
                .unversioned_rustls_crypto_provider(provider);
            config = config.tls_config(tls.build());
        }
        Ok(config.build().new_agent())
    }

    fn failed(&self, error: Error) -> AlarmSendError {
        let place = self.url.clone();
        match error {
            Error::Timeout(_) => AlarmSendError::Slow {
                place,
                limit: self.limit,
            },
            Error::Io(source) if source.kind() == io::ErrorKind::TimedOut => AlarmSendError::Slow {
                place,
                limit: self.limit,
            },
            Error::Io(source) => AlarmSendError::Io { place, source },
            other => AlarmSendError::Io {
                place,
                source: io::Error::other(other),
            },
        }
    }
}

impl AlarmWay for Webhook {
    fn send(&self, alarm: &Alarm) -> Result<(), AlarmSendError> {
        let agent = self.agent()?;
        let mut request = agent
            .post(&self.url)
            .header("Content-Type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let answer = request.send(body(alarm).as_bytes());
        let status = answer.map_err(|error| self.failed(error))?.status();
        match status.is_success() {
            true => Ok(()),
            false => Err(AlarmSendError::Refused {
                place: self.url.clone(),
                answer: format!("the server answered {status}"),
            }),
        }
    }
}
