//! From bytes to what they do: text goes straight onto the screen, and so do control sequences of numbers alone; other sequences through [`vte`].
//!
//! **Any split gives the same screen.** What is not complete yet, a sequence or a character of several bytes, is kept as bytes, so that between
//! two calls there is nothing but plain data, and the parser's own state is always that of a new one.
//!
//! | state | entered by | left by |
//! |---|---|---|
//! | text | | ESC |
//! | escape | ESC | 0x30 to 0x7e |
//! | control sequence | `ESC [` | 0x40 to 0x7e |
//! | command (OSC) | `ESC ]` | BEL |
//! | string (DCS, SOS, PM, APC), skipped | `ESC P X ^ _` | |
//!
//! In each, ESC begins anew, and CAN and SUB end it. A sequence of more than [`MOST`] bytes is skipped to its end: no memory is needed for it.
//! Bytes that are zero are ignored everywhere, also inside a character: see [`crate::layout`], I3.

use crate::screen::Screen;

/// The most bytes of a sequence.
pub const MOST: usize = 1024;

/// Where in the stream the last byte was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum At {
    /// In text.
    #[default]
    Text,
    /// In an escape sequence.
    Escape,
    /// In a control sequence.
    Control,
    /// In a command of the operating system (OSC).
    Command,
    /// In a string that is skipped.
    String,
}

impl At {
    /// The state of a saved number.
    pub fn of(number: u64) -> At {
        [At::Text, At::Escape, At::Control, At::Command, At::String].get(number as usize).copied().unwrap_or_default()
    }
}

const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const ESC: u8 = 0x1b;

/// A terminal as its program sees it: bytes go in, a screen and answers come out.
pub struct Emulator {
    screen: Screen,
    parser: vte::Parser,
    at: At,
    /// The bytes of what is not complete yet. Of a sequence that is too long: so many that it is too long.
    pending: Vec<u8>,
    /// How many bytes of the stream came before.
    position: u64,
}

impl Emulator {
    /// One with an empty screen.
    pub fn new(columns: usize, rows: usize) -> Emulator {
        Emulator::of(Screen::new(columns, rows), At::Text, Vec::new(), 0)
    }

