//! Types: from a tree to operations, or a complaint that points at what does not fit.
//!
//! Five types, as in CEL: int, uint, double, bool, string. Beside a double an int or a uint is a double. Nothing else converts by itself
//! but a number that is written out, or a parameter: it takes the type of what it stands beside. `int(x)`, `uint(x)`, `double(x)`
//! convert. A string is a field of the record, a text in quotes or a parameter. A field of fixed length (`str[N]`) is compared by `==`,
//! `!=`, `in` and `startsWith` with what is no field; one of any length (`str`) also by order, by `endsWith` and `contains`, and with
//! another one.
//!
//! A field that may have no value (`i64?`, `str`) makes what is computed of it NULL, by SQL's rules of three values. Each node has, beside
//! its value, the bool that says whether there is one; of a bool that is NULL the value is false. So `!(x > 1)` is NULL, and not true, where
//! `x` is, and a filter takes what is true. `x == null` and `x != null` alone are never NULL.
//!
//! | function | of | answers |
//! |---|---|---|
//! | `int(x) uint(x) double(x)` | numbers, `int(bool)` | see [`crate::ir`] for what does not fit |
//! | `time('2026-11-29T07:00:00Z') time($from)` | a text that is written out, or a parameter | int: nanoseconds since 1970 |
//! | `math.abs(x)` | int, double | the least int stays as it is |
//! | `math.least(a, b) math.greatest(a, b)` | two numbers | the first where they are equal, or one is NaN |
//! | `math.isNaN(x)` | double | bool |
//! | `math.bitAnd(a, b) bitOr bitXor bitNot(a) bitShiftLeft(a, n) bitShiftRight(a, n)` | int or uint | a shift right of an int brings in zeros, a shift by 64 or more, or by less than 0, gives 0 |
//! | `s.startsWith(t)` | a field and a text | bool |
//! | `s.endsWith(t) s.contains(t)` | a field of any length and a text | bool |

mod calls;

use crate::build::Builder;
use crate::complaint::{Complaint, Span};
use crate::ir::{Bin, Id, Kind, MAX_TEXT, Op, Pattern, TextTest, Type, Un, With, kind_type};
use crate::nearest::suggestion;
use crate::schema::{FieldType, Scalar, Schema};
use crate::tree::{NodeId, Operator, Parser, What};

/// A parameter of a query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Its name, without the `$`.
    pub name: String,
    /// What it is, as far as is known.
    pub kind: Option<Kind>,
}

/// What a node came to.
#[derive(Clone, Debug)]
pub enum Low {
    /// A value of a type.
    Value(Id, Kind),
    /// A whole number that has no type yet.
    Number(i128),
    /// A parameter that has no type yet.
    Loose(u32),
    /// A text that is written out.
    Text(Vec<u8>),
    /// A parameter that is a text.
    TextParam(u32),
    /// A text of any length of the record: its place and length.
    TextValue(Id),
    /// The word `null`.
    Null,
    /// A text of the record.
    TextField {
        /// Its first byte.
        at: u32,
        /// How many it has.
        width: u32,
    },
    /// Nothing: a word that only means something together with what follows.
    Nothing,
}

/// A checker over what one parser reads: several expressions share its operations and parameters.
pub struct Checker<'a> {
    schema: &'a Schema,
    text: &'a str,
    /// What has been built.
    pub builder: Builder,
    /// The parameters met so far.
    pub params: Vec<Parameter>,
    low: Vec<Low>,
    /// Of each node, the bool that says whether it has a value; none: always.
    there: Vec<Option<Id>>,
}

