//! The words of the light threads' scheduler (`chappe-thread`) under loom: token and events, requests to a thread, inbox, turns at a queue, and the tick. They are
//! that crate's own source. What lies between them there, switching stacks, cannot be modelled.

#![allow(dead_code, reason = "what the scheduler uses and no model does")]

#[path = "../../thread/src/words/asked.rs"]
mod asked;
#[path = "../../thread/src/words/inbox.rs"]
mod inbox;
#[path = "../../thread/src/words/page.rs"]
mod page;
#[path = "../../thread/src/words/ticks.rs"]
mod ticks;
#[path = "../../thread/src/words/token.rs"]
mod token;
#[path = "../../thread/src/words/told.rs"]
mod told;
#[path = "../../thread/src/words/turns.rs"]
mod turns;

use crate::loom::{three_reach, two_reach};
use asked::{Op, Then, ask};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::explore::{Data, FOUND, sleeps, together};
use chappe_plat::futex::{self, Scope};
use chappe_plat::light::asked::{FLAGS, GENERATION, KILL, SIGNAL, STOPME, STOPPED};
use token::{Look, PARKED, Wakes};

#[derive(Clone, Copy)]
struct Scene {
    token: &'static AtomicU32,
    control: &'static AtomicU32,
    /// In how many queues the thread is.
    queued: &'static AtomicU32,
    /// How often it has run an interrupt.
    ran: &'static AtomicU32,
    events: &'static AtomicU64,
    inbox: &'static AtomicU64,
    links: [&'static AtomicU64; 2],
    sleep: &'static AtomicU32,
    busy: &'static AtomicU32,
    taken: &'static AtomicU32,
    data: Data,
}

fn word() -> &'static AtomicU32 {
    let word: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    word.store(0, Ordering::Relaxed); // Relaxed: the set-up, which touches it.
    word
}

fn long() -> &'static AtomicU64 {
    let word: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    word.store(0, Ordering::Relaxed); // Relaxed: as above.
    word
}

fn scene() -> Scene {
    Scene {
        token: word(),
        control: word(),
        queued: word(),
        ran: word(),
        events: long(),
        inbox: long(),
        links: [long(), long()],
        sleep: word(),
        busy: word(),
        taken: word(),
        data: Data::new(),
    }
}

/// A thread that is in its proc's queue.
fn ready_scene() -> Scene {
    let s = scene();
    s.queued.store(1, Ordering::Relaxed); // Relaxed: the set-up.
    s
}

/// One that is suspended, and out.
fn suspended_scene() -> Scene {
    let s = scene();
    s.control.store(STOPME | STOPPED, Ordering::Relaxed); // Relaxed: as above.
    s
}

impl Scene {
    /// Puts the thread into the queue: it is in none.
    fn put_in(self) {
        // AcqRel: the queue is its proc's.
        assert_eq!(self.queued.fetch_add(1, Ordering::AcqRel), 0, "{FOUND}: it is in two queues");
        futex::wake(self.queued, 1, Scope::Private);
    }

