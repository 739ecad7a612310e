//! The soak of tubes: random SIGKILLs of senders and receivers, with messages in their hands and between.
//!
//! The processes are in [`messages`](super::messages). Each that is killed is followed by another at its place. At the end no process sends
//! any more, all end by themselves, and a survivor receives what is left and tries every slot. Then the ledger must add up:
//!
//! | | |
//! |---|---|
//! | lost | a sent message has not come; one may be missing for each receiver killed while it copied, and for each dropped after its second receiver's death |
//! | doubled | one has come twice without saying so, or has said so and its first receiver was not killed with it in hand |
//! | torn | one contradicts itself, or was never sent |
//! | out of order | one has come after a later one of its sender, to the same receiver |
//! | hung | a process made no turn within the watchdog, or did not end |
//! | failed | one ended with an error of its own |

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use chappe::tube::named::{NotReceived, NotSent, Tube, TubeOptions};
use chappe::{Arena, ArenaOptions};

use super::ask;
use super::dice::Dice;
use super::messages::{Board, EXCUSED, GOT, Life, MARKED, Message, SENT, SIX, Share, TRIED, TUBES, TWICE};
use crate::board::{Fault, Stage, Verdict, shared, within};
use crate::trial::Child;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// How many kills.
    pub kills: u64,
    /// Where the random choices begin.
    pub seed: u64,
    /// The watchdog.
    pub limit: Duration,
    /// Receivers make a known mistake, by which messages are lost: they give back first what they note then.
    pub forgetful: bool,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    /// Senders killed.
    pub senders: u64,
    /// Receivers killed.
    pub receivers: u64,
    /// Messages sent, as their senders know.
    pub sent: u64,
    /// Messages received.
    pub received: u64,
    /// Of them: sent by one that was killed before it knew.
    pub unknown: u64,
    /// Of them: came marked.
    pub marked: u64,
    /// Messages that were sent and have not come.
    pub missing: u64,
    /// Receivers that were killed while they copied.
    pub undecided: u64,
    /// Messages that were dropped because their second receiver had died.
    pub dropped: u64,
    /// More missing than may be.
    pub lost: u64,
    /// See above.
    pub doubled: u64,
    /// See above.
    pub torn: u64,
    /// See above.
    pub order: u64,
    /// See above.
    pub hung: u64,
    /// See above.
    pub failed: u64,
    /// What the survivor found at the end.
    pub rest: Option<(Fault, String)>,
    /// Times the backstop fired.
    pub backstops: u64,
    /// How long it took.
    pub took: Duration,
}

impl Sum {
    /// Whether something happened and nothing was found.
    pub fn clean(&self) -> bool {
        let found = self.lost + self.doubled + self.torn + self.order + self.hung + self.failed + self.backstops;
        found == 0 && self.rest.is_none() && self.received > 0 && self.senders + self.receivers > 0
    }

    /// One line.
    pub fn summary(&self, seed: u64) -> String {
        let slots: u32 = TUBES.iter().map(|(_, slots, _)| slots).sum();
        let rest = match &self.rest {
            None => format!("all {slots} slots back"),
            Some((fault, what)) => format!("{fault:?}: {what}"),
        };
        format!(
            "soak of tubes: {} kills ({} senders, {} receivers), {} messages sent, {} received ({} of senders killed before \
             they knew, {} marked), {} missing (at most {}: {} receivers killed copying, {} dropped), {} lost, {} doubled, {} \
             torn, {} out of order, {} hung, {} failed, {rest}, {} backstops, {:.1} s, seed {seed}",
            self.senders + self.receivers,
            self.senders,
            self.receivers,
            self.sent,
            self.received,
            self.unknown,
            self.marked,
            self.missing,
            self.undecided + self.dropped,
            self.undecided,
            self.dropped,
            self.lost,
            self.doubled,
            self.torn,
            self.order,
            self.hung,
            self.failed,
            self.backstops,
            self.took.as_secs_f64()
        )
    }
}

