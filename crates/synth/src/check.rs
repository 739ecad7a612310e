//! Types: from a tree to operations, or a complaint that points at what does not fit.
//!
//! Five types, as in CEL: int, uint, double, bool, string. Nothing converts by itself but a number that is written out, or a
//! parameter: it takes the type of what it stands beside. `int(x)`, `uint(x)`, `double(x)` convert. A string is a field of
//! the record, a text in quotes or a parameter, and is compared by `==`, `!=`, `in` and `startsWith` with what is no field.
//!
//! | function | of | answers |
//! |---|---|---|
//! | `int(x) uint(x) double(x)` | numbers, `int(bool)` | see [`crate::ir`] for what does not fit |
//! | `math.abs(x)` | int, double | the least int stays as it is |
//! | `math.least(a, b) math.greatest(a, b)` | two numbers | the first where they are equal, or one is NaN |
//! | `math.isNaN(x)` | double | bool |
//! | `math.bitAnd(a, b) bitOr bitXor bitNot(a) bitShiftLeft(a, n) bitShiftRight(a, n)` | int or uint | a shift right of an int keeps its sign |
//! | `s.startsWith(t)` | a field and a text | bool |

use crate::build::Builder;
use crate::complaint::{Complaint, Span};
use crate::ir::{Bin, Id, Kind, MAX_TEXT, Op, Pattern, Un, kind_type};
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
}

impl<'a> Checker<'a> {
    /// For records of a schema.
    pub fn new(schema: &'a Schema) -> Checker<'a> {
        let builder = Builder::new(schema.size());
        Checker { schema, text: "", builder, params: Vec::new(), low: Vec::new() }
    }

    /// Goes over to another text, keeping operations and parameters.
    pub fn begin(&mut self, text: &'a str) {
        self.text = text;
        self.low.clear();
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
            self.low.push(low);
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

    /// The type of a node, if it has one already.
    fn kind(&self, node: NodeId) -> Option<Kind> {
        match &self.low[node] {
            Low::Value(_, kind) => Some(*kind),
            Low::Text(_) | Low::TextParam(_) | Low::TextField { .. } => Some(Kind::Text),
            Low::Loose(n) => self.params[*n as usize].kind,
            Low::Number(_) | Low::Nothing => None,
        }
    }

    /// A node as a value of a type.
    fn to(&mut self, node: NodeId, parser: &Parser<'_>, wanted: Kind) -> Result<Id, Complaint> {
        let span = parser.nodes[node].span;
        match self.low[node].clone() {
            Low::Value(id, kind) if kind == wanted => Ok(id),
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
                self.complain(span, format!("{} is needed here, and this is {}{advice}", a(wanted), a(is)))
            }
        }
    }

    /// The text of a node, if it is short.
    fn shown(&self, span: Span) -> String {
        let text = self.text.get(span.start as usize..span.end as usize).unwrap_or("x");
        if text.len() <= 24 { text.to_owned() } else { "...".to_owned() }
    }

    /// Gives two nodes one type. Where both have one, and not the same, the complaint is about the second.
    fn alike(&mut self, x: NodeId, y: NodeId, parser: &Parser<'_>) -> Result<(Id, Id, Kind), Complaint> {
        let kind = self.kind(x).or(self.kind(y)).unwrap_or(Kind::Int);
        Ok((self.to(x, parser, kind)?, self.to(y, parser, kind)?, kind))
    }

    fn node(&mut self, parser: &Parser<'_>, what: &What, span: Span) -> Result<Low, Complaint> {
        let boolean = |id| Ok(Low::Value(id, Kind::Bool));
        match what {
            What::Int(n) => Ok(Low::Number(i128::from(*n))),
            What::Uint(n) => Ok(Low::Value(self.builder.push(Op::Word(*n)), Kind::Uint)),
            What::Double(d) => Ok(Low::Value(self.builder.push(Op::Double(d.to_bits())), Kind::Double)),
            What::Bool(b) => boolean(self.builder.push(Op::Bool(*b))),
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
                let (x, y, kind) = self.alike(*x, *y, parser)?;
                Ok(Low::Value(self.builder.push(Op::Select(c, x, y)), kind))
            }
            What::In(x, of) => {
                let mut ids = Vec::with_capacity(of.len());
                for y in of {
                    ids.push(self.equal(*x, *y, parser)?);
                }
                boolean(self.builder.any(&ids))
            }
            What::Call(name, of) => self.call(name, of, parser, span),
            What::Method(x, name, y) if name == "startsWith" => boolean(self.text(*x, *y, true, parser)?),
            What::Method(_, name, _) => {
                self.complain(span, format!("there is no method `{name}`: there is `startsWith`"))
            }
        }
    }

