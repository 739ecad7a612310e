//! Manual pages of section 3, made of the C headers: one for each header, and a line that leads there for each function.
//!
//! A header's first comment is the page's description. Behind it stand declarations, each below its own comment: constants, structs
//! and functions. What the comment says after `Errors:` becomes a paragraph of its own.

use crate::run::root;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// A declaration and what is said of it.
struct Item {
    said: String,
    code: String,
}

impl Item {
    /// The function's name, if it is one.
    fn function(&self) -> Option<&str> {
        let head = self.code.split('(').next().filter(|_| self.code.contains('('))?;
        if self.code.starts_with('#') || self.code.starts_with("typedef") {
            return None;
        }
        head.rsplit([' ', '*']).next().filter(|name| !name.is_empty())
    }
}

/// A header, taken apart.
struct Page {
    name: String,
    head: String,
    items: Vec<Item>,
}

/// The text of a comment, from what stands between its marks.
fn text_of(comment: &str) -> String {
    let lines = comment.lines().map(|line| line.trim().trim_start_matches('*'));
    lines.map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end()).collect::<Vec<_>>().join("\n").trim().to_owned()
}

fn page(name: &str, header: &str) -> Page {
    let (head, rest) = header.split_once("*/").unwrap_or((header, ""));
    let head = text_of(head.trim_start_matches("/*")).replace("`", "");
    let head = head.split("\n\nGenerated ").next().unwrap_or_default().split("\nGenerated ").next().unwrap_or_default();
    let mut items = Vec::new();
    for part in rest.split("\n/**").skip(1) {
        let Some((said, code)) = part.split_once("*/") else { continue };
        // A declaration ends where the next line is empty.
        let code = code.trim_start_matches('\n').split("\n\n").next().unwrap_or_default();
        // Of an inline function, what it is called with.
        let code = code.split("\n{").next().unwrap_or_default().trim_start_matches("static inline ");
        items.push(Item { said: text_of(said), code: code.trim_end().to_owned() });
    }
    Page { name: name.into(), head: head.to_owned(), items }
}

/// So that nothing in the text is taken for a request to the formatter.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    let lines = text.lines().map(|l| if l.starts_with('.') { format!("\\&{l}") } else { l.to_owned() });
    lines.collect::<Vec<_>>().join("\n")
}

/// Paragraphs, and what is set out in columns as it stands.
fn flowing(text: &str) -> String {
    let mut out = String::new();
    for part in text.split("\n\n") {
        let set = part.lines().any(|line| line.starts_with("    "));
        let (open, close) = if set { (".PP\n.nf", "\n.fi") } else { (".PP", "") };
        let _ = writeln!(out, "{open}\n{}{close}", escaped(part));
    }
    out
}

impl Page {
    fn title(&self) -> String {
        if self.name == "chappe" { "chappe".into() } else { format!("chappe_{}", self.name) }
    }

