//! A clock that keeps the time of another machine's, asked over a network (synthesis, 6.4.3).
//!
//! We ask, the peer answers with its time: an [`Exchange`] of four times, as NTP has them (RFC 5905). What the network adds to a question or an answer is
//! never less than nothing, and often far more. So the least of many says where the peer's clock is, and neither a mean nor the newest does.
//!
//! ```text
//!            peer   ------ received --- answered ------->
//!                         /                   \            ahead: received minus what we thought the peer's time was at `sent`
//!                    there                     back        behind: answered minus what we thought it was at `back`
//!                       /                       \
//!            we     sent ---------------------- back --->  the peer is off by o: ahead = o + there, behind = o - back
//! ```
//!
//! Of a *window* of exchanges the least `ahead` and the greatest `behind` are taken, each by itself: the question that was the fastest is hardly ever that
//! with the fastest answer. Their mean is where the peer is from our thought, and [`Locked`] is told that, as a telling at the window's end. With n exchanges
//! and a jitter of up to j in each direction the mean is off by some j/2n; the exchange with the least round trip, which NTP takes, by some j/4 sqrt(n).
//!
//! - I1: the peer is within [`Far::bound`] of [`Far::at`] at the window's end, whatever the network did and the loop thinks: neither direction takes less than no
//!   time. That is certain as long as the peer's clock gains or loses no more on ours than [`Far::apart`] says, since what an exchange told is as old as the
//!   window at its end.
//! - I2: what both directions have in common cancels. If one always takes longer, half of the difference remains, and nobody can see it from here.
//! - I3: windows begin with four exchanges and double up to the full one. Within a window our thought goes on at the loop's rate, so a first rate that is wrong by
//!   200 ppm costs 200 us a second of the window: the short ones teach the rate. A window that contradicts I1 is not counted, and short ones begin again.
//!
//! The peer is whatever answers with its time in fractions of a second: a program on the machine of an engine, say. etcd itself tells its time in whole seconds
//! alone (the `Date` of an HTTP answer), too coarse for an exchange.
//!
//! An exchange that was lost is not told. One whose times cannot be (an answer before its question, a peer that was set back while it answered) is not counted.
//! A peer that is set to another time is followed as [`Locked`] follows a jump.

use crate::Locked;

/// A question and its answer. `sent` and `back` are by our clock, the others by the peer's; all in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// When we asked.
    pub sent: f64,
    /// When the peer had the question.
    pub received: f64,
    /// When the peer answered.
    pub answered: f64,
    /// When we had the answer.
    pub back: f64,
}

/// A clock that is locked to that of a peer.
///
/// ```
/// use chappe_feedback::{Exchange, Far, Locked};
///
/// // 1,000 ticks a second of the peer's, whose clock is 5,000 s ahead and 80 ppm fast; an answer takes 0.1 to 1.1 ms.
/// let (mut far, mut late) = (Far::new(Locked::new(1_000.0, 1.0), 64), 0.0);
/// for k in 0..6_000 {
///     let sent = f64::from(k) * 0.02;
///     late = (late + 0.000_618) % 0.001;
///     let peer = |own: f64| 5_000.0 + own * 1.000_08;
///     let (there, back) = (sent + 0.000_1 + late, sent + 0.000_3 + late + (late * 7.0) % 0.001);
///     far.exchange(Exchange { sent, received: peer(there), answered: peer(there + 0.000_1), back });
/// }
/// assert!((far.at(120.0).unwrap() - (5_000.0 + 120.0 * 1.000_08)).abs() < 50e-6);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Far {
    clock: Locked,
    /// The peer's time at the clock's unit 0.
    zero: Option<f64>,
    /// Exchanges of a full window, and of this one.
    full: u32,
    window: u32,
    seen: u32,
    /// The least and the greatest of this window.
    ahead: f64,
    behind: f64,
    /// The same from our own clock, which the loop has no part in.
    most: f64,
    least: f64,
    /// When it began.
    began: f64,
    /// How far the two rates may be apart.
    apart: f64,
    bound: f64,
}

/// Exchanges of the first window.
const FIRST: u32 = 4;
/// What two clocks of computers may be apart: NTP supposes as much.
const APART: f64 = 500e-6;

