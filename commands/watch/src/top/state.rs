//! What the user sees, and the effect of keys.
//!
//! This module knows neither terminal nor daemon: it maps keys and samples to what is shown. Rows
//! have keys, so the selection stays on a pool or a disk when the order changes.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::super::sample::{Between, Rates, Sample};
use super::screens::{self, Scope, Screen};
use super::table::{Sort, Table};

/// Rates kept per pool, for sparklines.
pub const HISTORY_MAX: usize = 240;
/// The shortest and the longest interval.
pub const INTERVALS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(60)];

/// What a key requests of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing.
    Nothing,
    /// Leave.
    Quit,
    /// Query now.
    Look,
    /// Change the interval.
    Pace(Duration),
}

/// The rates of the last rounds, the newest last.
pub type History = VecDeque<Rates>;

/// The state of the program.
pub struct State {
    /// The screen.
    pub screen: Screen,
    /// The opened scopes, the innermost last.
    pub scopes: Vec<Scope>,
    /// The key of the selected row.
    pub selected: Option<String>,
    /// The first row that is shown.
    pub offset: usize,
    /// The order of rows.
    pub sort: Sort,
    /// Whether the order is reversed.
    pub is_reversed: bool,
    /// Whether new samples are dropped.
    pub is_paused: bool,
    /// Whether the help is shown.
    pub has_help: bool,
    /// How often the daemon is asked.
    pub interval: Duration,
    /// The daemon's error, if it does not answer.
    pub trouble: Option<String>,
    /// The sample before the one shown.
    before: Option<Sample>,
    /// The sample that is shown.
    now: Option<Sample>,
    /// The history of all pools under "", and of each pool under its name.
    histories: HashMap<String, History>,
}

impl State {
    /// A state without samples.
    pub fn new(interval: Duration, pool: Option<String>) -> Self {
        Self {
            screen: Screen::Pools,
            scopes: pool.map(Scope::Pool).into_iter().collect(),
            selected: None,
            offset: 0,
            sort: Sort::Name,
            is_reversed: false,
            is_paused: false,
            has_help: false,
            interval,
            trouble: None,
            before: None,
            now: None,
            histories: HashMap::new(),
        }
    }