    /// Takes it out, if it is there.
    fn take_out(self) -> bool {
        // AcqRel, Relaxed: the queue is its proc's.
        self.queued.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The thread waits, parked, until another thread has put it into the queue.
    fn rests(self) {
        // Acquire: what was done before.
        while self.queued.load(Ordering::Acquire) == 0 {
            futex::wait(self.queued, 0, None, Scope::Private);
        }
        assert!(self.take_out());
    }

    fn told(self, wakes: Wakes) {
        if wakes == Wakes::Parked {
            self.put_in();
        }
    }

    /// The thread waits for events until it has all of these.
    fn waits_for(self, events: u32) -> u64 {
        let mut all = 0;
        while all != events {
            token::heard(self.token);
            let told = told::take(self.events, 0, events);
            if told != 0 {
                all |= told;
                continue;
            }
            match token::look(self.token, PARKED) {
                Look::Told | Look::Token => {}
                Look::Parks => self.rests(),
            }
        }
        u64::from(all)
    }

    /// Another tells the thread of events.
    fn tells(self, events: u32) {
        assert!(told::tell(self.events, self.control, 0, events));
        self.told(token::tell(self.token));
    }

    fn does(self, op: Op) {
        match ask(self.control, 0, op) {
            Ok(Then::Ready) => self.put_in(),
            Ok(Then::Wake) => self.told(token::give(self.token)),
            Ok(Then::Nothing) | Err(_) => {}
        }
    }

    /// The proc's turn: the ready thread runs for a moment, does what it is asked to, and is ready again.
    fn dispatch(self) {
        if !self.take_out() || !asked::may_run(self.control) {
            return;
        }
        // Relaxed, both: as the thread itself.
        if self.control.load(Ordering::Relaxed) & SIGNAL != 0 {
            self.control.fetch_and(!SIGNAL, Ordering::Acquire); // Acquire: what was put in before.
            self.ran.fetch_add(1, Ordering::Relaxed); // Relaxed: a count.
        }
        self.put_in();
    }

    /// When all is over: the flags, in how many queues it is, and how many interrupts it has run, once its proc has had its turns.
    fn ended(self) -> [u64; 3] {
        (0..3).for_each(|_| self.dispatch());
        // Relaxed, all: no other thread is there.
        let flags = self.control.load(Ordering::Relaxed) & FLAGS;
        let (queued, ran) = (self.queued.load(Ordering::Relaxed), self.ran.load(Ordering::Relaxed)); // Relaxed: as above.
        [u64::from(flags), u64::from(queued), u64::from(ran)]
    }
}

#[test]
fn a_token_that_comes_before_the_park_is_not_lost() {
    let meet = |s: Scene| {
        together(
            s,
            [
                |s: Scene| {
                    s.data.set(1);
                    s.told(token::give(s.token));
                },
                |s| {
                    if token::park(s.token, PARKED) {
                        s.rests();
                    }
                    assert_eq!(s.data.get(), 1);
                },
            ],
        );
        sleeps()
    };
    two_reach(3, scene, meet, [0, 1]);
}

#[test]
fn no_event_is_lost_between_look_and_sleep() {
    let meet = |s: Scene| {
        let tell = |s: Scene| {
            s.tells(0b01);
            0
        };
        let other = |s: Scene| {
            s.tells(0b10);
            0
        };
        together(s, [tell, other, |s: Scene| s.waits_for(0b11)])
    };
    three_reach(2, scene, meet, [[0, 0, 0b11]]);
}

#[test]
fn an_event_is_not_lost_beside_the_token_of_another_wait() {
    let meet = |s: Scene| {
        let give = |s: Scene| {
            s.told(token::give(s.token));
            0
        };
        let tell = |s: Scene| {
            s.tells(1);
            0
        };
        let wait = |s: Scene| {
            // For something else: one of the two ends it.
            if token::park(s.token, PARKED) {
                s.rests();
            }
            s.waits_for(1)
        };
        together(s, [give, tell, wait])
    };
    three_reach(2, scene, meet, [[0, 0, 1]]);
}

#[test]
fn a_suspended_and_resumed_thread_is_in_one_queue() {
    let meet = |s: Scene| {
        together(
            s,
            [
                |s: Scene| (0..2).for_each(|_| s.dispatch()),
                |s| {
                    s.does(Op::Suspend);
                    s.does(Op::Resume);
                },
            ],
        );
        s.ended()
    };
    two_reach(3, ready_scene, meet, [[0, 1, 0]]);
}

#[test]
fn two_who_resume_put_it_back_once() {
    let meet = |s: Scene| {
        let resume = |s: Scene| s.does(Op::Resume);
        together(s, [resume, resume]);
        s.ended()
    };
    two_reach(3, suspended_scene, meet, [[0, 1, 0]]);
}

#[test]
fn an_interrupt_is_run_by_who_is_suspended_meanwhile_and_stays_so() {
    let meet = |s: Scene| {
        let interrupt = |s: Scene| s.does(Op::Interrupt);
        let suspend = |s: Scene| s.does(Op::Suspend);
        together(s, [|s: Scene| (0..2).for_each(|_| s.dispatch()), suspend, interrupt]);
        s.ended()
    };
    three_reach(2, ready_scene, meet, [[u64::from(STOPME | STOPPED), 0, 1]]);
    two_reach(
        3,
        suspended_scene,
        |s: Scene| {
            together(s, [|s: Scene| s.does(Op::Interrupt), |s| s.dispatch()]);
            s.ended()
        },
        [[u64::from(STOPME | STOPPED), 0, 1]],
    );
}

#[test]
fn a_suspended_thread_that_is_destroyed_becomes_ready_to_end() {
    let meet = |s: Scene| {
        let destroy = |s: Scene| s.does(Op::Destroy);
        let suspend = |s: Scene| s.does(Op::Suspend);
        together(s, [|s: Scene| s.dispatch(), suspend, destroy]);
        s.ended()
    };
    three_reach(2, ready_scene, meet, [[u64::from(KILL), 1, 0]]);
}

#[test]
fn nothing_is_asked_of_the_next_thread_with_the_record() {
    let meet = |s: Scene| {
        together(s, [|s: Scene| s.does(Op::Stop), |s| _ = asked::end(s.control)]);
        // Relaxed: no other thread is there.
        u64::from(s.control.load(Ordering::Relaxed))
    };
    two_reach(3, scene, meet, [1 << GENERATION]);
}

/// Signals and events: a teller that is late reaches no later thread with the record, and takes nothing from it.
#[test]
fn a_late_event_reaches_no_later_thread() {
    let meet = |s: Scene| {
        let late = |s: Scene| u64::from(told::tell(s.events, s.control, 0, 0b01));
        let next = |s: Scene| {
            asked::end(s.control);
            assert!(told::tell(s.events, s.control, 1, 0b10));
            0
        };
        let [told, _] = together(s, [late, next]);
        [told, u64::from(told::take(s.events, 1, u32::MAX))]
    };
    two_reach(3, scene, meet, [[0, 0b10], [1, 0b10]]);
}

/// What is to be run as an interrupt is put in before it is asked for: it stays only if that was refused.
#[test]
fn a_thread_that_ends_takes_out_what_it_was_asked_to_run() {
    let meet = |s: Scene| {
        let asks = |s: Scene| {
            s.inbox.store(1, Ordering::Release); // Release: as it is.
            u64::from(ask(s.control, 0, Op::Interrupt).is_ok())
        };
        let ends = |s: Scene| {
            if asked::end(s.control) == 0 { 0 } else { s.inbox.swap(0, Ordering::Acquire) } // Acquire: as it is.
        };
        let [taken_on, _] = together(s, [asks, ends]);
        // Relaxed: no other thread is there.
        [taken_on, s.inbox.load(Ordering::Relaxed)]
    };
    two_reach(3, scene, meet, [[0, 1], [1, 0]]);
}

#[test]
fn a_proc_does_not_sleep_over_what_is_in_its_inbox() {
    let meet = |s: Scene| {
        together(
            s,
            [
                |s: Scene| {
                    s.data.set(1);
                    inbox::put(s.inbox, 7, s.links[0]);
                    if inbox::rouses(s.sleep) {
                        futex::wake(s.sleep, 1, Scope::Private);
                    }
                },
                |s| {
                    let mut got = 0;
                    while got == 0 {
                        if inbox::lie_down(s.sleep, s.inbox) {
                            futex::wait(s.sleep, inbox::SLEEPS, None, Scope::Private);
                        }
                        inbox::get_up(s.sleep);
                        got = inbox::take(s.inbox);
                    }
                    assert_eq!((got, s.data.get()), (7, 1));
                },
            ],
        );
        sleeps()
    };
    two_reach(3, scene, meet, [0, 1]);
}

#[test]
fn an_inbox_keeps_what_two_threads_put_in() {
    let meet = |s: Scene| {
        let one = |s: Scene| inbox::put(s.inbox, 1, s.links[0]);
        let two = |s: Scene| inbox::put(s.inbox, 2, s.links[1]);
        together(s, [one, two]);
        let mut all = Vec::new();
        let mut at = inbox::take(s.inbox);
        while at != 0 {
            all.push(at);
            at = s.links[at as usize - 1].load(Ordering::Relaxed); // Relaxed: published by the swap.
        }
        all.sort_unstable();
        all
    };
    two_reach(3, scene, meet, [vec![1, 2]]);
}

#[test]
fn owner_and_thief_are_never_both_at_the_queue() {
    let meet = |s: Scene| {
        together(
            s,
            [
                |s: Scene| turns::steal(s.busy, s.taken, || s.data.set(1)),
                |s| {
                    turns::enter(s.busy, s.taken);
                    s.data.set(2);
                    turns::leave(s.busy);
                    if turns::try_enter(s.busy, s.taken) {
                        // A handler that interrupts it here stays away.
                        assert!(!turns::try_enter(s.busy, s.taken));
                        s.data.set(3);
                        turns::leave(s.busy);
                    }
                },
            ],
        );
        s.data.get()
    };
    two_reach(3, scene, meet, [1, 2, 3]);
}

/// Two procs, and the tick, which runs.
#[derive(Clone, Copy)]
struct Tick {
    idle: &'static AtomicU64,
    ticks: &'static AtomicU32,
}

impl Tick {
    fn new(idle: u64) -> Tick {
        let tick = Tick { idle: long(), ticks: word() };
        tick.idle.store(idle, Ordering::Relaxed); // Relaxed: the set-up.
        tick.ticks.store(1, Ordering::Relaxed); // Relaxed: as above.
        tick
    }

