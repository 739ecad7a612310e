//! Each commit says why.
//!
//! - A commit has a body: the reason is the line that the source cannot give. Its subject has at most 72 characters.
//! - Merges are left out, and so is all that is older than the rule ([`SINCE`]).
//!
//! A tree without its history (an unpacked archive, a shallow clone) has nothing to check.

use super::Finding;
use std::path::Path;
use std::process::Command;

/// The last commit before the rule.
const SINCE: &str = "c48ab1c039d84a89a1736410f1547da88b13af5c";

/// How long a subject may be, in characters.
const SUBJECT: usize = 72;

/// What the commits since the rule lack.
pub fn check(root: &Path) -> Vec<Finding> {
    let log = Command::new("git")
        .current_dir(root)
        .args(["log", "--no-merges", "--format=%h%x1f%s%x1f%b%x1e"])
        .arg(format!("{SINCE}..HEAD"))
        .output();
    match log {
        Ok(log) if log.status.success() && root.join(".git").exists() => read(&String::from_utf8_lossy(&log.stdout)),
        _ => Vec::new(),
    }
}

/// The findings in a log whose records end in RS, with fields parted by US.
fn read(log: &str) -> Vec<Finding> {
    let commits = log.split('\x1e').filter_map(|record| {
        let mut fields = record.trim_start().split('\x1f');
        Some((fields.next()?, fields.next()?, fields.next()?))
    });
    let mut findings = Vec::new();
    for (commit, subject, body) in commits {
        let mut finding = |text: String| findings.push(Finding::new(&format!("commit {commit}"), 0, "commits", text));
        if body.trim().is_empty() {
            finding(format!("`{subject}` has no body: say the reason there"));
        }
        if subject.chars().count() > SUBJECT {
            finding(format!("`{subject}` is longer than {SUBJECT} characters: leave the detail to the body"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_without_a_reason_and_a_long_subject_are_found() {
        let long = "x".repeat(73);
        let log =
            format!("a1\x1fSay it\x1fSince it is so.\n\x1e\nb2\x1fSay nothing\x1f\n\x1e\nc3\x1f{long}\x1fWhy.\n\x1e\n");
        let found: Vec<_> = read(&log).into_iter().map(|f| (f.file, f.rule)).collect();
        assert_eq!(found, [("commit b2".to_owned(), "commits"), ("commit c3".to_owned(), "commits")]);
    }

    #[test]
    fn a_tree_without_history_has_nothing_to_check() {
        assert_eq!(check(Path::new("/")), []);
    }
}
