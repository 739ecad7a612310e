//! The screen: two grids, a cursor, and what a program can do to them. It does no input and no output.
//!
//! It is xterm's, as far as programs use it. Deliberate differences: `CSI 3 J` does not erase the history, and `CSI 2 J` first moves what
//! stands on the screen into it (as tmux does), so that what a program has written can be read, and waited for, by the number of its line.
//!
//! **Lines have numbers.** The first row of the main screen is line [`Screen::base`]; it grows by one with each row that leaves the screen at
//! the top. A number never means another line later. Rows that leave go through [`Screen::take_scrolled`] into a history, which is not kept here.

use crate::cell::{Cell, Glyph, Style};
use crate::grid::Grid;
use crate::intern::{Cluster, Table};
use crate::line;
use crate::modes::{self, Modes};
use unicode_width::UnicodeWidthChar;

/// The most columns.
pub const MOST_COLUMNS: usize = 10_000;

/// The most rows.
pub const MOST_ROWS: usize = 2_000;

/// The most cells of one screen: rows are fewer where columns are many.
pub const MOST_CELLS: usize = 1 << 18;

/// How many different styles a screen can have at once. With more, true colours are rounded to the palette's.
pub const MOST_STYLES: usize = 1 << 14;

/// How many different clusters it can have at once. With more, marks are left out.
pub const MOST_CLUSTERS: usize = 1 << 12;

/// The most bytes of answers that wait for the program to read them. What does not fit is left out.
pub const MOST_ANSWERS: usize = 1024;

/// So many bytes for rows that have left the screen are kept for the next ones.
const MOST_KEPT: usize = 64 << 10;

/// The most bytes of a title.
pub const MOST_TITLE: usize = 256;

/// The cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor {
    /// Its row, from 0.
    pub row: usize,
    /// Its column, from 0.
    pub column: usize,
    /// Whether the last column was written, so that the next character goes into the next row.
    pub is_past: bool,
}

/// What DECSC saves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Saved {
    pub(crate) cursor: Cursor,
    pub(crate) style: Style,
    pub(crate) drawing: u8,
    pub(crate) is_origin: bool,
}

/// Rows that have left the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrolled {
    /// Their text, one after the other, with the sequences of their styles.
    pub text: Vec<u8>,
    /// Of each row, where its text ends, and whether its line goes on in the next row.
    pub ends: Vec<(usize, bool)>,
    /// Of each row, the position of the byte that last changed it.
    pub changed: Vec<u64>,
}

/// A terminal's screen.
#[derive(Clone, Debug)]
pub struct Screen {
    pub(crate) main: Grid,
    pub(crate) alternate: Grid,
    pub(crate) cursor: Cursor,
    pub(crate) style: Style,
    /// The number of that style, and of its erased form.
    pub(crate) number: u16,
    pub(crate) erased: u16,
    /// Bits 0 to 3: which of G0 to G3 has line drawing; bits 4 and 5: which is in use.
    pub(crate) drawing: u8,
    pub(crate) saved: [Saved; 2],
    /// The region that scrolls: its first row, and the one behind its last.
    pub(crate) top: usize,
    pub(crate) bottom: usize,
    pub(crate) modes: Modes,
    pub(crate) shape: u8,
    pub(crate) tabs: Vec<bool>,
    pub(crate) styles: Table<Style>,
    pub(crate) clusters: Table<Cluster>,
    pub(crate) title: String,
    pub(crate) answers: Vec<u8>,
    pub(crate) scrolled: Scrolled,
    pub(crate) base: u64,
    pub(crate) last: char,
    pub(crate) bells: u64,
    /// How often numbers of styles and clusters were given anew.
    pub(crate) sweeps: u64,
    pub(crate) now: u64,
}

/// A size that a screen can have, next to the one that is wanted. 0 is 1.
pub fn fit(columns: usize, rows: usize) -> (usize, usize) {
    let columns = columns.clamp(1, MOST_COLUMNS);
    (columns, rows.clamp(1, MOST_ROWS.min(MOST_CELLS / columns)))
}

/// A stop at every eighth column.
pub(crate) fn usual_tabs(columns: usize) -> Vec<bool> {
    (0..columns).map(|at| at % 8 == 0).collect()
}