    /// One that goes on where another was, behind so many bytes of the stream. What is said to be incomplete and is not is left out.
    pub fn of(screen: Screen, at: At, pending: Vec<u8>, position: u64) -> Emulator {
        let is_part = std::str::from_utf8(&pending).is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none());
        let is_begun = pending.first() == Some(&ESC);
        let makes_sense = if at == At::Text { pending.is_empty() || is_part } else { is_begun };
        let (at, pending) = if makes_sense { (at, pending) } else { Default::default() };
        Emulator { screen, parser: vte::Parser::new(), at, pending, position }
    }

    /// The screen.
    pub fn screen(&self) -> &Screen {
        &self.screen
    }

    /// The screen, to resize it and to take from it.
    pub fn screen_mut(&mut self) -> &mut Screen {
        &mut self.screen
    }

    /// The screen alone.
    pub fn into_screen(self) -> Screen {
        self.screen
    }

    /// What is not complete yet.
    pub fn pending(&self) -> (At, &[u8]) {
        (self.at, &self.pending)
    }

    /// Takes what the program wrote.
    pub fn feed(&mut self, bytes: &[u8]) {
        let taken = self.feed_some(bytes, usize::MAX);
        debug_assert_eq!(taken, bytes.len());
    }

    /// Takes of what the program wrote until the rows that have left the screen have so many bytes; answers how many it took, at least one.
    pub fn feed_some(&mut self, mut bytes: &[u8], most: usize) -> usize {
        let all = bytes.len();
        while !bytes.is_empty() {
            let used = if self.at == At::Text { self.text(bytes, most) } else { self.sequence(bytes) };
            self.position += used as u64;
            bytes = &bytes[used..];
            if self.screen.scrolled.text.len() > most {
                break;
            }
        }
        all - bytes.len()
    }

    /// Takes text, and usual sequences, up to another ESC, or until the rows that have left the screen have more than `most` bytes; answers how
    /// many bytes.
    fn text(&mut self, bytes: &[u8], most: usize) -> usize {
        if !self.pending.is_empty() {
            return self.rest_of_character(bytes);
        }
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                ESC => {
                    let used = self.usual(&bytes[at..], self.position + at as u64);
                    at += used;
                    if used == 0 {
                        self.at = At::Escape;
                    }
                    if used == 0 || self.screen.scrolled.text.len() > most {
                        break;
                    }
                }
                b' '..=b'~' => {
                    let run = &bytes[at..];
                    let len = printable(run);
                    self.screen.put_ascii(&run[..len], self.position + at as u64);
                    at += len;
                }
                byte @ (..b' ' | 0x7f) => {
                    self.screen.at_byte(self.position + at as u64 + 1);
                    self.screen.control(byte);
                    at += 1;
                }
                _ => {
                    let run = &bytes[at..];
                    let len = run.iter().position(u8::is_ascii).unwrap_or(run.len());
                    // A zero in the middle of one is not there.
                    let is_all = run.get(len).is_some_and(|byte| *byte != 0);
                    self.characters(&run[..len], self.position + at as u64, is_all);
                    at += len;
                    if !self.pending.is_empty() {
                        break;
                    }
                }
            }
        }
        at
    }

    /// The control sequence that bytes begin with, behind so many of the stream, if all of it is there and it is one of those that programs
    /// write all the time: digits and semicolons. Answers how many bytes it has; 0: it is another one. It does what the parser would do, sooner.
    fn usual(&mut self, bytes: &[u8], before: u64) -> usize {
        let (private, start) = match bytes {
            [ESC, b'[', b'?', ..] => (&b"?"[..], 3),
            [ESC, b'[', ..] => (&b""[..], 2),
            _ => return 0,
        };
        let (mut values, mut last, mut value) = ([0u16; 16], 0, 0u32);
        for (at, byte) in (start..MOST).zip(&bytes[start..]) {
            let digit = byte.wrapping_sub(b'0');
            if digit < 10 {
                value = (value * 10 + u32::from(digit)).min(u16::MAX.into());
                continue;
            }
            values[last] = value as u16;
            match byte {
                b';' if last + 1 < values.len() => (last, value) = (last + 1, 0),
                b'@'..=b'~' => {
                    self.screen.at_byte(before + at as u64 + 1);
                    self.screen.control_sequence(&values[..=last], private, char::from(*byte));
                    return at + 1;
                }
                _ => return 0,
            }
        }
        0
    }

    /// Bytes above ASCII, behind so many of the stream. `is_all`: what follows is known, and is none of them.
    fn characters(&mut self, mut bytes: &[u8], mut position: u64, is_all: bool) {
        while !bytes.is_empty() {
            let (valid, wrong) = match std::str::from_utf8(bytes) {
                Ok(text) => (text.len(), Some(0)),
                Err(e) => (e.valid_up_to(), e.error_len()),
            };
            for c in String::from_utf8_lossy(&bytes[..valid]).chars() {
                position += c.len_utf8() as u64;
                self.character(c, position);
            }
            bytes = &bytes[valid..];
            match wrong {
                Some(wrong) if !bytes.is_empty() => {
                    position += wrong as u64;
                    self.character(char::REPLACEMENT_CHARACTER, position);
                    bytes = &bytes[wrong..];
                }
                None if is_all => {
                    self.character(char::REPLACEMENT_CHARACTER, position + bytes.len() as u64);
                    return;
                }
                None => {
                    self.pending.extend(bytes);
                    return;
                }
                _ => {}
            }
        }
    }

    /// One whose last byte has this position.
    fn character(&mut self, c: char, position: u64) {
        self.screen.at_byte(position);
        // Control characters of 8 bits do nothing, neither those of one byte nor these of two: they have no width, and are not put.
        self.screen.put(c);
    }

    /// Goes on with a character whose first bytes came earlier.
    fn rest_of_character(&mut self, bytes: &[u8]) -> usize {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        if zeros > 0 {
            return zeros;
        }
        let mut all = std::mem::take(&mut self.pending);
        let had = all.len();
        let more = bytes.iter().take(4 - had).take_while(|byte| !byte.is_ascii()).count();
        all.extend(&bytes[..more]);
        let is_all = bytes.get(more).is_some_and(|byte| *byte != 0);
        let (c, used) = match std::str::from_utf8(&all) {
            // Others may follow it.
            Ok(text) => first(text, had),
            Err(e) if e.valid_up_to() > 0 => first(&String::from_utf8_lossy(&all[..e.valid_up_to()]), had),
            Err(e) => match e.error_len() {
                Some(wrong) => (char::REPLACEMENT_CHARACTER, wrong.saturating_sub(had)),
                None if is_all => (char::REPLACEMENT_CHARACTER, more),
                None => {
                    self.pending = all;
                    return more;
                }
            },
        };
        self.character(c, self.position + used as u64);
        used
    }

    /// Takes a sequence up to its end; answers how many bytes. Its first byte, ESC, is either the first of these or the first of what is kept.
    fn sequence(&mut self, bytes: &[u8]) -> usize {
        let is_new = self.pending.is_empty();
        let mut at = usize::from(is_new);
        while at < bytes.len() {
            let byte = bytes[at];
            at += 1;
            if byte == ESC {
                // What it ends has what came before it; it begins the next one.
                self.screen.at_byte(self.position + at as u64);
                self.done(&bytes[..at], is_new);
                self.at = At::Escape;
                return at - 1;
            }
            let ends = match self.at {
                _ if byte == CAN || byte == SUB => true,
                At::Escape if (b' '..0x7f).contains(&byte) => self.escape(byte, &bytes[..at]),
                At::Control => (0x40..0x7f).contains(&byte),
                At::Command => byte == 0x07,
                _ => false,
            };
            if ends {
                self.screen.at_byte(self.position + at as u64);
                self.done(&bytes[..at], is_new);
                self.at = At::Text;
                return at;
            }
        }
        let room = (MOST + 1).saturating_sub(self.pending.len());
        if self.at == At::String {
            // Nothing of it is wanted.
            self.pending.truncate(1);
            self.pending.extend(is_new.then_some(ESC));
        } else {
            self.pending.extend(bytes.iter().filter(|byte| **byte != 0).take(room));
        }
        bytes.len()
    }

    /// A byte of an escape sequence that is no control character; answers whether it ends it. `so_far`: with the byte.
    fn escape(&mut self, byte: u8, so_far: &[u8]) -> bool {
        // Behind ESC alone: with intermediates it is a sequence like others.
        let before = self.pending.iter().chain(so_far).rev().skip(1);
        let is_first = !before.clone().any(|byte| (b' '..=b'/').contains(byte));
        match byte {
            b'[' if is_first => self.at = At::Control,
            b']' if is_first => self.at = At::Command,
            b'P' | b'X' | b'^' | b'_' if is_first => self.at = At::String,
            b'0'..=b'~' => return true,
            _ => {}
        }
        false
    }

    /// A sequence is over: it does what it says, unless it is too long or a string.
    fn done(&mut self, last: &[u8], is_new: bool) {
        let len = self.pending.len() + last.iter().filter(|byte| **byte != 0).count();
        let is_wanted = self.at != At::String && len <= MOST;
        if is_new && is_wanted {
            self.parser.advance(&mut self.screen, last);
        } else if is_wanted {
            self.parser.advance(&mut self.screen, &self.pending);
            self.parser.advance(&mut self.screen, last);
        } else if last.last() == Some(&SUB) || last.last() == Some(&CAN) {
            self.screen.control(last[last.len() - 1]);
        }
        self.pending.clear();
        // It was told the next ESC, too, which it will be told again.
        if last.last() == Some(&ESC) {
            self.parser = vte::Parser::new();
        }
    }
}

