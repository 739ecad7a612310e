//! The same screens as other terminals: `alacritty_terminal` on random streams, `vt100` on what that one does not do as xterm does.
//!
//! Differences that the streams leave out, and why each is ours:
//! - a tab behind the last column: alacritty goes to the next row, xterm stays;
//! - `CSI 0 J` behind the last column: alacritty erases the last character, tmux and we do not, as with `CSI 0 K`;
//! - `CSI 1 J` in the second row: alacritty leaves the first one;
//! - cursor moves at the edges of a region: alacritty and vt100 leave it, xterm does not;
//! - more characters taken out than there are up to the edge: alacritty erases some before the cursor;
//! - control characters of 8 bits, raw or in UTF-8, do nothing: alacritty does what some say, xterm what those in UTF-8 say;
//! - characters put in or taken out beside a wide one: alacritty leaves halves.

use crate::streams;
use alacritty_terminal::Term;
use alacritty_terminal::event::VoidListener;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::term::test::TermSize;
use alacritty_terminal::term::{Config, TermMode};
use alacritty_terminal::vte::ansi::{Color, Processor};
use chappe_term::cell::{BOLD, Colour, INVERSE, UNDERLINE};
use chappe_term::feed::Emulator;
use proptest::prelude::*;
use std::num::NonZero;

const COLUMNS: usize = 20;
const ROWS: usize = 8;

/// The rows as text, the cursor, and whether a character would go into the next row.
type Seen = (Vec<String>, (usize, usize), bool);

fn ours(stream: &[u8]) -> (Emulator, Seen) {
    let mut it = Emulator::new(COLUMNS, ROWS);
    it.feed(stream);
    let screen = it.screen();
    let rows = (0..ROWS).map(|row| screen.text(row)).collect();
    let at = screen.cursor();
    let seen = (rows, (at.row, at.column), at.is_past);
    (it, seen)
}

fn alacritty(stream: &[u8]) -> (Term<VoidListener>, Seen) {
    let mut term = Term::new(Config::default(), &TermSize::new(COLUMNS, ROWS), VoidListener);
    Processor::<alacritty_terminal::vte::ansi::StdSyncHandler>::new().advance(&mut term, stream);
    let mut rows = Vec::new();
    for row in 0..ROWS {
        let mut text = String::new();
        for column in 0..COLUMNS {
            let cell = &term.grid()[Line(row as i32)][Column(column)];
            if cell.flags.contains(Flags::WIDE_CHAR_SPACER) {
                continue;
            }
            text.push(if cell.c == '\t' { ' ' } else { cell.c });
            text.extend(cell.zerowidth().into_iter().flatten());
        }
        rows.push(text.trim_end_matches(' ').to_owned());
    }
    let at = &term.grid().cursor;
    let seen = (rows, (at.point.line.0 as usize, at.point.column.0), at.input_needs_wrap);
    (term, seen)
}

fn colour(colour: Color) -> Colour {
    match colour {
        Color::Named(name) if (name as usize) < 16 => Colour::of_palette(name as u8),
        Color::Named(_) => Colour::OWN,
        Color::Indexed(number) => Colour::of_palette(number),
        Color::Spec(rgb) => Colour::rgb(rgb.r, rgb.g, rgb.b),
    }
}

/// Also the styles, of what is written.
fn check_styles(ours: &Emulator, theirs: &Term<VoidListener>) -> Result<(), TestCaseError> {
    let screen = ours.screen();
    for row in 0..ROWS {
        for column in 0..COLUMNS {
            let cell = screen.shown().row(row)[column];
            let their = &theirs.grid()[Line(row as i32)][Column(column)];
            if their.c == ' ' || their.c == '\t' {
                continue;
            }
            let style = screen.style_of(cell);
            let flags = [(BOLD, Flags::BOLD), (UNDERLINE, Flags::UNDERLINE), (INVERSE, Flags::INVERSE)];
            let same = flags.iter().all(|(own, other)| (style.flags & own != 0) == their.flags.contains(*other));
            prop_assert!(same, "{row} {column}: {style:?} {:?}", their.flags);
            prop_assert_eq!(style.foreground, colour(their.fg), "{} {}", row, column);
            prop_assert_eq!(style.background, colour(their.bg), "{} {}", row, column);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(streams::cases(120))]

    #[test]
    fn a_stream_of_ascii_gives_alacrittys_screen(stream in streams::narrow()) {
        // Cursor moves at the edges of a region, and their origins, differ: see the head.
        let has_region = stream.windows(2).any(|w| w[0].is_ascii_digit() && w[1] == b'r');
        let moves = |stream: &[u8]| {
            stream.windows(4).any(|w| w[..2] == *b"\x1b[" && w.iter().any(|b| b"ABEF".contains(b)))
        };
        prop_assume!(!(has_region && moves(&stream)));
        let ((mut own, ours), (term, theirs)) = (ours(&stream), alacritty(&stream));
        // It erases the last character.
        prop_assume!(!stream.windows(3).any(|w| w == b"[0J"));
        prop_assert_eq!(ours, theirs);
        check_styles(&own, &term)?;
        prop_assert_eq!(
            own.screen().modes().has(chappe_term::modes::ALTERNATE),
            term.mode().contains(TermMode::ALT_SCREEN)
        );
        own.screen_mut().take_scrolled();
    }

    #[test]
    fn a_stream_of_wide_characters_gives_alacrittys_screen(stream in streams::wide()) {
        let ((own, ours), (term, theirs)) = (ours(&stream), alacritty(&stream));
        prop_assert_eq!(ours, theirs);
        check_styles(&own, &term)?;
    }
}

#[test]
fn differences_from_alacritty_are_as_in_vt100() {
    let streams = [
        "one\r\ntwo\x1b[1Jx",
        "a\x1b[1J",
        "12345678901234567890\x1b[Jx",
        "12345678901234567890\x1b[Kx",
        "ab\x1b[2;5r\x1b[?6h\x1b[1;1Hx\x1b[9;1Hy",
        "abc\x1b[2Jd",
        "abc\x1b[3D\x1b[2@x\x1b[Py",
        "\x1b[4;1Hdown\x1b[2A\x1b[Lup\x1b[M",
    ];
    for stream in streams {
        let size = |n: usize| NonZero::new(n as u16).expect("a size");
        let mut parser = vt100::Parser::new(size(ROWS), size(COLUMNS), 0);
        parser.process(stream.as_bytes());
        let theirs: Vec<String> =
            parser.screen().rows(0, COLUMNS as u16).map(|row| row.trim_end_matches(' ').to_owned()).collect();
        assert_eq!(ours(stream.as_bytes()).1.0, theirs, "{stream:?}");
    }
}
