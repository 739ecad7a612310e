//! Comma-separated values, by RFC 4180: quotes around a field, doubled within one, line ends in quotes, CRLF or LF.
//!
//! Only the columns that are asked for are looked at; of the others the ends are found, 64 bytes at a time. A quote counts at the begin of a field
//! alone. An empty field is NULL, `""` is an empty text. Empty lines are left out.

use crate::batch::{Batch, Trouble};
use crate::place::Slot;
use crate::seps::Seps;
use memchr::{memchr, memrchr};
use std::collections::HashSet;

/// Reads the columns of some slots.
#[derive(Clone, Debug)]
pub struct Csv {
    /// What is between fields.
    pub delimiter: u8,
    /// How many columns there are.
    pub columns: usize,
    /// What is read, by column.
    pub slots: Vec<Slot>,
}

/// A field that is quoted: where its closing quote stands, and whether a doubled one is in it.
fn closing(text: &[u8], quote: usize) -> Option<(usize, bool)> {
    let (mut from, mut doubled) = (quote + 1, false);
    loop {
        let at = from + memchr(b'"', &text[from..])?;
        if text.get(at + 1) != Some(&b'"') {
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
    write
}

/// The end of the last whole record of a text that begins with one; none: there is no whole one.
pub fn whole(text: &[u8], len: usize, delimiter: u8) -> Option<usize> {
    if memchr(b'"', &text[..len]).is_none() {
        return memrchr(b'\n', &text[..len]).map(|at| at + 1);
    }
    // A line end behind the text stops the search.
    let last = memrchr(b'\n', &text[..len])?;
    let (mut seps, mut field, mut end) = (Seps::new(delimiter, text, 0), 0, None);
    while field <= last {
        if text[field] == b'"' {
            let Some((quote, _)) = closing(&text[..len], field) else { break };
            if quote >= last {
                break;
            }
            seps.skip_to(text, quote + 1);
        }
        field = seps.next(text) + 1;
        if text[field - 1] == b'\n' {
            end = Some(field);
        }
    }
    end
}

/// The names of the first line, and where the second begins. Columns without a name have their number; of two with one name the second has another.
///
/// # Errors
/// A quote that is not closed, or with something behind it.
pub fn names(text: &mut [u8], len: usize, delimiter: u8) -> Result<(Vec<String>, usize), Trouble> {
    let mut all = Csv { delimiter, columns: usize::MAX, slots: Vec::new() };
    let (mut spans, mut seps) = (Vec::new(), Seps::new(delimiter, text, 0));
    let next = all.fields(text, len, &mut seps, 0, |_, _, from, to| spans.push((from, to)))?.1;
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
    /// Goes through the fields of a record. How many there are, and where the next record begins.
    #[inline(always)]
    fn fields(
        &mut self,
        text: &mut [u8],
        len: usize,
        seps: &mut Seps,
        start: usize,
        mut each: impl FnMut(&mut [u8], usize, usize, usize),
    ) -> Result<(usize, usize), Trouble> {
        let (mut column, mut field) = (0, start);
        loop {
            let mut from = field;
            let (mut to, end);
            if text[field] == b'"' {
                let (quote, doubled) = closing(&text[..len], field).ok_or(Trouble::Open)?;
                seps.skip_to(text, quote + 1);
                end = seps.next(text);
                let is_end = end == quote + 1 || (end == quote + 2 && text[quote + 1] == b'\r' && text[end] == b'\n');
                if !is_end {
                    return Err(Trouble::Behind);
                }
                from += 1;
                to = if doubled { undoubled(text, from, quote) } else { quote };
            } else {
                end = seps.next(text);
                to = end;
                if text[end] == b'\n' && end > field && text[end - 1] == b'\r' {
                    to -= 1;
                }
            }
            each(text, column, from, to);
            column += 1;
            field = end + 1;
            if text[end] == b'\n' {
                return Ok((column, field));
            }
        }
    }

    /// Reads records into the batch until it is full, or the text ends. `keep`: a record with something wrong is kept, without what is wrong.
    pub fn fill(
        &mut self,
        text: &mut [u8],
        len: usize,
        from: &mut usize,
        batch: &mut Batch,
        keep: bool,
        bad: &mut dyn FnMut(&[u8], usize, &Trouble),
    ) {
        let slots = std::mem::take(&mut self.slots);
        let mut seps = Seps::new(self.delimiter, text, (*from).min(len));
        while !batch.is_full() && *from < len {
            let start = *from;
            if text[start] == b'\n' || (text[start] == b'\r' && text[start + 1] == b'\n') {
                *from = seps.next(text) + 1;
                continue;
            }
            let record = batch.begin(start);
            let (mut next, mut trouble) = (0, None);
            let ran = self.fields(text, len, &mut seps, start, |text, column, from, to| {
                let Some(slot) = slots.get(next).filter(|s| s.column == column) else { return };
                let fits = if from == to && text[from - usize::from(from > 0)] != b'"' {
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
                    *from = end;
                    if columns != self.columns && trouble.is_none() {
                        trouble = Some(Trouble::Fields(columns, self.columns));
                    }
                }
                Err(what) => {
                    // The next line may be whole.
                    *from = memchr(b'\n', &text[start..len]).map_or(len, |at| start + at + 1);
                    if *from < len {
                        seps = Seps::new(self.delimiter, text, *from);
                    }
                    trouble = Some(what);
                }
            }
            if let Some(trouble) = trouble {
                bad(text, start, &trouble);
                let can = keep && slots.iter().all(|s| !matches!(s.kind, chappe_synth::FieldType::Scalar(_)));
                if !can {
                    batch.undo();
                }
            }
        }
        self.slots = slots;
    }
}
