//! How soon a program that has chappe's library sees a terminal, beside commands that must first be started: `cargo xtask bench term` runs it with
//! a directory, a terminal, the file in which its program notes when each key came, and how often.
//!
//! Prints three lines: a key typed until the program has it, the program's answer until the waiter has it, a look at the whole screen as text; each with
//! the median, the 99th of a hundred and the least, in nanoseconds.

use chappe_plat::clock;
use chappe_term::place::{self, Place};
use chappe_term::search::{After, Search};
use chappe_term::view::Watch;
use regex::Regex;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let all: Vec<String> = std::env::args().skip(1).collect();
    let [dir, name, log, count] = &all[..] else { return Err("DIRECTORY TERMINAL LOG COUNT".into()) };
    let (place, count) = (Place::find(&place::directory(Path::new(dir))?, name, true)?, count.parse::<u64>()?);
    let (mut typed, mut woken, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..count {
        let mut watch = Watch::begin(&place)?;
        let sent = clock::now();
        let writer = place.writer(Duration::from_secs(10))?;
        let mark = writer.type_bytes(format!("key{at}").as_bytes(), None, &mut watch)?;
        let mut search = Search::new(Regex::new(&format!("<key{at}>"))?, Some(After::Mark(mark)));
        loop {
            watch.look();
            if place.snapshot().and_then(|now| search.look(&place, &now)).is_some() {
                break;
            }
            watch.sleep(None);
        }
        let ended = clock::now();
        let came: u64 = std::fs::read_to_string(log)?.split_whitespace().next_back().ok_or("no key")?.parse()?;
        typed.push(came - sent);
        woken.push(ended - came);
        let began = clock::now();
        let screen = place.snapshot().ok_or("no screen")?.screen;
        let text: usize = (0..screen.rows()).map(|row| screen.text(row).len()).sum();
        shown.push(clock::now() - began + u64::from(text == 0));
        // The next key comes to a program that waits.
        std::thread::sleep(Duration::from_millis(5));
    }
    for mut figures in [typed, woken, shown] {
        figures.sort_unstable();
        let at = |part: usize| figures[figures.len() * part / 100];
        println!("{} {} {}", at(50), at(99), at(0));
    }
    Ok(())
}
