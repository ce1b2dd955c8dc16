//! Property values, their sources and their columns.

use cenote_control::model::properties::{self, Layout, PropertyInfo, Unit};
use cenote_control::model::{Property, Source, Value};
use jiff::tz::TimeZone;

use super::date::{Form, date};
use super::json::{Json, Object};
use super::number::{nicebytes, nicenum, ratio};
use super::table::Column;

/// How to format values.
#[derive(Clone, Debug)]
pub struct Style {
    /// Exact numbers (`-p`).
    pub exact: bool,
    /// Bare integers in JSON (`--json-int`).
    pub json_int: bool,
    /// The user's time zone.
    pub zone: TimeZone,
}

/// A property to print: one of a table, or a user property.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The full name.
    pub name: String,
    /// Its entry in the table, unless it is a user property or takes an argument.
    pub info: Option<&'static PropertyInfo>,
}

impl Wanted {
    /// An entry of a table.
    pub fn of(info: &'static PropertyInfo) -> Self {
        Wanted {
            name: info.name.to_owned(),
            info: Some(info),
        }
    }

    /// A property that is in no table.
    pub fn named(name: &str) -> Self {
        Wanted {
            name: name.to_owned(),
            info: None,
        }
    }

    /// The unit of its number.
    pub fn unit(&self) -> Unit {
        match self.info {
            Some(info) => info.unit,
            None => properties::parametric_unit(&self.name).unwrap_or(Unit::Text),
        }
    }

    /// Its column in a listing.
    pub fn column(&self, exact: bool) -> Column {
        let Some(info) = self.info else {
            let parametric = properties::parametric_unit(&self.name).is_some();
            return Column {
                header: self.name.to_uppercase(),
                width_min: self.name.len(),
                measured: !parametric || exact,
                right: parametric,
            };
        };
        let measured = match info.layout {
            Layout::Measured | Layout::MeasuredNumber => true,
            Layout::Words(_) | Layout::Number(_) => exact,
        };
        Column {
            header: info.header.to_owned(),
            width_min: info.width_min(),
            measured,
            right: info.right_aligned(),
        }
    }
}

/// The formatted value.
pub fn show(value: &Value, unit: Unit, style: &Style) -> String {
    match value {
        Value::None => "-".to_owned(),
        Value::Text(text) => text.clone(),
        Value::Number(number) => show_number(*number, unit, style),
    }
}

fn show_number(number: u64, unit: Unit, style: &Style) -> String {
    let exact = style.exact || style.json_int;
    match unit {
        Unit::BytesOrDash if number == 0 => "-".to_owned(),
        Unit::Percent if number == u64::MAX => "-".to_owned(),
        Unit::LimitOrNone if number == u64::MAX => "none".to_owned(),
        Unit::TableQuota if number == u64::MAX => "auto".to_owned(),
        Unit::DateSeconds if number == 0 => "-".to_owned(),
        Unit::Ratio if exact => ratio(number),
        Unit::Ratio => format!("{}x", ratio(number)),
        Unit::Text | Unit::Exact => number.to_string(),
        _ if exact => number.to_string(),
        Unit::TableQuota | Unit::BytesOrNone if number == 0 => "none".to_owned(),
        Unit::Bytes | Unit::BytesOrNone | Unit::BytesOrDash => nicebytes(number),
        Unit::Number | Unit::LimitOrNone | Unit::TableQuota => nicenum(number),
        Unit::Percent => format!("{number}%"),
        Unit::Date => date(number, Form::Minute, &style.zone),
        Unit::DateSeconds => date(number, Form::Second, &style.zone),
    }
}

/// The formatted value of a property that may be missing.
pub fn show_property(property: Option<&Property>, wanted: &Wanted, style: &Style) -> String {
    property.map_or("-".to_owned(), |p| show(&p.value, wanted.unit(), style))
}

/// The word in column SOURCE.
pub fn source_word(source: &Source) -> String {
    match source {
        Source::None => "-".to_owned(),
        Source::Default => "default".to_owned(),
        Source::Local => "local".to_owned(),
        Source::Temporary => "temporary".to_owned(),
        Source::Received => "received".to_owned(),
        Source::Inherited(from) => format!("inherited from {from}"),
    }
}

/// A property in JSON: value and source.
pub fn json_property(property: Option<&Property>, wanted: &Wanted, style: &Style) -> Json {
    let text = show_property(property, wanted, style);
    let value = property.map(|p| &p.value);
    let json = json_value(value, &text, wanted.unit(), style);
    let source = property.map_or(&Source::None, |p| &p.source);
    json_pair(json, source)
}

/// With `--json-int`, a value that parses as an integer is one, as in the reference.
fn json_value(value: Option<&Value>, text: &str, unit: Unit, style: &Style) -> Json {
    let numeric = matches!(value, Some(Value::Number(_))) && unit != Unit::Ratio;
    match text.parse::<u64>() {
        Ok(number) if style.json_int && numeric => Json::Number(number),
        _ => Json::from(text),
    }
}

/// The pair of a value and its source.
pub fn json_pair(value: Json, source: &Source) -> Json {
    let (kind, data) = match source {
        Source::None => ("NONE", "-"),
        Source::Default => ("DEFAULT", "-"),
        Source::Local => ("LOCAL", "-"),
        Source::Temporary => ("TEMPORARY", "-"),
        Source::Received => ("RECEIVED", "-"),
        Source::Inherited(from) => ("INHERITED", from.as_str()),
    };
    let mut origin = Object::new();
    origin.put("type", kind);
    origin.put("data", data);
    let mut pair = Object::new();
    pair.put("value", value);
    pair.put("source", origin);
    pair.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(exact: bool) -> Style {
        Style {
            exact,
            json_int: false,
            zone: TimeZone::UTC,
        }
    }

    #[test]
    fn numbers_follow_their_unit() {
        let cases = [
            (Unit::Bytes, 24_576, "24K", "24576"),
            (Unit::Bytes, 0, "0B", "0"),
            (Unit::BytesOrNone, 0, "none", "0"),
            (Unit::BytesOrDash, 0, "-", "-"),
            (Unit::Number, 512, "512", "512"),
            (Unit::LimitOrNone, u64::MAX, "none", "none"),
            (Unit::LimitOrNone, 2048, "2K", "2048"),
            (Unit::Exact, 4711, "4711", "4711"),
            (Unit::Ratio, 107, "1.07x", "1.07"),
            (Unit::Percent, 12, "12%", "12"),
            (Unit::Percent, u64::MAX, "-", "-"),
            (
                Unit::Date,
                1_700_000_000,
                "Tue Nov 14 22:13 2023",
                "1700000000",
            ),
            (Unit::TableQuota, 0, "none", "0"),
            (Unit::TableQuota, u64::MAX, "auto", "auto"),
        ];
        for (unit, number, human, exact) in cases {
            let value = Value::Number(number);
            assert_eq!(show(&value, unit, &style(false)), human, "{unit:?}");
            assert_eq!(show(&value, unit, &style(true)), exact, "{unit:?} -p");
        }
        assert_eq!(show(&Value::None, Unit::Bytes, &style(false)), "-");
    }
}
