//! Choice: exactly one of several operations, whichever can be done first.
//!
//! `altsems` of Nix (nix-semaphores-tubes, 2.3.3) over everything that has a place in the wait queue. First every arm is
//! tried, in a random rotation; if none is ready, one wait stands on all of them (the wait queue's head says how), so
//! that a choice over thousands costs one record and one bit an arm, whatever their number.
//!
//! Private and named objects mix: the wait word is then the one in the named arena. Two named arenas do not: no
//! process that shares only one of them could grant.
//!
//! What Nix's source gets wrong and its text promises (evidence, faults 1, 2 and 4) is held by named tests: every arm
//! counts, a choice that was made has taken something, and its number is the caller's.

use crate::claim::{Operation, Refused, Taken, wait_for};
use crate::error::SelectError;
use crate::handle::shown;
use crate::patience::{Until, patience};
use crate::pool::party;
use crate::seat::{seat, watched};
use crate::wait::{Parties, Party};
use chappe_arena::Map;

/// Makes a choice: which arm, and what it took.
pub(crate) fn choose<A: Operation + ?Sized>(
    arms: &[&A],
    until: Until,
    biased: bool,
) -> Result<(usize, Taken), SelectError> {
    let (named, private) = arenas(arms)?;
    let Some(main) = named.or(private) else { return nothing(until) };
    let second: Option<Party> = match private {
        Some(map) if named.is_some() => Some(seat(map, party)?),
        _ => None,
    };
    seat(main, |seat| {
        let who = Parties { main: party(seat), private: second };
        let first = if biased { 0 } else { roll(&seat.dice) % arms.len() };
        if let Some(found) = look(arms, &who, first)? {
            return Ok(found);
        }
        let deadline = match until {
            Until::Now => {
                // Each of them, not only the first that helps.
                let revived = arms.iter().filter(|a| a.revive()).count() > 0;
                let again = if revived { look(arms, &who, first)? } else { None };
                return again.ok_or(SelectError::WouldBlock);
            }
            Until::Forever => None,
            Until::Time(at) => Some(at),
        };
        watched(seat).map_err(SelectError::System)?;
        wait_for(&who, arms, first, deadline, &patience(seat)).map_err(|e| match e {
            Refused::Dead(arm) => dead(arms, arm),
            // No arm asks for more than one.
            Refused::TimedOut | Refused::NoneFree | Refused::TooMany => SelectError::Timeout,
        })
    })?
}

/// A choice without arms.
fn nothing(until: Until) -> Result<(usize, Taken), SelectError> {
    match until {
        Until::Now => Err(SelectError::WouldBlock),
        Until::Forever => Err(SelectError::Nothing),
        Until::Time(at) => {
            std::thread::sleep(std::time::Duration::from_nanos(at.saturating_sub(chappe_plat::clock::now())));
            Err(SelectError::Timeout)
        }
    }
}

fn dead<A: Operation + ?Sized>(arms: &[&A], arm: usize) -> SelectError {
    let (map, place) = (arms[arm].map(), arms[arm].place());
    SelectError::Dead { arm, name: shown(map, place) }
}

/// The named arena of a choice, if any of it is in one, and the private one, if any is there.
fn arenas<A: Operation + ?Sized>(arms: &[&A]) -> Result<(Option<&'static Map>, Option<&'static Map>), SelectError> {
    let (mut named, mut private): (Option<&'static Map>, Option<&'static Map>) = (None, None);
    let mut last: *const Map = std::ptr::null();
    for arm in arms {
        let map = arm.map();
        if std::ptr::eq(map, last) {
            continue;
        }
        last = map;
        if map.directory().is_none() {
            private = Some(map);
            continue;
        }
        match named {
            Some(first) if !std::ptr::eq(first, map) => {
                return Err(SelectError::TwoArenas { first: first.name().into(), second: map.name().into() });
            }
            _ => named = Some(map),
        }
    }
    Ok((named, private))
}

/// Tries every arm once, from `first` on.
fn look<A: Operation + ?Sized>(
    arms: &[&A],
    who: &Parties,
    first: usize,
) -> Result<Option<(usize, Taken)>, SelectError> {
    for k in 0..arms.len() {
        let at = if first + k < arms.len() { first + k } else { first + k - arms.len() };
        match arms[at].attempt(who.party(arms[at].map())) {
            Ok(taken) => return Ok(Some((at, taken))),
            Err(Refused::Dead(_)) => return Err(dead(arms, at)),
            Err(_) => {}
        }
    }
    Ok(None)
}

/// A cheap generator (xorshift, 32 bits), one a thread: which arm is tried first need not be secret.
fn roll(dice: &std::cell::Cell<u32>) -> usize {
    let mut x = dice.get();
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    dice.set(x);
    x as usize
}
