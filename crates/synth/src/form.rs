//! In what forms machine code is made of a query, and why it cannot be.

/// How a query is used: what machine code is made for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// One record: whether it passes.
    Test = 0,
    /// Many: which pass.
    Select = 1,
    /// Many: a row for each that passes.
    Project = 2,
    /// Many: added up.
    Fold = 3,
}

impl Form {
    /// All of them.
    pub const ALL: [Form; 4] = [Form::Test, Form::Select, Form::Project, Form::Fold];
}

/// Why there is no machine code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The feature `jit` is not built in.
    #[error("no machine code: this program was built without the feature `jit`")]
    Absent,
    /// The processor is one that Cranelift does not know.
    #[error("no machine code for this processor: {0}")]
    Processor(String),
    /// The program has something that only the other engines do.
    #[error("no machine code for this query: {0}")]
    Unsupported(&'static str),
    /// Cranelift did not take it.
    #[error("no machine code for this query: {0}")]
    Compiler(String),
    /// The system does not allow code that is made at run time, or has no memory.
    #[error("the system allows no machine code made at run time: {0}")]
    System(#[from] std::io::Error),
}
