//! What a sweep counted, and how it goes from the director that counted to the one that prints.
//!
//! | column | counts |
//! |---|---|
//! | instr. | the instructions of the operation, in the run without a kill |
//! | kill points | those of them before which a death has been tried, by itself or with others of its state: see [`sweep`](mod@crate::sweep) |
//! | states | the deaths that survivors can tell apart |
//! | trials | casts that lived and died: the recorded run, deaths, those that went on, double faults |
//! | kills | trials in which the victim came to its point and died there, and no other process did |
//! | double faults | trials in which the recoverer of its death came to a point of its own, and died as well: [`double`](crate::double) |
//! | wedged | trials after which a survivor did not get on within the watchdog, dead or stopped though the victim was |
//! | torn | after which state contradicted itself, a name was missing or too many, or an operation failed without a reason |
//! | lost | after which a permit, a unit, a message or a notification was missing that the victim cannot have had |
//! | duplicated | after which two had what only one can have: a permit, a unit, a message, two arms of one choice |
//! | leaked | after which a slot (of members, objects, cells, data, a tube's) stayed out of use when all dead had been swept |
//! | backstop fired | the times that a survivor found a death by its look once a second alone, which nothing had woken it for |
//! | told | the times that a process that locked a mutex was told that its holder had died: no fault, it saves from torn data |
//! | held up | trials in which a process came while the victim was stopped, and had to wait until that went on or died |
//! | worst ms | the longest from the last kill until those that waited had got on, or all was found to be there |
//!
//! One trial counts as one fault at most: the first that is seen, since others follow from it. *Held up* is a fault (wedged) unless the
//! scenario has a reason, which stands below the table; so where it is 0 no process starves. Recovery ends when a survivor *notices* that all
//! is there, so it contains the survivors' own waits: of Plan 9's words up to two seconds, since a sleeper on a word in a program's own
//! memory is told of no death, and looks again that often.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::board::Fault;
use crate::trial::Trial;

/// So many findings are told in words.
const WORDS: usize = 8;

/// What a sweep counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The operation.
    pub name: String,
    /// Its surroundings.
    pub scene: String,
    /// Instructions of the operation in the first run.
    pub instructions: u64,
    /// Of how many of them it is known what a death before them does.
    pub points: u64,
    /// How many states those are, which survivors can tell apart.
    pub states: u64,
    /// Trials made.
    pub trials: u64,
    /// Trials in which the victim died inside the operation, at its point, and no other process.
    pub kills: u64,
    /// Trials in which the one that made up for it died too, at its own point.
    pub double: u64,
    /// Trials after which a survivor did not get on.
    pub wedged: u64,
    /// Trials after which state contradicted itself.
    pub torn: u64,
    /// Trials after which a permit was missing.
    pub lost: u64,
    /// Trials after which a permit had two holders.
    pub doubled: u64,
    /// Trials after which a slot stayed out of use.
    pub leaked: u64,
    /// Times the backstop fired.
    pub backstops: u64,
    /// Times a survivor that locked a mutex was told of its holder's death: no fault, but what saves it from torn data.
    pub told: u64,
    /// Trials in which a process that came while the victim was stopped had to wait until that went on or died.
    pub held: u64,
    /// Why that may be.
    pub why: String,
    /// The longest time from a kill until those that waited had got on, or all was found to be there.
    pub worst: Duration,
    /// How long it took.
    pub took: Duration,
    /// The system refuses ptrace: nothing was tried.
    pub refused: bool,
    /// The first findings, in words.
    pub findings: Vec<String>,
    /// The points at which the victim's death was found to do harm: address, and the so-manieth time there. Only for comparisons of sweeps.
    pub faulty: BTreeSet<(u64, u32)>,
}

impl Tally {
    /// Of an operation in its surroundings, nothing counted yet.
    pub fn of_scenario(name: String, scene: String) -> Tally {
        Tally { name, scene, ..Tally::default() }
    }

    /// Whether something was tried and nothing was found.
    pub fn clean(&self) -> bool {
        self.trials > 0 && !self.refused && self.faults() == 0 && self.backstops == 0
    }

