//! The public interface of stacks.

use super::form::{figures, form_of, in_body};
use crate::bodied::{Bodied, Plan, SharedError, fits, type_hash, type_name, unmake};
use bytemuck::Pod;
use chappe_arena::layout::Kind;
use chappe_structures::linked::{Linked, MOST_NODES};
use chappe_structures::pile::{Full, MOST_BYTES, MOST_ELEMENTS, Pile, Shape};
use chappe_wait::body::Form;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Why a value was not pushed, and the value.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct PushError<T> {
    /// What was to be pushed.
    pub value: T,
    /// Why it was not: `Full`, `Busy`, `Dead`, or `Object` if the arena cannot take another member.
    pub why: SharedError,
}

enum Of<T> {
    Private(Arc<Linked<T>>),
    /// Made by functions that ask for `T: Pod` only.
    Named(Bodied, Pile<'static>),
}

/// A stack: what was pushed last is popped first. For the threads of this process (of any `T: Send`, of a fixed capacity or as large as need be), or
/// named, for processes (plain data, of a fixed capacity).
///
/// No operation waits for another thread, dead, stopped or slow. All are lock-free, except when a private stack allocates more memory, and a thread's
/// first change of a named stack, which registers the thread. An operation begins again only because another one has succeeded. No system calls besides.
///
/// If a process is killed in the middle of an operation, the operation has happened entirely or not at all. An element that it had popped is lost.
///
/// Fairness: none, as in any stack: what lies below may stay there for ever.
///
/// Signals: a handler may call everything except a thread's first change of a named stack, and a push to a private one (which may allocate). In a forked
/// child, a private stack is a copy; a named one is still shared.
///
/// Sizes: private 8 bytes and the value, each; named 16 bytes and the value, rounded up to 8, and twice 8 for each of the arena's members (up to 256).
///
/// Paper: synthesis, 5.2.1 and 5.2.2, figures 5.4 and 5.5.
///
/// ```
/// use chappe_sync::Stack;
/// let spare = Stack::private();
/// spare.push("first".to_owned())?;
/// spare.push("second".to_owned())?;
/// assert_eq!(spare.pop()?.as_deref(), Some("second"));
/// assert_eq!(spare.len()?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Stack<T> {
    of: Of<T>,
}

impl<T> Clone for Stack<T> {
    fn clone(&self) -> Stack<T> {
        let of = match &self.of {
            Of::Private(linked) => Of::Private(linked.clone()),
            Of::Named(named, pile) => Of::Named(named.clone(), *pile),
        };
        Stack { of }
    }
}

impl<T> std::fmt::Debug for Stack<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stack({:?})", self.name())
    }
}

impl<T> Stack<T> {
    /// The stack's name; empty for a private one.
    pub fn name(&self) -> String {
        match &self.of {
            Of::Private(_) => String::new(),
            Of::Named(named, _) => named.handle.name(),
        }
    }

    /// The most elements it can have: 16,777,215 if it was made without a limit.
    pub fn capacity(&self) -> u32 {
        match &self.of {
            Of::Private(linked) => linked.capacity(),
            Of::Named(_, pile) => pile.shape().capacity,
        }
    }

    /// How many elements it has at this moment.
    ///
    /// # Errors
    /// `Dead`.
    pub fn len(&self) -> Result<u32, SharedError> {
        match &self.of {
            Of::Private(linked) => Ok(linked.len()),
            Of::Named(named, pile) => named.seen(pile.len()),
        }
    }

    /// Whether it has none.
    ///
    /// # Errors
    /// `Dead`.
    pub fn is_empty(&self) -> Result<bool, SharedError> {
        Ok(self.len()? == 0)
    }

    /// Whether it was removed.
    pub fn is_dead(&self) -> bool {
        matches!(&self.of, Of::Named(named, _) if named.handle.is_dead())
    }

    fn full(&self, full: Full) -> SharedError {
        let kind = Kind::Stack.name();
        match (&self.of, full) {
            (Of::Named(named, pile), Full::Cells) => {
                SharedError::Busy { kind, name: named.handle.shown(), most: pile.shape().spare }
            }
            (Of::Named(named, _), Full::Elements) => {
                SharedError::Full { kind, name: named.handle.shown(), capacity: self.capacity() }
            }
            (Of::Private(_), _) => SharedError::Full { kind, name: "a private one".into(), capacity: self.capacity() },
        }
    }
}

impl<T: Send> Stack<T> {
    /// Makes a stack for the threads of this process, which grows as need be.
    pub fn private() -> Stack<T> {
        Stack { of: Of::Private(Arc::new(Linked::new(MOST_NODES))) }
    }

    /// Makes a stack for the threads of this process, of at most so many elements.
    ///
    /// # Errors
    /// `Capacity`: 0, or more than 16,777,215.
    pub fn private_bounded(capacity: u32) -> Result<Stack<T>, SharedError> {
        let capacity = fits(Kind::Stack, "elements", capacity.into(), 1, MOST_NODES)?;
        Ok(Stack { of: Of::Private(Arc::new(Linked::new(capacity))) })
    }

