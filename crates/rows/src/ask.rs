//! What is asked of a text: the columns, what they are, and the query over them.

use crate::batch::shown;
use crate::cut::nullable;
use crate::format::{Format, Reader};
use crate::infer::{Column, is_number};
use crate::text::Part;
use chappe_synth::{Complaint, FieldType, Query, Scalar, Schema, TimePattern, Value, suggestion, written};
use std::collections::HashSet;

/// What becomes of a record with something wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnBad {
    /// All ends there.
    #[default]
    Stop,
    /// It is left out and counted.
    Skip,
    /// It is kept with NULL for what is wrong, and counted: all of it, if it is no record at all. Left out where the schema has no NULL.
    Keep,
}

/// A question about texts.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What the texts are.
    pub format: Format,
    /// The query: `where px > 10 select sym, sum(qty) by sym`.
    pub query: String,
    /// Values of its parameters.
    pub params: Vec<(String, Value)>,
    /// What columns are, where that is not to be guessed: `zip: str, price: f64`.
    pub schema: Option<String>,
    /// What becomes of a record with something wrong.
    pub on_bad: OnBad,
    /// So many bytes for groups and rows that are kept.
    pub memory: usize,
    /// So many threads at most.
    pub threads: usize,
}

/// Why a question cannot be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The query, or the schema, makes no sense.
    #[error(transparent)]
    Text(#[from] Complaint),
    /// The query would make sense if a column were numbers, and all but a few of its first values are.
    #[error(
        "{complaint}\n`{column}` is text, as `{value}` stands in it: --schema '{column}: {kind}' --on-bad skip leaves such lines out"
    )]
    Spoilt {
        /// What the query says of it.
        complaint: Box<Complaint>,
        /// Its name, as it is written.
        column: String,
        /// The first value that is no number.
        value: String,
        /// What the others are.
        kind: &'static str,
    },
    /// The query names a member that none of the first objects has.
    #[error(
        "{complaint}\nnone of the first objects has it: --schema '{column}: f64' (or str, i64, bool) reads it in later ones"
    )]
    Absent {
        /// What the query says of it.
        complaint: Box<Complaint>,
        /// Its name, as it is written.
        column: String,
    },
    /// Its parameters.
    #[error(transparent)]
    Bind(#[from] chappe_synth::BindError),
    /// The program is too large.
    #[error(transparent)]
    Live(#[from] chappe_synth::LiveError),
    /// The first line of a file is none of names, or lacks one.
    #[error("{0}: {1}")]
    Head(String, String),
    /// The texts have nothing in them.
    #[error("there is nothing to read in {0}")]
    Nothing(String),
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] crate::text::ReadError),
    /// A record with something wrong.
    #[error("{file}:{line}: {what}; --on-bad skip leaves such lines out, keep takes NULL for what is wrong")]
    Bad {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// What.
        what: String,
    },
    /// A sum of integers does not fit 64 bits: the column, and the keys of its row.
    #[error("{0}")]
    Overflow(String),
    /// There is not so much memory.
    #[error("{0}; --memory allows more")]
    Memory(String),
    /// The answer cannot be written.
    #[error("{0}")]
    Write(#[source] std::io::Error),
}

/// A question whose columns are known.
pub struct Asked {
    /// With its parameters.
    pub bound: chappe_synth::Bound,
    /// What is read.
    pub schema: Schema,
    /// The columns whose types nobody has said.
    pub guessed: Vec<String>,
    /// How times are written, where that is said.
    pub times: Vec<(String, TimePattern)>,
    /// Columns of which no value was seen, and that the query compares as texts.
    doubtful: Vec<String>,
    /// All columns are asked for.
    all: bool,
    /// A name of the first line, if most are numbers.
    pub odd_name: Option<String>,
}