    /// Trials with a fault of any kind.
    pub fn faults(&self) -> u64 {
        self.wedged + self.torn + self.lost + self.doubled + self.leaked
    }

    /// Trials with a fault of this kind.
    pub fn of(&self, fault: Fault) -> u64 {
        match fault {
            Fault::Wedged => self.wedged,
            Fault::Torn => self.torn,
            Fault::Lost => self.lost,
            Fault::Doubled => self.doubled,
            Fault::Leaked => self.leaked,
        }
    }

    /// Counts one trial. Whether it found a fault.
    pub fn count(&mut self, trial: &Trial, whence: &str) -> bool {
        self.trials += 1;
        self.kills += u64::from(trial.reached && !trial.doubled);
        self.double += u64::from(trial.doubled);
        self.backstops += trial.backstops;
        self.told += trial.told;
        self.held += u64::from(trial.held);
        self.worst = self.worst.max(trial.recovery);
        self.refused |= trial.refused;
        for verdict in [&trial.before, &trial.verdict] {
            if let Err((fault, text)) = verdict {
                match fault {
                    Fault::Wedged => self.wedged += 1,
                    Fault::Torn => self.torn += 1,
                    Fault::Lost => self.lost += 1,
                    Fault::Doubled => self.doubled += 1,
                    Fault::Leaked => self.leaked += 1,
                }
                // One fault a trial: the second is a consequence, or the reason.
                let second = trial.verdict.as_ref().err().filter(|(_, second)| second != text);
                let second = second.map_or(String::new(), |(_, text)| format!("; survivors: {text}"));
                self.note(format!("{whence}: {fault:?}: {text}{second}"));
                return true;
            }
        }
        if trial.backstops > 0 {
            self.note(format!("{whence}: the backstop fired {} times", trial.backstops));
        }
        false
    }

    /// Adds up; findings stay where they are.
    pub fn add(&mut self, other: &Tally) {
        for (mine, its) in self.counts_mut().into_iter().zip(other.counts()) {
            *mine += its;
        }
        self.worst = self.worst.max(other.worst);
        self.took += other.took;
        self.refused |= other.refused;
    }

    /// Notes a finding, if there are not many yet.
    pub fn note(&mut self, finding: String) {
        if self.findings.len() < WORDS {
            self.findings.push(finding);
        }
    }

    fn counts(&self) -> [u64; 14] {
        let mut copy = self.clone();
        copy.counts_mut().map(|count| *count)
    }

    fn counts_mut(&mut self) -> [&mut u64; 14] {
        [
            &mut self.instructions,
            &mut self.points,
            &mut self.states,
            &mut self.trials,
            &mut self.kills,
            &mut self.double,
            &mut self.wedged,
            &mut self.torn,
            &mut self.lost,
            &mut self.doubled,
            &mut self.leaked,
            &mut self.backstops,
            &mut self.told,
            &mut self.held,
        ]
    }

    /// As one line, for [`Tally::from_line`]. The faulty points stay behind.
    pub fn to_line(&self) -> String {
        let plain = |text: &str| text.replace(['\t', '\n'], " ");
        let mut words = vec![plain(&self.name), plain(&self.scene)];
        words.extend(self.counts().map(|count| count.to_string()));
        let times = [self.worst, self.took].map(|time| (time.as_nanos() as u64).to_string());
        words.extend(times);
        words.push(u64::from(self.refused).to_string());
        words.push(plain(&self.why));
        words.extend(self.findings.iter().map(|finding| plain(finding)));
        words.join("\t")
    }

