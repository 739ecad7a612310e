//! What can happen next in a virtual world, and how a whole schedule is written down as a token.
//!
//! A schedule is the sequence of events chosen at its decisions. Since the world is deterministic, it is enough
//! to write the *deviations*: the decisions where something other than the default was chosen, each anchored to
//! the thread that ran last, how many steps it had made, and how many decisions had been taken since. An anchor
//! of that kind survives the removal of an earlier deviation, so that a failure can be made smaller.

use std::fmt::Write as _;

/// One thing that happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// The thread makes its next step.
    Run(u8),
    /// A thread of a process that was killed, or that has exited, dies.
    Die(u8),
    /// The kernel marks the next word that the dead thread held.
    Mark(u8),
    /// The last of the process goes: its files, its locks, its memory; its pidfd becomes readable.
    Gone(u8),
    /// The thread's wait comes to its deadline.
    Fire(u8),
    /// The thread's wait is interrupted.
    Spurious(u8),
    /// SIGKILL.
    Kill(u8),
    /// SIGSTOP.
    Stop(u8),
    /// SIGCONT.
    Resume(u8),
    /// A process that waited for the others to be done begins.
    Start(u8),
    /// The thread's oldest store becomes visible to others.
    Flush(u8),
    /// The thread's store waits in its buffer.
    Hold(u8),
    /// Nothing more happens.
    End,
}

impl Event {
    fn code(self) -> (char, u8) {
        match self {
            Event::Run(n) => ('r', n),
            Event::Die(n) => ('d', n),
            Event::Mark(n) => ('m', n),
            Event::Gone(n) => ('g', n),
            Event::Fire(n) => ('f', n),
            Event::Spurious(n) => ('u', n),
            Event::Kill(n) => ('k', n),
            Event::Stop(n) => ('s', n),
            Event::Resume(n) => ('c', n),
            Event::Start(n) => ('b', n),
            Event::Flush(n) => ('w', n),
            Event::Hold(n) => ('h', n),
            Event::End => ('e', 0),
        }
    }

    fn of(code: char, n: u8) -> Option<Event> {
        Some(match code {
            'r' => Event::Run(n),
            'd' => Event::Die(n),
            'm' => Event::Mark(n),
            'g' => Event::Gone(n),
            'f' => Event::Fire(n),
            'u' => Event::Spurious(n),
            'k' => Event::Kill(n),
            's' => Event::Stop(n),
            'c' => Event::Resume(n),
            'b' => Event::Start(n),
            'w' => Event::Flush(n),
            'h' => Event::Hold(n),
            'e' => Event::End,
            _ => return None,
        })
    }
}

/// Which budget of a bounded search an event is charged to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cost {
    /// The default, or a choice that had to be made.
    Free,
    /// A switch away from a thread that could have gone on, or a deadline that comes while others run.
    Preemption,
    Kill,
    Stop,
    Spurious,
    Hold,
}

/// An event that can happen next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub event: Event,
    pub cost: Cost,
}

/// Where in a schedule a decision is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Anchor {
    /// The thread that ran last.
    pub thread: u8,
    /// How many steps it had made.
    pub steps: u32,
    /// How many decisions were taken since.
    pub turn: u16,
}

/// A decision for something other than the default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Deviation {
    pub at: Anchor,
    pub event: Event,
}

/// Writes a schedule of the world called `name`.
pub(crate) fn token(name: &str, deviations: &[Deviation]) -> String {
    let mut out = format!("{name}:");
    for (i, d) in deviations.iter().enumerate() {
        let (code, n) = d.event.code();
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(out, "{comma}{}.{}.{}{code}{n}", d.at.thread, d.at.steps, d.at.turn);
    }
    out
}

/// Reads a token: the world's name and the deviations.
pub(crate) fn parse(token: &str) -> Option<(String, Vec<Deviation>)> {
    let (name, list) = token.trim().rsplit_once(':')?;
    let one = |part: &str| {
        let mut fields = part.splitn(3, '.');
        let (thread, steps) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let rest = fields.next()?;
        let at = rest.find(|c: char| c.is_ascii_lowercase())?;
        let code = rest[at..].chars().next()?;
        let event = Event::of(code, rest[at + 1..].parse().ok()?)?;
        Some(Deviation { at: Anchor { thread, steps, turn: rest[..at].parse().ok()? }, event })
    };
    let deviations = list.split(',').filter(|p| !p.is_empty()).map(one).collect::<Option<Vec<_>>>()?;
    Some((name.to_owned(), deviations))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_as_written() {
        let all = [Event::Run(3), Event::Kill(1), Event::Mark(12), Event::Fire(0), Event::End];
        let list: Vec<_> = all
            .iter()
            .enumerate()
            .map(|(i, e)| Deviation { at: Anchor { thread: i as u8, steps: 40 + i as u32, turn: i as u16 }, event: *e })
            .collect();
        assert_eq!(parse(&token("a_world", &list)), Some(("a_world".to_owned(), list)));
        assert_eq!(parse("a_world:"), Some(("a_world".to_owned(), Vec::new())));
        assert_eq!(parse("a_world:1.2.3z4"), None);
        assert_eq!(parse("nonsense"), None);
    }
}
