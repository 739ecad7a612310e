//! Every row, a file each. A new one is a file here, a `mod`, and a place in [`ALL`].

mod fiasco_1;
mod fiasco_2;
mod netbsd_1;
mod netbsd_3;
mod netbsd_lu;
mod netbsd_web;
mod nix_11;
mod nix_alpha;
mod nix_alpha_ac;
mod nix_beta;
mod nix_beta_ac;
mod nix_epsilon;
mod nix_epsilon_ac;
mod nix_gamma;
mod plan9_1;
mod plan9_2;
mod plan9_series;
mod synthesis_2_1;
mod synthesis_3_1;
mod synthesis_3_2;
mod synthesis_3_3;
mod synthesis_3_4;
mod synthesis_3_5;
mod synthesis_3_6;
mod synthesis_5_1;
mod synthesis_5_2;
mod synthesis_6;
mod synthesis_7_1;
mod synthesis_7_2;
mod synthesis_7_3;
mod synthesis_7_4;
mod synthesis_7_5;

use crate::row::Row;

/// All rows, in the order of the papers and their parts.
pub static ALL: &[&dyn Row] = &[
    &nix_11::Increment,
    &nix_alpha::Alpha,
    &nix_alpha_ac::AlphaApplication,
    &nix_beta::Beta,
    &nix_beta_ac::BetaApplication,
    &nix_gamma::Gamma,
    &nix_epsilon::Epsilon,
    &nix_epsilon_ac::EpsilonApplication,
    &plan9_1::Table1,
    &plan9_2::Table2,
    &plan9_series::Series,
    &netbsd_1::Table1,
    &netbsd_3::Figure3,
    &netbsd_lu::Decomposition,
    &netbsd_web::Server,
    &synthesis_2_1::Overheads,
    &synthesis_3_1::BufferPut,
    &synthesis_3_2::Stdio,
    &synthesis_3_3::Switch,
    &synthesis_3_4::Interrupts,
    &synthesis_3_5::Calls,
    &synthesis_3_6::Sizes,
    &synthesis_5_1::Objects,
    &synthesis_5_2::ThreadOperations,
    &synthesis_6::Feedback,
    &synthesis_7_1::Programs,
    &synthesis_7_2::Terminal,
    &synthesis_7_3::Devices,
    &synthesis_7_4::Memory,
    &synthesis_7_5::Window,
    &fiasco_1::Lateness,
    &fiasco_2::Counter,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Paper;
    use std::collections::BTreeSet;

    #[test]
    fn each_row_has_a_name_of_its_own_and_says_what_it_is() {
        let names: BTreeSet<&str> = ALL.iter().map(|row| row.about().id).collect();
        assert_eq!(names.len(), ALL.len());
        for row in ALL {
            let about = row.about();
            assert!(!about.part.is_empty() && !about.title.is_empty(), "{}", about.id);
            if let Some(figures) = row.figures() {
                let wide: BTreeSet<usize> = figures.cells.iter().map(Vec::len).collect();
                assert_eq!(wide.len(), 1, "{}: lines of different lengths", about.id);
            }
        }
    }

    #[test]
    fn a_whole_run_is_meant_to_take_at_most_25_minutes_and_a_quick_one_three() {
        let sum = |of: fn((u32, u32)) -> u32| ALL.iter().map(|row| of(row.about().seconds)).sum::<u32>();
        assert!(sum(|s| s.0) <= 170 && sum(|s| s.1) <= 1420, "{} {}", sum(|s| s.0), sum(|s| s.1));
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
        (Paper::Synthesis, "table 5.1"),
        (Paper::Synthesis, "tables 5.2 and 5.3"),
        (Paper::Synthesis, "chapter 6"),
        (Paper::Synthesis, "table 7.1"),
        (Paper::Synthesis, "table 7.2"),
        (Paper::Synthesis, "table 7.3"),
        (Paper::Synthesis, "table 7.4"),
        (Paper::Synthesis, "table 7.5"),
        (Paper::Fiasco, "table 1"),
        (Paper::Fiasco, "table 2"),
    ];

    #[test]
    fn every_measured_part_of_the_papers_is_a_row_and_the_list_of_parts_links_to_it() {
        let parts: Vec<(Paper, &str)> = ALL.iter().map(|row| (row.about().paper, row.about().part)).collect();
        assert_eq!(parts, MEASURED);
        let papers = include_str!("../../../docs/papers.md");
        for row in ALL {
            let (id, part) = (row.about().id, row.about().part);
            let line = papers.lines().find(|l| l.contains(&format!("`chappe lab --only {id}`")));
            let line = line.unwrap_or_else(|| panic!("docs/papers.md has no link to {id}"));
            // The number that the part begins with stands in that line.
            let number =
                part.split([' ', ',']).find(|w| w.starts_with(|c: char| c.is_ascii_digit())).expect("a number");
            assert!(line.contains(number), "{id}: {part}: {line}");
        }
    }
}
