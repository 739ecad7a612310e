//! What functions come to: conversions, times, bits, and those of numbers.

use super::{Checker, Low, a};
use crate::complaint::{Complaint, Span};
use crate::ir::{Bin, Kind, Op, Type, Un};
use crate::nearest::suggestion;
use crate::tree::{NodeId, Parser};
use crate::words::{AGGREGATES, FUNCTIONS};

impl Checker<'_> {
    pub(super) fn call(&mut self, name: &str, of: &[NodeId], p: &Parser<'_>, span: Span) -> Result<Low, Complaint> {
        let wanted = match name {
            "int" | "uint" | "double" | "time" | "math.abs" | "math.isNaN" | "math.bitNot" => 1,
            "math.least" | "math.greatest" | "math.bitAnd" | "math.bitOr" | "math.bitXor" | "math.bitShiftLeft"
            | "math.bitShiftRight" => 2,
            _ if AGGREGATES.contains(&name) => {
                return self
                    .complain(span, format!("`{name}` is over many records: it stands in a list of columns, alone"));
            }
            _ if ["avg", "average"].iter().any(|of_sql| name.eq_ignore_ascii_case(of_sql)) => {
                return self.complain(span, format!("there is no function `{name}`: write `mean`"));
            }
            _ if let Some(small) = FUNCTIONS.into_iter().find(|f| f.eq_ignore_ascii_case(name)) => {
                return self.complain(span, format!("`{name}` is written in small letters: `{small}`"));
            }
            "median" => return self.complain(span, "there is no function `median`: write `quantile(x, 0.5)`"),
            _ => {
                let message = format!("there is no function `{name}`{}", suggestion(name, FUNCTIONS));
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
            "time" => match &self.low[of[0]] {
                Low::Text(text) => match crate::time::parse(text) {
                    Some(time) => Ok(Low::Value(self.builder.push(Op::Word(time.cast_unsigned())), Kind::Int)),
                    None if crate::time::is_far(text) => {
                        self.complain(p.nodes[of[0]].span, format!("times are from {}", crate::time::RANGE))
                    }
                    None => self.complain(
                        p.nodes[of[0]].span,
                        "this is no time: one is written as in time('2026-11-29T07:00:00Z') or time('2026-11-29')",
                    ),
                },
                // A text is given as its value.
                Low::Loose(_) => Ok(Low::Value(self.to(of[0], p, Kind::Int)?, Kind::Int)),
                _ => self.complain(
                    p.nodes[of[0]].span,
                    "`time` takes a text that is written out: time('2026-11-29T07:00:00Z')",
                ),
            },
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
        let bin = match name {
            "math.bitAnd" => Bin::AndWord,
            "math.bitOr" => Bin::OrWord,
            "math.bitXor" => Bin::XorWord,
            "math.bitShiftLeft" => Bin::Shl,
            _ => Bin::ShrU,
        };
        let id = self.builder.push(Op::Bin(bin, x, y));
        if !matches!(bin, Bin::Shl | Bin::ShrU) {
            return Ok(Low::Value(id, kind));
        }
        // No bit is left of so many; an int below 0 counts as one of them.
        let (all, none) = (self.builder.of(Type::Word, 64), self.builder.of(Type::Word, 0));
        let some = self.builder.push(Op::Bin(Bin::LtU, y, all));
        Ok(Low::Value(self.builder.push(Op::Select(some, id, none)), kind))
    }
}
