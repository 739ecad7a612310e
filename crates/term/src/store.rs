//! A terminal's state as words, and back: what lies in shared memory, and what a new holder and every viewer begin with.
//!
//! The words of one state, from its start on (sizes in words):
//!
//! | from | what |
//! |---|---|
//! | 0 | [`HEAD`] words: sizes, cursor, style, modes, counts, positions |
//! | [`PENDING`] | the bytes of what is not complete yet |
//! | [`TITLE`] | the title |
//! | [`ANSWERS`] | answers that are to be given to the program |
//! | [`TABS`] | tab stops, a bit each |
//! | [`TABLE`] | the tables of both screens' rows, then when each was changed |
//! | [`STYLES`], [`CLUSTERS`] | the tables |
//! | [`CELLS`] | the cells of the main screen, then those of the alternate one |
//!
//! There are no pointers in it. What is read is checked: every word may be anything.

use crate::cell::{Cell, Style};
use crate::feed::{At, Emulator, MOST};
use crate::grid::Grid;
use crate::intern::{CLUSTER_WORDS, Cluster, Table, Value};
use crate::modes::Modes;
use crate::screen::{
    Cursor, MOST_ANSWERS, MOST_CELLS, MOST_CLUSTERS, MOST_COLUMNS, MOST_ROWS, MOST_STYLES, MOST_TITLE, Saved, Screen,
    fit,
};
use chappe_plat::atomic::{AtomicU64, Ordering};

/// How many words the head has.
pub const HEAD: usize = 64;
/// Where the bytes of an incomplete sequence are.
pub const PENDING: usize = HEAD;
/// Where the title is.
pub const TITLE: usize = PENDING + (MOST + 1).div_ceil(8);
/// Where the answers are.
pub const ANSWERS: usize = TITLE + MOST_TITLE / 8;
/// Where the tab stops are.
pub const TABS: usize = ANSWERS + MOST_ANSWERS / 8;
/// Where the tables of rows are.
pub const TABLE: usize = TABS + MOST_COLUMNS.div_ceil(64);
/// Where the styles are.
pub const STYLES: usize = TABLE + 4 * MOST_ROWS;
/// Where the clusters are.
pub const CLUSTERS: usize = STYLES + 2 * MOST_STYLES;
/// Where the cells are.
pub const CELLS: usize = CLUSTERS + CLUSTER_WORDS * MOST_CLUSTERS;
/// Where the head has the number of styles, and behind it that of clusters.
const STYLES_LEN: usize = 23;
/// How many words a state can have.
pub const WORDS: usize = CELLS + 2 * MOST_CELLS;

/// What belongs to a state and is not the screen's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beside {
    /// How many bytes of the stream it comes from.
    pub parsed: u64,
    /// Where the history begins, and the number of the line there.
    pub first: u64,
    /// The number of the first line of the history.
    pub first_line: u64,
    /// Where the history ends.
    pub end: u64,
    /// When it was saved: nanoseconds since 1970.
    pub time: u64,
}

/// What a place in shared memory has by now of a state, so that only what is new is written.
#[derive(Clone, Copy, Default, Debug)]
pub struct Kept {
    /// All changes up to this number.
    now: u64,
    /// The tables as of this sweep, so many of each.
    sweeps: u64,
    styles: usize,
    clusters: usize,
}

/// How many words a state of this size needs.
pub fn words_for(columns: usize, rows: usize) -> usize {
    CELLS + 2 * columns * rows
}

fn put(place: &[AtomicU64], at: usize, words: impl IntoIterator<Item = u64>) {
    // Relaxed: whoever reads them goes by the version.
    place[at..].iter().zip(words).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
}

fn packed(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks(8).map(|part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        u64::from_le_bytes(word)
    })
}

fn unpacked(words: &[u64], len: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(len as usize);
    bytes
}

fn pair(low: usize, high: usize) -> u64 {
    low as u64 | (high as u64) << 32
}

fn halves(word: u64) -> (usize, usize) {
    (word as u32 as usize, (word >> 32) as usize)
}

fn bits(tabs: &[bool]) -> impl Iterator<Item = u64> {
    tabs.chunks(64).map(|part| part.iter().rev().fold(0, |word, stop| word << 1 | u64::from(*stop)))
}

fn of_cursor(cursor: Cursor, drawing: u8, is_origin: bool) -> [u64; 2] {
    let flags = u64::from(cursor.is_past) | u64::from(drawing) << 8 | u64::from(is_origin) << 1;
    [pair(cursor.row, cursor.column), flags]
}

