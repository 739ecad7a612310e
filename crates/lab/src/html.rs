//! The report as one page: no scripts, nothing from elsewhere, light or dark as the reader has it.
//!
//! What a reader wants to know first stands first: the machine, and where chappe is slower than a peer. Then the papers, table by table, with
//! their own figures beside today's.

use crate::plot::{boxes, class, escape, histogram};
use crate::report::{Measured, Outcome, Report};
use crate::row::{Figures, Paper};
use crate::statistics::Estimate;
use crate::verdict::{Verdict, verdicts};
use std::fmt::Write;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1a1a1a; --dim: #666; --back: #fdfdfb; --line: #ddd; --ours: #0b6e4f; --peer: #b5651d; --floor: #7a7a8c; --bad: #a4161a }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --dim: #9a9a9a; --back: #16181a; --line: #34383c; --ours: #4cc38a; --peer: #e0a060; --floor: #9a9ab0; --bad: #ff6b6b } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { margin-bottom: .2rem } h2 { margin-top: 3rem; border-bottom: 1px solid var(--line) } h3 { margin: 2rem 0 .2rem }
p.note, .dim { color: var(--dim) } .absent { border-left: 3px solid var(--peer); padding-left: .8rem } .bad { color: var(--bad) } .good { color: var(--ours) }
table { border-collapse: collapse; margin: .6rem 0; font-size: 13px } th, td { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child, .t { text-align: left } tr.ours td:first-child { color: var(--ours); font-weight: 600 } tr.floor td { color: var(--dim) }
svg { width: 100%; height: auto; font: 11px system-ui, sans-serif } svg text { fill: var(--ink) } svg .name { text-anchor: end } svg .mark { text-anchor: middle; fill: var(--dim) }
svg .grid { stroke: var(--line) } svg g line { stroke: currentColor } svg g rect { fill: currentColor; fill-opacity: .45 } svg g .median { stroke-width: 2.5 }
svg .ours { color: var(--ours) } svg .peer { color: var(--peer) } svg .floor { color: var(--floor) }
pre { overflow-x: auto; font-size: 12px } details { margin: .4rem 0 } summary { cursor: pointer; color: var(--dim) } nav a { margin-right: .8rem }
";

fn interval(e: Option<Estimate>, show: impl Fn(f64) -> String) -> String {
    e.map_or_else(
        || "-".into(),
        |e| format!("{} <span class=\"dim\">[{}, {}]</span>", show(e.median), show(e.low), show(e.high)),
    )
}

fn figures_of(table: &Measured) -> String {
    let mut html = String::from(
        "<table><tr><th></th><th>least</th><th>median [95 %]</th><th>9 of 10</th><th>ratio [95 %]</th></tr>",
    );
    for case in &table.cases {
        let show = |x| table.unit.show(x);
        let at = |n: usize| case.quantiles.get(n).map_or_else(|| "-".into(), |q| show(*q));
        let _ = write!(
            html,
            "<tr class=\"{}\"><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            class(case.side),
            escape(&case.name),
            at(0),
            interval(case.time, show),
            at(5),
            interval(case.ratio, |r| format!("{r:.2}"))
        );
    }
    html + "</table>"
}

fn papers_figures(figures: &Figures) -> String {
    let mut html = format!("<details open><summary>The paper's figures: {}</summary><table>", escape(&figures.on));
    for (at, row) in figures.cells.iter().enumerate() {
        let cell = if at == 0 { "th" } else { "td" };
        let cells: String = row.iter().map(|c| format!("<{cell}>{}</{cell}>", escape(c))).collect();
        let _ = write!(html, "<tr>{cells}</tr>");
    }
    html + "</table></details>"
}

fn row(outcome: &Outcome) -> String {
    let mut html = format!(
        "<section id=\"{}\"><h3>{}: {}</h3><p class=\"note\">{} <span class=\"dim\">({}, {} of {:.0} s)</span></p>",
        escape(&outcome.id),
        escape(&outcome.part),
        escape(&outcome.title),
        escape(&outcome.note),
        escape(&outcome.id),
        if outcome.visits == 1 { "one visit".to_owned() } else { format!("{} visits", outcome.visits) },
        outcome.seconds
    );
    if let Some(why) = &outcome.absent {
        let _ = write!(html, "<p class=\"absent\">Not measured: {}</p>", escape(why));
    }
    if let Some(figures) = &outcome.figures {
        html += &papers_figures(figures);
    }
    for table in &outcome.tables {
        let _ = write!(html, "<h4>{}</h4>{}{}", escape(&table.title), boxes(table), figures_of(table));
        let often = histogram(table);
        if !often.is_empty() {
            let _ = write!(html, "<details><summary>how often each time came</summary>{often}</details>");
        }
    }
    if !outcome.text.trim().is_empty() {
        let _ = write!(
            html,
            "<details><summary>as the benchmark printed it, the first time</summary><pre>{}</pre></details>",
            escape(outcome.text.trim())
        );
    }
    html + "</section>"
}

fn comparison(heading: &str, class: &str, all: &[&Verdict]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut html = format!(
        "<h3>{heading}</h3><table><tr><th>measured</th><th class=\"t\">chappe's best</th><th class=\"t\">best peer</th><th>ratio [95 %]</th></tr>"
    );
    for v in all {
        let _ = write!(
            html,
            "<tr><td class=\"t\"><a href=\"#{}\">{}</a></td><td class=\"t\">{}</td><td class=\"t\">{}</td><td class=\"{class}\">{}</td></tr>",
            escape(&v.row),
            escape(&v.table),
            escape(&v.ours),
            escape(&v.peer),
            interval(Some(v.ratio), |r| format!("{r:.2}"))
        );
    }
    html + "</table>"
}

fn machine(report: &Report) -> String {
    let m = &report.machine;
    let kind = if m.virtual_machine { ", a virtual machine" } else { "" };
    let mut html = format!(
        "<p>{} x {}{kind}; Linux {}; governor: {}; load {:.2} before, {:.2} after; {} run of {:.0} s; chappe {}</p>",
        m.processors,
        escape(&m.processor),
        escape(&m.kernel),
        escape(&m.governor),
        m.load.0,
        m.load.1,
        if report.quick { "a quick" } else { "a whole" },
        m.seconds,
        escape(&report.version)
    );
    if m.load.0 > 0.5 {
        html += "<p class=\"bad\">The machine was busy with something else when the run began: trust ratios, and those with care.</p>";
    }
    let list: String = m.mitigations.iter().map(|l| format!("{}\n", escape(l))).collect();
    let _ = write!(
        html,
        "<details><summary>mitigations and compilers</summary><pre>{list}{}</pre></details>",
        escape(&m.facts)
    );
    html
}

/// Cases of ours that are slower than the peer that another case of ours beats or equals: one table for all.
fn variants(all: &[Verdict]) -> String {
    let lines: String = all
        .iter()
        .flat_map(|v| v.others.iter().map(move |(name, ratio)| (v, name, ratio)))
        .map(|(v, name, ratio)| {
            format!(
                "<tr><td class=\"t\"><a href=\"#{}\">{}</a></td><td class=\"t\">{}</td><td class=\"t\">{}</td><td class=\"bad\">{}</td></tr>",
                escape(&v.row),
                escape(&v.table),
                escape(name),
                escape(&v.peer),
                interval(Some(*ratio), |r| format!("{r:.2}"))
            )
        })
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "<details><summary>other cases of chappe's that are slower than that peer: kinds with more ends, between processes, or that survive more</summary><table><tr>\
         <th>measured</th><th class=\"t\">case</th><th class=\"t\">best peer</th><th>ratio [95 %]</th></tr>{lines}</table></details>"
    )
}