impl<'a> Checker<'a> {
    /// For records of a schema.
    pub fn new(schema: &'a Schema) -> Checker<'a> {
        let builder = Builder::new(schema.size());
        Checker { schema, text: "", builder, params: Vec::new(), low: Vec::new(), there: Vec::new() }
    }

    /// Goes over to another text, keeping operations and parameters.
    pub fn begin(&mut self, text: &'a str) {
        self.text = text;
        self.low.clear();
        self.there.clear();
    }

    fn complain<T>(&self, span: Span, message: impl Into<String>) -> Result<T, Complaint> {
        Err(Complaint::new(self.text, span, message))
    }

    /// What a node came to: all nodes that the parser has, up to it, are checked first.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&mut self, parser: &Parser<'_>, root: NodeId) -> Result<Low, Complaint> {
        for at in self.low.len()..=root {
            let node = &parser.nodes[at];
            let low = self.node(parser, &node.what, node.span)?;
            let (low, there) = self.with_null(&node.what, low, parser);
            self.low.push(low);
            self.there.push(there);
            if self.builder.program.ops.len() > crate::ir::MAX_OPS {
                return self.complain(node.span, "this is too large: it comes to too many operations");
            }
        }
        Ok(self.low[root].clone())
    }

    /// Checks an expression that must be true or false.
    ///
    /// # Errors
    /// What does not fit.
    pub fn predicate(&mut self, parser: &Parser<'_>, root: NodeId) -> Result<Id, Complaint> {
        self.check(parser, root)?;
        self.to(root, parser, Kind::Bool)
    }

    /// A node's value, whatever its type: loose ones become ints.
    ///
    /// # Errors
    /// If it is a text.
    pub fn value(&mut self, parser: &Parser<'_>, root: NodeId) -> Result<(Id, Kind), Complaint> {
        self.check(parser, root)?;
        let kind = self.kind(root).unwrap_or(Kind::Int);
        if kind == Kind::Text {
            let message = "a string that is no field can be compared, but is no value: name a field";
            return self.complain(parser.nodes[root].span, message);
        }
        Ok((self.to(root, parser, kind)?, kind))
    }

    /// The bool that says whether a node has a value; none: always.
    pub fn there(&self, node: NodeId) -> Option<Id> {
        self.there[node]
    }

    /// All of these are there; none: always.
    fn all_there(&mut self, of: impl IntoIterator<Item = NodeId>) -> Option<Id> {
        let mut ids: Vec<Id> = of.into_iter().filter_map(|node| self.there[node]).collect();
        ids.dedup();
        (!ids.is_empty()).then(|| self.builder.all(&ids))
    }

    /// What a node came to, with the rules for NULL: a bool that is NULL is false.
    fn with_null(&mut self, what: &What, low: Low, parser: &Parser<'_>) -> (Low, Option<Id>) {
        let there = match what {
            What::Name(_) => return self.field_with_null(low),
            What::Int(_) | What::Uint(_) | What::Double(_) | What::Bool(_) | What::Null | What::Text(_) => None,
            What::Param(_) => None,
            What::Binary(Operator::Eq | Operator::Ne, x, y) if self.is_null(*x) || self.is_null(*y) => None,
            What::Not(x) | What::Minus(x) => self.there[*x],
            What::Binary(_, x, y) | What::Method(x, _, y) => self.all_there([*x, *y]),
            What::Call(_, of) => self.all_there(of.iter().copied()),
            What::In(x, of) => {
                let listed = self.all_there(of.iter().copied());
                match (self.there[*x], listed, &low) {
                    (x, None, _) => x,
                    // An equal one decides; else one that is NULL might be equal.
                    (x, Some(listed), Low::Value(found, _)) => {
                        let known = self.builder.any(&[*found, listed]);
                        Some(x.map_or(known, |x| self.builder.all(&[x, known])))
                    }
                    (x, ..) => x,
                }
            }
            What::All(of) | What::Any(of) => {
                return self.chain_with_null(of, matches!(what, What::All(_)), low, parser);
            }
            What::If(c, x, y) => {
                if self.there[*x].is_none() && self.there[*y].is_none() {
                    None
                } else {
                    // It was a bool when the choice was made of it.
                    let Ok(c) = self.to(*c, parser, Kind::Bool) else { return (low, None) };
                    let yes = self.builder.of(Type::Bool, 1);
                    let (x, y) = (self.there[*x].unwrap_or(yes), self.there[*y].unwrap_or(yes));
                    Some(self.builder.push(Op::Select(c, x, y)))
                }
            }
        };
        match (there, low) {
            (Some(there), Low::Value(id, Kind::Bool)) => {
                let id = self.builder.all(&[there, id]);
                (Low::Value(id, Kind::Bool), Some(there))
            }
            (there, low) => (low, there),
        }
    }

