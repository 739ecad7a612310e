//! Pictures of samples, as inline SVG: box plots and histograms, on logarithmic axes. They take the page's colours.

use crate::report::{CaseOf, Measured};
use crate::sides::Side;
use chappe_bench::table::Unit;
use std::fmt::Write;

const WIDTH: f64 = 720.0;
const NAMES: f64 = 250.0;
const LINE: f64 = 22.0;

/// Text that may stand in HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The class that gives a case its colour.
pub fn class(side: Side) -> &'static str {
    match side {
        Side::Ours => "ours",
        Side::Peer => "peer",
        Side::Floor => "floor",
    }
}

/// A logarithmic axis.
struct Axis {
    low: f64,
    high: f64,
    unit: Unit,
}

impl Axis {
    /// `None` where nothing is above zero.
    fn over(table: &Measured) -> Option<Axis> {
        let all = || table.cases.iter().flat_map(|c| c.quantiles.iter().copied()).filter(|q| *q > 0.0);
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
        let unit = table.unit;
        (high > 0.0).then(|| Axis { low: low.ln() - 0.05, high: high.ln().max(low.ln() + 0.1) + 0.05, unit })
    }

    fn at(&self, ns: f64) -> f64 {
        let share = (ns.max(self.low.exp()).ln() - self.low) / (self.high - self.low);
        NAMES + share * (WIDTH - NAMES - 10.0)
    }

    /// Where a line is drawn: 1, 2 and 5 of each decade, fewer where they would be too many.
    fn marks(&self) -> Vec<f64> {
        let decades = ((self.low / std::f64::consts::LN_10).floor() as i32)
            ..=((self.high / std::f64::consts::LN_10).ceil() as i32);
        let steps: &[f64] = if decades.clone().count() > 4 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let all = decades.flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)));
        all.filter(|ns| (self.low..self.high).contains(&ns.ln())).collect()
    }

    fn grid(&self, svg: &mut String, bottom: f64) {
        for mark in self.marks() {
            let x = self.at(mark);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{bottom:.1}\"/><text class=\"mark\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 14.0,
                self.unit.show(mark).replace(".00", "").replace(".0", "")
            );
        }
    }
}

fn open(height: f64, what: &str) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">", escape(what))
}

/// A box a case: the middle half, the median, and a line from least to greatest.
pub fn boxes(table: &Measured) -> String {
    let cases: Vec<&CaseOf> = table.cases.iter().filter(|c| c.quantiles.len() == 7).collect();
    let Some(axis) = Axis::over(table) else { return String::new() };
    let bottom = cases.len() as f64 * LINE + 4.0;
    let mut svg = open(bottom + 20.0, &table.title);
    axis.grid(&mut svg, bottom);
    for (at, case) in cases.iter().enumerate() {
        let y = at as f64 * LINE + LINE / 2.0 + 2.0;
        let [least, _, quarter, half, three, _, most] = case.quantiles[..] else { continue };
        let (x, x2) = (axis.at(quarter), axis.at(three));
        let _ = write!(
            svg,
            "<g class=\"{}\"><text class=\"name\" x=\"{:.0}\" y=\"{:.1}\">{}</text>\
             <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"12\"/>\
             <line class=\"median\" x1=\"{m:.1}\" x2=\"{m:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/></g>",
            class(case.side),
            NAMES - 8.0,
            y + 4.0,
            escape(&case.name),
            axis.at(least),
            axis.at(most),
            y - 6.0,
            (x2 - x).max(1.5),
            y - 7.0,
            y + 7.0,
            m = axis.at(half),
        );
    }
    svg + "</svg>"
}

/// How often each time came: a strip a case, its bars as high as their share.
pub fn histogram(table: &Measured) -> String {
    const BARS: usize = 60;
    const HIGH: f64 = 36.0;
    let cases: Vec<&CaseOf> =
        table.cases.iter().filter(|c| c.samples.iter().map(Vec::len).sum::<usize>() > 4).collect();
    let (Some(axis), false) = (Axis::over(table), cases.is_empty()) else { return String::new() };
    let bottom = cases.len() as f64 * (HIGH + 6.0);
    let mut svg = open(bottom + 20.0, &format!("{}: how often", table.title));
    axis.grid(&mut svg, bottom);
    for (at, case) in cases.iter().enumerate() {
        let foot = (at + 1) as f64 * (HIGH + 6.0) - 4.0;
        let (left, wide) = (NAMES, (WIDTH - NAMES - 10.0) / BARS as f64);
        let mut bars = [0u32; BARS];
        for ns in case.samples.iter().flatten() {
            let bar = ((axis.at(*ns) - left) / wide) as usize;
            bars[bar.min(BARS - 1)] += 1;
        }
        let most = f64::from(bars.iter().copied().max().unwrap_or(1).max(1));
        let _ = write!(
            svg,
            "<g class=\"{}\"><text class=\"name\" x=\"{:.0}\" y=\"{:.1}\">{}</text>",
            class(case.side),
            NAMES - 8.0,
            foot - 8.0,
            escape(&case.name)
        );
        for (bar, count) in bars.iter().enumerate().filter(|(_, count)| **count > 0) {
            let height = f64::from(*count) / most * HIGH;
            let _ = write!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>",
                left + bar as f64 * wide,
                foot - height,
                wide - 0.5
            );
        }
        svg += "</g>";
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use chappe_bench::table::Table;

    #[test]
    fn a_picture_has_a_box_for_each_case_and_its_marks_lie_within() {
        let rows =
            vec![("a <b>".to_owned(), vec![1.0, 2.0, 3.0, 4.0, 5.0]), ("c".to_owned(), vec![1e3, 1e4, 1e5, 1e6, 1e7])];
        let table = Measured::new(&Table::of("t", rows));
        let svg = boxes(&table);
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(svg.contains("a &lt;b&gt;") && !svg.contains("<b>"));
        let axis = Axis::over(&table).unwrap();
        assert!(axis.marks().iter().all(|m| (NAMES..WIDTH).contains(&axis.at(*m))));
        assert!(histogram(&table).matches("<rect").count() >= 2);
    }

    #[test]
    fn nothing_measured_is_no_picture() {
        let table = Measured::new(&Table::of("t", vec![("a".to_owned(), vec![])]));
        assert_eq!(boxes(&table), "");
        assert_eq!(histogram(&table), "");
    }
}