    /// The first proc begins or ceases to idle. Whether it has started the tick.
    fn changes(self, idles: bool) -> u64 {
        let starts = ticks::idles(self.idle, 0b01, idles, 0b11, self.ticks);
        if starts {
            futex::wake(self.ticks, 1, Scope::Private);
        }
        starts.into()
    }

    /// The tick looks whether it is wanted. Whether it has stopped; it comes back only when it runs.
    fn looks(self) -> u64 {
        let stops = ticks::stops(self.ticks, self.idle, 0b11);
        // SeqCst: T1 of `words::ticks`, as in the tick.
        while self.ticks.load(Ordering::SeqCst) == 0 {
            futex::wait(self.ticks, 0, None, Scope::Private);
        }
        stops.into()
    }
}

#[test]
fn the_tick_runs_while_one_proc_idles_and_another_does_not() {
    // It has not stopped; it goes on by itself; the proc has started it.
    let ends = [[0, 0], [1, 0], [1, 1]];
    let ceases = |tick: Tick| together(tick, [Tick::looks, |tick| tick.changes(false)]);
    two_reach(3, || Tick::new(0b11), ceases, ends);
    let begins = |tick: Tick| together(tick, [Tick::looks, |tick| tick.changes(true)]);
    two_reach(3, || Tick::new(0), begins, ends);
}

/// Requests through a page, and their results: by processes, one of which has the lock at a time.
#[derive(Clone, Copy)]
struct Page {
    state: &'static AtomicU32,
    lock: &'static AtomicU32,
    /// How often a request was carried out.
    ran: &'static AtomicU32,
    request: Data,
    answer: Data,
}

const NOTHING: u64 = 0;
const TAKEN_BACK: u64 = 1;
const NOT_DONE_YET: u64 = 2;

impl Page {
    fn new() -> Page {
        Page { state: word(), lock: word(), ran: word(), request: Data::new(), answer: Data::new() }
    }

