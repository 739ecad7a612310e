//! Pixels on the user's terminal, or in a file: the quajects `G_window` (`blit`) and `Framebuffer` (`Vsync`) of tables 4.2 and 4.4.
//!
//! `frame` has a picture of its own. What comes is copied into it (`blit`): bytes are pictures of `of="WIDE HIGH"` at `at="X Y"`, a byte a pixel
//! or three; numbers are rows of pixels from 0 to 1, one below the other, so that a `spectrum` is a waterfall. A thread of its own shows the
//! picture when it has changed, `hz` times a second: by kitty's protocol, as sixels, or as a PNG file. A stage that is faster than the screen
//! waits for nothing; what is overwritten between two refreshes is not shown.
//!
//! The refresh is a clock: with `name=N` a `clock HZ lock=N` of the graph keeps its time, a refresh being a frame at `hz`. A refresh that is
//! late, since the terminal takes no more, tells its clocks the refreshes that were left out as well.
//!
//! Where stdout is no terminal, only the last picture is written, as a PNG file, if a file is named.
//!
//! ```text
//!   put: takes the picture's lock, for a copy, and marks it
//!   the thread: sleeps to the next whole 1/hz -- copies a marked picture -- shows it -- tells the clocks
//! ```

use super::picture::{Colours, png};
use super::window::Pictures;
use crate::kind::{Anew, Call, Kind, Plan, Wrong};
use crate::stage::{Fault, Out, Stage, stage};
use crate::telling::{References, Teller};
use crate::types::{Block, Element, Type};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::{clock, thread};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most pixels of a side.
const SIDE: f64 = 4096.0;
/// Characters of a piece of kitty's protocol: a multiple of four.
const PIECE: usize = 4096;
/// A sixel row is six pixels high.
const SIX: usize = 6;

/// A picture: three bytes a pixel (red, green, blue), row by row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pixels {
    wide: usize,
    high: usize,
    bytes: Vec<u8>,
}

impl Pixels {
    /// A black one.
    pub fn new(wide: usize, high: usize) -> Pixels {
        Pixels { wide, high, bytes: vec![0; wide * high * 3] }
    }

    /// Copies a rectangle of so many pixels a row to this place: three bytes a pixel, or with `grey` one. What would lie outside is left out, as
    /// are rows that have not all their pixels.
    pub fn blit(&mut self, x: usize, y: usize, wide: usize, grey: bool, from: &[u8]) {
        if x >= self.wide {
            return;
        }
        let each = if grey { 1 } else { 3 };
        let shown = wide.min(self.wide - x);
        let rows = from.chunks_exact((wide * each).max(1)).take(self.high.saturating_sub(y));
        for (row, pixels) in rows.enumerate() {
            let to = ((y + row) * self.wide + x) * 3;
            let to = &mut self.bytes[to..to + shown * 3];
            match grey {
                true => to.as_chunks_mut::<3>().0.iter_mut().zip(pixels).for_each(|(to, light)| *to = [*light; 3]),
                false => to.copy_from_slice(&pixels[..shown * 3]),
            }
        }
    }

    /// Moves all up by one row, the last of which is these grey pixels.
    fn roll(&mut self, row: &[u8]) {
        self.bytes.drain(..self.wide * 3);
        self.bytes.resize(self.wide * self.high * 3, 0);
        self.blit(0, self.high - 1, row.len(), true, row);
    }

    /// As a PNG file.
    pub fn png(&self) -> Vec<u8> {
        let rows: Vec<u8> = self
            .bytes
            .chunks_exact(self.wide * 3)
            .flat_map(|row| std::iter::once(0).chain(row.iter().copied()))
            .collect();
        png(self.wide as u32, self.high as u32, Colours::Rgb, &rows)
    }

    /// As a picture of kitty's terminal graphics protocol, in place of the last one, where the cursor stands, and stays or goes behind it.
    pub fn kitty(&self, stays: bool) -> Vec<u8> {
        let text = base64(&self.bytes);
        let mut out = Vec::with_capacity(text.len() + text.len() / 64 + 64);
        let mut pieces = text.chunks(PIECE).peekable();
        let mut keys = format!("a=T,f=24,s={},v={},i=1,p=1,C={},q=2,", self.wide, self.high, u8::from(stays));
        while let Some(piece) = pieces.next() {
            out.extend(format!("\x1b_G{keys}m={};", u8::from(pieces.peek().is_some())).bytes());
            out.extend(piece);
            out.extend(b"\x1b\\");
            keys.clear();
        }
        out
    }

