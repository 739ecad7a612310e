//! Which part of what is too much for the gate is run: a tenth (of the tests of the explorer and of loom two), another one each day, and
//! the same one again for the same commit.
//!
//! The part is chosen by the day of the commit (UTC), so a run can be repeated, and a mend of what a part has found is tested by the same
//! part; `CHAPPE_TEST_TURN=N` chooses it by hand.

use crate::run::root;
use anyhow::{Context, Result};
use std::process::Command;

/// How many parts there are.
pub const PARTS: u64 = 10;

/// The number of the part.
pub fn turn() -> Result<u64> {
    if let Ok(asked) = std::env::var("CHAPPE_TEST_TURN") {
        let number: u64 = asked.parse().with_context(|| format!("CHAPPE_TEST_TURN={asked} is not a number"))?;
        return Ok(number % PARTS);
    }
    let seconds = Command::new("git").args(["show", "--no-patch", "--format=%ct", "HEAD"]).current_dir(root()).output();
    // Sources without a history have the first part.
    Ok(seconds.ok().filter(|out| out.status.success()).map_or(0, |out| of(&String::from_utf8_lossy(&out.stdout))))
}

/// The part of a commit's time, in seconds since 1970.
fn of(seconds: &str) -> u64 {
    seconds.trim().parse::<u64>().map_or(0, |seconds| seconds / 86_400 % PARTS)
}

/// Whether this one belongs to the part.
pub fn is_due(name: &str, turn: u64) -> bool {
    sum(name) % PARTS == turn
}

/// Whether this one belongs to one of two parts: it is due every fifth day.
pub fn is_due_often(name: &str, turn: u64) -> bool {
    [0, 5].iter().any(|days| is_due(name, (turn + days) % PARTS))
}

/// FNV-1a, mixed: the last digit of the sum is as good as any.
fn sum(text: &str) -> u64 {
    let all = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    all ^ (all >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_due_once_in_all_turns_and_the_parts_are_alike() {
        let names: Vec<String> = (0..1000).map(|n| format!("name_{n}")).collect();
        let parts: Vec<usize> = (0..PARTS).map(|turn| names.iter().filter(|n| is_due(n, turn)).count()).collect();
        assert_eq!(parts.iter().sum::<usize>(), names.len());
        assert!(parts.iter().all(|n| (60..140).contains(n)), "{parts:?}");
    }

    #[test]
    fn a_frequent_check_is_due_every_fifth_day() {
        for name in (0..1000).map(|n| format!("name_{n}")) {
            let due: Vec<u64> = (0..2 * PARTS).filter(|day| is_due_often(&name, day % PARTS)).collect();
            assert_eq!(due.len(), 4, "{name}: {due:?}");
            assert!(due.windows(2).all(|two| two[1] - two[0] == 5), "{name}: {due:?}");
        }
    }

    #[test]
    fn each_commit_of_a_day_has_the_days_turn() {
        assert_eq!((of("1795651200\n"), of("1795737599"), of("1795737600")), (3, 3, 4));
        assert_eq!(of("no number"), 0);
    }
}
