//! The memory that holders, viewers and writers have in common: holders that take over, viewers beside a holder that writes, a history that
//! overruns, typing.

use crate::streams;
use chappe_plat::dir::Dir;
use chappe_term::feed::Emulator;
use chappe_term::holder::{Holder, Read};
use chappe_term::layout::LEAST_HISTORY;
use chappe_term::line;
use chappe_term::place::{self, Making, Place, TermError};
use chappe_term::search::{After, Mark, Search};
use chappe_term::typed::TypeError;
use chappe_term::view::{Ended, Watch};
use proptest::prelude::*;
use regex::Regex;
use std::time::Duration;

pub const COLUMNS: usize = 20;
const ROWS: usize = 8;

pub struct Home {
    _folder: tempfile::TempDir,
    pub dir: Dir,
}

pub fn home() -> Home {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let dir = Dir::open(folder.path()).expect("it opens");
    Home { _folder: folder, dir }
}

impl Home {
    pub fn make(&self, name: &str) -> Place {
        self.make_with(name, (COLUMNS, ROWS), LEAST_HISTORY).expect("a terminal")
    }

    pub fn make_with(&self, name: &str, size: (usize, usize), history: u64) -> Result<Place, TermError> {
        let making = Making { size, history, command: "a command", note: b"a note", private: false };
        Place::make(&self.dir, name, &making)
    }
}

/// Bytes come from the program, as far as there is room at once. `counted`: the holder lives to count them.
pub fn read(holder: &mut Holder<'_>, bytes: &[u8], counted: bool) -> usize {
    let (to, room) = holder.room();
    let len = bytes.len().min(room);
    // SAFETY: as the kernel writes there in a read: the room is this long.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), len) };
    if counted {
        holder.took(len);
    }
    len
}

fn text(screen: &chappe_term::screen::Screen) -> Vec<String> {
    (0..screen.rows()).map(|row| screen.text(row)).collect()
}

proptest! {
    #![proptest_config(streams::cases(30))]

    #[test]
    fn a_holder_that_takes_over_comes_to_the_same_screen_and_history(
        parts in prop::collection::vec((streams::narrow(), streams::wild(), 0..4u8), 1..20),
    ) {
        let home = home();
        let place = home.make("t");
        let mut oracle = Emulator::new(COLUMNS, ROWS);
        let mut lines = Vec::new();
        let mut holder = Holder::begin(&place, COLUMNS, ROWS);
        for (mut bytes, wild, then) in parts {
            bytes.extend(wild);
            oracle.feed(&bytes);
            let scrolled = oracle.screen_mut().take_scrolled();
            let mut from = 0;
            for (end, _) in scrolled.ends {
                lines.push(line::plain(&scrolled.text[from..end]));
                from = end;
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let is_last = rest.len() <= 100;
                // Killed behind the reading, or behind the counting, or not; with or without a state.
                let used = read(&mut holder, &rest[..rest.len().min(100)], !(is_last && then == 1));
                rest = &rest[used..];
            }
            match then {
                1 | 2 => holder = Holder::begin(&place, COLUMNS, ROWS),
                3 => holder.save(),
                _ => {}
            }
        }
        holder.save();
        let now = place.snapshot().expect("a state");
        prop_assert_eq!(text(&now.screen), text(oracle.screen()));
        prop_assert_eq!((now.screen.cursor(), now.screen.base()), (oracle.screen().cursor(), oracle.screen().base()));
        let kept = place.lines(&now, 0);
        prop_assert_eq!(kept.lost, 0);
        let past = kept.lines.iter().take(lines.len()).map(|l| line::plain(&l.encoded)).collect::<Vec<_>>();
        prop_assert_eq!(past, lines);
        prop_assert!(kept.lines.iter().enumerate().all(|(at, line)| line.number == at as u64));
    }
}

/// A full history of lines of all lengths, killed behind lines that no state has: what was not overwritten is there, and goes on.
#[test]
fn a_successor_keeps_the_history_that_was_not_overwritten() {
    let home = home();
    let place = home.make("t");
    let mut holder = Holder::begin(&place, COLUMNS, ROWS);
    let line = |n: u64| format!("{n}{}", "x".repeat((n * 7 % 14) as usize));
    let mut n = 0;
    let mut kept = 0;
    for round in 0..60 {
        // Some hundred lines behind the last state, whose number is another each time.
        for _ in 0..200 + round * 3 {
            read(&mut holder, format!("{}\r\n", line(n)).as_bytes(), true);
            n += 1;
        }
        holder = Holder::begin(&place, COLUMNS, ROWS);
        let now = place.snapshot().expect("a state");
        let lines = place.lines(&now, 0).lines;
        let there = &lines[..lines.len() - 1];
        assert!(there.iter().all(|l| l.text() == line(l.number)), "round {round}");
        assert!(there.windows(2).all(|two| two[0].number + 1 == two[1].number), "round {round}");
        // As many as before, give or take what longer lines need.
        assert!(there.len() + 200 > kept, "round {round}: {} of {kept}", there.len());
        kept = kept.max(there.len());
    }
    assert!(kept > 1000 && kept < n as usize, "{kept} of {n}");
}

