//! Text as records of a schema, all of whose fields it has and no others: for records that go where each must fit.

use crate::ask::AskError;
use crate::batch::Batch;
use crate::format::{Format, Reader};
use crate::text::{Input, Text};
use chappe_synth::Schema;
use memchr::memchr_iter;

/// Reads records, and hands out each as many bytes as the schema says. The first that does not fit ends it.
///
/// # Errors
/// What does not fit, with its place; what cannot be read; what the receiver of records says.
pub fn records<E: From<AskError>>(
    format: &Format,
    schema: &Schema,
    input: Input,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let name = input.name.clone();
    let wrong = |what: String| AskError::Head(name.clone(), what);
    let known = || schema.fields().iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut text = Text::new(format, vec![input]);
    let mut reader: Option<Reader> = None;
    let mut lines = 0;
    let mut batch = Batch::new(schema.size() as usize);
    while let Some(mut part) = text.next().map_err(AskError::from)? {
        let (mut from, len) = (0, part.len);
        let reader = match &mut reader {
            Some(reader) => reader,
            None => {
                let (columns, begin) = format.names(&mut part.text, len).map_err(|e| wrong(e.told(&[], &[])))?;
                from = begin;
                if let Format::Csv(_) = format
                    && let Some(more) = columns.iter().find(|c| schema.field(c).is_none())
                {
                    return Err(
                        wrong(format!("line 1 has a field `{more}`, which the schema has not: {}", known())).into()
                    );
                }
                let made =
                    format.reader(schema, &columns).map_err(|lacks| wrong(format!("line 1 has no `{lacks}`")))?;
                reader.insert(if let Reader::Json(json) = made { Reader::Json(json.strict()) } else { made })
            }
        };
        let slots = reader.slots().to_vec();
        while from < len {
            batch.clear();
            let mut bad: Option<(usize, String)> = None;
            reader.fill(&mut part.text, len, &mut from, &mut batch, false, &mut |text, at, what| {
                bad.get_or_insert_with(|| (at, what.told(text, &slots)));
            });
            for (record, place) in batch.records.chunks_exact(schema.size() as usize).zip(&batch.places) {
                if bad.as_ref().is_some_and(|(at, _)| *at < *place as usize) {
                    break;
                }
                each(record)?;
            }
            if let Some((at, what)) = bad {
                let line = lines + memchr_iter(b'\n', &part.text[..at]).count() as u64 + 1;
                return Err(wrong(format!("line {line}: {what}")).into());
            }
        }
        lines += memchr_iter(b'\n', &part.text[..len]).count() as u64;
        text.give_back(part.text);
    }
    Ok(())
}
