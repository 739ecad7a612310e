//! A terminal in a graph: the thesis' VT-100 and text window (chapter 4, tables 7.2 and 7.5).
//!
//! `vt100` keeps the screen that bytes make, and gives it behind each block: a line each row, with the sequences of its styles. `window` has the last lines that
//! came, so of a `vt100` with as many rows just its screen, or draws numbers as bars, and a thread of its own brings the user's terminal up to date: at most 60 times a second, and
//! only rows that changed. So a stage that is faster than the terminal waits for nothing, and a terminal that stands still (Ctrl-S) holds nothing up before
//! the end. What is overwritten between two pictures is not drawn.
//!
//! Where stdout is no terminal, a window writes what it has at the end.
//!
//! ```text
//!   put: takes the rows' lock, for a copy -- counts in CHANGED, and wakes
//!   the thread: sleeps while CHANGED stands -- copies the rows -- draws -- rests a sixtieth of a second
//! ```

use crate::kind::{Anew, Call, Kind, Plan, Wrong};
use crate::stage::{Fault, Out, Stage, stage};
use crate::types::{Block, Element, Type};
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::futex::{self, Scope};
use chappe_plat::{file, thread};
use chappe_term::feed::Emulator;
use chappe_term::screen;
use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a picture stands at least.
const PICTURE: Duration = Duration::from_micros(16_600);
/// Frames with more numbers than this are drawn as columns, others as a bar each.
const BARS: usize = 8;
/// How many columns numbers are drawn with.
const WIDE: usize = 72;

/// How many bytes of rows may leave the screen before they are dropped: a few bytes can clear a large one.
const SCROLLED: usize = 1 << 20;

/// A line of text that is longer goes on in the next row.
const LONG: usize = 64 << 10;

struct Vt100(Emulator);

impl Stage for Vt100 {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let mut rest: &[u8] = block.octets();
        while !rest.is_empty() {
            rest = &rest[self.0.feed_some(rest, SCROLLED)..];
            // A window has no history.
            self.0.screen_mut().take_scrolled();
        }
        let (screen, mut lines) = (self.0.screen(), Vec::new());
        for row in 0..screen.rows() {
            lines.extend(screen.encoded(row));
            lines.push(b'\n');
        }
        out.put(Block::bytes(lines))
    }

    fn says(&self) -> Option<String> {
        let (screen, cursor) = (self.0.screen(), self.0.screen().cursor());
        let (columns, rows) = (screen.columns(), screen.rows());
        Some(format!("{columns}x{rows}, the cursor in row {}, column {}", cursor.row + 1, cursor.column + 1))
    }
}

/// What the stage and the thread have in common.
struct Shared {
    rows: Mutex<VecDeque<Vec<u8>>>,
    /// How often the rows have changed; its last bit is set when there is no stage any more.
    changed: AtomicU32,
    drawn: Mutex<Pictures>,
}

/// The last bit of `changed`.
const OVER: u32 = 1;

/// What a terminal shows under its last line: pictures of rows, of which only what changed is drawn.
///
/// The cursor stands in the line below, so of one terminal there is one: see [`Pictures::take`].
#[derive(Debug, Default)]
pub struct Pictures {
    rows: Vec<Vec<u8>>,
    pictures: u64,
    taken: bool,
}

/// Whether the process's terminal has pictures.
static TAKEN: AtomicU32 = AtomicU32::new(0);