    fn field_with_null(&mut self, low: Low) -> (Low, Option<Id>) {
        let there = match low {
            Low::TextValue(id) => {
                let (shift, none) = (self.builder.of(Type::Word, 32), self.builder.of(Type::Word, u32::MAX.into()));
                let len = self.builder.push(Op::Bin(Bin::ShrU, id, shift));
                self.builder.push(Op::Bin(Bin::Ne, len, none))
            }
            Low::Value(id, kind) => match self.builder.program.ops[id as usize] {
                Op::Load { at, kind: scalar } if self.may_be_null(at) => {
                    let there = self.builder.push(Op::Load { at: at + scalar.width(), kind: Scalar::Bool });
                    if kind == Kind::Bool {
                        let id = self.builder.all(&[there, id]);
                        return (Low::Value(id, kind), Some(there));
                    }
                    there
                }
                _ => return (low, None),
            },
            _ => return (low, None),
        };
        (low, Some(there))
    }

    fn may_be_null(&self, at: u32) -> bool {
        self.schema.fields().iter().any(|f| f.at == at && matches!(f.kind, FieldType::Maybe(_)))
    }

    /// `a && b`: false if one is, else NULL if one is. `a || b`: true if one is, else NULL if one is.
    fn chain_with_null(&mut self, of: &[NodeId], all: bool, low: Low, parser: &Parser<'_>) -> (Low, Option<Id>) {
        let Low::Value(value, _) = low else { return (low, None) };
        let Some(every) = self.all_there(of.iter().copied()) else { return (low, None) };
        if !all {
            return (low, Some(self.builder.any(&[value, every])));
        }
        let mut decides = vec![every];
        for node in of {
            let Ok(id) = self.to(*node, parser, Kind::Bool) else { continue };
            let no = self.builder.push(Op::Un(Un::Not, id));
            let no = self.there[*node].map_or(no, |there| self.builder.all(&[there, no]));
            decides.push(no);
        }
        (low, Some(self.builder.any(&decides)))
    }

    fn is_null(&self, node: NodeId) -> bool {
        matches!(self.low[node], Low::Null)
    }

    /// The type of a node, if it has one already.
    fn kind(&self, node: NodeId) -> Option<Kind> {
        match &self.low[node] {
            Low::Value(_, kind) => Some(*kind),
            Low::Text(_) | Low::TextParam(_) | Low::TextField { .. } | Low::TextValue(_) => Some(Kind::Text),
            Low::Loose(n) => self.params[*n as usize].kind,
            Low::Number(_) | Low::Nothing | Low::Null => None,
        }
    }

