//! The map of the stable region, as a picture: gain over period, for three delays, of the pipe of the benchmark (21 blocks of 150 us).

use std::fmt::Write;

const CELL: f64 = 11.0;
const PERIODS: usize = 24;
const GAINS: usize = 28;
const DELAYS: [f64; 3] = [0.0, 4.0, 8.0];

/// Milliseconds: from 0.5 to 16, in steps of 2^(5/23).
fn period(at: usize) -> f64 {
    0.5 * 2f64.powf(5.0 * at as f64 / (PERIODS - 1) as f64)
}

/// From 0.02 to 5.
fn gain(at: usize) -> f64 {
    0.02 * 250f64.powf(at as f64 / (GAINS - 1) as f64)
}

/// Stable and quick, stable, hardly, not.
fn colour(radius: f64) -> &'static str {
    match radius {
        r if r < 0.9 => "#1b7837",
        r if r < 0.97 => "#7fbf7b",
        r if r < 1.0 => "#d9f0d3",
        r if r < 1.1 => "#fddbc7",
        _ => "#d6604d",
    }
}

/// The picture, as SVG that stands alone, of the radius at each gain, period and delay.
pub fn drawn(radius: impl Fn(f64, f64, f64) -> f64) -> String {
    let (wide, high) = (CELL * PERIODS as f64, CELL * GAINS as f64);
    let (width, height) = (3.0 * (wide + 60.0) + 20.0, high + 130.0);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"white\"/>\n"
    );
    for (panel, delay) in DELAYS.iter().enumerate() {
        let left = 50.0 + panel as f64 * (wide + 60.0);
        let top = 40.0;
        let _ = writeln!(text, "<text x=\"{left:.0}\" y=\"24\">delay {delay} ms</text>");
        for p in 0..PERIODS {
            for g in 0..GAINS {
                let fill = colour(radius(gain(g), period(p), *delay));
                let (x, y) = (left + CELL * p as f64, top + high - CELL * (g + 1) as f64);
                let _ = writeln!(
                    text,
                    "<rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"{CELL:.0}\" height=\"{CELL:.0}\" fill=\"{fill}\"/>"
                );
            }
        }
        for (p, name) in [(0.5, "0.5"), (1.0, "1"), (2.0, "2"), (4.0, "4"), (8.0, "8"), (16.0, "16")] {
            let x = left + CELL * ((p / 0.5f64).log2() * (PERIODS - 1) as f64 / 5.0 + 0.5);
            let _ = writeln!(
                text,
                "<text x=\"{x:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{name}</text>",
                top + high + 16.0
            );
        }
        let y_of = |g: f64| top + high - CELL * ((g / 0.02f64).ln() / 250f64.ln() * (GAINS - 1) as f64 + 0.5);
        for (g, name) in [(0.02, "0.02"), (0.1, "0.1"), (0.4, "0.4"), (1.0, "1"), (5.0, "5")] {
            let _ = writeln!(
                text,
                "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{name}</text>",
                left - 4.0,
                y_of(g) + 4.0
            );
        }
        // What chappe pipe does.
        let x = left + CELL * (3.0 * (PERIODS - 1) as f64 / 5.0 + 0.5);
        let _ = writeln!(
            text,
            "<circle cx=\"{x:.0}\" cy=\"{:.0}\" r=\"5\" fill=\"none\" stroke=\"black\" stroke-width=\"2\"/>",
            y_of(0.4)
        );
        let _ = writeln!(text, "<text x=\"{left:.0}\" y=\"{:.0}\">period, ms; upwards: gain</text>", top + high + 34.0);
    }
    let legend =
        [(0.8, "radius < 0.9"), (0.95, "< 0.97"), (0.99, "< 1: stable"), (1.05, "< 1.1: grows"), (2.0, "more")];
    for (at, (r, name)) in legend.iter().enumerate() {
        let (x, y) = (50.0 + 150.0 * at as f64, high + 100.0);
        let _ = writeln!(
            text,
            "<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"12\" height=\"12\" fill=\"{}\"/>",
            y - 10.0,
            colour(*r)
        );
        let _ = writeln!(text, "<text x=\"{:.0}\" y=\"{y:.0}\">{name}</text>", x + 18.0);
    }
    text + "</svg>\n"
}
