//! Cells and styles: what stands at a place of the screen, and how it looks. Plain numbers, without pointers.
//!
//! ```text
//!   cell     63..50   49     48     47..32   31        30..0
//!            0        TAIL   WIDE   style    CLUSTER   a character, or the number of a cluster; 0: nothing was ever written
//!   colour   31..24 = 0: the terminal's own;  1: 7..0 is a number of the palette;  2: 23..0 is red, green, blue
//!   style    first word: foreground 31..0, background 63..32;  second word: flags
//! ```
//!
//! A style stands in a cell by its number in a table, and so does a cluster (a character with its combining marks).

use crate::intern::Value;

/// A place of the screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Cell(pub u64);

/// What a cell shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Glyph {
    /// Nothing was written since it was erased.
    Nothing,
    /// A character.
    Char(char),
    /// A character with marks: its number in the table.
    Cluster(u16),
}

const CLUSTER: u64 = 1 << 31;
const WIDE: u64 = 1 << 48;
const TAIL: u64 = 1 << 49;

impl Cell {
    /// That of a word of memory that others write: what is no character is shown as such.
    pub fn of_word(word: u64) -> Cell {
        let low = word as u32;
        let is_character = || char::from_u32(low).is_some_and(|c| !c.is_control());
        if low == 0 || word & CLUSTER != 0 || is_character() {
            return Cell(word);
        }
        Cell(word & !0xffff_ffff | char::REPLACEMENT_CHARACTER as u64)
    }

    /// An empty cell of this style.
    pub fn blank(style: u16) -> Cell {
        Cell(u64::from(style) << 32)
    }

    /// A character of one column.
    pub fn narrow(c: char, style: u16) -> Cell {
        Cell(u64::from(u32::from(c)) | u64::from(style) << 32)
    }

    /// A character of two columns: this is the first.
    pub fn wide(c: char, style: u16) -> Cell {
        Cell(Cell::narrow(c, style).0 | WIDE)
    }

    /// The second column of a wide character.
    pub fn tail(style: u16) -> Cell {
        Cell(Cell::blank(style).0 | TAIL)
    }

    /// The same place with a cluster in it.
    pub fn with_cluster(self, number: u16) -> Cell {
        Cell(self.0 & !0xffff_ffff | CLUSTER | u64::from(number))
    }

    /// The same place in another style.
    pub fn with_style(self, style: u16) -> Cell {
        Cell(self.0 & !(0xffff << 32) | u64::from(style) << 32)
    }

