//! What the control characters and sequences do: xterm's, as far as programs use them. What is not listed is skipped.

use crate::modes::{self, Modes};
use crate::screen::{MOST_TITLE, Screen};
use crate::sgr;
use vte::{Params, Perform};

/// As many as [`vte`] has.
const MOST_PARAMETERS: usize = 32;

/// A parameter; 0 and a missing one are 1.
fn count(params: &[u16], at: usize) -> usize {
    usize::from(raw(params, at).max(1))
}

fn raw(params: &[u16], at: usize) -> u16 {
    params.get(at).copied().unwrap_or(0)
}

impl Screen {
    /// A control character.
    pub(crate) fn control(&mut self, byte: u8) {
        match byte {
            0x07 => self.bells += 1,
            0x08 => self.left(1),
            b'\t' => self.tab(1),
            b'\n' | 0x0b | 0x0c => {
                self.line_feed();
                if self.modes.has(modes::NEWLINE) {
                    self.home_of_row();
                }
            }
            b'\r' => self.home_of_row(),
            0x0e => self.drawing = self.drawing & 15 | 1 << 4,
            0x0f => self.drawing &= 15,
            _ => {}
        }
    }

    fn home_of_row(&mut self) {
        self.cursor.column = 0;
        self.cursor.is_past = false;
    }

    fn set_tab(&mut self) {
        let column = self.cursor.column;
        self.tabs[column] = true;
    }

    fn left(&mut self, mut by: usize) {
        let wraps = self.modes.has(modes::WRAP) && self.modes.has(modes::WRAP_BACK);
        // Behind the last column is a place of its own then.
        by -= usize::from(wraps && self.cursor.is_past);
        while wraps && by > self.cursor.column {
            let Some(before) = self.cursor.row.checked_sub(1).filter(|row| self.shown().wraps(*row)) else { break };
            by -= self.cursor.column + 1;
            (self.cursor.row, self.cursor.column) = (before, self.columns() - 1);
        }
        self.go_to_column(self.cursor.column.saturating_sub(by));
    }

    fn go_to_column(&mut self, column: usize) {
        self.cursor.column = column.min(self.columns() - 1);
        self.cursor.is_past = false;
    }

    /// Up to the edge of the region, or of the screen if it was outside.
    fn up(&mut self, by: usize) {
        let edge = if self.cursor.row >= self.top { self.top } else { 0 };
        self.cursor.row = self.cursor.row.saturating_sub(by).max(edge);
        self.cursor.is_past = false;
    }

    fn down(&mut self, by: usize) {
        let edge = if self.cursor.row < self.bottom { self.bottom } else { self.rows() };
        self.cursor.row = self.cursor.row.saturating_add(by).min(edge - 1);
        self.cursor.is_past = false;
    }

    /// Rows and columns from 0.
    fn go_to(&mut self, row: usize, column: usize) {
        let (first, end) = if self.modes.has(modes::ORIGIN) { (self.top, self.bottom) } else { (0, self.rows()) };
        self.cursor.row = row.saturating_add(first).min(end - 1);
        self.go_to_column(column);
    }

    fn tab(&mut self, times: usize) {
        for _ in 0..times.min(self.columns()) {
            let from = self.cursor.column + 1;
            let next = self.tabs.iter().skip(from).position(|stop| *stop);
            self.cursor.column = next.map_or(self.columns() - 1, |at| from + at);
        }
    }

    fn tab_back(&mut self, times: usize) {
        for _ in 0..times.min(self.columns()) {
            let column = self.cursor.column;
            self.go_to_column(self.tabs[..column].iter().rposition(|stop| *stop).unwrap_or(0));
        }
    }

    /// ED: 0 from the cursor on, 1 up to it, 2 all.
    fn erase_display(&mut self, what: u16) {
        let (row, rows, blank) = (self.cursor.row, self.rows(), self.blank());
        match what {
            0 => {
                self.erase_line(0);
                (row + 1..rows).for_each(|row| self.shown_mut().fill(row, blank));
            }
            1 => {
                (0..row).for_each(|row| self.shown_mut().fill(row, blank));
                self.erase_line(1);
            }
            2 => self.clear(),
            _ => {}
        }
    }

    fn erase_line(&mut self, what: u16) {
        let (row, column, columns, blank) = (self.cursor.row, self.cursor.column, self.columns(), self.blank());
        let (from, to) = match what {
            // The cursor is behind the last column: nothing stands there.
            0 if self.cursor.is_past => return,
            0 => (column, columns),
            1 => (0, column + 1),
            2 => (0, columns),
            _ => return,
        };
        let grid = self.shown_mut();
        grid.fill_part(row, from, to, blank);
        if to == columns {
            grid.set_wraps(row, false);
        }
    }

