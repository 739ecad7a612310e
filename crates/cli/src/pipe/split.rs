//! Where a pipeline's stages end: at each `|` that the shell would take for the pipeline's own.
//!
//! What is between quotes, in `$( )`, in `( )` and `{ }`, in loops and conditions, in patterns of `case`, in comments and in here-documents belongs to its stage. Each
//! stage is handed to `sh -c` as it stands, so only what ends a stage has to be understood here, and not what it means; whether the whole is
//! sh's language the shell itself says (`sh -n`), before and after.
//!
//! Reserved words are words only where a command may begin, as in the shell: `echo if | cat` has two stages.
//!
//! A pipeline is no list: `;`, `&`, `&&`, `||` and line ends between commands are refused with what to write instead.

use std::fmt;

/// A pipeline in its parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// What each stage is for the shell.
    pub stages: Vec<String>,
    /// Whether `!` stands before it, which turns the status over.
    pub negated: bool,
}

/// What is wrong with it.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    /// There is nothing in it.
    Nothing,
    /// Nothing stands before this stage's `|`, or behind the last one.
    Empty(usize),
    /// This ends a command, and not a pipeline.
    List(&'static str),
    /// `|&` is bash's.
    ErrorsToo,
    /// A quote or bracket is open at the end; what was to come.
    Open(&'static str),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Nothing => f.write_str("the pipeline is empty: write `chappe pipe 'a | b'`"),
            Wrong::Empty(at) => write!(f, "stage {at} is empty: a command belongs on each side of `|`"),
            Wrong::List(what) => write!(
                f,
                "`{what}` makes a list of commands, and this runs one pipeline: put the list into brackets, as in '(a; b) | c'"
            ),
            Wrong::ErrorsToo => f.write_str("`|&` is not sh's: write `2>&1 |`"),
            Wrong::Open(what) => write!(f, "the text ends where {what} is missing"),
        }
    }
}

/// What is open, and what closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Bracket,
    Brace,
    If,
    Loop,
    /// `case`: before `in`.
    Case,
    /// Where a pattern or `esac` is due.
    Pattern,
    /// Between a pattern's `)` and `;;`.
    Arm,
}

impl Open {
    fn missing(self) -> &'static str {
        match self {
            Open::Bracket => "`)`",
            Open::Brace => "`}`",
            Open::If => "`fi`",
            Open::Loop => "`done`",
            Open::Case | Open::Pattern | Open::Arm => "`esac`",
        }
    }
}

/// A here-document whose text begins at the next line.
struct Here {
    end: String,
    tabs: bool,
    /// It is the stage's own, and not inside of something that goes on anyway.
    own: Option<usize>,
}

/// A stage as far as it is read.
#[derive(Default)]
struct Stage {
    text: String,
    /// Its here-documents.
    documents: String,
}

struct Splitter<'a> {
    text: &'a [u8],
    at: usize,
    open: Vec<Open>,
    /// The last one is still read, from `begin` on.
    stages: Vec<Stage>,
    begin: usize,
    /// Whether a command may begin here.
    first: bool,
    here: Vec<Here>,
    /// The pipeline is over; only blanks and comments may follow.
    over: bool,
}

/// Splits it.
///
/// # Errors
/// What is wrong.
pub fn split(text: &str) -> Result<Pipeline, Wrong> {
    let mut rest = text.trim_start_matches([' ', '\t', '\n']);
    let mut negated = false;
    while let Some(more) = rest.strip_prefix('!').filter(|m| m.starts_with([' ', '\t', '\n'])) {
        negated = !negated;
        rest = more.trim_start_matches([' ', '\t', '\n']);
    }
    let mut splitter = Splitter {
        text: rest.as_bytes(),
        at: 0,
        open: Vec::new(),
        stages: vec![Stage::default()],
        begin: 0,
        first: true,
        here: Vec::new(),
        over: false,
    };
    splitter.run()?;
    // A document begins on a line of its own.
    let whole = |s: Stage| match s.documents.as_str() {
        "" => s.text,
        documents if s.text.ends_with('\n') => s.text.clone() + documents,
        documents => format!("{}\n{documents}", s.text),
    };
    let stages: Vec<String> = splitter.stages.into_iter().map(whole).collect();
    if stages.len() == 1 && stages[0].trim().is_empty() {
        return Err(Wrong::Nothing);
    }
    for (at, stage) in stages.iter().enumerate() {
        let bare = stage.trim_matches([' ', '\t', '\n']);
        if bare.is_empty() || bare.starts_with('#') && !bare.contains('\n') {
            return Err(Wrong::Empty(at + 1));
        }
    }
    Ok(Pipeline { stages, negated })
}

