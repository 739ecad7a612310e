//! Random streams of what programs write.

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// Text of ASCII.
fn words() -> impl Strategy<Value = Vec<u8>> {
    "[a-zA-Z0-9 .,$/-]{1,30}".prop_map(String::into_bytes)
}

/// Text with wide characters and marks.
pub fn wide_words() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => "[a-z ]{1,8}",
        2 => "[中文字漢]{1,5}",
        1 => Just("e\u{301}".to_owned()),
        1 => Just("漢\u{302}".to_owned()),
        1 => Just("é🦀ж".to_owned()),
    ];
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.concat().into_bytes())
}

/// Sequences that only move the cursor, colour and scroll.
pub fn moves() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => Just(b"\r\n".to_vec()),
        1 => Just(b"\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        1 => Just(b"\x08".to_vec()),
        1 => Just(b"\r\t\tx".to_vec()),
        3 => (0..12u8, 0..30u8).prop_map(|(row, column)| format!("\x1b[{row};{column}H").into_bytes()),
        3 => (0..6u8, prop::sample::select(b"ABCDEFGd".to_vec())).prop_map(|(n, what)| sequence(n, what)),
        2 => sgr(),
    ]
}

fn sgr() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0..10u8).prop_map(|n| sequence(n, b'm')),
        (30..50u8).prop_filter("parameters", |n| n % 10 != 8).prop_map(|n| sequence(n, b'm')),
        (any::<u8>()).prop_map(|n| format!("\x1b[38;5;{n}m").into_bytes()),
        (any::<u8>(), any::<u8>()).prop_map(|(a, b)| format!("\x1b[1;48;2;{a};{b};7m").into_bytes()),
    ]
}

fn sequence(n: u8, what: u8) -> Vec<u8> {
    format!("\x1b[{n}{}", char::from(what)).into_bytes()
}

/// Sequences that change the screen as well.
fn changes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (0..6u8, prop::sample::select(b"@LMSTX".to_vec())).prop_map(|(n, what)| sequence(n, what)),
        1 => Just(b"\x1b[P".to_vec()),
        2 => (0..3u8).prop_map(|n| sequence(n, b'K')),
        1 => prop::sample::select(vec![0, 2u8]).prop_map(|n| sequence(n, b'J')),
        2 => prop::sample::select(vec!["\x1bM", "\x1bD", "\x1bE", "\x1b7", "\x1b8"]).prop_map(|s| s.into()),
        1 => prop::sample::select(vec!["\x1b(0lqqk\x1b(B", "\x1b[?7l", "\x1b[?7h"]).prop_map(|s| s.into()),
        1 => prop::sample::select(vec!["\x1b[?1049h", "\x1b[?1049l"]).prop_map(|s| s.into()),
        1 => (1..5u8, 5..9u8).prop_map(|(top, bottom)| format!("\x1b[{top};{bottom}r").into_bytes()),
        1 => Just(b"\x1b[r".to_vec()),
    ]
}

/// Streams of ASCII with all that programs do.
pub fn narrow() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![3 => words(), 2 => moves(), 2 => changes()];
    prop::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
}

/// Streams with wide characters.
pub fn wide() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![2 => wide_words(), 1 => moves()];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

/// Anything at all, of the bytes that matter.
pub fn wild() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => Just(0x1b),
        4 => prop::sample::select(b"[]P(0;:?>!$ 123456789".to_vec()),
        4 => prop::sample::select(b"@ABCDEFGHJKLMPSTXZabcdfghlmnqrsu7".to_vec()),
        2 => any::<u8>(),
        1 => prop::sample::select(b"\r\n\t\x08\x18\x1a\x07\x0e\x0f\\".to_vec()),
        1 => prop::sample::select("é中\u{301}".as_bytes().to_vec()),
    ];
    prop::collection::vec(byte, 0..300)
}

/// How many cases a search has: few in the gate, many where `CHAPPE_CASES` says so.
pub fn cases(few: u32) -> ProptestConfig {
    let many = std::env::var("CHAPPE_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig { cases: many.unwrap_or(few), failure_persistence: None, ..ProptestConfig::default() }
}

/// Long streams of anything, from a seed: that of `CHAPPE_SEED`, or a new one.
pub struct Random {
    rng: TestRng,
    pub seed: u32,
}

impl Random {
    pub fn new() -> Random {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.subsec_nanos());
        let seed = std::env::var("CHAPPE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(now);
        let bytes: Vec<u8> = seed.to_le_bytes().into_iter().cycle().take(32).collect();
        Random { rng: TestRng::from_seed(RngAlgorithm::ChaCha, &bytes), seed }
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.rng.next_u32() as usize % end
    }

    fn of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len())]
    }

    /// Appends a few bytes: text, a sequence that may be one, or neither.
    pub fn piece(&mut self, out: &mut Vec<u8>) {
        match self.below(16) {
            0..6 => {
                out.extend(b"\x1b[");
                out.extend(self.of(&[&b""[..], b"", b"", b"?", b">", b"!", b"="]));
                for _ in 0..self.of(&[0, 1, 1, 2, 2, 5, 40]) {
                    let end = self.of(&[3, 30, 30, 110, 3000, 1 << 31]);
                    out.extend(self.below(end).to_string().bytes());
                    out.push(self.of(b";;;;:"));
                }
                out.extend(self.of(&[&b""[..], b"", b"", b"1", b"$", b" ", b"\n"]));
                out.push(b'@' + self.below(63) as u8);
            }
            6 => {
                out.push(0x1b);
                out.extend(self.of(&[&b""[..], b"", b"(", b")", b"#", b"%"]));
                out.push(b'0' + self.below(79) as u8);
            }
            7 => {
                out.push(0x1b);
                out.push(self.of(b"]]]PX^_"));
                out.extend(self.of(&[&b"0;"[..], b"2;", b"8;;", b"52;c;"]));
                let len = self.of(&[0, 5, 30, 1500]);
                out.extend((0..len).map(|_| self.of(b"title; 1q")));
                out.extend(self.of(&[&b"\x07"[..], b"\x1b\\", b"\x18", b""]));
            }
            8..11 => out.extend((0..self.below(30)).map(|_| b' ' + self.below(95) as u8)),
            11 => out
                .extend(self.of(&["中", "e\u{301}", "\u{301}", "🦀", "é", "\u{200d}", "字\u{302}", "\u{85}"]).bytes()),
            12 => out.extend((0..self.below(8)).map(|_| self.below(256) as u8)),
            13 => out.push(self.below(32) as u8),
            14 => out.extend(b"\r\n"),
            _ => out.extend((0..self.below(4)).map(|_| 0)),
        }
    }
}
