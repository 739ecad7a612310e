//! `chappe graph run --show`: what flows, while it flows.
//!
//! Four times a second the lines under the command are drawn again, on stderr, where that is a terminal: of each stage the elements a second that
//! came to it, how many came in all, and what was dropped and late. What flows itself is shown by stages: `... | spectrum 1024 | window`.

use crate::said::tell;
use crate::{terminal, time};
use chappe::stream::{Pictures, Report, Running};
use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

/// How long the lines stand.
const PICTURE: Duration = Duration::from_millis(250);
/// How often it is looked whether the graph has ended.
const LOOK: Duration = Duration::from_millis(25);

/// Shows until the graph has ended.
pub fn show(running: &Running) {
    if !stderr().is_terminal() {
        return;
    }
    let Some(mut pictures) = Pictures::take() else {
        tell("chappe: --show is left out: a `window` of this graph draws on the terminal");
        return;
    };
    let mut before = running.report();
    while !running.is_finished() {
        std::thread::sleep(LOOK);
        let now = running.report();
        let rows = terminal::size(2).map_or(usize::MAX, |(_, rows)| rows.into());
        if now.seconds - before.seconds < PICTURE.as_secs_f64() && !running.is_finished() {
            continue;
        }
        let picture = pictures.picture(rows, lines(&before, &now).into_iter().map(String::into_bytes));
        let mut to = stderr().lock();
        // A terminal that is gone is no reason to stop the graph.
        if to.write_all(&picture).and_then(|()| to.flush()).is_err() {
            return;
        }
        before = now;
    }
}

fn lines(before: &Report, now: &Report) -> Vec<String> {
    let wide = now.nodes.iter().map(|node| node.label.chars().count()).max().unwrap_or(0).clamp(5, 40);
    let seconds = (now.seconds - before.seconds).max(1e-3);
    let head = format!("{:wide$}  {:>12}  {:>14}  {:>9}  {:>6}", "STAGE", "A SECOND", "ELEMENTS", "DROPPED", "LATE");
    let row = |(at, node): (usize, &chappe::stream::NodeReport)| {
        // A part that was begun anew counts from there.
        let earlier = before.nodes.get(at).map_or(0, |node| node.counts.elements);
        let rate = node.counts.elements.saturating_sub(earlier) as f64 / seconds;
        let (label, counts) = (node.label.chars().take(wide).collect::<String>(), &node.counts);
        format!("{label:wide$}  {rate:>12.0}  {:>14}  {:>9}  {:>6}", counts.elements, counts.dropped, counts.late)
    };
    let end = format!("{} so far", time::show(Duration::from_secs_f64(now.seconds.max(0.0))));
    std::iter::once(head).chain(now.nodes.iter().enumerate().map(row)).chain([end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use chappe::stream::NodeReport;

    #[test]
    fn a_line_has_the_elements_of_each_second() {
        let report = |elements: u64, seconds: f64| {
            let mut counts = chappe::stream::Counts::default();
            (counts.elements, counts.dropped) = (elements, 2);
            let node = NodeReport { label: "take".into(), process: None, counts, says: None };
            Report { nodes: vec![node], seconds, ..Report::default() }
        };
        let all = lines(&report(100, 1.0), &report(300, 1.5));
        assert_eq!(all[1].split_whitespace().collect::<Vec<_>>(), ["take", "400", "300", "2", "0"]);
        assert!(all[2].contains("so far"));
    }
}
