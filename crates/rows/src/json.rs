//! JSON, an object a line.
//!
//! Of an object's members only those that are asked for are looked at, as they are written; all else is skipped. An absent member and
//! `null` are NULL. An object or a list in a text column is its JSON. A slot `a.b` is the member `a.b`, or else `b` of the object `a`.
//!
//! Most lines are read by `plain`; what it leaves alone, and what is wrong, is `serde_json`'s. Programs write the members of all objects in one
//! order: a name that is written as the one at its place in the last object is not looked up again. Short numbers and strings are passed over by
//! one look at 16 bytes. Both together take the processor time of a sum by key from 5.9 to 3.3 s a GiB.

use crate::batch::{Fill, Trouble, shown};
use crate::place::{Slot, may_be_null, none};
use crate::plain::{Plain, Written};
use chappe_synth::FieldType;
use memchr::memchr;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::str::from_utf8;

/// Reads the members of some slots.
#[derive(Clone, Debug)]
pub struct Json {
    /// What is read.
    pub slots: Vec<Slot>,
    /// Where each lies in the text.
    pub spans: Vec<Option<(usize, usize)>>,
    /// Whether it is a member of that name, and not one within another.
    direct: Vec<bool>,
    /// Each member must be asked for, and each that is must be there, unless it may be NULL.
    pub strict: bool,
    /// All columns are asked for, as they were guessed: a member that is none of them is told.
    pub all: bool,
    /// The members of the line in work that are no columns.
    others: Vec<String>,
    /// Those of all lines so far.
    pub unread: Vec<Unread>,
    inner: Vec<Inner>,
    /// The names that the last objects had, in their order: programs write the members of all objects in one order.
    shape: Vec<Known>,
}

/// A name that came before at its place, and what it is.
#[derive(Clone, Debug)]
struct Known {
    /// As it was written, with what is before and behind it up to the value.
    written: Written,
    slot: Option<usize>,
    inner: Option<usize>,
}

/// Members of one name that no column was made of.
#[derive(Clone, Debug)]
pub struct Unread {
    /// Their name; none: it is one beyond the first names.
    pub name: Option<String>,
    /// Where the first object with one begins.
    pub place: usize,
    /// How many there are.
    pub count: u64,
}

/// Members of an object that is a member.
#[derive(Clone, Debug)]
struct Inner {
    name: String,
    /// The slots that they are outside.
    of: Vec<usize>,
    json: Json,
}

/// A name: the slot for it, and the object that slots are in; the name itself, if it is to be told.
struct Key<'a>(&'a Json);

type Found = (Option<usize>, Option<usize>, Option<String>);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let Json { slots, inner, strict, all, .. } = self.0;
        match (slots.iter().position(|s| s.name == name), inner.iter().position(|i| i.name == name)) {
            (None, None) if *strict => {
                let known: Vec<&str> = slots.iter().map(|s| s.name.as_str()).collect();
                Err(E::custom(format!("it has a field `{name}`, which the schema has not: {}", known.join(", "))))
            }
            (None, None) => Ok((None, None, all.then(|| name.to_owned()))),
            (slot, inner) => Ok((slot, inner, None)),
        }
    }
}

/// An object.
struct Object<'a> {
    json: &'a mut Json,
    /// The address of the text's first byte.
    base: usize,
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object on one line")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Object { json, base } = self;
        while let Some((slot, inner, other)) = map.next_key_seed(Key(json))? {
            if slot.is_none() && inner.is_none() {
                map.next_value::<IgnoredAny>()?;
                json.others.extend(other);
                continue;
            }
            let raw: &'de RawValue = map.next_value()?;
            let from = raw.get().as_ptr() as usize - base;
            if let Some(slot) = slot {
                json.spans[slot] = Some((from, from + raw.get().len()));
                json.direct[slot] = true;
            }
            let Some(inner) = inner.map(|at| &mut json.inner[at]) else { continue };
            inner.json.forget();
            let mut parser = serde_json::Deserializer::from_str(raw.get());
            // What is no object has no members. Of two members of one name the last one counts, with all that is in it.
            if parser.deserialize_map(Object { json: &mut inner.json, base }).is_err() {
                inner.json.forget();
            }
            for (slot, span) in inner.of.iter().zip(&inner.json.spans).filter(|(slot, _)| !json.direct[**slot]) {
                json.spans[*slot] = *span;
            }
        }
        Ok(())
    }
}

