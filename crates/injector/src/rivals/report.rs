//! What the storms found, as a table for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::subject::{Round, Storm};

/// The head of the table.
pub fn head() -> String {
    format!(
        "{:<32}{:<9}{:>7}{:>8}{:>7}   {:<24}{:>11}{:>9}{:>6}{:>9}",
        "object", "storm", "rounds", "kills", "wedged", "after kills, median", "turns", "refused", "fell", "seconds"
    )
}

/// One line of the table, and below it what was said.
pub fn row(name: &str, storm: Storm, rounds: &[Round]) -> String {
    let sum = |of: fn(&Round) -> u64| rounds.iter().map(of).sum::<u64>();
    let mut until: Vec<u64> = rounds.iter().filter(|r| r.wedge.is_some()).map(|r| r.kills).collect();
    until.sort_unstable();
    let after = match until[..] {
        [] => "never".to_owned(),
        [first, .., last] => format!("{} ({first} to {last})", until[until.len() / 2]),
        [one] => one.to_string(),
    };
    let mut text = format!(
        "{:<32}{:<9}{:>7}{:>8}{:>7}   {:<24}{:>11}{:>9}{:>6}{:>9.1}",
        name,
        storm.name(),
        rounds.len(),
        sum(|r| r.kills),
        until.len(),
        after,
        sum(|r| r.turns),
        sum(|r| r.refused),
        sum(|r| r.fell),
        rounds.iter().map(|r| r.took.as_secs_f64()).sum::<f64>()
    );
    for (said, times) in said(rounds) {
        let _ = write!(text, "\n    {times} x {said}");
    }
    text
}

/// What was said in how many rounds, the most frequent first.
fn said(rounds: &[Round]) -> Vec<(String, usize)> {
    let mut all = BTreeMap::new();
    for round in rounds {
        let mut line = match &round.wedge {
            None => match &round.last {
                Some(last) => format!("not wedged; the last refusal: {last}"),
                None => continue,
            },
            Some(wedge) => {
                let stays = if wedge.stays { "also when nobody else is there" } else { "only while others are there" };
                let resort = match &wedge.resort {
                    None => String::new(),
                    Some(Ok(())) => "; the last resort mended it".to_owned(),
                    Some(Err(why)) => format!("; the last resort did not mend it: {why}"),
                };
                format!("wedged, {stays}: {}{resort}", wedge.said)
            }
        };
        line = line.replace('\n', " ");
        *all.entry(line).or_insert(0) += 1;
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    all
}

/// Whether nothing was found: none wedged, refused or fallen, and something was done.
pub fn is_clean(rounds: &[Round]) -> bool {
    rounds.iter().all(|r| r.wedge.is_none() && r.refused + r.fell == 0 && r.turns > 0 && r.kills > 0)
}

#[cfg(test)]
mod tests {
    use super::super::subject::Wedge;
    use super::*;

    #[test]
    fn the_median_and_the_range_are_of_the_wedged_rounds() {
        let wedge = Some(Wedge { said: "no".to_owned(), stays: true, resort: None });
        let round = |kills, wedge| Round { kills, turns: 1, wedge, ..Round::default() };
        let all = [round(9, wedge.clone()), round(3, wedge.clone()), round(100, None), round(4, wedge)];
        let row = row("x", Storm::Kept, &all);
        assert!(row.contains("4 (3 to 9)") && row.contains("3 x wedged, also when nobody else is there: no"), "{row}");
        assert!(!is_clean(&all) && is_clean(&all[2..3]) && !is_clean(&[round(0, None)]));
    }
}
