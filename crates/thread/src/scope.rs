//! Threads that refer to what their maker has.

use crate::end::{Builder, JoinHandle, Result};
use crate::runtime::CALLERS;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

type Handle = Arc<Mutex<Option<JoinHandle<()>>>>;

/// Where scoped threads are begun: see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    begun: Mutex<Vec<Handle>>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl std::fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad("Scope { .. }")
    }
}

/// A scoped thread that can be waited for. All are waited for when the scope ends.
pub struct ScopedJoinHandle<'scope, T> {
    handle: Handle,
    value: Arc<Mutex<Option<T>>>,
    scope: PhantomData<&'scope ()>,
}

impl<T> std::fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad("ScopedJoinHandle { .. }")
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits until it has ended: see [`JoinHandle::join`].
    ///
    /// # Errors
    /// What it panicked with.
    ///
    /// # Panics
    /// If a thread joins itself.
    pub fn join(self) -> Result<T> {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        handle.expect("nobody else joins it").join()?;
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(value.expect("it has ended, and not by a panic"))
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Begins a light thread that may refer to whatever outlives the scope.
    ///
    /// # Panics
    /// If there is no room for one more.
    pub fn spawn<T: Send + 'scope>(
        &'scope self,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        let value = Arc::new(Mutex::new(None));
        let place = Arc::clone(&value);
        let body = move || *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(body());
        // SAFETY: `scope` waits for it.
        let handle = unsafe { Builder::new().begin(CALLERS, body) }.unwrap_or_else(|e| panic!("spawn: {e}"));
        let handle = Arc::new(Mutex::new(Some(handle)));
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&handle));
        ScopedJoinHandle { handle, value, scope: PhantomData }
    }
}

/// Light threads that refer to what the caller has: all are waited for before this returns, as by `std::thread::scope`.
///
/// ```
/// let words = ["a", "few", "words"];
/// let total: usize = chappe_thread::scope(|scope| {
///     let lengths: Vec<_> = words.iter().map(|word| scope.spawn(|| word.len())).collect();
///     lengths.into_iter().map(|length| length.join().unwrap()).sum()
/// });
/// assert_eq!(total, 9);
/// ```
///
/// # Panics
/// If a thread has panicked that was not joined.
pub fn scope<'env, R>(body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R) -> R {
    let scope = Scope { begun: Mutex::new(Vec::new()), scope: PhantomData, env: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
    let mut panicked = false;
    loop {
        let next = scope.begun.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(next) = next else { break };
        let handle = next.lock().unwrap_or_else(PoisonError::into_inner).take();
        panicked |= handle.is_some_and(|handle| handle.join().is_err());
    }
    match result {
        Err(panic) => resume_unwind(panic),
        Ok(_) if panicked => panic!("a scoped thread panicked"),
        Ok(result) => result,
    }
}
