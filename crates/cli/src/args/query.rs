//! What `chappe query` can be told.

use crate::{format, size};
use chappe::rows::OnBad;
use chappe::synth::Value;

/// What a text is.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// Comma-separated values, with a line of names first.
    Csv,
    /// An object a line.
    Json,
}

/// How an answer is written.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// Comma-separated values, with a line of names first.
    Csv,
    /// A line with an object for each row.
    Json,
    /// Columns, one below the other.
    Table,
}

/// What becomes of a line with something wrong.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// The command ends there.
    Stop,
    /// It is left out.
    Skip,
    /// It is kept, with NULL for what is wrong.
    Keep,
}

impl Bad {
    /// As the library has it.
    pub fn on_bad(self) -> OnBad {
        match self {
            Bad::Stop => OnBad::Stop,
            Bad::Skip => OnBad::Skip,
            Bad::Keep => OnBad::Keep,
        }
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !byte.is_ascii_control() && *byte != b'"' => Ok(*byte),
        [b'\t'] => Ok(b'\t'),
        _ => Err(format!("`{text}` is no delimiter: write one character, such as ';', or tab")),
    }
}

/// `chappe query`.
#[derive(clap::Args, Debug)]
pub struct Query {
    /// The query: 'where px > 10 select sym, sum(qty * px) as value by sym order value desc top 10'
    pub query: String,
    /// The files, one behind the other; none, or -: stdin
    #[arg(value_name = "FILE")]
    pub files: Vec<std::path::PathBuf>,
    /// Query the records of a tube that has a schema, in place of files: they are received, as by `chappe recv`; may be given several times
    #[arg(long, short, conflicts_with_all = ["from", "lines", "delimiter", "schema", "print_schema", "files"], value_name = "NAME")]
    pub tube: Vec<String>,
    /// The format of the input; without it the file's name or its first character decides
    #[arg(long, value_enum, value_name = "FORM", conflicts_with = "lines")]
    pub from: Option<From>,
    /// Read lines of this pattern: '{ip} {user} [{time}] "{request}" {status}', or a regular expression with named groups
    #[arg(long, value_name = "PATTERN")]
    pub lines: Option<String>,
    /// The character between the values of CSV, or `tab`
    #[arg(long, short, value_name = "CHAR", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// The CSV has no line of names: the columns are c1, c2 and so on, or those of --schema in their order
    #[arg(long, conflicts_with_all = ["lines", "tube"])]
    pub no_header: bool,
    /// The types of columns, where the first lines do not show them: 'zip: str, px: f64'
    #[arg(long, value_name = "SCHEMA")]
    pub schema: Option<String>,
    /// A parameter of the query: `$NAME` in it
    #[arg(long, value_name = "NAME=VALUE", value_parser = format::param)]
    pub param: Vec<(String, Value)>,
    /// The format of the answer; without it a table on a terminal, and CSV elsewhere
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<To>,
    /// What to do with a line that has a mistake
    #[arg(long, value_enum, value_name = "WHAT", default_value = "stop")]
    pub on_bad: Bad,
    /// The limit of memory for groups, and for rows to be ordered
    #[arg(long, value_name = "BYTES", value_parser = size::parse, default_value = "1G")]
    pub memory: u64,
    /// Follow the files, and those in directories, as they grow, until Ctrl-C: windows are written as they end, sums at the end
    #[arg(long, short, conflicts_with = "print_schema")]
    pub follow: bool,
    /// Print the types of the columns, as --schema takes them, and no answer
    #[arg(long)]
    pub print_schema: bool,
}

/// The end of its short help.
pub const SHORT: &str = "\
Examples:
  chappe query 'where px > 10 select sym, sum(qty * px) as value by sym' trades.csv
  chappe query 'where level == \"error\" select service, count() by service' <log.jsonl
  chappe query --lines '{ip} {} {user} [{time}] \"{request}\" {status} {bytes}' \\
    'where status >= 500 select request, count() as n by request order n desc top 10' access.log

Exit status: 0 answered; 1 the query, a file or a line is wrong; 2 wrong usage";

/// The end of its help.
pub const END: &str = "\
Examples:
  chappe query 'where px > 10 select sym, sum(qty * px) as value by sym' trades.csv
  chappe query 'select day, quantile(ms, 0.99) as p99 by day order day' *.csv
  chappe query 'where level == \"error\" select service, count() by service' <log.jsonl
  chappe query --lines '{ip} {} {user} [{time}] \"{request}\" {status} {bytes}' \\
    'where status >= 500 select request, count() as n by request order n desc top 10' access.log

The query: `where EXPRESSION`, `select LIST`, or both.
  LIST        * or expressions with names: px * qty as value, sym; or
              aggregates: count() count(x) sum(x) mean(x) min(x) max(x)
              first(x) last(x) distinct(x) quantile(x, 0.99)
  by F, G     behind aggregates: a row for each pair of F and G
  order F desc, G    rows in order of columns of the list
  every 1000, every 10s, every 10000 on ts    behind aggregates and `by`: rows
              window by window, of so many records, so much time, so much of
              a field; hop 2000: one begins every 2000; late 500: it waits
  top N       the first N of them
  A name that is no word stands between backticks: `unit price`.
  An integer beside a double is a double; integer / integer is an integer.
  A sum of integers that does not fit 64 bits in the end is an error.
  NULL, an empty field, is left out by aggregates, is not true in `where`,
  and is asked for by x == null and x != null.

What is read:
  CSV   a line of names first, but for --no-header; quotes around a field,
        doubled in it, line ends in it; LF or CRLF; \"\" is an empty text, nothing is NULL
  JSON  an object a line; absent members and null are NULL; an object or a
        list in it is text, and `a.b` between backticks a member of one
  lines {name} is a column, {} is left out, {{ a brace; - alone is NULL;
        '(?P<name>...)' is a regular expression, found anywhere in a line
  What a column is is guessed from the first 256 KiB: integer, double,
  bool, or text. Numbers that begin with 0 or need more than 64 bits are
  text, as no digit may be lost. --schema says it otherwise, --print-schema
  prints it. Times: --schema 'ts: time', or ts: time '%d.%m.%Y %H:%M'.

A line with something wrong (too few or too many fields, a value that is
not what its column is) ends the command with its place; with --on-bad skip
and keep such lines are counted, and stderr names the first ten.

Ctrl-C ends what is read: the answer is of what has come, stderr says so, and
the command ends by that signal (130 in a shell).

With --follow files are read as they grow, and all in directories that are
named (not those whose names begin with a dot, nor in directories within);
half a line waits for its end. A file that is renamed, or replaced by another,
is read to its end, for five seconds more, and the new one from its begin, as
one that was truncated. Each has its own line of names. Ctrl-C, SIGTERM and
SIGHUP end it: sums are written, and the status is 0.

--tube receives the records of a tube until its senders have gone; with
--follow it goes on, and sums come whenever no sender is left. The status is
that of `chappe recv`: 3 when a sender died.

Memory: groups and rows to be ordered have --memory, a line has at most
64 MiB; beside that the command takes some MiB.

With --json the answer is JSON, and {\"records\": N, \"bad\": N, \"late\": N,
\"ms\": N} is on stderr at the end.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delimiter_is_one_character() {
        assert_eq!((delimiter(";"), delimiter("tab"), delimiter("\t")), (Ok(b';'), Ok(b'\t'), Ok(b'\t')));
        for text in ["", ";;", "\"", "\n", "\u{e9}"] {
            assert!(delimiter(text).unwrap_err().contains("one character"), "{text}");
        }
    }
}
