//! Looking for a text in a terminal, look after look.
//!
//! Each look takes the lines that are new since the last one, and those that can still change: what is on the screen. A line that goes on in
//! the next row is one. A search can begin behind a *mark*: the moment at which a text was typed. Then these count:
//!
//! - R1 a line in which anything was written since the mark, also above the cursor, and on the alternate screen. Not a line that only moved;
//! - R2 of the line in which the cursor was, what stands behind the cursor's place, as long as the text before that place is the same. Without
//!   what was typed, if it stands there: the echo. A match that begins in the echo counts if it ends behind it;
//! - R3 what the program had written before the text was typed does not count, also where the holder had not read it yet.
//!
//! Blanks at the end of a line do not count, except in the line of the cursor: there an expression may also match the blanks up to it, as of a prompt.
//!
//! A line that never ends is looked at in pieces of [`MOST_ROWS`] rows, each of which has half of the piece before it: a match of up to half a
//! piece is found. Neither `^` nor `$` matches where a piece begins or ends inside the line.

use crate::keys;
use crate::layout::{self, TYPED};
use crate::line;
use crate::place::Place;
use crate::view::{Line, Snapshot};
use chappe_plat::atomic::Ordering;
use regex::Regex;
use std::fmt;
use std::str::FromStr;

/// How many rows of a line are looked at as one.
pub const MOST_ROWS: usize = 4096;

/// A moment at which a text was typed: where the cursor was, and what the program had written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// The line of the cursor.
    pub line: u64,
    /// How many bytes the program had written.
    pub byte: u64,
    /// The cursor's row and column. The column behind the last one: the cursor was past it.
    pub row: u32,
    /// See `row`.
    pub column: u32,
    /// Where the text begins in all that was ever typed.
    pub typed: u64,
    /// The [`line::sum`] of what stood before the cursor in its row.
    pub text: u64,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mark { line, byte, row, column, typed, text } = self;
        write!(f, "{line}.{byte}.{row}.{column}.{typed}.{text:x}")
    }
}

/// Where a search begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// Behind the line of this number.
    Line(u64),
    /// Behind what was there when a text was typed.
    Mark(Mark),
}

impl FromStr for After {
    type Err = String;

    fn from_str(text: &str) -> Result<After, String> {
        let parts: Vec<&str> = text.split('.').collect();
        let number = |part: &str| part.parse::<u64>().ok();
        let mark = |parts: &[&str]| {
            let [line, byte, row, column, typed, text] = parts else { return None };
            Some(Mark {
                line: number(line)?,
                byte: number(byte)?,
                row: row.parse().ok()?,
                column: column.parse().ok()?,
                typed: number(typed)?,
                text: u64::from_str_radix(text, 16).ok()?,
            })
        };
        let line = || number(text).map(After::Line);
        mark(&parts).map(After::Mark).or_else(line).ok_or_else(|| {
            format!("`{text}` is no mark: write what `chappe term send` has printed, or the number of a line")
        })
    }
}

/// A line that has the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its number: of its first row.
    pub line: u64,
    /// Its text; of the line that was typed into, what counts of it.
    pub text: String,
    /// What matched.
    pub matched: String,
    /// How many lines left the history before they were looked at.
    pub lost: u64,
}

/// A search through what a terminal shows, and has shown.
#[derive(Debug)]
pub struct Search {
    regex: Regex,
    after: Option<After>,
    /// The first line that is still to be looked at; None before the first look.
    from: Option<u64>,
    /// The line that the search begins behind goes on.
    is_inside: bool,
    /// What was typed at the mark.
    typed: Option<String>,
    lost: u64,
}

/// A line, or a piece of one.
struct Piece<'a> {
    rows: &'a [Line],
    /// The row before it, if the line begins before it.
    before: Option<&'a Line>,
    /// It goes to the line's present end.
    is_last: bool,
}

impl Search {
    /// One that looks at what is on the screen and what comes, or at what comes `after` something.
    pub fn new(regex: Regex, after: Option<After>) -> Search {
        Search { regex, after, from: None, is_inside: matches!(after, Some(After::Line(_))), typed: None, lost: 0 }
    }