/// The first character of a text, and how many bytes it has more than were there.
fn first(text: &str, had: usize) -> (char, usize) {
    let c = text.chars().next().unwrap_or_default();
    (c, c.len_utf8() - had)
}

/// How many bytes at the start are printable ASCII: eight at a time.
fn printable(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut at = 0;
    for part in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(part.try_into().unwrap_or_default());
        // A byte below 0x20, one of 0x7f, or one above.
        let low = word.wrapping_sub(ONES * 0x20) & !word;
        let is_last = word.wrapping_add(ONES) | word;
        if (low | is_last) & (ONES * 0x80) != 0 {
            break;
        }
        at += 8;
    }
    at + bytes[at..].iter().position(|byte| !(b' '..=b'~').contains(byte)).unwrap_or(bytes.len() - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_printable_characters_are_found_whole() {
        for at in 0..20 {
            for wrong in [0, 0x1f, 0x7f, 0x80, 0xff] {
                let mut bytes = [b'~'; 20];
                bytes[at] = wrong;
                assert_eq!(printable(&bytes), at, "{wrong:#x}");
            }
        }
        assert_eq!((printable(&[b' '; 20]), printable(b"")), (20, 0));
    }

    #[test]
    fn a_sequence_of_numbers_does_the_same_in_one_piece_and_through_the_parser() {
        let many = |of: &str, times| format!("\x1b[{}3C", of.repeat(times));
        let sequences = [
            "\x1b[m",
            "\x1b[;;7m",
            "\x1b[01;32;48;5;300m",
            "\x1b[2;3H",
            "\x1b[?7l",
            "\x1b[99999999999C",
            "\x1b[65538C",
        ];
        let long =
            [many("0", MOST - 4), many("0", MOST - 3), many("1;", 15), many("1;", 16), many("1;", 40), many("?", 2)];
        for sequence in sequences.iter().map(|s| s.to_string()).chain(long) {
            let (mut whole, mut cut) = (Emulator::new(9, 3), Emulator::new(9, 3));
            let text = format!("a{sequence}bc");
            whole.feed(text.as_bytes());
            text.as_bytes().chunks(1).for_each(|byte| cut.feed(byte));
            let seen = |it: &Emulator| {
                let screen = it.screen();
                let cells: Vec<_> = screen.shown().cells().iter().map(|cell| screen.style_of(*cell)).collect();
                let rows: Vec<_> = (0..3).map(|row| (screen.text(row), screen.shown().changed(row))).collect();
                format!("{rows:?} {cells:?} {:?} {:?} {:?}", screen.cursor(), screen.modes(), screen.style)
            };
            assert_eq!(seen(&whole), seen(&cut), "{sequence:?}");
        }
    }

    #[test]
    fn a_sequence_that_is_cut_by_another_does_what_its_controls_say() {
        let mut it = Emulator::new(10, 3);
        it.feed(b"\x1b[3\n1\x1b[1mx\x1b]0;title\x1b\\y");
        assert_eq!((it.screen().text(1), it.screen().title()), ("xy".into(), "title"));
        assert_eq!(it.pending(), (At::Text, &[][..]));
    }

    #[test]
    fn a_switch_to_132_columns_clears_the_screen_where_it_is_allowed() {
        let mut it = Emulator::new(10, 4);
        it.feed(b"\r\na\x1b[2;3r\x1b[?3l\x1b[2;2Hb");
        assert_eq!((it.screen().text(1), it.screen().columns()), ("ab".into(), 10));
        it.feed(b"\x1b[?40h\x1b[?3hc\x1b[4;1H\nd");
        let rows: Vec<String> = (0..4).map(|row| it.screen().text(row)).collect();
        // The region was all rows again: the first has left the screen.
        assert_eq!(rows, ["", "", "", "d"]);
        assert_eq!((it.screen().base(), it.screen().columns()), (3, 10));
    }

    #[test]
    fn a_backspace_goes_into_the_row_before_where_that_is_switched_on() {
        for (start, stream, rows) in [
            // Behind the last column, xterm counts that as a place of its own.
            ("\x1b[?45h", "abcd\x08x", ["abcx", ""]),
            ("", "abcd\x08x", ["abxd", ""]),
            ("\x1b[?45h", "abcde\x08\x08x", ["abcx", "e"]),
            ("\x1b[?45h", "abcdef\x1b[5Dx", ["axcd", "ef"]),
            ("", "abcde\x08\x08x", ["abcd", "x"]),
            // That row has ended, or there is none.
            ("\x1b[?45h", "abc\r\ne\x08\x08x", ["abc", "x"]),
            ("\x1b[?45h", "a\x1b[65535Dx", ["x", ""]),
            ("\x1b[?45h\x1b[?7l", "abcd\x08x", ["abxd", ""]),
        ] {
            let mut it = Emulator::new(4, 3);
            it.feed(start.as_bytes());
            it.feed(stream.as_bytes());
            assert_eq!([it.screen().text(0), it.screen().text(1)], rows, "{start:?} {stream:?}");
        }
    }

    #[test]
    fn lines_that_fewer_columns_would_cut_go_into_the_history_whole() {
        for alternate in ["", "\x1b[?1049h"] {
            let mut it = Emulator::new(10, 6);
            it.feed(format!("a\r\n0123456789\r\n0123中\r\nb         \r\nc\r\n$ {alternate}").as_bytes());
            it.screen_mut().resize(5, 6);
            let scrolled = it.screen_mut().take_scrolled();
            assert_eq!(String::from_utf8_lossy(&scrolled.text), "a01234567890123中");
            assert_eq!(scrolled.ends.iter().map(|(end, _)| *end).collect::<Vec<_>>(), [1, 11, 18]);
            it.feed(if alternate.is_empty() { b"" } else { b"\x1b[?1049l" });
            let rows: Vec<String> = (0..6).map(|row| it.screen().text(row)).collect();
            assert_eq!((it.screen().base(), &rows[..3]), (3, &["b".to_owned(), "c".to_owned(), "$".to_owned()][..]));
            assert_eq!((it.screen().cursor().row, it.screen().cursor().column), (2, 2));
        }
    }

    #[test]
    fn control_characters_of_eight_bits_do_nothing() {
        let mut it = Emulator::new(10, 3);
        for c in '\u{80}'..='\u{9f}' {
            it.feed(c.to_string().as_bytes());
        }
        it.feed("a\u{85}b\u{9b}1mc".as_bytes());
        assert_eq!((it.screen().text(0), it.screen().text(1)), ("ab1mc".into(), String::new()));
    }

    #[test]
    fn endless_strings_need_no_memory_and_end() {
        for begin in ["\x1b]0;", "\x1bP", "\x1b_", "\x1b^", "\x1bX", "\x1b["] {
            let mut it = Emulator::new(10, 3);
            it.feed(begin.as_bytes());
            (0..1000).for_each(|_| it.feed(&[b'1'; 1000]));
            assert!(it.pending().1.len() <= MOST + 1);
            it.feed(b"\x1b\\x");
            assert_eq!((it.screen().text(0), it.screen().title()), ("x".into(), ""), "{begin:?}");
        }
    }
}