/// The page.
pub fn page(report: &Report) -> String {
    let all = verdicts(report);
    let of = |which: fn(&Verdict) -> bool| all.iter().filter(|v| which(v)).collect::<Vec<_>>();
    let (slower, faster) = (of(Verdict::slower), of(Verdict::faster));
    let even = of(|v| !v.slower() && !v.faster());
    let absent = report.rows.iter().filter(|r| r.absent.is_some()).count();
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>chappe lab</title><style>{STYLE}</style>\
         <h1>chappe lab</h1><p class=\"dim\">The measurements of five papers, run again, with today's peers in the same run.</p>{}",
        machine(report)
    );
    let _ = write!(
        html,
        "<p>Tables with a peer: chappe is <b class=\"bad\">slower in {}</b>, even in {}, <b class=\"good\">faster in {}</b>. Rows without a measurement: {absent} of {}.</p>",
        slower.len(),
        even.len(),
        faster.len(),
        report.rows.len()
    );
    html += &comparison("Slower than the best peer", "bad", &slower);
    let _ = write!(
        html,
        "<details><summary>even, and faster</summary>{}{}</details>{}<p class=\"dim\">Ratios are medians of the ratios round by round; in brackets the 95 % interval of this run, by the \
         bootstrap. Floors are what the machine takes without any promise, and are no peers.</p><nav>",
        comparison("Even", "", &even),
        comparison("Faster", "good", &faster),
        variants(&all)
    );
    for paper in Paper::ALL {
        let _ = write!(html, "<a href=\"#{paper:?}\">{}</a>", paper.name());
    }
    html += "</nav>";
    for paper in Paper::ALL {
        let rows: String = report.rows.iter().filter(|r| r.paper == paper).map(row).collect();
        if !rows.is_empty() {
            let _ = write!(html, "<h2 id=\"{paper:?}\">{}</h2>{rows}", paper.name());
        }
    }
    html + "</html>\n"
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::machine::Machine;
    use chappe_bench::table::Table;

    pub(crate) fn outcome() -> Outcome {
        Outcome {
            id: "row".into(),
            paper: Paper::Nix,
            part: "figure 1".into(),
            title: "a title".into(),
            note: String::new(),
            figures: Some(Figures::new("a VAX", &["what|us", "x|5"])),
            absent: None,
            tables: Vec::new(),
            text: String::new(),
            visits: 1,
            seconds: 1.0,
        }
    }

    pub(crate) fn report() -> Report {
        let machine = Machine { processor: "p".into(), ..Machine::look() };
        Report { form: crate::report::FORM, version: "0".into(), quick: true, machine, rows: vec![outcome()] }
    }

    #[test]
    fn the_first_screen_says_where_chappe_is_slower() {
        let rows = vec![("pthread mutex".to_owned(), vec![1.0; 9]), ("mutex".to_owned(), vec![2.0; 9])];
        let mut report = report();
        report.rows[0].tables.push(Measured::new(&Table::of("uncontended", rows)));
        let page = page(&report);
        let (slower, papers) = (page.find("Slower than the best peer").unwrap(), page.find("<h2").unwrap());
        assert!(slower < papers && page[slower..papers].contains("uncontended"));
        assert!(page.contains("slower in 1"));
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_shows_text_as_text() {
        let mut report = report();
        report.rows[0].absent = Some("<script>".into());
        let page = page(&report);
        for foreign in ["http:", "https:", "<script", "src="] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("&lt;script&gt;") && page.contains("a VAX"));
    }
}