    /// What [`Tally::to_line`] has written.
    pub fn from_line(line: &str) -> Option<Tally> {
        let mut words = line.trim_end_matches('\n').split('\t');
        let mut tally = Tally::of_scenario(words.next()?.to_owned(), words.next()?.to_owned());
        for count in tally.counts_mut() {
            *count = words.next()?.parse().ok()?;
        }
        tally.worst = Duration::from_nanos(words.next()?.parse().ok()?);
        tally.took = Duration::from_nanos(words.next()?.parse().ok()?);
        tally.refused = words.next()? != "0";
        tally.why = words.next()?.to_owned();
        tally.findings = words.map(str::to_owned).collect();
        Some(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial() -> Trial {
        Trial {
            verdict: Ok(()),
            before: Ok(()),
            backstops: 0,
            told: 0,
            held: false,
            path: Vec::new(),
            sleeps: 0,
            reached: true,
            doubled: false,
            recovery: Duration::ZERO,
            refused: false,
        }
    }

    #[test]
    fn a_trial_is_a_kill_or_a_double_fault_or_neither() {
        let mut tally = Tally::default();
        assert!(!tally.clean(), "nothing was tried");
        tally.count(&trial(), "a kill");
        tally.count(&Trial { doubled: true, ..trial() }, "a double fault");
        tally.count(&Trial { reached: false, ..trial() }, "never came there");
        assert_eq!((tally.trials, tally.kills, tally.double), (3, 1, 1));
        assert!(tally.clean() && tally.findings.is_empty());
    }

    #[test]
    fn a_trial_is_one_fault_at_most_and_each_kind_has_its_column() {
        for fault in [Fault::Wedged, Fault::Torn, Fault::Lost, Fault::Doubled, Fault::Leaked] {
            let mut tally = Tally::default();
            let seen = Trial {
                before: Err((fault, "first".to_owned())),
                verdict: Err((Fault::Torn, "then".to_owned())),
                ..trial()
            };
            assert!(tally.count(&seen, "here"));
            assert_eq!((tally.of(fault), tally.faults(), tally.clean()), (1, 1, false), "{fault:?}");
            assert_eq!(tally.findings, [format!("here: {fault:?}: first; survivors: then")]);
            assert!(!tally.count(&trial(), "there"));
            assert_eq!((tally.of(fault), tally.trials), (1, 2));
        }
    }

    #[test]
    fn harmless_events_are_counted_and_a_backstop_is_not_clean() {
        let mut tally = Tally::default();
        tally.count(&Trial { told: 2, held: true, recovery: Duration::from_millis(3), ..trial() }, "one");
        tally.count(&Trial { told: 1, held: false, recovery: Duration::from_millis(2), ..trial() }, "two");
        assert_eq!((tally.told, tally.held, tally.worst), (3, 1, Duration::from_millis(3)));
        assert!(tally.clean());
        assert!(!tally.count(&Trial { backstops: 2, ..trial() }, "three"));
        assert!(!tally.clean() && tally.backstops == 2 && tally.faults() == 0);
        assert_eq!(tally.findings, ["three: the backstop fired 2 times"]);
    }

    #[test]
    fn a_sum_has_every_count_and_the_worst_time() {
        let mut one = Tally::of_scenario("send".to_owned(), "alone".to_owned());
        for (at, count) in (1..).zip(one.counts_mut()) {
            *count = at;
        }
        (one.worst, one.took) = (Duration::from_millis(5), Duration::from_secs(1));
        let other = Tally { worst: Duration::from_millis(4), refused: true, ..one.clone() };
        let mut sum = Tally::default();
        sum.add(&one);
        sum.add(&other);
        assert_eq!(sum.counts(), one.counts().map(|count| 2 * count));
        assert_eq!((sum.worst, sum.took, sum.refused), (one.worst, 2 * one.took, true));
    }

    #[test]
    fn a_tally_goes_through_a_line_whole() {
        let mut tally = Tally::of_scenario("send, full".to_owned(), "alone".to_owned());
        for (at, count) in (1..).zip(tally.counts_mut()) {
            *count = at;
        }
        tally.worst = Duration::from_micros(7);
        tally.took = Duration::from_millis(9);
        tally.refused = true;
        tally.why = "it has the lock".to_owned();
        tally.findings = vec!["at 7: Lost: one".to_owned(), "at 9".to_owned()];
        assert_eq!(Tally::from_line(&tally.to_line()).as_ref(), Some(&tally));
        tally.note("two\nlines".to_owned());
        assert_eq!(Tally::from_line(&tally.to_line()).unwrap().findings[2], "two lines");
        assert_eq!(Tally::from_line("a\tb\t1"), None);
    }
}
