//! A screen on another terminal: what changed since the last picture, between the marks of one change.

use crate::line;
use crate::modes::{self, Modes};
use crate::screen::{Cursor, Screen};

impl Screen {
    /// A row of what is shown, with the sequences of its styles.
    pub fn encoded(&self, row: usize) -> Vec<u8> {
        let mut text = Vec::new();
        line::encode(self.shown().row(row), &self.styles, &self.clusters, &mut text);
        text
    }
}

/// What a terminal of `columns` and `rows` shows already.
#[derive(Debug)]
pub struct Picture {
    columns: usize,
    rows: usize,
    shown: Vec<Option<Vec<u8>>>,
    modes: Modes,
    shape: u8,
    title: String,
    cursor: Option<(Cursor, bool)>,
}

impl Picture {
    /// Of a terminal that shows something else.
    pub fn new(columns: usize, rows: usize) -> Picture {
        let modes = Modes::default();
        Picture { columns, rows, shown: vec![None; rows], modes, shape: 0, title: String::new(), cursor: None }
    }

    /// What brings the terminal to show this screen; nothing if it does. Where it is smaller, it shows the rows around the cursor, and the
    /// first columns.
    pub fn paint(&mut self, screen: &Screen) -> Vec<u8> {
        let mut out = b"\x1b[?2026h\x1b[?25l\x1b[?7l".to_vec();
        let empty = out.len();
        let cursor = screen.cursor();
        let first = (cursor.row + 1).saturating_sub(self.rows).min(screen.rows().saturating_sub(self.rows));
        for row in 0..self.rows {
            let mut text = Vec::new();
            if first + row < screen.rows() {
                let cells = screen.shown().row(first + row);
                line::encode(&cells[..cells.len().min(self.columns)], &screen.styles, &screen.clusters, &mut text);
            }
            if self.shown[row].as_ref() != Some(&text) {
                out.extend(format!("\x1b[{};1H\x1b[0m\x1b[2K", row + 1).bytes());
                out.extend(&text);
                self.shown[row] = Some(text);
            }
        }
        screen.modes().sequences(self.modes, &mut out);
        if screen.shape() != self.shape {
            self.shape = screen.shape();
            out.extend(format!("\x1b[{} q", self.shape).bytes());
        }
        if screen.title() != self.title {
            self.title = screen.title().to_owned();
            out.extend(format!("\x1b]2;{}\x07", self.title).bytes());
        }
        self.modes = screen.modes();
        let is_shown = self.modes.has(modes::CURSOR);
        let place = (cursor, is_shown);
        if out.len() == empty && self.cursor == Some(place) {
            return Vec::new();
        }
        self.cursor = Some(place);
        let column = cursor.column.min(self.columns.saturating_sub(1));
        out.extend(format!("\x1b[0m\x1b[?7h\x1b[{};{}H", cursor.row - first + 1, column + 1).bytes());
        if is_shown {
            out.extend(b"\x1b[?25h");
        }
        out.extend(b"\x1b[?2026l");
        out
    }

    /// What brings the terminal's modes back, at the end.
    pub fn leave(&self) -> Vec<u8> {
        let mut out = Vec::new();
        Modes::default().sequences(self.modes, &mut out);
        out.extend(b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[0 q");
        out
    }
}

/// A screen as text with its colours, a line each: what `cat` would show.
pub fn ansi(screen: &Screen) -> Vec<u8> {
    let mut out = Vec::new();
    let rows = (0..screen.rows()).rev().find(|row| !screen.text(*row).is_empty()).map_or(0, |last| last + 1);
    for row in 0..rows {
        line::encode(screen.shown().row(row), &screen.styles, &screen.clusters, &mut out);
        out.push(b'\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::Emulator;

    #[test]
    fn a_picture_is_the_screen_and_costs_nothing_where_nothing_changed() {
        let (mut it, mut shown) = (Emulator::new(20, 5), Emulator::new(20, 5));
        let mut picture = Picture::new(20, 5);
        for stream in
            ["one\r\ntwo\x1b[1;31m!", "\x1b[?1049h\x1b[3;4Hx中", "\x1b[?25l\x1b[5 q\x1b]2;t\x07", "\x1b[?1049l"]
        {
            it.feed(stream.as_bytes());
            shown.feed(&picture.paint(it.screen()));
            for row in 0..5 {
                assert_eq!(shown.screen().text(row), it.screen().text(row), "{stream:?}");
            }
            assert_eq!(shown.screen().cursor().row, it.screen().cursor().row);
            assert_eq!(shown.screen().title(), it.screen().title());
            assert_eq!(picture.paint(it.screen()), b"");
        }
        assert_eq!(ansi(it.screen()), b"one\ntwo\x1b[0;1;31m!\x1b[0m\n");
    }

    #[test]
    fn a_smaller_terminal_shows_what_is_around_the_cursor() {
        let (mut it, mut shown) = (Emulator::new(20, 5), Emulator::new(3, 2));
        it.feed(b"one\r\ntwo\r\nthree\r\nfour");
        shown.feed(&Picture::new(3, 2).paint(it.screen()));
        assert_eq!((shown.screen().text(0), shown.screen().text(1)), ("thr".into(), "fou".into()));
    }
}
