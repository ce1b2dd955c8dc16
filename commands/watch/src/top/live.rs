//! The loop of `cenote top` in a terminal.
//!
//! A separate thread queries the daemon, over a connection of its own. So keys work while an answer
//! is slow, and the user can quit while the daemon hangs. The thread drops an answer if the
//! previous one has not been shown yet.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::super::sample::Sample;
use super::draw::{Looks, draw};
use super::state::{State, Wish};
use cenote_words::context::{Context, Daemon};

/// How long to wait for keys before checking for an answer.
const TICK: Duration = Duration::from_millis(100);

/// Commands for the thread that queries the daemon.
enum Order {
    /// Query now.
    Look,
    /// Query at this interval.
    Pace(Duration),
}

/// Opens a connection to the daemon.
type Connect = fn() -> Box<dyn Daemon>;

/// Shows the state until the user quits. Returns whether a signal ended it.
pub fn run(mut state: State, looks: Looks, connect: Connect) -> io::Result<bool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let (answers, received) = mpsc::sync_channel(1);
    let (orders, ordered) = mpsc::channel();
    let interval = state.interval;
    thread::Builder::new()
        .name("top-asks".to_owned())
        .spawn(move || ask(&answers, &ordered, interval, connect))?;
    let mut terminal = ratatui::try_init()?;
    let ended = show(
        &mut terminal,
        &mut state,
        looks,
        (&received, &orders, &stop),
    );
    // Restore the shell's terminal, also after an error.
    let restored = ratatui::try_restore();
    let ended = ended?;
    restored?;
    Ok(ended)
}

type Ends<'a> = (
    &'a Receiver<Result<Sample, String>>,
    &'a Sender<Order>,
    &'a AtomicBool,
);

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    state: &mut State,
    looks: Looks,
    (answers, orders, stop): Ends<'_>,
) -> io::Result<bool> {
    let mut is_old = true;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(true);
        }
        if is_old {
            terminal.draw(|frame| draw(frame, state, looks))?;
            is_old = false;
        }
        if event::poll(TICK)? {
            // A resize only needs a redraw.
            is_old = true;
            let wish = match event::read()? {
                Event::Key(key) => state.key(key),
                _ => Wish::Nothing,
            };
            // The thread ends only with this function, so sending cannot fail.
            let _ = match wish {
                Wish::Quit => return Ok(false),
                Wish::Nothing => Ok(()),
                Wish::Look => orders.send(Order::Look),
                Wish::Pace(interval) => orders.send(Order::Pace(interval)),
            };
        }
        while let Ok(answer) = answers.try_recv() {
            state.take(answer);
            is_old = true;
        }
    }
}

/// Queries the daemon periodically until the receiver is dropped.
fn ask(
    answers: &SyncSender<Result<Sample, String>>,
    orders: &Receiver<Order>,
    mut interval: Duration,
    connect: Connect,
) {
    let quiet = || Box::new(io::sink());
    let mut context = Context::new(quiet(), quiet(), connect());
    loop {
        let answer = Sample::take(&mut |request, part| context.ask_in_parts(request, part));
        let answer = answer.map_err(|error| error.to_string());
        // Drop the answer if the previous one is still there: the loop has not drawn for a whole
        // interval.
        if let Err(TrySendError::Disconnected(_)) = answers.try_send(answer) {
            return;
        }
        match orders.recv_timeout(interval) {
            Ok(Order::Look) | Err(RecvTimeoutError::Timeout) => {}
            Ok(Order::Pace(wanted)) => interval = wanted,
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