    /// What it shows.
    pub fn glyph(self) -> Glyph {
        let low = self.0 as u32 & !(CLUSTER as u32);
        match low {
            _ if self.0 & CLUSTER != 0 => Glyph::Cluster(low as u16),
            0 => Glyph::Nothing,
            c => Glyph::Char(char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
    }

    /// How many cells at the start show ASCII in this style, or a space of it where nothing was written: [`Cell::ascii`] has it.
    pub fn ascii_run(cells: &[Cell], style: u16) -> usize {
        let style = Cell::blank(style).0;
        let differ = |part: &[Cell]| part.iter().fold(0, |all, cell| all | (cell.0 ^ style)) >> 7 != 0;
        // Eight at a time without a branch between them.
        let whole = cells.chunks_exact(8).take_while(|part| !differ(part)).count() * 8;
        whole + cells[whole..].iter().take_while(|cell| (cell.0 ^ style) >> 7 == 0).count()
    }

    /// The character of a cell of an [`Cell::ascii_run`].
    pub fn ascii(self) -> u8 {
        (self.0 as u8).max(b' ')
    }

    /// The number of its style.
    pub fn style(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// Whether it is the first column of a wide character.
    pub fn is_wide(self) -> bool {
        self.0 & WIDE != 0
    }

    /// Whether it is the second column of one.
    pub fn is_tail(self) -> bool {
        self.0 & TAIL != 0
    }
}

/// A colour.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Colour(pub u32);

impl Colour {
    /// The terminal's own.
    pub const OWN: Colour = Colour(0);

    /// One of the palette's 256.
    pub fn of_palette(number: u8) -> Colour {
        Colour(1 << 24 | u32::from(number))
    }

    /// Red, green, blue.
    pub fn rgb(red: u8, green: u8, blue: u8) -> Colour {
        Colour(2 << 24 | u32::from(red) << 16 | u32::from(green) << 8 | u32::from(blue))
    }

    /// Red, green and blue, if it is such a one.
    pub fn parts(self) -> Option<[u8; 3]> {
        (self.0 >> 24 == 2).then_some([(self.0 >> 16) as u8, (self.0 >> 8) as u8, self.0 as u8])
    }

    /// Its number in the palette, if it has one.
    pub fn number(self) -> Option<u8> {
        (self.0 >> 24 == 1).then_some(self.0 as u8)
    }

    /// The nearest of the palette's cube, where there is no room for more styles.
    pub fn nearest(self) -> Colour {
        let level = |part: u8| if part < 48 { 0 } else { ((u16::from(part) - 35) / 40).min(5) as u8 };
        self.parts().map_or(self, |[red, green, blue]| {
            Colour::of_palette(16 + 36 * level(red) + 6 * level(green) + level(blue))
        })
    }
}

/// How a cell looks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Style {
    /// The colour of the character.
    pub foreground: Colour,
    /// The colour behind it.
    pub background: Colour,
    /// [`BOLD`] and so on.
    pub flags: u16,
}

/// Bold.
pub const BOLD: u16 = 1;
/// Faint.
pub const FAINT: u16 = 2;
/// Italic.
pub const ITALIC: u16 = 4;
/// Underlined, in whatever way.
pub const UNDERLINE: u16 = 8;
/// Blinking.
pub const BLINK: u16 = 16;
/// Colours swapped.
pub const INVERSE: u16 = 32;
/// Not shown.
pub const HIDDEN: u16 = 64;
/// Struck out.
pub const STRUCK: u16 = 128;

/// The flags with their parameters of SGR, on and off.
pub const FLAGS: [(u16, u16, u16); 8] = [
    (BOLD, 1, 22),
    (FAINT, 2, 22),
    (ITALIC, 3, 23),
    (UNDERLINE, 4, 24),
    (BLINK, 5, 25),
    (INVERSE, 7, 27),
    (HIDDEN, 8, 28),
    (STRUCK, 9, 29),
];

impl Value for Style {
    fn sum(self) -> u64 {
        // Each in its own register.
        let (foreground, background) = (u64::from(self.foreground.0), u64::from(self.background.0));
        foreground ^ background << 26 ^ u64::from(self.flags) << 52
    }
}

impl Style {
    /// As two words.
    pub fn words(self) -> [u64; 2] {
        [u64::from(self.foreground.0) | u64::from(self.background.0) << 32, self.flags.into()]
    }

    /// Of two words.
    pub fn of_words([colours, flags]: [u64; 2]) -> Style {
        Style { foreground: Colour(colours as u32), background: Colour((colours >> 32) as u32), flags: flags as u16 }
    }

    /// What an erased cell has of it: the background.
    pub fn erased(self) -> Style {
        Style { background: self.background, ..Style::default() }
    }

    /// The sequence that a terminal needs to write in this style, whatever it had before.
    pub fn sequence(self, out: &mut Vec<u8>) {
        if self == Style::default() {
            return out.extend(b"\x1b[0m");
        }
        out.extend(b"\x1b[0");
        let mut rest = self.flags;
        for (flag, on, _) in FLAGS {
            if rest & flag != 0 {
                parameter(on as u8, out);
            }
            rest &= !flag;
            if rest == 0 {
                break;
            }
        }
        colour(self.foreground, 30, out);
        colour(self.background, 40, out);
        out.push(b'm');
    }
}

fn colour(colour: Colour, base: u8, out: &mut Vec<u8>) {
    let mut put = |values: &[u8]| values.iter().for_each(|value| parameter(*value, out));
    match (colour.number(), colour.parts()) {
        (Some(n @ 0..8), _) => parameter(base + n, out),
        (Some(n @ 8..16), _) => parameter(base + 52 + n, out),
        (Some(n), _) => put(&[base + 8, 5, n]),
        (None, Some([r, g, b])) => put(&[base + 8, 2, r, g, b]),
        (None, None) => {}
    }
}

/// One more parameter. Each coloured word of a row that leaves the screen has some: without the machinery of formats.
fn parameter(value: u8, out: &mut Vec<u8>) {
    let [hundreds, tens, ones] = [value / 100, value / 10 % 10, value % 10].map(|digit| b'0' + digit);
    match value {
        0..10 => out.extend([b';', ones]),
        10..100 => out.extend([b';', tens, ones]),
        _ => out.extend([b';', hundreds, tens, ones]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_says_what_was_put_into_it() {
        let cell = Cell::wide('中', 7);
        assert_eq!((cell.glyph(), cell.style(), cell.is_wide(), cell.is_tail()), (Glyph::Char('中'), 7, true, false));
        let cell = cell.with_cluster(9).with_style(65535);
        assert_eq!((cell.glyph(), cell.style(), cell.is_wide()), (Glyph::Cluster(9), 65535, true));
        assert_eq!((Cell::blank(3).glyph(), Cell::tail(3).is_tail()), (Glyph::Nothing, true));
    }

    #[test]
    fn a_run_of_ascii_ends_at_another_style_and_at_what_is_none() {
        for other in
            [Cell::narrow('a', 1), Cell::narrow('é', 2), Cell::wide('中', 2), Cell::narrow('a', 2).with_cluster(0)]
        {
            for at in 0..20 {
                let mut cells = [Cell::narrow('~', 2); 20];
                cells[at / 2] = Cell::blank(2);
                cells[at] = other;
                assert_eq!(Cell::ascii_run(&cells, 2), at, "{other:?}");
            }
        }
        assert_eq!((Cell::blank(2).ascii(), Cell::narrow('~', 2).ascii()), (b' ', b'~'));
    }

    #[test]
    fn a_word_of_memory_that_is_no_character_is_shown_as_such() {
        for wrong in [0x1b, 0x7f, 0x9f, 0xd800, 0x11_0000] {
            let cell = Cell::of_word(7 << 32 | wrong);
            assert_eq!((cell.glyph(), cell.style()), (Glyph::Char(char::REPLACEMENT_CHARACTER), 7), "{wrong:#x}");
        }
        for right in [
            Cell::blank(1),
            Cell::narrow('é', 2),
            Cell::wide('中', 3),
            Cell::tail(3),
            Cell::narrow('a', 0).with_cluster(27),
        ] {
            assert_eq!(Cell::of_word(right.0), right);
        }
    }

    #[test]
    fn a_style_is_written_as_a_terminal_reads_it() {
        let style =
            Style { foreground: Colour::of_palette(9), background: Colour::rgb(1, 2, 3), flags: BOLD | INVERSE };
        let mut out = Vec::new();
        style.sequence(&mut out);
        assert_eq!(out, b"\x1b[0;1;7;91;48;2;1;2;3m");
        assert_eq!(Style::of_words(style.words()), style);
        let all = Style { foreground: Colour::of_palette(100), flags: 0xff, ..Style::default() };
        out.clear();
        all.sequence(&mut out);
        Style::default().sequence(&mut out);
        assert_eq!(out, b"\x1b[0;1;2;3;4;5;7;8;9;38;5;100m\x1b[0m");
        assert_eq!(Colour::rgb(255, 0, 0).nearest(), Colour::of_palette(196));
    }
}