    /// The activity of the last round, once there is an answer.
    pub fn between(&self) -> Option<Between<'_>> {
        let now = self.now.as_ref()?;
        Some(Between::new(self.before.as_ref(), now))
    }

    /// The innermost scope.
    pub fn scope(&self) -> Option<&Scope> {
        self.scopes.last()
    }

    /// The current table.
    pub fn table(&self) -> Option<Table> {
        let mut table = screens::table(self.screen, self.scope(), self.between()?);
        table.sort(self.sort, self.is_reversed);
        Some(table)
    }

    /// The rates of the current scope's pool, or of all pools.
    pub fn history(&self) -> Option<&History> {
        self.histories.get(self.scope().map_or("", Scope::pool))
    }

    /// Takes an answer of the daemon. A paused state drops answers, and later compares the next one
    /// with the last one taken.
    pub fn take(&mut self, answer: Result<Sample, String>) {
        if self.is_paused {
            return;
        }
        match answer {
            Ok(sample) => {
                self.before = self.now.take();
                self.now = Some(sample);
                // After an error, the growth covers more than one interval and is not a rate.
                if self.trouble.take().is_some() {
                    self.before = None;
                }
                self.remember();
            }
            Err(reason) => self.trouble = Some(reason),
        }
    }

    fn remember(&mut self) {
        let Some(between) = self.between() else {
            return;
        };
        let mut fresh: Vec<(String, Rates)> = Vec::new();
        let mut sum = Rates::default();
        for pool in &between.now.pools {
            let Some(rates) = between.pool(&pool.name) else {
                return;
            };
            sum = Rates {
                reads: sum.reads.saturating_add(rates.reads),
                writes: sum.writes.saturating_add(rates.writes),
                read_bytes: sum.read_bytes.saturating_add(rates.read_bytes),
                written_bytes: sum.written_bytes.saturating_add(rates.written_bytes),
            };
            fresh.push((pool.name.clone(), rates));
        }
        fresh.push((String::new(), sum));
        // Remove the histories of exported pools.
        self.histories
            .retain(|name, _| fresh.iter().any(|(known, _)| known == name));
        for (name, rates) in fresh {
            let history = self.histories.entry(name).or_default();
            history.push_back(rates);
            if history.len() > HISTORY_MAX {
                history.pop_front();
            }
        }
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> Wish {
        if key.kind == KeyEventKind::Release {
            return Wish::Nothing;
        }
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if has_control => return Wish::Quit,
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => {
                self.has_help = !self.has_help;
                return Wish::Nothing;
            }
            _ if self.has_help => {
                self.has_help = false;
                return Wish::Nothing;
            }
            KeyCode::Char('+') => return self.pace(self.interval * 2),
            KeyCode::Char('-') => return self.pace(self.interval / 2),
            KeyCode::Char('p' | ' ') => {
                self.is_paused = !self.is_paused;
                return Wish::Nothing;
            }
            KeyCode::Char('r') if has_control => return Wish::Look,
            KeyCode::Char('s') => self.next_sort(),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Enter | KeyCode::Right => self.enter(),
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => self.leave(),
            other => self.go(other),
        }
        Wish::Nothing
    }

    fn pace(&mut self, wanted: Duration) -> Wish {
        self.interval = wanted.clamp(INTERVALS[0], INTERVALS[1]);
        Wish::Pace(self.interval)
    }

    fn next_sort(&mut self) {
        let place = Sort::ALL.iter().position(|sort| *sort == self.sort);
        let next = place.map_or(0, |place| (place + 1) % Sort::ALL.len());
        self.sort = Sort::ALL[next];
    }

    fn show(&mut self, screen: Screen) {
        // A disk or dataset has only one table.
        while matches!(self.scope(), Some(Scope::Vdev(..) | Scope::Dataset(_))) {
            self.scopes.pop();
        }
        self.screen = screen;
        self.selected = None;
        self.offset = 0;
    }

    /// Changes the screen or the row.
    fn go(&mut self, code: KeyCode) {
        let of_screen = |steps: usize| {
            let place = Screen::ALL.iter().position(|screen| *screen == self.screen);
            Screen::ALL[(place.unwrap_or(0) + steps) % Screen::ALL.len()]
        };
        match code {
            KeyCode::Char(digit @ '1'..='4') => {
                let place = digit as usize - '1' as usize;
                self.show(Screen::ALL[place]);
            }
            KeyCode::Tab => self.show(of_screen(1)),
            KeyCode::BackTab => self.show(of_screen(Screen::ALL.len() - 1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::PageDown => self.select(10),
            KeyCode::PageUp => self.select(-10),
            KeyCode::Home | KeyCode::Char('g') => self.select(i64::MIN / 2),
            KeyCode::End | KeyCode::Char('G') => self.select(i64::MAX / 2),
            _ => {}
        }
    }

    /// The index of the selected row; the first one if that is gone.
    pub fn selected_place(&self, table: &Table) -> usize {
        let key = self.selected.as_deref();
        let place = table
            .rows
            .iter()
            .position(|row| Some(row.key.as_str()) == key);
        place.unwrap_or(0)
    }

    fn select(&mut self, steps: i64) {
        let Some(table) = self.table() else { return };
        let last = table.rows.len().saturating_sub(1) as i64;
        let place = self.selected_place(&table) as i64;
        let place = place.saturating_add(steps).clamp(0, last);
        let row = table.rows.get(place as usize);
        self.selected = row.map(|row| row.key.clone());
    }

    /// Opens the selected row.
    fn enter(&mut self) {
        let Some(table) = self.table() else { return };
        let Some(row) = table.rows.get(self.selected_place(&table)) else {
            return;
        };
        let key = row.key.clone();
        let is_inside = matches!(self.scope(), Some(Scope::Vdev(..) | Scope::Dataset(_)));
        let scope = match self.screen {
            _ if is_inside => return,
            Screen::Pools => Scope::Pool(key),
            Screen::Devices if row.depth == 0 => Scope::Pool(row.pool.clone()),
            Screen::Devices => {
                let name = row
                    .cells
                    .first()
                    .map_or_else(String::new, |cell| cell.text());
                Scope::Vdev(row.pool.clone(), key, name)
            }
            Screen::Datasets => Scope::Dataset(key),
            Screen::Clients if key.starts_with("nbd ") || key.starts_with("http ") => return,
            Screen::Clients => Scope::Dataset(key),
        };
        if self.screen == Screen::Pools {
            self.screen = Screen::Devices;
        }
        if self.scope() != Some(&scope) {
            self.scopes.push(scope);
        }
        self.selected = None;
        self.offset = 0;
    }

    /// Closes the innermost scope.
    fn leave(&mut self) {
        let Some(left) = self.scopes.pop() else {
            return;
        };
        self.selected = Some(match left {
            Scope::Pool(name) => {
                self.screen = Screen::Pools;
                name
            }
            Scope::Vdev(_, guid, _) => guid,
            Scope::Dataset(name) => name,
        });
        self.offset = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::testing::sample;
    use super::*;
    use std::time::Instant;

    /// A state with two samples, two seconds apart.
    fn state() -> State {
        let start = Instant::now();
        let mut state = State::new(Duration::from_secs(2), None);
        state.take(Ok(sample(start, 0, 0)));
        state.take(Ok(sample(start, 2, 2000)));
        state
    }

    fn press(state: &mut State, codes: &[KeyCode]) -> Wish {
        let mut wish = Wish::Nothing;
        for code in codes {
            wish = state.key(KeyEvent::new(*code, KeyModifiers::NONE));
        }
        wish
    }

    #[test]
    fn one_goes_into_a_pool_and_a_disk_and_out_again() {
        let mut state = state();
        press(&mut state, &[KeyCode::Enter]);
        assert_eq!(state.scope(), Some(&Scope::Pool("tank".to_owned())));
        assert_eq!(state.screen, Screen::Devices);
        // The root, the mirror, a disk.
        press(&mut state, &[KeyCode::Down, KeyCode::Down, KeyCode::Enter]);
        assert_eq!(state.scope().map(Scope::name), Some("sda"));
        assert_eq!(state.scopes.len(), 2);
        // There is nothing further to open.
        press(&mut state, &[KeyCode::Enter]);
        assert_eq!(state.scopes.len(), 2);
        press(&mut state, &[KeyCode::Esc]);
        assert_eq!(state.selected.as_deref(), Some("3"));
        press(&mut state, &[KeyCode::Esc, KeyCode::Esc]);
        assert_eq!((state.scope(), state.screen), (None, Screen::Pools));
    }

    #[test]
    fn a_dataset_is_entered_from_its_mount_and_a_connection_is_not() {
        let mut state = state();
        press(&mut state, &[KeyCode::Char('4'), KeyCode::Enter]);
        assert_eq!(state.scope(), Some(&Scope::Dataset("tank/home".to_owned())));
        press(&mut state, &[KeyCode::Esc, KeyCode::End, KeyCode::Enter]);
        assert_eq!(state.scope(), None);
        // Another screen closes the dataset.
        press(
            &mut state,
            &[KeyCode::Home, KeyCode::Enter, KeyCode::Char('1')],
        );
        assert_eq!((state.scope(), state.screen), (None, Screen::Pools));
    }

    #[test]
    fn nothing_moves_while_it_pauses() {
        let mut state = state();
        let start = Instant::now();
        press(&mut state, &[KeyCode::Char('p')]);
        state.take(Err("gone".to_owned()));
        state.take(Ok(sample(start, 9, 9)));
        assert_eq!(state.trouble, None);
        let rates = state.between().and_then(|between| between.pool("tank"));
        assert_eq!(rates.map(|rates| rates.reads), Some(1000));
        press(&mut state, &[KeyCode::Char(' ')]);
        state.take(Err("gone".to_owned()));
        assert_eq!(state.trouble.as_deref(), Some("gone"));
    }

    /// The growth during ten minutes without an answer is not a rate.
    #[test]
    fn after_a_silence_rates_begin_anew() {
        let mut state = state();
        state.take(Err("gone".to_owned()));
        assert!(state.table().is_some(), "what was known is still shown");
        state.take(Ok(sample(Instant::now(), 4, 9000)));
        assert_eq!(state.trouble, None);
        let between = state.between().expect("an answer");
        assert_eq!(between.pool("tank"), None);
    }

    #[test]
    fn keys_sort_pace_explain_and_quit() {
        let mut state = state();
        assert_eq!(press(&mut state, &[KeyCode::Char('s')]), Wish::Nothing);
        assert_eq!(state.sort, Sort::Operations);
        press(&mut state, &[KeyCode::Char('r')]);
        assert!(state.is_reversed);
        let wish = press(&mut state, &[KeyCode::Char('+')]);
        assert_eq!(wish, Wish::Pace(Duration::from_secs(4)));
        let wish = press(&mut state, &[KeyCode::Char('-'); 9]);
        assert_eq!(wish, Wish::Pace(INTERVALS[0]));
        press(&mut state, &[KeyCode::Char('?')]);
        assert!(state.has_help);
        press(&mut state, &[KeyCode::Down]);
        assert!(!state.has_help);
        assert_eq!(press(&mut state, &[KeyCode::Char('q')]), Wish::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.key(interrupt), Wish::Quit);
    }

    #[test]
    fn histories_are_bounded_and_end_with_their_pool() {
        let start = Instant::now();
        let mut state = State::new(Duration::from_secs(1), None);
        for second in 0..HISTORY_MAX as u64 + 9 {
            state.take(Ok(sample(start, second, second * 10)));
        }
        let history = state.history().expect("of all pools");
        assert_eq!(history.len(), HISTORY_MAX);
        assert_eq!(history.back().map(|rates| rates.reads), Some(10));
        let mut empty = sample(start, 999, 0);
        empty.pools.clear();
        state.take(Ok(empty));
        assert!(!state.histories.contains_key("tank"));
    }
}