/// Writes a state to a place that has `kept` of it.
pub fn save(it: &mut Emulator, beside: Beside, place: &[AtomicU64], kept: &mut Kept) {
    let (at, pending) = it.pending();
    let screen = it.screen();
    let mut head = vec![pair(screen.columns(), screen.rows()), at as u64, pending.len() as u64];
    head.extend(of_cursor(screen.cursor, screen.drawing, false));
    head.extend(screen.style.words());
    head.extend([pair(screen.top, screen.bottom), u64::from(screen.modes.0), u64::from(screen.shape)]);
    head.extend([screen.base, u64::from(u32::from(screen.last)), screen.bells]);
    for saved in screen.saved {
        head.extend(of_cursor(saved.cursor, saved.drawing, saved.is_origin));
        head.extend(saved.style.words());
    }
    head.extend([screen.title.len(), screen.answers.len()].map(|len| len as u64));
    debug_assert_eq!(head.len(), STYLES_LEN);
    head.extend([screen.styles.values().len(), screen.clusters.values().len()].map(|len| len as u64));
    head.extend([beside.parsed, beside.first, beside.first_line, beside.end, beside.time]);
    put(place, 0, head);
    put(place, PENDING, packed(pending));
    put(place, TITLE, packed(screen.title.as_bytes()));
    put(place, ANSWERS, packed(&screen.answers));
    put(place, TABS, bits(&screen.tabs));
    let changed = screen.main.positions().chain(screen.alternate.positions());
    put(place, TABLE, screen.main.table().chain(screen.alternate.table()).chain(changed));
    if kept.sweeps != screen.sweeps || kept.now == 0 {
        (kept.styles, kept.clusters, kept.sweeps) = (0, 0, screen.sweeps);
    }
    let (styles, clusters) = (screen.styles.values(), screen.clusters.values());
    put(place, STYLES + 2 * kept.styles, styles[kept.styles..].iter().flat_map(|style| style.words()));
    let new = clusters[kept.clusters..].iter().flat_map(|cluster| cluster.words());
    put(place, CLUSTERS + CLUSTER_WORDS * kept.clusters, new);
    (kept.styles, kept.clusters) = (styles.len(), clusters.len());
    let mut from = CELLS;
    for (stamp, cells) in screen.main.places().chain(screen.alternate.places()) {
        if stamp > kept.now {
            put(place, from, cells.iter().map(|cell| cell.0));
        }
        from += cells.len();
    }
    kept.now = screen.now;
    it.screen_mut().saved();
}

/// The parts of a state that are in use, as its head says; `load` gives its words.
pub fn parts(load: &impl Fn(usize) -> u64) -> [std::ops::Range<usize>; 5] {
    let (columns, rows) = halves(load(0));
    let (columns, rows) = fit(columns, rows);
    let (styles, clusters) = (load(STYLES_LEN) as usize, load(STYLES_LEN + 1) as usize);
    [
        0..TABLE,
        TABLE..TABLE + 4 * rows,
        STYLES..STYLES + 2 * styles.min(MOST_STYLES),
        CLUSTERS..CLUSTERS + CLUSTER_WORDS * clusters.min(MOST_CLUSTERS),
        CELLS..CELLS + 2 * columns * rows,
    ]
}

/// The state of these words, as many as [`words_for`] says; None: they make no sense.
pub fn load(words: &[u64]) -> Option<(Emulator, Beside)> {
    let mut head = words.get(..HEAD)?.iter().copied();
    let mut next = || head.next();
    let size = halves(next()?);
    let (columns, rows) = size;
    if fit(columns, rows) != size || words.len() < words_for(columns, rows) {
        return None;
    }
    let (at, pending) = (At::of(next()?), next()?);
    let mut screen = Screen::new(columns, rows);
    let (cursor, drawing, _) = cursor([next()?, next()?], columns, rows);
    (screen.cursor, screen.drawing) = (cursor, drawing);
    let style = Style::of_words([next()?, next()?]);
    let (top, bottom) = halves(next()?);
    if top < bottom && bottom <= rows {
        (screen.top, screen.bottom) = (top, bottom);
    }
    (screen.modes, screen.shape) = (Modes(next()? as u32), next()? as u8);
    screen.base = next()?;
    screen.last = char::from_u32(next()? as u32)?;
    screen.bells = next()?;
    for saved in &mut screen.saved {
        let (cursor, drawing, is_origin) = self::cursor([next()?, next()?], columns, rows);
        *saved = Saved { cursor, style: Style::of_words([next()?, next()?]), drawing, is_origin };
    }
    let (title, answers) = (next()?, next()?);
    let (styles, clusters) = (next()? as usize, next()? as usize);
    let mut word = || next().unwrap_or(0);
    let beside = Beside { parsed: word(), first: word(), first_line: word(), end: word(), time: word() };
    // Counts that would overflow.
    let counts = [screen.base, screen.bells, beside.parsed, beside.first, beside.first_line, beside.end];
    if counts.iter().any(|count| *count > 1 << 62) || beside.first > beside.end {
        return None;
    }
    let pending = unpacked(&words[PENDING..TITLE], pending);
    let text = unpacked(&words[TITLE..ANSWERS], title);
    screen.title = String::from_utf8_lossy(&text).chars().filter(|c| !c.is_control()).collect();
    screen.answers = unpacked(&words[ANSWERS..TABS], answers);
    screen.tabs = (0..columns).map(|at| words[TABS + at / 64] >> (at % 64) & 1 == 1).collect();
    let styles = words[STYLES..CLUSTERS].chunks_exact(2).take(styles).map(|pair| Style::of_words([pair[0], pair[1]]));
    screen.styles = table(MOST_STYLES, styles);
    let clusters = words[CLUSTERS..CELLS].chunks_exact(CLUSTER_WORDS).take(clusters);
    let cluster = |words: &[u64]| words.try_into().map(Cluster::of_words).unwrap_or_default();
    screen.clusters = table(MOST_CLUSTERS, clusters.map(cluster));
    let (tables, changed) = words[TABLE..TABLE + 4 * rows].split_at(2 * rows);
    let (tables, changed) = (tables.split_at(rows), changed.split_at(rows));
    let mut cells = words[CELLS..].iter().copied();
    screen.main = Grid::of(columns, (tables.0, changed.0), cells.by_ref().take(columns * rows), screen.now)?;
    screen.alternate = Grid::of(columns, (tables.1, changed.1), cells, screen.now)?;
    screen.at_byte(beside.parsed);
    mend(&mut screen.main);
    mend(&mut screen.alternate);
    screen.set_style(style);
    Some((Emulator::of(screen, at, pending, beside.parsed), beside))
}