    /// A node as a value of a type.
    fn to(&mut self, node: NodeId, parser: &Parser<'_>, wanted: Kind) -> Result<Id, Complaint> {
        let span = parser.nodes[node].span;
        match self.low[node].clone() {
            Low::Value(id, kind) if kind == wanted => Ok(id),
            Low::Value(id, Kind::Int) if wanted == Kind::Double => Ok(self.builder.push(Op::Un(Un::IntToDouble, id))),
            Low::Value(id, Kind::Uint) if wanted == Kind::Double => Ok(self.builder.push(Op::Un(Un::UintToDouble, id))),
            Low::Number(n) => match wanted {
                Kind::Int => match i64::try_from(n) {
                    Ok(n) => Ok(self.builder.push(Op::Word(n as u64))),
                    Err(_) => self.complain(span, "this number does not fit an int: 64 bits with a sign"),
                },
                Kind::Uint => match u64::try_from(n) {
                    Ok(n) => Ok(self.builder.push(Op::Word(n))),
                    Err(_) => self.complain(span, "this number does not fit a uint: it is not negative"),
                },
                Kind::Double => Ok(self.builder.push(Op::Double((n as f64).to_bits()))),
                Kind::Bool | Kind::Text => {
                    self.complain(span, format!("a {wanted} is needed here, and this is a number"))
                }
            },
            Low::Loose(n) => {
                let known = self.params[n as usize].kind;
                if known.is_some_and(|k| k != wanted) {
                    let (name, known) = (&self.params[n as usize].name, known.unwrap_or(wanted));
                    return self.complain(span, format!("`${name}` is {} elsewhere, and {} here", a(known), a(wanted)));
                }
                self.params[n as usize].kind = Some(wanted);
                match kind_type(wanted) {
                    Some(t) => Ok(self.builder.push(Op::Param(n, t))),
                    None => self.complain(span, "a string can only be compared with a field"),
                }
            }
            Low::Null => self.complain(span, "`null` can only be compared by `==` and `!=`: write `x == null`"),
            Low::Nothing => self.complain(span, "`math` is no value: it has functions, as `math.abs(x)`"),
            _ => {
                let (is, shown) = (self.kind(node).unwrap_or(wanted), self.shown(span));
                let advice = match (is, wanted) {
                    (Kind::Int | Kind::Uint | Kind::Double, Kind::Int | Kind::Uint | Kind::Double) => {
                        format!(": write `{wanted}({shown})`")
                    }
                    (Kind::Int | Kind::Uint, Kind::Bool) => format!(": write `{shown} != 0`"),
                    (Kind::Bool, Kind::Int) => format!(": write `int({shown})`"),
                    _ => String::new(),
                };
                if wanted == Kind::Text {
                    return self.complain(span, "strings are compared, and nothing else is computed of them");
                }
                self.complain(span, format!("{} is needed here, and this is {}{advice}", a(wanted), a(is)))
            }
        }
    }

    /// The text of a node, if it is short.
    fn shown(&self, span: Span) -> String {
        let text = self.text.get(span.start as usize..span.end as usize).unwrap_or("x");
        if text.len() <= 24 { text.to_owned() } else { "...".to_owned() }
    }

    /// Gives two nodes one type: beside a double a number is one. Where both have a type, and not the same, the complaint is about the second.
    fn alike(&mut self, x: NodeId, y: NodeId, parser: &Parser<'_>) -> Result<(Id, Id, Kind), Complaint> {
        let (a, b) = (self.kind(x), self.kind(y));
        let kind = match (a, b) {
            (Some(Kind::Int | Kind::Uint), Some(Kind::Double)) => Kind::Double,
            _ => a.or(b).unwrap_or(Kind::Int),
        };
        Ok((self.to(x, parser, kind)?, self.to(y, parser, kind)?, kind))
    }

