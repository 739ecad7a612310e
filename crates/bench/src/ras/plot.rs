//! A figure in letters: values over a number, from nought up, a mark a line.

use std::fmt::Write;

const HEIGHT: usize = 12;
/// Columns between two of the numbers.
const STEP: usize = 9;
const MARKS: [char; 6] = ['o', '*', '+', 'x', '#', '@'];

/// Draws lines of points (number, value), and tells what each mark is. Where two meet, the later is seen.
pub fn plot(lines: &[(&str, Vec<(f64, f64)>)], show: impl Fn(f64) -> String) -> String {
    let all = || lines.iter().flat_map(|(_, points)| points.iter().copied());
    let mut numbers: Vec<f64> = all().map(|(n, _)| n).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    let most = all().map(|(_, value)| value).fold(0.0, f64::max) * 1.1;
    let mut field = vec![vec![' '; STEP * numbers.len()]; HEIGHT];
    for ((_, points), mark) in lines.iter().zip(MARKS.iter().cycle()) {
        for (number, value) in points {
            let at = numbers.iter().position(|n| n == number).unwrap_or(0) * STEP + STEP / 2;
            let up = ((value / most) * HEIGHT as f64) as usize;
            field[HEIGHT - 1 - up.min(HEIGHT - 1)][at] = *mark;
        }
    }
    let mut text = String::new();
    for (at, row) in field.iter().enumerate() {
        let value = most * (HEIGHT - at) as f64 / HEIGHT as f64;
        let label = if at % 3 == 0 { show(value) } else { String::new() };
        let _ = writeln!(text, "  {label:>9} |{}", row.iter().collect::<String>().trim_end());
    }
    let _ = writeln!(text, "  {:>9} +{}", show(0.0), "-".repeat(STEP * numbers.len()));
    let axis: String = numbers.iter().map(|n| format!("{n:^STEP$}")).collect();
    let _ = writeln!(text, "  {:>9}  {}", "", axis.trim_end());
    for ((name, _), mark) in lines.iter().zip(MARKS.iter().cycle()) {
        let _ = writeln!(text, "  {:>9}  {mark} {name}", "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_value_stands_higher_and_a_larger_number_further_right() {
        let text = plot(&[("one", vec![(0.0, 10.0), (8.0, 100.0)]), ("two", vec![(8.0, 50.0)])], |v| format!("{v:.0}"));
        let find = |mark: char| {
            let found = text.lines().take(HEIGHT).enumerate();
            found.flat_map(|(row, l)| l.match_indices(mark).map(move |(at, _)| (row, at))).collect::<Vec<_>>()
        };
        let (one, two) = (find('o'), find('*'));
        assert_eq!((one.len(), two.len()), (2, 1), "{text}");
        assert!(one[0].0 < two[0].0 && two[0].0 < one[1].0, "{text}");
        assert!(one[0].1 == two[0].1 && one[1].1 < one[0].1, "{text}");
        assert!(text.contains("o one") && text.contains("* two"), "{text}");
    }
}
