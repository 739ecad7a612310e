//! Comma-separated values, by RFC 4180: quotes around a field, doubled within one, line ends in quotes, CRLF or LF.
//!
//! Only the columns that are asked for are looked at; of the others the ends are found, 64 bytes at a time. A quote counts at the begin of a field
//! alone. An empty field is NULL, `""` is an empty text. Empty lines are left out, where there is more than one column: of one they are its NULL.

use crate::batch::{Fill, Trouble};
use crate::place::{Slot, may_be_null};
use crate::seps::{Seps, find, places};
use memchr::memchr;
use std::collections::HashSet;
use std::sync::Arc;

/// Reads the columns of some slots.
#[derive(Clone, Debug)]
pub struct Csv {
    /// What is between fields.
    pub delimiter: u8,
    /// How many columns there are.
    pub columns: usize,
    /// What is read, by column.
    pub slots: Vec<Slot>,
    /// All columns are asked for, as they were guessed: these are none of them, and are told.
    pub others: Arc<[String]>,
    /// Where the first record begins that has them, and how many have.
    pub unread: Option<(usize, u64)>,
}

impl Csv {
    /// For these slots of so many columns.
    pub fn new(delimiter: u8, columns: usize, slots: Vec<Slot>) -> Csv {
        Csv { delimiter, columns, slots, others: Arc::new([]), unread: None }
    }
}

/// A field that is quoted, from a place behind its quote on: where its closing quote stands before `len`, and whether a doubled one is in it.
#[inline(always)]
fn closing(text: &[u8], len: usize, mut from: usize) -> Option<(usize, bool)> {
    let mut doubled = false;
    loop {
        let at = find(text, from, len, b'"')?;
        if at + 1 == len || text[at + 1] != b'"' {
            return Some((at, doubled));
        }
        doubled = true;
        from = at + 2;
    }
}

/// Makes one quote of each doubled one, where the field lies. Its new end.
fn undoubled(text: &mut [u8], from: usize, to: usize) -> usize {
    let (mut read, mut write) = (from, from);
    while read < to {
        let byte = text[read];
        text[write] = byte;
        write += 1;
        read += if byte == b'"' { 2 } else { 1 };
    }
    // What is left over was moved, and is no line end any more.
    text[write..to].fill(b'"');
    write
}

/// How far a text has been looked at that has no whole record yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looked {
    /// Where the field begins whose end is to come.
    field: usize,
    /// So far its closing quote was looked for.
    to: usize,
}

/// The end of the last whole record of a text that begins with one; none: there is no whole one. `last`: where the text's last line end stands.
pub fn whole(text: &[u8], len: usize, last: usize, delimiter: u8, looked: &mut Looked) -> Option<usize> {
    if looked.field == 0 && looked.to == 0 && memchr(b'"', &text[..len]).is_none() {
        return Some(last + 1);
    }
    if let (0, 0, Some(end)) = (looked.field, looked.to, whole_by_quotes(text, last, delimiter)) {
        return Some(end);
    }
    whole_by_fields(text, len, last, delimiter, looked)
}

/// The same, field by field.
fn whole_by_fields(text: &[u8], len: usize, last: usize, delimiter: u8, looked: &mut Looked) -> Option<usize> {
    let Looked { mut field, mut to } = *looked;
    // A line end behind the text stops the search.
    let (mut seps, mut end) = (Seps::new(delimiter, text, field), None);
    while field <= last {
        if text[field] == b'"' {
            match closing(text, len, to.max(field + 1)) {
                Some((quote, _)) if quote < last => seps.skip_to(text, quote + 1),
                // It may be one of two.
                Some((quote, _)) => {
                    to = quote;
                    break;
                }
                None => {
                    to = len;
                    break;
                }
            }
        }
        field = seps.next(text) + 1;
        if text[field - 1] == b'\n' {
            end = Some(field);
        }
    }
    *looked = Looked { field, to };
    end
}