impl Asked {
    /// By the begin of the first text: the columns' names, and where its records begin. Where a column has no value there, `further` gives the begins of more
    /// texts, and whether each is all of it.
    ///
    /// # Errors
    /// What makes no sense.
    pub fn new(
        ask: &Ask,
        name: &str,
        part: &mut Part,
        further: &mut dyn FnMut() -> Option<(Vec<u8>, bool)>,
    ) -> Result<(Asked, Reader, usize), AskError> {
        let (columns, from) = head(ask, name, part)?;
        let numbers: Vec<&String> = columns.iter().filter(|c| is_number(c.as_bytes())).collect();
        let is_odd = matches!(ask.format, Format::Csv(_)) && 2 * numbers.len() > columns.len();
        let odd_name = numbers.first().filter(|_| is_odd).map(|name| (*name).clone());
        let given = ask.schema.as_deref().map(Schema::parse_text).transpose()?;
        let (given, times) = given.unzip();
        let times = times.unwrap_or_default();
        let mentions = Query::mentions(&ask.query)?;
        // A question about a member that no object of the first ones has gives it a type.
        let more =
            given.iter().flat_map(Schema::fields).filter(|f| ask.format == Format::Json && !columns.contains(&f.name));
        // `a.b` is a column if there is an `a`.
        let is_within = |name: &&String| {
            let root = name.split_once('.').filter(|_| ask.format == Format::Json).map(|(root, _)| root);
            root.is_some_and(|root| columns.iter().any(|c| c == root)) && !columns.contains(name)
        };
        let more = mentions.names.iter().filter(is_within).chain(more.map(|f| &f.name));
        // Where there is no object at all, each name is one of a member.
        let nothing = columns.is_empty() && ask.format == Format::Json && !mentions.all;
        let any = mentions.names.iter().filter(|_| nothing);
        let mut columns: Vec<String> = columns.iter().chain(more).chain(any).cloned().collect();
        let mut seen = HashSet::new();
        columns.retain(|name| name.is_empty() || seen.insert(name.clone()));
        if let Some(field) = given.iter().flat_map(Schema::fields).find(|f| !columns.contains(&f.name)) {
            let near = suggestion(&field.name, columns.iter().map(String::as_str));
            return Err(AskError::Head(
                name.into(),
                format!("the schema has `{}`, and no column is named so{near}", field.name),
            ));
        }
        let mentioned: HashSet<&String> = mentions.names.iter().collect();
        let wanted: Vec<String> =
            columns.iter().filter(|c| !c.is_empty() && (mentions.all || mentioned.contains(c))).cloned().collect();
        let wrong = |why| AskError::Head(name.into(), format!("{why}: name those that are wanted behind `select`"));
        let mut guesses = ask.format.guess(&part.text, part.len, from, &columns, &wanted).map_err(wrong)?;
        // Said types stand.
        let guessed = |name: &String| given.as_ref().is_none_or(|s| s.field(name).is_none());
        let unknown = |guesses: &[Column]| guesses.iter().zip(&wanted).any(|(g, name)| g.is_empty() && guessed(name));
        while unknown(&guesses) {
            let Some((text, all)) = further() else { break };
            // What is wrong with a further text is told with its place when it is read.
            let seen = ask.format.seen(&text, all).unwrap_or_default();
            for (guess, name) in guesses.iter_mut().zip(&wanted).filter(|(guess, _)| guess.is_empty()) {
                let more = seen.iter().find(|(column, _)| column == name);
                more.into_iter().for_each(|(_, more)| guess.and(more.clone()));
            }
        }
        let mut kinds: Vec<FieldType> = guesses.iter().map(Column::field).collect();
        for (kind, name) in kinds.iter_mut().zip(&wanted) {
            if let Some(field) = given.as_ref().and_then(|s| s.field(name)) {
                *kind = nullable(field.kind);
            }
        }
        let empty = (0..wanted.len()).filter(|at| guesses[*at].is_empty() && guessed(&wanted[*at]));
        let schema = settled(&ask.query, &wanted, kinds, empty).map_err(wrong)?;
        let query = Query::parse(&schema, &ask.query).map_err(|e| {
            let absent = e.message().strip_prefix("there is no field `").and_then(|rest| rest.split('`').next());
            if let (Format::Json, Some(name)) = (&ask.format, absent.filter(|_| !columns.is_empty())) {
                let name = name.to_owned();
                let complaint = Box::new(with_all(&ask.query, &schema, &columns, e));
                return AskError::Absent { complaint, column: written(&name).into_owned() };
            }
            let spoilt = wanted.iter().zip(&guesses).filter(|(name, _)| guessed(name));
            let complaint = with_all(&ask.query, &schema, &columns, e);
            spoilt_by_few(&ask.query, &schema, spoilt, &complaint).unwrap_or(AskError::Text(complaint))
        })?;
        let params: Vec<(&str, Value)> = ask.params.iter().map(|(name, v)| (name.as_str(), v.clone())).collect();
        let bound = query.bind(&params)?;
        let unseen = wanted.iter().zip(&guesses).filter(|(name, guess)| guess.is_empty() && guessed(name));
        let doubtful: Vec<String> =
            if bound.query().compares_texts() { unseen.map(|(name, _)| name.clone()).collect() } else { Vec::new() };
        let guessed: Vec<String> = wanted.iter().filter(|name| guessed(name)).cloned().collect();
        let reader = reader(ask, name, &schema, &columns)?.with_times(&times).doubting(&doubtful, &guessed);
        let reader = reader.of_all(mentions.all, &columns);
        Ok((Asked { bound, schema, guessed, times, doubtful, all: mentions.all, odd_name }, reader, from))
    }

