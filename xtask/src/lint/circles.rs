//! Rule `circles`: no files of a crate import each other in a circle.
//!
//! A file whose imports lead back to it cannot be read, tested or moved without the others of the circle. [`imports()`] says what an import is.
//!
//! What is still tied is in [`TIED`], a ratchet: the sizes of each crate's circles may only fall, and the list falls with them.

use super::Finding;
use super::house::{House, room, ships};
use super::imports::{Arrows, imports};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The circles that are left, by crate: how many files each has.
///
/// The preload's: a program's first call of any of its functions prepares for forks, and what is
/// prepared takes the locks of all of them.
const TIED: [(&str, &[usize]); 1] = [("preload", &[10])];

pub fn check(house: &House) -> Vec<Finding> {
    let crates: BTreeSet<&str> = house.rust().filter(|(p, _)| ships(p)).filter_map(|(p, _)| room(p)).collect();
    crates.iter().flat_map(|name| hold(name, &Files::of(house, name), listed(name))).collect()
}

fn listed(name: &str) -> &'static [usize] {
    TIED.iter().find(|(n, _)| *n == name).map_or(&[], |(_, sizes)| sizes)
}

/// Holds a crate's circles against the sizes that are listed.
fn hold(name: &str, files: &Files<'_>, listed: &[usize]) -> Vec<Finding> {
    let circles = files.circles();
    let sizes: Vec<usize> = circles.iter().map(BTreeSet::len).collect();
    let fits = |at: usize| listed.get(at).is_some_and(|most| sizes[at] <= *most);
    let mut findings: Vec<Finding> = (0..circles.len())
        .filter(|at| !fits(*at))
        .map(|at| {
            let text = format!("{} files in a circle, such as {}", sizes[at], files.shown(&circles[at]));
            Finding::new(circles[at].first().map_or("", |f| f), 0, "circles", text)
        })
        .collect();
    if findings.is_empty() && sizes != listed {
        let text =
            format!("the circles of `{name}` are {sizes:?} now, less than {listed:?}: say so in the lint's list");
        findings.push(Finding::new("xtask/src/lint/circles.rs", 0, "circles", text));
    }
    findings
}

/// The files of a crate, and what each takes from which other.
struct Files<'a> {
    arrows: Arrows<'a>,
}

impl<'a> Files<'a> {
    fn of(house: &'a House, name: &str) -> Files<'a> {
        Files { arrows: imports(house, name) }
    }

    /// The circles: largest first.
    fn circles(&self) -> Vec<BTreeSet<&'a str>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> = self.arrows.keys().map(|f| (*f, self.reached(f))).collect();
        let mut circles = BTreeSet::new();
        for (file, reached) in &reach {
            if reached.contains(file) {
                circles.insert(reached.iter().copied().filter(|other| reach[other].contains(file)).collect());
            }
        }
        let mut circles: Vec<BTreeSet<&str>> = circles.into_iter().collect();
        circles.sort_by_key(|c| std::cmp::Reverse(c.len()));
        circles
    }

    fn reached(&self, from: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut todo = vec![from];
        while let Some(file) = todo.pop() {
            todo.extend(self.arrows[file].keys().filter(|next| reached.insert(**next)));
        }
        reached
    }

    /// The shortest way around within a circle, with the names that each takes from the next.
    fn shown(&self, circle: &BTreeSet<&'a str>) -> String {
        let around = circle.iter().filter_map(|file| self.around(file)).min_by_key(Vec::len).unwrap_or_default();
        let mut text = String::new();
        for pair in around.windows(2) {
            let names: Vec<&str> = self.arrows[pair[0]][pair[1]].iter().map(String::as_str).collect();
            text += &format!("{} -> {} ({}); ", pair[0], pair[1], names.join(", "));
        }
        text.trim_end_matches("; ").to_owned()
    }

