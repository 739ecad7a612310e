//! The public interface of servers.

use super::form::{figures, in_body};
use crate::bodied::{Bodied, Plan, SharedError, fits, type_hash, type_name, unmake};
use bytemuck::{Pod, Zeroable, bytes_of, bytes_of_mut, pod_read_unaligned};
use chappe_arena::layout::Kind;
use chappe_structures::combine::Combined;
use chappe_structures::desk::{Desk, MOST_BYTES, Sizes};
use chappe_wait::attachment::Within;
use chappe_wait::body::Form;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Data that the threads of this process change by requests. A caller that finds the server idle carries out its own request, at the price of an
/// uncontended lock, and then the requests that came meanwhile. A caller that comes while another thread serves waits until that thread has carried out
/// its request, with the data still in its cache.
///
/// Blocks while another thread serves: at most for 64 requests and those that came before. Requests are carried out in the order in which they came. A
/// request must be short, must not wait for another thread, and must not call the same server (that panics). A request that panics panics in its caller;
/// the data stays as it left it, and the server goes on.
///
/// Signals: a handler must not call it. In a forked child it is a copy, in which a request of another thread may be half done. Light threads: a wait
/// holds up their proc, as a lock of the system's does.
///
/// Among processes: [`Service`], whose requests are data.
///
/// Paper: synthesis, 5.1.4; nonblocking-real-time, 4.4.
///
/// ```
/// use chappe_sync::Server;
/// let log = Server::new(Vec::new());
/// std::thread::scope(|s| {
///     for i in 0..4 {
///         let log = &log;
///         s.spawn(move || log.call(|all| all.push(i)));
///     }
/// });
/// assert_eq!(log.call(|all| all.len()), 4);
/// ```
pub struct Server<T> {
    of: Combined<T>,
}

impl<T> std::fmt::Debug for Server<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Server")
    }
}

impl<T> Server<T> {
    /// A server that begins with this data.
    pub fn new(data: T) -> Server<T> {
        Server { of: Combined::new(data) }
    }

    /// Carries out a request, or has it carried out. Answers what it answers.
    ///
    /// # Panics
    /// If the request does, or calls the same server.
    #[inline]
    pub fn call<R: Send>(&self, request: impl FnOnce(&mut T) -> R + Send) -> R {
        self.of.call(request)
    }

    /// The data.
    pub fn into_inner(self) -> T {
        self.of.into_inner()
    }
}

/// What a [`Service`] does: the same in all programs that use it.
pub trait Serve {
    /// The data.
    type State: Pod;
    /// What is asked for.
    type Request: Pod;
    /// What is answered.
    type Answer: Pod;

    /// Carries a request out. It may run several times for one request, each time with a copy of the data, one of which counts. So it must have no
    /// effect but on `state`, and must not wait for another thread.
    fn serve(state: &mut Self::State, request: &Self::Request) -> Self::Answer;
}

/// A server among processes: data in an arena that a fixed function changes; any caller's process may run the function.
///
/// A caller announces its request, carries out all announced requests in a copy of the data, and puts the copy in place; or finds that another caller has
/// done so. No caller waits for another: a process that is stopped or killed in the middle delays no other. Its own request was carried out, once, or not
/// at all; never half.
///
/// Wait-free for up to 16 callers at once (at most three copies a call), lock-free for more. No system call, except a thread's first call, which
/// registers it; a call allocates. Fairness: each change carries out all requests that were announced before.
///
/// Sizes: data, requests and answers of up to 64 KiB; each change copies the data and 16 answers.
///
/// Signals: a handler must not call it. Shared on with a forked child.
///
/// Paper: synthesis, 5.1.4; nonblocking-real-time, 4.4 (and 3.3: helping).
///
/// ```no_run
/// use chappe_sync::{Serve, Service};
/// struct Tickets;
/// impl Serve for Tickets {
///     type State = [u64; 2]; // the next one, how many are left
///     type Request = u64; // how many
///     type Answer = u64; // the first of them; 0: not so many are left
///     fn serve(state: &mut [u64; 2], many: &u64) -> u64 {
///         if state[1] < *many {
///             return 0;
///         }
///         state[1] -= many;
///         state[0] += many;
///         state[0] - many
///     }
/// }
/// let tickets = Service::<Tickets>::open_or_create("tickets", &[1, 1000])?;
/// let mine = tickets.call(&2)?;
/// # Ok::<(), chappe_sync::SharedError>(())
/// ```
pub struct Service<S: Serve> {
    named: Bodied,
    desk: Desk<'static>,
    of: PhantomData<fn(S)>,
}

impl<S: Serve> Clone for Service<S> {
    fn clone(&self) -> Service<S> {
        Service { named: self.named.clone(), desk: self.desk, of: PhantomData }
    }
}

impl<S: Serve> std::fmt::Debug for Service<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Service({:?})", self.name())
    }
}

