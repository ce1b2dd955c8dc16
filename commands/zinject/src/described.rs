//! The description of `zinject`: its options, its usage, its manual page.

use cenote_words::command::{Flag, Other, flags};
use cenote_words::manual::{Page, Roff, examples_section, exit_status, options};
use cenote_words::program::{Topic, topic};

/// Its manual section.
const SECTION: u8 = 8;

/// Its name.
pub const NAME: &str = "zinject";

/// The description.
pub const OTHER: Other = Other {
    name: NAME,
    alias: "",
    topics: TOPICS,
    page,
};

/// Its options.
pub(crate) const FLAGS: &[Flag] = flags! {
    'a' "" _ "Empty the caches first; alone: of all pools";
    'A' "" "STATE" "Put the device into this state: degrade or fault";
    'b' "" "BLOCKS" "The blocks OBJSET:OBJECT:LEVEL:START[:END], in hexadecimal";
    'c' "" "ID" "End the fault of this number, or all";
    'C' "" "COPIES" "Only these copies of the blocks, counted from 0: 0,2";
    'd' "" "DEVICE" "The device, by its path or guid";
    'D' "" "LATENCY:LANES" "Each request takes so many ms, and so many go at once";
    'e' "" "ERROR" "checksum, corrupt, decompress, decrypt, dtl, io, noop or nxio";
    'f' "" "PERCENT" "Only this share of the requests: 0.0001 to 100";
    'i' "" "SECONDS" "The same as -P import -s SECONDS";
    'l' "" "LEVEL" "The level of the blocks; default 0";
    'L' "" "PART" "Only this part of the labels: nvlist, pad1, pad2 or uber";
    'm' "" _ "Unmount the file system and mount it again, so that nothing is cached";
    'P' "" "WHAT" "The next import or export of the pool takes longer";
    'q' "" _ "Print the number of the fault only";
    'r' "" "START[,END]" "Only these bytes of the file; of metadata: blocks";
    's' "" "SECONDS" "So much longer";
    't' "" "TYPE" "data, dnode, or of the pool: mos, mosdir, config, bpobj, spacemap,\n\
        metaslab, errlog";
    'T' "" "REQUESTS" "Only these: read, write, free, flush, probe; or all";
};

/// Its forms.
#[rustfmt::skip]
const TOPICS: &[Topic] = &[
    topic(NAME, &[
        "zinject [-a]",
        "zinject -c ID|all",
        "zinject -d DEVICE -A degrade|fault POOL",
        "zinject -d DEVICE -D LATENCY:LANES [-T read|write] [-aq] POOL",
        "zinject -d DEVICE [-e ERROR] [-L PART] [-T REQUESTS] [-f PERCENT] [-aq] POOL",
        "zinject -t data|dnode [-e ERROR] [-C COPIES] [-f PERCENT] [-l LEVEL]",
        " [-r START[,END]] [-T read] [-amq] FILE",
        "zinject -t TYPE [-e ERROR] [-C COPIES] [-f PERCENT] [-l LEVEL]",
        " [-r START[,END]] [-T read] [-aq] POOL",
        "zinject -b BLOCKS [-e ERROR] [-C COPIES] [-f PERCENT] [-T read] [-aq] POOL",
        "zinject -P import|export -s SECONDS [-q] POOL",
        "zinject -i SECONDS [-q] POOL",
    ], "Inject faults on purpose, or list and end those that are on", "", FLAGS),
];

/// Why an option of OpenZFS's command is not possible here.
pub(crate) fn refused_option(letter: &str) -> Option<&'static str> {
    Some(match letter {
        "I" | "g" => {
            "-I is not possible here: '-e noop -T flush' drops the flushes of one device instead"
        }
        "p" => "-p is not possible here: a panic would end the daemon and all its pools",
        "u" => "-u is not possible here: faults end when their pool is exported",
        "F" => "-F is not possible here: a failed request is not tried again anyway",
        _ => return None,
    })
}

/// Printed for a wrong command line, and for `-h`.
pub(crate) fn synopsis() -> String {
    TOPICS[0].usage()
}

/// Its manual page.
fn page() -> Page {
    let mut roff = Roff::new(NAME, SECTION, "inject faults into pools, for drills");
    roff.section("SYNOPSIS");
    roff.lines(TOPICS[0].synopsis.iter().copied());
    roff.section("DESCRIPTION");
    roff.prose(
        "A drill shows what a pool, its alarms and its administrator do about a fault. zinject \
         injects faults where real ones appear, so everything above is real: errors are counted, \
         blocks are repaired from redundancy, devices are faulted, and a pool is suspended.\n\
         \n\
         Without options it lists the faults that are on. They end with -c, with the export of \
         the pool, and with the daemon. 'cenote health' and 'zpool events' report them.\n\
         \n\
         Only root may inject faults. Use a pool without valuable data: too many faults are as \
         bad as real ones.",
    );
    options(&mut roff, "OPTIONS", FLAGS);
    roff.section("ERRORS");
    for (word, text) in [
        (
            "io",
            "The device fails with EIO. A write is carried out all the same.",
        ),
        ("nxio", "The device is gone (ENXIO). The default with -d."),
        ("checksum", "Checksums are wrong."),
        ("corrupt", "One bit of what is read is wrong."),
        (
            "decompress",
            "Blocks do not decompress; of a device: EINVAL.",
        ),
        ("decrypt", "Blocks do not decrypt; of a device: EACCES."),
        ("dtl", "The device misses the data (ECHILD)."),
        (
            "noop",
            "The request is not carried out, and succeeds: a device that lies.",
        ),
    ] {
        roff.entry(word, text);
    }
    roff.section("LIMITS");
    roff.prose(
        "With -d, labels are spared without -L, because a device without labels is lost.\n\
         -I, -p, -u and -F of OpenZFS's command are refused; the message says why.",
    );
    exit_status(
        &mut roff,
        &[
            ("0", "Success."),
            ("1", "The daemon refused."),
            ("2", "The command line is wrong."),
        ],
    );
    examples_section(&mut roff, NAME);
    roff.see_also(&[
        ("zpool-events".to_owned(), 8),
        ("zpool-clear".to_owned(), 8),
        ("zpool-scrub".to_owned(), 8),
    ]);
    Page {
        name: NAME.to_owned(),
        section: SECTION,
        text: roff.finish(),
    }
}
