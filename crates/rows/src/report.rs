//! What has become of the records of a text.

/// So many messages about bad records are kept.
pub const SHOWN: usize = 10;

/// What reading has come to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Records that were read.
    pub records: u64,
    /// Records with something wrong.
    pub bad: u64,
    /// Records that came when a window of theirs had ended, or that had no time.
    pub late: u64,
    /// What was wrong with the first ones, with their places.
    pub shown: Vec<String>,
    /// Of JSON, where all columns were asked for, as they were guessed: members that no column was made of, as none of the first objects has them.
    pub unread: Vec<Member>,
    /// Texts that were still growing when no more was wanted, and had half a record at their end, which was left out.
    pub halves: Vec<String>,
    /// Of a CSV: a name of the first line, if most of them are numbers, as values are.
    pub odd_name: Option<String>,
}

/// Members of one name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Their name, or `...` for all beyond the first names.
    pub name: String,
    /// Where the first one is: the line, and the file before it, if there is one.
    pub place: String,
    /// How many objects have one.
    pub count: u64,
}

impl Report {
    /// Adds members of one name.
    pub(crate) fn unread(&mut self, name: String, place: impl FnOnce() -> String, count: u64) {
        let name = if self.unread.len() < SHOWN { name } else { "...".into() };
        match self.unread.iter_mut().find(|m| m.name == name) {
            Some(member) => member.count += count,
            None => self.unread.push(Member { name, place: place(), count }),
        }
    }

    /// To people: which members were not read, if there are some; `way`: how they are.
    pub fn unread_told(&self, way: &str) -> Option<String> {
        let each = |m: &Member| match m.count {
            1 => format!("`{}` ({})", m.name, m.place),
            count => format!("`{}` (first at {}, {count} times)", m.name, m.place),
        };
        let all: Vec<String> = self.unread.iter().map(each).collect();
        let some = self.unread.first()?;
        let name = if some.name == "..." { "x" } else { &some.name };
        Some(format!(
            "members that the first objects have not were left out: {}; {way} '{}: str' reads one",
            all.join(", "),
            chappe_synth::written(name)
        ))
    }

    /// Whether as many messages are kept as there may be.
    pub fn is_full(&self) -> bool {
        self.shown.len() >= SHOWN
    }
}
