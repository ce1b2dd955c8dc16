//! `cenote send --to FILE|DIRECTORY SNAPSHOT`.

use super::files::{StreamFile, complete, open_partial, stream_file};
use super::meter::{Gauge, Meter};
use super::{Replaced, words_of};
use cenote_control::model::{ControlError, Part, Request, Send, SendNote};
use cenote_dsl::resume_token::to_text;
use cenote_ondisk::stream::RECORD_SIZE;
use cenote_stream::inspect::{Ending, inspect};
use cenote_stream::resume::{Cut, Found, cut, join};
use cenote_stream::{Checks, StreamError};
use cenote_words::command::{Arguments, Command, Run, flags};
use cenote_words::context::{Context, Outcome, Stop, failed, usage};
use cenote_words::format::number::nicebytes;
use cenote_zfs_commands::zfs::{PROGRAM, send};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom};
use std::path::Path;
use std::thread::JoinHandle;

/// `cenote send`
pub const COMMAND: Command = Command {
    name: "send",
    summary: "Send a snapshot into a file; resume after an interruption",
    synopsis: "--to FILE|DIRECTORY [OPTION]... SNAPSHOT",
    about: "The options are those of 'zfs send'. The stream is in FILE.partial until it is\n\
            complete and was read back. To resume after an interruption, run the same command\n\
            again; it keeps the options of the first run. A package (-R, -I, -p, -b, -h) starts\n\
            again. In a directory the stream gets a name of its own.",
    flags: flags! {
        _ "to" "PATH" "the file, or the directory that it is made in";
        'i' "incremental" "SNAPSHOT" "what changed since this snapshot or bookmark";
        'I' "intermediates" "SNAPSHOT" "the same with all snapshots in between";
        'R' "replicate" _ "everything below, with snapshots and properties";
        'X' "exclude" "DATASETS" "with -R, leave these out";
        's' "skip-missing" _ "with -R, leave out what lacks the snapshot";
        'p' "props" _ "properties";
        'b' "backup" _ "properties that were received";
        'h' "holds" _ "holds";
        'L' "large-block" _ "blocks above 128 KiB as they are";
        'e' "embed" _ "blocks that are in their pointers as they are";
        'c' "compressed" _ "compressed blocks as they are";
        'w' "raw" _ "encrypted blocks as they are";
        'q' "quiet" _ "no progress";
    },
    run: Run::Asking(run),
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let Some(to) = arguments.last("to") else {
        return usage("say where the stream goes: --to FILE or --to DIRECTORY");
    };
    let flags = COMMAND.flags.iter().copied();
    let flags: Vec<_> = flags.filter(|flag| flag.long != "quiet").collect();
    let parsed = PROGRAM.parse("send", &words_of(arguments, &flags))?;
    let asked = send::asked(&parsed, context)?;
    let place = stream_file(Path::new(to), &asked);
    if place.whole.exists() {
        return failed(format!("{} is there already", place.whole.display()));
    }
    let broken =
        |error: std::io::Error| Stop::Failed(format!("{}: {error}", place.partial.display()));
    let Some(file) = open_partial(&place.partial).map_err(broken)? else {
        let partial = place.partial.display();
        return failed(format!("{partial} is being written by another command"));
    };
    let mut writing = Writing {
        target: asked.target.clone(),
        place: &place,
        file,
        is_quiet: arguments.has("quiet"),
    };
    match writing.look(context)? {
        Found::Whole => writing.check_name(&asked)?,
        Found::Beginning => writing.write(asked, None, context)?,
        Found::Cut(cut) => writing.write(asked, Some(*cut), context)?,
    }
    writing.verify()?;
    complete(&writing.file, &place).map_err(broken)?;
    let bytes = writing.file.metadata().map_err(broken)?.len();
    let (size, whole) = (nicebytes(bytes), place.whole.display());
    context.line(&format!("{}: {size} in {whole}", writing.target));
    Ok(0)
}

/// A file to which a stream is written.
struct Writing<'a> {
    target: String,
    place: &'a StreamFile,
    file: File,
    is_quiet: bool,
}