    /// Rows put in or taken out at the cursor, inside the region.
    fn move_rows(&mut self, down: bool, by: usize) {
        let (row, bottom, blank) = (self.cursor.row, self.bottom, self.blank());
        if !(self.top..bottom).contains(&row) {
            return;
        }
        let grid = self.shown_mut();
        if down { grid.scroll_down(row, bottom, by, blank) } else { grid.scroll_up(row, bottom, by, blank) }
    }

    fn set_private(&mut self, number: u16, on: bool) {
        match number {
            // DECCOLM: the size stays; all else is as if it had changed.
            3 if self.modes.has(modes::COLUMNS) => {
                (self.top, self.bottom) = (0, self.rows());
                self.clear();
                self.go_to(0, 0);
            }
            47 | 1047 => self.switch(on),
            1048 if on => self.save_cursor(),
            1048 => self.restore_cursor(),
            1049 if on && !self.modes.has(modes::ALTERNATE) => {
                self.save_cursor();
                self.switch(true);
            }
            1049 if !on && self.modes.has(modes::ALTERNATE) => {
                self.switch(false);
                self.restore_cursor();
            }
            _ => {
                let Some(bit) = Modes::of_private(number) else { return };
                self.modes.set(bit, on);
                if bit == modes::ORIGIN {
                    self.go_to(0, 0);
                }
            }
        }
    }

    fn set_public(&mut self, number: u16, on: bool) {
        match number {
            4 => self.modes.set(modes::INSERT, on),
            20 => self.modes.set(modes::NEWLINE, on),
            _ => {}
        }
    }

    /// DECRQM: 1 set, 2 reset, 0 not known.
    fn tell_mode(&mut self, number: u16, private: bool) {
        let bit = match (private, number) {
            (true, 47 | 1047 | 1049) => Some(modes::ALTERNATE),
            (true, _) => Modes::of_private(number),
            (false, 4) => Some(modes::INSERT),
            (false, 20) => Some(modes::NEWLINE),
            _ => None,
        };
        let state = bit.map_or(0, |bit| if self.modes.has(bit) { 1 } else { 2 });
        self.answer(&format!("\x1b[{}{number};{state}$y", if private { "?" } else { "" }));
    }

    fn tell_status(&mut self, what: u16, private: bool) {
        let first = if self.modes.has(modes::ORIGIN) { self.top } else { 0 };
        let (row, column) = (self.cursor.row.saturating_sub(first) + 1, self.cursor.column + 1);
        match (private, what) {
            (false, 5) => self.answer("\x1b[0n"),
            (false, 6) => self.answer(&format!("\x1b[{row};{column}R")),
            (true, 6) => self.answer(&format!("\x1b[?{row};{column};1R")),
            _ => {}
        }
    }

    /// Fills the screen with E: DECALN.
    fn align(&mut self) {
        let style = self.number;
        let rows = self.rows();
        let grid = self.shown_mut();
        (0..rows).for_each(|row| grid.fill(row, crate::cell::Cell::narrow('E', style)));
        (self.top, self.bottom) = (0, rows);
        self.cursor = Default::default();
    }