#[test]
fn bytes_that_holder_and_program_left_are_shown() {
    let home = home();
    let place = home.make("t");
    let mut holder = Holder::begin(&place, COLUMNS, ROWS);
    read(&mut holder, b"one\r\n", true);
    let all: Vec<u8> = (0..20).flat_map(|n| format!("line {n}\r\n").into_bytes()).collect();
    read(&mut holder, &all, true);
    read(&mut holder, b"the reason", false);
    let looker = Place::find(&home.dir, "t", false).expect("it is there");
    drop(place);
    let now = looker.snapshot().expect("a state");
    let lines = looker.lines(&now, 0);
    let text: Vec<String> = lines.lines.iter().map(|line| line.text()).collect();
    assert_eq!(
        (lines.lost, text[0].as_str(), text[20].as_str(), text[21].as_str()),
        (0, "one", "line 19", "the reason")
    );
    assert!(lines.lines.iter().enumerate().all(|(at, line)| line.number == at as u64));
}

#[test]
fn more_than_the_rings_hold_goes_through_and_the_oldest_lines_are_counted_as_lost() {
    let home = home();
    let place = home.make("t");
    let mut holder = Holder::begin(&place, COLUMNS, ROWS);
    let all: Vec<u8> = (0..100_000).flat_map(|n| format!("line {n}\r\n").into_bytes()).collect();
    let mut rest = &all[..];
    while !rest.is_empty() {
        let used = read(&mut holder, rest, true);
        rest = &rest[used..];
    }
    // Killed where no state is written: the ring has had many laps.
    assert!(holder.unsaved() > 0);
    drop(Holder::begin(&place, COLUMNS, ROWS));
    let now = place.snapshot().expect("a state");
    assert_eq!(now.screen.base(), 100_001 - ROWS as u64);
    let kept = place.lines(&now, 0);
    assert!(kept.lost > 90_000 && kept.lost == kept.lines[0].number, "{}", kept.lost);
    for line in &kept.lines[..kept.lines.len() - 1] {
        assert_eq!(line.text(), format!("line {}", line.number));
    }
    let mut search = Search::new(Regex::new("^line 99990$").expect("an expression"), Some(After::Line(5)));
    let found = search.look(&place, &now).expect("it is there");
    assert_eq!((found.text.as_str(), found.lost), ("line 99990", kept.lost - 6));
    let last = place.lines(&now, 99_990);
    assert_eq!((last.lost, last.lines[0].text()), (0, "line 99990".into()));
    drop(Holder::begin(&place, 1, 1));
    assert_eq!(place.snapshot().expect("a state").screen.text(0), now.screen.text(0));
}

#[test]
fn a_viewer_sees_whole_states_beside_a_holder_that_writes() {
    let home = home();
    let place = home.make("t");
    let looker = Place::find(&home.dir, "t", false).expect("it is there");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut holder = Holder::begin(&place, COLUMNS, ROWS);
            for round in 0..2000u32 {
                let c = char::from(b'a' + (round % 26) as u8);
                let bytes = format!("\x1b[H{}", c.to_string().repeat(COLUMNS * ROWS));
                // At the end of the ring a reading takes a part alone: the state between is not written.
                let mut rest = bytes.as_bytes();
                while !rest.is_empty() {
                    rest = &rest[read(&mut holder, rest, true)..];
                }
                holder.save();
            }
            holder.is_over(true, Read::Closed, false);
        });
        let mut versions = 0;
        let mut watch = Watch::begin(&looker).expect("a watch");
        while !looker.is_complete().expect("known") {
            watch.look();
            let Some(now) = looker.snapshot() else { continue };
            let cells: Vec<_> = (0..ROWS).flat_map(|row| now.screen.shown().row(row)).collect();
            assert!(cells.iter().all(|cell| *cell == cells[0]), "{:?}", text(&now.screen));
            versions = versions.max(now.version);
        }
        assert!(versions > 0);
    });
}

