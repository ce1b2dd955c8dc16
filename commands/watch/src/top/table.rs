//! A screen as a table: columns with names, cells with meanings.
//!
//! The terminal, the text of `--batch` and JSON are three formats of it. So a column is declared
//! once and has the same meaning in all of them.

use cenote_words::format::harmless::harmless;
use cenote_words::format::json::{Json, Object};
use cenote_words::format::number::{nicebytes, nicenum, percent};

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The header.
    pub header: &'static str,
    /// The member in JSON.
    pub key: &'static str,
    /// The width in characters; for the first text column the minimum.
    pub width: u16,
    /// The priority in a narrow terminal: columns with lower numbers stay.
    pub rank: u8,
}

/// A column with its header, member in JSON, width and rank.
pub const fn column(header: &'static str, key: &'static str, width: u16, rank: u8) -> Column {
    Column {
        header,
        key,
        width,
        rank,
    }
}

/// How to judge a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Neutral.
    #[default]
    Plain,
    /// Well.
    Good,
    /// Needs attention.
    Warning,
    /// Needs action.
    Bad,
}

/// The contents of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A state with its tone.
    State(String, Tone),
    /// Bytes.
    Bytes(Option<u64>),
    /// Bytes in a second.
    BytesRate(Option<u64>),
    /// A number of things.
    Count(Option<u64>),
    /// Errors: 0 is good.
    Errors(u64),
    /// Nanoseconds.
    Time(Option<u64>),
    /// A part and the whole.
    Share(u64, u64),
    /// Per cent.
    Percent(Option<u64>),
}

/// A time for a narrow column: `3.2ms`.
pub fn time(nanoseconds: u64) -> String {
    let units: [(u64, &str); 4] = [
        (1, "ns"),
        (1000, "us"),
        (1_000_000, "ms"),
        (1_000_000_000, "s"),
    ];
    let fits = |(unit, _): &&(u64, &str)| nanoseconds < unit.saturating_mul(1000);
    let (unit, name) = units.iter().find(fits).unwrap_or(&units[3]);
    let whole = nanoseconds / unit;
    match whole < 10 && *unit > 1 {
        true => format!("{whole}.{}{name}", nanoseconds % unit * 10 / unit),
        false => format!("{whole}{name}"),
    }
}

impl Cell {
    /// Formatted for people.
    pub fn text(&self) -> String {
        let of = |number: &Option<u64>, form: fn(u64) -> String| match number {
            Some(number) => form(*number),
            None => "-".to_owned(),
        };
        match self {
            Self::Text(text) | Self::State(text, _) => harmless(text).replace(['\n', '\t'], " "),
            Self::Bytes(bytes) => of(bytes, nicebytes),
            Self::BytesRate(bytes) => of(bytes, nicebytes),
            Self::Count(count) => of(count, nicenum),
            Self::Errors(errors) => nicenum(*errors),
            Self::Time(time_ns) => of(time_ns, time),
            Self::Share(_, 0) => "-".to_owned(),
            Self::Share(part, total) => format!("{}%", percent(*part, *total)),
            Self::Percent(share) => of(share, |share| format!("{share}%")),
        }
    }

    /// Whether it is right aligned.
    pub fn is_number(&self) -> bool {
        !matches!(self, Self::Text(_) | Self::State(..))
    }

    /// Its tone.
    pub fn tone(&self) -> Tone {
        match self {
            Self::State(_, tone) => *tone,
            Self::Errors(1..) => Tone::Bad,
            Self::Share(part, total) => match percent(*part, *total) {
                90.. => Tone::Bad,
                80.. => Tone::Warning,
                _ => Tone::Good,
            },
            _ => Tone::Plain,
        }
    }

    /// The number by which rows are sorted.
    pub fn number(&self) -> u64 {
        match self {
            Self::Text(_) | Self::State(..) => 0,
            Self::Bytes(number)
            | Self::BytesRate(number)
            | Self::Count(number)
            | Self::Time(number)
            | Self::Percent(number) => number.unwrap_or(0),
            Self::Errors(errors) => *errors,
            Self::Share(part, total) => percent(*part, *total),
        }
    }

