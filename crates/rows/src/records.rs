//! Text as records of a schema, all of whose fields it has (in JSON, unless they may be NULL) and no others: for records that go where each must fit.

use crate::ask::{AskError, OnBad};
use crate::format::Format;
use crate::parser::Parser;
use crate::text::{Input, ReadError};
use chappe_synth::Schema;
use std::io::ErrorKind;

/// Reads records, and hands out each as many bytes as the schema says. The first that does not fit ends it.
///
/// # Errors
/// What does not fit, with its place; what cannot be read; what the receiver of records says.
pub fn records<E: From<AskError>>(
    format: &Format,
    schema: &Schema,
    mut input: Input,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let name = input.name;
    let wrong = |what: String| AskError::Head(name.clone(), what);
    let mut parser = Parser::new(format, schema, OnBad::Stop).map_err(wrong)?.strict();
    let mut room = vec![0; 1 << 16];
    loop {
        let many = match input.bytes.read(&mut room) {
            Ok(many) => many,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(AskError::from(ReadError::Read(name, e)).into()),
        };
        let parsed = parser.piece(&room[..many], many == 0);
        parsed.records.chunks_exact(schema.size() as usize).try_for_each(&mut each)?;
        if let Some(what) = parsed.stopped {
            return Err(wrong(what).into());
        }
        if many == 0 {
            return Ok(());
        }
    }
}
