//! What was written, as a tree: nodes in an array, each behind those that it is made of.
//!
//! The grammar is a subset of CEL's, plus parameters. Precedence, lowest first, as in CEL:
//!
//! ```text
//! cond ? a : b                      one at a time from the right
//! a || b
//! a && b
//! a == b  != < <= > >=  in          one at a time: `a < b < c` is refused, as it never means what it says
//! a + b  -
//! a * b  /  %
//! !a  -a
//! a.startsWith(b)   f(a, ...)   (a)   [a, ...] (behind `in` alone)   name   $name   1  1u  1.5  'text'  true
//! ```
//!
//! Bounds: [`MAX_NODES`] nodes, [`MAX_DEPTH`] deep. Whatever goes beyond is refused at the token that does, so a text of a
//! million terms costs as much as one of the bound. Chains of `&&` and of `||` are one node each, however long: they do
//! not count for the depth.

use crate::complaint::{Complaint, Span};
use crate::lex::{Kind, Lexer, Token};

/// The most nodes of an expression.
pub const MAX_NODES: usize = 4096;
/// How deep an expression may be nested.
pub const MAX_DEPTH: u32 = 100;

/// A node's place in the array.
pub type NodeId = usize;

/// Operators of two sides, other than `&&` and `||`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each is named as its sign is")]
pub enum Operator {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

/// What a node is.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "each is named as what is written")]
pub enum What {
    Int(u64),
    Uint(u64),
    Double(f64),
    Bool(bool),
    Null,
    Text(Vec<u8>),
    Name(String),
    Param(String),
    Not(NodeId),
    Minus(NodeId),
    Binary(Operator, NodeId, NodeId),
    All(Vec<NodeId>),
    Any(Vec<NodeId>),
    If(NodeId, NodeId, NodeId),
    In(NodeId, Vec<NodeId>),
    Call(String, Vec<NodeId>),
    Method(NodeId, String, NodeId),
}

/// A node and the range of the text that it was read from.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// What it is.
    pub what: What,
    /// Where it stands.
    pub span: Span,
    depth: u32,
}

/// A parser over a text, with the nodes that it has made so far.
pub struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    token: Token,
    /// All nodes; each behind those that it is made of.
    pub nodes: Vec<Node>,
}

/// How strongly the operators bind.
mod power {
    pub const ANYTHING: u8 = 0;
    pub const IF: u8 = 1;
    pub const OR: u8 = 2;
    pub const AND: u8 = 3;
    pub const RELATION: u8 = 4;
    pub const SUM: u8 = 5;
    pub const PRODUCT: u8 = 6;
}