impl Splitter<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next_is(&self, what: &str) -> bool {
        self.text[self.at..].starts_with(what.as_bytes())
    }

    fn run(&mut self) -> Result<(), Wrong> {
        while let Some(c) = self.peek() {
            if self.over && !matches!(c, b' ' | b'\t' | b'\n' | b'#') {
                return Err(Wrong::List("\\n"));
            }
            match c {
                b' ' | b'\t' => self.at += 1,
                b'\n' => self.line_end(),
                b'#' => {
                    while self.peek().is_some_and(|c| c != b'\n') {
                        self.at += 1;
                    }
                }
                b'|' | b';' | b'&' | b'(' | b')' | b'<' | b'>' => self.operator(c)?,
                _ => self.word()?,
            }
        }
        if let Some(open) = self.open.last() {
            return Err(Wrong::Open(open.missing()));
        }
        self.keep(self.text.len());
        Ok(())
    }

    /// Gives the current stage what has been read of it.
    fn keep(&mut self, until: usize) {
        let part = String::from_utf8_lossy(&self.text[self.begin..until]);
        self.stages.last_mut().expect("there is always one").text.push_str(&part);
        self.begin = until;
    }

    fn line_end(&mut self) {
        self.at += 1;
        self.documents();
        // Behind `|` the pipeline goes on, and an empty line is nothing.
        self.over |= !self.first && self.open.is_empty();
        self.first = true;
    }

    /// The texts that the line before has announced: a stage's own go behind it, others are within what goes on.
    fn documents(&mut self) {
        for here in std::mem::take(&mut self.here) {
            if here.own.is_some() {
                self.keep(self.at);
            }
            let from = self.at;
            while self.at < self.text.len() {
                let rest = &self.text[self.at..];
                let length = rest.iter().position(|c| *c == b'\n').unwrap_or(rest.len());
                let line = String::from_utf8_lossy(&rest[..length]);
                self.at = (self.at + length + 1).min(self.text.len());
                if (if here.tabs { line.trim_start_matches('\t') } else { &line }) == here.end {
                    break;
                }
            }
            if let Some(stage) = here.own {
                let text = String::from_utf8_lossy(&self.text[from..self.at]).into_owned();
                self.stages[stage].documents.push_str(&text);
                if !text.ends_with('\n') {
                    self.stages[stage].documents.push('\n');
                }
                self.begin = self.at;
            }
        }
    }

    fn operator(&mut self, c: u8) -> Result<(), Wrong> {
        let top = self.open.is_empty();
        let two = |s: &Self, what| s.next_is(what);
        match c {
            b'<' | b'>' => self.redirection()?,
            b'|' if two(self, "||") => {
                if top {
                    return Err(Wrong::List("||"));
                }
                (self.at, self.first) = (self.at + 2, true);
            }
            b'|' if top && two(self, "|&") => return Err(Wrong::ErrorsToo),
            b'|' => {
                if top {
                    self.keep(self.at);
                    self.begin = self.at + 1;
                    self.stages.push(Stage::default());
                }
                (self.at, self.first) = (self.at + 1, true);
            }
            b';' | b'&' => {
                if top {
                    let what = if c == b';' {
                        ";"
                    } else if two(self, "&&") {
                        "&&"
                    } else {
                        "&"
                    };
                    return Err(Wrong::List(what));
                }
                if two(self, ";;") {
                    if self.open.last() == Some(&Open::Arm) {
                        *self.open.last_mut().expect("just seen") = Open::Pattern;
                    }
                    self.at += 2;
                } else {
                    self.at += 1;
                }
                self.first = true;
            }
            b'(' => {
                // A pattern may have one before it.
                if self.open.last() != Some(&Open::Pattern) {
                    self.open.push(Open::Bracket);
                }
                (self.at, self.first) = (self.at + 1, true);
            }
            _ => {
                match self.open.last() {
                    Some(Open::Bracket) => drop(self.open.pop()),
                    Some(Open::Pattern) => *self.open.last_mut().expect("just seen") = Open::Arm,
                    // The shell will say what is wrong with it.
                    _ => {}
                }
                // Behind a pattern a command begins, and so it does behind `name()`.
                (self.at, self.first) = (self.at + 1, true);
            }
        }
        Ok(())
    }

    fn redirection(&mut self) -> Result<(), Wrong> {
        let here = self.next_is("<<");
        let tabs = self.next_is("<<-");
        while self.peek().is_some_and(|c| matches!(c, b'<' | b'>' | b'&' | b'|')) {
            self.at += 1;
        }
        if tabs && self.peek() == Some(b'-') {
            self.at += 1;
        }
        while self.peek().is_some_and(|c| matches!(c, b' ' | b'\t')) {
            self.at += 1;
        }
        let from = self.at;
        let first = self.first;
        if self.peek().is_some_and(|c| !matches!(c, b'\n' | b'|' | b';' | b'&' | b'(' | b')' | b'<' | b'>')) {
            self.word()?;
        }
        // A command may still begin behind it.
        self.first = first;
        if here {
            let word = String::from_utf8_lossy(&self.text[from..self.at]);
            let end = word.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
            self.here.push(Here { end, tabs, own: self.open.is_empty().then(|| self.stages.len() - 1) });
        }
        Ok(())
    }

    /// A word, whatever it is made of; and what it opens or closes where a command begins.
    fn word(&mut self) -> Result<(), Wrong> {
        let from = self.at;
        while let Some(c) = self.peek() {
            match c {
                b' ' | b'\t' | b'\n' | b'|' | b';' | b'&' | b'(' | b')' | b'<' | b'>' => break,
                b'\\' => self.at = (self.at + 2).min(self.text.len()),
                b'\'' => self.single()?,
                b'"' => self.double()?,
                b'`' => self.back()?,
                b'$' => self.dollar()?,
                _ => self.at += 1,
            }
        }
        let word = &self.text[from..self.at];
        // In a `case` its own words are not commands.
        match self.open.last() {
            Some(Open::Case) => {
                if word == b"in" {
                    *self.open.last_mut().expect("just seen") = Open::Pattern;
                }
                return Ok(());
            }
            Some(Open::Pattern) => {
                if word == b"esac" {
                    self.open.pop();
                }
                self.first = false;
                return Ok(());
            }
            _ => {}
        }
        if !std::mem::replace(&mut self.first, false) {
            // `for x do`, without a line end between.
            return Ok(());
        }
        let top = self.open.last().copied();
        let opens = match word {
            b"{" => Some(Open::Brace),
            b"if" => Some(Open::If),
            b"while" | b"until" | b"for" => Some(Open::Loop),
            b"case" => Some(Open::Case),
            _ => None,
        };
        if let Some(opens) = opens {
            self.open.push(opens);
            // Behind `for` and `case` comes a name or a word.
            self.first = matches!(word, b"{" | b"if" | b"while" | b"until");
            return Ok(());
        }
        let closes = match word {
            b"}" => Some(Open::Brace),
            b"fi" => Some(Open::If),
            b"done" => Some(Open::Loop),
            b"esac" => Some(Open::Arm),
            _ => None,
        };
        if closes.is_some() && closes == top {
            self.open.pop();
        }
        if matches!(word, b"then" | b"else" | b"elif" | b"do" | b"!") {
            self.first = true;
        }
        Ok(())
    }

    fn single(&mut self) -> Result<(), Wrong> {
        self.at += 1;
        while self.peek().ok_or(Wrong::Open("a single quote"))? != b'\'' {
            self.at += 1;
        }
        self.at += 1;
        Ok(())
    }

    fn double(&mut self) -> Result<(), Wrong> {
        self.at += 1;
        loop {
            match self.peek().ok_or(Wrong::Open("a double quote"))? {
                b'"' => break,
                b'\\' => self.at += 2,
                b'`' => self.back()?,
                b'$' => self.dollar()?,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Ok(())
    }

    fn back(&mut self) -> Result<(), Wrong> {
        self.at += 1;
        loop {
            match self.peek().ok_or(Wrong::Open("a backquote"))? {
                b'`' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Ok(())
    }

    /// `$x`, `${...}`, `$(...)`, `$((...))`.
    fn dollar(&mut self) -> Result<(), Wrong> {
        self.at += 1;
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                loop {
                    match self.peek().ok_or(Wrong::Open("`}`"))? {
                        b'}' => break,
                        b'\\' => self.at += 2,
                        b'\'' => self.single()?,
                        b'"' => self.double()?,
                        b'`' => self.back()?,
                        b'$' => self.dollar()?,
                        _ => self.at += 1,
                    }
                }
                self.at += 1;
                Ok(())
            }
            Some(b'(') => self.substitution(),
            _ => Ok(()),
        }
    }

    /// A list of its own, up to its bracket.
    fn substitution(&mut self) -> Result<(), Wrong> {
        let (open, first) = (std::mem::take(&mut self.open), self.first);
        self.open.push(Open::Bracket);
        (self.at, self.first) = (self.at + 1, true);
        while !self.open.is_empty() {
            match self.peek().ok_or(Wrong::Open("`)`"))? {
                b' ' | b'\t' => self.at += 1,
                b'\n' => {
                    (self.at, self.first) = (self.at + 1, true);
                    self.documents();
                }
                b'#' if self.first => {
                    while self.peek().is_some_and(|c| c != b'\n') {
                        self.at += 1;
                    }
                }
                c @ (b'|' | b';' | b'&' | b'(' | b')' | b'<' | b'>') => self.operator(c)?,
                _ => self.word()?,
            }
        }
        (self.open, self.first) = (open, first);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(text: &str) -> Vec<String> {
        split(text).unwrap_or_else(|e| panic!("{text:?}: {e}")).stages.iter().map(|s| s.trim().to_owned()).collect()
    }

    #[test]
    fn only_the_pipelines_own_bars_end_a_stage() {
        for (text, expected) in [
            ("a | b | c", &["a", "b", "c"][..]),
            ("a|b", &["a", "b"]),
            ("a |\n b # and | so on\n", &["a", "b # and | so on"]),
            (r#"echo "a|b" 'c|d' e\|f | cat"#, &[r#"echo "a|b" 'c|d' e\|f"#, "cat"]),
            ("echo $(a | b) `c | d` ${x:-\"|\"} | e", &["echo $(a | b) `c | d` ${x:-\"|\"}", "e"]),
            ("(a | b; c) | { d | e; } | f", &["(a | b; c)", "{ d | e; }", "f"]),
            ("while read x; do echo $x | cat; done | sort", &["while read x; do echo $x | cat; done", "sort"]),
            ("for x in a b; do y | z; done | c", &["for x in a b; do y | z; done", "c"]),
            ("if a | b; then c; else d; fi | e", &["if a | b; then c; else d; fi", "e"]),
            ("case x in a|b) c | d;; (e) f;; esac | g", &["case x in a|b) c | d;; (e) f;; esac", "g"]),
            ("case x in a) b | c; esac | g", &["case x in a) b | c; esac", "g"]),
            ("echo if | cat", &["echo if", "cat"]),
            ("echo { | cat }", &["echo {", "cat }"]),
            ("a 2>&1 >|x | b <y | <z c", &["a 2>&1 >|x", "b <y", "<z c"]),
            ("x=1 a | y=$((1 | 2)) b", &["x=1 a", "y=$((1 | 2)) b"]),
            ("echo a#b | cat", &["echo a#b", "cat"]),
            ("echo $# | cat", &["echo $#", "cat"]),
            ("echo \"$(echo \"|\")\" | cat", &["echo \"$(echo \"|\")\"", "cat"]),
            ("f() { a | b; } | c", &["f() { a | b; }", "c"]),
            ("one", &["one"]),
            ("a | # comment\n b", &["a", "# comment\n b"]),
        ] {
            assert_eq!(stages(text), expected, "{text}");
        }
    }

    #[test]
    fn a_here_document_goes_with_its_stage() {
        assert_eq!(stages("cat <<E | sort\nb|c\na\nE\n"), ["cat <<E \nb|c\na\nE", "sort"]);
        assert_eq!(stages("a | cat <<'E F' -\nx\nE F\n"), ["a", "cat <<'E F' -\nx\nE F"]);
        assert_eq!(stages("cat <<E |\nx\nE\nsort"), ["cat <<E \nx\nE", "sort"]);
        assert_eq!(stages("(cat <<-E\n\tx|y\n\tE\n) | b"), ["(cat <<-E\n\tx|y\n\tE\n)", "b"]);
        assert_eq!(stages("cat <<A - | cat - <<B\na\nA\nb\nB\n"), ["cat <<A - \na\nA", "cat - <<B\nb\nB"]);
    }

    #[test]
    fn an_exclamation_mark_turns_the_status_over() {
        assert_eq!(split("! a | b").unwrap(), Pipeline { stages: vec!["a ".into(), " b".into()], negated: true });
        assert!(!split("! ! a").unwrap().negated);
        assert_eq!(stages("!a"), ["!a"]);
    }

    #[test]
    fn an_invalid_pipeline_is_refused_with_advice() {
        for (text, wrong) in [
            ("", Wrong::Nothing),
            (" \n", Wrong::Nothing),
            ("| a", Wrong::Empty(1)),
            ("a | | b", Wrong::Empty(2)),
            ("a |", Wrong::Empty(2)),
            ("a | b; c", Wrong::List(";")),
            ("a && b | c", Wrong::List("&&")),
            ("a || b", Wrong::List("||")),
            ("a | b &", Wrong::List("&")),
            ("a\nb", Wrong::List("\\n")),
            ("a |& b", Wrong::ErrorsToo),
            ("a 'b", Wrong::Open("a single quote")),
            ("a \"b", Wrong::Open("a double quote")),
            ("a `b", Wrong::Open("a backquote")),
            ("a $(b", Wrong::Open("`)`")),
            ("(a", Wrong::Open("`)`")),
            ("{ a; ", Wrong::Open("`}`")),
            ("while a; do b", Wrong::Open("`done`")),
            ("a ${b", Wrong::Open("`}`")),
        ] {
            assert_eq!(split(text), Err(wrong), "{text}");
        }
        // A backslash at the end is a backslash.
        assert_eq!(stages("a \\"), ["a \\"]);
        assert!(split("a; b").unwrap_err().to_string().contains("'(a; b) | c'"));
    }

    #[test]
    fn any_text_is_split_or_refused_without_a_panic() {
        let parts = [
            "|",
            "'",
            "\"",
            "`",
            "$(",
            "${",
            "(",
            ")",
            "{ ",
            "}",
            "case x in",
            "esac",
            ";;",
            "<<E",
            "\n",
            "E\n",
            "\\",
            "a ",
            "do ",
            "done",
            "é",
        ];
        let mut random = chappe::feedback::model::Random::new(7);
        for _ in 0..4_000 {
            let text: String =
                (0..random.any() % 12).map(|_| parts[(random.any() >> 33) as usize % parts.len()]).collect();
            let _ = split(&text);
        }
    }
}
