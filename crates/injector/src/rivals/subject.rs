//! What the storm asks of a library's object, and what its processes say of themselves.

use std::path::Path;
// SeqCst everywhere here: what a process notes is in one order with what it does, and it costs nothing beside that.
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::board::{Stage, WORDS};
use crate::patience::within;

/// How many work on an object at a time.
pub const WORKERS: usize = 4;
/// The witness's place on the board.
pub const WITNESS: usize = WORKERS;
/// The place of the one that keeps the object.
pub const KEEPER: usize = WORKERS + 1;

/// How many words each place has.
pub const PER_PLACE: usize = 4;
/// Which of them counts turns that came to their end.
pub const TURNS: usize = 0;
/// Turns that were refused.
pub const REFUSED: usize = 1;
/// Whether it may be killed.
pub const READY: usize = 2;
/// The keeper's words: the last number that it has received from each place.
const HEARD: usize = 64;
/// The word that says, not 0, that all are to end; the one that keeps the object ends when it is [`ALL`].
pub const OVER: usize = WORDS - 3;
/// What the one that keeps the object ends by.
pub const ALL: u64 = 2;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Churn {
    /// How many kills a round has, if nothing is found.
    pub kills: u64,
    /// How many rounds, each in a place of its own.
    pub rounds: u64,
    /// Where the random choices begin.
    pub seed: u64,
    /// What a witness has, and how long a process may take to come on.
    pub limit: Duration,
}

/// What became of one round.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// How many were killed.
    pub kills: u64,
    /// Turns that came to their end.
    pub turns: u64,
    /// Turns that ended with an error.
    pub refused: u64,
    /// Processes that ended by themselves in the middle.
    pub fell: u64,
    /// What the last error was, if there was one.
    pub last: Option<String>,
    /// What was found.
    pub wedge: Option<Wedge>,
    /// How long it took.
    pub took: Duration,
}

/// An object that cannot be used any more.
#[derive(Clone, Debug)]
pub struct Wedge {
    /// What the process that tried was told, or that it hung.
    pub said: String,
    /// Whether it could not be used either when no other process was left.
    pub stays: bool,
    /// What the library's last resort did, if it has one and it was wanted.
    pub resort: Option<Result<(), String>>,
}

/// Which storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storm {
    /// Everything is created, opened, dropped and removed.
    Churned,
    /// Somebody keeps it.
    Kept,
    /// Only senders are killed, in mid-stream.
    Steady,
}

impl Storm {
    /// What the table calls it.
    pub fn name(self) -> &'static str {
        match self {
            Storm::Churned => "churned",
            Storm::Kept => "kept",
            Storm::Steady => "steady",
        }
    }
}

/// An object of a library, in a storm. All but `set` and `clean` are called in processes of their own.
pub trait Subject {
    /// What the table calls it.
    fn name(&self) -> &'static str;

    /// Which storm it is in.
    fn storm(&self) -> Storm;

    /// Before a round, in the director, which must not touch the library itself: the round's own directory, empty.
    ///
    /// # Errors
    /// What keeps the round from beginning.
    fn set(&self, home: &Path) -> Result<(), String>;

    /// The life of one that is never killed, in storms that have one.
    fn keep(&self, _here: &mut Here) {}

    /// The life of a worker. It calls [`Here::ready`] when it may be killed, and comes on by [`Here::done`].
    fn work(&self, here: &mut Here);

    /// What a witness must be able to do, once.
    ///
    /// # Errors
    /// Why not.
    fn prove(&self, here: &mut Here) -> Result<(), String>;

    /// What its manual says to do when the object cannot be opened any more and no process is there, if it says so.
    fn last_resort(&self, _here: &mut Here) -> Option<Result<(), String>> {
        None
    }

    /// After a round, in the director, while no process lives: what is left outside the round's directory goes.
    fn clean(&self) {}
}

/// Numbers at random.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `below`.
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

/// Where a process of the storm is, and what it says of itself.
pub struct Here<'a> {
    pub(super) stage: &'a Stage,
    pub(super) place: usize,
    /// The round's directory.
    pub home: &'a Path,
    /// Its own random choices.
    pub dice: Dice,
}