/// Why a line is no object.
fn no_object(line: &[u8], e: &serde_json::Error) -> String {
    if line.trim_ascii_start().starts_with(b"[") {
        return "it is a list, and an object a line is read: `jq -c '.[]'` makes such lines of a list".into();
    }
    let what = e.to_string();
    let what = match what.split(" at line ").next().unwrap_or_default() {
        "trailing characters" => "something stands behind the object, and one object a line is read",
        other => other,
    };
    format!("column {}: {what}: `{}`", e.column(), shown(line))
}

/// All names of the first objects of a text, in the order in which they come.
///
/// # Errors
/// No line of them is an object: what the first one is.
pub fn names(text: &[u8], most: usize) -> Result<Vec<String>, Trouble> {
    let mut names: Vec<String> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let (mut some, mut wrong) = (false, None);
    for line in text.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty()).take(most) {
        match serde_json::from_slice::<Names>(line) {
            Ok(Names(all)) => {
                some = true;
                names.extend(all.into_iter().filter(|name| seen.insert(name.clone())));
            }
            Err(e) => _ = wrong.get_or_insert_with(|| no_object(line, &e)),
        }
    }
    match wrong {
        Some(what) if !some => Err(Trouble::Other(what)),
        _ => Ok(names),
    }
}

struct Names(Vec<String>);

impl<'de> serde::Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Names, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Names;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some((name, _)) = map.next_entry::<String, IgnoredAny>()? {
                    names.push(name);
                }
                Ok(Names(names))
            }
        }
        d.deserialize_map(All)
    }
}

impl Json {
    /// For these slots.
    pub fn new(slots: Vec<Slot>) -> Json {
        /// Members are looked for so deep.
        const DEEPEST: usize = 32;
        let mut roots: Vec<(String, Vec<usize>, Vec<Slot>)> = Vec::new();
        for (at, slot) in slots.iter().enumerate().filter(|(_, s)| s.name.matches('.').count() <= DEEPEST) {
            let Some((root, rest)) = slot.name.split_once('.') else { continue };
            let inner = Slot { name: rest.to_owned(), ..slot.clone() };
            match roots.iter_mut().find(|(name, ..)| name == root) {
                Some((_, of, slots)) => {
                    of.push(at);
                    slots.push(inner);
                }
                None => roots.push((root.to_owned(), vec![at], vec![inner])),
            }
        }
        let inner = roots.into_iter().map(|(name, of, slots)| Inner { name, of, json: Json::new(slots) }).collect();
        Json {
            spans: vec![None; slots.len()],
            direct: vec![false; slots.len()],
            slots,
            strict: false,
            all: false,
            others: Vec::new(),
            unread: Vec::new(),
            inner,
            shape: Vec::new(),
        }
    }

    /// Reads records.
    pub fn fill(&mut self, job: &mut Fill<'_>) {
        while !job.is_done() {
            let start = job.from;
            let end = memchr(b'\n', &job.text[start..job.len]).map_or(job.len, |at| start + at);
            job.from = (end + 1).min(job.len);
            let line = &job.text[start..end];
            if line.trim_ascii().is_empty() {
                continue;
            }
            if let Err(e) = self.find(job.text, start, end) {
                let what = no_object(&job.text[start..end], &e);
                let can = none(&self.slots, job.batch.begin(start));
                job.wrong(start, &Trouble::Other(what), can);
                continue;
            }
            self.keep_others(start);
            let record = job.batch.begin(start);
            let mut trouble = None;
            for (at, slot) in self.slots.iter().enumerate() {
                let mut span = self.spans[at];
                let fits = match span {
                    None if self.strict && !matches!(slot.kind, FieldType::Maybe(_) | FieldType::Str) => {
                        trouble.get_or_insert_with(|| Trouble::Other(format!("it has no `{}`", slot.name)));
                        continue;
                    }
                    None => slot.none(record),
                    Some((from, to)) if self.lies_in_another(at, &job.text[from..to]) => {
                        trouble.get_or_insert_with(|| {
                            Trouble::Other(format!(
                                "`{}` has escapes, and lies in an object that is asked for, too: ask for one of them",
                                slot.name
                            ))
                        });
                        slot.none(record)
                    }
                    Some((from, ref mut to)) => put(slot, job.text, from, to, record),
                };
                if !fits && trouble.is_none() {
                    let (from, to) = span.unwrap_or((start, start));
                    trouble = Some(Trouble::Field(at, from, to));
                }
            }
            if let Some(trouble) = trouble {
                job.wrong(start, &trouble, may_be_null(&self.slots));
            }
        }
    }
}

