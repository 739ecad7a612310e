//! The program as it is called: what it writes, what it refuses, and that a row that cannot be measured says why.

use std::path::PathBuf;
use std::process::{Command, Output};

fn lab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_chappe-lab")).args(args).output().expect("it starts")
}

/// A directory that goes when it is dropped.
struct Own(PathBuf);

impl Own {
    fn new(name: &str) -> Own {
        let path = std::env::temp_dir().join(format!("chappe-lab-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Own(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("text").to_owned()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_row_that_is_not_there_says_why_in_every_form_and_a_report_agrees_with_itself() {
    let own = Own::new("absent");
    let (html, json) = (own.path("r.html"), own.path("r.json"));
    let done = lab(&["--quick", "--only", "synthesis-3-2", "--html", &html, "--json", &json]);
    assert!(done.status.success(), "{}", said(&done));
    assert!(said(&done).contains("it is C against the C library"), "{}", said(&done));
    for file in [&html, &json] {
        assert!(
            std::fs::read_to_string(file).expect("it was written").contains("it is C against the C library"),
            "{file}"
        );
    }
    let same = lab(&["compare", &json, &json]);
    assert!(same.status.success() && said(&same).contains("0 of 0 figures agree"), "{}", said(&same));
}

#[test]
fn a_row_is_measured_in_a_process_of_its_own() {
    let own = Own::new("measured");
    let json = own.path("r.json");
    // The shortest: it asks the kernel for some pages.
    let done = lab(&["--quick", "--only", "synthesis-7-4", "--json", &json]);
    assert!(done.status.success(), "{}", said(&done));
    let text = std::fs::read_to_string(&json).expect("it was written");
    assert!(text.contains("kernel: fault, a zeroed page") && text.contains("\"median\""), "{text}");
}

#[test]
fn a_place_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let done = lab(&["--quick", "--json", "/nonexistent/r.json"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(said(&done).contains("cannot write /nonexistent/r.json"), "{}", said(&done));
}

#[test]
fn a_row_that_is_none_and_a_report_that_is_none_are_named() {
    let done = lab(&["--only", "nonsense"]);
    assert!(done.status.code() == Some(1) && said(&done).contains("`nonsense`"), "{}", said(&done));
    let done = lab(&["compare", "/dev/null", "/dev/null"]);
    assert!(done.status.code() == Some(1) && said(&done).contains("is not a report"), "{}", said(&done));
}
