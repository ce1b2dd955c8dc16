//! Settings that an administrator may change while pools are open.
//!
//! They have the names of OpenZFS's module parameters, because administrators and their
//! configuration files use those. As in OpenZFS, a setting holds for the whole process and all of
//! its pools. Code reads a setting each time it needs it, so a new value applies at once. A read
//! costs as much as one of an atomic number. Threads of another world than the default one
//! ([`crate::rt::World`]) see the settings of their world.
//!
//! One table has all of them, with unit, range, default and effect: the command that lists them
//! and the handbook are made from it. A name that means nothing here, because what it tunes does
//! not exist or is done in another way, is in the table too, with the reason: its value is
//! accepted and kept, so that a file for OpenZFS needs no changes. Any other name is an error
//! that says which names are near.
//!
//! Deliberately absent: settings of one pool. Those are its properties.

mod file;
mod memory;
mod number;
mod table;
#[cfg(test)]
mod tests;
mod unit;
mod unused;

pub use file::{FileError, parse_file};
pub use memory::{
    arc_bytes_max, arc_bytes_min, dirty_bytes_max, free_bytes_min, is_memory_short, memory_bytes,
    set_memory_bytes, set_memory_short, taken,
};
pub use table::*;
pub use unit::Unit;

use crate::rt::ranks::UnusedSettings;
use crate::rt::{Mutex, with_world_settings};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// A setting with an effect.
#[derive(Debug)]
pub struct Setting {
    /// OpenZFS's name.
    pub name: &'static str,
    /// What the number counts.
    pub unit: Unit,
    /// The value that holds unless another is set.
    pub default: u64,
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
    /// What it does, in one sentence.
    pub effect: &'static str,
    value: AtomicU64,
}

impl Setting {
    pub(crate) const fn new(
        name: &'static str,
        unit: Unit,
        [default, min, max]: [u64; 3],
        effect: &'static str,
    ) -> Self {
        assert!(
            min <= default && default <= max,
            "a default within its range"
        );
        Self {
            name,
            unit,
            default,
            min,
            max,
            effect,
            value: AtomicU64::new(default),
        }
    }

    /// The value in force.
    pub fn get(&self) -> u64 {
        let of_world = with_world_settings(|world| world.numbers.get(self.name).copied());
        match of_world {
            None => self.value.load(Ordering::Relaxed),
            Some(value) => value.unwrap_or(self.default),
        }
    }

    /// The value of a switch.
    pub fn is_on(&self) -> bool {
        self.get() != 0
    }

    /// Sets the value.
    ///
    /// # Errors
    /// [`SettingError::OutOfRange`].
    pub fn set(&self, value: u64) -> Result<(), SettingError> {
        self.check(value)?;
        self.store(value);
        Ok(())
    }

    fn store(&self, value: u64) {
        let of_world = with_world_settings(|world| {
            world.numbers.insert(self.name, value);
        });
        if of_world.is_none() {
            self.value.store(value, Ordering::Relaxed);
        }
    }

    fn check(&self, value: u64) -> Result<(), SettingError> {
        if (self.min..=self.max).contains(&value) {
            return Ok(());
        }
        Err(SettingError::OutOfRange {
            name: self.name,
            value,
            min: self.min,
            max: self.max,
        })
    }

    /// Sets the default again.
    pub fn reset(&self) {
        self.store(self.default);
    }
}

/// A value cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is no such name.
    #[error("there is no setting '{name}'{}", hint(.near))]
    Unknown {
        /// The name.
        name: String,
        /// Names that are like it.
        near: Vec<&'static str>,
    },
    /// The value is not a number.
    #[error("{name}: '{text}' is not a number")]
    NotNumber {
        /// The setting.
        name: &'static str,
        /// What was given.
        text: String,
    },
    /// The number is too small or too large.
    #[error("{name}: {value} is not between {min} and {max}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// What was given.
        value: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// An ignored setting's value is too long to keep.
    #[error("{name}: the value has more than {VALUE_LENGTH_MAX} bytes")]
    TooLong {
        /// The setting.
        name: &'static str,
    },
}

fn hint(near: &[&'static str]) -> String {
    crate::question(near).map_or(String::new(), |question| format!("; {question}"))
}

/// The longest value that is kept of a setting without meaning.
pub const VALUE_LENGTH_MAX: usize = 256;

/// A setting as it is now, for people and programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingState {
    /// The name.
    pub name: &'static str,
    /// The value; of one without meaning, the text that was given, if any.
    pub value: String,
    /// The default; empty for one without meaning.
    pub default: String,
    /// What the number counts.
    pub unit: Unit,
    /// The range; `None` for one without meaning.
    pub range: Option<[u64; 2]>,
    /// The effect, or why there is none.
    pub effect: &'static str,
}

