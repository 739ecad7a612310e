//! Text as a terminal has it: the thesis' CookTTYin and CookTTYout.
//!
//! `cook` edits lines as the kernel's line discipline does: erase (DEL, Ctrl-H), word erase (Ctrl-W), kill (Ctrl-U), end (Ctrl-D), literal (Ctrl-V); erasing knows
//! UTF-8. `onlcr` puts a carriage return before each newline, `tabs` makes blanks of tabs.

use crate::kind::{Call, Kind, Plan, Wrong};
use crate::stage::{Fault, Out, Stage, stage};
use crate::types::{Block, Element, Type};

/// A line that is being typed.
#[derive(Default)]
struct Cook {
    line: Vec<u8>,
    literal: bool,
    over: bool,
}

impl Cook {
    /// Removes the last character, which may be several bytes.
    fn erase(&mut self) {
        while let Some(byte) = self.line.pop() {
            if byte & 0xc0 != 0x80 {
                break;
            }
        }
    }

    fn erase_word(&mut self) {
        let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80;
        while self.line.last().is_some_and(|b| !word(b)) {
            self.erase();
        }
        while self.line.last().is_some_and(word) {
            self.erase();
        }
    }
}

impl Stage for Cook {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let mut done = Vec::new();
        for byte in block.octets().drain(..) {
            if std::mem::take(&mut self.literal) {
                self.line.push(byte);
                continue;
            }
            match byte {
                _ if self.over => {}
                0x7f | 0x08 => self.erase(),
                0x17 => self.erase_word(),
                0x15 => self.line.clear(),
                0x16 => self.literal = true,
                // The end of a line without a newline; at its begin the end of all.
                0x04 => {
                    self.over = self.line.is_empty();
                    done.append(&mut self.line);
                }
                b'\r' | b'\n' => {
                    done.append(&mut self.line);
                    done.push(b'\n');
                }
                _ => self.line.push(byte),
            }
        }
        if self.over {
            out.finish();
        }
        if done.is_empty() { Ok(()) } else { out.put(Block::bytes(done)) }
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        let rest = std::mem::take(&mut self.line);
        if rest.is_empty() { Ok(()) } else { out.put(Block::bytes(rest)) }
    }
}

struct Onlcr;

impl Stage for Onlcr {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let text = block.octets();
        let mut with = Vec::with_capacity(text.len() + 16);
        for byte in text.drain(..) {
            if byte == b'\n' {
                with.push(b'\r');
            }
            with.push(byte);
        }
        out.put(Block::bytes(with))
    }
}

struct Tabs {
    every: usize,
    column: usize,
}

impl Stage for Tabs {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let mut with = Vec::new();
        for byte in block.octets().drain(..) {
            match byte {
                b'\t' => {
                    let blanks = self.every - self.column % self.every;
                    with.extend(std::iter::repeat_n(b' ', blanks));
                    self.column += blanks;
                    continue;
                }
                b'\n' | b'\r' => self.column = 0,
                0x08 => self.column = self.column.saturating_sub(1),
                // Bytes behind the first of a character take no column.
                byte if byte & 0xc0 == 0x80 => {}
                _ => self.column += 1,
            }
            with.push(byte);
        }
        out.put(Block::bytes(with))
    }
}

fn text<'a>(call: &Call<'a>) -> Result<&'a Type, Wrong> {
    let input = call.input()?;
    match input.element {
        Element::Byte | Element::Line => Ok(input),
        _ => Err(call.mismatch(input, "bytes or lines", "`csv` and `json` make lines of records")),
    }
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::new("cook", "", "edits lines as a terminal does: erase, word erase, kill, end, literal", |call| {
            text(call)?;
            Ok(Plan::filter(Type::of(Element::Byte), || stage(Cook::default())))
        }),
        Kind::new("onlcr", "", "a carriage return before each newline", |call| {
            Ok(Plan::filter(text(call)?.clone(), || stage(Onlcr)))
        }),
        Kind::new("tabs", "[EVERY=8]", "blanks for tabs", |call| {
            let every = call.number_or(0, "every", (1.0, 1000.0), 8.0)? as usize;
            Ok(Plan::filter(text(call)?.clone(), move || stage(Tabs { every, column: 0 })))
        }),
    ]
}