    fn around(&self, file: &'a str) -> Option<Vec<&'a str>> {
        let mut todo = VecDeque::from([vec![file]]);
        let mut seen = BTreeSet::new();
        while let Some(way) = todo.pop_front() {
            for next in self.arrows[way[way.len() - 1]].keys() {
                let longer = way.iter().chain([next]).copied().collect();
                if *next == file {
                    return Some(longer);
                }
                if seen.insert(*next) {
                    todo.push_back(longer);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let mut house = House::default();
        for (name, text) in files {
            house.add(&format!("crates/a/src/{name}.rs"), text);
        }
        let short = |f: &str| f.trim_start_matches("crates/a/src/").trim_end_matches(".rs").to_owned();
        Files::of(&house, "a").circles().iter().map(|c| c.iter().map(|f| short(f)).collect()).collect()
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let root = ("lib", "mod x; mod y; mod z;");
        let x = ("x", "use crate::{y::{self, Y}, z::Z};");
        for y in ["use super::x::X;", "fn f() { crate::x::g(); }", "struct Y { x: Vec<super::x::X> }"] {
            assert_eq!(circles(&[root, x, ("y", y), ("z", "pub struct Z;")]), [["x", "y"]], "{y}");
        }
        assert!(circles(&[root, x, ("y", "pub struct Y;"), ("z", "use crate::y::Y;")]).is_empty());
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_defines_the_name() {
        let root = ("lib", "mod x; mod y; mod z; pub use self::x::X; pub use z::*;");
        let z = ("z", "pub struct Z;");
        assert!(circles(&[root, ("x", "use crate::Z;"), ("y", "use crate::X;"), z]).is_empty());
        assert_eq!(
            circles(&[root, ("x", "use crate::Z;"), ("y", "use crate::X;"), ("z", "pub struct Z(crate::X);")]),
            [["x", "z"]]
        );
        assert_eq!(circles(&[("lib", "mod x; pub use x::X; pub fn f() {}"), ("x", "use crate::f;")]), [["lib", "x"]]);
    }

    #[test]
    fn a_parent_and_its_child_are_a_circle_if_each_uses_the_other() {
        let root = ("lib", "mod x;");
        let child = ("x/y", "use super::Shared;\npub fn f() {}");
        assert_eq!(circles(&[root, ("x", "mod y;\npub struct Shared;\nfn g() { y::f(); }"), child]), [["x", "x/y"]]);
        assert!(circles(&[root, ("x", "mod y;\npub struct Shared;"), child]).is_empty(), "`mod y;` is no import");
        assert_eq!(circles(&[root, ("x/mod", "mod y;\npub struct Shared;\npub use y::f;"), child]), [["x/mod", "x/y"]]);
    }

    #[test]
    fn a_folder_is_the_module_that_its_path_attribute_says() {
        let root = ("lib", "#[path = \"real/mod.rs\"]\nmod back;\n#[path = \"sim/mod.rs\"]\nmod back;\nmod y;");
        let (x, y) = (("real/x", "use crate::y::Y;"), ("y", "pub struct Y(crate::back::x::X);"));
        assert_eq!(circles(&[root, ("real/mod", "pub mod x;"), x, y]), [["real/x", "y"]]);
        assert!(circles(&[root, ("real/mod", "pub mod x;"), ("real/x", "pub struct X;"), y]).is_empty());
    }

    #[test]
    fn a_file_is_the_module_that_a_path_attribute_anywhere_says() {
        let root = ("lib", "mod y;\nmod z;");
        let x = ("z/other/x", "use crate::y::Y;\npub struct X;");
        let y = ("y", "pub struct Y(crate::z::machine::X);");
        for said in [
            "#[path = \"other/x.rs\"]",
            "#[cfg_attr(all(unix, not(a)), path = \"other/x.rs\")]\n#[cfg_attr(a, path = \"a.rs\")]",
        ] {
            let z = format!("{said}\npub mod machine;");
            assert_eq!(circles(&[root, x, y, ("z/mod", &z)]), [["y", "z/other/x"]], "{said}");
        }
        // It is declared by its place as well.
        let z = ("z/mod", "pub mod other;\n#[path = \"other/x.rs\"]\nmod machine;");
        let y = ("y", "pub struct Y(crate::z::other::x::X);");
        assert_eq!(circles(&[root, x, y, z, ("z/other/mod", "pub mod x;")]), [["y", "z/other/x"]]);
    }

    #[test]
    fn a_module_within_a_file_and_a_macro_belong_to_their_file() {
        let root = ("lib", "#[macro_use] mod x; mod y;");
        let x = ("x", "macro_rules! m { () => { $crate::y::Y } }\nmod inner { pub fn f() { super::g(); } }");
        assert_eq!(circles(&[root, x, ("y", "fn f() { m!(); }")]), [["x", "y"]]);
        assert_eq!(circles(&[root, x, ("y", "fn f() { crate::x::inner::f(); }")]), [["x", "y"]]);
        assert!(circles(&[root, x, ("y", "fn f() { if m != 1 {} }")]).is_empty());
    }

    #[test]
    fn tests_and_comments_tie_nothing() {
        let root = ("lib", "mod x; mod y;");
        let x = ("x", "use crate::y::Y;\n#[cfg(test)]\nmod tests;");
        let y = ("y", "// crate::x::X\n#[cfg(test)]\nmod tests {\n    use crate::x::X;\n}\n");
        assert!(circles(&[root, x, y, ("x/tests", "use super::X;\nuse crate::y::Z;")]).is_empty());
    }

    #[test]
    fn the_sizes_may_only_fall() {
        let mut house = House::default();
        house.add("crates/a/src/x.rs", "use crate::y::Y;");
        house.add("crates/a/src/y.rs", "use crate::x::X;");
        let held = |listed: &[usize]| hold("a", &Files::of(&house, "a"), listed).len();
        assert_eq!([held(&[]), held(&[2]), held(&[3]), held(&[2, 2])], [1, 0, 1, 1]);
    }
}
