//! What a change can reach: `cargo xtask test --changed`.
//!
//! | what has changed | what is run, beside format and lint |
//! |---|---|
//! | a package's source or manifest | its tests, and those of each package that depends on it |
//! | a test program of a package, a module of one | that program, the tests of that module |
//! | what several of them have in common | all tests of the package |
//! | the guide, an example: a file of no package | the tests of packages whose tests read it |
//! | the workspace's manifest, the versions in use | everything here |
//! | the source of `plat`, `arena`, `structures`, `wait`, `tube`, `sync`, `ras` | the mutants of the file, and the suites of the explorer and of loom that they name: those are known to notice mistakes there. All suites, where no mutant changes the file |
//! | the source of `crashsim` | all suites of the explorer |
//! | a suite of the explorer or of loom; a mutant | that suite; that mutant |
//! | `ras`; the injector | the sequences with delays; the injector |
//! | `remote`, or what has a client of engines by feature | `cargo check` of all that has, with it |
//!
//! All else is built by the gate's own calls of cargo, which makes again what the change reaches. Documentation tests are left to the
//! gate, and so is the injector where it did not change itself.

use crate::lint;
use crate::run::root;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Whose source is explored, and whether loom has it as well.
const EXPLORED: [(&str, bool); 7] = [
    ("chappe-plat", true),
    ("chappe-arena", true),
    ("chappe-structures", true),
    ("chappe-wait", true),
    ("chappe-tube", true),
    ("chappe-sync", true),
    ("chappe-ras", false),
];
/// What all packages are made by.
const FOR_ALL: [&str; 4] = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/config.toml"];

/// A package of the workspace.
#[derive(Clone, Debug, Default)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub directory: String,
    /// What it depends on, tests included.
    pub needs: Vec<String>,
    /// Its test programs.
    pub programs: BTreeSet<String>,
    /// Files below `tests` with tests in them, without `.rs`.
    pub modules: BTreeSet<String>,
    /// All that its tests say, and each line of its source that takes a file in: what files they read is found there.
    pub reads: String,
}

/// What a mutant changes, and what notices it.
#[derive(Clone, Debug)]
pub struct Planted {
    /// The mutant.
    pub name: String,
    /// The files that it changes.
    pub files: Vec<String>,
    /// The suites that notice it, of the explorer and of loom: `crash_pool`, `chappe-ras/crash_lock`, `loom_ring`.
    pub suites: Vec<String>,
}

/// All, or some by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of them.
    All,
    /// These.
    These(BTreeSet<String>),
}

impl Default for Part {
    fn default() -> Part {
        Part::These(BTreeSet::new())
    }
}

impl Part {
    fn add(&mut self, one: &str) {
        if let Part::These(these) = self {
            these.insert(one.to_owned());
        }
    }

    /// Whether it is none.
    pub fn is_none(&self) -> bool {
        matches!(self, Part::These(these) if these.is_empty())
    }

    /// Which tests of a program are in it, by what their names begin with: no such words for all of them. `whole` is what has the program's
    /// tests together, and `within` how the names of some begin.
    fn of(&self, whole: &str, within: impl Fn(&str) -> Option<String>) -> Option<Vec<String>> {
        match self {
            Part::All => Some(vec![]),
            Part::These(these) if these.contains(whole) => Some(vec![]),
            Part::These(these) => {
                let some: Vec<String> = these.iter().filter_map(|one| within(one)).collect();
                (!some.is_empty()).then_some(some)
            }
        }
    }
}

/// What is to be run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// By package, test programs: `PROGRAM`, or `PROGRAM MODULE::`.
    pub programs: BTreeMap<String, Part>,
    /// Suites of the explorer.
    pub explored: Part,
    /// Suites of loom.
    pub searched: Part,
    /// Mutants.
    pub mutants: BTreeSet<String>,
    /// Whether the packages of these names changed themselves: they have a stage of their own.
    pub stages: BTreeSet<String>,
}

impl Reach {
    /// Which tests of a program of what ships are reached, by how their names begin; `None`: it is not run.
    pub fn tests(&self, package: &str, program: &str) -> Option<Vec<String>> {
        let part = self.programs.get(package)?;
        part.of(program, |one| one.strip_prefix(program)?.strip_prefix(' ').map(str::to_owned))
    }

