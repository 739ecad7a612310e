//! Any split of the stream gives the same screen.

use crate::streams::{self, Random};
use chappe_term::feed::{Emulator, MOST};
use proptest::prelude::*;

const COLUMNS: usize = 17;
const ROWS: usize = 7;

/// All that can be seen of a terminal.
fn seen(it: &mut Emulator) -> String {
    let scrolled = it.screen_mut().take_scrolled();
    let pending = format!("{:?}", it.pending());
    let screen = it.screen();
    let all = 0..screen.rows();
    let row = |row| (screen.text(row), screen.shown().wraps(row), screen.shown().changed(row));
    let rows: Vec<_> = all.clone().map(row).collect();
    let styles: Vec<_> = all.flat_map(|row| screen.shown().row(row)).map(|cell| screen.style_of(*cell)).collect();
    let answers = screen.answers();
    format!(
        "{rows:?} {styles:?} {:?} {:?} {answers:?} {} {} {} {scrolled:?} {pending}",
        screen.cursor(),
        screen.modes(),
        screen.title(),
        screen.bells(),
        screen.base()
    )
}

fn whole(stream: &[u8]) -> String {
    let mut it = Emulator::new(COLUMNS, ROWS);
    it.feed(stream);
    seen(&mut it)
}

fn cut(stream: &[u8], sizes: impl Iterator<Item = usize>) -> String {
    let mut it = Emulator::new(COLUMNS, ROWS);
    let mut rest = stream;
    for size in sizes {
        let (now, later) = rest.split_at(size.min(rest.len()));
        it.feed(now);
        rest = later;
    }
    it.feed(rest);
    seen(&mut it)
}

proptest! {
    #![proptest_config(streams::cases(60))]

    #[test]
    fn a_wild_stream_gives_the_same_screen_however_it_is_cut(
        stream in streams::wild(),
        sizes in prop::collection::vec(1..9usize, 0..100),
    ) {
        prop_assert_eq!(cut(&stream, sizes.into_iter()), whole(&stream));
    }

    #[test]
    fn a_usual_stream_gives_the_same_screen_byte_by_byte(stream in streams::narrow(), wide in streams::wide()) {
        for stream in [stream, wide] {
            prop_assert_eq!(cut(&stream, std::iter::repeat_n(1, stream.len())), whole(&stream));
        }
    }
}

#[test]
fn each_cut_of_a_stream_with_everything_gives_the_same_screen() {
    let stream = "a\x1b[1;31mé中\u{301}\x1b]0;tit;le\x07\x1bPq#1\x1b\\\x1b[?1049h\x1b[2;3Hx\x1b[?1049l\x1b(0q\x1b(B\x1b[6n\r\n\x18\x1b[3";
    // A zero behind each byte is ignored.
    let with_zeros: Vec<u8> = stream.bytes().flat_map(|byte| [byte, 0]).collect();
    for stream in [stream.as_bytes(), &with_zeros] {
        let all = whole(stream);
        (0..stream.len()).for_each(|at| assert_eq!(cut(stream, [at].into_iter()), all, "{at}"));
    }
    let text = |stream: &[u8]| {
        let mut it = Emulator::new(COLUMNS, ROWS);
        it.feed(stream);
        (0..ROWS).map(|row| it.screen().text(row)).collect::<Vec<_>>()
    };
    assert_eq!(text(&with_zeros), text(stream.as_bytes()));
}

/// One emulator has pieces of a few bytes and the other pieces of the usual size; both are resized now and then.
#[test]
#[ignore = "storm: a hundred million bytes"]
fn a_long_random_stream_gives_the_same_screen_however_it_is_cut() {
    const BYTES: usize = 100_000_000;
    let mut random = Random::new();
    let (mut one, mut other) = (Emulator::new(COLUMNS, ROWS), Emulator::new(COLUMNS, ROWS));
    let mut done = 0;
    while done < BYTES {
        let mut stream = Vec::new();
        while stream.len() < 20_000 {
            random.piece(&mut stream);
        }
        stream.chunks(4096).for_each(|piece| one.feed(piece));
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(random.below(40).min(rest.len()));
            other.feed(now);
            rest = later;
        }
        done += stream.len();
        let (one_seen, other_seen) = (seen(&mut one), seen(&mut other));
        assert!(
            one_seen == other_seen,
            "behind {done} bytes of seed {}: {:?}",
            random.seed,
            String::from_utf8_lossy(&stream)
        );
        let screen = one.screen();
        assert!(screen.cursor().row < screen.rows() && screen.cursor().column < screen.columns());
        assert!(one.pending().1.len() <= MOST + 1);
        // Most of the time usual ones.
        let (columns, rows) = if random.below(4) > 0 { (80, 24) } else { (random.below(300), random.below(70)) };
        for it in [&mut one, &mut other] {
            let answers = it.screen().answers().len();
            it.screen_mut().answered(answers);
            it.screen_mut().resize(columns, rows);
        }
    }
}