impl Drop for Pictures {
    fn drop(&mut self) {
        if self.taken {
            TAKEN.store(0, Ordering::Relaxed); // Relaxed: it orders nothing else.
        }
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pictures {
    /// Those of the process's terminal, until they are dropped; none while others have it.
    pub fn take() -> Option<Pictures> {
        // Relaxed: it orders nothing else.
        (TAKEN.swap(1, Ordering::Relaxed) == 0).then(|| Pictures { rows: Vec::new(), pictures: 0, taken: true })
    }

    /// What brings a terminal of so many lines from what it shows to these rows, or the last of them that have room; nothing if it shows them. The cursor
    /// stands in the line below.
    pub fn picture(&mut self, lines: usize, rows: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
        let mut rows: Vec<Vec<u8>> = rows.into_iter().collect();
        rows.drain(..rows.len().saturating_sub(lines.saturating_sub(1).max(1)));
        self.rows.drain(..self.rows.len().saturating_sub(rows.len()));
        let more = rows.len().saturating_sub(self.rows.len());
        let mut out = b"\x1b[?2026h\x1b[?7l".to_vec();
        let empty = out.len();
        // From the top of the window on, below which there is room.
        out.extend(std::iter::repeat_n(b'\n', more));
        self.rows.resize(rows.len(), Vec::new());
        let count = rows.len();
        for (at, row) in rows.into_iter().enumerate() {
            if self.rows[at] != row {
                out.extend(format!("\x1b[{}A\r\x1b[2K", count - at).bytes());
                out.extend(&row);
                out.extend(format!("\x1b[0m\r\x1b[{}B", count - at).bytes());
                self.rows[at] = row;
            }
        }
        if out.len() == empty {
            return Vec::new();
        }
        self.pictures += 1;
        out.extend(b"\x1b[?7h\x1b[?2026l");
        out
    }

    /// The next picture draws all rows anew, and what sets the terminal back is written in any case.
    fn last(&mut self, lines: usize, rows: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
        self.rows.iter_mut().for_each(Vec::clear);
        let mut out = self.picture(lines, rows);
        out.extend(b"\x1b[?7h\x1b[?2026l");
        out
    }
}

impl Shared {
    fn tell(&self, over: bool) {
        // Relaxed, both: what changed is behind the lock.
        match over {
            true => self.changed.fetch_or(OVER, Ordering::Relaxed),
            false => self.changed.fetch_add(2, Ordering::Relaxed), // Relaxed: as above.
        };
        futex::wake(&self.changed, 1, Scope::Private);
    }

    fn draw(&self, last: bool) -> io::Result<()> {
        let mut to = io::stdout().lock();
        let mut drawn = locked(&self.drawn);
        // Relaxed: as in `tell`. Behind the locks: nothing is drawn behind the last picture, or behind an error's message.
        if !last && self.changed.load(Ordering::Relaxed) & OVER != 0 {
            return Ok(());
        }
        let lines = file::terminal_lines(&to).unwrap_or(usize::MAX);
        let rows = locked(&self.rows).clone();
        let picture = if last { drawn.last(lines, rows) } else { drawn.picture(lines, rows) };
        to.write_all(&picture)?;
        to.flush()
    }

    /// Draws until there is no stage any more, or the terminal has gone.
    fn follow(&self) {
        let mut seen = 0;
        loop {
            futex::wait(&self.changed, seen, None, Scope::Private);
            seen = self.changed.load(Ordering::Relaxed); // Relaxed: as in `tell`.
            if seen & OVER != 0 || self.draw(false).is_err() {
                return;
            }
            std::thread::sleep(PICTURE);
        }
    }
}

struct Window {
    shared: Arc<Shared>,
    most: usize,
    /// Of numbers: how many a frame has.
    frame: Option<usize>,
    /// The greatest so far.
    scale: f32,
    /// Of text: its last line as far as it came, if it goes on in the next block.
    begun: Vec<u8>,
    live: bool,
}

impl Window {
    /// `live`: it draws on the process's terminal.
    fn begin(most: usize, frame: Option<usize>, live: bool) -> Result<Window, Fault> {
        let (rows, changed) = (Mutex::new(VecDeque::new()), AtomicU32::new(0));
        let drawn = if live {
            Pictures::take().ok_or_else(|| Fault::new("another `window` draws on this terminal: a graph has one"))?
        } else {
            Pictures::default()
        };
        let shared = Arc::new(Shared { rows, changed, drawn: Mutex::new(drawn) });
        if live {
            let to = Arc::clone(&shared);
            thread::background("window", move || to.follow())?;
        }
        Ok(Window { shared, most, frame, scale: 0.0, begun: Vec::new(), live })
    }
}

impl Stage for Window {
    fn put(&mut self, mut block: Block, _: &mut dyn Out) -> Result<(), Fault> {
        let new: Vec<Vec<u8>> = match self.frame {
            None => {
                let mut joined = std::mem::take(&mut self.begun);
                let goes_on = !joined.is_empty();
                let mut text: &[u8] = block.octets();
                if goes_on {
                    joined.extend(text);
                    text = &joined;
                }
                let lines = || text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n');
                let last = lines().next_back().filter(|last| !text.ends_with(b"\n") && last.len() < LONG);
                self.begun = last.unwrap_or_default().to_vec();
                if goes_on {
                    locked(&self.shared.rows).pop_back();
                }
                lines().rev().take(self.most).map(clean).collect()
            }
            Some(frame) => {
                let Some(last) = block.numbers().chunks_exact(frame).next_back() else { return Ok(()) };
                let greatest = last.iter().copied().map(f32::abs).filter(|x| x.is_finite()).fold(0.0, f32::max);
                self.scale = self.scale.max(greatest);
                let rows = if frame <= BARS { bars(last, self.scale) } else { columns(last, self.scale, self.most) };
                let mut shown = locked(&self.shared.rows);
                *shown = rows.into();
                drop(shown);
                self.shared.tell(false);
                return Ok(());
            }
        };
        let mut rows = locked(&self.shared.rows);
        rows.extend(new.into_iter().rev());
        let too_many = rows.len().saturating_sub(self.most);
        rows.drain(..too_many);
        drop(rows);
        self.shared.tell(false);
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Out) -> Result<(), Fault> {
        self.shared.tell(true);
        if self.live {
            return Ok(self.shared.draw(true)?);
        }
        let mut to = io::stdout().lock();
        for row in locked(&self.shared.rows).iter() {
            to.write_all(row)?;
            to.write_all(b"\n")?;
        }
        Ok(to.flush()?)
    }

    fn says(&self) -> Option<String> {
        self.live.then(|| format!("{} pictures", locked(&self.shared.drawn).pictures))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.shared.tell(true);
    }
}

/// A line without what would move the cursor or set the terminal: only characters and the sequences of styles.
fn clean(line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    let (mut out, mut rest) = (String::new(), &*text);
    while let Some(c) = rest.chars().next() {
        let style = rest.strip_prefix("\x1b[").and_then(|sequence| {
            let end = sequence.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == ':'))?;
            sequence[end..].starts_with('m').then_some(end + 3)
        });
        let len = style.unwrap_or(c.len_utf8());
        match c {
            '\t' => out.push_str("        "),
            c if style.is_none() && c.is_control() => {}
            _ => out.push_str(&rest[..len]),
        }
        rest = &rest[len..];
    }
    out.into_bytes()
}