    fn name(&mut self, name: &str, span: Span) -> Result<Low, Complaint> {
        let Some(field) = self.schema.field(name) else {
            if name == "math" {
                return Ok(Low::Nothing);
            }
            let names: Vec<&str> = self.schema.fields().iter().take(12).map(|f| f.name.as_str()).collect();
            return self.complain(span, format!("there is no field `{name}`; there are {}", names.join(", ")));
        };
        Ok(match field.kind {
            FieldType::Text(width) => Low::TextField { at: field.at, width },
            FieldType::Scalar(kind) => {
                let id = self.builder.push(Op::Load { at: field.at, kind });
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
        if self.kind(x) == Some(Kind::Text) || self.kind(y) == Some(Kind::Text) {
            let is_field = |node: NodeId| matches!(self.low[node], Low::TextField { .. });
            let (field, other) = if is_field(y) && !is_field(x) { (y, x) } else { (x, y) };
            return self.text(field, other, false, parser);
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

    fn text(&mut self, field: NodeId, other: NodeId, prefix: bool, parser: &Parser<'_>) -> Result<Id, Complaint> {
        let span = parser.nodes[field].span;
        let Low::TextField { at, width } = self.low[field] else {
            return self
                .complain(span, "a string field is needed here: strings are compared with a field of the record");
        };
        let other_span = parser.nodes[other].span;
        let pattern = match self.low[other].clone() {
            Low::Text(t) => Pattern::Literal(self.builder.text(&t)),
            Low::TextParam(n) => Pattern::Param(n),
            Low::Loose(n) if self.params[n as usize].kind.is_none() => {
                self.params[n as usize].kind = Some(Kind::Text);
                Pattern::Param(n)
            }
            Low::Loose(n) if self.params[n as usize].kind == Some(Kind::Text) => Pattern::Param(n),
            Low::TextField { .. } => {
                return self.complain(
                    other_span,
                    "two fields that are strings cannot be compared; one is a text or a parameter",
                );
            }
            _ => {
                let is = self.kind(other).map_or("a number".to_owned(), a);
                return self.complain(other_span, format!("a string is needed here, and this is {is}"));
            }
        };
        Ok(self.builder.push(Op::Match { at, width, prefix, pattern }))
    }

    fn call(&mut self, name: &str, of: &[NodeId], p: &Parser<'_>, span: Span) -> Result<Low, Complaint> {
        let wanted = match name {
            "int" | "uint" | "double" | "math.abs" | "math.isNaN" | "math.bitNot" => 1,
            "math.least" | "math.greatest" | "math.bitAnd" | "math.bitOr" | "math.bitXor" | "math.bitShiftLeft"
            | "math.bitShiftRight" => 2,
            "count" | "sum" | "min" | "max" | "last" => {
                return self
                    .complain(span, format!("`{name}` is over many records: it stands in a list of columns, alone"));
            }
            _ => {
                let message =
                    format!("there is no function `{name}`: there are int, uint, double, math.abs, math.least, ...");
                return self.complain(span, message);
            }
        };
        if of.len() != wanted {
            let message =
                format!("`{name}` takes {wanted} argument{}, not {}", if wanted == 1 { "" } else { "s" }, of.len());
            return self.complain(span, message);
        }
        match name {
            "int" | "uint" | "double" => self.convert(name, of[0], p, span),
            "math.isNaN" => {
                let x = self.to(of[0], p, Kind::Double)?;
                Ok(Low::Value(self.builder.push(Op::Bin(Bin::NeDouble, x, x)), Kind::Bool))
            }
            "math.abs" => {
                let kind = self.kind(of[0]).unwrap_or(Kind::Int);
                let x = self.to(of[0], p, kind)?;
                let (zero, less, minus) = match kind {
                    Kind::Int => (Op::Word(0), Bin::LtS, Un::NegWord),
                    // Of 0 and -0 the first: `0.0 - x` where x is less or equal.
                    Kind::Double => (Op::Double(0), Bin::LeDouble, Un::NegDouble),
                    _ => return self.complain(span, format!("`math.abs` is not for {kind}s")),
                };
                let zero = self.builder.push(zero);
                let negative = self.builder.push(Op::Bin(less, x, zero));
                let minus = self.builder.push(Op::Un(minus, x));
                let minus = match kind {
                    // -0.0 <= 0.0, and its negative is 0.0; 0.0 <= 0.0 as well, and its negative is -0.0: add 0.
                    Kind::Double => self.builder.push(Op::Bin(Bin::AddDouble, minus, zero)),
                    _ => minus,
                };
                Ok(Low::Value(self.builder.push(Op::Select(negative, minus, x)), kind))
            }
            "math.least" | "math.greatest" => {
                let (x, y, kind) = self.alike(of[0], of[1], p)?;
                let less = match kind {
                    Kind::Int => Bin::LtS,
                    Kind::Uint => Bin::LtU,
                    Kind::Double => Bin::LtDouble,
                    _ => return self.complain(span, format!("`{name}` is not for {kind}s")),
                };
                let (l, r) = if name == "math.least" { (y, x) } else { (x, y) };
                let other = self.builder.push(Op::Bin(less, l, r));
                Ok(Low::Value(self.builder.push(Op::Select(other, y, x)), kind))
            }
            _ => self.bits(name, of, p, span),
        }
    }

    fn convert(&mut self, name: &str, of: NodeId, p: &Parser<'_>, span: Span) -> Result<Low, Complaint> {
        let to = match name {
            "int" => Kind::Int,
            "uint" => Kind::Uint,
            _ => Kind::Double,
        };
        let negative = matches!(self.low[of], Low::Number(n) if n < 0);
        let from = self.kind(of).unwrap_or(if negative && to == Kind::Uint { Kind::Int } else { to });
        let x = self.to(of, p, from)?;
        let id = match (from, to) {
            (Kind::Int | Kind::Uint, Kind::Int | Kind::Uint) | (Kind::Double, Kind::Double) => x,
            (Kind::Int, Kind::Double) => self.builder.push(Op::Un(Un::IntToDouble, x)),
            (Kind::Uint, Kind::Double) => self.builder.push(Op::Un(Un::UintToDouble, x)),
            (Kind::Double, Kind::Int) => self.builder.push(Op::Un(Un::DoubleToInt, x)),
            (Kind::Double, Kind::Uint) => self.builder.push(Op::Un(Un::DoubleToUint, x)),
            (Kind::Bool, Kind::Int | Kind::Uint) => self.builder.push(Op::Un(Un::BoolToWord, x)),
            _ => return self.complain(span, format!("{} does not convert to {}", a(from), a(to))),
        };
        Ok(Low::Value(id, to))
    }

    fn bits(&mut self, name: &str, of: &[NodeId], p: &Parser<'_>, span: Span) -> Result<Low, Complaint> {
        let kind = of.iter().find_map(|n| self.kind(*n)).unwrap_or(Kind::Int);
        if !matches!(kind, Kind::Int | Kind::Uint) {
            return self.complain(span, format!("`{name}` is not for {kind}s"));
        }
        let x = self.to(of[0], p, kind)?;
        if name == "math.bitNot" {
            return Ok(Low::Value(self.builder.push(Op::Un(Un::NotWord, x)), kind));
        }
        let y = self.to(of[1], p, kind)?;
        let bin = match (name, kind) {
            ("math.bitAnd", _) => Bin::AndWord,
            ("math.bitOr", _) => Bin::OrWord,
            ("math.bitXor", _) => Bin::XorWord,
            ("math.bitShiftLeft", _) => Bin::Shl,
            (_, Kind::Int) => Bin::ShrS,
            _ => Bin::ShrU,
        };
        Ok(Low::Value(self.builder.push(Op::Bin(bin, x, y)), kind))
    }
}

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