/// A flood on a screen of the greatest size does not overtake a viewer that copies it.
#[test]
fn a_viewer_of_a_large_screen_is_not_overtaken_for_ever() {
    let home = home();
    let place = home.make_with("t", (500, 524), LEAST_HISTORY).expect("a terminal");
    let looker = Place::find(&home.dir, "t", false).expect("it is there");
    let looked = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut holder = Holder::begin(&place, 500, 524);
            let row = [b'x'; 4000];
            // Acquire: pairs with the release below.
            while !looked.load(std::sync::atomic::Ordering::Acquire) {
                read(&mut holder, &row, true);
            }
        });
        let mut seen = 0;
        while seen < 5 {
            seen += u32::from(looker.snapshot().is_some());
        }
        looked.store(true, std::sync::atomic::Ordering::Release); // Release: as above.
    });
}

fn type_at(place: &Place, bytes: &[u8], patience: Option<Duration>) -> Result<Mark, TypeError> {
    let mut watch = Watch::begin(place).expect("a watch");
    place.writer(Duration::MAX).expect("the right").type_bytes(bytes, patience, &mut watch)
}

#[test]
fn typed_text_comes_once_and_in_order_or_its_writer_is_told() {
    let home = home();
    let place = home.make("t");
    let writer = Place::find(&home.dir, "t", true).expect("it is there");
    let mut holder = Holder::begin(&place, COLUMNS, ROWS);
    read(&mut holder, b"\r\n\r\n$ ", true);
    holder.save();
    let long: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
    std::thread::scope(|scope| {
        let typing = scope.spawn(|| type_at(&writer, &long, None));
        let mut typed: Vec<u8> = Vec::new();
        while typed.len() < long.len() {
            // The program takes a part at a time.
            typed.extend(type_some(&mut holder, true, |len| len.div_ceil(2)));
            std::thread::yield_now();
        }
        assert_eq!(typing.join().expect("no panic").expect("typed").line, 2);
        assert!(typed == long);
        let typing = scope.spawn(|| type_at(&writer, b"rm", None));
        end_as_it_types(&mut holder);
        let mut holder = Holder::begin(&place, COLUMNS, ROWS);
        assert!(matches!(typing.join().expect("no panic"), Err(TypeError::Doubt)));
        assert!(type_some(&mut holder, true, |len| len).is_empty());
    });
    let unread = type_at(&writer, b"xyz", Some(Duration::ZERO));
    assert!(matches!(unread, Err(TypeError::Unread { left: 3, kept: 3, all: 3 })), "{unread:?}");
}

/// Types what there is, as far as the program takes so many bytes. What it took.
pub fn type_some(holder: &mut Holder<'_>, is_empty: bool, takes: impl Fn(usize) -> usize) -> Vec<u8> {
    holder.hear();
    type_unheard(holder, is_empty, takes)
}

/// The same, of what was heard of.
pub fn type_unheard(holder: &mut Holder<'_>, is_empty: bool, takes: impl Fn(usize) -> usize) -> Vec<u8> {
    let mut typed = Vec::new();
    let took = |bytes: &[u8]| {
        typed.extend(&bytes[..takes(bytes.len())]);
        Ok(typed.len())
    };
    let count = holder.type_some(is_empty, took).expect("no error").unwrap_or(0);
    assert_eq!(count, typed.len());
    typed
}

/// Ends a holder in the middle of what it types, as a kill does, once there is something.
fn end_as_it_types(holder: &mut Holder<'_>) {
    loop {
        holder.hear();
        let ends = |_: &[u8]| std::panic::resume_unwind(Box::new("killed"));
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| holder.type_some(true, ends))).is_err() {
            return;
        }
        std::thread::yield_now();
    }
}

/// Types what there is; how many bytes, at least one.
fn give(holder: &mut Holder<'_>) -> usize {
    loop {
        match type_some(holder, true, |len| len).len() {
            0 => std::thread::yield_now(),
            count => return count,
        }
    }
}

#[test]
fn a_text_begins_at_one_line_whoever_types_its_end() {
    let home = home();
    let place = home.make("t");
    let writer = Place::find(&home.dir, "t", true).expect("it is there");
    let mut holder = Holder::begin(&place, COLUMNS, ROWS);
    for (text, line) in [(3000, 0), (1, 5), (0, 5)] {
        std::thread::scope(|scope| {
            let typing = scope.spawn(|| type_at(&writer, &vec![b'x'; text], None));
            let mut left = text;
            while left > 0 {
                left -= give(&mut holder);
                if left == 1976 {
                    // Between two pieces: nothing is in doubt.
                    read(&mut holder, b"1\r\n2\r\n3\r\n4\r\n5\r\n", true);
                    holder = Holder::begin(&place, COLUMNS, ROWS);
                }
            }
            while !typing.is_finished() {
                assert!(type_some(&mut holder, true, |len| len).is_empty());
                std::thread::yield_now();
            }
            assert_eq!(typing.join().expect("no panic").expect("typed").line, line, "{text}");
        });
    }
}

