//! Which part of what is too much for the gate is run: a tenth (of the tests of the explorer and of loom two), another one with each
//! commit, and the same one again for the same commit.
//!
//! The part is drawn by the commit's hash: a run can be repeated, and no pattern of commits and days leaves a part out for ever, as a count
//! of days does where commits come each fifth day. What a part has found is tried again by `CHAPPE_TEST_TURN=N`, which chooses it by hand.

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
    let hash = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root()).output();
    // Sources without a history have the first part.
    Ok(hash.ok().filter(|out| out.status.success()).map_or(0, |out| of(&String::from_utf8_lossy(&out.stdout))))
}

/// The number of a commit's hash.
fn of(hash: &str) -> u64 {
    hash.get(..8).and_then(|first| u64::from_str_radix(first, 16).ok()).map_or(0, |first| first % PARTS)
}

/// Whether this one belongs to the part.
pub fn is_due(name: &str, turn: u64) -> bool {
    sum(name) % PARTS == turn % PARTS
}

/// Whether this one belongs to one of two parts: a fifth of all are due.
pub fn is_due_often(name: &str, turn: u64) -> bool {
    [0, 5].iter().any(|more| is_due(name, turn + more))
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
    fn each_name_is_due_once_in_ten_turns_and_the_parts_are_alike() {
        let names: Vec<String> = (0..1000).map(|n| format!("name_{n}")).collect();
        let parts: Vec<usize> = (0..PARTS).map(|turn| names.iter().filter(|n| is_due(n, turn)).count()).collect();
        assert_eq!(parts.iter().sum::<usize>(), names.len());
        assert!(parts.iter().all(|n| (60..140).contains(n)), "{parts:?}");
    }

    #[test]
    fn a_frequent_check_is_due_in_two_of_ten_turns() {
        for name in (0..1000).map(|n| format!("name_{n}")) {
            let due: Vec<u64> = (0..PARTS).filter(|turn| is_due_often(&name, *turn)).collect();
            assert_eq!(due.len(), 2, "{name}: {due:?}");
        }
    }

    #[test]
    fn hashes_have_all_turns_alike_and_each_hash_its_own() {
        assert_eq!((of("00000009ffff"), of("0000000a1234"), of("ffffffff"), of("none"), of("")), (9, 0, 5, 0, 0));
        let mut times = [0; PARTS as usize];
        (0..1000).for_each(|n| times[of(&format!("{:08x}", sum(&format!("commit {n}")) as u32)) as usize] += 1);
        assert!(times.iter().all(|n| (50..150).contains(n)), "{times:?}");
    }
}
