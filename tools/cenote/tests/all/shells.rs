//! Tests completion in real shells: the scripts are code in three languages, which only these
//! shells can run.

use std::path::Path;
use std::process::{Command, Output};

/// Whether a shell is installed.
fn has(shell: &str) -> bool {
    let found = Command::new(shell).arg("--version").output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        cenote_tests::missing!("{shell} is not installed");
    }
    is_there
}

/// Runs a script in a shell that finds our commands, without a daemon.
fn run(shell: &str, arguments: &[&str], place: &Path) -> String {
    let bin = place.join("bin");
    if !bin.exists() {
        std::fs::create_dir(&bin).expect("a directory");
        for name in ["cenote", "zpool", "zfs", "zstream", "zdb", "zed", "zinject"] {
            let program = env!("CARGO_BIN_EXE_cenote");
            std::os::unix::fs::symlink(program, bin.join(name)).expect("a link");
        }
        std::fs::write(place.join("disk.img"), "").expect("a file");
        std::fs::create_dir(place.join("directory")).expect("a directory");
    }
    let path = format!(
        "{}:{}",
        bin.display(),
        std::env::var("PATH").expect("a path")
    );
    let output: Output = Command::new("timeout")
        .arg("60")
        .arg(shell)
        .args(arguments)
        .current_dir(place)
        .env("PATH", path)
        .env("HOME", place)
        .env("CENOTE_SOCKET", place.join("socket"))
        .env("CENOTE_STATE", "")
        .output()
        .expect("the shell runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{shell}: {text}{err}");
    text
}

/// Prints what bash would offer for a line.
const BASH: &str = r#"
source <(cenote completions bash)
COMP_WORDBREAKS=$' \t\n"\'@><=;|&(:'
compopt() { [ "$2" = nospace ] && echo nospace; }
for COMP_LINE in "$@"; do
    COMP_POINT=${#COMP_LINE}
    echo "[$COMP_LINE]"
    _cenote
    printf '%s\n' "${COMPREPLY[@]}"
done
"#;

#[test]
fn bash_completes() {
    if !has("bash") {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let lines = [
        "zpool scr",
        "zfs set sync=alw",
        "zfs set compressio",
        "zpool create new dis",
        "zpool create -R dir",
    ];
    let mut arguments = vec!["-c", BASH, "bash"];
    arguments.extend(lines);
    let text = run("bash", &arguments, place.path());
    // In 'sync=always' readline replaces the part after the last '='.
    let wanted = "[zpool scr]\nscrub\n[zfs set sync=alw]\nalways\n\
                  [zfs set compressio]\nnospace\ncompression=\n\
                  [zpool create new dis]\ndisk.img\n[zpool create -R dir]\nnospace\ndirectory/\n";
    assert_eq!(text, wanted);
}

/// File names that a shell must neither split nor run.
const ODD_FILES: [&str; 3] = ["two words", "$(touch ran)", "it's"];

fn odd_files(place: &Path) {
    for name in ODD_FILES {
        std::fs::write(place.join(name), "").expect("a file");
    }
    std::fs::create_dir(place.join("my disks")).expect("a directory");
    std::fs::write(place.join("my disks/one"), "").expect("a file");
}

/// Previously, candidates were inserted unquoted. A device or file name with a space became two
/// words, and one with `$(...)` was executed when the line was entered. A word with a quote in it
/// was not completed at all.
#[test]
fn bash_quotes_what_it_completes() {
    if !has("bash") {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    odd_files(place.path());
    let lines = [
        ("zpool create new tw", "two\\ words"),
        ("zpool create new two\\ w", "two\\ words"),
        ("zpool create new \"two w", "two words"),
        ("zpool create new 'two w", "two words"),
        ("zpool create new it", "it\\'s"),
        ("zpool create new 'it", "it'\\''s"),
        ("zpool create new \\$", "\\$\\(touch\\ ran\\)"),
        ("zpool create new \"\\$", "\\$(touch ran)"),
        ("zpool create new my\\ disks/", "my\\ disks/one"),
        ("zpool create new ~/tw", "~/two\\ words"),
        ("zpool create -R my", "nospace\nmy\\ disks/"),
    ];
    let mut arguments = vec!["-c", BASH, "bash"];
    arguments.extend(lines.map(|(line, _)| line));
    let text = run("bash", &arguments, place.path());
    let wanted: String = lines
        .iter()
        .map(|(line, word)| format!("[{line}]\n{word}\n"))
        .collect();
    assert_eq!(text, wanted);
    assert!(!place.path().join("ran").exists(), "a name was run");
}

/// A zsh on a terminal, where a tab is typed.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PROMPT= ; unset zle_bracketed_paste; unsetopt beep"
zpty -w shell "autoload -Uz compinit; compinit -u -D"
zpty -w shell "source <(cenote completions zsh)"
zpty -w shell "zpool() { print -r -- \"<ran zpool \$*>\" }; zfs() { print -r -- \"<ran zfs \$*>\" }"
zpty -w -n shell $'zpool scr\t\n'
zpty -w -n shell $'zfs set compressio\tlz4\n'
zpty -w -n shell $'zpool create new disk\t\n'
zpty -w -n shell $'zpool create new tw\t\n'
zpty -w -n shell $'zpool create \'new pool\' two\\ w\t\n'
zpty -w -n shell $'zpool create new \\$\t\n'
zpty -w shell "print '<e''nd>'; exit"
text=
while zpty -r shell line; do text+=$line; [[ $line == *'<end>'* ]] && break; done
print -r -- $text
"#;

#[test]
fn zsh_completes() {
    if !has("zsh") {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    odd_files(place.path());
    let text = run("zsh", &["-f", "-c", ZSH], place.path());
    for wanted in [
        "<ran zpool scrub>",
        "<ran zfs set compression=lz4>",
        "<ran zpool create new disk.img>",
        "<ran zpool create new two words>",
        "<ran zpool create new pool two words>",
        "<ran zpool create new $(touch ran)>",
    ] {
        assert!(text.contains(wanted), "no {wanted} in {text}");
    }
    assert!(!place.path().join("ran").exists(), "a name was run");
}

const FISH: &str = "
cenote completions fish | source
for line in 'zpool scr' 'zfs set sync=alw' 'zpool create new dis' 'zpool create new two\\ w' \
        'zpool create new \"two w' 'zpool create new \\$'
    echo \"[$line]\"
    complete -C $line
end
";

#[test]
fn fish_completes() {
    if !has("fish") {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    odd_files(place.path());
    let text = run("fish", &["--no-config", "-c", FISH], place.path());
    assert!(text.contains("[zpool scr]\nscrub\t"), "{text}");
    assert!(text.contains("[zfs set sync=alw]\nsync=always\n"), "{text}");
    assert!(text.contains("[zpool create new dis]\ndisk.img"), "{text}");
    assert_eq!(text.matches("two words").count(), 2, "{text}");
    assert!(text.contains("$(touch ran)"), "{text}");
    assert!(!place.path().join("ran").exists(), "a name was run");
}