#[test]
fn a_text_in_doubt_has_no_end_without_its_middle() {
    let home = home();
    let place = home.make("t");
    let writer = Place::find(&home.dir, "t", true).expect("it is there");
    let mut holder = Holder::begin(&place, COLUMNS, ROWS);
    // More than the ring has: a part is put only later.
    let long = vec![b'x'; 100_000];
    std::thread::scope(|scope| {
        let typing = scope.spawn(|| type_at(&writer, &long, None));
        give(&mut holder);
        end_as_it_types(&mut holder);
        holder = Holder::begin(&place, COLUMNS, ROWS);
        assert!(matches!(typing.join().expect("no panic"), Err(TypeError::Doubt)));
    });
    assert!(type_some(&mut holder, true, |len| len).is_empty());
    std::thread::scope(|scope| {
        let typing = scope.spawn(|| type_at(&writer, b"next", None));
        assert_eq!(give(&mut holder), 4);
        assert!(typing.join().expect("no panic").is_ok());
    });
}

#[test]
fn a_size_is_asked_for_and_answered() {
    let home = home();
    let place = home.make("t");
    let writer = Place::find(&home.dir, "t", true).expect("it is there");
    let mut holder = Holder::begin(&place, COLUMNS, ROWS);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut watch = Watch::begin(&writer).expect("a watch");
            writer.writer(Duration::MAX).expect("the right").resize(65_535, 65_535, None, &mut watch)
        });
        let mut sizes = Vec::new();
        while sizes.is_empty() {
            holder.resize(|columns, rows| {
                sizes.push((columns, rows));
                Ok(())
            });
            std::thread::yield_now();
        }
        assert_eq!(sizes, [chappe_term::screen::fit(65_535, 65_535)]);
        assert!(asking.join().expect("no panic").expect("answered"));
    });
    let now = place.snapshot().expect("a state");
    assert_eq!((now.screen.columns(), now.screen.rows()), chappe_term::screen::fit(65_535, 65_535));
}

#[test]
fn names_are_taken_once_and_what_is_no_terminal_is_refused() {
    let home = home();
    let place = home.make("t");
    let again = home.make_with("t", (1, 1), 0);
    assert!(matches!(again, Err(TermError::Taken(_))));
    assert!(matches!(Place::find(&home.dir, "u", false), Err(TermError::Missing(_))));
    let file = |name: &str| home.dir.path().join(format!(".term-{name}"));
    std::fs::write(file("garbage"), "not a terminal at all, but long enough").expect("written");
    std::fs::write(file("short"), "x").expect("written");
    for name in ["garbage", "short"] {
        assert!(matches!(Place::find(&home.dir, name, false), Err(TermError::Foreign(_))), "{name}");
    }
    assert_eq!(place::names(&home.dir).expect("listed"), ["garbage", "short", "t"]);
    let found = Place::find(&home.dir, "t", false).expect("it is there");
    assert_eq!((found.command(), found.snapshot().is_none()), ("a command".into(), true));
    assert!(found.note() == b"a note" && found.is_own() && found.user() == place.user());
    assert!(matches!(found.writer(Duration::ZERO), Err(TypeError::NotYours)), "it was found to look at");
    assert!(found.is_alive().expect("known") && found.ended().expect("known").is_none());
    place.program_ended(Ok(7));
    assert_eq!(found.ended().expect("known").map(|(how, _)| how), Some(Ended::Exited(7)));
    for name in ["", ".a", "-a", "a/b", "a b", "é"] {
        assert!(matches!(Place::find(&home.dir, name, false), Err(TermError::Name(..))), "{name}");
    }
    assert!(matches!(place::remove(&home.dir, &found), Err(TermError::InUse(_))));
    drop(place);
    place::remove(&home.dir, &found).expect("removed");
    assert!(matches!(Place::find(&home.dir, "t", false), Err(TermError::Missing(_))));
}

/// As by a kill between a terminal's two names, at its making or its removal.
#[test]
fn a_second_file_that_a_killed_process_left_goes_when_the_next_terminal_is_made() {
    let home = home();
    let files = || home.dir.dotted_names().expect("listed").iter().filter(|name| name.starts_with(".typed-")).count();
    let (kept, lost) = (home.make("kept"), home.make("lost"));
    std::fs::remove_file(home.dir.path().join(".term-lost")).expect("it is there");
    assert_eq!(files(), 2);
    let next = home.make("lost");
    assert_eq!((files(), lost.note(), next.note()), (2, b"a note".to_vec(), b"a note".to_vec()));
    drop((lost, next));
    let next = Place::find(&home.dir, "lost", true).expect("it is there");
    place::remove(&home.dir, &next).expect("removed");
    assert_eq!((files(), Place::find(&home.dir, "kept", true).expect("it is there").note()), (1, kept.note()));
}
