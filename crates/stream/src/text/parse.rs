//! From tokens to stages. By recursive descent; parentheses at most [`MAX_DEPTH`] deep.

use super::lex::{Token, TokenKind, tokens};
use super::written::{Argument, Value, Written};
use chappe_synth::{Complaint, Span};

/// The most stages of a graph.
pub const MAX_STAGES: usize = 65_536;
/// How deep parentheses may stand in each other.
const MAX_DEPTH: usize = 64;

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    stages: usize,
}

/// Reads a graph's text: its lines, each a chain of stages.
///
/// # Errors
/// What cannot be read, with the place.
pub fn parse(text: &str) -> Result<Vec<Vec<Written>>, Complaint> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, stages: 0 };
    let mut lines = Vec::new();
    loop {
        while parser.sees(&TokenKind::End) {
            parser.at += 1;
        }
        if parser.at == parser.tokens.len() {
            return Ok(lines);
        }
        lines.push(parser.line(0)?);
        if parser.at < parser.tokens.len() && !parser.sees(&TokenKind::End) {
            let sign =
                &parser.text[parser.tokens[parser.at].span.start as usize..parser.tokens[parser.at].span.end as usize];
            return Err(parser.complain(format!("`{sign}` is not expected here: stages are separated by |")));
        }
    }
}