    /// As sixels: 6 x 6 x 6 colours.
    pub fn sixel(&self) -> Vec<u8> {
        let mut out = format!("\x1bPq\"1;1;{};{}", self.wide, self.high).into_bytes();
        let level = |byte: u8| (usize::from(byte) * 5 + 127) / 255;
        let colour = |p: &[u8; 3]| level(p[0]) * 36 + level(p[1]) * 6 + level(p[2]);
        let all: Vec<usize> = self.bytes.as_chunks().0.iter().map(colour).collect();
        let mut used = [false; 216];
        all.iter().for_each(|c| used[*c] = true);
        for c in (0..216).filter(|c| used[*c]) {
            out.extend(format!("#{c};2;{};{};{}", c / 36 * 20, c / 6 % 6 * 20, c % 6 * 20).bytes());
        }
        for band in all.chunks(self.wide * SIX) {
            let mut here = [false; 216];
            band.iter().for_each(|c| here[*c] = true);
            for c in (0..216).filter(|c| here[*c]) {
                out.extend(format!("#{c}").bytes());
                let column = |x: usize| {
                    let bit = |(row, pixels): (usize, &[usize])| u8::from(pixels[x] == c) << row;
                    band.chunks(self.wide).enumerate().map(bit).fold(0, |all, bit| all | bit) + b'?'
                };
                let mut x = 0;
                while x < self.wide {
                    let sixel = column(x);
                    let run = (x..self.wide).take_while(|x| column(*x) == sixel).count();
                    match run {
                        1..=3 => out.extend(std::iter::repeat_n(sixel, run)),
                        _ => out.extend(format!("!{run}{}", char::from(sixel)).bytes()),
                    }
                    x += run;
                }
                out.push(b'$');
            }
            out.push(b'-');
        }
        out.extend(b"\x1b\\");
        out
    }
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(if at > three.len() { b'=' } else { digit });
        }
    }
    out
}

/// How a picture is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum As {
    Kitty,
    Sixel,
    Png,
}

/// By what the terminal says that it is.
fn usual(term: &str, program: &str, kitty: bool) -> As {
    let has_kitty =
        kitty || term.contains("kitty") || term.contains("ghostty") || matches!(program, "WezTerm" | "ghostty");
    if has_kitty { As::Kitty } else { As::Sixel }
}

/// What the stage and its thread have in common.
struct Shared {
    /// The picture, and whether it has changed since it was shown.
    picture: Mutex<(Pixels, bool)>,
    /// 1 when there is no stage any more.
    over: AtomicU32,
    shown: AtomicU64,
    refreshes: AtomicU64,
    /// Held while something is written.
    writes: Mutex<()>,
    how: As,
    file: Option<String>,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Writes the picture, if it has changed or is the last one.
    fn show(&self, last: bool) -> io::Result<()> {
        if self.file.is_none() && !io::stdout().is_terminal() {
            return Ok(());
        }
        let _writes = locked(&self.writes);
        // Relaxed: behind the lock; nothing is shown behind the last picture.
        if !last && self.over.load(Ordering::Relaxed) != 0 {
            return Ok(());
        }
        let picture = {
            let mut picture = locked(&self.picture);
            if !std::mem::take(&mut picture.1) && !last {
                return Ok(());
            }
            picture.0.clone()
        };
        self.shown.fetch_add(1, Ordering::Relaxed); // Relaxed: a number to show.
        if let Some(file) = &self.file {
            // In its place when it is whole: a reader that looks meanwhile sees the one before.
            let begun = format!("{file}.part");
            fs::write(&begun, picture.png())?;
            fs::rename(&begun, file)?;
            return Ok(());
        }
        let mut to = io::stdout().lock();
        // The next picture takes this one's place; the last one stays, and the cursor goes below it.
        let (save, back): (&[u8], &[u8]) = match (self.how, last) {
            (As::Sixel, false) => (b"\x1b[?2026h\x1b7", b"\x1b8\x1b[?2026l"),
            (As::Sixel, true) => (b"", b"\n"),
            (_, last) => (b"", if last { b"\n" } else { b"" }),
        };
        to.write_all(save)?;
        to.write_all(&if self.how == As::Kitty { picture.kitty(!last) } else { picture.sixel() })?;
        to.write_all(back)?;
        to.flush()
    }

