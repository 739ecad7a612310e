//! What was counted, as a table for people and as one JSON object a line for programs.

use std::fmt::Write;

use crate::sweep::Tally;

/// The head of the table.
pub fn head() -> String {
    format!(
        "{:<30}{:<16}{:>8}{:>7}{:>7}{:>7}{:>5}{:>8}{:>5}{:>7}{:>10}{:>7}{:>8}",
        "operation",
        "scene",
        "instr.",
        "trials",
        "kills",
        "wedged",
        "lost",
        "doubled",
        "torn",
        "leaked",
        "backstops",
        "told",
        "seconds"
    )
}

/// One line of the table, and what was found below it.
pub fn row(t: &Tally) -> String {
    let mut text = format!(
        "{:<30}{:<16}{:>8}{:>7}{:>7}{:>7}{:>5}{:>8}{:>5}{:>7}{:>10}{:>7}{:>8.1}",
        t.name,
        t.scene,
        t.instructions,
        t.trials,
        t.kills,
        t.wedged,
        t.lost,
        t.doubled,
        t.torn,
        t.leaked,
        t.backstops,
        t.told,
        t.took.as_secs_f64()
    );
    for finding in &t.findings {
        let _ = write!(text, "\n    {finding}");
    }
    text
}

/// One JSON object.
pub fn json(t: &Tally) -> String {
    let findings: Vec<String> = t.findings.iter().map(|f| quote(f)).collect();
    format!(
        "{{\"operation\":{},\"scene\":{},\"instructions\":{},\"trials\":{},\"kills\":{},\"wedged\":{},\"lost\":{},\
         \"doubled\":{},\"torn\":{},\"leaked\":{},\"backstops\":{},\"told\":{},\"seconds\":{:.3},\"findings\":[{}]}}",
        quote(&t.name),
        quote(&t.scene),
        t.instructions,
        t.trials,
        t.kills,
        t.wedged,
        t.lost,
        t.doubled,
        t.torn,
        t.leaked,
        t.backstops,
        t.told,
        t.took.as_secs_f64(),
        findings.join(",")
    )
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
}