    /// How many lines left the history before they were looked at.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Looks at what is new in a terminal; the first line that has the text.
    pub fn look(&mut self, place: &Place, now: &Snapshot) -> Option<Found> {
        let base = now.screen.base();
        let begin = self.from.unwrap_or_else(|| match self.after {
            None => base,
            Some(After::Line(line)) => line.saturating_add(1),
            Some(After::Mark(mark)) => mark.line.saturating_sub(mark.row.into()),
        });
        if let (Some(After::Mark(mark)), None) = (self.after, &self.typed) {
            self.typed = Some(place.typed_from(mark.typed));
        }
        // With the line before the first one, which may go on in it.
        let lines = place.lines(now, begin.saturating_sub(1)).lines;
        let mut at = lines.iter().position(|line| line.number >= begin).unwrap_or(lines.len());
        let there = lines.get(at).map_or(begin, |line| line.number);
        self.lost += there - begin;
        let mut next = there;
        while self.is_inside && at < lines.len() {
            self.is_inside = at.checked_sub(1).is_some_and(|before| lines[before].wraps);
            at += usize::from(self.is_inside);
        }
        while at < lines.len() {
            let rest = &lines[at..];
            let end = rest.iter().take(MOST_ROWS).position(|line| !line.wraps);
            let len = end.map_or(rest.len().min(MOST_ROWS), |last| last + 1);
            let is_last = end.is_some() || rest.len() <= MOST_ROWS;
            let before = at.checked_sub(1).map(|before| &lines[before]);
            let before = before.filter(|line| line.wraps && line.number + 1 == rest[0].number);
            let piece = Piece { rows: &rest[..len], before, is_last };
            let to_cursor = || {
                let (screen, cursor) = (&now.screen, now.screen.cursor());
                let is_there = piece.rows.iter().any(|row| row.number == screen.line());
                is_there.then(|| self.in_piece(&piece, Some((screen.line(), cursor.column)))).flatten()
            };
            if let Some(found) = self.in_piece(&piece, None).or_else(to_cursor) {
                return Some(found);
            }
            let step = if is_last { len } else { MOST_ROWS / 2 };
            // What is on the screen can change; and a line whose end is not there yet goes on.
            if rest[len - 1].number < base && (end.is_some() || !is_last) {
                next = rest[step - 1].number + 1;
            }
            at += step;
        }
        self.from = Some(next);
        None
    }

    /// `blanks`: the line and the column up to which they count.
    fn in_piece(&self, piece: &Piece<'_>, blanks: Option<(u64, usize)>) -> Option<Found> {
        let line = piece.rows[0].number;
        let mark = match self.after {
            Some(After::Mark(mark)) => Some(mark),
            _ => None,
        };
        // R1.
        if mark.is_some_and(|mark| piece.rows.iter().all(|row| row.changed <= mark.byte)) {
            return None;
        }
        let (mut text, mut cursor) = (piece.before.map(Line::text).unwrap_or_default(), None);
        let start = text.len();
        for row in piece.rows {
            let mut part = row.text();
            if let Some((_, column)) = blanks.filter(|(line, _)| *line == row.number) {
                let missing = column.saturating_sub(line::columns(&part));
                part.extend(std::iter::repeat_n(' ', missing));
            }
            if let Some(mark) = mark.filter(|mark| mark.line == row.number) {
                let before = line::before(&part, mark.column as usize);
                // R2.
                cursor = (line::sum(&part[..before]) == mark.text).then_some(text.len() + before);
            }
            text.push_str(&part);
        }
        let lost = self.lost;
        let found = |text: &str, matched: &str| Found { line, text: text.into(), matched: matched.into(), lost };
        if let Some(cursor) = cursor {
            let behind = &text[cursor..];
            let echo = common(behind, self.typed.as_deref().unwrap_or_default());
            let answer = Some(&behind[echo..]).filter(|answer| !answer.is_empty())?;
            if let Some(matched) = self.regex.find(answer) {
                return Some(found(answer, matched.as_str()));
            }
            let matched = self.regex.find_iter(behind).find(|matched| matched.end() > echo)?;
            return Some(found(behind, matched.as_str()));
        }
        let is_there = match piece.is_last {
            true => self.regex.is_match_at(&text, start),
            // One that needs the end of the piece is looked for in the next one.
            false => self.regex.shortest_match_at(&text, start).is_some_and(|end| end < text.len()),
        };
        let matched = is_there.then(|| self.regex.find_at(&text, start)).flatten()?;
        Some(found(&text[start..], matched.as_str()))
    }
}

/// How many bytes both texts begin with.
fn common(one: &str, other: &str) -> usize {
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other);
    same.map(|(c, _)| c.len_utf8()).sum()
}

impl Place {
    /// The text that was typed from a position of all that was ever typed, up to the first control character; empty where it is not kept any more, and of
    /// another user's.
    fn typed_from(&self, position: u64) -> String {
        let Some(ring) = self.own_words().get(..TYPED / 8) else { return String::new() };
        let put = || self.word(layout::PUT).load(Ordering::Acquire) & !layout::CLOSED; // Acquire: what was put is there.
        let is_kept = |end: u64| end.checked_sub(position).filter(|len| *len <= TYPED as u64);
        let Some(len) = is_kept(put()) else { return String::new() };
        let byte = |at: u64| {
            let at = (at % TYPED as u64) as usize;
            // Relaxed: whether it was overwritten is looked at behind it.
            ring[at / 8].load(Ordering::Relaxed).to_le_bytes()[at % 8]
        };
        let bytes: Vec<u8> = (position..position + len).map(byte).collect();
        let typed = bytes.strip_prefix(keys::PASTE_BEGINS).unwrap_or(&bytes);
        let end = typed.iter().position(u8::is_ascii_control).unwrap_or(typed.len());
        let text = String::from_utf8_lossy(&typed[..end]).into_owned();
        is_kept(put()).map_or_else(String::new, |_| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_written_and_read() {
        let mark = Mark { line: 1, byte: 2, row: 3, column: 4, typed: 5, text: u64::MAX };
        assert_eq!(mark.to_string().parse(), Ok(After::Mark(mark)));
        assert_eq!("17".parse(), Ok(After::Line(17)));
        for wrong in ["", "x", "1.2", "1.2.3.4.5.6.7", "-1", "1.2.3.4.5.xyz"] {
            assert!(wrong.parse::<After>().is_err(), "{wrong}");
        }
    }
}