    /// The same of a program of the explorer or of loom.
    pub fn suites(&self, package: &str, program: &str) -> Option<Vec<String>> {
        let part = if program == "searched" || program.starts_with("loom_") { &self.searched } else { &self.explored };
        let whole = if package == "chappe-sync" { program.to_owned() } else { format!("{package}/{program}") };
        let begins = match program {
            "explored" => "crash_",
            "searched" => "loom_",
            _ => return part.of(&whole, |_| None),
        };
        part.of(&whole, |one| one.starts_with(begins).then(|| format!("{one}::")))
    }
}

/// What these files reach.
pub fn reach(changed: &[String], packages: &[Package], planted: &[Planted]) -> Reach {
    let mut reach = Reach::default();
    for path in changed {
        if FOR_ALL.contains(&path.as_str()) {
            reach.programs.extend(packages.iter().map(|p| (p.name.clone(), Part::All)));
            (reach.explored, reach.searched) = (Part::All, Part::All);
            continue;
        }
        let home = packages.iter().find_map(|p| Some((p, path.strip_prefix(&p.directory)?.strip_prefix('/')?)));
        match home {
            Some((_, text)) if text.ends_with(".md") => readers(&mut reach, path, packages),
            Some((_, mutant)) if mutant.starts_with("mutants/") => {
                let name = mutant.trim_start_matches("mutants/");
                reach.mutants.insert(name.split('.').next().unwrap_or(name).to_owned());
            }
            Some((package, test)) if test.starts_with("tests/") => {
                tests(&mut reach, package, test.trim_start_matches("tests/"));
            }
            Some((package, _)) => source(&mut reach, path, package, packages, planted),
            None => readers(&mut reach, path, packages),
        }
    }
    reach
}

/// A file of no package: the tests that read it, by its name or by its directory's.
fn readers(reach: &mut Reach, path: &str, packages: &[Package]) {
    let directories = Path::new(path).ancestors().skip(1).filter(|d| d.components().count() > 1);
    let names: Vec<String> =
        directories.map(|d| d.display().to_string()).chain(std::iter::once(path.to_owned())).collect();
    for package in packages.iter().filter(|p| names.iter().any(|name| p.reads.contains(name))) {
        reach.programs.insert(package.name.clone(), Part::All);
    }
}

/// A file below a package's `tests`.
fn tests(reach: &mut Reach, package: &Package, test: &str) {
    let (stem, within) = test.split_once('/').unwrap_or((test.strip_suffix(".rs").unwrap_or(test), ""));
    let explored = package.name == "chappe-crashsim" || EXPLORED.iter().any(|(name, _)| *name == package.name);
    let own = |suite: &str| {
        if package.name == "chappe-sync" { suite.to_owned() } else { format!("{}/{suite}", package.name) }
    };
    if explored && (stem.starts_with("crash_") || stem == "explorer") {
        return reach.explored.add(&own(stem));
    }
    if explored && stem.starts_with("loom_") {
        return reach.searched.add(&own(stem));
    }
    if package.name == "chappe-sync" {
        // What suites have in common.
        (reach.explored, reach.searched) = (Part::All, Part::All);
    }
    let one = if package.programs.contains(stem) {
        let module = within.strip_suffix(".rs").filter(|module| *module != "main" && !module.contains('/'));
        match module {
            None if within.is_empty() || within == "main.rs" => Some(stem.to_owned()),
            Some(module) if package.modules.contains(&format!("{stem}/{module}")) => Some(format!("{stem} {module}::")),
            _ => Some(stem.to_owned()),
        }
    } else {
        // A module of the one program that has all.
        let only = package.programs.iter().next().filter(|_| package.programs.len() == 1);
        only.filter(|_| package.modules.contains(stem)).map(|program| format!("{program} {stem}::"))
    };
    let part = reach.programs.entry(package.name.clone()).or_default();
    match one {
        Some(one) => part.add(&one),
        None => *part = Part::All,
    }
}