impl Json {
    /// Finds where the members of the object on a line lie.
    fn find(&mut self, text: &[u8], start: usize, end: usize) -> serde_json::Result<()> {
        if self.find_plain(text, start, end) {
            return Ok(());
        }
        self.forget();
        let mut parser = serde_json::Deserializer::from_slice(&text[start..end]);
        let object = Object { base: text.as_ptr() as usize, json: self };
        parser.deserialize_map(object).and_then(|()| parser.end())
    }

    /// The same. Whether the line is as programs write it: if not, nothing is said.
    fn find_plain(&mut self, text: &[u8], start: usize, end: usize) -> bool {
        if text[end] != b'\n' {
            return false;
        }
        let line = &text[start..end];
        let mut plain = Plain::new(text, start);
        plain.next();
        let found = self.members(&mut plain, text, 0);
        found.is_some() && plain.next() == b'\n' && plain.at == end && (line.is_ascii() || from_utf8(line).is_ok())
    }

    /// Finds the members of the object that is next.
    fn members(&mut self, plain: &mut Plain<'_>, text: &[u8], depth: usize) -> Option<()> {
        self.forget();
        plain.take(b'{')?;
        if plain.take(b'}').is_some() {
            return Some(());
        }
        for at in 0.. {
            let before = plain.at;
            let (slot, inner) = match self.shape.get(at) {
                Some(known) if plain.goes_behind(&known.written) => (known.slot, known.inner),
                _ => self.look_up(plain, at)?,
            };
            let from = plain.at;
            match inner {
                Some(at) => {
                    let Inner { of, json, .. } = &mut self.inner[at];
                    json.forget();
                    if text[from] == b'{' {
                        json.members(plain, text, depth + 1)?;
                    } else {
                        plain.value(depth)?;
                    }
                    for (slot, span) in of.iter().zip(&json.spans).filter(|(slot, _)| !self.direct[**slot]) {
                        self.spans[*slot] = *span;
                    }
                }
                None => plain.value(depth)?,
            }
            match slot {
                Some(slot) => {
                    self.spans[slot] = Some((from, plain.at));
                    self.direct[slot] = true;
                }
                None if inner.is_some() => {}
                None if self.strict => return None,
                None if self.all => {
                    let name = Plain::new(text, before).name()?;
                    self.others.push(String::from_utf8_lossy(name).into_owned());
                }
                None => {}
            }
            if plain.take(b',').is_none() {
                return plain.take(b'}');
            }
        }
        None
    }

    /// The slot and the object of the name that is next, the member of this number; it is expected at its place from now on.
    fn look_up(&mut self, plain: &mut Plain<'_>, at: usize) -> Option<(Option<usize>, Option<usize>)> {
        /// The members beyond so many are looked up each time.
        const MOST: usize = 256;
        let before = plain.at;
        let name = plain.name()?;
        let is_it = |other: &str| other.len() == name.len() && other.as_bytes() == name;
        let slot = self.slots.iter().position(|s| is_it(&s.name));
        let inner = self.inner.iter().position(|i| is_it(&i.name));
        // Those behind it stay: an object may leave one member out.
        if let Some(written) = plain.written(before).filter(|_| at <= self.shape.len() && at < MOST) {
            let known = Known { written, slot, inner };
            match self.shape.get_mut(at) {
                Some(place) => *place = known,
                None => self.shape.push(known),
            }
        }
        Some((slot, inner))
    }

    fn forget(&mut self) {
        self.spans.fill(None);
        self.direct.fill(false);
        self.others.clear();
    }

    /// Remembers the members of an object that are no columns.
    fn keep_others(&mut self, place: usize) {
        /// The names beyond so many are counted as one.
        const MOST: usize = 64;
        for name in std::mem::take(&mut self.others) {
            let is_known = self.unread.iter().any(|u| u.name.as_ref() == Some(&name));
            let name = (is_known || self.unread.len() < MOST).then_some(name);
            match self.unread.iter_mut().find(|u| u.name == name) {
                Some(unread) => unread.count += 1,
                None => self.unread.push(Unread { name, place, count: 1 }),
            }
        }
    }

    /// Whether a value that cannot stay as it is written lies in one that must.
    fn lies_in_another(&self, at: usize, value: &[u8]) -> bool {
        if self.inner.is_empty() || !(value[0] == b'"' && memchr(b'\\', value).is_some()) {
            return false;
        }
        let around = |other: &Option<(usize, usize)>| match (other, self.spans[at]) {
            (Some((from, to)), Some((start, end))) => *from < start && end <= *to,
            _ => false,
        };
        self.spans.iter().any(around)
    }
}

