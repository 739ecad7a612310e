//! What counts for a search behind a mark, and lines that never end.

use crate::memory::{COLUMNS, Home, home, read, type_some, type_unheard};
use chappe_term::holder::{Holder, PIPELINE};
use chappe_term::place::Place;
use chappe_term::search::{After, MOST_ROWS, Mark, Search};
use chappe_term::view::Watch;
use regex::Regex;
use std::time::Duration;

/// Types a text that the program takes at once; the mark.
fn typed(home: &Home, holder: &mut Holder<'_>, text: &str) -> Mark {
    let writer = Place::find(&home.dir, "t", true).expect("it is there");
    std::thread::scope(|scope| {
        let typing = scope.spawn(|| {
            let mut watch = Watch::begin(&writer).expect("a watch");
            let right = writer.writer(Duration::MAX).expect("the right");
            right.type_bytes(text.as_bytes(), None, &mut watch).expect("typed")
        });
        while !typing.is_finished() {
            type_some(holder, true, |len| len);
            std::thread::yield_now();
        }
        typing.join().expect("no panic")
    })
}

fn search(regex: &str, after: Option<After>) -> Search {
    Search::new(Regex::new(regex).expect("an expression"), after)
}

/// The line and what matched.
fn look(search: &mut Search, place: &Place) -> Option<(u64, String)> {
    let now = place.snapshot().expect("a state");
    search.look(place, &now).map(|found| (found.line, found.matched))
}

fn say(holder: &mut Holder<'_>, text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        rest = &rest[read(holder, rest, true)..];
    }
    holder.save();
}

#[test]
fn blanks_before_the_cursor_count_and_need_not() {
    let home = home();
    let place = home.make("t");
    let mut holder = Holder::begin(&place, COLUMNS, 8);
    say(&mut holder, "one  \r\n$ ");
    let found = |regex: &str| look(&mut search(regex, None), &place).map(|(line, _)| line);
    for regex in [r"^\$$", r"\$ ", r"^\$ $"] {
        assert_eq!(found(regex), Some(1), "{regex}");
    }
    // More of them than there are, and at the end of another line.
    assert_eq!((found(r"\$  "), found("one ")), (None, None));
    let mark = typed(&home, &mut holder, "su\r");
    let after = |regex: &str| look(&mut search(regex, Some(After::Mark(mark))), &place).map(|(line, _)| line);
    assert_eq!(after(r"\$ "), None);
    say(&mut holder, "su\r\nPassword: ");
    assert_eq!((after("Password: $"), after("Password:$"), after(" $")), (Some(2), Some(2), Some(2)));
}

/// What stood there; what is typed; what the program writes then; the text; where it is found.
const CASES: [(&str, &str, &str, &str, Option<u64>); 17] = [
    // In the line of the question, with the echo and without.
    ("Name: ", "Ann\r", "Hello Ann", "Ann", Some(0)),
    ("Name: ", "Ann\r", "Ann Hello", "^ Hello", Some(0)),
    ("Name: ", "Ann\r", "Ann", "Ann", None),
    ("Name: ", "Ann\r", "An", "A", None),
    ("Name: ", "Ann\r", "Ann\r\nHello Ann", "Ann", Some(1)),
    ("[y/n] ", "y", "yes", "yes", Some(0)),
    ("[y/n] ", "y", "", "n", None),
    // The same line, written anew.
    ("Name: ", "Ann\r", "\r\x1b[KReading", "^Reading", Some(0)),
    // Above the cursor; what was there has only moved.
    ("one\r\ntwo\r\n$ ", "x\r", "x\r\n\x1b[2A\rnew", "^new", Some(1)),
    ("one\r\ntwo\r\n$ ", "x\r", "x\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n", "one|two|[$]", None),
    ("one\r\ntwo\r\n$ ", "x\r", "x\r\n\x1b[2J\x1b[Hthree", "one|two|[$]", None),
    ("one\r\ntwo\r\n$ ", "x\r", "x\r\n\x1b[1;8r\x1b[1;1H\x1bM", "one|two", None),
    // On the alternate screen, and back.
    ("one\x1b[?1049h\x1b[8;1H:", "w\r", "w\x1b[1;1Hwritten", "written", Some(0)),
    ("one\x1b[?1049h\x1b[8;1H:", "w\r", "w", "one|w", None),
    ("one\x1b[?1049h\x1b[8;1H:", "q\r", "q\x1b[?1049l", "one", None),
    // Over the edge, from a cursor that is past it.
    ("01234567890123456789", "abc\r", "abc;", "^;$", Some(0)),
    ("0123456789012345中", "é中\r", "é中\u{301};", "^\u{301};$", Some(0)),
];

#[test]
fn only_what_is_written_behind_a_mark_counts() {
    for (before, text, after, regex, line) in CASES {
        let home = home();
        let place = home.make("t");
        let mut holder = Holder::begin(&place, COLUMNS, 8);
        say(&mut holder, before);
        let mark = typed(&home, &mut holder, text);
        // Each byte alone, and all at once.
        for is_whole in [false, true] {
            let mut it = search(regex, Some(After::Mark(mark)));
            assert_eq!(look(&mut it, &place).is_some(), is_whole && line.is_some(), "{before:?} {after:?} {regex}");
            if !is_whole {
                after.bytes().for_each(|byte| say_byte(&mut holder, byte));
                assert_eq!(look(&mut it, &place).map(|found| found.0), line, "{before:?} {after:?} {regex}");
            }
        }
    }
}

