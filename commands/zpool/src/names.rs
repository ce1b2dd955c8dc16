//! Parsing that several subcommands share.

use cenote_control::model::VdevNaming;
use cenote_control::model::properties::{self, POOL};

use cenote_words::context::{Context, Stop, usage};
use cenote_words::format::property::{Style, Wanted};
use cenote_words::getopt::Parsed;
use cenote_words::texts::check_pool_name;

/// `all` ends before this property.
const FIRST_HIDDEN: &str = "maxblocksize";

/// How to name vdevs, from options and environment.
pub fn naming(parsed: &Parsed, context: &Context) -> VdevNaming {
    let set = |name: &str| {
        let value = (context.variable)(name);
        value.is_some_and(|v| !v.is_empty() && v != "0" && !v.eq_ignore_ascii_case("no"))
    };
    VdevNaming {
        guid: parsed.has("g") || set("ZPOOL_VDEV_NAME_GUID"),
        follow_links: parsed.has("L") || set("ZPOOL_VDEV_NAME_FOLLOW_LINKS"),
        full_path: parsed.has("P") || set("ZPOOL_VDEV_NAME_PATH"),
    }
}

/// How to format values.
pub fn style(parsed: &Parsed, context: &Context) -> Style {
    Style {
        exact: parsed.has("p") || parsed.has("json-int"),
        json_int: parsed.has("json-int"),
        zone: context.zone.clone(),
    }
}

/// `--json-int` and the like require `-j`.
pub fn check_json(parsed: &Parsed) -> Result<(), Stop> {
    let needs = ["json-int", "json-flat-vdevs", "json-pool-key-guid"];
    for name in needs {
        if parsed.has(name) && !parsed.has("j") {
            return usage(format!("'--{name}' only works with '-j' option"));
        }
    }
    Ok(())
}

/// Parses a list of pool properties; `all` means those that `zpool get all` shows.
pub fn pool_properties(list: &str) -> Result<Vec<Wanted>, Stop> {
    if list.is_empty() {
        return usage("bad property list: no properties specified");
    }
    if list == "all" {
        let stored = POOL.iter().take_while(|info| info.name != FIRST_HIDDEN);
        let features = cenote_words::FEATURES.iter();
        let features = features.map(|name| Wanted::named(&format!("feature@{name}")));
        return Ok(stored.map(Wanted::of).chain(features).collect());
    }
    let mut wanted = Vec::new();
    for name in list.split(',') {
        wanted.push(pool_property(name)?);
    }
    Ok(wanted)
}

fn pool_property(name: &str) -> Result<Wanted, Stop> {
    if let Some(info) = properties::find(POOL, name) {
        return Ok(Wanted::of(info));
    }
    if let Some(feature) = name.strip_prefix("feature@")
        && !cenote_words::FEATURES.contains(&feature)
    {
        let features = cenote_words::FEATURES.iter().copied();
        let near = cenote_words::texts::question(feature, features);
        if !near.is_empty() {
            return usage(format!(
                "bad property list: invalid property '{name}'{near}"
            ));
        }
    }
    let special = name.starts_with("feature@") || name.starts_with("unsupported@");
    if special || properties::is_user_property(name) {
        return Ok(Wanted::named(name));
    }
    let question = cenote_words::texts::property_question(name, POOL);
    usage(format!(
        "bad property list: invalid property '{name}'{question}"
    ))
}

/// When to repeat a report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Schedule {
    /// Seconds between reports; 0 means once.
    pub interval: f64,
    /// How many; 0 means without end.
    pub count: u64,
    /// The stamp before each report: `u` or `d`.
    pub stamp: Option<char>,
}

impl Schedule {
    /// Takes `[interval [count]]` off the end of the operands, and `-T`.
    pub fn take(parsed: &mut Parsed) -> Result<Self, Stop> {
        let mut schedule = Schedule {
            stamp: stamp(parsed)?,
            ..Schedule::default()
        };
        let number = |word: Option<&String>| word.and_then(|w| w.parse::<f64>().ok());
        let Some(last) = number(parsed.operands.last()) else {
            return Ok(schedule);
        };
        parsed.operands.pop();
        schedule.interval = last;
        if let Some(interval) = number(parsed.operands.last()) {
            parsed.operands.pop();
            schedule.interval = interval;
            schedule.count = last as u64;
            if last < 1.0 {
                return usage("count must be >= 1");
            }
        }
        if !(schedule.interval > 0.0 && schedule.interval < 1e9) {
            return usage("interval cannot be zero");
        }
        Ok(schedule)
    }

    /// Whether there is more than one report.
    pub fn repeats(&self) -> bool {
        self.interval != 0.0 && self.count != 1
    }

    /// Prints the stamp before a report.
    pub fn print_stamp(self, context: &mut Context) {
        match self.stamp {
            Some('u') => context.line(&now(context).to_string()),
            Some(_) => {
                let form = cenote_words::format::date::Form::Locale;
                let stamp = cenote_words::format::date::date(now(context), form, &context.zone);
                context.line(&stamp);
            }
            None => {}
        }
    }

    /// Runs `report` as often as scheduled, with the number of the report as argument.
    pub fn repeat(
        self,
        context: &mut Context,
        report: &mut dyn FnMut(&mut Context, u64) -> u8,
    ) -> u8 {
        let mut worst = 0;
        for number in 0.. {
            self.print_stamp(context);
            worst = worst.max(report(context, number));
            let last = self.interval == 0.0 || number + 1 == self.count;
            context.flush();
            if last || context.output_gone() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_secs_f64(self.interval));
            context.now = now(context);
        }
        worst
    }
}

/// The time stamp format of `-T`.
pub fn stamp(parsed: &Parsed) -> Result<Option<char>, Stop> {
    match parsed.last("T") {
        None => Ok(None),
        Some("u") => Ok(Some('u')),
        Some("d") => Ok(Some('d')),
        Some(_) => usage(""),
    }
}

fn now(context: &Context) -> u64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(context.now, |time| time.as_secs())
}

/// Reports operands that cannot be pool names; returns the others without duplicates.
pub fn names_to_ask(operands: &[String], context: &mut Context) -> (Vec<String>, bool) {
    let mut names: Vec<String> = Vec::new();
    let mut bad = false;
    for operand in operands {
        if let Err(reason) = check_pool_name(operand) {
            context.complain(&format!("cannot open '{operand}': {reason}"));
            bad = true;
        } else if !names.contains(operand) {
            names.push(operand.clone());
        }
    }
    (names, bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(words: &[&str]) -> (Schedule, Vec<String>) {
        let mut parsed = Parsed::default();
        parsed.operands = words.iter().map(|&word| word.to_owned()).collect();
        let schedule = Schedule::take(&mut parsed).expect("valid");
        (schedule, parsed.operands)
    }

    #[test]
    fn numbers_at_the_end_are_the_schedule() {
        let (schedule, pools) = take(&["tank", "0.5", "3"]);
        assert_eq!((schedule.interval, schedule.count), (0.5, 3));
        assert_eq!(pools, ["tank"]);
        let (schedule, pools) = take(&["5"]);
        assert_eq!((schedule.interval, schedule.count), (5.0, 0));
        assert!(pools.is_empty());
        assert_eq!(take(&["tank"]).0, Schedule::default());
    }
}
