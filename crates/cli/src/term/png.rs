//! `chappe term show --png`: a screen as a picture.
//!
//! A cell is 9 pixels wide and 17 high, in the font Hack, which has Latin, Greek, Cyrillic, line drawing and symbols. A character that it does not have is
//! drawn as one like it (ticks, crosses, stars) or as a box; braille is drawn here. Colours are xterm's; bold is drawn twice, one pixel apart, and italic is slanted.

use anyhow::{Context, Result};
use chappe::term::cell::{BOLD, Cell, Colour, FAINT, HIDDEN, INVERSE, ITALIC, STRUCK, Style, UNDERLINE};
use chappe::term::modes;
use chappe::term::screen::Screen;
use fontdue::{Font, FontSettings};
use std::io::Write;

/// Of a cell, in pixels.
const WIDE: usize = 9;
const HIGH: usize = 17;

/// Where characters stand: so many pixels below the top of a cell.
const BASELINE: i32 = 13;

/// The height of the font, in pixels: its characters are as wide as a cell.
const SIZE: f32 = 14.95;

/// The terminal's own colours.
const FOREGROUND: [u8; 3] = [0xd0, 0xd0, 0xd0];
const BACKGROUND: [u8; 3] = [0x10, 0x10, 0x10];

/// What stands for characters that the font does not have and that programs write: ticks and crosses of tests, bullets, stars.
const ALIKE: [(&str, char); 6] =
    [("✓✔✅☑", '√'), ("✗✘✖❌☒", '×'), ("★☆✱✳✶✻✽✢", '*'), ("⏺⬤⬢", '●'), ("☐⬡", '□'), ("⏎", '↵')];

/// The palette's first colours, as xterm has them.
const FIRST: [[u8; 3]; 16] = [
    [0, 0, 0],
    [205, 0, 0],
    [0, 205, 0],
    [205, 205, 0],
    [0, 0, 238],
    [205, 0, 205],
    [0, 205, 205],
    [229, 229, 229],
    [127, 127, 127],
    [255, 0, 0],
    [0, 255, 0],
    [255, 255, 0],
    [92, 92, 255],
    [255, 0, 255],
    [0, 255, 255],
    [255, 255, 255],
];

