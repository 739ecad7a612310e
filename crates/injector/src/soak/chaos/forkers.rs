//! Processes that fork with a permit in hand, and that become another program with whatever they have.
//!
//! A forked child is a process of its own: the permit is its parent's, and the parent's alone; then it does what all others do, and sends
//! by the end that its parent has attached. Of parent and child one may kill the other; else both end by themselves.
//!
//! A forking process that calls exec, mostly from a thread that does not lead its process, has permits of its own and of the process, a mutex, a
//! unit, and an end of a tube. All that comes back while the process goes on as something else: the director sees to it.

use std::ffi::CString;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use chappe::tube::named::{NotSent, Sender};

use super::board::{CLOSER, Count, Deed, Found, POSTS};
use super::ledger::{Unit, message, number};
use super::places::{Message, Place, TUBES};
use super::worker::{Broken, Chaos, Held, Worker};
use super::{pool_users, semaphore_users, store_users};
use crate::patience::within;
use crate::scenario::REST;

/// How long a parent waits for its child.
const PATIENCE: Duration = Duration::from_secs(60);

/// All its turns: forks, or, once, another program.
///
/// # Errors
/// What should not have failed.
pub fn live(worker: &mut Worker, places: &[Place]) -> Result<(), Broken> {
    worker.at(Deed::Attach, 0);
    let out = TUBES[0].open()?.sender()?;
    while !worker.board().is_over() {
        match worker.roll(24) {
            0 => become_another(worker, places)?,
            1..6 => fork(worker, places, &out)?,
            _ => anything(worker, places)?,
        }
        worker.turn();
    }
    Ok(())
}

/// What every process can do.
///
/// # Errors
/// What should not have failed.
pub fn anything(worker: &mut Worker, places: &[Place]) -> Result<(), Broken> {
    match worker.roll(3) {
        0 => pool_users::use_pool(worker, places),
        1 => semaphore_users::use_semaphore(worker, places),
        _ => store_users::peek(worker, places),
    }
}

/// The same, on and on.
///
/// # Errors
/// What should not have failed.
pub fn use_any(worker: &mut Worker, places: &[Place]) -> Result<(), Broken> {
    while !worker.board().is_over() {
        anything(worker, places)?;
        worker.turn();
    }
    Ok(())
}

// ---- fork ----

/// Which one kills the other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Feud {
    None,
    Child,
    Parent,
}

fn fork(worker: &mut Worker, places: &[Place], out: &Sender<Message>) -> Result<(), Broken> {
    let (arena, seed) = (worker.arena(), worker.roll(u64::MAX >> 12));
    worker.at(Deed::Fork, arena);
    let permit = places[arena].pools[0].acquire()?;
    let claim = worker.claim(arena, 0, permit.indices(), false);
    let feud = match worker.roll(4) {
        0 => Feud::Child,
        1 => Feud::Parent,
        _ => Feud::None,
    };
    let (chaos, board, mine) = (worker.chaos, worker.board(), worker.process());
    // SAFETY: the child has one thread; it uses what works after a fork (chappe, and the C library's memory), and ends at once
    // when it is through.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error().into()),
        0 => {
            if permit.is_valid() {
                chaos.found(Found::Doubled, "a forked child thinks that it has its parent's permit");
            }
            // The note is the parent's.
            std::mem::forget(claim);
            drop(permit);
            be_a_child(chaos, places, out, mine, seed, feud)
        }
        child => {
            board.count(Count::Forks, 1);
            worker.dawdle();
            drop(claim);
            drop(permit);
            if feud == Feud::Child {
                std::thread::sleep(worker.moment(3_000));
                kill_child(worker, child);
            }
            await_child(worker, child)
        }
    }
}

/// The place that a child of ours has on the board; none yet, or none any more.
fn place_of(worker: &Worker, child: i32) -> Option<usize> {
    let mine = worker.process();
    let is_it = |place: &usize| {
        let place = &worker.board().places[*place];
        place.pid.load(SeqCst) == child as u32 && place.parent.load(SeqCst) == mine
    };
    (POSTS..CLOSER).find(is_it)
}

fn kill_child(worker: &Worker, child: i32) {
    let board = worker.board();
    // One that has no place yet has nothing, and is let live.
    let Some(place) = place_of(worker, child) else { return };
    let number = board.places[place].number.load(SeqCst);
    if number != 0 {
        board.condemn(number);
        board.count(Count::Family, 1);
        // SAFETY: our child, which only this thread reaps.
        unsafe { libc::kill(child, libc::SIGKILL) };
    }
}

fn await_child(worker: &mut Worker, child: i32) -> Result<(), Broken> {
    worker.at(Deed::Await, 0);
    let mut status = 0;
    // SAFETY: `status` is a valid place for the duration of the call.
    let ended = || unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child;
    if !within(PATIENCE, ended) {
        return Err(format!("the forked child {child} does not end").into());
    }
    let condemned = |place: usize| {
        let number = worker.board().places[place].number.load(SeqCst);
        number != 0 && worker.board().is_gone(number)
    };
    let place = place_of(worker, child);
    let killed = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL && place.is_some_and(condemned);
    if let Some(place) = place {
        worker.board().settle(place);
    }
    if status != 0 && !killed {
        return Err(format!("the forked child {child} ended with status {status:#x}").into());
    }
    Ok(())
}