    fn node(&mut self, parser: &Parser<'_>, what: &What, span: Span) -> Result<Low, Complaint> {
        let boolean = |id| Ok(Low::Value(id, Kind::Bool));
        match what {
            What::Int(n) => Ok(Low::Number(i128::from(*n))),
            What::Uint(n) => Ok(Low::Value(self.builder.push(Op::Word(*n)), Kind::Uint)),
            What::Double(d) => Ok(Low::Value(self.builder.push(Op::Double(d.to_bits())), Kind::Double)),
            What::Bool(b) => boolean(self.builder.push(Op::Bool(*b))),
            What::Null => Ok(Low::Null),
            What::Text(t) if t.len() > MAX_TEXT => {
                self.complain(span, format!("a text of an expression has at most {MAX_TEXT} bytes"))
            }
            What::Text(t) => Ok(Low::Text(t.clone())),
            What::Name(name) => self.name(name, span),
            What::Param(name) => Ok(self.parameter(name)),
            What::Not(of) => {
                let of = self.to(*of, parser, Kind::Bool)?;
                boolean(self.builder.push(Op::Un(Un::Not, of)))
            }
            What::Minus(of) => self.minus(*of, parser, span),
            What::Binary(operator, x, y) => self.operator(*operator, *x, *y, parser, span),
            What::All(of) | What::Any(of) => {
                let mut ids = Vec::with_capacity(of.len());
                for node in of {
                    ids.push(self.to(*node, parser, Kind::Bool)?);
                }
                let all = matches!(what, What::All(_));
                boolean(if all { self.builder.all(&ids) } else { self.builder.any(&ids) })
            }
            What::If(c, x, y) => {
                let c = self.to(*c, parser, Kind::Bool)?;
                if let Some(text) = [*x, *y].into_iter().find(|node| self.kind(*node) == Some(Kind::Text)) {
                    let message = "a choice is between numbers or bools, and this is a string";
                    return self.complain(parser.nodes[text].span, message);
                }
                let (x, y, kind) = self.alike(*x, *y, parser)?;
                Ok(Low::Value(self.builder.push(Op::Select(c, x, y)), kind))
            }
            What::In(x, of) => {
                let mut ids = Vec::with_capacity(of.len());
                for y in of {
                    let equal = self.equal(*x, *y, parser)?;
                    // What NULL has in its place equals nothing.
                    ids.push(self.there[*y].map_or(equal, |there| self.builder.all(&[there, equal])));
                }
                boolean(self.builder.any(&ids))
            }
            What::Call(name, of) => self.call(name, of, parser, span),
            What::Method(x, name, y) => {
                let test = match name.as_str() {
                    "startsWith" => TextTest::Begins,
                    "endsWith" => TextTest::Ends,
                    "contains" => TextTest::Contains,
                    _ => {
                        let all = ["startsWith", "endsWith", "contains"];
                        let message = format!("there is no method `{name}`{}", suggestion(name, all));
                        return self.complain(span, message);
                    }
                };
                boolean(self.text(*x, *y, test, parser)?)
            }
        }
    }

    fn name(&mut self, name: &str, span: Span) -> Result<Low, Complaint> {
        let Some(field) = self.schema.field(name) else {
            if name == "math" {
                return Ok(Low::Nothing);
            }
            let names = self.schema.fields().iter().map(|f| f.name.as_str());
            return self.complain(span, format!("there is no field `{name}`{}", suggestion(name, names)));
        };
        Ok(match field.kind {
            FieldType::Text(width) => Low::TextField { at: field.at, width },
            FieldType::Str => Low::TextValue(self.builder.push(Op::Load { at: field.at, kind: Scalar::U64 })),
            FieldType::Scalar(kind) | FieldType::Maybe(kind) => {
                let loaded = if kind == Scalar::Time { Scalar::I64 } else { kind };
                let id = self.builder.push(Op::Load { at: field.at, kind: loaded });
                Low::Value(id, kind_of(kind))
            }
        })
    }

    fn parameter(&mut self, name: &str) -> Low {
        let at = self.params.iter().position(|p| p.name == name).unwrap_or_else(|| {
            self.params.push(Parameter { name: name.to_owned(), kind: None });
            self.params.len() - 1
        });
        match self.params[at].kind {
            Some(Kind::Text) => Low::TextParam(at as u32),
            _ => Low::Loose(at as u32),
        }
    }

    fn minus(&mut self, of: NodeId, parser: &Parser<'_>, span: Span) -> Result<Low, Complaint> {
        if let Low::Number(n) = self.low[of] {
            return Ok(Low::Number(-n));
        }
        let kind = self.kind(of).unwrap_or(Kind::Int);
        let id = self.to(of, parser, kind)?;
        match kind {
            Kind::Int => Ok(Low::Value(self.builder.push(Op::Un(Un::NegWord, id)), kind)),
            Kind::Double => Ok(Low::Value(self.builder.push(Op::Un(Un::NegDouble, id)), kind)),
            _ => self.complain(span, format!("{} has no sign: write `-int(...)`", a(kind))),
        }
    }