    /// Refreshes until there is no stage any more, or nothing takes pictures.
    fn follow(&self, hz: f64, mut clocks: Vec<Teller>) {
        let (began, mut done) = (clock::now(), 0);
        // Relaxed: looked at again, and behind the lock of `writes`.
        while self.over.load(Ordering::Relaxed) == 0 {
            let due = began + ((done + 1) as f64 / hz * 1e9) as u64;
            std::thread::sleep(Duration::from_nanos(due.saturating_sub(clock::now())));
            let now = clock::now();
            let passed = (((now - began) as f64 / 1e9 * hz) as u64).max(done + 1);
            clocks.iter_mut().for_each(|teller| teller.tell(now, passed - done, hz));
            done = passed;
            self.refreshes.store(done, Ordering::Relaxed); // Relaxed: a number to show.
            if self.show(false).is_err() {
                break;
            }
        }
        clocks.drain(..).for_each(|teller| teller.end(clock::now(), hz));
    }
}

/// What comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Comes {
    /// Pictures of so many pixels, at a place.
    Pictures { x: usize, y: usize, wide: usize, high: usize, grey: bool },
    /// Rows of numbers.
    Rows,
}

/// How the thread begins: behind all bodies of its graph, so that its clocks listen.
struct Refresh {
    hz: f64,
    name: Option<String>,
    graph: Arc<References>,
}

struct Frame {
    shared: Arc<Shared>,
    comes: Comes,
    /// Numbers of a row.
    row: usize,
    /// Bytes of a picture that is not whole yet.
    begun: Vec<u8>,
    pictures: u64,
    refresh: Refresh,
    runs: bool,
    /// Of a terminal there is one that draws.
    _drawn: Option<Pictures>,
}

impl Frame {
    /// Begins to refresh.
    fn begin(&mut self) -> Result<(), Fault> {
        if std::mem::replace(&mut self.runs, true) {
            return Ok(());
        }
        let Refresh { hz, name, graph } = &self.refresh;
        let (clocks, shared, hz) =
            (name.as_ref().map_or_else(Vec::new, |name| graph.take(name)), Arc::clone(&self.shared), *hz);
        Ok(thread::background("frame", move || shared.follow(hz, clocks))?)
    }

    fn blit(&mut self, block: &mut Block) {
        let mut picture = locked(&self.shared.picture);
        match self.comes {
            Comes::Rows => {
                for row in block.numbers().chunks_exact(self.row) {
                    let light = |x: &f32| if x.is_finite() { (x.clamp(0.0, 1.0) * 255.0).round() as u8 } else { 0 };
                    picture.0.roll(&row.iter().map(light).collect::<Vec<u8>>());
                    picture.1 = true;
                    self.pictures += 1;
                }
            }
            Comes::Pictures { x, y, wide, high, grey } => {
                self.begun.append(block.octets());
                let bytes = wide * high * if grey { 1 } else { 3 };
                let whole = self.begun.len() / bytes;
                if whole > 0 {
                    // Those before are overwritten at once.
                    picture.0.blit(x, y, wide, grey, &self.begun[(whole - 1) * bytes..whole * bytes]);
                    picture.1 = true;
                    self.begun.drain(..whole * bytes);
                    self.pictures += whole as u64;
                }
            }
        }
    }
}

impl Stage for Frame {
    fn put(&mut self, mut block: Block, _: &mut dyn Out) -> Result<(), Fault> {
        self.begin()?;
        self.blit(&mut block);
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        // Clocks end although nothing came.
        self.begin()?;
        // What is no whole picture is none.
        out.drop_frames(self.begun.len() as u64);
        // Relaxed: as in `show`.
        self.shared.over.store(1, Ordering::Relaxed);
        // The thread may stand in a terminal that takes no more: the light threads of this proc go on meanwhile.
        Ok(chappe_thread::block_in_place(|| self.shared.show(true))?)
    }

