//! Sends each alarm to a web server, as an HTTP POST of a JSON object.
//!
//! A status below 300 is success. Redirections are not followed, because they can turn a POST into
//! a GET. `https` trusts the system's certificates.

use cenote_alarms::{Alarm, AlarmSendError, AlarmWay};
use cenote_http_client::http::header::{AUTHORIZATION, CONTENT_TYPE};
use cenote_http_client::http::{HeaderValue, Request, StatusCode, Uri};
use cenote_http_client::{Client, HttpError, Payload, Setup, basic_auth, tls, wait};
use std::io;
use std::time::Duration;

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
    event.put("subclass", cenote_zed::subclass(&alarm.event.class));
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
    fn client(&self) -> Result<Client, AlarmSendError> {
        let is_secure = self.url.starts_with("https://");
        let tls = tls::config(None, is_secure)
            .map_err(|text| self.failed(io::Error::new(io::ErrorKind::NotFound, text)))?;
        Ok(Client::new(Setup {
            tls,
            uses_proxies: false,
            connecting: self.limit,
            unacknowledged: self.limit,
        }))
    }

    fn request(&self, alarm: &Alarm) -> Result<Request<Payload>, AlarmSendError> {
        let mut request = Request::post(&self.url);
        let user = self.url.parse::<Uri>().ok();
        let user = user.and_then(|uri| basic_auth(&uri));
        let json = HeaderValue::from_static("application/json");
        request = request.header(CONTENT_TYPE, json);
        let is_said = |name: &str| name.eq_ignore_ascii_case(AUTHORIZATION.as_str());
        if let Some(user) = user
            && !self.headers.iter().any(|(name, _)| is_said(name))
        {
            request = request.header(AUTHORIZATION, user);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Payload::new(body(alarm).into()));
        request.map_err(|error| self.failed(io::Error::other(error)))
    }

    fn failed(&self, source: io::Error) -> AlarmSendError {
        let place = self.url.clone();
        match source.kind() {
            io::ErrorKind::TimedOut => AlarmSendError::Slow {
                place,
                limit: self.limit,
            },
            _ => AlarmSendError::Io { place, source },
        }
    }

    fn status(&self, request: Request<Payload>) -> Result<StatusCode, AlarmSendError> {
        let client = self.client()?;
        let answer = wait(self.limit, client.send(request)).map_err(|error| self.failed(error))?;
        let answer = answer.ok_or_else(|| self.failed(io::ErrorKind::TimedOut.into()))?;
        let answer = answer.map_err(HttpError::into_io);
        Ok(answer.map_err(|error| self.failed(error))?.status())
    }
}

impl AlarmWay for Webhook {
    fn send(&self, alarm: &Alarm) -> Result<(), AlarmSendError> {
        let status = self.status(self.request(alarm)?)?;
        match status.is_success() {
            true => Ok(()),
            false => Err(AlarmSendError::Refused {
                place: self.url.clone(),
                answer: format!("the server answered {status}"),
            }),
        }
    }
}
