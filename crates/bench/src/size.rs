//! Text and data of each crate in a program: synthesis, 3.4.1 ("Kernel Size").
//!
//! The program's own table of symbols says how long each function and each variable is, and its name has the crate's. What the compiler makes of another
//! crate's generic code for a type of ours counts as ours; what was put into its caller counts there. Constants without a name (texts, tables of
//! methods) are in no row.

use crate::table::{Table, Unit};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use std::collections::BTreeMap;
use std::path::Path;

/// The crate that a mangled name mentions first; others' code has none of ours.
fn crate_of(symbol: &str) -> Option<String> {
    if let Some(at) = symbol.find("chappe_") {
        let word = symbol[at + 7..].split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default();
        return Some(format!("chappe-{word}"));
    }
    symbol.contains("6chappe").then(|| "chappe".to_owned())
}

/// Bytes of text, and of data with a name, for each crate of ours, and for all others together.
///
/// # Errors
/// It cannot be read, is no 64-bit ELF program, or its symbols were stripped.
fn sizes(program: &[u8]) -> Result<BTreeMap<String, [u64; 2]>, String> {
    let program = ElfFile64::<object::Endianness>::parse(program).map_err(|e| e.to_string())?;
    let mut all = BTreeMap::<String, [u64; 2]>::new();
    for symbol in program.symbols() {
        let kind = symbol.section_index().and_then(|at| program.section_by_index(at).ok()).map(|s| s.kind());
        let at = match kind {
            Some(SectionKind::Text) => 0,
            Some(
                SectionKind::Data
                | SectionKind::ReadOnlyData
                | SectionKind::UninitializedData
                | SectionKind::ReadOnlyString,
            ) => 1,
            _ => continue,
        };
        let of = symbol.name().ok().and_then(crate_of).unwrap_or_else(|| "others' code".to_owned());
        all.entry(of).or_default()[at] += symbol.size();
    }
    if all.is_empty() { Err("its symbols were stripped".to_owned()) } else { Ok(all) }
}

/// Counts and prints.
///
/// # Errors
/// What is wrong with the program.
pub fn measure(program: &Path) -> Result<(), String> {
    let name = program.display();
    let bytes = std::fs::read(program).map_err(|e| format!("{name}: {e}: build it first"))?;
    let all = sizes(&bytes).map_err(|e| format!("{name}: {e}"))?;
    for (at, what) in ["text", "data with a name"].into_iter().enumerate() {
        let mut rows: Vec<(String, f64)> = all.iter().map(|(of, sizes)| (of.clone(), sizes[at] as f64)).collect();
        rows.retain(|(_, bytes)| *bytes > 0.0);
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        let rows = rows.into_iter().map(|(of, bytes)| (of, vec![bytes])).collect();
        print!("{}", Table::counted(format!("{what} of each crate in {name}"), Unit::Bytes, rows).report_with(&[]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_of_this_program_has_its_size() {
        let own = std::fs::read(std::env::current_exe().expect("its path")).expect("this program");
        let all = sizes(&own).expect("it has its symbols");
        assert!(all["chappe-bench"][0] > 1000 && all["others' code"][0] > 100_000, "{all:?}");
        assert!(all.keys().all(|of| of.starts_with("chappe") || of == "others' code"), "{all:?}");
        assert!(sizes(b"#!/bin/sh").is_err());
    }

    #[test]
    fn a_name_says_its_crate() {
        let of = |name| crate_of(name).unwrap_or_default();
        assert_eq!(of("_ZN13chappe_stream3run3run17h0123456789abcdefE"), "chappe-stream");
        assert_eq!(
            of("_ZN73_$LT$chappe_sync..tube..Sender$u20$as$u20$core..ops..drop..Drop$GT$4drop17hE"),
            "chappe-sync"
        );
        assert_eq!(of("_RNvNtCs123_12chappe_arena6object4make"), "chappe-arena");
        assert_eq!(of("_ZN6chappe6select4take17hE"), "chappe");
        assert_eq!(of("memcpy"), "");
    }
}