impl Screen {
    /// An empty one; the size is made to [`fit`].
    pub fn new(columns: usize, rows: usize) -> Screen {
        let (columns, rows) = fit(columns, rows);
        Screen {
            main: Grid::new(columns, rows, 1),
            alternate: Grid::new(columns, rows, 1),
            cursor: Cursor::default(),
            style: Style::default(),
            number: 0,
            erased: 0,
            drawing: 0,
            saved: Default::default(),
            top: 0,
            bottom: rows,
            modes: Modes::default(),
            shape: 0,
            tabs: usual_tabs(columns),
            styles: Table::new(MOST_STYLES),
            clusters: Table::new(MOST_CLUSTERS),
            title: String::new(),
            answers: Vec::new(),
            scrolled: Scrolled::default(),
            base: 0,
            last: ' ',
            bells: 0,
            sweeps: 0,
            now: 1,
        }
    }

    /// How many columns it has.
    pub fn columns(&self) -> usize {
        self.main.columns()
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.main.rows()
    }

    /// Where the cursor is.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// What is switched on.
    pub fn modes(&self) -> Modes {
        self.modes
    }

    /// The shape of the cursor, as DECSCUSR numbers it.
    pub fn shape(&self) -> u8 {
        self.shape
    }

    /// The title that the program gave the window.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// How often the program has rung the bell.
    pub fn bells(&self) -> u64 {
        self.bells
    }

    /// The number of the line in the first row of the main screen.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The number of the line that the cursor is in.
    pub fn line(&self) -> u64 {
        self.base + self.cursor.row as u64
    }

    /// The rows that are shown.
    pub fn shown(&self) -> &Grid {
        if self.modes.has(modes::ALTERNATE) { &self.alternate } else { &self.main }
    }

    pub(crate) fn shown_mut(&mut self) -> &mut Grid {
        if self.modes.has(modes::ALTERNATE) { &mut self.alternate } else { &mut self.main }
    }

    /// The style of a cell.
    pub fn style_of(&self, cell: Cell) -> Style {
        self.styles.value(cell.style())
    }

    /// What a cell shows, as text: a space where nothing was written, nothing for the second column of a wide character.
    pub fn text_of(&self, cell: Cell, out: &mut String) {
        match cell.glyph() {
            _ if cell.is_tail() => {}
            Glyph::Nothing => out.push(' '),
            Glyph::Char(c) => out.push(c),
            Glyph::Cluster(number) => out.push_str(&self.clusters.value(number).text()),
        }
    }

    /// The text of a row, without the spaces at its end.
    pub fn text(&self, row: usize) -> String {
        self.text_before(row, self.columns())
    }

    /// The text of a row up to a column, without the spaces at its end.
    pub fn text_before(&self, row: usize, column: usize) -> String {
        let (mut out, cells) = (String::new(), self.shown().row(row));
        cells[..column.min(cells.len())].iter().for_each(|cell| self.text_of(*cell, &mut out));
        out.truncate(out.trim_end_matches(' ').len());
        out
    }

    /// The answers to the program's questions, which are to be given to it as if they were typed.
    pub fn answers(&self) -> &[u8] {
        &self.answers
    }

    /// So many bytes of the answers were given.
    pub fn answered(&mut self, bytes: usize) {
        self.answers.drain(..bytes);
    }

    pub(crate) fn answer(&mut self, text: &str) {
        if self.answers.len() + text.len() <= MOST_ANSWERS {
            self.answers.extend(text.bytes());
        }
    }

    /// The rows that have left the screen since the last call.
    pub fn take_scrolled(&mut self) -> Scrolled {
        std::mem::take(&mut self.scrolled)
    }

    /// Takes their memory back, if it is not much: the next rows need none of their own.
    pub fn reuse(&mut self, mut scrolled: Scrolled) {
        if self.scrolled.ends.is_empty() && scrolled.text.capacity() <= MOST_KEPT {
            scrolled.text.clear();
            scrolled.ends.clear();
            scrolled.changed.clear();
            self.scrolled = scrolled;
        }
    }

    /// Says that what was changed so far is saved: later changes have the next number.
    pub fn saved(&mut self) {
        self.now += 1;
        self.main.begin(self.now);
        self.alternate.begin(self.now);
    }

    /// What comes next is done by the byte of this position in the program's stream, counted from 1.
    pub(crate) fn at_byte(&mut self, position: u64) {
        self.main.at(position);
        self.alternate.at(position);
    }

