//! `cenote receive --from FILE|DIRECTORY TARGET`.

use super::files::streams;
use super::meter::{Gauge, Meter};
use super::{Replaced, words_of};
use cenote_control::model::{Depth, KindSet, PropertySelection, Request};
use cenote_dsl::resume_token::from_text;
use cenote_ondisk::stream::{HeaderKind, Record, ResumeToken};
use cenote_stream::resume::rest;
use cenote_stream::{Reader, StreamError};
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, Stop, failed, usage};
use cenote_zfs_commands::zfs::{PROGRAM, receive};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom};
use std::path::Path;
use std::thread::JoinHandle;

/// `cenote receive`
pub const COMMAND: Command = Command {
    name: "receive",
    summary: "Receive streams from files; resume after an interruption",
    synopsis: "--from FILE|DIRECTORY [OPTION]... TARGET",
    about: "The options are those of 'zfs receive', and -s is always on. To resume after an\n\
            interruption, run the same command again. From a directory all files *.zstream are\n\
            received, each after the one that it builds on. Snapshots that exist are skipped.",
    flags: flags! {
        _ "from" "PATH" "the file, or the directory with files";
        'F' "force" _ "roll back, and destroy what the stream does not have";
        'u' "unmounted" _ "do not mount";
        'M' "force-unmount" _ "unmount by force";
        'v' "verbose" _ "say what is received";
        'n' "dry-run" _ "only say what would be received";
        'd' "drop-pool" _ "all but the sender's pool follows TARGET";
        'e' "last-component" _ "the last part of the sender's name follows TARGET";
        'h' "without-holds" _ "no holds";
        'o' "set" "PROPERTY=VALUE" "set a property (may be repeated)";
        'x' "exclude" "PROPERTY" "leave a property out (may be repeated)";
        'q' "quiet" _ "no progress";
    },
    run: Run::Asking(run),
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let Some(from) = arguments.last("from") else {
        return usage("say where the stream comes from: --from FILE or --from DIRECTORY");
    };
    let [target] = arguments.operands.as_slice() else {
        return usage("give the dataset to receive into");
    };
    let target = target.to_string_lossy().into_owned();
    let flags = COMMAND.flags.iter().copied();
    let flags: Vec<_> = flags.filter(|flag| flag.long != "quiet").collect();
    let mut words = vec!["-s".to_owned()];
    words.extend(words_of(arguments, &flags));
    let parsed = PROGRAM.parse("receive", &words)?;
    let command = format!("zfs receive {}", words.join(" "));
    let shown = Path::new(from).display();
    let files = streams(Path::new(from));
    let files = files.map_err(|error| Stop::Failed(format!("{shown}: {error}")))?;
    if files.is_empty() {
        return failed(format!("{shown} has no files *.zstream"));
    }
    let is_quiet = arguments.has("quiet");
    for path in files {
        let source = Source::open(&path, &target, is_quiet, context)?;
        let (code, problem) = source.pour(|| receive::run(&parsed, command.clone(), context))?;
        if let Some(problem) = problem {
            context.complain(&format!("{}: {problem}", path.display()));
        }
        if code != 0 {
            return Ok(code);
        }
    }
    Ok(0)
}

/// A stream that is passed from a file to standard input.
struct Source {
    input: Replaced,
    meter: Meter,
    /// The thread that generates a stream of the missing rest.
    thread: Option<JoinHandle<Result<u64, StreamError>>>,
}

impl Source {
    fn open(
        path: &Path,
        target: &str,
        is_quiet: bool,
        context: &mut Context,
    ) -> Result<Self, Stop> {
        let cannot = |error: std::io::Error| Stop::Failed(format!("{}: {error}", path.display()));
        let mut file = File::open(path).map_err(cannot)?;
        let length = file.metadata().map_err(cannot)?.len();
        let tokens = tokens(target, context);
        let tokens = tokens_of_file(&file, tokens);
        file.seek(SeekFrom::Start(0)).map_err(cannot)?;
        if !tokens.is_empty() {
            context.complain(&format!("resuming the receive of {}", path.display()));
        }
        let gauge = Gauge::Position(file.try_clone().map_err(cannot)?);
        let at = format!("receiving {}", path.display());
        let meter = Meter::start(gauge, length, at, is_quiet);
        if tokens.is_empty() {
            return Ok(Self {
                input: Replaced::input(&file).map_err(cannot)?,
                meter,
                thread: None,
            });
        }
        let pipe = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
        let (pipe, sink) = pipe.map_err(|error| cannot(error.into()))?;
        let sink = BufWriter::with_capacity(1 << 20, File::from(sink));
        let make = move || rest(file, &tokens, sink);
        let thread = std::thread::Builder::new().name("rest".into()).spawn(make);
        Ok(Self {
            input: Replaced::input(&pipe).map_err(cannot)?,
            meter,
            thread: Some(thread.map_err(cannot)?),
        })
    }

    /// Receives it; returns the exit code, and the file's error if any.
    fn pour(self, receive: impl FnOnce() -> Outcome) -> Result<(u8, Option<String>), Stop> {
        let received = receive();
        // A thread that still writes gets a broken pipe and ends.
        drop(self.input);
        let made = self.thread.map(JoinHandle::join);
        drop(self.meter);
        let problem = match made {
            None | Some(Ok(Ok(_))) => None,
            Some(Ok(Err(StreamError::Write { .. }))) => None,
            Some(Ok(Err(error))) => Some(crate::zstream::chain(&error)),
            Some(Err(_)) => Some("the thread that reads it panicked".to_owned()),
        };
        match received {
            Ok(code) => Ok((code, problem)),
            Err(stop) => Err(stop),
        }
    }
}

/// The resume tokens of the target dataset and its descendants.
fn tokens(target: &str, context: &mut Context) -> Vec<ResumeToken> {
    const TOKEN: &str = "receive_resume_token";
    let dataset = target.split('@').next().unwrap_or_default();
    let request = Request::DatasetList {
        roots: vec![dataset.to_owned()],
        depth: Depth::All,
        kinds: KindSet::HEADS,
        properties: PropertySelection::Named(vec![TOKEN.to_owned()]),
    };
    // If the dataset does not exist, there is no interrupted receive.
    let Ok(listing) = context.ask_datasets(request) else {
        return Vec::new();
    };
    let texts = listing.rows.iter().filter_map(|row| {
        let property = row.property(TOKEN)?;
        property.value.text().and_then(|text| from_text(text).ok())
    });
    texts.collect()
}

/// The tokens that may belong to a file: for a package all of them.
fn tokens_of_file(file: &File, mut tokens: Vec<ResumeToken>) -> Vec<ResumeToken> {
    if tokens.is_empty() {
        return tokens;
    }
    let mut reader = Reader::new(file);
    if let Ok(Some(header)) = reader.next_header()
        && let Record::Begin(begin) = &header.record
        && begin.header_kind == HeaderKind::Substream
    {
        tokens.retain(|token| token.to_guid == begin.to_guid);
    }
    tokens
}