    /// What reads another file, by its own first line.
    ///
    /// # Errors
    /// It lacks a column.
    pub fn reader_of(&self, ask: &Ask, name: &str, part: &mut Part) -> Result<(Reader, usize), AskError> {
        let (columns, from) = head(ask, name, part)?;
        let reader = reader(ask, name, &self.schema, &columns)?;
        Ok((reader.with_times(&self.times).doubting(&self.doubtful, &self.guessed).of_all(self.all, &columns), from))
    }
}

fn head(ask: &Ask, name: &str, part: &mut Part) -> Result<(Vec<String>, usize), AskError> {
    let len = part.len;
    ask.format
        .names(&mut part.text, len)
        .map_err(|e| AskError::Head(name.into(), format!("the first line: {}", e.told(&[], &[]))))
}

fn reader(ask: &Ask, name: &str, schema: &Schema, columns: &[String]) -> Result<Reader, AskError> {
    ask.format.reader(schema, columns).map_err(|lacks| {
        let near = suggestion(&lacks, columns.iter().map(String::as_str));
        AskError::Head(name.into(), format!("there is no column `{lacks}`{near}"))
    })
}

/// The schema in which columns that have no value yet are what the query makes of them: texts, or numbers where those carry it further.
fn settled(
    query: &str,
    names: &[String],
    mut kinds: Vec<FieldType>,
    empty: impl Iterator<Item = usize>,
) -> Result<Schema, String> {
    let laid_out = |kinds: &[FieldType]| Schema::laid_out(names.iter().cloned().zip(kinds.iter().copied()));
    let wrong_at = |schema: &Schema| Query::parse(schema, query).err().map(|e| (e.line(), e.column()));
    let mut schema = laid_out(&kinds)?;
    let mut wrong = wrong_at(&schema);
    for at in empty {
        for scalar in [Scalar::F64, Scalar::I64, Scalar::Bool] {
            let Some(before) = wrong else { return Ok(schema) };
            let was = std::mem::replace(&mut kinds[at], FieldType::Maybe(scalar));
            let other = laid_out(&kinds)?;
            let now = wrong_at(&other);
            if now.is_none_or(|now| now > before) {
                (schema, wrong) = (other, now);
                break;
            }
            kinds[at] = was;
        }
    }
    Ok(schema)
}

/// The complaint with a way out, if the query makes sense when a column that has a few other values is one of numbers.
fn spoilt_by_few<'a>(
    query: &str,
    schema: &Schema,
    columns: impl Iterator<Item = (&'a String, &'a Column)>,
    complaint: &Complaint,
) -> Option<AskError> {
    for (name, column) in columns {
        let Some((kind, value)) = column.spoilt() else { continue };
        let other = |f: &chappe_synth::Field| if f.name == *name { FieldType::Maybe(kind) } else { f.kind };
        let schema = Schema::laid_out(schema.fields().iter().map(|f| (f.name.clone(), other(f)))).ok()?;
        if Query::parse(&schema, query).is_ok() {
            let (column, value) = (written(name).into_owned(), shown(value).into_owned());
            return Some(AskError::Spoilt { complaint: Box::new(complaint.clone()), column, value, kind: kind.name() });
        }
    }
    None
}

/// The complaint, as it is where all columns are known: it may have a better name than the few that the query mentions.
fn with_all(query: &str, schema: &Schema, columns: &[String], e: Complaint) -> Complaint {
    let known = schema.fields().iter().map(|f| (f.name.clone(), f.kind));
    let others =
        columns.iter().filter(|c| !c.is_empty() && schema.field(c).is_none()).map(|c| (c.clone(), FieldType::Str));
    let room = chappe_synth::MAX_FIELDS;
    let all = Schema::laid_out(known.chain(others).take(room)).ok();
    all.and_then(|all| Query::parse(&all, query).err()).unwrap_or(e)
}
