//! A schedule told in words.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::Location;

/// How a value of a named word is shown.
pub(crate) type Show = fn(u64) -> String;

/// What people call the words of a world.
#[derive(Default)]
pub(crate) struct Names {
    words: HashMap<usize, (String, Option<Show>)>,
    /// Those without a name that were told of, in that order.
    others: RefCell<Vec<usize>>,
}

impl Names {
    pub fn set(&mut self, word: usize, name: String, show: Option<Show>) {
        self.words.insert(word, (name, show));
    }

    /// A word's name. One without has a number, by when it was first told of: where it lies depends on what else this process has
    /// allocated, and a token is to tell the same story each time.
    pub fn of(&self, word: usize) -> String {
        match self.words.get(&word) {
            Some((name, _)) => name.clone(),
            None => match self.words.get(&(word & !7)) {
                Some((name, _)) => format!("high half of {name}"),
                None => format!("word #{}", self.number(word)),
            },
        }
    }

    fn number(&self, word: usize) -> usize {
        let mut others = self.others.borrow_mut();
        let at = others.iter().position(|other| *other == word).unwrap_or_else(|| {
            others.push(word);
            others.len() - 1
        });
        at + 1
    }

    pub fn show(&self, word: usize, value: u64) -> String {
        match self.words.get(&word) {
            Some((_, Some(show))) => show(value),
            _ if value < 1 << 16 => value.to_string(),
            _ => format!("{value:#x}"),
        }
    }
}

/// The lines so far.
pub(crate) struct Story {
    lines: Vec<(String, u32)>,
    /// Steps that changed nothing are left out.
    pub short: bool,
}

/// A story never has more lines than this; what is left out is in the middle.
const MOST: usize = 400;

impl Story {
    /// An empty one; `CRASHSIM_STORY=short` leaves out steps that changed nothing.
    pub fn new() -> Story {
        Story { lines: Vec::new(), short: std::env::var_os("CRASHSIM_STORY").is_some_and(|v| v == "short") }
    }

    /// Adds a line; one that repeats the last is counted instead.
    pub fn add(&mut self, line: String) {
        match self.lines.last_mut() {
            Some(last) if last.0 == line => last.1 += 1,
            _ => self.lines.push((line, 1)),
        }
    }

    pub fn text(&self) -> String {
        let one = |l: &(String, u32)| if l.1 == 1 { l.0.clone() } else { format!("{}  (x{})", l.0, l.1) };
        let n = self.lines.len();
        if n <= MOST {
            return self.lines.iter().map(one).collect::<Vec<_>>().join("\n");
        }
        let mut out: Vec<_> = self.lines[..MOST / 4].iter().map(one).collect();
        out.push(format!("   ... {} lines ...", n - MOST));
        out.extend(self.lines[n - MOST * 3 / 4..].iter().map(one));
        out.join("\n")
    }
}

/// Where in the source a step was made, shortly.
pub(crate) fn place(at: &Location<'_>) -> String {
    let file = at.file();
    let short = file.find("crates/").map_or(file, |i| &file[i + 7..]);
    format!("{short}:{}", at.line())
}