/// The same of a text whose quotes are all at the begin of a field, doubled, or closing ones; none: one is not, or there is no whole record.
/// Then each quote opens or closes, a doubled one both, and 64 bytes are looked at at once.
fn whole_by_quotes(text: &[u8], last: usize, delimiter: u8) -> Option<usize> {
    if delimiter == b'"' {
        return None;
    }
    // The byte before a block: whether it lies within quotes (in all bits), is a quote, is a separator.
    let (mut within, mut quote, mut separator, mut end) = (0, 0, 1, None);
    for base in (0..=last).step_by(64) {
        let beyond = if last - base < 63 { u64::MAX << (last - base + 1) } else { 0 };
        let quotes = places(text, base, b'"') & !beyond;
        let ends = places(text, base, b'\n') & !beyond;
        let separators = places(text, base, delimiter) | ends;
        let mut inside = quotes;
        for shift in [1, 2, 4, 8, 16, 32] {
            inside ^= inside << shift;
        }
        inside ^= within;
        let opening = quotes & inside;
        if opening & !(separators << 1 | separator | quotes << 1 | quote) != 0 {
            return None;
        }
        (within, quote, separator) = (0u64.wrapping_sub(inside >> 63), quotes >> 63, separators >> 63);
        let whole = ends & !inside;
        if whole != 0 {
            end = Some(base + 64 - whole.leading_zeros() as usize);
        }
    }
    end
}

/// The names of the first line, and where the second begins. Columns without a name have their number; of two with one name the second has another.
///
/// # Errors
/// A quote that is not closed, or with something behind it.
pub fn names(text: &mut [u8], len: usize, delimiter: u8) -> Result<(Vec<String>, usize), Trouble> {
    let mut all = Csv::new(delimiter, usize::MAX, Vec::new());
    let (mut spans, mut seps) = (Vec::new(), Seps::new(delimiter, text, 0));
    let next = all.fields(text, len, &mut seps, 0, |_, _, span, _| spans.push(span));
    let next = next.map_err(|(what, _)| what)?.1;
    let mut seen = HashSet::new();
    let mut names = Vec::new();
    for (at, (from, to)) in spans.into_iter().enumerate() {
        let name = String::from_utf8_lossy(&text[from..to]).trim().to_owned();
        let name = if name.is_empty() { format!("column{}", at + 1) } else { name };
        let other = (2..).map(|n| format!("{name}_{n}"));
        let name = std::iter::once(name.clone()).chain(other).find(|n| !seen.contains(n)).unwrap_or_default();
        seen.insert(name.clone());
        names.push(name);
    }
    Ok((names, next))
}

impl Csv {
    /// Goes through the fields of a record. How many there are, and where the next record begins; of one with something wrong what, and where the next one
    /// begins, if that can be told: there, and nowhere else, [`whole`] cuts.
    #[inline(always)]
    fn fields(
        &mut self,
        text: &mut [u8],
        len: usize,
        seps: &mut Seps,
        start: usize,
        mut each: impl FnMut(&mut [u8], usize, (usize, usize), bool),
    ) -> Result<(usize, usize), (Trouble, Option<usize>)> {
        let (mut column, mut field, mut behind) = (0, start, false);
        loop {
            let (mut from, mut whole) = (field, true);
            let (mut to, end);
            if text[field] == b'"' {
                let (quote, doubled) = closing(text, len, field + 1).ok_or((Trouble::Open, None))?;
                seps.skip_to(text, quote + 1);
                end = seps.next(text);
                let is_end = end == quote + 1 || (end == quote + 2 && text[quote + 1] == b'\r' && text[end] == b'\n');
                (whole, behind) = (is_end, behind | !is_end);
                from += 1;
                to = if doubled { undoubled(text, from, quote) } else { quote };
            } else {
                end = seps.next(text);
                to = end;
                if text[end] == b'\n' && end > field && text[end - 1] == b'\r' {
                    to -= 1;
                }
            }
            each(text, column, (from, to), whole);
            column += 1;
            field = end + 1;
            if text[end] == b'\n' {
                return if behind { Err((Trouble::Behind, Some(field))) } else { Ok((column, field)) };
            }
        }
    }