    /// The exact value; `None` if unknown.
    fn json(&self) -> Option<Json> {
        Some(match self {
            Self::Text(text) | Self::State(text, _) => Json::Text(text.clone()),
            Self::Bytes(number)
            | Self::BytesRate(number)
            | Self::Count(number)
            | Self::Time(number)
            | Self::Percent(number) => Json::Number((*number)?),
            Self::Errors(errors) => Json::Number(*errors),
            Self::Share(_, 0) => return None,
            Self::Share(part, total) => Json::Number(percent(*part, *total)),
        })
    }
}

/// A row.
#[derive(Clone, Debug)]
pub struct Row {
    /// Identifies the row in the next round.
    pub key: String,
    /// The pool that it belongs to.
    pub pool: String,
    /// Its depth in a tree.
    pub depth: usize,
    /// A cell for each column.
    pub cells: Vec<Cell>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// The columns.
    pub columns: &'static [Column],
    /// The rows.
    pub rows: Vec<Row>,
}

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Unsorted: by name, or the order of the tree.
    #[default]
    Name,
    /// Operations in a second.
    Operations,
    /// Bytes in a second.
    Bytes,
    /// Space.
    Space,
}

impl Sort {
    /// All orders, in the sequence through which a key steps.
    pub const ALL: [Self; 4] = [Self::Name, Self::Operations, Self::Bytes, Self::Space];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Operations => "operations",
            Self::Bytes => "bytes",
            Self::Space => "space",
        }
    }

    /// The columns whose sum is the sort key.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Name => &[],
            Self::Operations => &["reads", "writes", "requests"],
            Self::Bytes => &["read_bytes", "written_bytes"],
            Self::Space => &["used", "allocated"],
        }
    }
}

impl Table {
    /// Sorts siblings: numbers in descending order, names in ascending order.
    pub fn sort(&mut self, sort: Sort, reversed: bool) {
        let places: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .filter(|(_, column)| sort.keys().contains(&column.key))
            .map(|(place, _)| place)
            .collect();
        let weight = |row: &Row| {
            let numbers = places.iter().map(|place| row.cells[*place].number());
            numbers.fold(0_u64, u64::saturating_add)
        };
        let rows = std::mem::take(&mut self.rows);
        let mut groups = families(rows);
        sort_families(&mut groups, &|one, other| {
            let order = match sort {
                // The rows are already in order of name.
                Sort::Name => std::cmp::Ordering::Equal,
                _ => weight(other).cmp(&weight(one)),
            };
            if reversed { order.reverse() } else { order }
        });
        if sort == Sort::Name && reversed {
            reverse(&mut groups);
        }
        flatten(groups, &mut self.rows);
    }

    /// For `--batch`: a header and a line for each row, columns as wide as necessary.
    pub fn text(&self) -> String {
        let cell = |row: &Row, place: usize| {
            let indent = if place == 0 { row.depth * 2 } else { 0 };
            format!("{:indent$}{}", "", row.cells[place].text())
        };
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|place| {
                let cells = self.rows.iter().map(|row| cell(row, place).chars().count());
                let header = self.columns[place].header.chars().count();
                cells.fold(header, usize::max)
            })
            .collect();
        let is_number = |place: usize| self.rows.iter().any(|row| row.cells[place].is_number());
        let line = |cells: &mut dyn Iterator<Item = String>| {
            let mut line = String::new();
            for (place, text) in cells.enumerate() {
                let width = widths[place];
                match is_number(place) {
                    true => line.push_str(&format!("{text:>width$}  ")),
                    false => line.push_str(&format!("{text:<width$}  ")),
                }
            }
            format!("{}\n", line.trim_end())
        };
        let mut text = line(&mut self.columns.iter().map(|column| column.header.to_owned()));
        for row in &self.rows {
            text.push_str(&line(
                &mut (0..row.cells.len()).map(|place| cell(row, place)),
            ));
        }
        text
    }

    /// The rows as objects; unknown values are absent.
    pub fn json(&self) -> Json {
        let object = |row: &Row| {
            let mut object = Object::new();
            for (column, cell) in self.columns.iter().zip(&row.cells) {
                if let Some(value) = cell.json() {
                    object.put(column.key, value);
                }
            }
            if row.depth > 0 {
                object.put("depth", row.depth as u64);
            }
            Json::Object(object)
        };
        Json::List(self.rows.iter().map(object).collect())
    }
}

