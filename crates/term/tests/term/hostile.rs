//! Streams that are meant to do harm: no panic, no endless loop, and no more memory than a screen needs.

use crate::streams;
use chappe_term::feed::Emulator;
use chappe_term::screen::{MOST_ANSWERS, MOST_CELLS, MOST_CLUSTERS, MOST_STYLES};
use proptest::prelude::*;

proptest! {
    #![proptest_config(streams::cases(40))]

    #[test]
    fn resizes_between_wild_streams_do_no_harm(
        parts in prop::collection::vec((streams::wild(), streams::wide(), 0..40usize, 0..20usize), 1..8),
    ) {
        let mut it = Emulator::new(0, 0);
        for (wild, wide, columns, rows) in parts {
            it.feed(&wild);
            it.feed(&wide);
            it.screen_mut().resize(columns, rows);
            let at = it.screen().cursor();
            prop_assert!(at.row < it.screen().rows() && at.column < it.screen().columns());
            (0..it.screen().rows()).for_each(|row| _ = it.screen().text(row));
        }
    }
}

#[test]
fn sizes_out_of_bounds_are_made_to_fit() {
    for (columns, rows, fits) in
        [(0, 0, (1, 1)), (10_000, 10_000, (10_000, MOST_CELLS / 10_000)), (80, 9999, (80, 2000))]
    {
        let mut it = Emulator::new(80, 24);
        it.screen_mut().resize(columns, rows);
        assert_eq!((it.screen().columns(), it.screen().rows()), fits);
        it.feed("x中\x1b[99999;99999Hy\n\n\x1b[99999b\x1b[99999L\x1b[99999@\x1b[99999X\x1b[99999S".as_bytes());
    }
}

/// Seven bytes that fill and clear a screen of the greatest size, a thousand times: the rows that leave it are taken in between.
#[test]
fn a_few_bytes_put_no_more_than_a_screen_aside() {
    let mut it = Emulator::new(1000, 262);
    let stream = b"\x1b#8\x1b[2J".repeat(20);
    let (mut rest, mut rounds, mut most) = (&stream[..], 0, 0);
    while !rest.is_empty() {
        rest = &rest[it.feed_some(rest, 1 << 20)..];
        most = most.max(it.screen_mut().take_scrolled().text.len());
        rounds += 1;
    }
    assert!(rounds == 4 && most <= (1 << 20) + MOST_CELLS, "{rounds} {most}");
    assert_eq!(it.screen().base(), 20 * 262);
}

#[test]
fn floods_of_marks_styles_and_questions_are_bounded() {
    let mut it = Emulator::new(80, 24);
    it.feed("a".as_bytes());
    (0..100_000).for_each(|_| it.feed("\u{301}".as_bytes()));
    assert!(it.screen().text(0).len() < 64);
    for n in 0..60_000u32 {
        let (r, g, b) = (n >> 16 & 255, n >> 8 & 255, n & 255);
        it.feed(format!("\x1b[38;2;{r};{g};{b}mx\u{301}\x1b[6n").as_bytes());
    }
    assert!(it.screen().answers().len() <= MOST_ANSWERS);
    it.screen_mut().take_scrolled();
    // The last characters have their styles: old ones were thrown out.
    let last = it.screen().shown().row(it.screen().cursor().row)[it.screen().cursor().column.saturating_sub(1)];
    assert_eq!(it.screen().style_of(last).foreground.parts(), Some([0, 234, 95]));
    const { assert!(MOST_STYLES <= 1 << 16 && MOST_CLUSTERS <= 1 << 16) }
}

#[test]
fn more_colours_than_there_are_styles_are_rounded() {
    let mut it = Emulator::new(200, 200);
    for n in 0..40_000u32 {
        it.feed(format!("\x1b[38;2;{};{};{}mx", n >> 16 & 255, n >> 8 & 255, n & 255).as_bytes());
    }
    let screen = it.screen();
    let coloured = (0..200).flat_map(|row| screen.shown().row(row)).filter(|c| screen.style_of(**c).foreground.0 != 0);
    assert_eq!(coloured.count(), 40_000);
}