impl Here<'_> {
    fn word(&self, which: usize) -> &'static std::sync::atomic::AtomicU64 {
        self.stage.word(self.place * PER_PLACE + which)
    }

    /// Its place: a worker's number, [`WITNESS`] or [`KEEPER`].
    pub fn place(&self) -> usize {
        self.place
    }

    /// Whether it is to end. The one that keeps the object ends after all others: none loses it before.
    pub fn is_over(&self) -> bool {
        let over = self.stage.word(OVER).load(SeqCst);
        if self.place == KEEPER { over == ALL } else { over != 0 }
    }

    /// How long it may take to get something.
    pub fn limit(&self) -> Duration {
        self.stage.limit
    }

    /// It may be killed.
    pub fn ready(&self) {
        self.word(READY).store(1, SeqCst);
    }

    /// A turn has come to its end, well or with an error.
    pub fn done(&self, turn: Result<(), String>) {
        match turn {
            Ok(()) => {
                self.word(TURNS).fetch_add(1, SeqCst);
            }
            Err(why) => {
                self.word(REFUSED).fetch_add(1, SeqCst);
                self.say(&why);
                // A process that is refused at once would try thousands of times a second.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Turn after turn until the storm is over.
    pub fn turns(&mut self, mut turn: impl FnMut(&mut Here) -> Result<(), String>) {
        self.ready();
        while !self.is_over() {
            let came = turn(self);
            self.done(came);
        }
    }

    /// Leaves words for the director. One that dies here leaves some of them.
    pub fn say(&self, words: &str) {
        // If it cannot be written, it is not heard; the counts are on the board.
        let _ = std::fs::write(self.home.join(format!("said-{}", self.place)), words);
    }

    /// A little pause, of up to so many microseconds, asleep or not.
    pub fn dawdle(&mut self, most: u64) {
        match self.dice.roll(3) {
            0 => std::thread::sleep(Duration::from_micros(self.dice.roll(most))),
            1 => (0..self.dice.roll(most * 20)).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }

    /// The keeper has received this message.
    pub fn hear(&self, message: u64) -> Result<(), String> {
        let (place, number) = read(message)?;
        self.stage.word(HEARD + place).store(number, SeqCst);
        self.done(Ok(()));
        Ok(())
    }

    /// The next message of this place that the keeper has not heard.
    pub fn next(&self) -> u64 {
        message(self.place, self.stage.word(HEARD + self.place).load(SeqCst) + 1)
    }

    /// Sends until the keeper has heard it, for about a second.
    ///
    /// # Errors
    /// What sending says, or that the keeper does not hear.
    pub fn be_heard(&self, mut send: impl FnMut(u64) -> Result<(), String>) -> Result<(), String> {
        let message = self.next();
        let (_, number) = read(message)?;
        let heard = self.stage.word(HEARD + self.place);
        let mut refused = None;
        let came = within(Duration::from_secs(1), || {
            refused = send(message).err();
            refused.is_some() || heard.load(SeqCst) == number
        });
        match refused {
            Some(why) => Err(why),
            None if came => Ok(()),
            None => Err("what was sent was not received for a second".to_owned()),
        }
    }
}

/// What is sent: the sender, a number, and what shows that it is whole.
pub fn message(place: usize, number: u64) -> u64 {
    let low = (number << 4 | place as u64) & u64::from(u32::MAX);
    !low << 32 | low
}

/// The sender, and the number.
///
/// # Errors
/// It is torn.
pub fn read(message: u64) -> Result<(usize, u64), String> {
    let low = message & u64::from(u32::MAX);
    if message >> 32 != !low & u64::from(u32::MAX) || low as usize & 15 > KEEPER {
        return Err(format!("torn: received {message:#x}, which nobody sent"));
    }
    Ok((low as usize & 15, low >> 4))
}

/// Tries until it has worked, for about a second.
///
/// # Errors
/// What it failed with at last, or that nothing came of it.
pub fn for_a_second(what: &str, mut once: impl FnMut() -> Result<bool, String>) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(1);
    while !once()? {
        if Instant::now() > end {
            return Err(format!("{what} for a second"));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_tells_who_sent_it_and_a_torn_one_that_it_is() {
        for place in [0, WITNESS, KEEPER] {
            assert_eq!(read(message(place, 77)), Ok((place, 77)));
            assert!(read(message(place, 77) ^ 1 << 40).is_err());
        }
        assert!(read(0).is_err());
    }
}