/// A file of which a package is made.
fn source(reach: &mut Reach, path: &str, package: &Package, packages: &[Package], planted: &[Planted]) {
    let (mut reached, mut todo) = (BTreeSet::new(), vec![package.name.as_str()]);
    while let Some(name) = todo.pop() {
        if reached.insert(name) {
            todo.extend(packages.iter().filter(|p| p.needs.iter().any(|n| n == name)).map(|p| p.name.as_str()));
        }
    }
    // The explorer is a tool of tests: no program of what ships has it.
    if package.name == "chappe-crashsim" {
        reached.clear();
        reach.explored = Part::All;
    }
    reach.programs.extend(reached.into_iter().map(|name| (name.to_owned(), Part::All)));
    reach.stages.insert(package.name.clone());
    let Some((_, searched)) = EXPLORED.iter().find(|(name, _)| *name == package.name) else { return };
    let mut known = false;
    for mutant in planted.iter().filter(|mutant| mutant.files.iter().any(|file| file == path)) {
        known = true;
        reach.mutants.insert(mutant.name.clone());
        for suite in &mutant.suites {
            let loom = suite.rsplit('/').next().is_some_and(|name| name.starts_with("loom_"));
            if loom { reach.searched.add(suite) } else { reach.explored.add(suite) }
        }
    }
    if !known {
        reach.explored = Part::All;
        if *searched {
            reach.searched = Part::All;
        }
    }
}

/// The workspace's packages.
pub fn packages() -> Result<Vec<Package>> {
    let mut all = vec![package("xtask")?];
    for parent in ["crates", "tests"] {
        for entry in fs::read_dir(root().join(parent))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if root().join(parent).join(&name).join("Cargo.toml").exists() {
                all.push(package(&format!("{parent}/{name}"))?);
            }
        }
    }
    Ok(all)
}

fn package(directory: &str) -> Result<Package> {
    let at = root().join(directory);
    let manifest = fs::read_to_string(at.join("Cargo.toml")).with_context(|| directory.to_owned())?;
    let names = |section: &str| -> Vec<String> {
        let parts = manifest.split("\n[").filter_map(|part| part.strip_prefix(section));
        parts.filter_map(|part| Some(part.split_once("name = \"")?.1.split('"').next()?.to_owned())).collect()
    };
    let name = manifest.split_once("name = \"").and_then(|(_, rest)| rest.split('"').next());
    let mut package = Package {
        name: name.with_context(|| format!("{directory} has no name"))?.to_owned(),
        directory: directory.to_owned(),
        needs: lint::needs(&manifest).into_iter().map(|need| need.name).collect(),
        programs: names("[test]]\n").into_iter().collect(),
        reads: manifest.clone(),
        ..Package::default()
    };
    let automatic = !manifest.contains("autotests = false");
    let mut todo = vec![at.join("src"), at.join("tests")];
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten() {
            let path = entry?.path();
            if path.is_dir() {
                todo.push(path);
                continue;
            }
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let Ok(test) = path.strip_prefix(at.join("tests")) else {
                for line in text.lines().filter(|l| l.contains("include_") || l.contains("#[path")) {
                    package.reads += line;
                }
                continue;
            };
            let test = test.display().to_string();
            if let Some(module) = test.strip_suffix(".rs") {
                let program = module.strip_suffix("/main").unwrap_or(module);
                if automatic && !program.contains('/') {
                    package.programs.insert(program.to_owned());
                }
                if text.contains("#[test]") {
                    package.modules.insert(module.to_owned());
                }
            }
            package.reads += &text;
        }
    }
    Ok(package)
}

/// The files that have changed since a commit that HEAD and `since` have in common, and that commit; without one, that of HEAD and of the
/// branch that it goes to.
pub fn files(since: Option<&str>) -> Result<(String, Vec<String>)> {
    let base = match since {
        Some(since) => git(&["merge-base", "HEAD", since]).with_context(|| format!("`{since}` is no commit"))?,
        None => {
            let branches = ["@{upstream}", "origin/HEAD", "origin/main", "main", "HEAD"];
            let found = branches.iter().find_map(|branch| git(&["merge-base", "HEAD", branch]).ok());
            found.context("no git: of sources without a history it is not known what has changed")?
        }
    };
    let base = base.trim().to_owned();
    let tracked = git(&["diff", "--name-only", "--no-renames", "-z", &base])?;
    let others = git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    let mut all: Vec<String> = [tracked, others]
        .iter()
        .flat_map(|list| list.split('\0'))
        .filter(|f| !f.is_empty())
        .map(str::to_owned)
        .collect();
    all.sort();
    all.dedup();
    Ok((base, all))
}

