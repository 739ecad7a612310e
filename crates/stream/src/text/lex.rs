//! The words of a graph's text.

use chappe_synth::{Complaint, Span};

/// What a token is.
#[derive(Clone, PartialEq, Debug)]
pub enum TokenKind {
    /// A name or a kind.
    Word(String),
    /// With its unit already taken into account.
    Number(f64),
    /// In quotation marks.
    Text(String),
    /// One of `| ( ) : @ =`.
    Sign(char),
    /// The end of a line, or `;`.
    End,
}

/// A token, and where it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Token {
    /// What.
    pub kind: TokenKind,
    /// Where.
    pub span: Span,
}

const UNITS: [(&str, f64); 14] = [
    ("", 1.0),
    ("Hz", 1.0),
    ("kHz", 1e3),
    ("MHz", 1e6),
    ("s", 1.0),
    ("ms", 1e-3),
    ("us", 1e-6),
    ("k", 1e3),
    ("M", 1e6),
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("%", 0.01),
    ("x", 1.0),
    ("ppm", 1e-6),
];

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+' | ',')
}

/// Cuts a text into tokens.
///
/// # Errors
/// A character that begins nothing, a number or a unit that is none, a text without its end.
pub fn tokens(text: &str) -> Result<Vec<Token>, Complaint> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let start = at;
        let span = |end: usize| Span { start: start as u32, end: end as u32 };
        let run = |from: usize, in_it: &dyn Fn(char) -> bool| {
            text[from..].find(|c| !in_it(c)).map_or(text.len(), |n| from + n)
        };
        match c {
            '\n' | ';' => {
                at += 1;
                tokens.push(Token { kind: TokenKind::End, span: span(at) });
            }
            c if c.is_whitespace() => at += c.len_utf8(),
            '#' => at = run(at, &|c| c != '\n'),
            '|' | '(' | ')' | ':' | '@' | '=' => {
                at += 1;
                tokens.push(Token { kind: TokenKind::Sign(c), span: span(at) });
            }
            '"' => {
                let (value, end) = quoted(text, at)?;
                at = end;
                tokens.push(Token { kind: TokenKind::Text(value), span: span(at) });
            }
            c if c.is_ascii_digit() || (matches!(c, '-' | '+' | '.') && digit_follows(text, at)) => {
                at = run(at, &|c| is_word(c) || c == '%');
                let number = number(&text[start..at]).map_err(|why| Complaint::new(text, span(at), why))?;
                tokens.push(Token { kind: TokenKind::Number(number), span: span(at) });
            }
            c if is_word(c) => {
                at = run(at, &is_word);
                tokens.push(Token { kind: TokenKind::Word(text[start..at].to_owned()), span: span(at) });
            }
            c => {
                let why = format!("`{c}` has no meaning here: texts stand in quotation marks, comments behind #");
                return Err(Complaint::new(text, span(at + c.len_utf8()), why));
            }
        }
    }
    Ok(tokens)
}

fn digit_follows(text: &str, at: usize) -> bool {
    text[at + 1..].trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit())
}

fn number(word: &str) -> Result<f64, String> {
    let bytes = word.as_bytes();
    let mut end = 0;
    while end < bytes.len() {
        let exponent = matches!(bytes[end], b'e' | b'E')
            && bytes.get(end + 1).is_some_and(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+'));
        let sign = matches!(bytes[end], b'-' | b'+') && (end == 0 || matches!(bytes[end - 1], b'e' | b'E'));
        if !(bytes[end].is_ascii_digit() || bytes[end] == b'.' || exponent || sign) {
            break;
        }
        end += 1;
    }
    let (digits, unit) = word.split_at(end);
    let value: f64 = digits.parse().map_err(|_| format!("`{word}` is no number"))?;
    if unit == "dB" {
        return Ok(10f64.powf(value / 20.0));
    }
    let known = UNITS.iter().find(|(name, _)| *name == unit);
    let by = known.ok_or_else(|| {
        format!("`{unit}` is no unit: there are Hz kHz MHz, s ms us, dB, %, ppm, k M Ki Mi (a text stands in quotation marks)")
    })?;
    let value = value * by.1;
    if value.is_finite() { Ok(value) } else { Err(format!("`{word}` is too large")) }
}

/// A text from its first quotation mark on, and where it ends.
fn quoted(text: &str, start: usize) -> Result<(String, usize), Complaint> {
    let mut value = String::new();
    let mut chars = text[start + 1..].char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => return Ok((value, start + 1 + i + 1)),
            '\n' => break,
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 't')) => value.push('\t'),
                Some((_, c @ ('"' | '\\'))) => value.push(c),
                other => {
                    let end = start + 1 + i + 1 + other.map_or(0, |(_, c)| c.len_utf8());
                    let span = Span { start: (start + 1 + i) as u32, end: end as u32 };
                    return Err(Complaint::new(text, span, "a text knows \\n, \\t, \\\" and \\\\ alone"));
                }
            },
            c => value.push(c),
        }
    }
    let span = Span { start: start as u32, end: start as u32 + 1 };
    Err(Complaint::new(text, span, "this text has no end: close it with a quotation mark on the same line"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        let numbers = |text: &str| -> Vec<f64> {
            let all = tokens(text).unwrap().into_iter();
            all.filter_map(|t| if let TokenKind::Number(n) = t.kind { Some(n) } else { None }).collect()
        };
        assert_eq!(numbers("48000 48k 48kHz 10ms 50% -.5 1e3 4Ki"), [48e3, 48e3, 48e3, 0.01, 0.5, -0.5, 1e3, 4096.0]);
        assert!((numbers("-6dB")[0] - 0.501_187).abs() < 1e-6);
    }

    #[test]
    fn an_invalid_token_is_reported_with_its_place() {
        let said = |text: &str| tokens(text).unwrap_err().to_string();
        assert!(said("gain 3parsec").contains("`parsec` is no unit"));
        assert!(said("wav \"in.wav").ends_with("\n      ^"));
        assert!(said("a | $b").contains("`$` has no meaning"));
        assert!(said("f \"\\q\"").contains("alone"));
        assert!(said("gain 1e999").contains("too large"));
    }
}
