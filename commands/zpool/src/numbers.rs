//! Numbers in JSON: rounded, exact, or bare.

use cenote_words::format::date::{Form, date};
use cenote_words::format::json::Json;
use cenote_words::format::number::{nicebytes, nicenum};
use cenote_words::format::property::Style;
use jiff::tz::TimeZone;

/// Numbers in one place: rounded, exact, or bare.
pub struct Numbers<'a> {
    pub style: &'a Style,
    pub zone: &'a TimeZone,
}

impl Numbers<'_> {
    /// The exact number.
    pub fn exact(&self, number: u64) -> Json {
        cenote_words::format::json::number(number, self.style.json_int)
    }

    /// A size, rounded unless exact numbers were requested.
    pub fn bytes(&self, number: u64) -> Json {
        if self.style.exact {
            self.exact(number)
        } else {
            Json::Text(nicebytes(number))
        }
    }

    /// A number, rounded unless exact numbers were requested.
    pub fn count(&self, number: u64) -> Json {
        if self.style.exact {
            self.exact(number)
        } else {
            Json::Text(nicenum(number))
        }
    }

    pub fn time(&self, seconds: u64) -> Json {
        if self.style.exact {
            self.exact(seconds)
        } else {
            Json::Text(date(seconds, Form::Locale, self.zone))
        }
    }
}
