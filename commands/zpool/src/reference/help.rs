//! The programs' help, and their answers to unknown words.

use super::run;
use cenote_control::model::{Part, Request, Response};
use cenote_control::protocol::{CallError, Interrupt};
use cenote_words::completion::operands::of_synopsis;
use cenote_words::context::Daemon;
use cenote_words::program::ELSEWHERE;
use cenote_zfs_commands::zfs;

/// Neither help nor an unknown word needs a daemon.
struct Nobody;

impl Daemon for Nobody {
    fn call(
        &mut self,
        request: Request,
        _on_part: &mut dyn FnMut(Part) -> Interrupt,
    ) -> Result<Response, CallError> {
        panic!("{request:?} is asked for")
    }
}

/// Previously, `zfs list --help` was an invalid option and exited with 2.
#[test]
fn every_subcommand_explains_itself() {
    for (program, overview) in [
        ("zpool", run("zpool help", Nobody)),
        ("zfs", run("zfs --help", Nobody)),
    ] {
        assert_eq!((overview.code, overview.err.as_str()), (0, ""));
        let lines = overview
            .out
            .lines()
            .filter_map(|line| line.strip_prefix('\t'));
        let names = lines.filter_map(|line| line.split(' ').next());
        let mut names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
        names.dedup();
        assert!(names.len() > 30, "{names:?}");
        for name in names {
            let begin = format!("usage:\n\t{name}");
            let helped = run(&format!("{program} {name} --help"), Nobody);
            assert_eq!((helped.code, helped.err.as_str()), (0, ""), "{name}");
            assert!(helped.out.starts_with(&begin), "{}", helped.out);
        }
    }
    assert_eq!(run("zfs snap --help", Nobody).code, 0);
    assert_eq!(run("zfs help snap", Nobody).code, 0);
}

/// Previously, `zfs get -?` and `zfs get -h all` printed the help and succeeded. Scripts rely on
/// the exit code.
#[test]
fn letters_for_help_are_no_options() {
    for program in [&crate::PROGRAM, &zfs::PROGRAM] {
        let name = program.name;
        assert_eq!(run(&format!("{name} -?"), Nobody).code, 0);
        for topic in program.topics() {
            // A subcommand that does not exist here says so whatever its options are.
            if (program.is_missing)(topic.name) {
                continue;
            }
            for letter in ['?', 'h'] {
                if topic.flags.iter().any(|flag| flag.short == Some(letter)) {
                    continue;
                }
                let topic = topic.name;
                let refused = run(&format!("{name} {topic} -{letter}"), Nobody);
                assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{topic}");
                let begin = format!("invalid option '{letter}'\nusage:\n\t{topic}");
                assert!(refused.err.starts_with(&begin), "{}", refused.err);
            }
        }
    }
}

/// Previously, `zfs unshare -a` required a file system.
#[test]
fn all_that_is_shared_is_nothing() {
    for line in ["zfs unshare -a", "zfs unshare -a nfs"] {
        let done = run(line, Nobody);
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{line}");
    }
    assert_eq!(run("zfs unshare", Nobody).code, 2);
}

#[test]
fn wrong_words_get_the_nearest_right_one() {
    for (line, question) in [
        ("zpool statsu", "did you mean 'status'?"),
        ("zpool scurb tank", "did you mean 'scrub'?"),
        ("zfs snapshots", "did you mean 'snapshot'?"),
        ("zfs lsit", "did you mean 'list'?"),
    ] {
        let refused = run(line, Nobody);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{line}");
        assert_eq!(refused.err.lines().nth(1), Some(question), "{line}");
    }
    let far = run("zfs frobnicate", Nobody);
    assert!(!far.err.contains("did you mean"), "{}", far.err);
    let property = run("zfs get compresion tank", Nobody);
    assert!(
        property.err.contains("did you mean 'compression'?"),
        "{}",
        property.err
    );
    let property = run("zpool list -o helth", Nobody);
    assert!(
        property.err.contains("did you mean 'health'?"),
        "{}",
        property.err
    );
    for (line, question) in [
        ("zfs list -t snapshto", "'snapshot'"),
        ("zfs list -s usd", "'used'"),
        ("zfs get -s locla all", "'local'"),
        ("zfs get -o vlaue all", "'value'"),
        ("zfs userspace -o quta tank", "'quota'"),
        ("zfs userspace -t posixusr tank", "'posixuser'"),
        ("zpool get -o soruce all", "'source'"),
        ("zpool list -o feature@lz4_compres", "'lz4_compress'"),
        ("zpool wait -t scurb tank", "'scrub'"),
        ("zpool import -o autotrm=on tank", "'autotrim'"),
        ("zpool create -o ashft=12 tank /d", "'ashift'"),
        ("zpool create -O compresion=on tank /d", "'compression'"),
    ] {
        let refused = run(line, Nobody);
        let wanted = format!("did you mean {question}?");
        assert!(refused.err.contains(&wanted), "{line}: {}", refused.err);
    }
    let option = run("zpool status --jsn", Nobody);
    assert!(
        option.err.contains("did you mean '--json'?"),
        "{}",
        option.err
    );
}

/// A hint to the other program is wrong if the subcommand is not there, or is in both programs.
#[test]
fn words_of_the_other_program_are_its_alone() {
    for (name, words) in ELSEWHERE {
        for program in [&crate::PROGRAM, &zfs::PROGRAM] {
            for word in words {
                let is_there = program.topic(word).is_some();
                assert_eq!(is_there, program.name == name, "{name} {word}");
            }
        }
    }
}

/// Each subcommand has operands that can be completed, or a known exception.
#[test]
fn synopses_are_understood() {
    let without = [
        "version", "import", "events", "history", "program", "upgrade", "zone", "unzone",
    ];
    for program in [&crate::PROGRAM, &zfs::PROGRAM] {
        for topic in program
            .topics()
            .filter(|topic| !without.contains(&topic.name))
        {
            let wanted = of_synopsis(program.name, topic, 0);
            let later = of_synopsis(program.name, topic, 1);
            let is_known = !wanted.is_empty() || !later.is_empty();
            assert!(is_known, "{} {topic:?}", program.name);
        }
    }
}
