//! What each light thread has for itself.

use crate::record::{Thread, current};
use std::any::Any;
use std::cell::RefCell;

/// A value that each thread has for itself, light or not: see [`local!`](crate::local!).
///
/// Made when the thread first asks for it, dropped when the thread ends, the last first. (A `thread_local!` of the standard library is
/// the kernel thread's: light threads of one proc share it, and one that is passed on finds another.)
#[derive(Debug)]
pub struct LocalKey<T: 'static> {
    make: fn() -> T,
}

/// Declares [`LocalKey`]s.
///
/// ```
/// use std::cell::Cell;
/// chappe_thread::local! {
///     /// How often.
///     static TIMES: Cell<u32> = Cell::new(0);
/// }
/// let count = || TIMES.with(|times| times.replace(times.get() + 1));
/// let other = chappe_thread::spawn(move || (count(), count()));
/// assert_eq!((count(), other.join().unwrap()), (0, (0, 1)));
/// ```
#[macro_export]
macro_rules! local {
    ($($(#[$attribute:meta])* $visible:vis static $name:ident: $kind:ty = $value:expr);* $(;)?) => {
        $($(#[$attribute])* $visible static $name: $crate::LocalKey<$kind> = $crate::LocalKey::__new(|| $value);)*
    };
}

type Locals = Vec<(usize, Box<dyn Any>)>;

thread_local! {
    /// Those of a kernel thread.
    static LOCALS: RefCell<Locals> = const { RefCell::new(Vec::new()) };
}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    pub const fn __new(make: fn() -> T) -> LocalKey<T> {
        LocalKey { make }
    }

    /// Calls something with the calling thread's value.
    pub fn with<R>(&'static self, then: impl FnOnce(&T) -> R) -> R {
        let at = self.at();
        // SAFETY: the value is in a box that stays until the thread ends.
        then(unsafe { &*at })
    }

    #[inline(never)]
    fn at(&'static self) -> *const T {
        let key = std::ptr::from_ref(self) as usize;
        let find = |locals: &Locals| {
            let found = locals.iter().find(|(k, _)| *k == key)?;
            found.1.downcast_ref::<T>().map(std::ptr::from_ref)
        };
        match current() {
            Some(me) => find(&me.extra().locals).unwrap_or_else(|| {
                // It may ask for others meanwhile.
                let value = Box::new((self.make)());
                let at = std::ptr::from_ref(&*value);
                me.extra().locals.push((key, value));
                at
            }),
            None => LOCALS.with(|locals| {
                let there = find(&locals.borrow());
                there.unwrap_or_else(|| {
                    let value = Box::new((self.make)());
                    let at = std::ptr::from_ref(&*value);
                    locals.borrow_mut().push((key, value));
                    at
                })
            }),
        }
    }
}

/// A light thread ends: its values go, the last first.
#[cold]
pub(crate) fn end(me: &'static Thread) {
    while let Some((_, value)) = me.extra().locals.pop() {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(value)));
    }
}