struct Director {
    storm: Storm,
    board: &'static Board,
    dice: Dice,
    /// The process at each place, and when it last was seen to make progress, after how many turns.
    cast: Vec<(Option<Child>, Instant, u64)>,
    /// Receivers that were killed while they copied, by [`Share`].
    undecided: [u64; 2],
    sum: Sum,
}

/// Soaks. The environment's `CHAPPE_DIR` is the caller's, for all that are started; no arena is there yet.
///
/// # Errors
/// What keeps the stage from being set.
pub fn soak(storm: Storm) -> Result<Sum, String> {
    let start = Instant::now();
    // SAFETY: all its fields are atomics.
    let board: &'static Board = unsafe { shared() };
    let stage = Stage::new(storm.limit);
    ask(&stage, "setting the stage", || {
        let options = ArenaOptions { members: Some(128), objects: Some(8), cells: Some(4), data: Some(4096) };
        Arena::create("default", &options).map_err(|e| (Fault::Torn, e.to_string()))?;
        for (name, slots, kind) in TUBES {
            let options = TubeOptions { slots, kind, ..TubeOptions::default() };
            Tube::<Message>::create(name, &options).map_err(|e| (Fault::Torn, e.to_string()))?;
        }
        Ok(())
    })
    .map_err(|(_, text)| text)?;
    let cast = (0..2 * SIX).map(|_| (None, start, 0)).collect();
    let mut director =
        Director { storm, board, dice: Dice::new(storm.seed), cast, undecided: [0; 2], sum: Sum::default() };
    director.blow();
    director.calm();
    let mut sum = std::mem::take(&mut director.sum);
    sum.rest = ask(&stage, "the count", || count(&stage, board)).err();
    let dropped = [0, 1].map(|share: usize| board.dropped[share].load(SeqCst));
    sum.dropped = dropped.iter().sum();
    sum.sent = board.count(SENT, 0);
    sum.marked = board.count(MARKED, 0);
    sum.received = board.count(TRIED, 0) - board.count(TRIED, GOT | MARKED);
    sum.unknown = sum.received - (sum.sent - board.count(SENT, GOT | MARKED));
    sum.missing = board.count(SENT, GOT | MARKED);
    sum.undecided = director.undecided.iter().sum();
    for share in [Share::Choices, Share::Single] {
        let most = director.undecided[share as usize] + dropped[share as usize];
        sum.lost += board.count_of(share, SENT, GOT | MARKED).saturating_sub(most);
    }
    // Once more to a receiver that is not told, or marked after it was noted: its first receiver was killed with it in hand.
    sum.doubled = board.doubled.load(SeqCst) + board.count(TWICE, EXCUSED) + board.count(GOT | MARKED, EXCUSED);
    sum.torn = board.torn.load(SeqCst);
    sum.order = board.order.load(SeqCst);
    let noted: u64 = board.places.iter().map(|p| p.backstops.load(SeqCst)).sum();
    sum.backstops += noted + stage.board().backstops.load(SeqCst);
    sum.took = start.elapsed();
    Ok(sum)
}

