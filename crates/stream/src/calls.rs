//! What a graph tells the program that runs it: [`on_late`](crate::Running::on_late), [`on_lost`](crate::Running::on_lost),
//! [`on_emergency`](crate::Running::on_emergency) and [`on_stopped`](crate::Running::on_stopped) (synthesis, 4.1.1: callouts).
//!
//! - I1: what is called has a thread of its own, which begins with the first message: it may wait, name another call, or panic, and no stage and no keeper of parts stands
//!   meanwhile.
//!   Where the kernel has no thread for it, the one that tells calls; nobody else stands, and a panic ends nothing either.
//! - I2: calls come one after the other, in the order in which they were told. The end of the graph waits for all of them.
//! - I3: no more than [`WAIT`] messages wait for a call that does not return; those that come then are not told. Each is in the report.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// So many messages wait for a call that does not return.
const WAIT: usize = 1024;

/// What is called: with the label of a stage, or the name of a job or a part, and what became of it.
pub type Call<T> = Box<dyn FnMut(&str, T) + Send>;

/// The call that was named last.
type Named<T> = Mutex<Option<Arc<Mutex<Call<T>>>>>;

/// What the program is told by its call.
pub struct Calls<T> {
    call: Arc<Named<T>>,
    /// The thread that calls, and what it has to say.
    caller: Mutex<Option<(SyncSender<(String, T)>, JoinHandle<()>)>>,
}

impl<T> Default for Calls<T> {
    fn default() -> Calls<T> {
        Calls { call: Arc::default(), caller: Mutex::default() }
    }
}

impl<T> fmt::Debug for Calls<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Calls")
    }
}

fn locked<T: ?Sized>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls the one that was named last, and holds nothing else (I1). One that panics has said so, and is called again for the next message.
fn make<T>(call: &Named<T>, name: &str, what: T) {
    let Some(call) = locked(call).clone() else { return };
    let _ = catch_unwind(AssertUnwindSafe(|| locked(&call)(name, what)));
}

impl<T: Copy + Send + 'static> Calls<T> {
    /// Names what is called from now on.
    pub fn set(&self, call: Call<T>) {
        *locked(&self.call) = Some(Arc::new(Mutex::new(call)));
    }

    /// Has it called, if anything is to be called.
    pub fn tell(&self, name: &str, what: T) {
        self.tell_by(name, what, |calls| Builder::new().name("chappe-calls".to_owned()).spawn(calls));
    }

    fn tell_by(&self, name: &str, what: T, begin: impl FnOnce(Job) -> std::io::Result<JoinHandle<()>>) {
        if locked(&self.call).is_none() {
            return;
        }
        let mut caller = locked(&self.caller);
        if caller.is_none() {
            let (tell, told) = sync_channel::<(String, T)>(WAIT);
            let call = Arc::clone(&self.call);
            let calls: Job = Box::new(move || told.into_iter().for_each(|(name, what)| make(&call, &name, what)));
            *caller = begin(calls).ok().map(|thread| (tell, thread));
        }
        match &*caller {
            // I3. It ends behind `settle` alone.
            Some((tell, _)) => _ = tell.try_send((name.to_owned(), what)),
            None => {
                drop(caller);
                chappe_thread::block_in_place(|| make(&self.call, name, what));
            }
        }
    }

    /// All that was to be called has been (I2).
    pub fn settle(&self) {
        let caller = locked(&self.caller).take();
        if let Some((tell, thread)) = caller {
            drop(tell);
            // It does not panic.
            let _ = chappe_thread::block_in_place(|| thread.join());
        }
    }
}

/// What the thread does.
type Job = Box<dyn FnOnce() + Send>;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_call_may_wait_name_the_next_one_and_panic_and_nobody_stands() {
        let calls = Arc::new(Calls::<u32>::default());
        calls.tell("nobody", 0);
        let ((told, tell), (go, gate)) = (channel(), channel::<()>());
        let (next, told) = (Arc::clone(&calls), told);
        calls.set(Box::new(move |name, what| {
            // Until the one that tells has told all of them.
            gate.recv().unwrap();
            told.send(format!("first {name} {what}")).unwrap();
            let told = told.clone();
            next.set(Box::new(move |name, what| told.send(format!("second {name} {what}")).unwrap()));
            panic!("a call that fails");
        }));
        (1..4).for_each(|k| calls.tell("a", k));
        go.send(()).unwrap();
        calls.settle();
        assert_eq!(tell.try_iter().collect::<Vec<_>>(), ["first a 1", "second a 2", "second a 3"]);
        // Behind the end of one run the next one begins.
        calls.tell("b", 4);
        calls.settle();
        assert_eq!(tell.try_recv().unwrap(), "second b 4");
    }

    #[test]
    fn a_teller_calls_itself_where_there_is_no_thread_and_survives_a_panic() {
        let calls = Arc::new(Calls::<u32>::default());
        let ((told, tell), next) = (channel(), Arc::clone(&calls));
        calls.set(Box::new(move |name, what| {
            told.send(format!("first {name} {what}")).unwrap();
            let told = told.clone();
            next.set(Box::new(move |name, what| told.send(format!("second {name} {what}")).unwrap()));
            panic!("a call that fails");
        }));
        let none = |_: Job| Err(std::io::ErrorKind::WouldBlock.into());
        calls.tell_by("a", 1, none);
        calls.tell_by("b", 2, none);
        assert_eq!(tell.try_iter().collect::<Vec<_>>(), ["first a 1", "second b 2"]);
    }

    #[test]
    fn messages_that_wait_for_a_call_that_does_not_return_are_bounded() {
        let calls = Calls::<usize>::default();
        let ((told, tell), (begun, begins), (go, gate)) = (channel(), channel(), channel::<()>());
        let mut is_first = true;
        calls.set(Box::new(move |_, what| {
            if std::mem::take(&mut is_first) {
                begun.send(()).unwrap();
                gate.recv().unwrap();
            }
            told.send(what).unwrap();
        }));
        calls.tell("a", 0);
        begins.recv().unwrap();
        (1..WAIT + 9).for_each(|k| calls.tell("a", k));
        go.send(()).unwrap();
        calls.settle();
        assert!(tell.try_iter().eq(0..=WAIT));
    }
}