    /// Pushes a value.
    ///
    /// # Errors
    /// The value, and why: `Full`; of a named one also `Busy`, `Dead`, `Object`.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), PushError<T>> {
        let (named, pile) = match &self.of {
            Of::Private(linked) => {
                return linked.push(value).map_err(|value| PushError { value, why: self.full(Full::Elements) });
            }
            Of::Named(named, pile) => (named, pile),
        };
        // SAFETY: a named stack is of plain data: all its bytes are there.
        let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(&value).cast::<u8>(), size_of::<T>()) };
        let pushed = named.me().and_then(|(me, _)| {
            pile.push(me, bytes)
                // Dead members may have some of the cells.
                .or_else(|full| if full == Full::Cells && named.recovered() { pile.push(me, bytes) } else { Err(full) })
                .map_err(|full| self.full(full))
        });
        pushed.map_err(|why| PushError { value, why })
    }

    /// Pops what was pushed last; `None`: it is empty.
    ///
    /// # Errors
    /// Of a named one: `Dead`, `Object`.
    #[inline]
    pub fn pop(&self) -> Result<Option<T>, SharedError> {
        match &self.of {
            Of::Private(linked) => Ok(linked.pop()),
            Of::Named(named, pile) => {
                named.me()?;
                Ok(read(|to| pile.pop(to)))
            }
        }
    }
}

/// A value that is read as bytes.
///
/// It is called for stacks of plain data only.
#[inline(always)]
fn read<T>(fill: impl FnOnce(&mut [u8]) -> bool) -> Option<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: so many bytes, zeroed.
    let bytes = unsafe { std::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
    // SAFETY: any bytes are a value: a named stack is of plain data.
    fill(bytes).then(|| unsafe { value.assume_init() })
}

fn shape_of<T>(capacity: u32, members: u32) -> Result<Shape, SharedError> {
    let capacity = fits(Kind::Stack, "elements", capacity.into(), 1, MOST_ELEMENTS)?;
    let size = fits(Kind::Stack, "bytes in an element", size_of::<T>() as u64, 0, MOST_BYTES)?;
    Ok(Shape::new(capacity, size, members))
}

impl<T: Pod> Stack<T> {
    fn checked(named: Bodied, wanted: Option<u32>) -> Result<Stack<T>, SharedError> {
        let named = named.of_types([type_hash::<T>(), 0], || format!("elements {}", type_name::<T>()))?;
        let pile = in_body(&named.body).ok_or_else(|| named.gone())?;
        let has = pile.shape().capacity;
        if let Some(wanted) = wanted.filter(|wanted| *wanted != has) {
            let said = |capacity: u32| format!("room for {capacity}");
            return Err(named.other_shape(said(has), said(wanted)));
        }
        Ok(Stack { of: Of::Named(named, pile) })
    }

    fn made(name: &str, capacity: u32, or_open: bool) -> Result<Stack<T>, SharedError> {
        let shape = shape_of::<T>(capacity, 1)?;
        let of = |members: u32| -> (usize, Form) {
            let shape = Shape::new(shape.capacity, shape.size, members);
            (shape.bytes(), form_of(shape, type_hash::<T>()))
        };
        let plan = Plan { kind: Kind::Stack, of: &of, fill: &|_, _| {} };
        Stack::checked(Bodied::make(&plan, name, or_open)?, Some(capacity))
    }

    /// Attaches a stack by name.
    ///
    /// # Errors
    /// `OtherType` if its elements are no `T`; `Object`: there is none, or it is something else.
    pub fn open(name: &str) -> Result<Stack<T>, SharedError> {
        Stack::checked(Bodied::open(Kind::Stack, name)?, None)
    }

    /// Makes a stack by name, of at most so many elements, and its arena, with room for it, if need be.
    ///
    /// # Errors
    /// `Capacity`: 0, or more than 1,048,576, or elements of more than 1 MiB; `Object`: there is one already, or the arena has no room.
    pub fn create(name: &str, capacity: u32) -> Result<Stack<T>, SharedError> {
        Stack::made(name, capacity, false)
    }

    /// Attaches a stack by name, or makes it.
    ///
    /// # Errors
    /// `OtherShape` if it is there and was made for another number; else as [`Stack::open`] and [`Stack::create`].
    pub fn open_or_create(name: &str, capacity: u32) -> Result<Stack<T>, SharedError> {
        Stack::made(name, capacity, true)
    }

    /// What a pop would answer now, of a named stack; a private one keeps its values to itself: `None`.
    ///
    /// # Errors
    /// `Dead`.
    pub fn peek(&self) -> Result<Option<T>, SharedError> {
        match &self.of {
            Of::Private(_) => Ok(None),
            Of::Named(named, pile) => named.seen(read(|to| pile.peek(to))),
        }
    }
}

impl Stack<()> {
    /// Removes a stack by name, whatever is in it. A stack that has elements, or that another process has changed and may change again, is refused
    /// unless `force`: then its users get `Dead`.
    ///
    /// # Errors
    /// `Object`: there is none, it is in use, or something else.
    pub fn unmake(name: &str, force: bool) -> Result<(), SharedError> {
        unmake(Kind::Stack, name, force, figures, |info| {
            (info.value > 0).then(|| format!("{} elements in it", info.value))
        })
    }
}