impl Parser<'_> {
    fn sees(&self, kind: &TokenKind) -> bool {
        self.tokens.get(self.at).is_some_and(|t| t.kind == *kind)
    }

    fn takes(&mut self, sign: char) -> bool {
        let seen = self.sees(&TokenKind::Sign(sign));
        self.at += usize::from(seen);
        seen
    }

    fn here(&self) -> Span {
        let end = self.text.len() as u32;
        self.tokens.get(self.at).map_or(Span { start: end, end }, |t| t.span)
    }

    fn complain(&self, why: impl Into<String>) -> Complaint {
        Complaint::new(self.text, self.here(), why)
    }

    /// Ends of lines that are none: within parentheses, and before `|`.
    fn skip_ends(&mut self, depth: usize) {
        let after = self.tokens[self.at..].iter().position(|t| t.kind != TokenKind::End).map(|n| self.at + n);
        match after {
            Some(next) if depth > 0 || self.tokens[next].kind == TokenKind::Sign('|') => self.at = next,
            _ => {}
        }
    }

    fn line(&mut self, depth: usize) -> Result<Vec<Written>, Complaint> {
        let mut stages = vec![self.stage(depth)?];
        loop {
            self.skip_ends(depth);
            if !self.takes('|') {
                return Ok(stages);
            }
            while self.sees(&TokenKind::End) {
                self.at += 1;
            }
            stages.push(self.stage(depth)?);
        }
    }

    fn word(&mut self, what: &str) -> Result<(String, Span), Complaint> {
        match self.tokens.get(self.at) {
            Some(Token { kind: TokenKind::Word(word), span }) => {
                self.at += 1;
                Ok((word.clone(), *span))
            }
            _ => Err(self.complain(format!("{what} is expected here"))),
        }
    }

    fn stage(&mut self, depth: usize) -> Result<Written, Complaint> {
        let start = self.here();
        self.stages += 1;
        if self.stages > MAX_STAGES {
            return Err(self.complain(format!("a graph has at most {MAX_STAGES} stages")));
        }
        let (mut kind, mut span) = self.word("a stage")?;
        let mut name = None;
        if self.takes(':') {
            name = Some(kind);
            (kind, span) = self.word("a kind of stage")?;
        }
        let mut stage =
            Written { name, kind, span, whole: start, arguments: Vec::new(), branches: Vec::new(), process: None };
        loop {
            if depth > 0 {
                self.skip_ends(depth);
            }
            let Some(token) = self.tokens.get(self.at).cloned() else { break };
            match token.kind {
                TokenKind::Word(key)
                    if self.tokens.get(self.at + 1).is_some_and(|t| t.kind == TokenKind::Sign('=')) =>
                {
                    self.at += 2;
                    let value = self.value()?;
                    let span = token.span.to(self.tokens[self.at - 1].span);
                    stage.arguments.push(Argument { key: Some(key), value, span });
                }
                TokenKind::Word(_) | TokenKind::Number(_) | TokenKind::Text(_) => {
                    let value = self.value()?;
                    stage.arguments.push(Argument { key: None, value, span: token.span });
                }
                TokenKind::Sign('(') => {
                    if depth + 1 > MAX_DEPTH {
                        return Err(self.complain(format!("parentheses stand at most {MAX_DEPTH} deep")));
                    }
                    self.at += 1;
                    self.skip_ends(1);
                    let branch = self.line(depth + 1)?;
                    if !self.takes(')') {
                        return Err(Complaint::new(self.text, token.span, "this parenthesis is not closed"));
                    }
                    stage.branches.push(branch);
                }
                TokenKind::Sign('@') => {
                    self.at += 1;
                    stage.process = Some(self.word("the name of a process")?.0);
                }
                _ => break,
            }
        }
        stage.whole = start.to(self.tokens[self.at - 1].span);
        Ok(stage)
    }

    fn value(&mut self) -> Result<Value, Complaint> {
        let value = match self.tokens.get(self.at).map(|t| t.kind.clone()) {
            Some(TokenKind::Word(word)) => Value::Word(word),
            Some(TokenKind::Number(number)) => Value::Number(number),
            Some(TokenKind::Text(text)) => Value::Text(text),
            _ => return Err(self.complain("a value is expected here")),
        };
        self.at += 1;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the parser understood it.
    fn shown(line: &[Written]) -> String {
        let one = |w: &Written| {
            let mut text = w.name.as_ref().map_or(String::new(), |n| format!("{n}:"));
            text += &w.kind;
            for a in &w.arguments {
                let key = a.key.as_ref().map_or(String::new(), |k| format!("{k}="));
                text += &format!(" {key}{:?}", a.value);
            }
            for branch in &w.branches {
                text += &format!(" ({})", shown(branch));
            }
            text + &w.process.as_ref().map_or(String::new(), |p| format!(" @{p}"))
        };
        line.iter().map(one).collect::<Vec<_>>().join(" | ")
    }

    fn read(text: &str) -> Vec<String> {
        parse(text).unwrap().iter().map(|l| shown(l)).collect()
    }

    #[test]
    fn the_issues_own_example_is_read() {
        let text = r#"wav "in.wav" | resample 48000 | lowpass 800 | tee (spectrum 1024 | png "s.png") | jack"#;
        assert_eq!(
            read(text),
            ["wav Text(\"in.wav\") | resample Number(48000.0) | lowpass Number(800.0) | \
             tee (spectrum Number(1024.0) | png Text(\"s.png\")) | jack"]
        );
    }

    #[test]
    fn lines_go_on_behind_a_bar_and_inside_parentheses() {
        let text = "# two\na: sine 440 level=-6dB @dsp\n  | gain 2 # on\n  | tee (\n null\n )\n\nb: null; a | b";
        let read = read(text);
        assert_eq!(read.len(), 3, "{read:?}");
        assert!(read[0].starts_with("a:sine Number(440.0) level=Number(0.50118"), "{read:?}");
        assert!(read[0].ends_with(" @dsp | gain Number(2.0) | tee (null)"), "{read:?}");
        assert_eq!(read[1..], ["b:null", "a | b"]);
    }

    #[test]
    fn an_invalid_text_is_reported_with_its_place() {
        let said = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(said("sine | | null"), "a stage is expected here (line 1, column 8)\n  sine | | null\n         ^");
        assert!(said("tee (sine 1\n| null").contains("not closed (line 1, column 5)"));
        assert!(said("sine 440 ) x").contains("`)` is not expected"));
        assert!(said("sine @ 3").contains("the name of a process"));
        assert!(said("sine a=|").contains("a value is expected"));
        assert!(said(&"tee (".repeat(100)).contains("64 deep"));
        assert!(said(&"a|".repeat(MAX_STAGES + 1)).contains("at most 65536 stages"));
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        let mut seed = 1u32;
        let parts = ["a", "|", "(", ")", ":", "@", "=", "\"", "1", "k", "\n", ";", "#", " ", "é", "\\", "-", ".5", "e"];
        for _ in 0..3_000 {
            let mut text = String::new();
            for _ in 0..12 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text += parts[(seed >> 16) as usize % parts.len()];
            }
            let _ = parse(&text);
        }
    }
}
