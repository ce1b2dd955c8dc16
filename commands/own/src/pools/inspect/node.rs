//! A value to print: as JSON, or as indented text, with its members in the order of the format.

use crate::reading::output::{base64, escaped};
use cenote_ondisk::{NvList, NvValue};
use serde_json::{Map, Value, json};

/// Nested lists and maps deeper than this are cut: the decoders allow 20.
const DEPTH_MAX: usize = 32;
/// How many bytes of an array are printed as text; JSON has all.
const BYTES_SHOWN: usize = 32;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// Only its name.
    Present,
    /// A number.
    Number(u64),
    /// A number that may be negative.
    Signed(i64),
    /// Words.
    Text(String),
    /// Text from a disk, which may be any bytes.
    Name(Vec<u8>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Yes or no.
    Bool(bool),
    /// Several.
    List(Vec<Node>),
    /// Named members, in order.
    Map(Vec<(String, Node)>),
}

impl From<u64> for Node {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Node {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Node {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<Vec<Node>> for Node {
    fn from(list: Vec<Node>) -> Self {
        Self::List(list)
    }
}

/// A map under construction.
#[derive(Clone, Debug, Default)]
pub struct Members(Vec<(String, Node)>);

impl Members {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a member.
    pub fn put(&mut self, name: &str, value: impl Into<Node>) -> &mut Self {
        self.0.push((name.to_owned(), value.into()));
        self
    }

    /// Moves all members of `other` behind these.
    pub fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    /// Adds a member if there is a value.
    pub fn put_some(&mut self, name: &str, value: Option<impl Into<Node>>) -> &mut Self {
        if let Some(value) = value {
            self.put(name, value);
        }
        self
    }
}

impl From<Members> for Node {
    fn from(members: Members) -> Self {
        Self::Map(members.0)
    }
}

impl From<&NvList> for Node {
    fn from(list: &NvList) -> Self {
        Self::of_list(list, 0)
    }
}

impl Node {
    fn of_list(list: &NvList, depth: usize) -> Self {
        if depth >= DEPTH_MAX {
            return Self::Text("...".into());
        }
        let member =
            |(name, value): (&[u8], &NvValue)| (escaped(name), Self::of_value(value, depth + 1));
        Self::Map(list.iter().map(member).collect())
    }

    fn of_value(value: &NvValue, depth: usize) -> Self {
        fn signed<T: Copy + Into<i64>>(values: &[T]) -> Node {
            Node::List(values.iter().map(|v| Node::Signed((*v).into())).collect())
        }
        fn unsigned<T: Copy + Into<u64>>(values: &[T]) -> Node {
            Node::List(values.iter().map(|v| Node::Number((*v).into())).collect())
        }
        match value {
            NvValue::Boolean => Self::Present,
            NvValue::Byte(v) | NvValue::Uint8(v) => Self::Number((*v).into()),
            NvValue::Uint16(v) => Self::Number((*v).into()),
            NvValue::Uint32(v) => Self::Number((*v).into()),
            NvValue::Uint64(v) => Self::Number(*v),
            NvValue::Int8(v) => Self::Signed((*v).into()),
            NvValue::Int16(v) => Self::Signed((*v).into()),
            NvValue::Int32(v) => Self::Signed((*v).into()),
            NvValue::Int64(v) | NvValue::HrTime(v) => Self::Signed(*v),
            NvValue::Double(bits) => Self::Text(f64::from_bits(*bits).to_string()),
            NvValue::BooleanValue(v) => Self::Bool(*v),
            NvValue::String(v) => Self::Name(v.clone()),
            NvValue::ByteArray(v) | NvValue::Uint8Array(v) => Self::Bytes(v.clone()),
            NvValue::Int8Array(v) => signed(v),
            NvValue::Int16Array(v) => signed(v),
            NvValue::Int32Array(v) => signed(v),
            NvValue::Int64Array(v) => signed(v),
            NvValue::Uint16Array(v) => unsigned(v),
            NvValue::Uint32Array(v) => unsigned(v),
            NvValue::Uint64Array(v) => unsigned(v),
            NvValue::BooleanArray(v) => Self::List(v.iter().map(|v| Self::Bool(*v)).collect()),
            NvValue::StringArray(v) => {
                Self::List(v.iter().map(|v| Self::Name(v.clone())).collect())
            }
            NvValue::List(list) => Self::of_list(list, depth),
            NvValue::ListArray(lists) => Self::List(
                lists
                    .iter()
                    .map(|list| Self::of_list(list, depth))
                    .collect(),
            ),
        }
    }

