//! The histogram: for each kind of window a line, over lateness in steps of a quarter of an octave.

use super::measure::Window;
use std::fmt::Write;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 40.0;
/// From 1 us to about 65 ms.
const STEPS: usize = 64;
const COLOURS: [&str; 5] = ["#555555", "#0072b2", "#009e73", "#d55e00", "#cc79a7"];

fn step(ns: u32) -> usize {
    let us = f64::from(ns.max(1000)) / 1e3;
    ((us.log2() * 4.0) as usize).min(STEPS - 1)
}

/// As a picture that stands alone.
pub fn histogram(windows: &[Window]) -> String {
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    let (wide, high) = (WIDTH - LEFT - 20.0, HEIGHT - BOTTOM - 20.0);
    let x = |step: usize| LEFT + wide * step as f64 / STEPS as f64;
    // Shares of a millionth to one, by powers of ten.
    let y = |share: f64| 20.0 + high * (-share.max(1e-6).log10() / 6.0);
    for octave in 0..=STEPS / 4 {
        let at = x(octave * 4);
        let _ = writeln!(
            text,
            "<text x=\"{at:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - BOTTOM + 16.0,
            1u64 << octave
        );
    }
    let _ = writeln!(text, "<text x=\"{:.0}\" y=\"{:.0}\">lateness, us</text>", WIDTH / 2.0, HEIGHT - 6.0);
    for power in 0..=6 {
        let at = y(10f64.powi(-power));
        let _ = writeln!(text, "<text x=\"{:.0}\" y=\"{at:.0}\" text-anchor=\"end\">1e-{power}</text>", LEFT - 6.0);
        let _ = writeln!(text, "<path d=\"M{LEFT} {at:.1}H{:.1}\" stroke=\"#dddddd\"/>", LEFT + wide);
    }
    for (i, window) in windows.iter().enumerate() {
        let mut counts = [0u64; STEPS];
        window.late.iter().for_each(|ns| counts[step(*ns)] += 1);
        let all = window.late.len().max(1) as f64;
        let mut path = String::new();
        for (s, count) in counts.iter().enumerate() {
            let at = y(*count as f64 / all);
            let _ = write!(path, "{}{:.1} {at:.1}H{:.1}", if s == 0 { "M" } else { "L" }, x(s), x(s + 1));
        }
        let colour = COLOURS[i % COLOURS.len()];
        let _ = writeln!(text, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>");
        let line = 34.0 + 16.0 * i as f64;
        let _ =
            writeln!(text, "<text x=\"{:.0}\" y=\"{line:.0}\" fill=\"{colour}\">{}</text>", WIDTH - 200.0, window.what);
    }
    text += "</svg>\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_window_has_a_line_and_a_name() {
        let window = |what| Window { what, late: vec![500, 1_000, 3_000, 70_000_000], missed: 0 };
        let text = histogram(&[window("no lock"), window("some lock")]);
        assert_eq!(text.matches("stroke-width").count(), 2);
        assert!(text.contains(">no lock<") && text.contains(">some lock<") && text.ends_with("</svg>\n"));
        assert_eq!((step(0), step(1_000), step(2_000), step(u32::MAX)), (0, 0, 4, STEPS - 1));
    }
}
