//! The pages about configuration files.

use super::examples;
use super::page::Page;
use super::roff::Roff;
use crate::format::number::nicebytes;
use cenote_base::settings::{self, SettingState, Unit};

const SECTION: u8 = 5;

/// All of them.
pub fn pages() -> Vec<Page> {
    vec![of_settings()]
}

fn of_settings() -> Page {
    let mut roff = Roff::new("cenote-settings", SECTION, "settings of the daemon");
    roff.section("DESCRIPTION");
    roff.prose(
        "The daemon reads settings when it starts: from /etc/modprobe.d/zfs.conf, which a system\n\
         with OpenZFS has already, and then from /etc/cenote/settings.conf. A line:\n\
         \n\
         \x20 options zfs zfs_arc_max=4G zfs_txg_timeout=10\n\
         \n\
         Settings have the names of OpenZFS's module parameters. Bytes may have a unit: K, M, G,\n\
         T. 'cenote settings' shows and changes the settings of a running daemon.",
    );
    roff.section("SETTINGS");
    for setting in settings::list()
        .iter()
        .filter(|setting| setting.has_effect())
    {
        roff.entry(setting.name, &explained(setting));
    }
    examples::section(&mut roff, "cenote-settings(5)");
    roff.see_also(&[
        ("cenote-settings".to_owned(), 1),
        ("cenote-daemon".to_owned(), 1),
    ]);
    Page {
        name: "cenote-settings".to_owned(),
        section: SECTION,
        text: roff.finish(),
    }
}

/// What a setting does, its default and its range.
fn explained(setting: &SettingState) -> String {
    let number = |value: u64| match setting.unit {
        Unit::Bytes => nicebytes(value),
        _ => value.to_string(),
    };
    let default = setting.default.parse().map_or(String::new(), number);
    let [least, most] = setting.range.unwrap_or_default().map(number);
    let effect = setting.effect.trim_end_matches('.');
    let unit = setting.unit.name();
    format!("{effect}.\nUnit {unit}; default {default}; {least} to {most}.")
}
