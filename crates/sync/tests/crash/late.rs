//! Where an arena's objects lie, for the explorer's guard against late threads: see `chappe_crashsim::guard`. Every stage has it.

use chappe_arena::Map;
use chappe_arena::layout::{BLOCK, Cell, Head, Member, Object};
use chappe_crashsim::guard::{Guard, Row, guard};
use std::iter::once;
use std::mem::offset_of;
use std::path::Path;
use std::sync::OnceLock;

/// A line of the source that may write late.
pub struct Exempt {
    /// The file, from the workspace's directory.
    pub file: &'static str,
    /// What stands in the line, and in no other of the file. The lint `late` sees to that.
    pub code: &'static str,
    /// Why it may.
    pub why: &'static str,
}

include!("exempt.rs");

/// An object in service and the same one removed: the generation. A free slot: that of its last object, and that it is free.
fn use_of(head: u64) -> u64 {
    u64::from(Head(head).generation()) << 1 | u64::from(Head(head).is_free())
}

fn makes(head: u64) -> Option<u64> {
    Head(head).is_free().then(|| u64::from(Head(head).generation().wrapping_add(1)) << 1)
}

fn owner(word: u64) -> Option<(usize, u64)> {
    Some(((word as u32).checked_sub(1)? as usize, word >> 32 << 1))
}

fn show(head: u64) -> String {
    let head = Head(head);
    let (kind, use_of) = (head.kind().map_or("?", |kind| kind.name()), head.generation());
    match (head.is_free(), head.is_dead()) {
        (true, _) => format!("nothing (after use {use_of})"),
        (_, true) => format!("a {kind} that was removed (use {use_of})"),
        _ => format!("a {kind} (use {use_of})"),
    }
}

/// The lines that may, as the compiler counts them. In a tree with planted mistakes a function may have its body, and so the line, more than once.
fn lines() -> &'static [(String, u32)] {
    static LINES: OnceLock<Vec<(String, u32)>> = OnceLock::new();
    let places = |e: &Exempt| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join(e.file)).unwrap_or_else(|err| panic!("{}: {err}", e.file));
        let here = text.lines().enumerate().filter(|(_, line)| line.trim() == e.code);
        let all: Vec<_> = here.map(|(at, _)| (e.file.to_owned(), at as u32 + 1)).collect();
        assert!(!all.is_empty(), "`{}` is not in {} any more: strike it off the list", e.code, e.file);
        all
    };
    LINES.get_or_init(|| EXEMPT.iter().flat_map(places).collect())
}

/// A late thread that writes into this arena fails its schedule.
pub fn guarded(map: &'static Map) -> &'static Map {
    let (g, object) = (map.geometry(), map.object(0));
    let slots = Row {
        base: std::ptr::from_ref(object) as usize,
        stride: size_of::<Object>(),
        count: g.objects as usize,
        word: std::ptr::from_ref(&object.head) as usize,
        words: size_of::<Object>(),
        // I4, I12: a waiter sets its bit, and then looks whether the object is still there.
        apart: once(offset_of!(Object, waiting)..offset_of!(Object, hint)).collect(),
    };
    let mut pieces = Vec::new();
    if g.blocks > 0 {
        let (base, word) = (map.blocks(0, g.blocks) as usize, map.block_owners().as_ptr() as usize);
        pieces.push(Row { base, stride: BLOCK, count: g.blocks as usize, word, words: 8, apart: vec![] });
    }
    if g.cells > 0 {
        let cell = map.cell(0);
        pieces.push(Row {
            base: std::ptr::from_ref(cell) as usize,
            stride: size_of::<Cell>(),
            count: g.cells as usize,
            word: std::ptr::from_ref(&cell.owner) as usize,
            words: size_of::<Cell>(),
            // Whose it is, and where the next one lies: changed under `admin` alone.
            apart: once(offset_of!(Cell, owner)..size_of::<Cell>()).collect(),
        });
    }
    let member = map.member(0);
    let line = Row {
        base: std::ptr::from_ref(member) as usize,
        stride: size_of::<Member>(),
        count: g.members as usize,
        word: member.life.word().as_ptr() as usize,
        words: size_of::<Member>(),
        apart: vec![
            // Granters change both, by one swap.
            offset_of!(Member, state)..offset_of!(Member, alias),
            // The kernel's, too.
            offset_of!(Member, life)..offset_of!(Member, pid),
            // Any thread rings it.
            offset_of!(Member, bell)..offset_of!(Member, era),
        ],
    };
    let header = std::ptr::from_ref(map.header()) as usize;
    let visit = Row { base: header + g.visits_at(), stride: 8, apart: vec![], ..line.clone() };
    let lines_of_members = vec![line, visit];
    guard(Guard { slots, pieces, lines: lines_of_members, use_of, makes, owner, show, exempt: lines() });
    map
}