    fn operator(&mut self, o: Operator, x: NodeId, y: NodeId, p: &Parser<'_>, span: Span) -> Result<Low, Complaint> {
        match o {
            Operator::Eq => return Ok(Low::Value(self.equal(x, y, p)?, Kind::Bool)),
            Operator::Ne => {
                let equal = self.equal(x, y, p)?;
                return Ok(Low::Value(self.builder.push(Op::Un(Un::Not, equal)), Kind::Bool));
            }
            _ => {}
        }
        let test = match o {
            Operator::Lt => Some(TextTest::Less),
            Operator::Le => Some(TextTest::LessEqual),
            Operator::Gt => Some(TextTest::Greater),
            Operator::Ge => Some(TextTest::GreaterEqual),
            _ => None,
        };
        if let Some(test) = test {
            let is_text = |node: NodeId| matches!(self.low[node], Low::TextValue(_));
            if is_text(x) {
                return Ok(Low::Value(self.text(x, y, test, p)?, Kind::Bool));
            }
            if is_text(y) {
                let turned = match test {
                    TextTest::Less => TextTest::Greater,
                    TextTest::LessEqual => TextTest::GreaterEqual,
                    TextTest::Greater => TextTest::Less,
                    _ => TextTest::LessEqual,
                };
                return Ok(Low::Value(self.text(y, x, turned, p)?, Kind::Bool));
            }
        }
        if test.is_some() && self.kind(x) == Some(Kind::Text) && self.kind(y) == Some(Kind::Text) {
            return self.complain(p.nodes[x].span, FIXED);
        }
        if let Some(text) = [x, y].into_iter().find(|node| self.kind(*node) == Some(Kind::Text)) {
            return self.complain(p.nodes[text].span, "a number is needed here, and this is a string");
        }
        let (x, y, kind) = self.alike(x, y, p)?;
        let (bin, result, x, y) = match (o, kind) {
            (Operator::Lt, Kind::Int) => (Bin::LtS, Kind::Bool, x, y),
            (Operator::Le, Kind::Int) => (Bin::LeS, Kind::Bool, x, y),
            (Operator::Gt, Kind::Int) => (Bin::LtS, Kind::Bool, y, x),
            (Operator::Ge, Kind::Int) => (Bin::LeS, Kind::Bool, y, x),
            (Operator::Lt, Kind::Uint) => (Bin::LtU, Kind::Bool, x, y),
            (Operator::Le, Kind::Uint) => (Bin::LeU, Kind::Bool, x, y),
            (Operator::Gt, Kind::Uint) => (Bin::LtU, Kind::Bool, y, x),
            (Operator::Ge, Kind::Uint) => (Bin::LeU, Kind::Bool, y, x),
            (Operator::Lt, Kind::Double) => (Bin::LtDouble, Kind::Bool, x, y),
            (Operator::Le, Kind::Double) => (Bin::LeDouble, Kind::Bool, x, y),
            (Operator::Gt, Kind::Double) => (Bin::LtDouble, Kind::Bool, y, x),
            (Operator::Ge, Kind::Double) => (Bin::LeDouble, Kind::Bool, y, x),
            (Operator::Add, Kind::Int | Kind::Uint) => (Bin::Add, kind, x, y),
            (Operator::Sub, Kind::Int | Kind::Uint) => (Bin::Sub, kind, x, y),
            (Operator::Mul, Kind::Int | Kind::Uint) => (Bin::Mul, kind, x, y),
            (Operator::Div, Kind::Int) => (Bin::DivS, kind, x, y),
            (Operator::Rem, Kind::Int) => (Bin::RemS, kind, x, y),
            (Operator::Div, Kind::Uint) => (Bin::DivU, kind, x, y),
            (Operator::Rem, Kind::Uint) => (Bin::RemU, kind, x, y),
            (Operator::Add, Kind::Double) => (Bin::AddDouble, kind, x, y),
            (Operator::Sub, Kind::Double) => (Bin::SubDouble, kind, x, y),
            (Operator::Mul, Kind::Double) => (Bin::MulDouble, kind, x, y),
            (Operator::Div, Kind::Double) => (Bin::DivDouble, kind, x, y),
            _ => return self.complain(span, format!("this operator is not for {}s", kind)),
        };
        Ok(Low::Value(self.builder.push(Op::Bin(bin, x, y)), result))
    }