/// Removes a [`Service`] by name, whatever its function. A service that another process has called and may call again is refused unless `force`: then
/// its users get `Dead`.
///
/// # Errors
/// `Object`: there is none, it is in use, or something else.
pub fn remove_service(name: &str, force: bool) -> Result<(), SharedError> {
    unmake(Kind::Server, name, force, figures, |_| None)
}

fn sizes_of<S: Serve>(members: u32) -> Result<Sizes, SharedError> {
    let size = |what, size: usize| fits(Kind::Server, what, size as u64, 0, MOST_BYTES);
    Ok(Sizes {
        state: size("bytes of data", size_of::<S::State>())?,
        request: size("bytes in a request", size_of::<S::Request>())?,
        answer: size("bytes in an answer", size_of::<S::Answer>())?,
        spare: members.clamp(1, 256),
    })
}

fn types_of<S: Serve>() -> [u64; 2] {
    [type_hash::<S>(), type_hash::<(S::State, S::Request, S::Answer)>()]
}

impl<S: Serve> Service<S> {
    fn at(named: Bodied) -> Result<Service<S>, SharedError> {
        let wanted = || {
            let (state, request, answer) =
                (type_name::<S::State>(), type_name::<S::Request>(), type_name::<S::Answer>());
            format!("{}, with data {state}, requests {request}, answers {answer}", type_name::<S>())
        };
        let named = named.of_types(types_of::<S>(), wanted)?;
        let desk = in_body(&named.body).ok_or_else(|| named.gone())?;
        Ok(Service { named, desk, of: PhantomData })
    }

    /// Attaches a service by name.
    ///
    /// # Errors
    /// `OtherType` if it was not made for `S`; `Object`: there is none, or it is something else.
    pub fn open(name: &str) -> Result<Service<S>, SharedError> {
        Service::at(Bodied::open(Kind::Server, name)?)
    }

    fn made(name: &str, state: &S::State, or_open: bool) -> Result<Service<S>, SharedError> {
        let sizes = sizes_of::<S>(1)?;
        let of = |members: u32| {
            let sizes = Sizes { spare: members.clamp(1, 256), ..sizes };
            let numbers = [sizes.state, sizes.request, sizes.answer, sizes.spare];
            (sizes.bytes(), Form { numbers, types: types_of::<S>() })
        };
        let fill = |at: NonNull<u8>, form: Form| {
            let [state_size, request, answer, spare] = form.numbers;
            // SAFETY: so many zeroed bytes from a multiple of 64, of which no other thread knows yet.
            let desk = unsafe { Desk::new(at, Sizes { state: state_size, request, answer, spare }) };
            desk.begin_with(bytes_of(state));
        };
        Service::at(Bodied::make(&Plan { kind: Kind::Server, of: &of, fill: &fill }, name, or_open)?)
    }

    /// Makes a service by name that begins with this data, and its arena, with room for it, if need be.
    ///
    /// # Errors
    /// `Capacity`; `Object`: there is one already, or the arena has no room.
    pub fn create(name: &str, state: &S::State) -> Result<Service<S>, SharedError> {
        Service::made(name, state, false)
    }

    /// Attaches a service by name, whatever its data; or makes it.
    ///
    /// # Errors
    /// As [`Service::open`] and [`Service::create`].
    pub fn open_or_create(name: &str, state: &S::State) -> Result<Service<S>, SharedError> {
        Service::made(name, state, true)
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.named.handle.name()
    }

    /// Carries out a request, or finds that another caller has.
    ///
    /// # Errors
    /// `Busy`, `Dead`, `Object`: it was not carried out, and nobody will carry it out.
    pub fn call(&self, request: &S::Request) -> Result<S::Answer, SharedError> {
        let (me, _) = self.named.me()?;
        let _within = Within::begin();
        let mut answer = S::Answer::zeroed();
        let function = |state: &mut [u8], request: &[u8], answer: &mut [u8]| {
            let mut data: S::State = pod_read_unaligned(state);
            let said = S::serve(&mut data, &pod_read_unaligned(request));
            state.copy_from_slice(bytes_of(&data));
            answer.copy_from_slice(bytes_of(&said));
        };
        let mut call = || self.desk.call(me, bytes_of(request), bytes_of_mut(&mut answer), &function);
        let done = call().or_else(|full| if self.named.recovered() { call() } else { Err(full) });
        match done {
            Ok(()) => Ok(answer),
            Err(_) => Err(SharedError::Busy {
                kind: Kind::Server.name(),
                name: self.named.handle.shown(),
                most: self.desk.sizes().spare,
            }),
        }
    }

    /// The data, as it was at one moment. Writes nothing.
    ///
    /// # Errors
    /// `Dead`.
    pub fn look(&self) -> Result<S::State, SharedError> {
        let mut state = S::State::zeroed();
        self.desk.look(bytes_of_mut(&mut state));
        self.named.seen(state)
    }

    /// Whether it was removed.
    pub fn is_dead(&self) -> bool {
        self.named.handle.is_dead()
    }
}
