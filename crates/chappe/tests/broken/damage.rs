//! What can become of an arena's file: one damage for each number, the same in each run with the same seed.

/// What a word becomes, one after the other: see [`spoil`].
const WAYS: u64 = 7;
/// What becomes of each half-kilobyte.
const PAGES: u64 = 6;
/// How many times words here and there are spoilt together.
const SCATTERED: u64 = 1500;

const MEMBER: usize = 256;
const OBJECT: usize = 128;
const CELL: usize = 32;

/// An arena's bytes, and which damages there are.
pub struct Whole {
    bytes: Vec<u8>,
    /// Where the words are that say something.
    words: Vec<usize>,
    seed: u64,
}

/// What was done, and in words.
pub struct Damaged {
    pub bytes: Vec<u8>,
    pub how: String,
}

/// A sequence of numbers of its own for each damage.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn put(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

impl Whole {
    /// `parts`: where members, objects, wait sets, cells, names, owners and blocks begin.
    pub fn new(bytes: Vec<u8>, parts: &[usize], seed: u64) -> Whole {
        let [members, objects, waiting, cells, names, owners, blocks] = parts[..] else { panic!("{parts:?}") };
        assert_eq!(bytes.len(), word(&bytes, 32) as usize);
        // Of members, objects and cells: those ever used, and one more.
        let used = |at: usize, high: usize, size: usize, end: usize| {
            (at..end.min(at + (u32_at(&bytes, high) + 1) * size)).step_by(8)
        };
        // The header, up to its lock.
        let mut words: Vec<usize> = (0..320).step_by(8).collect();
        words.extend(used(members, 52, MEMBER, objects));
        words.extend(used(objects, 56, OBJECT, waiting));
        words.extend((waiting..cells).step_by(8));
        words.extend(used(cells, 60, CELL, names));
        let is_zero = |at: &usize| word(&bytes, *at) == 0;
        words.extend((names..owners).step_by(8).filter(|at| !is_zero(at)));
        // Data: whatever was ever written, and the word behind it.
        let data = (owners..blocks).chain(blocks..bytes.len()).step_by(8);
        words.extend(data.filter(|at| !is_zero(at) || !is_zero(&(at - 8))));
        Whole { bytes, words, seed }
    }

    /// How many damages there are.
    pub fn count(&self) -> u64 {
        self.words.len() as u64 * WAYS + self.pages() * PAGES + self.lengths() + SCATTERED
    }

    fn pages(&self) -> u64 {
        self.bytes.len() as u64 / 512
    }

    fn lengths(&self) -> u64 {
        128 + self.bytes.len() as u64 / 1024
    }

    /// Damage number `n`.
    pub fn damaged(&self, n: u64) -> Damaged {
        let mut dice = Dice(self.seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.roll(2);
        let mut bytes = self.bytes.clone();
        let (words, pages) = (self.words.len() as u64 * WAYS, self.pages() * PAGES);
        let how = if n < words {
            let at = self.words[(n / WAYS) as usize];
            let new = spoil(word(&bytes, at), n % WAYS, &mut dice);
            put(&mut bytes, at, new);
            format!("the word at {at} is {new:#x}")
        } else if n < words + pages {
            spoil_page(&mut bytes, n - words, &mut dice)
        } else if n < words + pages + self.lengths() {
            self.cut(&mut bytes, n - words - pages)
        } else {
            let mut all = Vec::new();
            for _ in 0..2 + dice.roll(30) {
                let at = self.words[dice.roll(self.words.len())];
                let new = spoil(word(&bytes, at), dice.roll(WAYS as usize) as u64, &mut dice);
                put(&mut bytes, at, new);
                all.push(format!("{at}: {new:#x}"));
            }
            format!("words at {}", all.join(", "))
        };
        Damaged { bytes, how }
    }

    /// Some bits flipped: of words that say something, and anywhere.
    #[allow(dead_code, reason = "the command's tests use it")]
    pub fn flipped(&self, n: u64) -> Damaged {
        let mut dice = Dice(self.seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.roll(2);
        let mut bytes = self.bytes.clone();
        let mut all = Vec::new();
        for _ in 0..1 + dice.roll(12) {
            let anywhere = dice.roll(4) == 0;
            let at =
                if anywhere { dice.roll(bytes.len()) } else { self.words[dice.roll(self.words.len())] + dice.roll(8) };
            let bit = dice.roll(8);
            bytes[at] ^= 1 << bit;
            all.push(format!("{at}.{bit}"));
        }
        Damaged { bytes, how: format!("bits {} flipped", all.join(", ")) }
    }

    /// Truncated at each word of the header's first lines, and at each kilobyte; or longer.
    fn cut(&self, bytes: &mut Vec<u8>, n: u64) -> String {
        let len = match n {
            0..120 => n as usize * 4,
            120..128 => bytes.len() + (1 << (n - 120)) * 100,
            _ => (n as usize - 128) * 1024,
        };
        bytes.resize(len, 0);
        format!("{len} bytes of {}", self.bytes.len())
    }
}

fn spoil(word: u64, how: u64, dice: &mut Dice) -> u64 {
    match how {
        0 => 0,
        1 => !0,
        2 => 0x7fff_fff0_7fff_fff0,
        3 => word ^ 0xffff_ffff,
        4 => word ^ 0xffff_ffff << 32,
        5 => word ^ 1 << dice.roll(64),
        _ => (dice.roll(1 << 31) as u64) << 33 ^ dice.roll(1 << 31) as u64,
    }
}

/// Half a kilobyte: zeros, a byte of which every word is some job's permit, anything, or what is elsewhere in the file.
fn spoil_page(bytes: &mut [u8], n: u64, dice: &mut Dice) -> String {
    let at = (n / PAGES) as usize * 512;
    // The first is refused for its first word: what is behind that is of interest.
    let from = if at == 0 { 128 } else { at };
    let (what, other) = match n % PAGES {
        0 => ("zeros", 0),
        1 => ("0xfb", 0),
        2 => ("0xff", 0),
        3 => ("anything", 0),
        4 => ("what is in the slot before", from.saturating_sub(OBJECT)),
        _ => ("what is elsewhere", dice.roll(bytes.len() / 512) * 512),
    };
    for i in from..at + 512 {
        bytes[i] = match n % PAGES {
            0 => 0,
            1 => 0xfb,
            2 => 0xff,
            3 => dice.roll(256) as u8,
            _ => bytes[other + i - from],
        };
    }
    format!("{what} at {from}")
}