    /// As JSON. Bytes and names that are not UTF-8 are `{"b64": …}`.
    pub fn json(&self) -> Value {
        match self {
            Self::Present | Self::Bool(true) => true.into(),
            Self::Bool(false) => false.into(),
            Self::Number(number) => (*number).into(),
            Self::Signed(number) => (*number).into(),
            Self::Text(text) => text.as_str().into(),
            Self::Name(name) => crate::reading::output::json_bytes(name),
            Self::Bytes(bytes) => json!({"b64": base64(bytes)}),
            Self::List(list) => list.iter().map(Self::json).collect(),
            Self::Map(members) => {
                let member = |(name, value): &(String, Self)| (name.clone(), value.json());
                Value::Object(members.iter().map(member).collect::<Map<_, _>>())
            }
        }
    }

    /// The value on one line, if it is no map and holds none.
    fn inline(&self) -> Option<String> {
        Some(match self {
            Self::Present => String::new(),
            Self::Bool(true) => "yes".into(),
            Self::Bool(false) => "no".into(),
            Self::Number(number) => number.to_string(),
            Self::Signed(number) => number.to_string(),
            Self::Text(text) => escaped(text.as_bytes()),
            Self::Name(name) => format!("'{}'", escaped(name)),
            Self::Bytes(bytes) => {
                let shown = bytes.get(..BYTES_SHOWN).unwrap_or(bytes);
                let more = if bytes.len() > shown.len() { "..." } else { "" };
                let hex = crate::reading::output::hex(shown);
                format!("{hex}{more} ({} bytes)", bytes.len())
            }
            Self::List(list) => {
                let items: Option<Vec<String>> = list.iter().map(Self::inline).collect();
                format!("[{}]", items?.join(", "))
            }
            Self::Map(_) => return None,
        })
    }

    /// The value as indented lines.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.push_text(0, &mut text);
        text
    }

    fn push_text(&self, indent: usize, text: &mut String) {
        let pad = "    ".repeat(indent);
        match (self.inline(), self) {
            (Some(line), _) => {
                text.push_str(&pad);
                text.push_str(&line);
                text.push('\n');
            }
            (None, Self::Map(members)) => {
                for (name, value) in members {
                    value.push_member(name, indent, text);
                }
            }
            (None, Self::List(list)) => {
                for (index, value) in list.iter().enumerate() {
                    value.push_member(&format!("[{index}]"), indent, text);
                }
            }
            (None, _) => unreachable!("all others have a line"),
        }
    }

    fn push_member(&self, name: &str, indent: usize, text: &mut String) {
        let pad = "    ".repeat(indent);
        match self.inline() {
            Some(line) if line.is_empty() => text.push_str(&format!("{pad}{name}\n")),
            Some(line) => text.push_str(&format!("{pad}{name}: {line}\n")),
            None => {
                text.push_str(&format!("{pad}{name}:\n"));
                self.push_text(indent + 1, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order_and_types() {
        let mut inner = NvList::new();
        inner.set_str("path", "/dev/sd\u{1b}a");
        let mut list = NvList::new();
        list.set_u64("version", 5000);
        list.set("on", NvValue::Boolean);
        list.set("children", NvValue::ListArray(vec![inner]));
        list.set("holes", NvValue::Uint64Array(vec![1, 2]));
        let node = Node::from(&list);
        let text = "version: 5000\non\nchildren:\n    [0]:\n        path: '/dev/sd\\x1ba'\n\
                    holes: [1, 2]\n";
        assert_eq!(node.text(), text);
        let wanted = json!({
            "version": 5000, "on": true, "children": [{"path": "/dev/sd\u{1b}a"}], "holes": [1, 2]
        });
        assert_eq!(node.json(), wanted);
    }

    #[test]
    fn long_bytes_are_cut_for_people_only() {
        let node = Node::Bytes(vec![0xab; 40]);
        assert!(node.text().ends_with("... (40 bytes)\n"));
        assert_eq!(node.json()["b64"].as_str().map(str::len), Some(56));
    }
}