/// How far a number is from 0 to the greatest, from 0 to 1.
fn part(x: f32, scale: f32) -> f32 {
    if scale > 0.0 && x.is_finite() { (x.abs() / scale).min(1.0) } else { 0.0 }
}

/// A bar for each number.
fn bars(numbers: &[f32], scale: f32) -> Vec<Vec<u8>> {
    let bar = |(at, x): (usize, &f32)| {
        let eighths = (part(*x, scale) * (WIDE * 8) as f32) as usize;
        let mut bar = "█".repeat(eighths / 8);
        bar.extend(["▏", "▎", "▍", "▌", "▋", "▊", "▉"].get((eighths % 8).wrapping_sub(1)).copied());
        format!("{:>3} {x:>10.4} {bar}", at + 1).into_bytes()
    };
    numbers.iter().enumerate().map(bar).collect()
}

/// A column for some neighbours: the greatest of them.
fn columns(numbers: &[f32], scale: f32, high: usize) -> Vec<Vec<u8>> {
    let wide = WIDE.min(numbers.len());
    let greatest = |at: usize| {
        let (from, to) = (at * numbers.len() / wide, (at + 1) * numbers.len() / wide);
        let all = numbers[from..to].iter();
        (all.map(|x| part(*x, scale)).fold(0.0, f32::max) * (high * 8) as f32) as usize
    };
    let heights: Vec<usize> = (0..wide).map(greatest).collect();
    let row = |below: usize| {
        let cell =
            |height: &usize| [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"][height.saturating_sub(below * 8).min(8)];
        heights.iter().map(cell).collect::<String>().into_bytes()
    };
    (0..high).rev().map(row).collect()
}

fn size(call: &Call<'_>, position: usize, key: &str, or: f64, most: f64) -> Result<usize, Wrong> {
    Ok(call.number_or(position, key, (1.0, most), or)? as usize)
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::new(
            "vt100",
            "[COLUMNS=80] [ROWS=24]",
            "the screen of a terminal that gets these bytes: a line each row",
            |call| {
                let input = call.input()?;
                if !matches!(input.element, Element::Byte | Element::Line) {
                    return Err(call.mismatch(input, "bytes or lines", "`csv` and `json` make lines of records"));
                }
                let (columns, rows) = (size(call, 0, "columns", 80.0, 1000.0)?, size(call, 1, "rows", 24.0, 500.0)?);
                if screen::fit(columns, rows) != (columns, rows) {
                    let most = screen::MOST_CELLS / columns;
                    return Err(Wrong::new(format!("`vt100` of {columns} columns has at most {most} rows")));
                }
                let screen = move || stage(Vt100(Emulator::new(columns, rows)));
                Ok(Plan::filter(Type::of(Element::Line), screen))
            },
        ),
        Kind::new(
            "window",
            "[ROWS=24]",
            "the last lines on the user's terminal, or numbers as bars, at most 60 times a second",
            |call| {
                let input = call.input()?;
                let frame = match input.element {
                    Element::Byte | Element::Line => None,
                    Element::F32 => Some(input.shape as usize),
                    _ => {
                        let how = "`csv` makes lines of records, `cast f32` numbers of samples";
                        return Err(call.mismatch(input, "lines or f32", how));
                    }
                };
                let most = size(call, 0, "rows", 24.0, 500.0)?;
                let plan = Plan::sink(move || stage(Window::begin(most, frame, io::stdout().is_terminal())?));
                // It draws on the terminal of the process that runs the graph.
                Ok(Plan { anew: Anew::Here, ..plan })
            },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Kept;
    use chappe_term::line;

    fn shown(emulator: &Emulator) -> Vec<String> {
        let screen = emulator.screen();
        (0..screen.rows()).map(|row| line::plain(&screen.encoded(row))).collect()
    }

    #[test]
    fn a_screen_comes_behind_each_block_however_its_bytes_are_split() {
        let text = b"one\r\n\x1b[31mred\x1b[m\x1b[1;3Hx\x1b[3;1H\xc3\xa4";
        for size in 1..=text.len() {
            let (mut stage, mut out) = (Vt100(Emulator::new(5, 3)), Kept::default());
            for part in text.chunks(size) {
                stage.put(Block::bytes(part.to_vec()), &mut out).unwrap();
            }
            assert_eq!(out.blocks.len(), text.len().div_ceil(size));
            let last = out.blocks.last_mut().unwrap().octets().clone();
            let plain: Vec<String> = last.split(|b| *b == b'\n').map(line::plain).collect();
            assert_eq!(plain, ["onx", "red", "ä", ""], "{size}");
            assert!(String::from_utf8(last).unwrap().contains("31m"));
        }
    }

    #[test]
    fn a_terminal_with_too_few_lines_shows_the_last_rows() {
        let (mut drawn, mut terminal) = (Pictures::default(), Emulator::new(10, 4));
        for many in [9, 9, 2, 5] {
            let picture = drawn.picture(4, (0..many).map(|row| format!("{many}{row}").into_bytes()));
            terminal.feed(String::from_utf8(picture).unwrap().replace('\n', "\r\n").as_bytes());
            let last = (many - many.min(3)..many).map(|row| format!("{many}{row}"));
            let shown: Vec<String> = (0..4).map(|row| line::plain(&terminal.screen().encoded(row))).collect();
            let from = 3 - many.min(3);
            assert_eq!(shown[from..3], last.collect::<Vec<_>>(), "{shown:?}");
        }
        let bytes = |n: usize| vec![vec![b'x'; n]];
        assert!(drawn.picture(4, bytes(1)).len() > 10);
        assert!(drawn.picture(4, bytes(1)).is_empty());
        assert!(drawn.last(4, bytes(1)).ends_with(b"\x1b[?7h\x1b[?2026l"));
    }

    #[test]
    fn a_terminal_has_one_that_draws_at_a_time() {
        let first = Pictures::take().unwrap();
        assert!(Pictures::take().is_none());
        drop(first);
        assert!(Pictures::take().is_some());
    }

    #[test]
    fn a_terminal_shows_the_rows_of_the_window_and_gets_only_what_changed() {
        let (mut drawn, mut terminal) = (Pictures::default(), Emulator::new(10, 4));
        terminal.feed(b"$ run\r\n");
        let mut lengths = Vec::new();
        for rows in [vec!["a", "b"], vec!["a", "c"], vec!["a", "c"], vec!["x", "c", "a longer than it is"]] {
            let picture = drawn.picture(usize::MAX, rows.iter().map(|row| row.as_bytes().to_vec()));
            // As the kernel's terminal has it.
            terminal.feed(String::from_utf8(picture.clone()).unwrap().replace('\n', "\r\n").as_bytes());
            lengths.push(picture.len());
        }
        // What is too long goes on in the last column.
        assert_eq!(shown(&terminal), ["x", "c", "a longer s", ""]);
        assert_eq!((lengths[2], drawn.pictures), (0, 3));
        assert!(lengths[1] < lengths[0], "{lengths:?}");
    }

    #[test]
    fn a_window_has_the_last_lines_and_nothing_that_sets_the_terminal() {
        let mut window = Window::begin(2, None, false).unwrap();
        let mut out = Kept::default();
        for text in ["1\n2\n3\n", "\x1b[1m4\x1b[2J\x07\x1b]0;x\n"] {
            window.put(Block::bytes(text.as_bytes().to_vec()), &mut out).unwrap();
        }
        assert_eq!(*locked(&window.shared.rows), [b"3".to_vec(), b"\x1b[1m4[2J]0;x".to_vec()]);
    }

    #[test]
    fn a_line_that_comes_in_pieces_is_one() {
        let mut window = Window::begin(3, None, false).unwrap();
        let mut out = Kept::default();
        for text in ["1\n2", "2", "2\n", "\n3", "3"] {
            window.put(Block::bytes(text.as_bytes().to_vec()), &mut out).unwrap();
        }
        assert_eq!(*locked(&window.shared.rows), [b"222".to_vec(), b"".to_vec(), b"33".to_vec()]);
    }

    #[test]
    fn numbers_are_bars_of_their_part_of_the_greatest() {
        let bar = |x: f32| String::from_utf8(bars(&[x], 2.0).remove(0)).unwrap().matches('█').count();
        assert_eq!((bar(2.0), bar(-1.0), bar(0.0), bar(f32::NAN)), (WIDE, WIDE / 2, 0, 0));
        let rows: Vec<String> = columns(&[0.0, 0.5, 1.0, f32::INFINITY, 0.25, 0.0, 0.0, 0.0, 0.0], 1.0, 2)
            .into_iter()
            .map(|row| String::from_utf8(row).unwrap())
            .collect();
        assert_eq!(rows, ["  █      ", " ██ ▄    "]);
    }
}