impl<'a> Parser<'a> {
    /// At the first token of a text.
    ///
    /// # Errors
    /// What is no token.
    pub fn new(text: &'a str) -> Result<Parser<'a>, Complaint> {
        if u32::try_from(text.len()).is_err() {
            return Err(Complaint::new("", Span::default(), "a text of more than 4 GiB is no expression"));
        }
        let mut lexer = Lexer::new(text);
        let token = lexer.next()?;
        Ok(Parser { text, lexer, token, nodes: Vec::new() })
    }

    /// The token that is next.
    pub fn peek(&self) -> &Token {
        &self.token
    }

    /// Takes the next token.
    ///
    /// # Errors
    /// What is no token, behind it.
    pub fn take(&mut self) -> Result<Token, Complaint> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    /// Takes the next token if it is this sign.
    ///
    /// # Errors
    /// What is no token, behind it.
    pub fn take_sign(&mut self, sign: &'static str) -> Result<bool, Complaint> {
        let is = self.token.kind == Kind::Sign(sign);
        if is {
            self.take()?;
        }
        Ok(is)
    }

    /// Takes the next token if it is this word.
    ///
    /// # Errors
    /// What is no token, behind it.
    pub fn take_word(&mut self, word: &str) -> Result<bool, Complaint> {
        let is = matches!(&self.token.kind, Kind::Name(n) if n == word);
        if is {
            self.take()?;
        }
        Ok(is)
    }

    /// A complaint about a place of this text.
    ///
    /// # Errors
    /// Always.
    pub fn complain<T>(&self, span: Span, message: impl Into<String>) -> Result<T, Complaint> {
        Err(Complaint::new(self.text, span, message))
    }

    fn expect(&mut self, sign: &'static str, why: &str) -> Result<Span, Complaint> {
        let span = self.token.span;
        if self.take_sign(sign)? { Ok(span) } else { self.complain(span, format!("`{sign}` is missing here: {why}")) }
    }

    fn add(&mut self, what: What, span: Span) -> Result<NodeId, Complaint> {
        if self.nodes.len() >= MAX_NODES {
            return self.complain(span, format!("this is too large: an expression has at most {MAX_NODES} parts"));
        }
        let depth_of = |id: &NodeId| self.nodes[*id].depth;
        let below = match &what {
            What::Not(a) | What::Minus(a) => depth_of(a),
            What::Binary(_, a, b) | What::Method(a, _, b) => depth_of(a).max(depth_of(b)),
            What::If(a, b, c) => depth_of(a).max(depth_of(b)).max(depth_of(c)),
            What::All(of) | What::Any(of) | What::Call(_, of) => of.iter().map(depth_of).max().unwrap_or(0),
            What::In(a, of) => of.iter().map(depth_of).max().unwrap_or(0).max(depth_of(a)),
            _ => 0,
        };
        if below >= MAX_DEPTH {
            return self.complain(span, format!("this is nested too deeply: at most {MAX_DEPTH} levels"));
        }
        self.nodes.push(Node { what, span, depth: below + 1 });
        Ok(self.nodes.len() - 1)
    }

    /// Reads an expression up to the first token that cannot belong to it.
    ///
    /// # Errors
    /// What is no expression, or too large a one.
    pub fn expression(&mut self) -> Result<NodeId, Complaint> {
        self.above(power::ANYTHING, 0)
    }

    /// Complains if SQL has, or writes otherwise, the word that comes next behind a value.
    ///
    /// # Errors
    /// What is written here for it.
    pub fn no_sql(&self) -> Result<(), Complaint> {
        let Kind::Name(word) = &self.token.kind else { return Ok(()) };
        if let Some(here) = of_sql(word) {
            return self.complain(self.token.span, format!("`{word}` is of SQL, or Python: {here}"));
        }
        self.no_capitals()
    }

    /// Complains if the word that comes next is one of the language's in capitals.
    ///
    /// # Errors
    /// How it is written.
    pub fn no_capitals(&self) -> Result<(), Complaint> {
        match &self.token.kind {
            Kind::Name(word) if let Some(small) = small(word) => {
                self.complain(self.token.span, format!("`{word}` is written in small letters: `{small}`"))
            }
            _ => Ok(()),
        }
    }

    fn is_of_sql(&self) -> bool {
        matches!(&self.token.kind, Kind::Name(word) if of_sql(word).is_some() || small(word).is_some())
    }

    /// Complains unless everything was read.
    ///
    /// # Errors
    /// When something follows.
    pub fn end(&self) -> Result<(), Complaint> {
        match &self.token.kind {
            Kind::End => Ok(()),
            Kind::Name(_) if self.is_of_sql() => self.no_sql(),
            Kind::Name(_)
            | Kind::Quoted(_)
            | Kind::Param(_)
            | Kind::Int(_)
            | Kind::Uint(_)
            | Kind::Double(_)
            | Kind::Time(_)
            | Kind::Text(_) => self.complain(self.token.span, "an operator is missing before this"),
            Kind::Sign(")" | "]") => self.complain(self.token.span, "this closes nothing"),
            Kind::Sign(_) => self.complain(self.token.span, "the expression has ended before this"),
        }
    }

    /// An expression of operators that bind more strongly than `floor`. `level` bounds the recursion: what nests deeper than it
    /// may cannot become a tree that may be.
    fn above(&mut self, floor: u8, level: u32) -> Result<NodeId, Complaint> {
        if level > MAX_DEPTH {
            let message = format!("this is nested too deeply: at most {MAX_DEPTH} levels");
            return self.complain(self.token.span, message);
        }
        let mut left = self.prefix(level)?;
        loop {
            let (binds, operator) = match &self.token.kind {
                Kind::Sign("?") => (power::IF, None),
                Kind::Sign("||") => (power::OR, None),
                Kind::Sign("&&") => (power::AND, None),
                Kind::Sign("==") => (power::RELATION, Some(Operator::Eq)),
                Kind::Sign("!=") => (power::RELATION, Some(Operator::Ne)),
                Kind::Sign("<") => (power::RELATION, Some(Operator::Lt)),
                Kind::Sign("<=") => (power::RELATION, Some(Operator::Le)),
                Kind::Sign(">") => (power::RELATION, Some(Operator::Gt)),
                Kind::Sign(">=") => (power::RELATION, Some(Operator::Ge)),
                Kind::Name(n) if n == "in" => (power::RELATION, None),
                Kind::Sign("+") => (power::SUM, Some(Operator::Add)),
                Kind::Sign("-") => (power::SUM, Some(Operator::Sub)),
                Kind::Sign("*") => (power::PRODUCT, Some(Operator::Mul)),
                Kind::Sign("/") => (power::PRODUCT, Some(Operator::Div)),
                Kind::Sign("%") => (power::PRODUCT, Some(Operator::Rem)),
                _ => return Ok(left),
            };
            if binds <= floor {
                return Ok(left);
            }
            let sign = self.take()?;
            let start = self.nodes[left].span;
            left = match (binds, operator) {
                (power::IF, _) => self.choice(left, level)?,
                (power::AND | power::OR, _) => self.chain(left, binds, level)?,
                (power::RELATION, None) => self.list(left, level)?,
                (_, Some(operator)) => {
                    let right = self.above(binds, level + 1)?;
                    let span = start.to(self.nodes[right].span);
                    self.add(What::Binary(operator, left, right), span)?
                }
                _ => return self.complain(sign.span, "this means nothing here"),
            };
            if binds == power::RELATION && self.is_relation() {
                let message = "relations do not chain: write `a < b && b < c`, or put one in brackets";
                return self.complain(self.token.span, message);
            }
        }
    }

    fn is_relation(&self) -> bool {
        matches!(self.token.kind, Kind::Sign("==" | "!=" | "<" | "<=" | ">" | ">="))
    }

    fn choice(&mut self, condition: NodeId, level: u32) -> Result<NodeId, Complaint> {
        let yes = self.above(power::IF, level + 1)?;
        self.expect(":", "write `condition ? a : b`")?;
        let no = self.above(power::ANYTHING, level + 1)?;
        let span = self.nodes[condition].span.to(self.nodes[no].span);
        self.add(What::If(condition, yes, no), span)
    }

    /// `a && b && c ...`, behind the first sign.
    fn chain(&mut self, first: NodeId, binds: u8, level: u32) -> Result<NodeId, Complaint> {
        let sign = if binds == power::AND { "&&" } else { "||" };
        let mut of = vec![first];
        loop {
            of.push(self.above(binds, level + 1)?);
            if !self.take_sign(sign)? {
                break;
            }
        }
        let span = self.nodes[first].span.to(self.nodes[of[of.len() - 1]].span);
        self.add(if binds == power::AND { What::All(of) } else { What::Any(of) }, span)
    }

    /// `a in [b, c]`, behind `in`.
    fn list(&mut self, left: NodeId, level: u32) -> Result<NodeId, Complaint> {
        self.expect("[", "write `a in [1, 2]`")?;
        let mut of = Vec::new();
        while self.token.kind != Kind::Sign("]") {
            of.push(self.above(power::ANYTHING, level + 1)?);
            if !self.take_sign(",")? {
                break;
            }
        }
        let end = self.expect("]", "a list ends with it")?;
        let span = self.nodes[left].span.to(end);
        self.add(What::In(left, of), span)
    }

    fn prefix(&mut self, level: u32) -> Result<NodeId, Complaint> {
        let Token { kind, span } = self.token.clone();
        match kind {
            Kind::Sign("!") => {
                self.take()?;
                let of = self.above(power::PRODUCT, level + 1)?;
                let span = span.to(self.nodes[of].span);
                return self.add(What::Not(of), span);
            }
            Kind::Sign("-") => {
                self.take()?;
                let of = self.above(power::PRODUCT, level + 1)?;
                let span = span.to(self.nodes[of].span);
                return self.add(What::Minus(of), span);
            }
            _ => {}
        }
        let mut node = self.primary(level)?;
        while self.token.kind == Kind::Sign(".") {
            self.take()?;
            let Token { kind: Kind::Name(name), span: named } = self.take()? else {
                return self.complain(self.token.span, "a name is missing behind the point");
            };
            let space = match &self.nodes[node].what {
                What::Name(n) if n == "math" => Some(n.clone()),
                _ => None,
            };
            if let (What::Name(of), false) = (&self.nodes[node].what, self.token.kind == Kind::Sign("(")) {
                let message = format!(
                    "a method takes its argument in brackets; a member of a JSON object has backticks around all of its name: ``{of}.{name}``"
                );
                return self.complain(self.nodes[node].span.to(named), message.replace("``", "`"));
            }
            self.expect("(", "a record's fields have no fields of their own; a method takes its argument in brackets")?;
            if let Some(space) = space {
                let (of, end) = self.arguments(level)?;
                node = self.add(What::Call(format!("{space}.{name}"), of), span.to(end))?;
                continue;
            }
            let (of, end) = self.arguments(level)?;
            let &[argument] = &of[..] else {
                return self.complain(named, format!("`{name}` takes one argument"));
            };
            node = self.add(What::Method(node, name, argument), span.to(end))?;
        }
        Ok(node)
    }

    /// Behind the opening bracket.
    fn arguments(&mut self, level: u32) -> Result<(Vec<NodeId>, Span), Complaint> {
        let mut of = Vec::new();
        while self.token.kind != Kind::Sign(")") {
            of.push(self.above(power::ANYTHING, level + 1)?);
            if !self.take_sign(",")? {
                break;
            }
        }
        let end = self.expect(")", "the brackets are not closed")?;
        Ok((of, end))
    }

    /// Whether the next token begins a value, and no other part of a query.
    fn begins_value(&self) -> bool {
        match &self.token.kind {
            Kind::Name(word) => word != "in" && !WORDS.contains(&word.as_str()) && !self.is_of_sql(),
            Kind::Sign(sign) => *sign == "(",
            Kind::End => false,
            _ => true,
        }
    }

    fn primary(&mut self, level: u32) -> Result<NodeId, Complaint> {
        let Token { kind, span } = self.take()?;
        let what = match kind {
            Kind::Int(n) => What::Int(n),
            Kind::Uint(n) => What::Uint(n),
            Kind::Double(n) => What::Double(n),
            Kind::Text(t) => What::Text(t),
            Kind::Time(_) => return self.complain(span, "a time stands behind `every` alone"),
            Kind::Param(name) => What::Param(name),
            Kind::Name(name) if name == "true" || name == "false" => What::Bool(name == "true"),
            Kind::Name(name) if name == "null" => What::Null,
            Kind::Quoted(name) => return self.add(What::Name(name), span),
            Kind::Name(name) if name == "in" => return self.complain(span, "a value is missing before `in`"),
            Kind::Name(name) if name.eq_ignore_ascii_case("not") && self.begins_value() => {
                return self.complain(span, format!("`{name}` is of SQL, or Python: write `!`, as in `!(a && b)`"));
            }
            Kind::Name(name)
                if name.eq_ignore_ascii_case("distinct")
                    && self.token.kind != Kind::Sign("(")
                    && self.begins_value() =>
            {
                let here = "write `distinct(x)` for how many there are, `select count() by x` for which";
                return self.complain(span, format!("`{name}` is of SQL: {here}"));
            }
            Kind::Name(name) => {
                if !self.take_sign("(")? {
                    return self.add(What::Name(name), span);
                }
                // As SQL writes it.
                if name.eq_ignore_ascii_case("count") {
                    self.take_sign("*")?;
                }
                let (of, end) = self.arguments(level)?;
                return self.add(What::Call(name, of), span.to(end));
            }
            Kind::Sign("(") => {
                let inner = self.above(power::ANYTHING, level + 1)?;
                let end = self.expect(")", "the brackets are not closed")?;
                // Errors about it point at the brackets as well.
                self.nodes[inner].span = span.to(end);
                return Ok(inner);
            }
            Kind::Sign("[") => return self.complain(span, "a list stands behind `in` alone: write `a in [1, 2]`"),
            Kind::End => return self.complain(span, "the expression ends here, where a value is missing"),
            Kind::Sign(">") if self.text[..span.start as usize].ends_with('<') => {
                return self.complain(span, "`<>` is of SQL: write `!=`");
            }
            Kind::Sign(sign) => return self.complain(span, format!("a value is missing here, before `{sign}`")),
        };
        self.add(what, span)
    }
}

/// The words of a query, which may stand behind a value.
const WORDS: [&str; 9] = ["select", "where", "as", "by", "every", "order", "top", "asc", "desc"];

/// The word of a query that somebody has written in capitals.
fn small(word: &str) -> Option<&'static str> {
    let small = word.to_ascii_lowercase();
    if small == word { None } else { WORDS.into_iter().find(|known| *known == small) }
}