    fn equal(&mut self, x: NodeId, y: NodeId, parser: &Parser<'_>) -> Result<Id, Complaint> {
        if self.is_null(x) || self.is_null(y) {
            let of = if self.is_null(x) { y } else { x };
            if matches!(self.low[of], Low::Nothing | Low::Null) {
                return self.complain(parser.nodes[of].span, "a field is needed here: write `x == null`");
            }
            let yes = self.builder.of(Type::Bool, 1);
            let there = self.there[of].unwrap_or(yes);
            return Ok(self.builder.push(Op::Un(Un::Not, there)));
        }
        if self.kind(x) == Some(Kind::Text) || self.kind(y) == Some(Kind::Text) {
            let is_field = |node: NodeId| matches!(self.low[node], Low::TextField { .. } | Low::TextValue(_));
            let (field, other) = if is_field(y) && !is_field(x) { (y, x) } else { (x, y) };
            return self.text(field, other, TextTest::Is, parser);
        }
        let (x, y, kind) = self.alike(x, y, parser)?;
        Ok(match kind {
            Kind::Double => self.builder.push(Op::Bin(Bin::EqDouble, x, y)),
            Kind::Bool => {
                let differ = self.builder.push(Op::Bin(Bin::Xor, x, y));
                self.builder.push(Op::Un(Un::Not, differ))
            }
            _ => self.builder.push(Op::Bin(Bin::Eq, x, y)),
        })
    }

    fn text(&mut self, field: NodeId, other: NodeId, test: TextTest, parser: &Parser<'_>) -> Result<Id, Complaint> {
        let span = parser.nodes[field].span;
        match (&self.low[field], &self.low[other]) {
            (Low::TextValue(of), Low::TextValue(with)) => {
                let (of, with) = (*of, With::Value(*with));
                return Ok(self.builder.push(Op::Text { test, of, with }));
            }
            (Low::TextField { .. } | Low::TextValue(_), _) => {}
            _ => {
                let message = "a string field is needed here: strings are compared with a field of the record";
                return self.complain(span, message);
            }
        }
        let other_span = parser.nodes[other].span;
        let pattern = match self.low[other].clone() {
            Low::Text(t) => Pattern::Literal(self.builder.text(&t)),
            Low::TextParam(n) => Pattern::Param(n),
            Low::Loose(n) if self.params[n as usize].kind.is_none() => {
                self.params[n as usize].kind = Some(Kind::Text);
                Pattern::Param(n)
            }
            Low::Loose(n) if self.params[n as usize].kind == Some(Kind::Text) => Pattern::Param(n),
            Low::TextField { .. } | Low::TextValue(_) => {
                return self.complain(
                    other_span,
                    "two fields that are strings cannot be compared; one is a text or a parameter",
                );
            }
            _ => {
                let is = match self.low[other] {
                    Low::Null => "`null`".to_owned(),
                    Low::Nothing => "no value".to_owned(),
                    _ => self.kind(other).map_or("a number".to_owned(), a),
                };
                return self.complain(other_span, format!("a string is needed here, and this is {is}"));
            }
        };
        match (self.low[field].clone(), test) {
            (Low::TextValue(of), test) => Ok(self.builder.push(Op::Text { test, of, with: With::Pattern(pattern) })),
            (Low::TextField { at, width }, TextTest::Is | TextTest::Begins) => {
                let prefix = test == TextTest::Begins;
                Ok(self.builder.push(Op::Match { at, width, prefix, pattern }))
            }
            _ => self.complain(span, FIXED),
        }
    }
}

/// What a `str[N]` cannot.
const FIXED: &str = "a string of fixed length is compared by `==`, `!=`, `in` and `startsWith` alone";

fn a(kind: Kind) -> String {
    let article = if kind == Kind::Int { "an" } else { "a" };
    format!("{article} {kind}")
}

/// What a number of a record is in expressions.
pub fn kind_of(scalar: Scalar) -> Kind {
    match scalar {
        Scalar::Bool => Kind::Bool,
        Scalar::F32 | Scalar::F64 => Kind::Double,
        Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => Kind::Uint,
        _ => Kind::Int,
    }
}
