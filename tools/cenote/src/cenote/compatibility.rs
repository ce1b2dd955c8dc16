//! `cenote compatibility`: the feature sets for the pool property `compatibility`.
//!
//! The program has them built in (`ondisk::feature_sets`). Packages write them to
//! `/usr/share/zfs/compatibility.d`, where administrators and other programs expect them.

use std::path::Path;

use cenote_ondisk::feature_sets::{feature_set, feature_set_names};

use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, failed, usage};
use cenote_words::texts::question;

/// The command.
pub const COMMAND: Command = Command {
    name: "compatibility",
    summary: "Print the features that releases of OpenZFS and others know",
    synopsis: "[SET | --to DIRECTORY]",
    about: "'zpool create -o compatibility=SET' makes a pool that the releases of SET can\n\
            open. Without SET: the names of all sets. Files of your own belong into\n\
            /etc/zfs/compatibility.d, in the form that this command prints.",
    flags: flags! {
        _ "to" "DIRECTORY" "write a file for each set here";
    },
    run: Run::Asking(run),
};

/// The file of a set; `None` if the set does not exist.
fn file(name: &str) -> Option<String> {
    let mut text = format!("# Features of the set {name}, by 'cenote compatibility'.\n");
    for feature in feature_set(name)? {
        text.push_str(feature.name);
        text.push('\n');
    }
    Some(text)
}

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let directory = arguments.last("to");
    let name = match (arguments.operands.as_slice(), directory) {
        ([], Some(directory)) => return write(&context.directory.join(directory)),
        ([], None) => {
            for name in feature_set_names() {
                context.line(name);
            }
            return Ok(0);
        }
        ([name], None) => name.to_string_lossy(),
        (_, Some(_)) => return usage("--to writes all sets; leave the name out"),
        (_, None) => return usage("print one set at a time"),
    };
    match file(&name) {
        Some(text) => {
            context.print(&text);
            Ok(0)
        }
        None => failed(format!(
            "there is no set '{name}'; 'cenote compatibility' prints the names{}",
            question(&name, feature_set_names())
        )),
    }
}

fn write(directory: &Path) -> Outcome {
    let written = std::fs::create_dir_all(directory).and_then(|()| {
        let files = feature_set_names().filter_map(|name| Some((name, file(name)?)));
        files
            .into_iter()
            .try_for_each(|(name, text)| std::fs::write(directory.join(name), text))
    });
    match written {
        Ok(()) => Ok(0),
        Err(error) => failed(format!(
            "cannot write to {}: {error}; choose another directory",
            directory.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine can read the files: one name per line, comments after `#`.
    #[test]
    fn each_set_has_a_file_with_the_names_of_its_features() {
        let place = tempfile::tempdir().expect("a directory");
        assert!(matches!(write(place.path()), Ok(0)));
        for name in feature_set_names() {
            let text = std::fs::read_to_string(place.path().join(name)).expect("a file");
            let names: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
            let features = feature_set(name).expect("a set");
            let known: Vec<&str> = features.iter().map(|feature| feature.name).collect();
            assert_eq!(names, known, "{name}");
            assert!(text.ends_with('\n'), "{name}");
        }
        assert_eq!(file("openzfs-0.1"), None);
    }
}
