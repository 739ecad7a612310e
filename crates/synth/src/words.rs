//! The names of the language's functions.

/// What is made of a value of many records.
pub const AGGREGATES: [&str; 9] = ["count", "sum", "mean", "min", "max", "first", "last", "distinct", "quantile"];

/// All functions.
pub const FUNCTIONS: [&str; 23] = [
    "int",
    "uint",
    "double",
    "time",
    "math.abs",
    "math.least",
    "math.greatest",
    "math.isNaN",
    "math.bitAnd",
    "math.bitOr",
    "math.bitXor",
    "math.bitNot",
    "math.bitShiftLeft",
    "math.bitShiftRight",
    "count",
    "sum",
    "mean",
    "min",
    "max",
    "first",
    "last",
    "distinct",
    "quantile",
];