fn git(args: &[&str]) -> Result<String> {
    let out = Command::new("git").args(args).current_dir(root()).output().context("git cannot be started")?;
    ensure!(out.status.success(), "git {}: {}", args.join(" "), String::from_utf8_lossy(&out.stderr).trim());
    Ok(String::from_utf8(out.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(name: &str, directory: &str, needs: &[&str], programs: &[&str], modules: &[&str], reads: &str) -> Package {
        let all = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        Package {
            name: name.to_owned(),
            directory: directory.to_owned(),
            needs: needs.iter().map(|n| (*n).to_owned()).collect(),
            programs: all(programs),
            modules: all(modules),
            reads: reads.to_owned(),
        }
    }

    fn reached(changed: &[&str]) -> Reach {
        let sync = ["crash_pool", "crash_late", "loom_ring"];
        let packages = [
            own("chappe-plat", "crates/plat", &[], &[], &[], ""),
            own(
                "chappe-sync",
                "crates/sync",
                &["chappe-plat", "chappe-crashsim"],
                &["explored", "searched"],
                &sync,
                "",
            ),
            own("chappe-crashsim", "crates/crashsim", &[], &["explorer"], &["explorer/kernel"], ""),
            own("chappe", "crates/chappe", &["chappe-sync"], &["maps", "broken"], &["maps", "broken/main"], "book/src"),
            own("chappe-cli", "crates/cli", &["chappe"], &["command"], &["command/pipe"], "../../examples/shell/a.sh"),
            own("chappe-channels", "tests/channels", &["chappe"], &["suites"], &["choice"], ""),
            own("xtask", "xtask", &[], &[], &[], ""),
        ];
        let mutant = |name: &str, suites: &[&str]| Planted {
            name: name.to_owned(),
            files: vec!["crates/sync/src/pool.rs".to_owned()],
            suites: suites.iter().map(|s| (*s).to_owned()).collect(),
        };
        let planted = [mutant("lost", &["crash_pool"]), mutant("doubled", &["loom_ring", "crash_mutex"])];
        let changed: Vec<String> = changed.iter().map(|c| (*c).to_owned()).collect();
        reach(&changed, &packages, &planted)
    }

    fn these(names: &[&str]) -> Part {
        Part::These(names.iter().map(|n| (*n).to_owned()).collect())
    }

    fn packages_of(reach: &Reach) -> Vec<&str> {
        reach.programs.keys().map(String::as_str).collect()
    }

    #[test]
    fn a_source_reaches_the_tests_of_all_that_depends_on_it() {
        let cli = reached(&["crates/cli/src/main.rs"]);
        assert_eq!(packages_of(&cli), ["chappe-cli"]);
        assert!(cli.explored.is_none() && cli.searched.is_none() && cli.mutants.is_empty());
        assert_eq!(cli.tests("chappe-cli", "command"), Some(vec![]));
        let facade = reached(&["crates/chappe/Cargo.toml"]);
        assert_eq!(packages_of(&facade), ["chappe", "chappe-channels", "chappe-cli"]);
        assert_eq!(facade.tests("xtask", "xtask"), None);
    }

    #[test]
    fn an_explored_source_reaches_its_mutants_and_the_suites_that_they_name() {
        let pool = reached(&["crates/sync/src/pool.rs"]);
        assert_eq!(packages_of(&pool), ["chappe", "chappe-channels", "chappe-cli", "chappe-sync"]);
        assert_eq!(pool.mutants, ["doubled", "lost"].map(str::to_owned).into());
        assert_eq!(pool.explored, these(&["crash_mutex", "crash_pool"]));
        let words = ["crash_mutex::", "crash_pool::"].map(str::to_owned).to_vec();
        assert_eq!(pool.suites("chappe-sync", "explored"), Some(words));
        assert_eq!(pool.suites("chappe-sync", "searched"), Some(vec!["loom_ring::".to_owned()]));
        assert_eq!(pool.suites("chappe-sync", "crash_late"), None);
        assert_eq!(pool.suites("chappe-ras", "crash_lock"), None);
    }

    #[test]
    fn an_explored_source_that_no_mutant_changes_reaches_all_suites() {
        for path in ["crates/sync/src/other.rs", "crates/plat/src/lib.rs"] {
            let all = reached(&[path]);
            assert_eq!((&all.explored, &all.searched), (&Part::All, &Part::All), "{path}");
            assert_eq!(all.suites("chappe-sync", "crash_late"), Some(vec![]));
        }
        let explorer = reached(&["crates/crashsim/src/lib.rs"]);
        assert_eq!((explorer.explored, packages_of(&reached(&["crates/crashsim/src/lib.rs"])).len()), (Part::All, 0));
    }

    #[test]
    fn a_test_reaches_itself_alone() {
        let of = |path: &str, package: &str| reached(&[path]).programs.remove(package);
        assert_eq!(of("crates/chappe/tests/maps.rs", "chappe"), Some(these(&["maps"])));
        assert_eq!(of("crates/chappe/tests/broken/main.rs", "chappe"), Some(these(&["broken"])));
        assert_eq!(of("crates/chappe/tests/house/mod.rs", "chappe"), Some(Part::All));
        assert_eq!(of("crates/cli/tests/command/pipe.rs", "chappe-cli"), Some(these(&["command pipe::"])));
        assert_eq!(of("crates/cli/tests/command/place.rs", "chappe-cli"), Some(these(&["command"])));
        assert_eq!(of("tests/channels/tests/choice.rs", "chappe-channels"), Some(these(&["suites choice::"])));
        assert_eq!(of("tests/channels/tests/support/mod.rs", "chappe-channels"), Some(Part::All));
        let pipe = reached(&["crates/cli/tests/command/pipe.rs"]);
        assert_eq!(pipe.tests("chappe-cli", "command"), Some(vec!["pipe::".to_owned()]));
        assert_eq!(pipe.tests("chappe-cli", "chappe"), None);
    }

    #[test]
    fn a_suite_and_a_mutant_reach_themselves_alone() {
        let suite = reached(&["crates/sync/tests/crash_pool.rs"]);
        assert_eq!((suite.explored.clone(), suite.programs.len()), (these(&["crash_pool"]), 0));
        assert_eq!(reached(&["crates/sync/tests/loom_ring.rs"]).searched, these(&["loom_ring"]));
        assert_eq!(reached(&["crates/sync/tests/crash/mod.rs"]).explored, Part::All);
        let explorer = reached(&["crates/crashsim/tests/explorer/kernel.rs"]);
        assert_eq!(explorer.suites("chappe-crashsim", "explorer"), Some(vec![]));
        assert_eq!(explorer.suites("chappe-sync", "explored"), None);
        let mutant = reached(&["crates/sync/mutants/lost.mutant"]);
        assert_eq!((mutant.mutants.len(), mutant.programs.len()), (1, 0));
    }

    #[test]
    fn a_file_outside_all_packages_reaches_its_readers() {
        assert_eq!(packages_of(&reached(&["book/src/death.md"])), ["chappe"]);
        assert_eq!(packages_of(&reached(&["examples/shell/a.sh"])), ["chappe-cli"]);
        assert_eq!(reached(&["CHANGELOG.md", "crates/sync/README.md"]), Reach::default());
        let all = reached(&["Cargo.lock"]);
        assert_eq!((packages_of(&all).len(), all.explored, all.searched), (7, Part::All, Part::All));
    }

    #[test]
    fn the_workspaces_packages_are_read_with_their_programs_and_needs() {
        let all = packages().unwrap();
        let of = |name: &str| all.iter().find(|p| p.name == name).unwrap_or_else(|| panic!("no {name}"));
        assert!(
            of("chappe-cli").needs.iter().any(|n| n == "chappe") && of("chappe").needs.contains(&"chappe-sync".into())
        );
        assert!(of("chappe-sync").programs.contains("explored") && !of("chappe-sync").programs.contains("crash_pool"));
        assert!(of("chappe-cli").modules.contains("command/pipe") && of("chappe-cli").programs.len() == 1);
        let book = reach(&["book/src/death.md".to_owned()], &all, &[]);
        assert!(book.programs.contains_key("chappe-cli"), "{book:?}");
    }
}
