//! Words, numbers and signs of an expression, of a list of fields, or of a schema.

use crate::complaint::{Complaint, Span};

/// What a token is.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// A name.
    Name(String),
    /// A name between backticks: never a word of the language.
    Quoted(String),
    /// `$name`.
    Param(String),
    /// Digits: a number without a sign.
    Int(u64),
    /// Digits and a `u`.
    Uint(u64),
    /// A number with a point or an exponent.
    Double(f64),
    /// Digits and a unit of time: nanoseconds.
    Time(u64),
    /// Text between quotes, unescaped.
    Text(Vec<u8>),
    /// One of the signs, the longest that fits.
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// A token and its place.
#[derive(Clone, PartialEq, Debug)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Where it stands.
    pub span: Span,
}

/// Longer ones first.
const SIGNS: [&str; 28] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", "(", ")", "[", "]", ",", ".",
    "@", ";", "{", "}", "=", "&",
];

/// Reads a text one token at a time: what comes after an error, or after a limit, costs nothing.
pub struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// At the beginning of a text.
    pub fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, at: 0 }
    }

    fn complain<T>(&self, start: usize, end: usize, message: impl Into<String>) -> Result<T, Complaint> {
        Err(Complaint::new(self.text, Span { start: start as u32, end: end as u32 }, message))
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.byte(self.at) {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                // As CEL's comments, and as those of most files of settings.
                b'#' => self.skip_line(),
                b'/' if self.byte(self.at + 1) == b'/' => self.skip_line(),
                _ => return,
            }
        }
    }

    fn skip_line(&mut self) {
        self.at = self.text[self.at..].find('\n').map_or(self.text.len(), |n| self.at + n);
    }

    /// The next token; [`Kind::End`] for ever at the end.
    ///
    /// # Errors
    /// What is no token: a number that is too large, a text without its second quote, a sign that means nothing.
    pub fn next(&mut self) -> Result<Token, Complaint> {
        self.skip_blanks();
        let start = self.at;
        let kind = match self.byte(start) {
            0 if start >= self.text.len() => Kind::End,
            b'0'..=b'9' => self.number()?,
            b'.' if self.byte(start + 1).is_ascii_digit() => self.number()?,
            b'\'' | b'"' => self.quoted()?,
            b'`' => self.backticks()?,
            b'$' => {
                self.at += 1;
                let name = self.name();
                if name.is_empty() {
                    return self.complain(start, start + 1, "a parameter has a name: write `$min`");
                }
                Kind::Param(name)
            }
            b if b.is_ascii_alphabetic() || b == b'_' => Kind::Name(self.name()),
            _ => self.sign()?,
        };
        Ok(Token { kind, span: Span { start: start as u32, end: self.at as u32 } })
    }

    fn name(&mut self) -> String {
        let rest = &self.text[self.at..];
        let len = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        self.at += len;
        rest[..len].to_owned()
    }

    /// A name between backticks, in which a doubled one stands for itself.
    fn backticks(&mut self) -> Result<Kind, Complaint> {
        let start = self.at;
        let mut name = String::new();
        let mut rest = &self.text[start + 1..];
        while let Some(at) = rest.find('`') {
            name += &rest[..at];
            rest = &rest[at + 1..];
            match rest.strip_prefix('`') {
                Some(more) => {
                    name.push('`');
                    rest = more;
                }
                None if name.is_empty() => break,
                None => {
                    self.at = self.text.len() - rest.len();
                    return Ok(Kind::Quoted(name));
                }
            }
        }
        self.complain(start, start + 1, "a name stands between two backticks: `unit price`")
    }

    fn sign(&mut self) -> Result<Kind, Complaint> {
        let rest = &self.text[self.at..];
        let Some(sign) = SIGNS.iter().find(|s| rest.starts_with(**s)) else {
            let c = rest.chars().next().unwrap_or(' ');
            return self.complain(self.at, self.at + c.len_utf8(), format!("`{c}` means nothing here"));
        };
        if *sign == "=" || *sign == "&" {
            let message = format!("`{sign}` means nothing here: write `{sign}{sign}`");
            return self.complain(self.at, self.at + 1, message);
        }
        self.at += sign.len();
        Ok(Kind::Sign(sign))
    }

    fn number(&mut self) -> Result<Kind, Complaint> {
        let start = self.at;
        let hex = self.byte(start) == b'0' && matches!(self.byte(start + 1), b'x' | b'X');
        let mut at = if hex { start + 2 } else { start };
        let digits = |at: &mut usize, hex: bool, lexer: &Self| {
            while lexer.byte(*at).is_ascii_digit() || hex && lexer.byte(*at).is_ascii_hexdigit() {
                *at += 1;
            }
        };
        digits(&mut at, hex, self);
        let mut double = false;
        if !hex {
            if self.byte(at) == b'.' && self.byte(at + 1).is_ascii_digit() {
                double = true;
                at += 1;
                digits(&mut at, false, self);
            }
            let signed = matches!(self.byte(at + 1), b'+' | b'-');
            if matches!(self.byte(at), b'e' | b'E') && self.byte(at + 1 + usize::from(signed)).is_ascii_digit() {
                double = true;
                at += 1 + usize::from(signed);
                digits(&mut at, false, self);
            }
        }
        let text = &self.text[start..at];
        if let Some(time) = self.time(text, at)? {
            return Ok(time);
        }
        let unsigned = !double && matches!(self.byte(at), b'u' | b'U');
        self.at = at + usize::from(unsigned);
        if self.byte(self.at).is_ascii_alphanumeric() || self.byte(self.at) == b'_' {
            return self.complain(start, self.at + 1, "a number ends where a name begins: put a space between them");
        }
        if double {
            let value = text.parse::<f64>().unwrap_or(f64::INFINITY);
            return match value.is_finite() {
                true => Ok(Kind::Double(value)),
                false => self.complain(start, at, "this number is too large for a double"),
            };
        }
        let value = if hex { u64::from_str_radix(&text[2..], 16) } else { text.parse::<u64>() };
        match value {
            Ok(value) if unsigned => Ok(Kind::Uint(value)),
            Ok(value) => Ok(Kind::Int(value)),
            Err(_) if hex && text.len() == 2 => self.complain(start, at, "digits are missing behind `0x`"),
            Err(_) => self.complain(start, at, "this number does not fit 64 bits"),
        }
    }

    /// A number with a unit of time behind it, in nanoseconds.
    fn time(&mut self, digits: &str, at: usize) -> Result<Option<Kind>, Complaint> {
        const UNITS: [(&str, u64); 7] = [
            ("ns", 1),
            ("us", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("m", 60_000_000_000),
            ("h", 3_600_000_000_000),
            ("d", 86_400_000_000_000),
        ];
        let len = self.text[at..].bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let word = &self.text[at..at + len];
        let Some((_, unit)) = UNITS.iter().find(|(name, _)| *name == word) else { return Ok(None) };
        let start = self.at;
        self.at = at + len;
        match digits.parse::<u64>().ok().and_then(|n| n.checked_mul(*unit)) {
            Some(time) => Ok(Some(Kind::Time(time))),
            None => self.complain(
                start,
                self.at,
                "a time is a whole number of a unit, and has room in 64 bits of nanoseconds",
            ),
        }
    }

    fn quoted(&mut self) -> Result<Kind, Complaint> {
        let start = self.at;
        let quote = char::from(self.byte(start));
        let mut value = Vec::new();
        let mut chars = self.text[start + 1..].char_indices();
        while let Some((at, c)) = chars.next() {
            let here = start + 1 + at;
            if c == quote {
                self.at = here + 1;
                return Ok(Kind::Text(value));
            }
            if c == '\n' {
                break;
            }
            if c != '\\' {
                value.extend(c.encode_utf8(&mut [0; 4]).bytes());
                continue;
            }
            let Some((_, escaped)) = chars.next() else { break };
            let byte = match escaped {
                'n' => b'\n',
                't' => b'\t',
                'r' => b'\r',
                '\\' | '\'' | '"' => escaped as u8,
                'x' => {
                    let digits: String = chars.by_ref().take(2).map(|(_, c)| c).collect();
                    match u8::from_str_radix(&digits, 16) {
                        Ok(byte) if digits.len() == 2 => byte,
                        _ => return self.complain(here, here + 4, "`\\x` takes two hexadecimal digits"),
                    }
                }
                _ => {
                    let message = format!("`\\{escaped}` is no escape: there are \\n \\t \\r \\\\ \\' \\\" \\xHH");
                    return self.complain(here, here + 1 + escaped.len_utf8(), message);
                }
            };
            value.push(byte);
        }
        self.complain(start, start + 1, "the quote that ends this text is missing")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        let mut lexer = Lexer::new(text);
        let mut kinds = Vec::new();
        loop {
            let token = lexer.next().unwrap();
            if token.kind == Kind::End {
                return kinds;
            }
            kinds.push(token.kind);
        }
    }

    fn wrong(text: &str) -> (u32, String) {
        let mut lexer = Lexer::new(text);
        loop {
            match lexer.next() {
                Ok(token) => assert_ne!(token.kind, Kind::End, "{text} was taken"),
                Err(e) => return (e.column(), e.message().to_owned()),
            }
        }
    }

    #[test]
    fn tokens_are_told_apart() {
        use Kind::{Double, Int, Name, Param, Sign, Text, Uint};
        assert_eq!(kinds("a>=$b1"), [Name("a".into()), Sign(">="), Param("b1".into())]);
        assert_eq!(kinds("1 2u 0xff 0XfU"), [Int(1), Uint(2), Int(255), Uint(15)]);
        assert_eq!(
            kinds(".5 1.5 2e3 2E-3 7.25e+1"),
            [Double(0.5), Double(1.5), Double(2e3), Double(2e-3), Double(72.5)]
        );
        assert_eq!(kinds(r#"'a"\'' "\x41\n\\é""#), [Text(b"a\"'".into()), Text("A\n\\é".as_bytes().into())]);
        assert_eq!(
            kinds("x.y() # c\n// d\n!z"),
            [Name("x".into()), Sign("."), Name("y".into()), Sign("("), Sign(")"), Sign("!"), Name("z".into())]
        );
        assert_eq!(kinds("18446744073709551615"), [Int(u64::MAX)]);
        assert_eq!(kinds("`unit price` `a``b`"), [Kind::Quoted("unit price".into()), Kind::Quoted("a`b".into())]);
    }

    #[test]
    fn an_invalid_token_is_reported_with_its_place() {
        for (text, column) in [
            ("a = 1", 3),
            ("a & b", 3),
            ("a ~ b", 3),
            ("a > 'x", 5),
            ("a > 12x", 5),
            ("18446744073709551616", 1),
            ("a > 0x", 5),
            ("1e999", 1),
            ("a == '\\q'", 7),
            ("a == '\\x4'", 7),
            ("$ > 1", 1),
            ("a > é", 5),
            ("a > `b", 5),
            ("``", 1),
        ] {
            assert_eq!(wrong(text).0, column, "{text}: {}", wrong(text).1);
        }
    }
}