    /// In one piece with what reads the sequence: then the style goes through registers, and each coloured word costs half as much.
    #[inline(always)]
    pub(crate) fn set_style(&mut self, style: Style) {
        let is_erased_alike = style.background == self.style.background;
        self.style = style;
        self.number = self.number_of(style);
        if !is_erased_alike {
            self.erased = self.number_of(style.erased());
        }
    }

    #[inline(always)]
    fn number_of(&mut self, style: Style) -> u16 {
        self.styles.number(style).unwrap_or_else(|| self.number_in_full_table(style))
    }

    #[cold]
    fn number_in_full_table(&mut self, style: Style) -> u16 {
        if self.styles.may_be_swept() {
            self.sweep();
        }
        let rounded = Style {
            foreground: style.foreground.nearest(),
            background: style.background.nearest(),
            flags: style.flags,
        };
        self.styles.number(style).or_else(|| self.styles.number_of_substitute(rounded)).unwrap_or(0)
    }

    /// Throws out the styles and clusters that no cell has any more.
    fn sweep(&mut self) {
        self.sweeps += 1;
        let (mut styles, mut clusters) = (vec![false; MOST_STYLES], vec![false; MOST_CLUSTERS]);
        for cell in self.main.cells().iter().chain(self.alternate.cells()) {
            styles.get_mut(usize::from(cell.style())).into_iter().for_each(|named| *named = true);
            if let Glyph::Cluster(number) = cell.glyph() {
                clusters.get_mut(usize::from(number)).into_iter().for_each(|named| *named = true);
            }
        }
        let styles = self.styles.keep(|number| styles[usize::from(number)]);
        let clusters = self.clusters.keep(|number| clusters[usize::from(number)]);
        for grid in [&mut self.main, &mut self.alternate] {
            grid.each(|cell| {
                let cell = cell.with_style(styles.get(usize::from(cell.style())).copied().unwrap_or(0));
                match cell.glyph() {
                    Glyph::Cluster(n) => cell.with_cluster(clusters.get(usize::from(n)).copied().unwrap_or(0)),
                    _ => cell,
                }
            });
        }
        let style = self.style;
        self.number = self.styles.number(style).unwrap_or(0);
        self.erased = self.styles.number(style.erased()).unwrap_or(0);
    }

    pub(crate) fn blank(&self) -> Cell {
        Cell::blank(self.erased)
    }

    /// Writes printable ASCII that has so many bytes of the program's stream before it.
    pub(crate) fn put_ascii(&mut self, mut bytes: &[u8], mut before: u64) {
        let is_plain = self.drawing >> (self.drawing >> 4 & 3) & 1 == 0 && !self.modes.has(modes::INSERT);
        if let Some(last) = bytes.last() {
            self.last = char::from(*last);
        }
        if !is_plain || !self.modes.has(modes::WRAP) {
            for (position, byte) in (before + 1..).zip(bytes) {
                self.at_byte(position);
                self.put(char::from(*byte));
            }
            return;
        }
        while !bytes.is_empty() {
            if self.cursor.is_past {
                self.at_byte(before + 1);
                self.wrap();
            }
            let Cursor { row, column, .. } = self.cursor;
            let (number, columns) = (self.number, self.columns());
            let (now, later) = bytes.split_at(bytes.len().min(columns - column));
            before += now.len() as u64;
            self.at_byte(before);
            let end = column + now.len();
            let style = Cell::blank(number).0;
            for (cell, byte) in self.shown_mut().over(row, column, end).iter_mut().zip(now) {
                *cell = Cell(style | u64::from(*byte));
            }
            self.cursor.is_past = end == columns;
            self.cursor.column = end.min(columns - 1);
            bytes = later;
        }
    }