/// A value, as it is written. One with escapes is shorter without them, and ends elsewhere then.
fn put(slot: &Slot, text: &mut [u8], from: usize, end: &mut usize, record: &mut [u8]) -> bool {
    if text[from] != b'"' {
        return if &text[from..*end] == b"null" { slot.none(record) } else { slot.put(text, from, *end, record) };
    }
    let (from, mut to) = (from + 1, *end - 1);
    if memchr(b'\\', &text[from..to]).is_some() {
        // So it has room where it lies, and so has its quote, for a message.
        let Ok(plain) = serde_json::from_slice::<String>(&text[from - 1..=to]) else { return false };
        to = from + plain.len();
        text[from..to].copy_from_slice(plain.as_bytes());
        text[to] = b'"';
        *end = to + 1;
    }
    // What JSON quotes is a text.
    if slot.doubtful { slot.put_text(from, to, record) } else { slot.put(text, from, to, record) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seps::PAD;

    /// Where members lie, and which are others.
    type Seen = (Vec<Option<(usize, usize)>>, Vec<String>);

    fn seen(json: &Json) -> Seen {
        (json.spans.clone(), json.others.clone())
    }

    #[test]
    fn the_fast_scan_finds_what_the_json_parser_finds() {
        let mut dice = crate::dice::dice();
        let mut next = |n: usize| dice(n as u64) as usize;
        let name = |name: &str| Slot {
            column: 0,
            name: name.into(),
            at: 0,
            kind: FieldType::Str,
            pattern: None,
            doubtful: false,
            guessed: false,
        };
        let lines = [
            r#"{"a":1,"b":"two","o":{"p":1.5e-3,"q":{"r":null}},"x":[1,{"y":[]},-0.25],"é":true}"#,
            r#" { "b" : "say \"hi\" \u00e9\\", "o.p" : 7, "o" : { "p" : [ ], "q" : false } , "a" : -0 } "#,
            r#"{"o":{"p":"a","p":"b"},"o":3,"a":{"a":{}},"\u0061":2,"":"","b":12345678901234567890123}"#,
            r#"{"x":{"o":{"p":1}},"o":{"q":{"r":"\ud83d"},"p":"\u0000"},"b":"0123456789abcdef0123456789abcdef"}"#,
            r#"{"a name of more than sixteen bytes":[1],"b":2,"x":{"one more name of more than sixteen bytes":{}},"a":"0"}"#,
            "{}",
        ];
        let bytes = b"{}[]\",:\\ 0-+.eEtru\t\x01\x80nl";
        let (mut found, mut wrong) = (0, 0);
        for round in 0..40_000 {
            let sound = lines[next(lines.len())];
            let mut line = sound.as_bytes().to_vec();
            for _ in 0..[0, 1, 1, 2, 4][round % 5] {
                if line.is_empty() {
                    break;
                }
                let (at, byte) = (next(line.len()), bytes[next(bytes.len())]);
                match next(3) {
                    0 => line[at] = byte,
                    1 => line.insert(at, byte),
                    _ => _ = line.remove(at),
                }
            }
            let end = line.len();
            let mut text = line;
            text.push(b'\n');
            text.resize(end + 1 + PAD, b'"');
            let mut json =
                Json::new(["a", "b", "o.p", "o.q.r", "o"][..1 + round % 5].iter().map(|n| name(n)).collect());
            (json.all, json.strict) = (round % 2 == 0, round % 7 == 0);
            let mut other = json.clone();
            // Another object's names may be expected.
            if next(2) == 0 {
                let mut sound = sound.as_bytes().to_vec();
                let end = sound.len();
                sound.push(b'\n');
                sound.resize(end + 1 + PAD, b'"');
                json.find_plain(&sound, 0, end);
            }
            let plain = json.find_plain(&text, 0, end);
            other.forget();
            let mut parser = serde_json::Deserializer::from_slice(&text[..end]);
            let object = Object { base: text.as_ptr() as usize, json: &mut other };
            let parsed = parser.deserialize_map(object).and_then(|()| parser.end());
            let line = String::from_utf8_lossy(&text[..end]);
            if plain {
                assert!(parsed.is_ok(), "{line}: {parsed:?}");
                assert_eq!(seen(&json), seen(&other), "{line}");
                found += 1;
            } else {
                wrong += 1;
            }
            // What is not damaged, and has no escape in a name, is found at once.
            assert!(plain || round % 5 != 0 || round % 7 == 0 || line.contains("u0061"), "{line}");
        }
        assert!(found > 8_000 && wrong > 8_000, "{found} {wrong}");
    }
}