impl SettingState {
    /// Whether the setting changes anything.
    pub fn has_effect(&self) -> bool {
        self.range.is_some()
    }
}

/// Values given to settings without meaning.
static UNUSED_VALUES: Mutex<UnusedValues, UnusedSettings> = Mutex::new(BTreeMap::new());

type UnusedValues = BTreeMap<&'static str, String>;

fn with_unused_values<T>(work: impl Fn(&mut UnusedValues) -> T) -> T {
    let of_world = with_world_settings(|world| work(&mut world.texts));
    of_world.unwrap_or_else(|| work(&mut UNUSED_VALUES.lock()))
}

/// One of the two sorts.
#[derive(Clone, Copy, Debug)]
enum Found {
    Meaningful(&'static Setting),
    Unused(&'static str, &'static str),
}

impl Found {
    fn state(self) -> SettingState {
        match self {
            Self::Meaningful(setting) => SettingState {
                name: setting.name,
                value: setting.get().to_string(),
                default: setting.default.to_string(),
                unit: setting.unit,
                range: Some([setting.min, setting.max]),
                effect: setting.effect,
            },
            Self::Unused(name, reason) => SettingState {
                name,
                value: with_unused_values(|values| values.get(name).cloned()).unwrap_or_default(),
                default: String::new(),
                unit: Unit::Any,
                range: None,
                effect: reason,
            },
        }
    }
}

fn all() -> impl Iterator<Item = Found> {
    let meaningful = TABLE.iter().map(|setting| Found::Meaningful(setting));
    let unused = unused::UNUSED.iter().flat_map(|(reason, names)| {
        let found = |name: &&'static str| Found::Unused(name, reason);
        names.iter().map(found)
    });
    meaningful.chain(unused)
}

fn name_of(found: &Found) -> &'static str {
    match found {
        Found::Meaningful(setting) => setting.name,
        Found::Unused(name, _) => name,
    }
}

fn find(name: &str) -> Result<Found, SettingError> {
    let found = all().find(|found| name_of(found) == name);
    found.ok_or_else(|| SettingError::Unknown {
        name: name.chars().take(VALUE_LENGTH_MAX).collect(),
        near: crate::nearest(name, all().map(|found| name_of(&found))),
    })
}

/// The setting of that name.
///
/// # Errors
/// [`SettingError::Unknown`].
pub fn get(name: &str) -> Result<SettingState, SettingError> {
    find(name).map(Found::state)
}

/// All settings, in order of names.
pub fn list() -> Vec<SettingState> {
    let mut states: Vec<_> = all().map(Found::state).collect();
    states.sort_unstable_by_key(|state| state.name);
    states
}

/// A value that was checked and can be set.
#[derive(Clone, Debug)]
pub struct Assignment {
    found: Found,
    /// `None` for the default.
    value: Option<Value>,
}

#[derive(Clone, Debug)]
enum Value {
    Number(u64),
    Text(String),
}

impl Assignment {
    /// Checks `text` as the value of `name`; "default" is the default.
    ///
    /// # Errors
    /// Any [`SettingError`].
    pub fn new(name: &str, text: &str) -> Result<Self, SettingError> {
        let found = find(name)?;
        if text == "default" {
            return Ok(Self { found, value: None });
        }
        let value = match found {
            Found::Meaningful(setting) => {
                let number = number::parse(text, setting.unit);
                let number = number.ok_or_else(|| SettingError::NotNumber {
                    name: setting.name,
                    text: text.chars().take(VALUE_LENGTH_MAX).collect(),
                })?;
                setting.check(number)?;
                Value::Number(number)
            }
            Found::Unused(name, _) if text.len() > VALUE_LENGTH_MAX => {
                return Err(SettingError::TooLong { name });
            }
            Found::Unused(..) => Value::Text(text.to_owned()),
        };
        let value = Some(value);
        Ok(Self { found, value })
    }

    /// The setting's name.
    pub fn name(&self) -> &'static str {
        name_of(&self.found)
    }

    /// Why setting it changes nothing, if so.
    pub fn note(&self) -> Option<&'static str> {
        match self.found {
            Found::Meaningful(_) => None,
            Found::Unused(_, reason) => Some(reason),
        }
    }

    /// Sets the value; returns the setting as it is then.
    pub fn apply(self) -> SettingState {
        match (self.found, self.value) {
            (Found::Meaningful(setting), Some(Value::Number(number))) => {
                setting.store(number);
            }
            (Found::Meaningful(setting), _) => setting.reset(),
            (Found::Unused(name, _), Some(Value::Text(text))) => {
                with_unused_values(|values| values.insert(name, text.clone()));
            }
            (Found::Unused(name, _), _) => {
                with_unused_values(|values| values.remove(name));
            }
        }
        self.found.state()
    }
}
