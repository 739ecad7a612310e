//! The page with what happened: for each stage its fill, what it used and what it had, over time; and what was said. One file, with nothing to load.

use super::history::History;
use std::fmt::Write;

const WIDE: f64 = 860.0;
const HIGH: f64 = 120.0;
const LEFT: f64 = 44.0;

/// A stage, at the end.
#[derive(Clone, Debug)]
pub struct Line {
    pub command: String,
    pub means: String,
    pub ended: String,
    pub bytes: f64,
    /// Means over the whole time, of a processor.
    pub used: f64,
    pub reserved: f64,
}

/// What is told of the whole.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub pipeline: String,
    pub seconds: f64,
    pub ended: String,
    pub lines: Vec<Line>,
    /// When, and what.
    pub said: Vec<(f64, String)>,
}

/// As HTML has it.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() && c != '\n' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Bytes for people.
pub fn bytes(number: f64) -> String {
    match number {
        n if n < 10_000.0 => format!("{n:.0} B"),
        n if n < 1e7 => format!("{:.1} kB", n / 1e3),
        n if n < 1e10 => format!("{:.1} MB", n / 1e6),
        n => format!("{:.1} GB", n / 1e9),
    }
}

fn line(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (at, (x, y)) in points.enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if at == 0 { "M" } else { "L" });
    }
    path
}

fn chart(history: &History, stage: usize, said: &[(f64, String)]) -> String {
    let points = &history.stages[stage];
    let end = history.times.last().copied().unwrap_or(1.0).max(0.1);
    let top = points.iter().map(|p| p.used.max(p.share)).fold(1.0, f64::max).ceil();
    let x = |seconds: f64| LEFT + (WIDE - LEFT) * seconds / end;
    let y = |part: f64| 10.0 + HIGH * (1.0 - part.clamp(0.0, 1.0));
    let mut svg = format!("<svg viewBox=\"0 0 {} {}\" role=\"img\">\n", WIDE + 10.0, HIGH + 32.0);
    for part in [0.0, 0.5, 1.0] {
        let (at, label) = (y(part), part * 100.0);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{WIDE}\"/><text x=\"{}\" y=\"{:.1}\" class=\"right\">{label:.0} %</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    for k in 0..=5 {
        let seconds = end * f64::from(k) / 5.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" class=\"middle\">{seconds:.1} s</text>",
            x(seconds),
            HIGH + 26.0
        );
    }
    let times = &history.times;
    let curve = |of: &dyn Fn(usize) -> f64| line((0..points.len()).map(|k| (x(times[k]), y(of(k)))));
    if !points.is_empty() {
        let fill = curve(&|k| points[k].fill);
        let _ = writeln!(
            svg,
            "<path class=\"fill\" d=\"{fill}L{:.1} {:.1}L{:.1} {:.1}Z\"/>",
            x(times[points.len() - 1]),
            y(0.0),
            x(times[0]),
            y(0.0)
        );
        let _ = writeln!(svg, "<path class=\"share\" d=\"{}\"/>", curve(&|k| points[k].share / top));
        let _ = writeln!(svg, "<path class=\"used\" d=\"{}\"/>", curve(&|k| points[k].used / top));
    }
    for (when, what) in said {
        let _ = writeln!(
            svg,
            "<path class=\"said\" d=\"M{:.1} 10V{:.1}\"><title>{}</title></path>",
            x(*when),
            10.0 + HIGH,
            escaped(what)
        );
    }
    svg + "</svg>\n"
}

/// The page.
pub fn page(summary: &Summary, history: &History) -> String {
    let mut out = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>chappe pipe</title>\n<style>\n\
         body{font:15px/1.4 sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#222}\
         pre,code{background:#f4f4f4;padding:.2em .4em;white-space:pre-wrap}table{border-collapse:collapse}\
         td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}td.l,th.l{text-align:left}\
         svg{width:100%}text{font-size:11px;fill:#555}.right{text-anchor:end}.middle{text-anchor:middle}\
         .grid{stroke:#e5e5e5}.fill{fill:#cfe3f3}.used{stroke:#009e73;fill:none;stroke-width:1.5}\
         .share{stroke:#d55e00;fill:none;stroke-width:1.5}.said{stroke:#cc79a7;stroke-dasharray:3 2;fill:none}\n\
         </style></head><body>\n<h1>chappe pipe</h1>\n",
    );
    let Summary { pipeline, seconds, ended, lines, said } = summary;
    let _ = writeln!(out, "<pre>{}</pre>\n<p>{seconds:.3} s; {}</p>", escaped(pipeline), escaped(ended));
    out += "<table><tr><th class=\"l\">stage</th><th class=\"l\">means</th><th class=\"l\">ended</th><th>bytes</th><th>used</th><th>reserved</th></tr>\n";
    for (at, l) in lines.iter().enumerate() {
        let _ = writeln!(
            out,
            "<tr><td class=\"l\">{} <code>{}</code></td><td class=\"l\">{}</td><td class=\"l\">{}</td><td>{}</td><td>{:.1} %</td><td>{:.1} %</td></tr>",
            at + 1,
            escaped(l.command.trim()),
            escaped(&l.means),
            escaped(&l.ended),
            bytes(l.bytes),
            l.used * 100.0,
            l.reserved * 100.0
        );
    }
    out += "</table>\n<p>Below: how full each stage's input was (blue, the most in each interval), what it used of a processor (green) and what it had (orange). \
            Dashed: what was said.</p>\n";
    for (at, l) in lines.iter().enumerate().take(history.stages.len()) {
        let _ = writeln!(out, "<h2>{} <code>{}</code></h2>", at + 1, escaped(l.command.trim()));
        out += &chart(history, at, said);
    }
    if !said.is_empty() {
        out += "<h2>What was said</h2>\n<ul>\n";
        for (when, what) in said {
            let _ = writeln!(out, "<li>{when:.3} s: {}</li>", escaped(what));
        }
        out += "</ul>\n";
    }
    out + "</body></html>\n"
}

#[cfg(test)]
mod tests {
    use super::super::control::Row;
    use super::*;

    #[test]
    fn the_page_stands_alone_and_says_all_of_it() {
        let mut history = History::default();
        for k in 0..20 {
            let row = Row { used: 0.2, share: 0.25, fill: Some((0.1, 0.3)), ..Row::default() };
            history.add(f64::from(k) / 10.0, &[row.clone(), row]);
        }
        let line = |command: &str| Line {
            command: command.into(),
            means: "reservations".into(),
            ended: "0".into(),
            bytes: 2e6,
            used: 0.2,
            reserved: 0.25,
        };
        let summary = Summary {
            pipeline: "a '<x>' | b".into(),
            seconds: 2.0,
            ended: "status 0".into(),
            lines: vec![line("a '<x>'"), line("b")],
            said: vec![(1.0, "stage 1 & so on".into())],
        };
        let page = page(&summary, &history);
        assert_eq!(page.matches("<svg").count(), 2);
        assert!(
            page.contains("a '&lt;x&gt;' | b") && page.contains("stage 1 &amp; so on") && page.contains("2000.0 kB")
        );
        assert!(page.ends_with("</body></html>\n") && !page.contains("<x>"));
        // Nothing is loaded from anywhere.
        for word in ["http:", "https:", "src=", "href=", "@import", "<script"] {
            assert!(!page.contains(word), "{word}");
        }
    }
}