    /// Writes a character.
    pub(crate) fn put(&mut self, c: char) {
        let c = self.drawn(c);
        let columns = self.columns();
        let width = match c.width() {
            Some(0) => return self.combine(c),
            // A control character among them is none for the screen.
            None => return,
            Some(width) if width > columns => return,
            Some(width) => width,
        };
        self.last = c;
        if self.cursor.is_past {
            self.wrap();
        }
        if self.cursor.column + width > columns {
            if !self.modes.has(modes::WRAP) {
                self.cursor.is_past = true;
                return;
            }
            let (row, column, with) = (self.cursor.row, self.cursor.column, Cell::blank(self.number));
            self.shown_mut().fill_part(row, column, columns, with);
            self.wrap();
        }
        let (Cursor { row, column, .. }, number) = (self.cursor, self.number);
        let blank = self.blank();
        if self.modes.has(modes::INSERT) {
            self.shown_mut().insert(row, column, width, blank);
        }
        let cells = self.shown_mut().over(row, column, column + width);
        if width == 1 {
            cells[0] = Cell::narrow(c, number);
        } else {
            cells[0] = Cell::wide(c, number);
            cells[1] = Cell::tail(number);
        }
        let end = column + width;
        self.cursor.is_past = end == columns;
        self.cursor.column = end.min(columns - 1);
    }

    /// Adds a mark to the character before the cursor.
    fn combine(&mut self, mark: char) {
        let Cursor { row, column, is_past } = self.cursor;
        let mut at = if is_past { column } else { column.saturating_sub(1) };
        if self.shown().row(row)[at].is_tail() {
            at = at.saturating_sub(1);
        }
        let cell = self.shown().row(row)[at];
        let mut text = String::new();
        self.text_of(cell, &mut text);
        text.push(mark);
        let Some(cluster) = Cluster::of(&text) else { return };
        let number = self.clusters.number(cluster).or_else(|| {
            if self.clusters.may_be_swept() {
                self.sweep();
            }
            self.clusters.number(cluster)
        });
        if let Some(number) = number {
            // The sweep has renumbered it.
            let cell = self.shown().row(row)[at].with_cluster(number);
            self.shown_mut().row_mut(row)[at] = cell;
        }
    }

    /// What a character stands for in line drawing.
    fn drawn(&self, c: char) -> char {
        const DRAWN: [char; 31] = [
            '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽', '├',
            '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
        ];
        let is_drawing = self.drawing >> (self.drawing >> 4 & 3) & 1 == 1;
        match c {
            '`'..='~' if is_drawing => DRAWN[c as usize - '`' as usize],
            _ => c,
        }
    }

    /// The next character goes into the next row.
    fn wrap(&mut self) {
        self.cursor.is_past = false;
        if !self.modes.has(modes::WRAP) {
            return;
        }
        let row = self.cursor.row;
        self.shown_mut().set_wraps(row, true);
        self.line_feed();
        self.cursor.column = 0;
    }

    /// Goes to the next row, and scrolls at the end of the region.
    pub(crate) fn line_feed(&mut self) {
        let row = self.cursor.row;
        if row + 1 == self.bottom {
            self.scroll_up(1);
        } else if row + 1 < self.rows() {
            self.cursor.row += 1;
        }
    }

    /// Goes to the row above, and scrolls at the start of the region.
    pub(crate) fn reverse_feed(&mut self) {
        if self.cursor.row == self.top {
            let (top, bottom, blank) = (self.top, self.bottom, self.blank());
            self.shown_mut().scroll_down(top, bottom, 1, blank);
        } else {
            self.cursor.row = self.cursor.row.saturating_sub(1);
        }
    }

    /// Scrolls the region up. What leaves the main screen at its top goes into the history.
    pub(crate) fn scroll_up(&mut self, count: usize) {
        let (top, bottom, blank) = (self.top, self.bottom, self.blank());
        let count = count.min(bottom - top);
        if top == 0 && !self.modes.has(modes::ALTERNATE) {
            // Of many rows those at the end that were never written are no lines.
            let lines = if count == 1 { 1 } else { count.min(self.main.used()) };
            self.send_off(lines);
        }
        self.shown_mut().scroll_up(top, bottom, count, blank);
    }

    /// Hands the first rows of the main screen to the history.
    fn send_off(&mut self, rows: usize) {
        for row in 0..rows {
            line::encode(self.main.row(row), &self.styles, &self.clusters, &mut self.scrolled.text);
            self.scrolled.ends.push((self.scrolled.text.len(), self.main.wraps(row)));
            self.scrolled.changed.push(self.main.changed(row));
        }
        self.base += rows as u64;
    }

