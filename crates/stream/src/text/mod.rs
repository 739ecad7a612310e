//! The text of a graph: what stages there are, and what leads to what.
//!
//! ```text
//! # a comment
//! music: wav "in.wav" | resample 48000 | lowpass 800
//! music | tee (spectrum 1024 | png "s.png") | wav "out.wav"
//! mix (sine 440 | gain -6dB) (noise | gain 0.1) | wav "both.wav"
//! ```
//!
//! ```text
//! graph  = line ...                               lines end at a newline, unless `|` follows or a parenthesis is open; or at `;`
//! line   = stage | stage ...
//! stage  = [name :] kind value ... key=value ... (line) ... [@process]
//!        | name                                   a stage that has its name elsewhere: one more reader of it, or one more that feeds it
//! value  = 48000  -6dB  10ms  48k  "text"  word
//! ```
//!
//! Units are Hz kHz MHz, s ms us, dB (a factor of amplitude), % and k M; Ki Mi are 1,024 and its square.

mod lex;
mod parse;
mod written;

pub use lex::{Token, TokenKind, tokens};
pub use parse::{MAX_STAGES, parse};
pub use written::{Argument, Value, Written};
