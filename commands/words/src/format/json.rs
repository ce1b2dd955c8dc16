//! JSON on one line. Keys keep their order, because OpenZFS's order is part of its output.

use std::fmt::Write;

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// An integer.
    Number(u64),
    /// A string.
    Text(String),
    /// `true` or `false`.
    Bool(bool),
    /// An array.
    List(Vec<Json>),
    /// An object, in order.
    Object(Object),
}

/// An object under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object(Vec<(String, Json)>);

impl Object {
    /// An empty object.
    pub fn new() -> Self {
        Object::default()
    }

    /// Adds a member.
    pub fn put(&mut self, key: &str, value: impl Into<Json>) {
        self.0.push((key.to_owned(), value.into()));
    }

    /// Adds all members of `other` except `key`.
    pub fn extend_without(&mut self, key: &str, other: Object) {
        self.0
            .extend(other.0.into_iter().filter(|(name, _)| name != key));
    }

    /// Adds all members of `other`.
    pub fn append(&mut self, other: Object) {
        self.0.extend(other.0);
    }

    /// Replaces the value of the member `key`, if it exists.
    pub fn replace(&mut self, key: &str, value: impl Into<Json>) {
        if let Some((_, old)) = self.0.iter_mut().find(|(name, _)| name == key) {
            *old = value.into();
        }
    }

    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<u64> for Json {
    fn from(number: u64) -> Self {
        Json::Number(number)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Json::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Json::Text(text)
    }
}

impl From<Object> for Json {
    fn from(object: Object) -> Self {
        Json::Object(object)
    }
}

impl From<Vec<Json>> for Json {
    fn from(list: Vec<Json>) -> Self {
        Json::List(list)
    }
}

impl From<bool> for Json {
    fn from(truth: bool) -> Self {
        Json::Bool(truth)
    }
}

impl std::fmt::Display for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Json::Number(number) => write!(f, "{number}"),
            Json::Bool(truth) => write!(f, "{truth}"),
            Json::Text(text) => quote(text, f),
            Json::List(list) => {
                f.write_char('[')?;
                for (index, item) in list.iter().enumerate() {
                    if index > 0 {
                        f.write_char(',')?;
                    }
                    item.fmt(f)?;
                }
                f.write_char(']')
            }
            Json::Object(object) => {
                f.write_char('{')?;
                for (index, (key, value)) in object.0.iter().enumerate() {
                    if index > 0 {
                        f.write_char(',')?;
                    }
                    quote(key, f)?;
                    f.write_char(':')?;
                    value.fmt(f)?;
                }
                f.write_char('}')
            }
        }
    }
}

fn quote(text: &str, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            '\u{8}' => f.write_str("\\b")?,
            '\u{c}' => f.write_str("\\f")?,
            c if c < ' ' => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// The document of a command: its version header, then its data under `key`.
pub fn document(command: &str, key: &str, data: impl Into<Json>) -> Json {
    let mut version = Object::new();
    version.put("command", command);
    version.put("vers_major", 0);
    version.put("vers_minor", 1);
    let mut top = Object::new();
    top.put("output_version", version);
    top.put(key, data);
    top.into()
}

/// A number as a string, or bare with `--json-int`.
pub fn number(number: u64, bare: bool) -> Json {
    if bare {
        Json::Number(number)
    } else {
        Json::Text(number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_text_is_escaped() {
        let mut object = Object::new();
        object.put("z", 1);
        object.put("a", "tab\there \"and\" \u{1} ü");
        object.put("list", vec![Json::from("x"), Json::Bool(true)]);
        let text = Json::from(object).to_string();
        let expected = "{\"z\":1,\"a\":\"tab\\there \\\"and\\\" \\u0001 ü\",\"list\":[\"x\",true]}";
        assert_eq!(text, expected);
        serde_json::from_str::<serde_json::Value>(&text).expect("valid JSON");
    }
}
