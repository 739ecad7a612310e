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
    /// Where all columns were asked for, as they were guessed: members that no column was made of, as none of the first objects has them, or columns that
    /// the first file lacks.
    pub unread: Vec<Member>,
    /// How many more have other names than these.
    pub more_unread: u64,
    /// They are columns.
    pub of_columns: bool,
    /// No more was to be read, though there may be more ([`Stopped`](crate::Stopped)).
    pub stopped: bool,
    /// Texts that were still growing when no more was wanted, and had half a record at their end, which was left out.
    pub halves: Vec<String>,
    /// Of a CSV: a name of the first line, if most of them are numbers, as values are.
    pub odd_name: Option<String>,
}

/// Members, or columns, of one name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Their name.
    pub name: String,
    /// Where the first one is: the line, and the file before it, if there is one.
    pub place: String,
    /// How many records have one.
    pub count: u64,
}

impl Report {
    /// Adds members of one name.
    pub(crate) fn unread(&mut self, name: Option<String>, place: impl FnOnce() -> String, count: u64) {
        let known = self.unread.iter().position(|m| Some(&m.name) == name.as_ref());
        match (known, name) {
            (Some(at), _) => self.unread[at].count += count,
            (None, Some(name)) if self.unread.len() < SHOWN => {
                self.unread.push(Member { name, place: place(), count });
            }
            _ => self.more_unread += count,
        }
    }

    /// To people: which members, or columns, were not read, if there are some; `way`: how such members are.
    pub fn unread_told(&self, way: &str) -> Option<String> {
        let each = |m: &Member| match m.count {
            1 => format!("`{}` ({})", m.name, m.place),
            count => format!("`{}` (first at {}, {count} times)", m.name, m.place),
        };
        let mut all: Vec<String> = self.unread.iter().map(each).collect();
        let some = self.unread.first()?;
        if self.more_unread > 0 {
            all.push(format!("others ({} times)", self.more_unread));
        }
        let all = all.join(", ");
        if self.of_columns {
            return Some(format!(
                "columns that the first file has not were left out: {all}; a file that has them comes first, or is asked by itself"
            ));
        }
        Some(format!(
            "members that the first objects have not were left out: {all}; {way} '{}: str' reads one",
            chappe_synth::written(&some.name)
        ))
    }

    /// Whether as many messages are kept as there may be.
    pub fn is_full(&self) -> bool {
        self.shown.len() >= SHOWN
    }
}
