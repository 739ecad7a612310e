//! Schemas of C structs: see `include/chappe/schema.h`, which is written by hand for its macros.

use crate::failure::{Answer, Failure, answer};
use crate::input;
use chappe::synth::Schema;
use std::ffi::c_char;
use std::fmt::Write;

/// A field of a record.
#[repr(C)]
pub struct chappe_field {
    name: *const c_char,
    kind: *const c_char,
    at: usize,
    size: usize,
}

/// What the fields are, as the text form has it.
fn written(fields: &[chappe_field], size: usize) -> Answer<Schema> {
    let mut text = String::new();
    for field in fields {
        let (name, kind) = (input::text(field.name)?, input::text(field.kind)?);
        let width = if kind == "str" { format!("[{}]", field.size) } else { String::new() };
        let _ = write!(text, "{name}: {kind}{width} @ {}, ", field.at);
    }
    let _ = write!(text, "size {size}");
    let refused =
        |e: &dyn std::fmt::Display| Failure::told(libc::EINVAL, format_args!("the schema makes no sense: {e}"));
    let schema = Schema::parse(&text).map_err(|e| refused(&e))?;
    for field in fields {
        let name = input::text(field.name)?;
        let Some(width) = schema.field(name).map(|f| f.kind.width() as usize).filter(|width| *width != field.size)
        else {
            continue;
        };
        return Err(refused(&format_args!("field `{name}` has {} bytes, and its type {width}", field.size)));
    }
    Ok(schema)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_schema(
    fields: *const chappe_field,
    count: usize,
    size: usize,
    to: *mut c_char,
    room: usize,
) -> isize {
    answer(|| input::put_text(to, room, &written(input::array(fields, count)?, size)?.to_string()))
}