    /// Erases the whole screen; what stood on the main one goes into the history.
    pub(crate) fn clear(&mut self) {
        let blank = self.blank();
        if !self.modes.has(modes::ALTERNATE) {
            let used = self.main.used();
            self.send_off(used);
        }
        let rows = self.rows();
        let grid = self.shown_mut();
        (0..rows).for_each(|row| grid.fill(row, blank));
    }

    /// Switches between the screens. The alternate one is empty when it is come to.
    pub(crate) fn switch(&mut self, alternate: bool) {
        if alternate == self.modes.has(modes::ALTERNATE) {
            return;
        }
        self.modes.set(modes::ALTERNATE, alternate);
        if alternate {
            let blank = self.blank();
            (0..self.rows()).for_each(|row| self.alternate.fill(row, blank));
        }
    }

    fn at(&mut self) -> &mut Saved {
        &mut self.saved[usize::from(self.modes.has(modes::ALTERNATE))]
    }

    /// DECSC.
    pub(crate) fn save_cursor(&mut self) {
        let (cursor, style, drawing, is_origin) =
            (self.cursor, self.style, self.drawing, self.modes.has(modes::ORIGIN));
        *self.at() = Saved { cursor, style, drawing, is_origin };
    }

    /// DECRC.
    pub(crate) fn restore_cursor(&mut self) {
        let saved = *self.at();
        self.cursor = saved.cursor;
        self.hold_cursor();
        self.drawing = saved.drawing;
        self.modes.set(modes::ORIGIN, saved.is_origin);
        self.set_style(saved.style);
    }

    fn hold_cursor(&mut self) {
        self.cursor.row = self.cursor.row.min(self.rows() - 1);
        self.cursor.column = self.cursor.column.min(self.columns() - 1);
    }

    /// As a new terminal. The history and the numbers of lines go on.
    pub(crate) fn reset(&mut self) {
        self.switch(false);
        self.style = Style::default();
        (self.number, self.erased) = (0, 0);
        self.clear();
        let rows = self.rows();
        (0..rows).for_each(|row| self.alternate.fill(row, Cell::default()));
        self.soft_reset();
        self.cursor = Cursor::default();
        self.modes = Modes::default();
        self.tabs = usual_tabs(self.columns());
        self.title.clear();
        self.shape = 0;
    }

    /// DECSTR.
    pub(crate) fn soft_reset(&mut self) {
        self.set_style(Style::default());
        self.drawing = 0;
        self.saved = Default::default();
        (self.top, self.bottom) = (0, self.rows());
        for (mode, on) in [
            (modes::CURSOR, true),
            (modes::WRAP, true),
            (modes::ORIGIN | modes::INSERT | modes::APPLICATION_CURSOR | modes::KEYPAD, false),
        ] {
            self.modes.set(mode, on);
        }
    }

    /// Gives it another size, which is made to [`fit`]. Lines are not broken anew. Where there are fewer rows, those above the cursor
    /// go into the history as far as need be; and so do those that fewer columns would cut: their ends are kept there.
    pub fn resize(&mut self, columns: usize, rows: usize) {
        let (columns, rows) = fit(columns, rows);
        if (columns, rows) == (self.columns(), self.rows()) {
            return;
        }
        let is_alternate = self.modes.has(modes::ALTERNATE);
        let of_main = if is_alternate { self.saved[0].cursor.row } else { self.cursor.row };
        let cut = (0..of_main).rev().find(|row| self.main.is_cut_at(*row, columns)).map_or(0, |last| last + 1);
        let above = (of_main + 1).saturating_sub(rows).max(cut);
        let above_cursor = if is_alternate { (self.cursor.row + 1).saturating_sub(rows) } else { above };
        let all = self.rows();
        self.send_off(above);
        self.main.scroll_up(0, all, above, Cell::default());
        if is_alternate {
            self.alternate.scroll_up(0, all, above_cursor, Cell::default());
        }
        self.saved[0].cursor.row = self.saved[0].cursor.row.saturating_sub(above);
        self.cursor.row -= above_cursor.min(self.cursor.row);
        self.main.resize(columns, rows);
        self.alternate.resize(columns, rows);
        let known = self.tabs.len();
        self.tabs.extend((known..columns).map(|at| at % 8 == 0));
        self.tabs.truncate(columns);
        (self.top, self.bottom) = (0, rows);
        self.cursor.is_past = false;
        self.hold_cursor();
    }
}
