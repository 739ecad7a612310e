//! The permits behind the tokens.
//!
//! A token is put into a fifo only when a permit is behind it, and the permit is given back only when chappe has the token again. The
//! permits of a pool that others use, too, are leased, so that a killed chappe's tokens, which go on among the job's processes, stay taken
//! until the job has ended. The job inherits the first permit's lease, one open file; a later permit's byte is locked for that same open
//! file, so that the job has it, too, although it was started before. Chappe may be killed after each step of that:
//!
//! | chappe is killed                | the permit                                                             |
//! |---------------------------------|------------------------------------------------------------------------|
//! | before the permit is a lease    | comes back, as any                                                     |
//! | between lease and lock          | is an orphan without a job, and comes back. It is behind no token yet  |
//! | after the lock                  | is the job's, and comes back when that has ended                       |
//! | after the unlock, when it goes  | comes back. It is behind no token any more                             |
//!
//! The mark in the environment names the first permit alone. So a descendant that closed the file and lives on when every process that has
//! it is gone does not keep the others.
//!
//! A permit belongs to the thread that took it, so each has one; the one that waits in line is the next one's. Chappe's own pool, which no
//! other process uses, and which dies with chappe, is a number.

use super::lock;
use anyhow::{Error, anyhow, bail};
use chappe::{Lease, Permit, Pool};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// The first permit's lease, which the others join.
#[derive(Default)]
pub struct First {
    /// Until chappe gives it up.
    pub lease: Option<Lease>,
    /// No more may join.
    closed: bool,
    /// How many joined.
    joined: usize,
}

impl First {
    /// To be joined; `None` for chappe's own pool.
    pub fn shared(lease: Option<Lease>) -> SharedFirst {
        Arc::new(Mutex::new(First { lease, ..First::default() }))
    }
}

/// As each thread has it.
pub type SharedFirst = Arc<Mutex<First>>;

/// No thread panics with it in hand, and if so it is as good as before.
pub fn open(first: &SharedFirst) -> MutexGuard<'_, First> {
    first.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that has a permit. It gives it back when `back` is dropped.
struct Keeper {
    back: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Makes it give the permit back. It has done so when the thread has ended.
    fn let_go(self) -> Option<JoinHandle<()>> {
        drop(self.back);
        self.thread
    }
}

/// Where permits come from.
pub struct Tokens {
    pool: Pool,
    first: SharedFirst,
    most: usize,
    shared: bool,
    came: Receiver<Result<Sender<()>, Error>>,
    tell: Sender<Result<Sender<()>, Error>>,
    wake: Arc<UnixStream>,
    asking: Option<JoinHandle<()>>,
    /// Those that are giving their permits back. They need the lease for it: it may not go before them.
    going: Vec<JoinHandle<()>>,
    /// How many came in all.
    arrived: usize,
    /// Those of a shared pool that chappe has.
    all: Vec<Keeper>,
}

impl Tokens {
    /// Up to `most` of `pool`, beyond the first. `wake` gets a byte when one came.
    pub fn new(pool: Pool, first: SharedFirst, most: usize, wake: UnixStream) -> Tokens {
        let shared = open(&first).lease.is_some();
        let (tell, came) = channel();
        Tokens {
            pool,
            first,
            most,
            shared,
            came,
            tell,
            wake: Arc::new(wake),
            asking: None,
            going: Vec::new(),
            arrived: 0,
            all: Vec::new(),
        }
    }

    /// Whether others use the pool, too.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// How many tokens chappe has.
    pub fn count(&self) -> usize {
        if self.shared { self.all.len() } else { self.most }
    }

    /// Whether another one may be asked for.
    pub fn may_ask(&self) -> bool {
        self.asking.is_none() && self.count() < self.most
    }

    /// Asks for one more.
    ///
    /// # Errors
    /// The pool's, or the system's.
    pub fn ask(&mut self) -> Result<(), Error> {
        let (pool, first, tell, wake) = (self.pool.clone(), self.first.clone(), self.tell.clone(), self.wake.clone());
        let thread = Builder::new().name("chappe-token".into()).stack_size(256 << 10);
        let thread = thread.spawn(move || keep(&pool, &first, &tell, &wake));
        self.asking = Some(thread.map_err(|e| anyhow!("cannot start a thread: {e}"))?);
        Ok(())
    }

    /// Takes note of one that came. True if one did.
    ///
    /// # Errors
    /// The pool's.
    pub fn come(&mut self) -> Result<bool, Error> {
        let Ok(got) = self.came.try_recv() else { return Ok(false) };
        let got = got.inspect_err(|_| self.asking = None)?;
        self.add(got);
        Ok(true)
    }

    fn add(&mut self, back: Sender<()>) {
        self.arrived += 1;
        self.all.push(Keeper { back, thread: self.asking.take() });
    }

    /// Gives one back.
    pub fn give_back(&mut self) {
        self.going.retain(|thread| !thread.is_finished());
        if let Some(keeper) = self.all.pop() {
            self.going.extend(keeper.let_go());
        }
    }