impl Far {
    /// A clock with these ticks a second of the peer's (`Locked::new(HZ, 1.0)`), which looks at `window` exchanges at a time.
    pub fn new(clock: Locked, window: u32) -> Far {
        let none = (f64::INFINITY, f64::NEG_INFINITY);
        Far {
            clock,
            zero: None,
            full: window.max(1),
            window: FIRST.min(window.max(1)),
            seen: 0,
            ahead: none.0,
            behind: none.1,
            most: none.0,
            least: none.1,
            began: 0.0,
            apart: APART,
            bound: f64::INFINITY,
        }
    }

    /// The peer's clock gains or loses at most so many millionths on ours, for certain; 500 if nothing is said.
    pub fn apart(mut self, ppm: f64) -> Far {
        self.apart = ppm * 1e-6;
        self
    }

    /// The peer has answered.
    pub fn exchange(&mut self, of: Exchange) {
        if of.back < of.sent || of.answered < of.received {
            return;
        }
        let Some(zero) = self.zero else {
            self.clock.reference(of.back, 0.0);
            self.zero = Some(of.answered);
            return;
        };
        let thought = |own: f64| self.clock.units_at(own).unwrap_or(0.0);
        self.ahead = self.ahead.min(of.received - zero - thought(of.sent));
        self.behind = self.behind.max(of.answered - zero - thought(of.back));
        self.most = self.most.min(of.received - of.sent);
        self.least = self.least.max(of.answered - of.back);
        if self.seen == 0 {
            self.began = of.sent;
        }
        self.seen += 1;
        if self.seen < self.window {
            return;
        }
        let (off, units) = (f64::midpoint(self.ahead, self.behind), thought(of.back) - self.clock.units());
        let bound = (self.ahead - self.behind) / 2.0;
        let older = self.apart * (of.back - self.began);
        let (least, most) = (of.back + self.least - older, of.back + self.most + older);
        // Clocks that are further apart than was said, or a peer that was set: nothing is certain.
        let certain = |at: f64| if least > most { f64::INFINITY } else { (at - least).max(most - at) };
        (self.seen, self.ahead, self.behind) = (0, f64::INFINITY, f64::NEG_INFINITY);
        (self.most, self.least) = (f64::INFINITY, f64::NEG_INFINITY);
        // It contradicts I1: the peer was set, or the rate is not yet known well enough for so long a window. The shortest counts in any case.
        let shortest = FIRST.min(self.full);
        if bound < 0.0 && self.window > shortest {
            (self.window, self.bound) = (shortest, certain(zero + thought(of.back)));
            return;
        }
        self.clock.reference(of.back, units + off);
        self.bound = certain(zero + self.clock.units_at(of.back).unwrap_or(0.0));
        self.window = (self.window * 2).min(self.full);
    }

    /// The peer's time when ours is `own`; nothing before its first answer.
    pub fn at(&self, own: f64) -> Option<f64> {
        Some(self.zero? + self.clock.units_at(own)?)
    }

    /// How far the peer's time can have been from [`Far::at`] at the end of the last window, for certain (I1); infinite before the first one, and after one that
    /// contradicts what [`Far::apart`] says.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// The clock, whose ticks are due and made.
    pub fn clock(&mut self) -> &mut Locked {
        &mut self.clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Random;

    /// A link to a peer whose clock is far ahead and off by `ppm`, which is asked 50 times a second: what it adds in each direction, at a time.
    struct Link<'a> {
        ppm: f64,
        adds: &'a mut dyn FnMut(&mut Random, f64, bool) -> f64,
        /// What the peer's clock is set to besides, at a time.
        set: fn(f64) -> f64,
    }

    const JITTER: f64 = 1e-3;

    fn jitter(random: &mut Random, _: f64, _: bool) -> f64 {
        100e-6 + random.within(0.0, JITTER)
    }

    impl Link<'_> {
        fn peer(&self, own: f64) -> f64 {
            7e6 + own * (1.0 + self.ppm * 1e-6) + (self.set)(own)
        }

