//! The description of `zed`: its options, its usage, its manual page.

use crate::place::MACHINE_DIRECTORY;
use cenote_words::command::{Flag, Other, flags};
use cenote_words::manual::{Page, Roff, examples_section, exit_status, options};
use cenote_words::program::{Topic, topic};

/// Its manual section.
const SECTION: u8 = 8;

/// Its name.
pub const NAME: &str = "zed";

/// The description.
pub const OTHER: Other = Other {
    name: NAME,
    alias: "",
    topics: TOPICS,
    page,
};

/// Its options.
pub(crate) const FLAGS: &[Flag] = flags! {
    'd' "" "DIRECTORY" "Run the programs of this directory; default /etc/zfs/zed.d";
    'F' "" _ "Stay in the foreground; this option is required";
    'j' "" "JOBS" "Run at most so many programs at a time; default 16";
    'p' "" "FILE" "Write the id of the process to this file";
    'P' "" "PATH" "The PATH of the programs";
    's' "" "FILE" "Note in this file which events were handled; default /run/zed.state";
    'v' "" _ "Report each program that ran";
    'V' "" _ "Print the version";
    'Z' "" _ "Handle all events that the daemon still has, also those handled before";
};

/// Its forms.
const TOPICS: &[Topic] = &[topic(
    NAME,
    &[
        "zed -F [-vZ] [-d DIRECTORY] [-j JOBS] [-p FILE] [-P PATH] [-s FILE]",
        "zed -V",
    ],
    "Run the programs of a directory for events of pools",
    "",
    FLAGS,
)];

/// Why an option of OpenZFS's command is not possible here.
pub(crate) fn refused_option(letter: &str) -> Option<&'static str> {
    Some(match letter {
        "f" => "-f is not possible here: programs that others may write are never run",
        "M" => "-M is not possible here: memory is not locked",
        "b" => "-b is not possible here: 'cenote settings set zfs_zevent_len_max=NUMBER' does this",
        "I" => "-I is not needed: zed always waits for a daemon",
        "L" => "-L is not possible here: the package has the licenses",
        _ => return None,
    })
}

/// Printed for a wrong command line, and for `-h`.
pub(crate) fn synopsis() -> String {
    TOPICS[0].usage()
}

/// Its manual page.
fn page() -> Page {
    let mut roff = Roff::new(NAME, SECTION, "run programs for events of pools");
    roff.section("SYNOPSIS");
    roff.lines(TOPICS[0].synopsis.iter().copied());
    roff.section("DESCRIPTION");
    roff.prose(&format!(
        "Programs that run for events of pools are called zedlets. The Cenote daemon runs those of \
         {MACHINE_DIRECTORY} itself: zed is not needed for them. zed runs the zedlets of another \
         directory, in the foreground, and prints messages on its standard error. It follows the \
         daemon of $CENOTE_SOCKET, also when another daemon takes its place. While there is none, \
         it waits.\n\
         \n\
         A zedlet is an executable file whose name begins with the class of the event, or with \
         the last part of the class, or with 'all'; no letter may follow. Class and fields of \
         events are what 'zpool events -v' prints. The file and its directory must belong to root \
         or to the user of the process, and other users may not write them.\n\
         \n\
         The directory is read for each event. A zedlet is killed after 5 minutes."
    ));
    options(&mut roff, "OPTIONS", FLAGS);
    roff.section("ENVIRONMENT");
    roff.prose(
        "Zedlets get these variables and no others. Each field of the event is a variable: \
         ZEVENT_ and the name in uppercase, with an underscore for other characters than letters \
         and digits.",
    );
    for (name, text) in VARIABLES {
        roff.entry(name, text);
    }
    roff.section("SIGNALS");
    roff.entry(
        "SIGTERM, SIGINT",
        "End. Zedlets have 10 seconds to end, too.",
    );
    roff.entry(
        "SIGHUP",
        "Nothing: the directory is read for each event anyway.",
    );
    exit_status(
        &mut roff,
        &[
            ("0", "zed was ended by a signal."),
            ("1", "It could not start."),
            ("2", "The command line is wrong."),
        ],
    );
    examples_section(&mut roff, NAME);
    roff.see_also(&[
        ("cenote-daemon".to_owned(), 1),
        ("cenote-alarm".to_owned(), 1),
        ("zpool-events".to_owned(), 8),
    ]);
    Page {
        name: NAME.to_owned(),
        section: SECTION,
        text: roff.finish(),
    }
}

/// The variables that the manual page lists.
const VARIABLES: [(&str, &str); 12] = [
    ("ZEVENT_EID", "The number of the event."),
    (
        "ZEVENT_CLASS, ZEVENT_SUBCLASS",
        "Its class, and the last part of it.",
    ),
    (
        "ZEVENT_TIME",
        "Its time: seconds and nanoseconds since the epoch.",
    ),
    (
        "ZEVENT_TIME_SECS, ZEVENT_TIME_NSECS",
        "The parts of ZEVENT_TIME.",
    ),
    (
        "ZEVENT_TIME_STRING",
        "The time in words, in the zone of the machine.",
    ),
    ("ZEVENT_POOL, ZEVENT_POOL_GUID", "The pool."),
    (
        "ZEVENT_VDEV_STATE_STR, ZEVENT_VDEV_LASTSTATE_STR",
        "The states of a device in words.",
    ),
    ("ZED_PID", "The process that runs the zedlet."),
    ("ZED_ZEDLET_DIR", "The directory of the zedlet."),
    (
        "ZDB, ZED, ZFS, ZINJECT, ZPOOL",
        "The paths of these commands.",
    ),
    (
        "ZFS_ALIAS, ZFS_VERSION, ZFS_RELEASE",
        "The version of Cenote.",
    ),
    ("CENOTE_SOCKET", "The daemon that the commands talk to."),
];