impl Writing<'_> {
    fn failed(&self, error: &dyn std::fmt::Display) -> Stop {
        Stop::Failed(format!("{}: {error}", self.place.partial.display()))
    }

    fn clone_of_file(&self) -> Result<File, Stop> {
        let file = self.file.try_clone();
        file.map_err(|error| self.failed(&error))
    }

    fn meter(&self, gauge: Gauge, total: u64, doing: &str) -> Meter {
        let at = format!("{doing} {}", self.target);
        Meter::start(gauge, total, at, self.is_quiet)
    }

    /// Examines what an earlier command left.
    fn look(&mut self, context: &mut Context) -> Result<Found, Stop> {
        let length = self
            .file
            .metadata()
            .map_err(|error| self.failed(&error))?
            .len();
        if length < RECORD_SIZE as u64 {
            return Ok(Found::Beginning);
        }
        let found = {
            let gauge = Gauge::Position(self.clone_of_file()?);
            let _meter = self.meter(gauge, length, "reading what there is of");
            cut(&self.file)
        };
        let found = found.map_err(|error| self.failed(&crate::zstream::chain(&error)))?;
        let partial = self.place.partial.display();
        if let Found::Cut(cut) = &found {
            let (kept, length) = (nicebytes(cut.bytes), nicebytes(length));
            context.complain(&format!("resuming at {kept} of {length} in {partial}"));
        } else if matches!(found, Found::Beginning) {
            context.complain(&format!("{partial} cannot be resumed: starting over"));
        }
        Ok(found)
    }

    /// Checks that a complete file without its final name is the requested stream.
    fn check_name(&self, asked: &Send) -> Result<(), Stop> {
        let mut file = &self.file;
        let at_start = file.seek(SeekFrom::Start(0));
        at_start.map_err(|error| self.failed(&error))?;
        let summary = inspect(file, Checks::default());
        let summary = summary.map_err(|error| self.failed(&error))?;
        let last = summary.streams.last();
        match last {
            Some(last) if last.begin.to_name == asked.target.as_bytes() => Ok(()),
            _ => Err(self.failed(&"this is another stream; take it away first")),
        }
    }

    /// Writes the stream, or the rest of one.
    fn write(&self, asked: Send, cut: Option<Cut>, context: &mut Context) -> Result<(), Stop> {
        let cannot = |error: std::io::Error| self.failed(&error);
        let kept = cut.as_ref().map_or(0, |cut| cut.bytes);
        self.file.set_len(kept).map_err(cannot)?;
        (&self.file).seek(SeekFrom::Start(kept)).map_err(cannot)?;
        let send = match &cut {
            Some(cut) => self.resuming(&asked, cut)?,
            None => Send {
                estimates: true,
                ..asked
            },
        };
        let is_resuming = send.token.is_some();
        let joining = match cut {
            None => None,
            Some(cut) => Some(Joining::start(cut, self.clone_of_file()?).map_err(cannot)?),
        };
        let meter = self.meter(Gauge::Length(self.clone_of_file()?), 0, "sending");
        context.flush();
        let output = match &joining {
            None => Replaced::output(&self.file),
            Some(joining) => Replaced::output(&joining.pipe),
        };
        let output = output.map_err(cannot)?;
        let joined = joining.map(Joining::hand_over);
        let request = Request::Send {
            send: Box::new(send),
        };
        let answer = context.ask_in_parts(request, &mut |part| {
            if let Part::Send(SendNote::Total { bytes }) = part {
                meter.set_total(kept + bytes);
            }
        });
        // Close our end of the pipe, the only one left, so that the thread sees its end.
        drop(output);
        let joined = joined.map(JoinHandle::join);
        drop(meter);
        self.outcome(answer.map(drop), joined, is_resuming)
    }

    fn outcome(
        &self,
        answer: Result<(), ControlError>,
        joined: Option<std::thread::Result<Result<u64, StreamError>>>,
        is_resuming: bool,
    ) -> Result<(), Stop> {
        if let Err(error) = answer {
            return Err(Stop::Failed(send::why_not(
                &error,
                &self.target,
                is_resuming,
            )));
        }
        match joined {
            None | Some(Ok(Ok(_))) => Ok(()),
            Some(Ok(Err(error))) => Err(self.failed(&crate::zstream::chain(&error))),
            Some(Err(_)) => Err(self.failed(&"the thread that joins the streams panicked")),
        }
    }

    /// The request for the rest of a stream. An error if the file has a different stream.
    fn resuming(&self, asked: &Send, cut: &Cut) -> Result<Send, Stop> {
        let is_same = cut.token.to_name == asked.target.as_bytes()
            && cut.token.from_guid.is_some() == asked.from.is_some();
        let token = to_text(&cut.token).filter(|_| is_same);
        let token = token.ok_or_else(|| {
            let name = String::from_utf8_lossy(&cut.token.to_name).into_owned();
            self.failed(&format!("this is a stream of '{name}'; take it away first"))
        })?;
        Ok(Send {
            token: Some(token),
            estimates: true,
            ..Send::default()
        })
    }

    /// Reads the complete file and verifies it.
    fn verify(&self) -> Result<(), Stop> {
        let cannot = |error: std::io::Error| self.failed(&error);
        let length = self.file.metadata().map_err(cannot)?.len();
        (&self.file).seek(SeekFrom::Start(0)).map_err(cannot)?;
        let gauge = Gauge::Position(self.clone_of_file()?);
        let meter = self.meter(gauge, length, "verifying");
        let summary = inspect(&self.file, Checks::default());
        drop(meter);
        match summary {
            Ok(summary) => match &summary.ending {
                Ending::Whole => Ok(()),
                Ending::Broken { error, .. } => Err(self.failed(&crate::zstream::chain(error))),
            },
            Err(error) => Err(self.failed(&crate::zstream::chain(&error))),
        }
    }
}

/// A thread that joins the rest of a stream to its beginning.
struct Joining {
    thread: JoinHandle<Result<u64, StreamError>>,
    pipe: rustix::fd::OwnedFd,
}

impl Joining {
    fn start(cut: Cut, file: File) -> std::io::Result<Self> {
        let (source, pipe) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let join = move || {
            join(
                &cut,
                File::from(source),
                BufWriter::with_capacity(1 << 20, file),
            )
        };
        let thread = std::thread::Builder::new()
            .name("join".into())
            .spawn(join)?;
        Ok(Self { thread, pipe })
    }

    /// Drops the pipe, which is standard output now, and returns the thread.
    fn hand_over(self) -> JoinHandle<Result<u64, StreamError>> {
        self.thread
    }
}