/// Writes a screen as PNG; with the cursor, where one is shown.
///
/// # Errors
/// What is written to refuses.
pub fn write(screen: &Screen, with_cursor: bool, to: impl Write) -> Result<()> {
    let font = Font::from_bytes(epaint_default_fonts::HACK_REGULAR, FontSettings::default());
    let font = font.map_err(anyhow::Error::msg).context("cannot read the font")?;
    let mut picture = Picture::new(screen.columns() * WIDE, screen.rows() * HIGH);
    let cursor = screen.cursor();
    let is_shown = with_cursor && screen.modes().has(modes::CURSOR);
    for row in 0..screen.rows() {
        for (column, cell) in screen.shown().row(row).iter().enumerate().filter(|(_, cell)| !cell.is_tail()) {
            let is_cursor = is_shown && (row, column) == (cursor.row, cursor.column);
            picture.cell(&font, screen, *cell, (column * WIDE, row * HIGH), is_cursor);
        }
    }
    let mut encoder = png::Encoder::new(to, picture.wide as u32, (picture.pixels.len() / picture.wide) as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(picture.pixels.as_flattened())?;
    Ok(writer.finish()?)
}

struct Picture {
    wide: usize,
    pixels: Vec<[u8; 3]>,
}

/// What a colour is on the screen.
fn shown(colour: Colour, or: [u8; 3]) -> [u8; 3] {
    let level = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
    match (colour.parts(), colour.number()) {
        (Some(parts), _) => parts,
        (None, Some(n @ 0..16)) => FIRST[usize::from(n)],
        (None, Some(n @ 16..232)) => [(n - 16) / 36, (n - 16) / 6 % 6, (n - 16) % 6].map(level),
        (None, Some(n)) => [8 + 10 * (n - 232); 3],
        (None, None) => or,
    }
}

/// A colour between two: `part` of 255 of the first.
fn between(one: [u8; 3], other: [u8; 3], part: u8) -> [u8; 3] {
    let mix = |a: u8, b: u8| ((u32::from(a) * u32::from(part) + u32::from(b) * (255 - u32::from(part))) / 255) as u8;
    std::array::from_fn(|at| mix(one[at], other[at]))
}

/// The colours of a style: of the character, and behind it.
fn colours(style: Style) -> ([u8; 3], [u8; 3]) {
    let (mut front, mut back) = (shown(style.foreground, FOREGROUND), shown(style.background, BACKGROUND));
    if style.flags & INVERSE != 0 {
        std::mem::swap(&mut front, &mut back);
    }
    if style.flags & FAINT != 0 {
        front = between(front, back, 128);
    }
    (if style.flags & HIDDEN != 0 { back } else { front }, back)
}

impl Picture {
    fn new(wide: usize, high: usize) -> Picture {
        Picture { wide, pixels: vec![BACKGROUND; wide * high] }
    }

    fn fill(&mut self, (left, top): (usize, usize), (wide, high): (usize, usize), colour: [u8; 3]) {
        for row in self.pixels[top * self.wide..].chunks_mut(self.wide).take(high) {
            let end = (left + wide).min(row.len());
            row[left..end].fill(colour);
        }
    }

    fn cell(&mut self, font: &Font, screen: &Screen, cell: Cell, at: (usize, usize), is_cursor: bool) {
        let style = screen.style_of(cell);
        let (mut front, mut back) = colours(style);
        if is_cursor {
            std::mem::swap(&mut front, &mut back);
        }
        let size = (if cell.is_wide() { 2 * WIDE } else { WIDE }, HIGH);
        self.fill(at, size, back);
        let mut text = String::new();
        screen.text_of(cell, &mut text);
        // Of a cluster, the marks and joiners that the font has not are left out: the first character stands for it.
        let drawn = |(place, c): &(usize, char)| !c.is_whitespace() && (*place == 0 || font.has_glyph(*c));
        for (_, c) in text.char_indices().filter(drawn) {
            self.glyph(font, c, at, size, front, style.flags);
        }
        for (flag, below) in [(UNDERLINE, BASELINE + 2), (STRUCK, BASELINE - 4)] {
            if style.flags & flag != 0 {
                self.fill((at.0, at.1 + below as usize), (size.0, 1), front);
            }
        }
    }

    fn glyph(&mut self, font: &Font, c: char, at: (usize, usize), size: (usize, usize), colour: [u8; 3], flags: u16) {
        if let bits @ 0..256 = (c as u32).wrapping_sub(0x2800) {
            // Braille, of which progress spinners are made: dots 1 to 3 and 7 to the left, 4 to 6 and 8 to the right.
            let dots = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)];
            for (_, (column, row)) in dots.into_iter().enumerate().filter(|(bit, _)| bits >> bit & 1 != 0) {
                self.fill((at.0 + 2 + 4 * column, at.1 + 2 + 4 * row), (2, 2), colour);
            }
            return;
        }
        let alike = ALIKE.iter().find(|(all, _)| !font.has_glyph(c) && all.contains(c));
        let c = alike.map_or(c, |(_, alike)| *alike);
        if !font.has_glyph(c) {
            let (left, right) = ((at.0 + 1, at.1 + 3), at.0 + size.0 - 2);
            self.fill(left, (size.0 - 2, 1), colour);
            self.fill((left.0, at.1 + HIGH - 4), (size.0 - 2, 1), colour);
            self.fill(left, (1, HIGH - 6), colour);
            self.fill((right, left.1), (1, HIGH - 6), colour);
            return;
        }
        let (metrics, parts) = font.rasterize(c, SIZE);
        let top = BASELINE - metrics.ymin - metrics.height as i32;
        // In the middle of two columns.
        let left = metrics.xmin + (size.0 - WIDE) as i32 / 2;
        for (y, row) in (top..).zip(parts.chunks(metrics.width.max(1))) {
            let slant = if flags & ITALIC != 0 { (BASELINE - y) / 5 } else { 0 };
            for (x, part) in (left + slant..).zip(row) {
                let twice = if flags & BOLD != 0 { 2 } else { 1 };
                (0..twice).for_each(|more| self.blend(at, (x + more, y), colour, *part));
            }
        }
    }

    /// Draws a part of a pixel. Nothing leaves the cell's rows.
    fn blend(&mut self, at: (usize, usize), (x, y): (i32, i32), colour: [u8; 3], part: u8) {
        let column = at.0 as i32 + x;
        if (0..HIGH as i32).contains(&y) && (0..self.wide as i32).contains(&column) {
            let pixel = &mut self.pixels[(at.1 + y as usize) * self.wide + column as usize];
            *pixel = between(colour, *pixel, part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chappe::term::feed::Emulator;

    fn drawn(stream: &str, with_cursor: bool) -> (u32, u32, Vec<u8>) {
        let mut it = Emulator::new(8, 2);
        it.feed(stream.as_bytes());
        let mut file = Vec::new();
        write(it.screen(), with_cursor, &mut file).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        (info.width, info.height, pixels)
    }

    #[test]
    fn a_picture_has_the_cells_and_their_colours() {
        let (wide, high, pixels) = drawn("\x1b[41m \x1b[48;2;1;2;3m \x1b[7;33m \x1b[m \u{2588}", true);
        assert_eq!((wide, high), (8 * 9, 2 * 17));
        let at = |column: usize| &pixels[(8 * 72 + column * 9 + 4) * 3..][..3];
        assert_eq!((at(0), at(1), at(2)), (&FIRST[1][..], &[1, 2, 3][..], &FIRST[3][..]));
        assert_eq!((at(3), at(4)), (&BACKGROUND[..], &FOREGROUND[..]));
        assert_eq!((at(5), at(6)), (&FOREGROUND[..], &BACKGROUND[..]), "the cursor");
    }

    #[test]
    fn a_drawing_is_as_wide_as_its_cells() {
        let count = |text: &str| drawn(text, false).2.chunks(3).filter(|pixel| *pixel != BACKGROUND).count();
        assert_eq!(count(""), 0);
        assert!(count("m") > 30 && count("\x1b[1mm") > count("m") && count("\x1b[4mm") > count("m"));
        // A box for what the font does not have, in two columns.
        assert_eq!(count("\u{4e2d}"), 2 * 16 + 2 * 9);
        for (all, alike) in ALIKE {
            assert!(all.chars().all(|c| count(&c.to_string()) == count(&alike.to_string())), "{all}");
        }
        assert_eq!((count("\u{280b}"), count("\u{28ff}")), (3 * 4, 8 * 4));
        // Blanks, and marks behind a character that the font has not, leave nothing.
        assert_eq!((count("\u{2800}"), count("\u{3000}"), count("a\u{308}")), (0, 0, count("a")));
        assert!(count("\x1b[3ml") != 0 && drawn("\x1b[3mL", false) != drawn("L", false));
    }

    #[test]
    fn the_lines_of_a_frame_meet() {
        let (_, _, pixels) = drawn("\u{2500}\u{2500}", false);
        let is_set = |row: usize, column: usize| pixels[(row * 72 + column) * 3..][..3] != BACKGROUND;
        assert!((0..17).any(|row| (0..18).all(|column| is_set(row, column))));
        let (_, _, pixels) = drawn("\u{2502}\r\n\u{2502}", false);
        let is_set = |row: usize, column: usize| pixels[(row * 72 + column) * 3..][..3] != BACKGROUND;
        assert!((0..9).any(|column| (0..34).all(|row| is_set(row, column))));
    }
}
