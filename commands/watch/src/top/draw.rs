//! Draws the state into a terminal of any size.
//!
//! Narrow terminals omit columns by rank, low ones omit the sparklines. Colour only repeats what a
//! word says, so nothing is lost without it.

use ratatui::Frame;
use ratatui::layout::{Alignment, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, RenderDirection, Sparkline};

use super::screens::{Scope, Screen};
use super::state::{History, State};
use super::table::{Cell, Row, Table, Tone};
use cenote_words::format::harmless::harmless;
use cenote_words::format::number::{counted, duration, nicebytes, percent};

/// The minimum size to show anything.
const SIZE_MIN: (u16, u16) = (24, 5);
/// The minimum height for sparklines.
const GRAPH_HEIGHT_MIN: u16 = 14;
/// Height of a sparkline in lines.
const GRAPH_HEIGHT: u16 = 2;

const HELP: &str = "\
1 2 3 4, Tab   pools, devices, datasets, clients
Up Down        select a row (also k, j, Page, Home, End)
Enter          go into a pool, a device or a dataset
Esc            go out again
s              sort by name, operations, bytes, space
r              turn the order round
p, Space       pause, and continue
+ -            longer and shorter interval
Ctrl-R         ask the daemon now
? h            this help
q, Ctrl-C      quit

Rates are of the last interval. WAIT is the mean time of
a request; QUEUE has requests that wait or are carried out.
Any key closes this window.";

/// The appearance.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    /// Whether there is colour.
    pub has_colour: bool,
}

impl Looks {
    fn tone(self, tone: Tone) -> Style {
        let style = Style::default();
        match (tone, self.has_colour) {
            (Tone::Bad, true) => style.fg(Color::Red).add_modifier(Modifier::BOLD),
            (Tone::Bad, false) => style.add_modifier(Modifier::BOLD),
            (Tone::Warning, true) => style.fg(Color::Yellow),
            (Tone::Good, true) => style.fg(Color::Green),
            _ => style,
        }
    }

    fn colour(self, colour: Color) -> Style {
        match self.has_colour {
            true => Style::default().fg(colour),
            false => Style::default(),
        }
    }
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, state: &mut State, looks: Looks) {
    let area = frame.area();
    if area.width < SIZE_MIN.0 || area.height < SIZE_MIN.1 {
        let text = Paragraph::new("terminal too small");
        frame.render_widget(text, area);
        return;
    }
    let mut rest = area;
    let mut take = |lines: u16| {
        let taken = Rect {
            height: lines.min(rest.height),
            ..rest
        };
        rest.y += taken.height;
        rest.height -= taken.height;
        taken
    };
    summary(frame, take(1), state);
    tabs(frame, take(1), state, looks);
    if area.height >= GRAPH_HEIGHT_MIN
        && let Some(history) = state.history()
    {
        graphs(frame, take(GRAPH_HEIGHT), history, looks);
    }
    let body = take(rest_height(area, state));
    table(frame, body, state, looks);
    bottom(frame, take(1), state, looks);
    if state.has_help {
        help(frame, area);
    }
}

/// The remaining height for the table, without the last line.
fn rest_height(area: Rect, state: &State) -> u16 {
    let has_graphs = area.height >= GRAPH_HEIGHT_MIN && state.history().is_some();
    let graphs = if has_graphs { GRAPH_HEIGHT } else { 0 };
    area.height.saturating_sub(2 + graphs + 1)
}

/// A bar of `width` characters.
pub fn bar(part: u64, total: u64, width: usize) -> String {
    let filled = match total {
        0 => 0,
        total => (u128::from(part.min(total)) * width as u128).div_ceil(u128::from(total)) as usize,
    };
    format!("{}{}", "#".repeat(filled), "-".repeat(width - filled))
}

fn summary(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let mut words = vec!["cenote top".to_owned()];
    if let Some(between) = state.between() {
        let figures = &between.now.figures;
        words.push(counted(between.now.pools.len() as u64, "pool"));
        let used = figures.sum("cenote_memory_used_bytes", &[]);
        let limit = figures.sum("cenote_memory_limit_bytes", &[]);
        let memory = format!("memory {} of {}", nicebytes(used), nicebytes(limit));
        words.push(format!("{memory} [{}]", bar(used, limit, 8)));
        if let Some(hits) = between.hit_percent(None) {
            words.push(format!("cache hits {hits}%"));
        }
        let uptime = figures.sum("cenote_daemon_uptime_seconds", &[]);
        words.push(format!("up {}", duration(uptime)));
    }
    let mut line = words.join("  ");
    if line.chars().count() > usize::from(area.width) {
        line = words[..words.len().min(2)].join("  ");
    }
    frame.render_widget(Paragraph::new(line), area);
}