impl Director {
    fn start(&mut self, place: usize) {
        let (board, seed, forgetful) = (self.board, self.dice.seed(), self.storm.forgetful);
        board.places[place].attached.store(0, SeqCst);
        let child = Child::fork(|| {
            if let Err(e) = Life::new(board, place, seed, forgetful).live() {
                eprintln!("at place {place}: {e}");
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(1) };
            }
        });
        self.cast[place] = (Some(child), Instant::now(), u64::MAX);
    }

    /// All send and receive, and one is killed every few milliseconds.
    fn blow(&mut self) {
        (0..2 * SIX).for_each(|place| self.start(place));
        while self.sum.senders + self.sum.receivers < self.storm.kills {
            let pause = 1_000 + self.dice.roll(7_000);
            std::thread::sleep(Duration::from_micros(pause));
            let place = self.dice.roll(2 * SIX as u64) as usize;
            // One that has just been started has nothing in hand: now and then that is tried too.
            let is_there = self.board.places[place].attached.load(SeqCst) != 0;
            if is_there || self.dice.roll(8) == 0 {
                self.strike(place);
            }
            if !self.all_well() {
                return;
            }
        }
    }

    fn strike(&mut self, place: usize) {
        let Some(mut child) = self.cast[place].0.take() else { return };
        child.kill();
        let said = &self.board.places[place];
        self.sum.backstops += said.backstops.swap(0, SeqCst);
        if place < SIX {
            self.sum.senders += 1;
        } else {
            self.sum.receivers += 1;
            self.undecided[Share::of(place) as usize] += u64::from(said.copies.swap(0, SeqCst));
            self.board.excuse(place);
        }
        self.start(place);
    }

    /// Whether none has ended by itself, and all come on.
    fn all_well(&mut self) -> bool {
        for (place, (child, since, turns)) in self.cast.iter_mut().enumerate() {
            if child.as_mut().is_some_and(|c| c.ended().is_some()) {
                self.sum.failed += 1;
                return false;
            }
            let now = self.board.places[place].turns.load(SeqCst);
            if now != *turns {
                (*since, *turns) = (Instant::now(), now);
            } else if since.elapsed() > self.storm.limit {
                self.sum.hung += 1;
                eprintln!("hangs: the process at place {place}");
            }
        }
        self.sum.hung == 0
    }

    /// None sends any more; all end by themselves, the senders first.
    fn calm(&mut self) {
        self.board.stop.store(1, SeqCst);
        let limit = self.storm.limit;
        let cast = &mut self.cast;
        within(limit, || cast.iter_mut().all(|(child, ..)| child.as_mut().is_none_or(|c| c.ended().is_some())));
        for (place, (child, ..)) in self.cast.iter_mut().enumerate() {
            match child.as_mut().map(Child::ended) {
                Some(Some(0)) | None => {}
                Some(Some(_)) => self.sum.failed += 1,
                Some(None) => {
                    self.sum.hung += 1;
                    eprintln!("does not end: the process at place {place}");
                }
            }
            // What hangs is killed.
            *child = None;
        }
    }
}

/// Receives what is left, and tries every slot.
fn count(stage: &Stage, board: &Board) -> Verdict {
    let torn = |e: &dyn std::fmt::Display| (Fault::Torn, e.to_string());
    for (which, (name, slots, _)) in TUBES.into_iter().enumerate() {
        chappe::doctor().map_err(|e| torn(&e))?;
        let tube = Tube::<Message>::open(name).map_err(|e| torn(&e))?;
        let (out, into) = (tube.sender().map_err(|e| torn(&e))?, tube.receiver().map_err(|e| torn(&e))?);
        let empty = || loop {
            match into.try_borrow() {
                Ok(loan) => {
                    // Zeros are not in the ledger: see below.
                    if *loan != Message::default() {
                        board.receive(None, &loan, which, Some(loan.again()));
                    }
                    drop(loan);
                }
                Err(NotReceived::Empty) => return Ok(()),
                Err(e) => return Err(torn(&e)),
            }
        };
        let room = || -> Result<u32, (Fault, String)> {
            let mut room = 0;
            loop {
                match out.try_send(Message::default()) {
                    Ok(()) => room += 1,
                    Err(NotSent::Full(_)) => break,
                    Err(e) => return Err(torn(&e)),
                }
            }
            empty().map(|()| room)
        };
        // Somebody may just be seeing to the dead: so more than once, and what comes of it is received.
        let (mut last, mut failed) = (0, None);
        let whole = stage.until(|| {
            let tried = empty().and_then(|()| room());
            match tried {
                Ok(now) => last = now,
                Err(e) => failed = Some(e),
            }
            failed.is_some() || last == slots
        });
        if let Some(e) = failed {
            return Err(e);
        }
        if !whole {
            return Err((Fault::Leaked, format!("{name} has room for {last} messages, not {slots}")));
        }
        let info = tube.info().map_err(|e| torn(&e))?;
        board.dropped[Share::of_tube(which) as usize].fetch_add(info.dropped, SeqCst);
        if info.messages > 0 || info.senders.len() + info.receivers.len() != 2 {
            return Err((Fault::Torn, format!("at last {name} is {info:?}")));
        }
    }
    stage.board().backstops.fetch_add(chappe::recoveries().backstops, SeqCst);
    Ok(())
}