/// What is written here for a word of SQL, or Python, behind a value.
fn of_sql(word: &str) -> Option<&'static str> {
    Some(match word.to_ascii_lowercase().as_str() {
        "and" => "write `&&`",
        "or" => "write `||`",
        "not" => "write `!(x in [1, 2])`",
        "is" | "isnull" | "notnull" => "write `x == null` or `x != null`",
        "like" | "ilike" => "write `x.startsWith('a')`, `x.endsWith('a')` or `x.contains('a')`",
        "between" => "write `1 <= x && x <= 2`",
        "div" | "mod" => "write `x / 2` or `x % 2`",
        "limit" => "write `top 10`, at the end",
        "group" => "write `by`, behind the list",
        "having" => "ask the answer again: `chappe query ... | chappe query ...`",
        "from" => "files are named behind the query, and not in it",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_sql_are_told_what_is_written_here() {
        let told = |text: &str| {
            let mut parser = Parser::new(text).unwrap();
            parser.expression().and_then(|_| parser.end()).unwrap_err().message().to_owned()
        };
        for (text, here) in [
            ("a > 0 and b < 2", "`and` is of SQL, or Python: write `&&`"),
            ("a > 0 OR b", "`OR` is of SQL, or Python: write `||`"),
            ("not (a > 1)", "`not` is of SQL, or Python: write `!`, as in"),
            ("not a", "`not` is of SQL"),
            ("a is null", "write `x == null` or"),
            ("a not in [1]", "write `!(x in [1, 2])`"),
            ("a <> 1", "`<>` is of SQL: write `!=`"),
            ("a like 'x%'", "x.startsWith('a')"),
            ("a between 1 and 2", "write `1 <= x && x <= 2`"),
            ("a > 1 limit 5", "write `top 10`, at the end"),
            ("a IS NULL", "write `x == null` or"),
            ("a BY b", "`BY` is written in small letters: `by`"),
            ("a SELECT b", "`SELECT` is written in small letters: `select`"),
            ("distinct a", "`distinct` is of SQL: write `distinct(x)`"),
            ("count(DISTINCT a)", "`DISTINCT` is of SQL: write `distinct(x)`"),
            ("a b", "an operator is missing before this"),
        ] {
            assert!(told(text).contains(here), "{text}: {}", told(text));
        }
        // They are names all the same.
        for text in ["and > 1", "not", "!not && or == is", "like < 2 ? limit : group", "distinct > BY", "distinct(a)"] {
            let mut parser = Parser::new(text).unwrap();
            assert!(parser.expression().and_then(|_| parser.end()).is_ok(), "{text}");
        }
    }

    /// The tree in brackets.
    fn shown(nodes: &[Node], id: NodeId) -> String {
        let all = |of: &[NodeId]| of.iter().map(|a| shown(nodes, *a)).collect::<Vec<_>>().join(" ");
        match &nodes[id].what {
            What::Int(n) => n.to_string(),
            What::Uint(n) => format!("{n}u"),
            What::Double(n) => format!("{n:?}"),
            What::Bool(b) => b.to_string(),
            What::Null => "null".into(),
            What::Text(t) => format!("'{}'", String::from_utf8_lossy(t)),
            What::Name(n) => n.clone(),
            What::Param(n) => format!("${n}"),
            What::Not(a) => format!("(! {})", shown(nodes, *a)),
            What::Minus(a) => format!("(- {})", shown(nodes, *a)),
            What::Binary(o, a, b) => format!("({o:?} {} {})", shown(nodes, *a), shown(nodes, *b)),
            What::All(of) => format!("(&& {})", all(of)),
            What::Any(of) => format!("(|| {})", all(of)),
            What::If(a, b, c) => format!("(? {})", all(&[*a, *b, *c])),
            What::In(a, of) => format!("(in {} [{}])", shown(nodes, *a), all(of)),
            What::Call(n, of) => format!("({n} {})", all(of)),
            What::Method(a, n, b) => format!("(.{n} {} {})", shown(nodes, *a), shown(nodes, *b)),
        }
    }

    fn tree(text: &str) -> String {
        let mut parser = Parser::new(text).unwrap();
        let root = parser.expression().unwrap();
        parser.end().unwrap();
        shown(&parser.nodes, root)
    }

    fn wrong(text: &str) -> Complaint {
        let parsed = Parser::new(text).and_then(|mut p| p.expression().and_then(|_| p.end()));
        parsed.expect_err(text)
    }

    #[test]
    fn operators_bind_as_in_cel() {
        for (text, expected) in [
            ("a + b * c - d", "(Sub (Add a (Mul b c)) d)"),
            ("a || b && c || d", "(|| a (&& b c) d)"),
            ("a && b && c", "(&& a b c)"),
            ("!a == b", "(Eq (! a) b)"),
            ("-a * b", "(Mul (- a) b)"),
            ("- -a", "(- (- a))"),
            ("a < b + 1 && c", "(&& (Lt a (Add b 1)) c)"),
            ("a ? b : c ? d : e", "(? a b (? c d e))"),
            ("a || b ? c : d", "(? (|| a b) c d)"),
            ("a in [1, 2,] && b", "(&& (in a [1 2]) b)"),
            ("(a + b) * c", "(Mul (Add a b) c)"),
            ("math.abs(a - 1) > $min", "(Gt (math.abs (Sub a 1)) $min)"),
            ("sym.startsWith('A') || !live", "(|| (.startsWith sym 'A') (! live))"),
            ("double(a) / 2.0", "(Div (double a) 2.0)"),
            ("a - b - c", "(Sub (Sub a b) c)"),
            ("a in []", "(in a [])"),
        ] {
            assert_eq!(tree(text), expected, "{text}");
        }
    }

    #[test]
    fn an_invalid_expression_is_reported_with_its_column() {
        for (text, column, says) in [
            ("", 1, "value is missing"),
            ("a &&", 5, "value is missing"),
            ("a b", 3, "operator is missing"),
            ("(a", 3, "`)`"),
            ("a)", 2, "closes nothing"),
            ("a < b < c", 7, "do not chain"),
            ("a ? b", 6, "`:`"),
            ("a in 3", 6, "`[`"),
            ("[1]", 1, "behind `in`"),
            ("f(a", 4, "`)`"),
            ("a.b > 1", 1, "backticks"),
            ("* a", 1, "value is missing"),
        ] {
            let e = wrong(text);
            assert!(e.column() == column && e.message().contains(says), "{text}: {e}");
        }
    }

    #[test]
    fn hostile_texts_are_refused_at_the_bound() {
        let deep = format!("{}a{}", "(".repeat(1_000_000), ")".repeat(1_000_000));
        assert!(wrong(&deep).message().contains("nested too deeply"));
        assert_eq!(wrong(&deep).column(), MAX_DEPTH + 2);
        assert!(wrong(&"!".repeat(1_000_000)).message().contains("nested too deeply"));
        assert_eq!(wrong(&"a?".repeat(1_000_000)).column(), 4);
        let right = "a ? b : ".repeat(1_000_000);
        assert!(wrong(&right).message().contains("nested too deeply"));
        let left = format!("a{}", " + a".repeat(1_000_000));
        assert!(wrong(&left).message().contains("nested too deeply"));
        let wide = format!("a{}", " && a".repeat(1_000_000));
        let e = wrong(&wide);
        assert!(e.message().contains("too large"), "{e}");
        assert_eq!(e.column() as usize, 5 * MAX_NODES + 1);
        let list = format!("a in [{}]", "1,".repeat(1_000_000));
        assert!(wrong(&list).message().contains("too large"));
        tree(&format!("a{}", " || a < 1".repeat(1000)));
    }
}