/// A row with its descendants.
struct Family {
    row: Row,
    children: Vec<Family>,
}

/// Converts rows in the order of a tree into that tree. A row that is too deep counts as a child of
/// the row before it.
fn families(rows: Vec<Row>) -> Vec<Family> {
    let mut open: Vec<Family> = Vec::new();
    let mut done: Vec<Family> = Vec::new();
    let close = |open: &mut Vec<Family>, done: &mut Vec<Family>, depth: usize| {
        while open.last().is_some_and(|last| last.row.depth >= depth) {
            let Some(family) = open.pop() else { break };
            match open.last_mut() {
                Some(parent) => parent.children.push(family),
                None => done.push(family),
            }
        }
    };
    for row in rows {
        close(&mut open, &mut done, row.depth);
        open.push(Family {
            row,
            children: Vec::new(),
        });
    }
    close(&mut open, &mut done, 0);
    done
}

/// Trees of vdevs are few levels deep: a root, combinations, a spare or replacement, a leaf.
fn sort_families(families: &mut [Family], order: &dyn Fn(&Row, &Row) -> std::cmp::Ordering) {
    families.sort_by(|one, other| order(&one.row, &other.row));
    for family in families {
        sort_families(&mut family.children, order);
    }
}

fn reverse(families: &mut [Family]) {
    families.reverse();
    for family in families {
        reverse(&mut family.children);
    }
}

fn flatten(families: Vec<Family>, rows: &mut Vec<Row>) {
    for family in families {
        rows.push(family.row);
        flatten(family.children, rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        column("NAME", "name", 8, 0),
        column("READS", "reads", 6, 1),
        column("USED", "used", 6, 2),
    ];

    fn table(rows: &[(&str, usize, u64)]) -> Table {
        let row = |(name, depth, reads): &(&str, usize, u64)| Row {
            key: (*name).to_owned(),
            pool: "tank".to_owned(),
            depth: *depth,
            cells: vec![
                Cell::Text((*name).to_owned()),
                Cell::Count(Some(*reads)),
                Cell::Bytes(None),
            ],
        };
        Table {
            columns: COLUMNS,
            rows: rows.iter().map(row).collect(),
        }
    }

    fn names(table: &Table) -> Vec<&str> {
        table.rows.iter().map(|row| row.key.as_str()).collect()
    }

    #[test]
    fn siblings_are_sorted_and_stay_below_their_parents() {
        let rows = [
            ("tank", 0, 9),
            ("mirror-0", 1, 3),
            ("sda", 2, 1),
            ("sdb", 2, 2),
            ("mirror-1", 1, 6),
            ("sdc", 2, 6),
        ];
        let mut sorted = table(&rows);
        sorted.sort(Sort::Operations, false);
        let expected = ["tank", "mirror-1", "sdc", "mirror-0", "sdb", "sda"];
        assert_eq!(names(&sorted), expected);
        sorted.sort(Sort::Operations, true);
        let expected = ["tank", "mirror-0", "sda", "sdb", "mirror-1", "sdc"];
        assert_eq!(names(&sorted), expected);
        let mut plain = table(&rows);
        plain.sort(Sort::Name, true);
        let expected = ["tank", "mirror-1", "sdc", "mirror-0", "sdb", "sda"];
        assert_eq!(names(&plain), expected);
    }

    #[test]
    fn text_and_json_say_the_same() {
        let table = table(&[("a\x1b[2J", 0, 2048), ("b", 1, 7)]);
        assert_eq!(
            table.text(),
            "NAME   READS  USED\na?[2J     2K     -\n  b        7     -\n"
        );
        let text = table.json().to_string();
        assert!(
            text.contains("\"reads\":2048") && !text.contains("used"),
            "{text}"
        );
    }

    #[test]
    fn times_take_few_characters() {
        let texts = [7, 999, 1500, 12_345, 1_234_567, 45_000_000, 3_200_000_000];
        let texts = texts.map(time);
        assert_eq!(
            texts,
            ["7ns", "999ns", "1.5us", "12us", "1.2ms", "45ms", "3.2s"]
        );
        assert_eq!(time(u64::MAX), "18446744073s");
    }
}
