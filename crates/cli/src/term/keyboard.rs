//! What comes from the keyboard of an attached terminal: typed or pasted.
//!
//! This terminal marks what is pasted, whether the program in the other one wants marks or not: the key that leaves is a character like others in it.
//! A line between may split a mark anywhere, and hold up its rest for long. In what is pasted all that may be the mark at its end waits for
//! the rest, which always comes.

use chappe::term::keys::{PASTE_BEGINS, PASTE_ENDS};

/// The key that leaves: Ctrl-].
const LEAVE: u8 = 0x1d;

/// What has come so far.
#[derive(Default)]
pub struct Keyboard {
    is_pasting: bool,
    /// The beginning of what may be a mark.
    begun: Vec<u8>,
    /// How many bytes of it are typed already.
    typed: usize,
}

impl Keyboard {
    /// Takes what came, and puts into `hand` what is to be typed; with the marks, if those are wanted. False: the key that leaves; what comes behind it is not typed.
    pub fn take(&mut self, came: &[u8], is_marked: bool, hand: &mut Vec<u8>) -> bool {
        let came = [&std::mem::take(&mut self.begun)[..], came].concat();
        let mut typed = std::mem::take(&mut self.typed);
        let mut rest = &came[..];
        while let Some(byte) = rest.first() {
            let mark = if self.is_pasting { PASTE_ENDS } else { PASTE_BEGINS };
            if rest.starts_with(mark) {
                hand.extend(mark[typed..].iter().filter(|_| is_marked));
                self.is_pasting = !self.is_pasting;
                rest = &rest[mark.len()..];
            } else if mark.starts_with(rest) {
                if rest.len() == 1 && !self.is_pasting {
                    // ESC alone is a key, and does not wait.
                    hand.extend(&rest[typed..]);
                    typed = 1;
                }
                self.begun = rest.to_vec();
                self.typed = typed;
                break;
            } else if *byte == LEAVE && !self.is_pasting {
                return false;
            } else {
                hand.extend(&rest[typed..1]);
                rest = &rest[1..];
            }
            typed = 0;
        }
        true
    }

    /// Whether something waits to be known for a mark, and is typed soon if it is none.
    pub fn is_waiting(&self) -> bool {
        !self.is_pasting && self.begun.len() > self.typed
    }

    /// Nothing has followed for a while: it was no mark, unless it may be the one behind what is pasted.
    pub fn give_up(&mut self, hand: &mut Vec<u8>) {
        if !self.is_pasting {
            hand.extend(self.begun.drain(..).skip(std::mem::take(&mut self.typed)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is typed of pieces that come one by one, and whether none of them leaves.
    fn typed(pieces: &[&[u8]], is_marked: bool) -> (Vec<u8>, bool) {
        let (mut it, mut hand) = (Keyboard::default(), Vec::new());
        let stays = pieces.iter().all(|piece| it.take(piece, is_marked, &mut hand));
        it.give_up(&mut hand);
        (hand, stays)
    }

    #[test]
    fn the_key_that_leaves_is_a_character_in_what_is_pasted() {
        let all = b"a\x1b[200~b\x1d\x1b[200~c\x1b[201~d\x1de";
        assert_eq!(typed(&[all], false), (b"ab\x1d\x1b[200~cd".to_vec(), false));
        assert_eq!(typed(&[all], true), (b"a\x1b[200~b\x1d\x1b[200~c\x1b[201~d".to_vec(), false));
        for at in 0..all.len() {
            assert_eq!(typed(&[&all[..at], &all[at..]], true), typed(&[all], true), "{at}");
        }
        let bytes: Vec<&[u8]> = all.chunks(1).collect();
        assert_eq!(typed(&bytes, true), typed(&[all], true));
    }

    #[test]
    fn a_paste_ends_however_late_the_rest_of_its_mark_comes() {
        let all = b"\x1b[200~b\x1d\x1b[20\x1b[201~d\x1de";
        for (at, is_marked) in (PASTE_BEGINS.len()..all.len()).flat_map(|at| [(at, true), (at, false)]) {
            let (mut it, mut hand) = (Keyboard::default(), Vec::new());
            let stays = it.take(&all[..at], is_marked, &mut hand);
            assert!(!it.is_waiting(), "{at}");
            it.give_up(&mut hand);
            assert!(!(stays && it.take(&all[at..], is_marked, &mut hand)), "{at}");
            assert_eq!(hand, typed(&[all], is_marked).0, "{at}");
        }
    }

    #[test]
    fn keys_that_begin_like_a_mark_are_typed() {
        for keys in [&b"\x1b"[..], b"\x1b[", b"\x1b[2~", b"\x1b[20", b"\x1b[200", b"\x1b\x1b[201~"] {
            assert_eq!(typed(&[keys], false), (keys.to_vec(), true));
            assert_eq!(typed(&keys.chunks(1).collect::<Vec<_>>(), false), (keys.to_vec(), true));
        }
        assert_eq!(typed(&[b"x\x1dy"], false), (b"x".to_vec(), false));
    }
}