fn say_byte(holder: &mut Holder<'_>, byte: u8) {
    read(holder, &[byte], true);
    holder.save();
}

#[test]
fn output_from_before_the_typed_text_is_not_counted_as_after_it() {
    let home = home();
    let place = home.make("t");
    let mut holder = Holder::begin(&place, COLUMNS, 8);
    let writer = Place::find(&home.dir, "t", true).expect("it is there");
    std::thread::scope(|scope| {
        let typing = scope.spawn(|| {
            let mut watch = Watch::begin(&writer).expect("a watch");
            let right = writer.writer(Duration::MAX).expect("the right");
            right.type_bytes(b"x", None, &mut watch).expect("typed")
        });
        // As long as the kernel may have more that was written before, nothing is typed.
        let mut early = 0;
        for _ in 0..1000 {
            early += type_some(&mut holder, false, |len| len).len();
            std::thread::yield_now();
        }
        say(&mut holder, "done\r\n");
        while !typing.is_finished() {
            type_some(&mut holder, true, |len| len);
            std::thread::yield_now();
        }
        let mark = typing.join().expect("no panic");
        assert_eq!(early, 0);
        let mut it = search("done", Some(After::Mark(mark)));
        assert_eq!((mark.line, look(&mut it, &place)), (1, None));
        say(&mut holder, "xdone");
        assert_eq!(look(&mut it, &place), Some((1, "done".into())));
    });
}

/// A text that comes behind a reading waits for the next one.
#[test]
fn a_text_is_typed_only_behind_a_reading_that_began_when_it_was_there() {
    let home = home();
    let place = home.make("t");
    let mut holder = Holder::begin(&place, COLUMNS, 8);
    holder.hear();
    let writer = Place::find(&home.dir, "t", true).expect("it is there");
    std::thread::scope(|scope| {
        let typing = scope.spawn(|| {
            let mut watch = Watch::begin(&writer).expect("a watch");
            let right = writer.writer(Duration::MAX).expect("the right");
            right.type_bytes(b"x", None, &mut watch).expect("typed")
        });
        // The last reading found nothing, before the text came.
        for _ in 0..1000 {
            assert!(type_unheard(&mut holder, true, |len| len).is_empty());
            std::thread::yield_now();
        }
        while !typing.is_finished() {
            type_some(&mut holder, true, |len| len);
        }
    });
}

#[test]
fn a_flood_does_not_hold_back_what_is_typed() {
    let home = home();
    let place = home.make("t");
    let mut holder = Holder::begin(&place, COLUMNS, 8);
    let writer = Place::find(&home.dir, "t", true).expect("it is there");
    std::thread::scope(|scope| {
        let typing = scope.spawn(|| {
            let mut watch = Watch::begin(&writer).expect("a watch");
            let right = writer.writer(Duration::MAX).expect("the right");
            right.type_bytes(b"x", None, &mut watch).expect("typed")
        });
        while !typing.is_finished() {
            holder.hear();
            if holder.can_type() {
                type_unheard(&mut holder, false, |len| len);
            }
            say(&mut holder, "flood\r\n");
        }
        assert!(typing.join().expect("no panic").byte >= PIPELINE);
    });
}

#[test]
fn a_line_that_never_ends_is_looked_at_in_pieces_that_overlap() {
    let home = home();
    let place = home.make_with("t", (COLUMNS, 8), 4 << 20).expect("a terminal");
    let mut holder = Holder::begin(&place, COLUMNS, 8);
    holder.save();
    let (mut begin, mut over) = (search("^b|b$c", None), search("xy", None));
    assert_eq!((look(&mut begin, &place), look(&mut over, &place)), (None, None));
    let row = |number: usize| match number {
        0 => format!("a{}", "b".repeat(COLUMNS - 1)),
        // Over the end of the first piece.
        _ if number == MOST_ROWS - 1 => format!("{}x", "b".repeat(COLUMNS - 1)),
        MOST_ROWS => format!("y{}", "b".repeat(COLUMNS - 1)),
        _ => "b".repeat(COLUMNS),
    };
    for number in 0..3 * MOST_ROWS {
        read(&mut holder, row(number).as_bytes(), true);
        if number % 1000 == 999 {
            holder.save();
            assert_eq!(look(&mut begin, &place), None, "{number}");
            if !(MOST_ROWS..=6000).contains(&number) {
                assert_eq!(look(&mut over, &place).is_some(), number == 6999, "{number}");
            }
        }
        if number == 6999 {
            // It has gone on: what is found once is behind it.
            over = search("xy", None);
        }
    }
    say(&mut holder, "z\r\nbz");
    assert_eq!(look(&mut begin, &place).map(|found| found.1), Some("b".into()));
}
