//! Rule `rooms`: within a crate, too, arrows go down only.
//!
//! A crate that says at its head which files stand above which others is held to it: a table
//! `| room | files |`, the highest room first. A room may have several rows, one after the other. A
//! name `x` stands for `x.rs` and all below `x/`, a name `x.rs` for that file alone, and of several
//! names the longest is meant. Each file has a room; [`imports()`] says what an arrow is.

use super::Finding;
use super::house::{House, Source, room, ships};
use super::imports::imports;
use std::collections::BTreeSet;

const HEAD: &str = "| room | files |";

pub fn check(house: &House) -> Vec<Finding> {
    let crates: BTreeSet<&str> = house.rust().filter(|(p, _)| ships(p)).filter_map(|(p, _)| room(p)).collect();
    crates.into_iter().flat_map(|name| hold(house, name)).collect()
}

/// A room, as the head has it.
#[derive(Debug)]
struct Room {
    name: String,
    /// Its files, as the head names them, and the lines that do, counted from 1.
    files: Vec<(String, usize)>,
}

fn hold(house: &House, name: &str) -> Vec<Finding> {
    let root = format!("crates/{name}/src/");
    let lib = format!("{root}lib.rs");
    let Some(rooms) = house.rust().find(|(path, _)| *path == lib).and_then(|(_, source)| rooms(source)) else {
        return Vec::new();
    };
    let arrows = imports(house, name);
    let mut findings = Vec::new();
    let own = |path: &str| path.strip_prefix(&root).map(str::to_owned).unwrap_or_default();
    for path in arrows.keys().filter(|path| **path != lib) {
        if height(&rooms, &own(path)).is_none() {
            findings.push(Finding::new(
                path,
                0,
                "rooms",
                format!("it has no room yet: give it one at the head of {lib}"),
            ));
        }
    }
    for room in &rooms {
        for (file, line) in &room.files {
            if !arrows.keys().any(|path| stands_for(file, &own(path))) {
                findings.push(Finding::new(&lib, *line, "rooms", format!("there is no file `{file}`")));
            }
        }
    }
    for (path, others) in arrows.iter().filter(|(path, _)| **path != lib) {
        let Some(mine) = height(&rooms, &own(path)) else { continue };
        for (other, names) in others {
            // The highest room is the first.
            let Some(theirs) = height(&rooms, &own(other)).filter(|theirs| *theirs < mine) else { continue };
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let (here, there) = (&rooms[mine].name, &rooms[theirs].name);
            let text = format!("an arrow upwards, from `{here}` to `{there}`: {other} ({})", names.join(", "));
            findings.push(Finding::new(path, 0, "rooms", text));
        }
    }
    findings
}

/// The table at a crate's head, if it has one.
fn rooms(lib: &Source) -> Option<Vec<Room>> {
    let head = lib.lines.iter().position(|line| line.doc.trim() == HEAD)?;
    let rows = lib.lines.iter().enumerate().skip(head + 2).map(|(at, line)| (at, line.doc.trim()));
    let mut rooms: Vec<Room> = Vec::new();
    for (at, row) in rows {
        let cells = row.strip_prefix('|').and_then(|row| row.strip_suffix('|')).and_then(|row| row.split_once('|'));
        let Some((name, files)) = cells else { break };
        let files = files.split(',').map(|file| (file.trim().trim_matches('`').to_owned(), at + 1));
        match rooms.last_mut().filter(|last| last.name == name.trim()) {
            Some(last) => last.files.extend(files),
            None => rooms.push(Room { name: name.trim().to_owned(), files: files.collect() }),
        }
    }
    Some(rooms)
}

/// In which room a file is.
fn height(rooms: &[Room], file: &str) -> Option<usize> {
    let fits = |room: &Room| {
        room.files.iter().map(|(name, _)| name).filter(|name| stands_for(name, file)).map(String::len).max()
    };
    let fitting = rooms.iter().enumerate().filter_map(|(at, room)| Some((fits(room)?, at)));
    fitting.max().map(|(_, at)| at)
}

fn stands_for(name: &str, file: &str) -> bool {
    let rest = file.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || !name.ends_with(".rs") && (rest == ".rs" || rest.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(table: &str, files: &[(&str, &str)]) -> Vec<String> {
        let mut house = House::default();
        house.add("crates/a/src/lib.rs", &format!("//! A head.\n//!\n{table}\nmod x; mod y;"));
        for (name, text) in files {
            house.add(&format!("crates/a/src/{name}.rs"), text);
        }
        hold(&house, "a").into_iter().map(|finding| finding.text).collect()
    }

    const TABLE: &str = "//! | room | files |\n//! |---|---|\n//! | top | `x`, `y/up` |\n//! | words | `y` |\n";
    const Y: (&str, &str) = ("y", "mod up;\npub struct Y;");
    const UP: (&str, &str) = ("y/up", "pub struct Up(super::Y);");

    #[test]
    fn an_arrow_upwards_is_caught() {
        let down = ("x", "use crate::y::Y;");
        assert_eq!(found(TABLE, &[down, Y, UP]), [""; 0]);
        let y = ("y", "mod up;\nuse crate::x::X;\npub struct Y;");
        assert!(
            found(TABLE, &[("x", "pub struct X;"), y, UP])[0].starts_with("an arrow upwards, from `words` to `top`")
        );
        let y = ("y", "mod up;\nuse up::Up;\npub struct Y;");
        assert!(found(TABLE, &[down, y, ("y/up", "pub struct Up;")])[0].contains("y/up.rs (Up)"), "the longest name");
    }

    #[test]
    fn a_file_has_a_room_and_a_room_has_files() {
        let x = ("x", "pub struct X;");
        assert!(found(TABLE, &[x, Y, UP, ("z", "pub struct Z;")])[0].starts_with("it has no room yet"));
        assert_eq!(found(TABLE, &[x, ("y", "pub struct Y;")]), ["there is no file `y/up`"]);
        assert!(found(&TABLE.replace("`y` |", "`y.rs` |"), &[x, Y, UP, ("y/z", "")])[0].starts_with("it has no room"));
        assert_eq!(found("", &[("x", "use crate::y::Y;"), Y, UP]), [""; 0], "without a table nothing is asked");
    }
}