    /// Asks, and takes the request back if it is not taken; or dies right after it has asked.
    fn asks(self, what: u64, dies: bool) -> u64 {
        // Acquire: the last asker has gone.
        if self.lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return NOTHING;
        }
        let mut came = NOTHING;
        if page::is_free(self.state) {
            self.request.set(what);
            page::ask(self.state);
            if !dies {
                // SeqCst: as the asker itself looks.
                came = match self.state.load(Ordering::SeqCst) {
                    page::DONE => self.answer.get(),
                    _ if page::take_back(self.state) => TAKEN_BACK,
                    _ => NOT_DONE_YET,
                };
            }
        }
        self.lock.store(0, Ordering::Release); // Release: the kernel gives it up when it dies, too.
        came
    }

    /// The process.
    fn serves(self) {
        for _ in 0..2 {
            if page::take(self.state) {
                self.answer.set(self.request.get() + 1);
                self.ran.fetch_add(1, Ordering::Relaxed); // Relaxed: a count, looked at in the end.
                page::is_done(self.state);
            }
        }
    }
}

#[test]
fn a_request_from_outside_is_done_once_or_taken_back() {
    let meet = |p: Page| {
        let [came, _] = together(
            p,
            [
                |p: Page| p.asks(10, false),
                |p| {
                    p.serves();
                    NOTHING
                },
            ],
        );
        // Relaxed: all is over.
        [came, p.ran.load(Ordering::Relaxed).into()]
    };
    two_reach(3, Page::new, meet, [[TAKEN_BACK, 0], [NOT_DONE_YET, 1], [11, 1]]);
}

#[test]
fn a_request_after_a_dead_requesters_gets_its_own_answer_or_none() {
    let meet = |p: Page| {
        let [_, came, _] = together(
            p,
            [
                |p: Page| p.asks(10, true),
                |p| p.asks(20, false),
                |p| {
                    p.serves();
                    NOTHING
                },
            ],
        );
        // Its own request's answer; never that of the one before.
        came
    };
    three_reach(2, Page::new, meet, [NOTHING, TAKEN_BACK, NOT_DONE_YET, 21]);
}