    /// SGR.
    fn render<'a>(&mut self, params: impl Iterator<Item = &'a [u16]>) {
        let style = sgr::apply(self.style, params);
        if style != self.style {
            self.set_style(style);
        }
    }

    /// A control sequence with these parameters, without what stands behind their colons.
    pub(crate) fn control_sequence(&mut self, params: &[u16], intermediates: &[u8], action: char) {
        let n = count(params, 0);
        let (row, column, columns, blank) = (self.cursor.row, self.cursor.column, self.columns(), self.blank());
        match (intermediates, action) {
            ([], '@') => self.shown_mut().insert(row, column, n, blank),
            ([], 'A') => self.up(n),
            ([], 'B' | 'e') => self.down(n),
            ([], 'C' | 'a') => self.go_to_column(column.saturating_add(n)),
            ([], 'D') => self.left(n),
            ([], 'E') => {
                self.down(n);
                self.go_to_column(0);
            }
            ([], 'F') => {
                self.up(n);
                self.go_to_column(0);
            }
            ([], 'G' | '`') => self.go_to_column(n - 1),
            ([], 'H' | 'f') => self.go_to(n - 1, count(params, 1) - 1),
            ([], 'I') => self.tab(n),
            ([] | [b'?'], 'J') => self.erase_display(raw(params, 0)),
            ([] | [b'?'], 'K') => self.erase_line(raw(params, 0)),
            ([], 'L') => self.move_rows(true, n),
            ([], 'M') => self.move_rows(false, n),
            ([], 'P') => self.shown_mut().delete(row, column, n, blank),
            ([], 'S') => self.scroll_up(n),
            ([], 'T') if params.len() == 1 => {
                let (top, bottom) = (self.top, self.bottom);
                self.shown_mut().scroll_down(top, bottom, n, blank);
            }
            ([], 'X') => self.shown_mut().fill_part(row, column, column.saturating_add(n).min(columns), blank),
            ([], 'Z') => self.tab_back(n),
            ([], 'b') => {
                let c = self.last;
                (0..n.min(columns * self.rows())).for_each(|_| self.put(c));
            }
            ([], 'c') if raw(params, 0) == 0 => self.answer("\x1b[?62;22c"),
            ([b'>'], 'c') if raw(params, 0) == 0 => self.answer("\x1b[>1;10;0c"),
            ([], 'd') => self.go_to(n - 1, column),
            ([], 'g') => match raw(params, 0) {
                0 => self.tabs[column] = false,
                3 => self.tabs.fill(false),
                _ => {}
            },
            ([], 'h' | 'l') => params.iter().for_each(|p| self.set_public(*p, action == 'h')),
            ([b'?'], 'h' | 'l') => params.iter().for_each(|p| self.set_private(*p, action == 'h')),
            ([], 'm') => self.render(params.chunks(1)),
            ([], 'n') => self.tell_status(raw(params, 0), false),
            ([b'?'], 'n') => self.tell_status(raw(params, 0), true),
            ([b'$'], 'p') => self.tell_mode(raw(params, 0), false),
            ([b'?', b'$'], 'p') => self.tell_mode(raw(params, 0), true),
            ([b'!'], 'p') => self.soft_reset(),
            ([b'>'], 'q') => self.answer(concat!("\x1bP>|chappe(", env!("CARGO_PKG_VERSION"), ")\x1b\\")),
            ([b' '], 'q') => self.shape = raw(params, 0).min(6) as u8,
            ([], 'r') => {
                let rows = self.rows();
                let bottom = match raw(params, 1) {
                    0 => rows,
                    bottom => usize::from(bottom).min(rows),
                };
                if n < bottom {
                    (self.top, self.bottom) = (n - 1, bottom);
                    self.go_to(0, 0);
                }
            }
            ([], 's') => self.save_cursor(),
            ([], 'u') => self.restore_cursor(),
            ([], 't') if raw(params, 0) == 18 => {
                self.answer(&format!("\x1b[8;{};{columns}t", self.rows()));
            }
            _ => {}
        }
    }
}

impl Perform for Screen {
    fn print(&mut self, c: char) {
        self.put(c);
    }

    fn execute(&mut self, byte: u8) {
        self.control(byte);
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        if ignore {
            return;
        }
        if intermediates.is_empty() && action == 'm' {
            return self.render(params.iter());
        }
        let mut firsts = [0; MOST_PARAMETERS];
        firsts.iter_mut().zip(params.iter()).for_each(|(first, values)| *first = values[0]);
        self.control_sequence(&firsts[..params.iter().count()], intermediates, action);
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], ignore: bool, byte: u8) {
        if ignore {
            return;
        }
        match (intermediates, byte) {
            ([], b'7') => self.save_cursor(),
            ([], b'8') => self.restore_cursor(),
            ([], b'D') => self.line_feed(),
            ([], b'E') => {
                self.line_feed();
                self.home_of_row();
            }
            ([], b'H') => self.set_tab(),
            ([], b'M') => self.reverse_feed(),
            ([], b'Z') => self.answer("\x1b[?62;22c"),
            ([], b'c') => self.reset(),
            ([], b'n') => self.drawing = self.drawing & 15 | 2 << 4,
            ([], b'o') => self.drawing = self.drawing & 15 | 3 << 4,
            ([], b'=') => self.modes.set(modes::KEYPAD, true),
            ([], b'>') => self.modes.set(modes::KEYPAD, false),
            ([set @ b'('..=b'+'], _) => {
                let bit = 1 << (set - b'(');
                self.drawing = if byte == b'0' { self.drawing | bit } else { self.drawing & !bit };
            }
            ([b'#'], b'8') => self.align(),
            _ => {}
        }
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], _bell_terminated: bool) {
        if let [b"0" | b"2", title @ ..] = params {
            let title = title.join(&b';');
            let shown = String::from_utf8_lossy(&title);
            self.title = shown.chars().filter(|c| !c.is_control()).collect();
            let end = (0..=MOST_TITLE.min(self.title.len())).rev().find(|at| self.title.is_char_boundary(*at));
            self.title.truncate(end.unwrap_or(0));
        }
    }
}
