//! A picture of the data as a PNG file: the thesis' G_window. It has a column for each frame, with the first bin at the
//! bottom.
//!
//! The file uses deflate's stored blocks, which every reader supports: the data is not compressed, and no library is
//! needed.

use crate::kind::{Kind, Plan};
use crate::stage::{Fault, Out, Stage, stage};
use crate::types::Block;
use std::io::Write;

/// Columns at most; with more frames each column is the largest of several.
const WIDE: usize = 2048;
const HIGH: usize = 1024;

struct Picture {
    path: String,
    bins: usize,
    frames: Vec<f32>,
    /// So many frames make a column.
    each: usize,
    in_last: usize,
}

impl Stage for Picture {
    fn put(&mut self, mut block: Block, _: &mut dyn Out) -> Result<(), Fault> {
        for frame in block.numbers().chunks_exact(self.bins) {
            if self.in_last == self.each || self.frames.is_empty() {
                self.frames.extend_from_slice(frame);
                self.in_last = 1;
            } else {
                let begin = self.frames.len() - self.bins;
                self.frames[begin..].iter_mut().zip(frame).for_each(|(a, b)| *a = a.max(*b));
                self.in_last += 1;
            }
            if self.frames.len() / self.bins > WIDE {
                self.halve();
            }
        }
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Out) -> Result<(), Fault> {
        let (width, high) = (self.frames.len() / self.bins, self.bins.min(HIGH));
        if width == 0 {
            return Err(Fault(format!("no frame came for {}", self.path)));
        }
        let finite = || self.frames.iter().copied().filter(|x| x.is_finite());
        let (least, most) = (finite().fold(f32::INFINITY, f32::min), finite().fold(f32::NEG_INFINITY, f32::max));
        let scale = if most > least { 255.0 / (most - least) } else { 0.0 };
        let mut rows = Vec::with_capacity((width + 1) * high);
        for row in (0..high).rev() {
            rows.push(0);
            let (from, to) = (row * self.bins / high, ((row + 1) * self.bins / high).max(row * self.bins / high + 1));
            for frame in self.frames.chunks_exact(self.bins) {
                let largest = frame[from..to].iter().copied().fold(f32::NEG_INFINITY, f32::max);
                rows.push(((largest - least) * scale) as u8);
            }
        }
        let mut file =
            std::fs::File::create(&self.path).map_err(|e| Fault::new(format!("cannot write {}: {e}", self.path)))?;
        Ok(file.write_all(&png(width as u32, high as u32, Colours::Grey, &rows))?)
    }

    fn says(&self) -> Option<String> {
        Some(format!("{} columns of {} frames in {}", self.frames.len() / self.bins, self.each, self.path))
    }
}

impl Picture {
    fn halve(&mut self) {
        let pairs = self.frames.chunks(2 * self.bins).flat_map(|pair| {
            let (a, b) = pair.split_at(self.bins);
            a.iter().enumerate().map(|(i, x)| b.get(i).map_or(*x, |y| x.max(*y)))
        });
        self.frames = pairs.collect();
        self.in_last = self.each;
        self.each *= 2;
        // The last column may have half as many as the others: it takes more.
        if (self.frames.len() / self.bins) % 2 == 1 {
            self.in_last = self.each / 2;
        }
    }
}

/// What a pixel has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Colours {
    /// A byte: how light it is.
    Grey,
    /// Three bytes: red, green, blue.
    Rgb,
}

/// Rows, each with its filter byte before it, as a PNG file.
pub(super) fn png(width: u32, height: u32, colours: Colours, rows: &[u8]) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut part = |name: &[u8; 4], data: &[u8]| {
        file.extend((data.len() as u32).to_be_bytes());
        let begin = file.len();
        file.extend(name);
        file.extend(data);
        let sum = crc(&file[begin..]);
        file.extend(sum.to_be_bytes());
    };
    let head =
        [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, if colours == Colours::Grey { 0 } else { 2 }, 0, 0, 0]]
            .concat();
    part(b"IHDR", &head);
    let mut data = vec![0x78, 0x01];
    let mut chunks = rows.chunks(65_535).peekable();
    while let Some(chunk) = chunks.next() {
        data.push(u8::from(chunks.peek().is_none()));
        data.extend((chunk.len() as u16).to_le_bytes());
        data.extend((!(chunk.len() as u16)).to_le_bytes());
        data.extend(chunk);
    }
    let (mut a, mut b) = (1u32, 0u32);
    for byte in rows {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    data.extend((b << 16 | a).to_be_bytes());
    part(b"IDAT", &data);
    part(b"IEND", &[]);
    file
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |mut sum, byte| {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = sum >> 1 ^ (0xedb8_8320 & 0u32.wrapping_sub(sum & 1));
        }
        sum
    })
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![Kind::new("png", "\"FILE\"", "a picture: a column for each frame, light where much is", |call| {
        let bins = call.floats()?.shape as usize;
        let path = call.file()?.0.to_owned();
        Ok(Plan::sink(move || stage(Picture { path, bins, frames: Vec::new(), each: 1, in_last: 0 })))
    })]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standard() {
        assert_eq!(crc(b"IEND"), 0xae42_6082);
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
    }
}
