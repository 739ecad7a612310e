//! What was counted, as a table for people, as one JSON object a line for programs, and as a page of the documents.

use std::fmt::Write;

use crate::tally::Tally;

/// A column: its head, its width, and what stands in it.
type Column = (&'static str, usize, fn(&Tally) -> String);

/// The columns after the operation and its scene.
const COLUMNS: [Column; 16] = [
    ("instr.", 8, |t| t.instructions.to_string()),
    ("kill points", 12, |t| t.points.to_string()),
    ("states", 7, |t| t.states.to_string()),
    ("trials", 7, |t| t.trials.to_string()),
    ("kills", 7, |t| t.kills.to_string()),
    ("double faults", 14, |t| t.double.to_string()),
    ("wedged", 7, |t| t.wedged.to_string()),
    ("torn", 5, |t| t.torn.to_string()),
    ("lost", 5, |t| t.lost.to_string()),
    ("duplicated", 11, |t| t.doubled.to_string()),
    ("leaked", 7, |t| t.leaked.to_string()),
    ("backstop fired", 15, |t| t.backstops.to_string()),
    ("told", 6, |t| t.told.to_string()),
    ("held up", 8, |t| t.held.to_string()),
    ("worst ms", 10, |t| format!("{:.1}", t.worst.as_secs_f64() * 1e3)),
    ("seconds", 9, |t| format!("{:.1}", t.took.as_secs_f64())),
];

/// The head of the table.
pub fn head() -> String {
    let mut text = format!("{:<31}{:<16}", "operation", "scene");
    for (name, width, _) in COLUMNS {
        let _ = write!(text, "{name:>width$}");
    }
    text
}

/// One line of the table, and what was found below it.
pub fn row(t: &Tally) -> String {
    let mut text = format!("{:<31}{:<16}", t.name, t.scene);
    for (_, width, value) in COLUMNS {
        let _ = write!(text, "{:>width$}", value(t));
    }
    for finding in held_up(t).iter().chain(&t.findings) {
        let _ = write!(text, "\n    {finding}");
    }
    text
}

/// How often processes had to wait for a stopped one, and why; nothing where none had.
fn held_up(t: &Tally) -> Option<String> {
    (t.held > 0 && !t.why.is_empty()).then(|| format!("held up {} times: {}", t.held, t.why))
}

/// One JSON object.
pub fn json(t: &Tally) -> String {
    let mut text = format!("{{\"operation\":{},\"scene\":{}", quote(&t.name), quote(&t.scene));
    for (name, _, value) in COLUMNS {
        let _ = write!(text, ",\"{}\":{}", name.trim_end_matches('.').replace(' ', "_"), value(t));
    }
    let _ = write!(text, ",\"why\":{}", quote(&t.why));
    let findings: Vec<String> = t.findings.iter().map(|f| quote(f)).collect();
    let _ = write!(text, ",\"findings\":[{}]}}", findings.join(","));
    text
}

/// The page: how it was made, and the table, with what was found below it.
pub fn markdown(made: &str, all: &[Tally], total: &Tally) -> String {
    let mut text = format!("{made}\n\n| operation | scene |");
    for (name, ..) in COLUMNS {
        let _ = write!(text, " {name} |");
    }
    text += "\n|---|---|";
    text += &"--:|".repeat(COLUMNS.len());
    for t in all.iter().chain([total]) {
        let _ = write!(text, "\n| {} | {} |", t.name, t.scene);
        for (_, _, value) in COLUMNS {
            let _ = write!(text, " {} |", value(t));
        }
    }
    text.push('\n');
    for t in all {
        for finding in held_up(t).iter().chain(&t.findings) {
            let _ = write!(text, "\n- {}, {}: {finding}", t.name, t.scene);
        }
    }
    text.trim_end().to_owned() + "\n"
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_escapes_what_must_be_escaped() {
        assert_eq!(quote("a\"b\\c\nd"), r#""a\"b\\c\u000ad""#);
    }

    #[test]
    fn every_line_of_a_page_has_every_column() {
        let mut one = Tally::of_scenario("send".to_owned(), "alone".to_owned());
        one.note("at 7: Lost: one".to_owned());
        (one.held, one.why) = (3, "it has the lock".to_owned());
        let page = markdown("By hand.", &[one.clone(), one], &Tally::of_scenario("in all".to_owned(), String::new()));
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(rows.len(), 5);
        assert!(rows.iter().all(|row| row.matches('|').count() == COLUMNS.len() + 3), "{page}");
        let below = "\n- send, alone: held up 3 times: it has the lock\n- send, alone: at 7: Lost: one\n";
        assert!(page.ends_with(below), "{page}");
    }
}