        /// Ten minutes of it: how far our thought came from the peer's time at worst, where `counts` says that it is looked at.
        fn worst(&mut self, far: &mut Far, counts: impl Fn(f64) -> bool) -> f64 {
            let (mut random, mut worst) = (Random::new(643), 0.0f64);
            for k in 0..30_000 {
                let sent = f64::from(k) * 0.02;
                let there = sent + (self.adds)(&mut random, sent, true);
                let back = there + 20e-6 + (self.adds)(&mut random, sent, false);
                if far.at(sent).is_some() && counts(sent) {
                    worst = worst.max((far.at(sent).unwrap() - self.peer(sent)).abs());
                }
                // One of twenty is lost.
                if random.within(0.0, 20.0) >= 1.0 {
                    far.exchange(Exchange {
                        sent,
                        received: self.peer(there),
                        answered: self.peer(there + 20e-6),
                        back,
                    });
                    if far.seen == 0 && far.at(back).is_some() {
                        let off = (far.at(back).unwrap() - self.peer(back)).abs();
                        assert!(
                            off <= far.bound() + 1e-8,
                            "at {back} s: off by {off}, and {} was certain",
                            far.bound()
                        );
                    }
                }
            }
            worst
        }
    }

    fn far(window: u32) -> Far {
        Far::new(Locked::new(1_000.0, 1.0).bandwidth(0.05), window)
    }

    #[test]
    fn a_peers_time_is_kept_within_50_us_over_a_millisecond_of_jitter() {
        for ppm in [-200.0, 0.0, 50.0, 200.0] {
            let mut far = far(64).apart(220.0);
            let worst = Link { ppm, adds: &mut jitter, set: |_| 0.0 }.worst(&mut far, |at| at > 30.0);
            assert!(worst < 50e-6, "{ppm} ppm: {:.1} us", worst * 1e6);
            assert!((far.clock().ppm() - ppm).abs() < 5.0 && far.clock().jumps() == 0, "{}", far.clock().ppm());
            assert!(far.bound() < 1e-3, "{}", far.bound());
        }
    }

    #[test]
    fn exchanges_one_at_a_time_keep_no_time_within_50_us() {
        // What shows that the test above can fail: each exchange is believed as it comes.
        let worst = Link { ppm: 50.0, adds: &mut jitter, set: |_| 0.0 }.worst(&mut far(1), |at| at > 30.0);
        assert!(worst > 50e-6, "{:.1} us", worst * 1e6);
    }

    #[test]
    fn a_link_that_is_busy_one_way_moves_the_clock_by_no_more_than_the_bound() {
        // A second long each ten, the first ones as well, questions wait for 5 ms behind others.
        let mut busy = |random: &mut Random, at: f64, there: bool| {
            jitter(random, at, there) + if there && at % 10.0 < 1.0 { 5e-3 } else { 0.0 }
        };
        let worst = Link { ppm: 50.0, adds: &mut busy, set: |_| 0.0 }.worst(&mut far(128), |at| at > 60.0);
        assert!(worst < 50e-6, "a window of 2.5 s has enough others: {:.1} us", worst * 1e6);
        // All questions take 2 ms longer: half of it remains, and is within the bound.
        let mut uneven =
            |random: &mut Random, at: f64, there: bool| jitter(random, at, there) + if there { 2e-3 } else { 0.0 };
        let mut far = far(64);
        let worst = Link { ppm: 50.0, adds: &mut uneven, set: |_| 0.0 }.worst(&mut far, |at| at > 30.0);
        assert!(worst > 0.9e-3 && worst < far.bound() + 50e-6, "{worst} {}", far.bound());
    }

    #[test]
    fn a_peer_that_is_set_to_another_time_is_followed() {
        let mut far = far(64);
        let set = |own: f64| if own > 300.0 { -10.0 } else { 0.0 };
        let worst =
            Link { ppm: 50.0, adds: &mut jitter, set }.worst(&mut far, |at| at > 30.0 && (at < 300.0 || at > 330.0));
        assert!(worst < 50e-6 && far.clock().jumps() == 1, "{:.1} us, {} jumps", worst * 1e6, far.clock().jumps());
    }

    #[test]
    fn times_that_cannot_be_are_not_counted() {
        let mut far = far(1);
        let good = |at: f64| Exchange { sent: at, received: at + 1.0, answered: at + 1.0, back: at };
        for at in [0.0, 1.0, 2.0] {
            far.exchange(good(at));
            far.exchange(Exchange { back: at - 1.0, ..good(at) });
            far.exchange(Exchange { answered: at - 5.0, ..good(at) });
        }
        assert!((far.at(3.0).unwrap() - 4.0).abs() < 1e-9, "{far:?}");
    }
}