    fn says(&self) -> Option<String> {
        // Relaxed, both: numbers to show.
        let (shown, of) = (self.shared.shown.load(Ordering::Relaxed), self.shared.refreshes.load(Ordering::Relaxed));
        Some(format!("{} pictures or rows, {shown} shown in {of} refreshes", self.pictures))
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.shared.over.store(1, Ordering::Relaxed); // Relaxed: as in `show`.
        if let (false, Some(name)) = (self.runs, &self.refresh.name) {
            // It never began: its clocks end.
            self.refresh.graph.take(name);
        }
    }
}

/// Two numbers, as in `"640 480"`, each from `least` to its own of `most`.
fn pair(
    call: &Call<'_>,
    key: &str,
    or: (usize, usize),
    least: usize,
    most: [usize; 2],
) -> Result<(usize, usize), Wrong> {
    let Some((text, span)) = call.text(usize::MAX, key)? else { return Ok(or) };
    let numbers: Result<Vec<usize>, _> = text.split_whitespace().map(str::parse).collect();
    match numbers.as_deref() {
        Ok(&[a, b]) if (least..=most[0]).contains(&a) && (least..=most[1]).contains(&b) => Ok((a, b)),
        _ => Err(Wrong::at(
            span,
            format!(
                "`{key}` of `frame` is two numbers, from {least} to {} and to {}, such as \"{} {}\", not {text:?}",
                most[0], most[1], or.0, or.1
            ),
        )),
    }
}

