//! Operations, and the types of their operands.

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Type {
    /// 64 bits.
    Word,
    /// An IEEE double.
    Double,
    /// True or false.
    Bool,
}

/// Operations of one operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is named as what it does")]
pub enum Un {
    NegWord,
    NotWord,
    NegDouble,
    Not,
    IntToDouble,
    UintToDouble,
    DoubleToInt,
    DoubleToUint,
    BoolToWord,
}

impl Un {
    /// All of them.
    pub const ALL: [Un; 9] = [
        Un::NegWord,
        Un::NotWord,
        Un::NegDouble,
        Un::Not,
        Un::IntToDouble,
        Un::UintToDouble,
        Un::DoubleToInt,
        Un::DoubleToUint,
        Un::BoolToWord,
    ];

    /// What it takes and what it gives.
    pub fn types(self) -> (Type, Type) {
        use Type::{Bool, Double, Word};
        match self {
            Un::NegWord | Un::NotWord => (Word, Word),
            Un::NegDouble => (Double, Double),
            Un::Not => (Bool, Bool),
            Un::IntToDouble | Un::UintToDouble => (Word, Double),
            Un::DoubleToInt | Un::DoubleToUint => (Double, Word),
            Un::BoolToWord => (Bool, Word),
        }
    }
}

/// Operations of two operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is named as what it does; S is signed, U unsigned")]
pub enum Bin {
    Add,
    Sub,
    Mul,
    DivS,
    DivU,
    RemS,
    RemU,
    AndWord,
    OrWord,
    XorWord,
    Shl,
    ShrU,
    AddDouble,
    SubDouble,
    MulDouble,
    DivDouble,
    Eq,
    Ne,
    LtS,
    LeS,
    LtU,
    LeU,
    EqDouble,
    NeDouble,
    LtDouble,
    LeDouble,
    And,
    Or,
    Xor,
}

impl Bin {
    /// All of them.
    pub const ALL: [Bin; 29] = [
        Bin::Add,
        Bin::Sub,
        Bin::Mul,
        Bin::DivS,
        Bin::DivU,
        Bin::RemS,
        Bin::RemU,
        Bin::AndWord,
        Bin::OrWord,
        Bin::XorWord,
        Bin::Shl,
        Bin::ShrU,
        Bin::AddDouble,
        Bin::SubDouble,
        Bin::MulDouble,
        Bin::DivDouble,
        Bin::Eq,
        Bin::Ne,
        Bin::LtS,
        Bin::LeS,
        Bin::LtU,
        Bin::LeU,
        Bin::EqDouble,
        Bin::NeDouble,
        Bin::LtDouble,
        Bin::LeDouble,
        Bin::And,
        Bin::Or,
        Bin::Xor,
    ];

    /// What both operands are, and what it gives.
    pub fn types(self) -> (Type, Type) {
        use Type::{Bool, Double, Word};
        if self <= Bin::ShrU {
            (Word, Word)
        } else if self <= Bin::DivDouble {
            (Double, Double)
        } else if self <= Bin::LeU {
            (Word, Bool)
        } else if self <= Bin::LeDouble {
            (Double, Bool)
        } else {
            (Bool, Bool)
        }
    }
}

/// How two texts of any length are compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "each is named as what it asks of the first")]
pub enum TextTest {
    Is,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Begins,
    Ends,
    Contains,
}
