//! The types of data and messages, as programs that share them call them.

/// The type of data or messages by name, as their users agree on it: the name of the Rust type without modules, or anything else.
#[derive(Clone, Copy, Debug)]
pub struct Called<'a> {
    /// The name.
    pub name: &'a str,
    /// The size.
    pub size: usize,
    /// Where it begins in memory: a power of two.
    pub align: usize,
}

/// How a named object is to be obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Had {
    /// It is there.
    Opened,
    /// It is not there, and is made.
    Created,
    /// Either.
    Either,
}

/// A type's name without its modules.
pub(crate) fn plain_name<T: ?Sized>() -> String {
    let name = std::any::type_name::<T>();
    let mut plain = String::with_capacity(name.len());
    for part in name.split("::") {
        let kept = plain.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_').len();
        plain.truncate(kept);
        plain.push_str(part);
    }
    plain
}

/// What is recorded of the data's type, to compare when it is attached: size, alignment, and the type's name without its modules.
pub(crate) fn hash_of<T>() -> u32 {
    hash(Called { name: &plain_name::<T>(), size: size_of::<T>(), align: align_of::<T>() })
}

pub(crate) fn hash(of: Called<'_>) -> u32 {
    chappe_arena::hash(&format!("{} {} {}", of.name, of.size, of.align)) as u32
}
