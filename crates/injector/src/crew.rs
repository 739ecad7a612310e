//! Several directors at once, so that all processors are used.
//!
//! A director leads one trial at a time, and has one thread. A crew is some of them, each forked from a process that leads
//! nobody: each has its own directory of arenas and its own board. What is to be swept is numbered; the numbers lie in a
//! pipe, from which each director takes the next when it is done with its last. What it counted comes back through a pipe
//! of its own, a line each.

use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::sync::mpsc;

use crate::child::Child;
use crate::tally::Tally;

/// What a pipe takes before it is read.
const ROOM: usize = 4096;

/// Has `directors` processes do the numbered work: `enter` is what each does first, and gives what it does with a number.
/// `hear` is told of each result. An error if not everything was done.
pub fn work<D: FnMut(usize) -> Tally>(
    directors: usize,
    numbers: &[usize],
    enter: impl Fn() -> Result<D, String>,
    mut hear: impl FnMut(usize, Tally),
) -> Result<(), String> {
    let broken = |e: std::io::Error| format!("a pipe between directors: {e}");
    assert!(numbers.len() * 4 <= ROOM, "so many numbers do not go into a pipe");
    let (todo, mut give) = std::io::pipe().map_err(broken)?;
    for number in numbers {
        give.write_all(&(*number as u32).to_ne_bytes()).map_err(broken)?;
    }
    // Before any other process has it open: they are done when it is empty.
    drop(give);
    let mut crew = Vec::new();
    for _ in 0..directors {
        let (result, mut answer) = std::io::pipe().map_err(broken)?;
        let mut todo = todo.try_clone().map_err(broken)?;
        crew.push((Child::fork(|| direct(&mut todo, &mut answer, &enter).expect("a director's work")), result));
    }

    let (heard, all) = mpsc::channel();
    let mut done = 0;
    std::thread::scope(|s| {
        for (_, result) in &crew {
            let heard = heard.clone();
            s.spawn(move || {
                for (number, tally) in BufReader::new(result).lines().map_while(Result::ok).filter_map(read) {
                    // The receiver stays until all have spoken.
                    let _ = heard.send((number, tally));
                }
            });
        }
        drop(heard);
        for (number, tally) in all {
            done += 1;
            hear(number, tally);
        }
    });
    if done == numbers.len() { Ok(()) } else { Err(format!("a director died: {done} of {} were done", numbers.len())) }
}

/// One director's life.
fn direct<D: FnMut(usize) -> Tally>(
    todo: &mut PipeReader,
    answer: &mut impl Write,
    enter: impl Fn() -> Result<D, String>,
) -> Result<(), String> {
    let mut sweep = enter()?;
    let mut number = [0; 4];
    // A pipe is read four bytes at a time, whichever other process reads it.
    while todo.read_exact(&mut number).is_ok() {
        let number = u32::from_ne_bytes(number) as usize;
        let tally = sweep(number);
        writeln!(answer, "{number}\t{}", tally.to_line()).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn read(line: String) -> Option<(usize, Tally)> {
    let (number, tally) = line.split_once('\t')?;
    Some((number.parse().ok()?, Tally::from_line(tally)?))
}
