//! Settings, read and set while the daemon runs.

use crate::context::Context;
use cenote_base::settings::{self, Assignment, SettingError, SettingState};
use cenote_control::model::{ControlError, Response, SettingRow};

/// More names than there are settings are a mistake.
const NAMES_MAX: usize = 1024;

fn row(state: SettingState) -> SettingRow {
    SettingRow {
        name: state.name.to_owned(),
        value: state.value,
        default: state.default,
        unit: state.unit.name().to_owned(),
        range: state.range,
        effect: state.effect.to_owned(),
        taken: settings::taken(state.name),
    }
}

fn bad_value(name: &str, error: &SettingError) -> ControlError {
    ControlError::BadValue {
        name: name.to_owned(),
        reason: error.to_string(),
    }
}

fn check_count(count: usize) -> Result<(), ControlError> {
    match count {
        0..=NAMES_MAX => Ok(()),
        _ => Err(ControlError::BadValue {
            name: "settings".to_owned(),
            reason: format!("{count} names are more than there are settings"),
        }),
    }
}

/// The named settings, or all.
///
/// # Errors
/// [`ControlError::BadValue`] for the first name that there is not.
pub fn settings_list(names: &[String]) -> Result<Vec<SettingRow>, ControlError> {
    check_count(names.len())?;
    if names.is_empty() {
        return Ok(settings::list().into_iter().map(row).collect());
    }
    let get = |name: &String| settings::get(name).map_err(|error| bad_value(name, &error));
    names.iter().map(|name| get(name).map(row)).collect()
}

/// Sets all of these or, if one cannot be, none.
pub(crate) fn settings_set(
    context: &Context,
    values: &[(String, String)],
) -> Result<Response, ControlError> {
    check_count(values.len())?;
    let check = |(name, value): &(String, String)| {
        Assignment::new(name, value).map_err(|error| bad_value(name, &error))
    };
    let checked: Vec<Assignment> = values.iter().map(check).collect::<Result<_, _>>()?;
    let states = checked.into_iter().map(Assignment::apply);
    let settings = states.map(row).collect();
    context.memory.apply_settings(&context.registry.all());
    Ok(Response::Settings { settings })
}
