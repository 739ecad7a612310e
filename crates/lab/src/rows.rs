//! Every row: a file a paper, an entry a table or figure.

mod fiasco;
mod netbsd;
mod nix;
mod plan9;
mod synthesis;

use crate::row::Row;

/// All rows, in the order of the papers and their parts.
pub fn all() -> impl Iterator<Item = &'static Row> {
    [nix::ROWS, plan9::ROWS, netbsd::ROWS, synthesis::ROWS, fiasco::ROWS].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Figures, Paper};
    use std::collections::BTreeSet;

    #[test]
    fn each_row_has_a_name_of_its_own_and_says_what_it_is() {
        let names: BTreeSet<&str> = all().map(|row| row.id).collect();
        assert_eq!(names.len(), all().count());
        for row in all() {
            assert!(!row.part.is_empty() && !row.title.is_empty(), "{}", row.id);
            if let Some((on, lines)) = row.figures {
                let wide: BTreeSet<usize> = Figures::new(on, lines).cells.iter().map(Vec::len).collect();
                assert_eq!(wide.len(), 1, "{}: lines of different lengths", row.id);
            }
        }
    }

    #[test]
    fn a_whole_run_is_meant_to_take_at_most_25_minutes_and_a_quick_one_three() {
        let sum = |of: fn((u32, u32)) -> u32| all().map(|row| of(row.seconds)).sum::<u32>();
        assert!(sum(|s| s.0) <= 180 && sum(|s| s.1) <= 1420, "{} {}", sum(|s| s.0), sum(|s| s.1));
    }

    /// What the five papers have measured: every table and figure of times or sizes, and what they say in their text.
    const MEASURED: &[(Paper, &str)] = &[
        (Paper::Nix, "figure 11"),
        (Paper::Nix, "figures 16 to 18"),
        (Paper::Nix, "figure 19"),
        (Paper::Nix, "figure 20"),
        (Paper::Nix, "figure 21"),
        (Paper::Nix, "figure 23"),
        (Paper::Nix, "figure 25"),
        (Paper::Nix, "figure 26"),
        (Paper::Plan9, "table 1"),
        (Paper::Plan9, "table 2"),
        (Paper::Plan9, "section 4, the power series"),
        (Paper::Netbsd, "tables 1 and 2"),
        (Paper::Netbsd, "figure 3"),
        (Paper::Netbsd, "section 5, LU decomposition"),
        (Paper::Netbsd, "section 5, a web server"),
        (Paper::Synthesis, "tables 2.1 and 2.2"),
        (Paper::Synthesis, "table 3.1"),
        (Paper::Synthesis, "table 3.2"),
        (Paper::Synthesis, "table 3.3"),
        (Paper::Synthesis, "table 3.4"),
        (Paper::Synthesis, "table 3.5"),
        (Paper::Synthesis, "table 3.6"),
        (Paper::Synthesis, "section 3.4.1"),
        (Paper::Synthesis, "table 5.1"),
        (Paper::Synthesis, "tables 5.2 and 5.3"),
        (Paper::Synthesis, "chapter 6"),
        (Paper::Synthesis, "section 6.4.3"),
        (Paper::Synthesis, "section 6.5"),
        (Paper::Synthesis, "table 7.1"),
        (Paper::Synthesis, "table 7.2"),
        (Paper::Synthesis, "table 7.3"),
        (Paper::Synthesis, "table 7.4"),
        (Paper::Synthesis, "table 7.5"),
        (Paper::Synthesis, "section 7.4.1"),
        (Paper::Synthesis, "sections 6.3.2 and 7.5"),
        (Paper::Fiasco, "table 1"),
        (Paper::Fiasco, "table 2"),
    ];

    #[test]
    fn every_measured_part_of_the_papers_is_a_row_and_the_list_of_parts_links_to_it() {
        let parts: Vec<(Paper, &str)> = all().map(|row| (row.paper, row.part)).collect();
        assert_eq!(parts, MEASURED);
        let papers = include_str!("../../../docs/papers.md");
        for row in all() {
            let (id, part) = (row.id, row.part);
            let line = papers.lines().find(|l| l.contains(&format!("`chappe lab --only {id}`")));
            let line = line.unwrap_or_else(|| panic!("docs/papers.md has no link to {id}"));
            // The number that the part begins with stands in that line.
            let number =
                part.split([' ', ',']).find(|w| w.starts_with(|c: char| c.is_ascii_digit())).expect("a number");
            assert!(line.contains(number), "{id}: {part}: {line}");
        }
    }
}
