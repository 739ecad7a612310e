//! Any split of the stream gives the same screen.

use crate::streams;
use chappe_term::feed::Emulator;
use proptest::prelude::*;

const COLUMNS: usize = 17;
const ROWS: usize = 7;

/// All that can be seen of a terminal.
fn seen(it: &mut Emulator) -> String {
    let scrolled = it.screen_mut().take_scrolled();
    let pending = format!("{:?}", it.pending());
    let screen = it.screen();
    let rows: Vec<_> =
        (0..ROWS).map(|row| (screen.text(row), screen.shown().wraps(row), screen.shown().changed(row))).collect();
    let styles: Vec<_> = (0..ROWS).flat_map(|row| screen.shown().row(row)).map(|cell| screen.style_of(*cell)).collect();
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
    let all = whole(stream.as_bytes());
    (0..stream.len()).for_each(|at| assert_eq!(cut(stream.as_bytes(), [at].into_iter()), all, "{at}"));
}
