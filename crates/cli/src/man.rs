//! The manual pages, made from the definition of the command line: one for `chappe` and one for each command.
//!
//! What follows a command's options in its long help, headings with indented lines, becomes sections of the page, kept
//! line by line.

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::fmt::Write;
use std::io;
use std::path::Path;

/// The main page.
///
/// # Errors
/// None that matters: it is made in memory.
pub fn main_page() -> io::Result<Vec<u8>> {
    page(&definition())
}

/// Writes every page into a directory, which is made if it is not there.
///
/// # Errors
/// The system's.
pub fn write_all(to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    write_from(&definition(), to)
}

fn definition() -> Command {
    let mut all = crate::args::Cli::command().disable_help_subcommand(true);
    all.build();
    all
}

/// `chappe pool create` is on page chappe-pool-create.
fn name_of(command: &Command) -> String {
    command.get_bin_name().unwrap_or_else(|| command.get_name()).replace(' ', "-")
}

fn write_from(command: &Command, to: &Path) -> io::Result<()> {
    std::fs::write(to.join(format!("{}.1", name_of(command))), page(command)?)?;
    command.get_subcommands().filter(|c| !c.is_hide_set()).try_for_each(|c| write_from(c, to))
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone());
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").replace("[OPTIONS]", "[OPTION]...");
    out.extend(section("SYNOPSIS", &usage).into_bytes());
    out.extend(description(command).into_bytes());
    man.render_options_section(&mut out)?;
    if command.get_subcommands().any(|c| !c.is_hide_set()) {
        out.extend(commands(command).into_bytes());
    }
    let after = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let mut rest = after.as_str();
    while let Some((heading, more)) = rest.split_once(":\n  ") {
        // Up to the next line that is not indented.
        let ends = more.match_indices("\n\n").find(|(at, _)| !more[at + 2..].starts_with(' '));
        let (lines, next) = ends.map_or((more, ""), |(at, _)| (&more[..at], &more[at + 2..]));
        out.extend(section(&heading.to_uppercase(), &lines.replace("\n  ", "\n")).into_bytes());
        rest = next;
    }
    Ok(out)
}

fn description(command: &Command) -> String {
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string);
    let mut out = String::from(".SH DESCRIPTION\n");
    for part in about.unwrap_or_default().split("\n\n") {
        // What is laid out by hand stays so.
        let (open, close) = if part.starts_with("JSON:") { (".PP\n.nf", ".fi") } else { (".PP", "") };
        let _ = writeln!(out, "{open}\n{}\n{close}", escaped(part));
    }
    out
}

fn commands(command: &Command) -> String {
    let mut out = String::from(".SH COMMANDS\n");
    for c in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        let about = c.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(out, ".TP\n\\fB{}\\fR(1)\n{}", escaped(&name_of(c)), escaped(&about));
    }
    out
}

/// A section whose lines stay as they are.
fn section(heading: &str, lines: &str) -> String {
    format!(".SH {}\n.nf\n{}\n.fi\n", escaped(heading), escaped(lines))
}

/// So that nothing in the text is taken for a request to the formatter.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    let lines = text.lines().map(|l| if l.starts_with('.') { format!("\\&{l}") } else { l.to_owned() });
    lines.collect::<Vec<_>>().join("\n")
}
