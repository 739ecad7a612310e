//! Schemas by name: texts that say what records are, kept in an arena, so that senders, receivers and readers need only the name.
//!
//! Each arena keeps them in one map of its own, `schemas`: names are its keys, texts its values. So a change is one atomic step, survives the death of
//! its maker, and the next reader sees it. A tube keeps the text that it was made with, and no name.
//!
//! A name never looks like a text, which has a `:` between a field and its type. [`resolved`] takes both; it stands wherever a schema may be said.

use crate::error::ObjectError;
use crate::map::{Map, MapError, MapOptions};
use chappe_arena::{ArenaError, check_name};
use std::borrow::Cow;

/// The map that an arena keeps them in.
const MAP: &str = "schemas";
/// How many there can be, and how long each.
const SHAPE: MapOptions = MapOptions { entries: 64, key: 64, value: 4096, ordered: true };

/// Why a schema was not found, or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// There is none of this name.
    #[error(
        "there is no schema `{0}`: `chappe schema ls` names those that there are; a text looks so: 'ts: u64, px: f64'"
    )]
    Unknown(String),
    /// It is no name.
    #[error(transparent)]
    Name(#[from] ArenaError),
    /// There is another one of this name.
    #[error("schema `{name}` is there as `{has}`; remove it first, or take another name")]
    Taken {
        /// The name.
        name: String,
        /// What it is.
        has: String,
    },
    /// The map that keeps them.
    #[error("{0} (schemas are kept in the map `schemas` of their arena)")]
    Map(MapError),
}

impl From<MapError> for SchemaError {
    // The message has it all: as a source it would be said twice.
    fn from(e: MapError) -> SchemaError {
        SchemaError::Map(e)
    }
}

/// The map of a name's arena, and the name in it.
fn places(name: &str) -> (String, &str) {
    match name.rsplit_once('/') {
        Some((arena, own)) => (format!("{arena}/{MAP}"), own),
        None => (MAP.to_owned(), name),
    }
}

type Texts = Map<[u8], [u8]>;

/// The map, if it is there.
fn open(map: &str) -> Result<Option<Texts>, MapError> {
    match Map::open(map) {
        Err(MapError::Object(ObjectError::Unknown { .. })) => Ok(None),
        opened => opened.map(Some),
    }
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Keeps a schema under a name: `NAME`, or `ARENA/NAME` in another arena than `default`, which is made if need be. The same one may be there. Does not
/// look whether the text makes sense.
///
/// # Errors
/// `Taken` by another one; `Name`; `Map`: there is no room.
pub fn keep(name: &str, text: &str) -> Result<(), SchemaError> {
    let (map, own) = places(name);
    check_name(own, "schema")?;
    let map = Texts::open_or_create(&map, &SHAPE)?;
    match map.compare_exchange(own.as_bytes(), None, Some(text.as_bytes()))? {
        Err(Some(has)) if has != text.as_bytes() => Err(SchemaError::Taken { name: name.into(), has: text_of(has) }),
        _ => Ok(()),
    }
}

/// The schema of a name; none: there is none.
///
/// # Errors
/// `Map`.
pub fn find(name: &str) -> Result<Option<String>, SchemaError> {
    let (map, own) = places(name);
    let Some(map) = open(&map)? else { return Ok(None) };
    Ok(map.get(own.as_bytes())?.map(text_of))
}

/// Removes a schema. Tubes that were made with it keep theirs.
///
/// # Errors
/// `Unknown`; `Map`.
pub fn remove(name: &str) -> Result<(), SchemaError> {
    let (map, own) = places(name);
    let removed = open(&map)?.map(|map| map.remove(own.as_bytes())).transpose()?.flatten();
    removed.map(|_| ()).ok_or_else(|| SchemaError::Unknown(name.into()))
}

/// All of an arena, in the order of their names.
///
/// # Errors
/// `Map`.
pub fn all(arena: &str) -> Result<Vec<(String, String)>, SchemaError> {
    let Some(map) = open(&format!("{arena}/{MAP}"))? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for entry in map.iter()? {
        let (name, text) = entry?;
        all.push((text_of(name), text_of(text)));
    }
    Ok(all)
}

/// A schema's text as it is, or that of its name.
///
/// # Errors
/// `Unknown`: it is no text, and there is none of that name; `Map`.
pub fn resolved(text: &str) -> Result<Cow<'_, str>, SchemaError> {
    let name = text.trim();
    if name.is_empty() || name.contains(|c: char| c == ':' || c.is_whitespace() || c == ',') {
        return Ok(Cow::Borrowed(text));
    }
    find(name)?.map(Cow::Owned).ok_or_else(|| SchemaError::Unknown(name.into()))
}
