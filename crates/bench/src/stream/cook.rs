//! Table 7.5 of the thesis: the terminal's cooker, beside the line discipline of a kernel's terminal; the VT-100; the text window.
//!
//! A window copies what came; it is drawn by a thread of its own, at most 60 times a second, and that is not in its figure.
//!
//! The cookers are driven by hand, as a graph drives them: a block in, what comes of it out. The kernel's cooker is asked by two
//! system calls, a write at one end of a pseudo-terminal and a read at the other: what a program has today.

use crate::table::{Case, Table};
use chappe::stream::{Block, Body, Call, Element, Kept, Kinds, Stage, Type, text};
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::{null, null_mut};
use std::time::Instant;

/// How many lines are cooked for one figure.
const LINES: usize = 2000;

/// The stage that is written so, for bytes.
fn made(kinds: &Kinds, written: &str) -> Box<dyn Stage> {
    made_for(kinds, written, Type::of(Element::Byte))
}

/// The same, for what comes.
fn made_for(kinds: &Kinds, written: &str, comes: Type) -> Box<dyn Stage> {
    let lines = text::parse(written).unwrap_or_else(|e| panic!("{e:?}"));
    let inputs = [comes];
    let plan = kinds.plan(&Call::new(&lines[0][0], &inputs, true)).unwrap_or_else(|e| panic!("{e:?}"));
    match (plan.make)() {
        Ok(Body::Stage(stage)) => stage,
        other => panic!("{other:?}"),
    }
}

/// Nanoseconds of a line through these stages, one after another.
fn cooked(stages: &mut [Box<dyn Stage>], line: &[u8]) -> f64 {
    let began = Instant::now();
    for _ in 0..LINES {
        let mut blocks = vec![Block::bytes(black_box(line).to_vec())];
        for stage in &mut *stages {
            let mut out = Kept::default();
            blocks.drain(..).for_each(|block| stage.put(block, &mut out).unwrap_or_else(|e| panic!("{e:?}")));
            blocks = out.blocks;
        }
        black_box(blocks);
    }
    began.elapsed().as_nanos() as f64 / LINES as f64
}

/// The two ends of a pseudo-terminal, its own settings but for the echo.
fn terminal() -> Result<(std::fs::File, std::fs::File), String> {
    let (mut outer, mut inner) = (-1, -1);
    // SAFETY: both point to a number each; the name, the settings and the size are left out.
    if unsafe { libc::openpty(&mut outer, &mut inner, null_mut(), null(), null()) } != 0 {
        return Err(format!("there is no pseudo-terminal: {}", std::io::Error::last_os_error()));
    }
    // SAFETY: they were opened just now, and are nobody else's.
    let (outer, inner) = unsafe { (OwnedFd::from_raw_fd(outer), OwnedFd::from_raw_fd(inner)) };
    let mut settings = std::mem::MaybeUninit::<libc::termios>::uninit();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&inner);
    // SAFETY: it fills in what it is given, and is asked whether it has.
    let settings = unsafe {
        if libc::tcgetattr(fd, settings.as_mut_ptr()) != 0 {
            return Err(format!("a pseudo-terminal has no settings: {}", std::io::Error::last_os_error()));
        }
        let mut settings = settings.assume_init();
        settings.c_lflag &= !libc::ECHO;
        libc::tcsetattr(fd, libc::TCSANOW, &settings);
        settings
    };
    // With the echo the outer end would fill.
    assert!(settings.c_lflag & libc::ECHO == 0, "the echo is off");
    Ok((outer.into(), inner.into()))
}

/// Nanoseconds of a line that is written into one end and read from the other.
fn through(from: &mut std::fs::File, to: &mut std::fs::File, line: &[u8], comes: usize) -> f64 {
    let mut buffer = [0; 256];
    let began = Instant::now();
    for _ in 0..LINES {
        from.write_all(black_box(line)).unwrap_or_else(|e| panic!("{e}"));
        let mut read = 0;
        while read < comes {
            read += to.read(&mut buffer).unwrap_or_else(|e| panic!("{e}"));
        }
    }
    began.elapsed().as_nanos() as f64 / LINES as f64
}

/// Measures and prints.
///
/// # Errors
/// There is no pseudo-terminal.
pub fn measure(rounds: u32) -> Result<(), String> {
    drop(terminal()?);
    let kinds = Kinds::standard();
    let create = Table::measure(
        "the parts of a window: create and destroy",
        rounds,
        vec![
            Case::repeat("cooker", 2000, || made(&kinds, "cook")),
            Case::repeat("VT-100", 200, || made(&kinds, "vt100")),
            Case::repeat("text window", 2000, || made(&kinds, "window")),
            Case::repeat("pseudo-terminal", 20, || terminal().unwrap_or_else(|e| panic!("{e}"))),
        ],
    );
    println!("{}", create.report());
    // Others' values each time, so that none of the inactive list does; then one stage's values again and again.
    let mut rate = 44_100.0;
    let mut another = || {
        rate += 1.0;
        rate
    };
    let mut hop = 0;
    let anew = Table::measure(
        "create and destroy a stage with tables",
        rounds,
        vec![
            Case::repeat("resample, the first", 4, || made_for(&kinds, "resample 48000", Type::sound(1, another()))),
            Case::repeat("resample, again", 200, || made_for(&kinds, "resample 48000", Type::sound(1, 44_100.0))),
            Case::repeat("spectrum 4096, the first", 20, || {
                hop += 1;
                made_for(&kinds, &format!("spectrum 4096 hop={hop}"), Type::sound(1, 48_000.0))
            }),
            Case::repeat("spectrum 4096, again", 200, || made_for(&kinds, "spectrum 4096", Type::sound(1, 48_000.0))),
        ],
    );
    println!("{}", anew.report());
    for length in [1, 16, 80] {
        let line: Vec<u8> = (0..length).map(|at| b'a' + at as u8 % 26).chain([b'\n']).collect();
        let (mut cook, mut typed) = ([made(&kinds, "cook")], terminal()?);
        let (mut out, mut shown) = ([made(&kinds, "onlcr"), made(&kinds, "tabs")], terminal()?);
        let comes = line.len();
        let (one, two) = (line.clone(), line.clone());
        let into = vec![
            Case::new("cooker", || cooked(&mut cook, &line)),
            Case::new("pseudo-terminal", move || through(&mut typed.0, &mut typed.1, &one, comes)),
        ];
        let table = Table::measure(format!("a line of {length} that is typed, cooked"), rounds, into);
        println!("{}", table.report());
        let out_of = vec![
            Case::new("cooker", || cooked(&mut out, &line)),
            Case::new("pseudo-terminal", move || through(&mut shown.1, &mut shown.0, &two, comes + 1)),
        ];
        let table = Table::measure(format!("a line of {length} that is printed, cooked"), rounds, out_of);
        println!("{}", table.report());
        let three: Vec<u8> = line.iter().copied().chain([b'\r']).collect();
        let (mut screen, mut window) = ([made(&kinds, "vt100")], [made(&kinds, "window")]);
        let mut both = [made(&kinds, "vt100"), made(&kinds, "window")];
        let shown = vec![
            Case::new("VT-100", || cooked(&mut screen, &three)),
            Case::new("text window", || cooked(&mut window, &line)),
            Case::new("VT-100 and text window", || cooked(&mut both, &three)),
        ];
        println!("{}", Table::measure(format!("a line of {length} that is shown"), rounds, shown).report());
    }
    Ok(())
}