    /// Gives back all but so many, and waits until that is done. The others go with the process.
    pub fn end(mut self, but: usize) {
        let joined = {
            let mut first = open(&self.first);
            first.closed = true;
            first.joined
        };
        // One that has joined and is not here yet is on its way; one that has not will not.
        while self.arrived < joined
            && let Ok(Ok(back)) = self.came.recv()
        {
            self.add(back);
        }
        while self.all.len() > but {
            self.give_back();
        }
        for thread in self.going {
            // It cannot panic in a way that matters here.
            let _ = thread.join();
        }
        std::mem::forget(self.all);
    }

    /// Whether another process waits for a permit.
    pub fn others_wait(&self) -> bool {
        self.shared && self.pool.waiters().iter().any(|w| !w.who.is_of_this_process())
    }
}

/// Takes a permit, and keeps it until it is no longer wanted.
fn keep(pool: &Pool, first: &SharedFirst, tell: &Sender<Result<Sender<()>, Error>>, wake: &UnixStream) {
    let got = pool.acquire().map_err(Error::from).and_then(|mut permit| {
        let byte = extend(&mut permit, first)?;
        Ok((permit, byte))
    });
    let (back, wanted) = channel();
    let (answer, held) = match got {
        Ok(held) => (Ok(back), Some(held)),
        Err(e) => (Err(e), None),
    };
    let heard = tell.send(answer).is_ok();
    // If the server does not listen any more, it needs no waking.
    let _ = (&*wake).write(b"!");
    let Some((permit, byte)) = held else { return };
    if heard {
        // Ends when the other side is dropped.
        let _ = wanted.recv();
    }
    if let Some(lease) = &open(first).lease {
        lock::unlock(lease.as_fd(), byte);
    }
    drop(permit);
}

/// Makes the permit a lease of the job that has the first one's. Answers its byte.
fn extend(permit: &mut Permit<'_>, first: &SharedFirst) -> Result<i64, Error> {
    let own = permit.lease()?;
    let mark = own.cookie().rsplit([',', ':']).next().unwrap_or_default();
    let byte = i64::from_str_radix(mark, 16).map_err(|_| anyhow!("a lease without a byte: {}", own.cookie()))?;
    // By name, not by the close alone: a child that another thread has just forked has the descriptor until it becomes a program.
    lock::unlock(own.as_fd(), byte);
    drop(own);
    let mut first = open(first);
    let lease = first.lease.as_ref().filter(|_| !first.closed).ok_or_else(|| anyhow!("the job has ended"))?;
    if !lock::try_lock(lease.as_fd(), byte)? {
        bail!("a permit is leased to another process");
    }
    first.joined += 1;
    Ok(byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chappe::{Arena, ArenaOptions};

    /// An arena, for as long as this lives.
    struct Lab(String);

    impl Drop for Lab {
        fn drop(&mut self) {
            // If it stays, a file stays.
            let _ = Arena::remove(&self.0, true);
        }
    }

    #[test]
    fn a_returned_token_is_free_before_the_lease_ends() {
        let lab = Lab(format!("test-tokens-{}", std::process::id()));
        Arena::create(&lab.0, &ArenaOptions::default()).unwrap();
        for round in 0..20 {
            let name = format!("{}/p{round}", lab.0);
            let pool = Pool::create(&name, 3).unwrap();
            let mut own = pool.acquire().unwrap();
            let first = First::shared(Some(own.lease().unwrap()));
            // As a process has it that the command left running.
            let survivor = open(&first).lease.as_ref().unwrap().as_fd().try_clone_to_owned().unwrap();
            let (wake, _woken) = UnixStream::pair().unwrap();
            let mut tokens = Tokens::new(pool.clone(), first.clone(), 2, wake);
            for _ in 0..2 {
                tokens.ask().unwrap();
                while !tokens.come().unwrap() {
                    std::thread::yield_now();
                }
            }
            tokens.give_back();
            tokens.end(0);
            drop(open(&first).lease.take());
            assert_eq!(pool.available(), 2, "round {round}");
            drop(survivor);
        }
    }

    #[test]
    fn one_that_could_not_be_had_may_be_asked_for_again() {
        let (wake, _woken) = UnixStream::pair().unwrap();
        let lab = Lab(format!("test-asking-{}", std::process::id()));
        Arena::create(&lab.0, &ArenaOptions::default()).unwrap();
        let pool = Pool::create(&format!("{}/p", lab.0), 2).unwrap();
        let first = First::shared(Some(pool.acquire().unwrap().lease().unwrap()));
        let mut tokens = Tokens::new(pool, first.clone(), 1, wake);
        // It comes, and finds no lease to join.
        let lease = open(&first).lease.take();
        tokens.ask().unwrap();
        let failed = loop {
            match tokens.come() {
                Ok(came) => assert!(!came),
                Err(e) => break e,
            }
        };
        assert!(failed.to_string().contains("ended"), "{failed}");
        open(&first).lease = lease;
        assert!(tokens.may_ask());
        tokens.ask().unwrap();
        while !tokens.come().unwrap() {
            std::thread::yield_now();
        }
        tokens.end(0);
    }
}