fn tabs(frame: &mut Frame<'_>, area: Rect, state: &State, looks: Looks) {
    let mut spans = Vec::new();
    for (index, screen) in Screen::ALL.into_iter().enumerate() {
        let is_shown = screen == state.screen;
        let style = match is_shown {
            true => looks.colour(Color::Cyan).add_modifier(Modifier::REVERSED),
            false => Style::default(),
        };
        // Narrow terminals show only the name of the current one.
        let text = match is_shown || area.width >= 60 {
            true => format!(" {} {} ", index + 1, screen.name()),
            false => format!(" {} ", index + 1),
        };
        spans.push(Span::styled(text, style));
    }
    for scope in &state.scopes {
        spans.push(Span::raw(format!(" > {}", harmless(scope.name()))));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

fn graphs(frame: &mut Frame<'_>, area: Rect, history: &History, looks: Looks) {
    type Rate = fn(&super::super::sample::Rates) -> u64;
    let half = area.width / 2;
    let sides: [(&str, Rate, Color); 2] = [
        ("read", |rates| rates.read_bytes, Color::Cyan),
        ("write", |rates| rates.written_bytes, Color::Magenta),
    ];
    for (index, (word, figure, colour)) in sides.into_iter().enumerate() {
        let side = Rect {
            x: area.x + half * index as u16,
            width: half,
            ..area
        };
        let label_width = 16.min(side.width);
        let label = Rect {
            width: label_width,
            ..side
        };
        let values: Vec<u64> = history.iter().rev().map(figure).collect();
        let newest = values.first().copied().unwrap_or(0);
        let most = values.iter().copied().max().unwrap_or(0);
        let lines = vec![
            Line::raw(format!("{word} {}/s", nicebytes(newest))),
            Line::raw(format!("  max {}/s", nicebytes(most))),
        ];
        frame.render_widget(Paragraph::new(lines), label);
        let graph = Rect {
            x: side.x + label_width,
            width: side.width.saturating_sub(label_width + 1),
            ..side
        };
        let sparkline = Sparkline::default()
            .data(values.as_slice())
            .max(most.max(1))
            .direction(RenderDirection::RightToLeft)
            .style(looks.colour(colour));
        frame.render_widget(sparkline, graph);
    }
}

/// The columns that fit, with their widths: the first one gets the remaining width.
fn columns(table: &Table, width: u16) -> Vec<(usize, u16)> {
    let mut places: Vec<usize> = (0..table.columns.len()).collect();
    places.sort_by_key(|place| (table.columns[*place].rank, *place));
    let (mut chosen, mut used) = (Vec::new(), 0_u16);
    for place in places {
        let wanted = table.columns[place].width + 1;
        if used + wanted > width + 1 {
            break;
        }
        used += wanted;
        chosen.push(place);
    }
    chosen.sort_unstable();
    let spare = (width + 1).saturating_sub(used);
    let widths = chosen.into_iter().map(|place| {
        let own = table.columns[place].width;
        (place, if place == 0 { own + spare } else { own })
    });
    let mut widths: Vec<(usize, u16)> = widths.collect();
    if widths.is_empty() {
        widths.push((0, width));
    }
    widths
}

/// A text of exactly this width: truncated with a mark, or padded.
fn fitted(text: &str, width: usize, is_number: bool) -> String {
    let length = text.chars().count();
    if length <= width {
        return match is_number {
            true => format!("{text:>width$}"),
            false => format!("{text:<width$}"),
        };
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}~")
}

/// As [`fitted`], for a path: keeps the end, because disks often differ only there.
fn fitted_path(path: &str, width: usize) -> String {
    let length = path.chars().count();
    if length <= width {
        return format!("{path:<width$}");
    }
    let kept = path.chars().skip(length - width.saturating_sub(1));
    let kept: String = kept.collect();
    format!("~{kept}")
}

fn is_path(text: &str) -> bool {
    text.starts_with('/') || text.contains("://")
}

fn cell_text(row: &Row, place: usize, width: usize) -> String {
    let cell = &row.cells[place];
    if let Cell::Share(part, total) = cell
        && *total > 0
        && width >= 9
    {
        let share = format!("{}%", percent(*part, *total));
        return format!("{} {share:>4}", bar(*part, *total, width - 5));
    }
    let indent = if place == 0 { row.depth * 2 } else { 0 };
    let text = cell.text();
    if is_path(&text) && indent < width {
        return format!("{:indent$}{}", "", fitted_path(&text, width - indent));
    }
    let text = format!("{:indent$}{text}", "");
    fitted(&text, width, cell.is_number())
}

fn table(frame: &mut Frame<'_>, area: Rect, state: &mut State, looks: Looks) {
    let Some(table) = state.table() else {
        let text = match &state.trouble {
            Some(_) => "The daemon does not answer.",
            None => "The daemon is asked...",
        };
        frame.render_widget(Paragraph::new(text), area);
        return;
    };
    let columns = columns(&table, area.width);
    let is_number = |place: usize| {
        let mut rows = table.rows.iter();
        rows.any(|row| row.cells[place].is_number())
    };
    let head: Vec<String> = columns
        .iter()
        .map(|(place, width)| {
            let header = table.columns[*place].header;
            fitted(header, usize::from(*width), is_number(*place))
        })
        .collect();
    let style = Style::default().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
    let mut lines = vec![Line::styled(head.join(" "), style)];
    let height = usize::from(area.height.saturating_sub(1));
    let selected = state.selected_place(&table);
    let last = table.rows.len().saturating_sub(height);
    let least = (selected + 1).saturating_sub(height);
    state.offset = state.offset.clamp(least, selected.max(least)).min(last);
    let shown = table
        .rows
        .iter()
        .enumerate()
        .skip(state.offset)
        .take(height);
    for (index, row) in shown {
        let mut spans = Vec::new();
        for (place, width) in &columns {
            let text = cell_text(row, *place, usize::from(*width));
            spans.push(Span::styled(text, looks.tone(row.cells[*place].tone())));
            spans.push(Span::raw(" "));
        }
        let mut line = Line::from(spans);
        if index == selected {
            line = line.style(Style::default().add_modifier(Modifier::REVERSED));
        }
        lines.push(line);
    }
    if table.rows.is_empty() {
        lines.push(Line::raw(nothing(state)));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Why there are no rows.
fn nothing(state: &State) -> &'static str {
    match (state.scope(), state.screen) {
        (Some(Scope::Vdev(..)), _) => "no requests: this is no leaf, or it is gone",
        (Some(Scope::Dataset(_)), _) => "no requests: it is not mounted, or is a volume",
        (_, Screen::Pools) => "no pool is imported: 'zpool import' shows which there are",
        (_, Screen::Devices) => "no devices",
        (_, Screen::Datasets) => "no datasets",
        (_, Screen::Clients) => "nothing is mounted, no volume has a client, and no site is served",
    }
}

fn bottom(frame: &mut Frame<'_>, area: Rect, state: &State, looks: Looks) {
    if let Some(trouble) = &state.trouble {
        let text = harmless(trouble).replace('\n', " ");
        let text = format!("no answer, trying again: {text}");
        let line = Line::styled(text, looks.tone(Tone::Bad));
        frame.render_widget(Paragraph::new(line), area);
        return;
    }
    let interval = state.interval.as_millis();
    let interval = format!("every {}.{:02} s", interval / 1000, interval % 1000 / 10);
    let order = if state.is_reversed { ", reversed" } else { "" };
    let mut text = format!("{interval}, by {}{order}", state.sort.word());
    if state.is_paused {
        text = format!("PAUSED  {text}");
    }
    frame.render_widget(Paragraph::new(text.as_str()), area);
    let keys = "?:help  Enter:into  Esc:out  s:sort  q:quit";
    if usize::from(area.width) > text.len() + keys.len() + 2 {
        let keys = Paragraph::new(keys).alignment(Alignment::Right);
        frame.render_widget(keys, area);
    }
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines = HELP.lines().count() as u16 + 2;
    let width = HELP.lines().map(str::len).max().unwrap_or(0) as u16 + 4;
    let (width, height) = (width.min(area.width), lines.min(area.height));
    let window = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, window);
    let block = Block::bordered().title(" keys ");
    frame.render_widget(Paragraph::new(HELP).block(block), window);
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::testing::sample;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Buffer;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use std::time::{Duration, Instant};

    fn state() -> State {
        let start = Instant::now();
        let mut state = State::new(Duration::from_secs(2), None);
        state.take(Ok(sample(start, 0, 0)));
        state.take(Ok(sample(start, 2, 2000)));
        state
    }

    fn buffer(state: &mut State, (width, height): (u16, u16), has_colour: bool) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let draw = |frame: &mut Frame<'_>| draw(frame, state, Looks { has_colour });
        terminal.draw(draw).expect("drawn");
        terminal.backend().buffer().clone()
    }

    fn lines(state: &mut State, size: (u16, u16)) -> Vec<String> {
        let buffer = buffer(state, size, false);
        let line = |y: u16| -> String { (0..size.0).map(|x| buffer[(x, y)].symbol()).collect() };
        (0..size.1).map(line).collect()
    }

    fn press(state: &mut State, code: KeyCode) {
        state.key(KeyEvent::new(code, KeyModifiers::NONE));
    }

    #[test]
    fn a_wide_terminal_shows_all_columns() {
        let text = lines(&mut state(), (160, 24)).join("\n");
        assert!(
            text.contains("cenote top  1 pool  memory 512M of 1G [####----]"),
            "{text}"
        );
        assert!(
            text.contains(" 1 pools ") && text.contains("4 clients"),
            "{text}"
        );
        assert!(text.contains("read 3.91M/s"), "{text}");
        assert!(text.contains("POOL") && text.contains("ACTIVITY"), "{text}");
        assert!(
            text.contains("ONLINE") && text.contains("#---  25%"),
            "{text}"
        );
        assert!(text.contains("every 2.00 s, by name"), "{text}");
    }

    /// Draws any size without panic, and the name is the last column to disappear.
    #[test]
    fn every_size_of_terminal_is_drawn() {
        for screen in ['1', '2', '3', '4', '?'] {
            let mut state = state();
            press(&mut state, KeyCode::Char(screen));
            for width in (1..130).step_by(7) {
                for height in 1..30 {
                    lines(&mut state, (width, height));
                }
            }
        }
        let text = lines(&mut state(), (24, 6)).join("\n");
        assert!(text.contains("tank") && text.contains("ONLINE"), "{text}");
        assert!(lines(&mut state(), (10, 2))[0].starts_with("terminal t"));
    }

    #[test]
    fn the_selected_row_stays_in_sight() {
        let mut state = state();
        press(&mut state, KeyCode::Char('2'));
        press(&mut state, KeyCode::End);
        // A head, tabs, the header, one row, the bottom.
        let text = lines(&mut state, (60, 5));
        assert!(text[3].contains("sdb"), "{text:?}");
        press(&mut state, KeyCode::Home);
        let text = lines(&mut state, (60, 5));
        assert!(text[3].starts_with("tank"), "{text:?}");
    }

    #[test]
    fn without_colour_there_is_none() {
        let mut state = state();
        let is_plain = |buffer: &Buffer| {
            let mut cells = buffer.content.iter();
            cells.all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
        };
        assert!(is_plain(&buffer(&mut state, (120, 20), false)));
        assert!(!is_plain(&buffer(&mut state, (120, 20), true)));
    }

    #[test]
    fn a_daemon_that_is_gone_is_named_and_the_rows_stay() {
        let mut state = state();
        state.take(Err("it is not running\nat \x1b[31mall".to_owned()));
        let text = lines(&mut state, (100, 12)).join("\n");
        assert!(text.contains("no answer, trying again: it is not running at ?[31mall"));
        assert!(text.contains("tank"), "{text}");
        let mut fresh = State::new(Duration::from_secs(1), None);
        let text = lines(&mut fresh, (60, 12)).join("\n");
        assert!(text.contains("The daemon is asked..."), "{text}");
    }

    #[test]
    fn bars_are_never_longer_than_their_place() {
        assert_eq!(bar(0, 10, 4), "----");
        assert_eq!(bar(1, 1000, 4), "#---");
        assert_eq!(bar(99, 10, 4), "####");
        assert_eq!(bar(1, 0, 4), "----");
        assert_eq!(fitted("abcdef", 4, false), "abc~");
        assert_eq!(fitted("ab", 4, true), "  ab");
    }

    /// In a narrow terminal, two disks were both shown as `/dev/disk/by-id/a~`.
    #[test]
    fn of_a_path_the_end_is_shown() {
        let row = |path: &str| Row {
            key: String::new(),
            pool: "tank".to_owned(),
            depth: 1,
            cells: vec![Cell::Text(path.to_owned())],
        };
        let path = "/dev/disk/by-id/ata-one-2";
        assert_eq!(cell_text(&row(path), 0, 12), "  ~ata-one-2");
        assert_eq!(cell_text(&row("s3://bucket/tank"), 0, 9), "  ~t/tank");
        assert_eq!(cell_text(&row("/a"), 0, 6), "  /a  ");
        assert_eq!(cell_text(&row("mirror-10"), 0, 8), "  mirro~");
        for width in 0..4 {
            assert!(cell_text(&row(path), 0, width).chars().count() <= width.max(1));
        }
    }
}