fn table<T: Value>(most: usize, values: impl Iterator<Item = T>) -> Table<T> {
    let values: Vec<T> = values.collect();
    if values.is_empty() { Table::new(most) } else { Table::of(most, values) }
}

fn cursor([place, flags]: [u64; 2], columns: usize, rows: usize) -> (Cursor, u8, bool) {
    let (row, column) = halves(place);
    let cursor = Cursor { row: row.min(rows - 1), column: column.min(columns - 1), is_past: flags & 1 == 1 };
    (cursor, (flags >> 8) as u8, flags & 2 != 0)
}

/// A second column without its first: nothing.
fn mend(grid: &mut Grid) {
    for row in 0..grid.rows() {
        let is_half = |at: usize, cells: &[Cell]| {
            let tail = cells[at].is_tail() && (at == 0 || !cells[at - 1].is_wide());
            tail || cells[at].is_wide() && cells.get(at + 1).is_none_or(|next| !next.is_tail())
        };
        let halves: Vec<usize> = (0..grid.columns()).filter(|at| is_half(*at, grid.row(row))).collect();
        halves.into_iter().for_each(|at| grid.row_mut(row)[at] = Cell::blank(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Vec<AtomicU64> {
        (0..words_for(20, 6)).map(|_| AtomicU64::new(0)).collect()
    }

    fn words(place: &[AtomicU64]) -> Vec<u64> {
        // Relaxed: one thread.
        place.iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }

    fn seen(it: &Emulator) -> String {
        let s = it.screen();
        let row = |row| (s.text(row), s.shown().wraps(row), s.shown().changed(row));
        let rows: Vec<_> = (0..s.rows()).map(row).collect();
        let styles: Vec<_> = (0..s.rows()).flat_map(|row| s.shown().row(row)).map(|c| s.style_of(*c)).collect();
        let rest = (s.cursor, s.modes, s.style, s.drawing, s.saved, s.top, s.bottom, s.shape, &s.tabs, s.base);
        format!("{rows:?} {styles:?} {rest:?} {} {:?} {:?}", s.title, s.answers, it.pending())
    }

    #[test]
    fn a_state_is_saved_in_parts_and_read_back() {
        let streams = [
            "one\r\ntwo\x1b[1;31mthree\x1b[2;5r\x1b7",
            "e\u{301}中\x1b]2;title\x07\x1b[6n\x1b[?1049h\x1b[3;3Hx\x1bH",
            "\x1b[48;2;1;2;3mq\r\n\r\n\r\n\r\n\r\nlast\x1b[?2004h\x1b(0x\x1b[3",
        ];
        let (place, mut kept, mut it) = (place(), Kept::default(), Emulator::new(20, 6));
        for stream in streams {
            it.feed(stream.as_bytes());
            let beside = Beside { parsed: 7, first: 8, first_line: 9, end: 10, time: 11 };
            save(&mut it, beside, &place, &mut kept);
            let (again, read) = load(&words(&place)).expect("a state");
            assert_eq!((seen(&again), read), (seen(&it), beside));
        }
    }

    #[test]
    fn words_that_make_no_sense_do_no_harm() {
        let (place, mut it) = (place(), Emulator::new(20, 6));
        it.feed("中text\x1b[31m".as_bytes());
        save(&mut it, Beside::default(), &place, &mut Kept::default());
        let good = words(&place);
        for at in (0..HEAD).chain([TABLE, TABLE + 1, STYLES, CLUSTERS, CELLS, CELLS + 1]) {
            for wrong in [0, 1, u64::MAX, 1 << 31, 1 << 49, 0x7fff_ffff] {
                let mut words = good.clone();
                words[at] = wrong;
                if let Some((mut it, _)) = load(&words) {
                    it.feed("x中\x1b[5;5Hy\n\n\x1b[Lz\x1b8\x1b[?1049h".as_bytes());
                    (0..it.screen().rows()).for_each(|row| _ = it.screen().text(row));
                }
            }
        }
        assert!(load(&[]).is_none() && load(&good[..HEAD]).is_none());
    }
}