fn be_a_child(chaos: &Chaos, places: &[Place], out: &Sender<Message>, parent: u32, seed: u64, feud: Feud) -> ! {
    // Whatever happens, it ends.
    // SAFETY: no pointers; nothing here handles the signal.
    unsafe { libc::alarm(60) };
    let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        childhood(chaos, places, out, parent, seed, feud).map_err(|e| chaos.tell(&format!("a forked child: {e}")))
    }));
    let status = if matches!(lived, Ok(Ok(()))) { 0 } else { 1 };
    // SAFETY: ends this process at once.
    unsafe { libc::_exit(status) }
}

fn childhood(
    chaos: &Chaos,
    places: &[Place],
    out: &Sender<Message>,
    parent: u32,
    seed: u64,
    feud: Feud,
) -> Result<(), Broken> {
    let board = chaos.board;
    let pid = std::process::id();
    let free = |place: &usize| board.places[*place].pid.compare_exchange(0, pid, SeqCst, SeqCst).is_ok();
    let Some(place) = (POSTS..CLOSER).find(free) else { return Ok(()) };
    board.places[place].parent.store(parent, SeqCst);
    board.places[place].number.store(board.life(0), SeqCst);
    let mut worker = Worker::new(chaos, place, 0, seed);
    for turn in 0..2 + worker.roll(10) {
        if turn == 1 && feud == Feud::Parent {
            kill_parent(&worker, parent);
        }
        if worker.roll(4) == 0 {
            send(&mut worker, out, turn)?;
        } else {
            anything(&mut worker, places)?;
        }
        worker.turn();
    }
    Ok(())
}

fn send(worker: &mut Worker, out: &Sender<Message>, count: u64) -> Result<(), Broken> {
    worker.at(Deed::Attach, 0);
    let board = worker.board();
    let id = board.next_message();
    let time = worker.moment(3_000);
    match out.send_timeout(message(id, worker.number, count + 1, 0), time) {
        Ok(()) => board.sent(id, 0),
        Err(NotSent::Timeout(_) | NotSent::Disconnected { .. }) => {}
        Err(e) => return Err(e.to_string().into()),
    }
    Ok(())
}

fn kill_parent(worker: &Worker, parent: u32) {
    let board = worker.board();
    // SAFETY: takes nothing, cannot fail.
    let pid = unsafe { libc::getppid() };
    let home = board.places[..POSTS].iter().find(|p| p.number.load(SeqCst) == parent);
    // The parent's place on the board is cleared only after it has been reaped, and then another is the parent.
    // SAFETY: takes nothing, cannot fail.
    if home.is_none() || pid <= 1 || pid as u32 == board.director.load(SeqCst) || unsafe { libc::getppid() } != pid {
        return;
    }
    board.condemn(parent);
    board.count(Count::Family, 1);
    // SAFETY: our parent, a process of this chaos run. It lives or has just been killed by its director, which has not reaped it
    // before we have got another parent.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

// ---- exec ----

fn become_another(worker: &mut Worker, places: &[Place]) -> Result<(), Broken> {
    let arena = worker.arena();
    let place = &places[arena];
    worker.at(Deed::Anything, arena);
    // One of each at most, and what can be had at once: a forking process that has one thing waits for none.
    let stalls = place.pools[1].acquire()?;
    let claim = worker.claim(arena, 1, stalls.indices(), false);
    let field = place.pools[2].try_acquire_owned().ok();
    let owned = field.as_ref().map(|permit| worker.claim(arena, 2, permit.indices(), true));
    let s = number(arena, 0);
    worker.unit(Unit::Taking(s));
    let unit = place.semaphores[0].try_down().is_ok();
    worker.unit(if unit { Unit::Has(s) } else { Unit::Idle });
    let section = match place.store.try_lock() {
        Err(chappe::LockError::WouldBlock) => None,
        got => Some(store_users::enter(worker, place, arena, got)?),
    };
    let board = worker.board();
    let program = CString::new("/proc/self/exe")?;
    let argument = CString::new(REST)?;
    let arguments = [program.as_ptr(), argument.as_ptr(), std::ptr::null()];
    board.condemn(worker.process());
    board.places[worker.place].leaves.store(1, SeqCst);
    // SAFETY: no pointers in the first call; this thread's own setting is the one that survives. The second gets C
    // strings and a list that ends in null.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::execv(program.as_ptr(), arguments.as_ptr());
    }
    let e = std::io::Error::last_os_error();
    board.places[worker.place].leaves.store(0, SeqCst);
    drop((claim, owned, section, stalls, field));
    Err(format!("exec: {e}").into())
}