fn frame(call: &Call<'_>) -> Result<Plan, Wrong> {
    let input = call.input()?;
    let row = if input.element == Element::F32 { input.shape as usize } else { 64 };
    let wide = call.number_or(0, "wide", (1.0, SIDE), (row as f64).min(SIDE))? as usize;
    let high = call.number_or(1, "high", (1.0, SIDE), 64.0)? as usize;
    let grey = call.choice(usize::MAX, "pixels", &["grey", "rgb"])? != Some("rgb");
    let hz = call.number_or(usize::MAX, "hz", (0.1, 240.0), 60.0)?;
    let file = call.text(usize::MAX, "file")?.map(|(file, span)| {
        call.touch(file, span);
        file.to_owned()
    });
    let name = call.text(usize::MAX, "name")?.map(|(name, _)| name.to_owned());
    let (x, y) = pair(call, "at", (0, 0), 0, [wide - 1, high - 1])?;
    let of = pair(call, "of", (wide - x, high - y), 1, [SIDE as usize; 2])?;
    let comes = match input {
        Type { element: Element::Byte, .. } => Comes::Pictures { x, y, wide: of.0, high: of.1, grey },
        Type { element: Element::F32, .. } => Comes::Rows,
        _ => {
            let how = "`cast f32` makes numbers of samples, `cast bytes` takes anything for pixels";
            return Err(call.mismatch(input, "bytes or f32", how));
        }
    };
    let env = |name: &str| std::env::var(name).unwrap_or_default();
    let how = match call.choice(usize::MAX, "as", &["kitty", "sixel", "png"])? {
        Some("kitty") => As::Kitty,
        Some("sixel") => As::Sixel,
        Some(_) => As::Png,
        None if file.is_some() => As::Png,
        None => usual(&env("TERM"), &env("TERM_PROGRAM"), std::env::var_os("KITTY_WINDOW_ID").is_some()),
    };
    if (how == As::Png) != file.is_some() {
        return Err(Wrong::new(
            "a picture goes to the terminal (`as=kitty`, `as=sixel`) or to a PNG file (`file=\"x.png\"`): one of them",
        ));
    }
    let (graph, offers) = (call.references(), name.clone());
    let plan = Plan::sink(move || {
        let picture = Mutex::new((Pixels::new(wide, high), false));
        let zero = || AtomicU64::new(0);
        let (over, writes) = (AtomicU32::new(0), Mutex::new(()));
        let shared = Arc::new(Shared { picture, over, shown: zero(), refreshes: zero(), writes, how, file });
        let refresh = Refresh { hz, name, graph };
        let draws = shared.file.is_none() && io::stdout().is_terminal();
        let another = || Fault::new("another `frame` or `window` draws on this terminal: a graph has one");
        let _drawn = if draws { Some(Pictures::take().ok_or_else(another)?) } else { None };
        stage(Frame { shared, comes, row, begun: Vec::new(), pictures: 0, refresh, runs: false, _drawn })
    });
    // It draws on the terminal of the process that runs the graph; its clocks are there, too.
    Ok(Plan { offers, anew: Anew::Here, ..plan })
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![Kind::new(
        "frame",
        "[WIDE] [HIGH=64] [pixels=grey|rgb] [at=\"X Y\"] [of=\"WIDE HIGH\"] [as=kitty|sixel|png] [file=\"FILE\"] [hz=60] [name=NAME]",
        "pixels: pictures of bytes, or a row for each frame of numbers, on the user's terminal or in a PNG file",
        frame,
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Kept;

    fn decoded(text: &[u8]) -> Vec<u8> {
        let digit = |c: u8| match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let mut out = Vec::new();
        for four in text.chunks(4) {
            let bits = four.iter().fold(0u32, |all, c| all << 6 | if *c == b'=' { 0 } else { u32::from(digit(*c)) });
            let whole = 3 - four.iter().filter(|c| **c == b'=').count();
            out.extend(&bits.to_be_bytes()[1..1 + whole]);
        }
        out
    }

    fn coloured(wide: usize, high: usize) -> Pixels {
        let bytes: Vec<u8> = (0..wide * high * 3).map(|i| [0, 51, 102, 153, 204, 255][i * 7 / 3 % 6]).collect();
        let mut pixels = Pixels::new(wide, high);
        pixels.blit(0, 0, wide, false, &bytes);
        assert_eq!(pixels.bytes, bytes);
        pixels
    }

    #[test]
    fn a_rectangle_is_copied_to_its_place_and_cut_at_the_edges() {
        let mut pixels = Pixels::new(4, 3);
        pixels.blit(2, 1, 3, true, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let light: Vec<u8> = pixels.bytes.chunks(3).map(|p| p[0]).collect();
        assert_eq!(light, [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 4, 5]);
        pixels.blit(9, 9, 1, false, &[1, 1, 1]);
        // To the right of all rows, and in the last one, behind which the picture ends.
        pixels.blit(5, 2, 1, true, &[1]);
        pixels.roll(&[7, 7, 7, 7]);
        let light: Vec<u8> = pixels.bytes.chunks(3).map(|p| p[0]).collect();
        assert_eq!(light, [0, 0, 1, 2, 0, 0, 4, 5, 7, 7, 7, 7]);
    }

    #[test]
    fn kittys_pieces_have_all_pixels() {
        for (wide, high) in [(1, 1), (5, 7), (64, 48)] {
            let pixels = coloured(wide, high);
            let text = pixels.kitty(true);
            let (mut bytes, mut pieces) = (Vec::new(), Vec::new());
            for piece in text.split(|b| *b == 0x1b).filter_map(|p| p.strip_prefix(b"_G")) {
                let at = piece.iter().position(|b| *b == b';').unwrap();
                pieces.push(String::from_utf8(piece[..at].to_vec()).unwrap());
                assert!(piece.len() - at - 1 <= PIECE && (piece.len() - at - 1) % 4 == 0);
                bytes.extend(&piece[at + 1..]);
            }
            assert_eq!(decoded(&bytes), pixels.bytes);
            assert!(pieces[0].starts_with(&format!("a=T,f=24,s={wide},v={high},")));
            let more = pieces.iter().map(|p| p.ends_with("m=1")).collect::<Vec<_>>();
            assert_eq!(more, (1..=pieces.len()).map(|n| n < pieces.len()).collect::<Vec<_>>());
        }
    }

    /// What a terminal makes of sixels: colours by number, and each band's columns.
    fn seen(text: &[u8], wide: usize, high: usize) -> Vec<u8> {
        let body = String::from_utf8(text.to_vec()).unwrap();
        let body = body.strip_prefix(&format!("\x1bPq\"1;1;{wide};{high}")).unwrap().strip_suffix("\x1b\\").unwrap();
        let (mut palette, mut out) = (std::collections::HashMap::new(), vec![0; wide * high * 3]);
        let (mut x, mut band, mut colour, mut repeat) = (0, 0, [0u8; 3], 1);
        let mut rest = body;
        while let Some(c) = rest.chars().next() {
            rest = &rest[1..];
            let numbers = |rest: &mut &str| -> Vec<usize> {
                let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(rest.len());
                let (now, behind) = rest.split_at(end);
                *rest = behind;
                now.split(';').map(|n| n.parse().unwrap()).collect()
            };
            match c {
                '#' => match numbers(&mut rest)[..] {
                    [c, 2, r, g, b] => drop(palette.insert(c, [r, g, b].map(|p| (p * 255 / 100) as u8))),
                    [c] => colour = palette[&c],
                    ref other => panic!("{other:?}"),
                },
                '!' => repeat = numbers(&mut rest)[0],
                '$' => x = 0,
                '-' => (x, band) = (0, band + 1),
                sixel => {
                    for _ in 0..std::mem::replace(&mut repeat, 1) {
                        for row in (0..6).filter(|row| (sixel as u8 - b'?') >> row & 1 == 1) {
                            let at = ((band * 6 + row) * wide + x) * 3;
                            out[at..at + 3].copy_from_slice(&colour);
                        }
                        x += 1;
                    }
                }
            }
        }
        out
    }

    #[test]
    fn sixels_are_the_picture_where_its_colours_are_those_of_the_palette() {
        for (wide, high) in [(1, 1), (3, 6), (20, 13)] {
            let pixels = coloured(wide, high);
            assert_eq!(seen(&pixels.sixel(), wide, high), pixels.bytes, "{wide} x {high}");
        }
        let flat = Pixels::new(400, 6).sixel();
        assert!(flat.len() < 60, "a run is told by its length: {}", flat.len());
    }

    #[test]
    fn the_terminal_decides_how_pictures_are_shown() {
        assert_eq!(usual("xterm-kitty", "", false), As::Kitty);
        assert_eq!(usual("xterm-256color", "WezTerm", false), As::Kitty);
        assert_eq!(usual("screen", "", true), As::Kitty);
        assert_eq!(usual("xterm-256color", "", false), As::Sixel);
    }

    /// A stage of 2 x 2 grey pixels without its thread.
    fn alone(file: String) -> Frame {
        let (picture, writes) = (Mutex::new((Pixels::new(2, 2), false)), Mutex::new(()));
        let zero = || AtomicU64::new(0);
        let (how, file) = (As::Png, Some(file));
        let shared = Shared { picture, over: AtomicU32::new(0), shown: zero(), refreshes: zero(), writes, how, file };
        Frame {
            shared: Arc::new(shared),
            comes: Comes::Pictures { x: 0, y: 0, wide: 2, high: 2, grey: true },
            row: 2,
            begun: Vec::new(),
            pictures: 0,
            refresh: Refresh { hz: 60.0, name: None, graph: Arc::default() },
            runs: true,
            _drawn: None,
        }
    }

    #[test]
    fn a_terminal_that_takes_no_more_holds_no_light_thread_up_but_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let mut frame = alone(dir.path().join("x.png").display().to_string());
        let shared = Arc::clone(&frame.shared);
        // As the thread does while it writes.
        let writes = locked(&shared.writes);
        let runtime = chappe_thread::Runtime::new(1).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let ends = runtime.spawn(move || {
            // It runs when this one waits.
            chappe_thread::spawn(move || tell.send(()).unwrap());
            frame.end(&mut Kept::default()).map_err(|fault| fault.0.to_string())
        });
        told.recv().unwrap();
        drop(writes);
        ends.join().unwrap().unwrap();
    }

    #[test]
    fn bytes_are_pictures_however_they_are_split() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.png").display().to_string();
        for size in 1..=11 {
            let mut frame = alone(file.clone());
            let shared = Arc::clone(&frame.shared);
            let mut out = Kept::default();
            let all: Vec<u8> = (1..=11).collect();
            all.chunks(size).for_each(|part| frame.put(Block::bytes(part.to_vec()), &mut out).unwrap());
            frame.end(&mut out).unwrap();
            assert_eq!((frame.pictures, out.dropped), (2, 3));
            let light: Vec<u8> = locked(&shared.picture).0.bytes.chunks(3).map(|p| p[0]).collect();
            assert_eq!(light, [5, 6, 7, 8]);
            assert_eq!(fs::read(&file).unwrap(), locked(&shared.picture).0.png());
        }
    }
}