    fn shown(&self, version: &str) -> String {
        let title = self.title();
        let (first, rest) = self.head.split_once("\n\n").unwrap_or((&self.head, ""));
        // The head's first sentence is what the page is about.
        let (about, more) = first.split_once(". ").unwrap_or((first.trim_end_matches('.'), ""));
        let include = match self.name.as_str() {
            "chappe" => "#include <chappe.h>\n\npkg-config --cflags --libs chappe\n".to_owned(),
            // The papers' own interfaces, which chappe.h does not include.
            own @ ("plan9" | "nix" | "stdio" | "schema" | "thread" | "libc9") => format!("#include <chappe/{own}.h>\n"),
            _ => "#include <chappe.h>\n".to_owned(),
        };
        let mut out = format!(
            ".TH {} 3 \"\" \"chappe {version}\" \"Library Functions Manual\"\n.SH NAME\n{title} \\- {}\n",
            title.to_uppercase(),
            escaped(&about.replace('\n', " "))
        );
        let _ = writeln!(out, ".SH SYNOPSIS\n.nf\n{}", escaped(&include));
        for item in self.items.iter().filter(|item| item.function().is_some()) {
            let _ = writeln!(out, "{}", escaped(&item.code));
        }
        out += ".fi\n.SH DESCRIPTION\n";
        out += &flowing(&[more, rest].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join("\n\n"));
        let others: Vec<&Item> = self.items.iter().filter(|item| item.function().is_none()).collect();
        if !others.is_empty() {
            out += ".SH CONSTANTS AND TYPES\n";
            for item in others {
                let _ = write!(out, ".PP\n{}\n.PP\n.RS\n.nf\n{}\n.fi\n.RE\n", escaped(&item.said), escaped(&item.code));
            }
        }
        let functions: Vec<&Item> = self.items.iter().filter(|item| item.function().is_some()).collect();
        if !functions.is_empty() {
            out += ".SH FUNCTIONS\n";
            for item in functions {
                let name = item.function().unwrap_or_default();
                let _ = write!(out, ".SS {}\n{}", escaped(name), flowing(&item.said));
            }
        }
        out += ".SH SEE ALSO\n";
        let family = "arena barrier broadcast choice condvar look map mutex nix permit plan9 pool process publisher receiver rwlock schema semaphore sender stdio subscription tube";
        let others = family.split(' ').filter(|name| *name != self.name).map(|name| format!("chappe_{name}(3)"));
        let chappe = (self.name != "chappe").then(|| "chappe(3)".to_owned());
        let all: Vec<String> = chappe.into_iter().chain(others).chain(["chappe(1)".to_owned()]).collect();
        let _ = writeln!(out, "{}", escaped(&all.join(",\n")));
        out
    }
}

fn pages() -> Result<Vec<Page>> {
    let include = root().join("crates/ffi/include");
    let read = |path: &Path| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let mut pages = vec![page("chappe", &read(&include.join("chappe.h"))?)];
    let mut parts: Vec<_> = fs::read_dir(include.join("chappe"))?.collect::<Result<_, _>>()?;
    parts.sort_by_key(fs::DirEntry::file_name);
    for part in parts {
        let path = part.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        pages.push(page(&name, &read(&path)?));
    }
    Ok(pages)
}

/// Writes all pages into a directory.
pub fn write_all(to: &Path) -> Result<()> {
    for page in pages()? {
        let title = page.title();
        fs::write(to.join(format!("{title}.3")), page.shown(env!("CARGO_PKG_VERSION")))?;
        for name in page.items.iter().filter_map(Item::function).filter(|name| name.starts_with("chappe_")) {
            fs::write(to.join(format!("{name}.3")), format!(".so man3/{title}.3\n"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_says_something_of_every_function() {
        let pages = pages().unwrap();
        let functions: Vec<&str> = pages.iter().flat_map(|p| &p.items).filter_map(Item::function).collect();
        assert!(functions.len() > 100, "{}", functions.len());
        for page in &pages {
            assert!(!page.head.is_empty(), "{}", page.name);
            let shown = page.shown("1");
            for item in &page.items {
                assert!(!item.said.is_empty(), "{}: {}", page.name, item.code);
            }
            for name in page.items.iter().filter_map(Item::function) {
                assert!(shown.contains(&format!(".SS {name}\n")), "{name}");
            }
        }
    }

    #[test]
    fn a_header_is_taken_apart() {
        let p = page(
            "x",
            "/*\n * X: all of it.\n *\n * More.\n *\n * Generated from y.\n */\n#ifndef X\n\n/**\n * Does.\n *\n * Errors: none.\n */\nint does(int a,\n         int b);\n\n/**\n * One.\n */\n#define ONE (1)\n\n#endif\n",
        );
        assert_eq!(p.head, "X: all of it.\n\nMore.");
        assert_eq!(p.items.len(), 2);
        assert_eq!((p.items[0].function(), p.items[1].function()), (Some("does"), None));
        assert_eq!(p.items[0].said, "Does.\n\nErrors: none.");
        let shown = p.shown("1");
        assert!(shown.contains("chappe_x \\- X: all of it\n") && shown.contains(".SS does"), "{shown}");
    }
}