    /// Reads records.
    pub fn fill(&mut self, job: &mut Fill<'_>) {
        let slots = std::mem::take(&mut self.slots);
        let mut seps = Seps::new(self.delimiter, job.text, job.from.min(job.len));
        while !job.is_done() {
            let start = job.from;
            let empty = job.text[start] == b'\n' || (job.text[start] == b'\r' && job.text[start + 1] == b'\n');
            if empty && self.columns > 1 {
                job.from = seps.next(job.text) + 1;
                continue;
            }
            let record = job.batch.begin(start);
            let (mut next, mut trouble) = (0, None);
            let ran = self.fields(job.text, job.len, &mut seps, start, |text, column, (from, to), whole| {
                let Some(slot) = slots.get(next).filter(|s| s.column == column) else { return };
                let fits = if !whole || from == to && text[from - usize::from(from > 0)] != b'"' {
                    slot.none(record)
                } else {
                    slot.put(text, from, to, record)
                };
                if !fits && trouble.is_none() {
                    trouble = Some(Trouble::Field(next, from, to));
                }
                next += 1;
            });
            // What no field has come for.
            for slot in &slots[next..] {
                slot.none(record);
            }
            match ran {
                Ok((columns, end)) => {
                    job.from = end;
                    if !self.others.is_empty() {
                        self.unread.get_or_insert((start, 0)).1 += 1;
                    }
                    if columns != self.columns && trouble.is_none() {
                        trouble = Some(Trouble::Fields(columns, self.columns));
                    }
                }
                Err((what, Some(end))) => {
                    job.from = end;
                    trouble = Some(what);
                }
                Err((what, None)) => {
                    // The next line may be whole.
                    job.from = memchr(b'\n', &job.text[start..job.len]).map_or(job.len, |at| start + at + 1);
                    if job.from < job.len {
                        seps = Seps::new(self.delimiter, job.text, job.from);
                    }
                    trouble = Some(what);
                }
            }
            if let Some(trouble) = trouble {
                job.wrong(start, &trouble, may_be_null(&slots));
            }
        }
        self.slots = slots;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seps::PAD;

    #[test]
    fn a_text_is_cut_at_the_same_place_by_its_quotes_and_by_its_fields() {
        let mut next = crate::dice::dice();
        let (mut cut, mut odd) = (0, 0);
        for round in 0..20_000 {
            // Fields as they are written, and in every third text some bytes that stand anywhere.
            let parts = [",", "\n", "\"a\"", "\"\"", "\"b\"\"c\"", "\"\n,\"", "ab", "\r\n", "\"\"\"\""];
            let bytes = ["\"", "a", ",", "\n", ";"];
            let mut text = Vec::new();
            for at in 0..next(90) {
                let field = at % 2 == 1 || next(3) == 0;
                let from = if round % 3 == 0 && next(8) == 0 { &bytes[..] } else { &parts[..] };
                let part = from[next(from.len() as u64) as usize];
                text.extend_from_slice(if field { [",", "\n"][next(2) as usize] } else { part }.as_bytes());
            }
            text.push(b'\n');
            let len = text.len();
            text.resize(len + PAD, b'"');
            let mut looked = Looked::default();
            let exact = whole_by_fields(&text, len, len - 1, b',', &mut looked);
            match whole_by_quotes(&text, len - 1, b',') {
                Some(end) => {
                    assert_eq!(Some(end), exact, "{:?}", String::from_utf8_lossy(&text[..len]));
                    cut += 1;
                }
                None => odd += 1,
            }
        }
        assert!(cut > 10_000 && odd > 1000, "{cut} {odd}");
    }
}
