//! Threads of our own, and what belongs to one thread.

/// Starts a thread that no signal is ever delivered to, and lets it go.
///
/// # Errors
/// The system's, when it refuses another thread.
pub fn background(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut old = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are valid places; the mask is inherited by the new thread and put back here.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr());
    }
    let started = std::thread::Builder::new().name(name.into()).stack_size(256 * 1024).spawn(body);
    // SAFETY: old was filled in by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old.as_ptr(), std::ptr::null_mut()) };
    started.map(|_| ())
}
