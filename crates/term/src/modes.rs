//! What a program can switch on and off, a bit each.

/// A set of modes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Modes(pub u32);

/// Cursor keys send `ESC O` (DECCKM).
pub const APPLICATION_CURSOR: u32 = 1;
/// Rows count from the top of the region (DECOM).
pub const ORIGIN: u32 = 1 << 1;
/// A full line goes on in the next row (DECAWM).
pub const WRAP: u32 = 1 << 2;
/// The cursor is shown (DECTCEM).
pub const CURSOR: u32 = 1 << 3;
/// Characters push what is there to the right (IRM).
pub const INSERT: u32 = 1 << 4;
/// A line feed goes to the first column (LNM).
pub const NEWLINE: u32 = 1 << 5;
/// The keypad sends sequences (DECKPAM).
pub const KEYPAD: u32 = 1 << 6;
/// What is pasted is marked.
pub const PASTE: u32 = 1 << 7;
/// The program gathers changes that are to be shown at once.
pub const TOGETHER: u32 = 1 << 8;
/// The colours of the whole screen are swapped (DECSCNM).
pub const INVERTED: u32 = 1 << 9;
/// The alternate screen.
pub const ALTERNATE: u32 = 1 << 10;
/// The program is to be told when the window gets and loses the focus.
pub const FOCUS: u32 = 1 << 11;
/// The cursor blinks.
pub const BLINKS: u32 = 1 << 12;
/// The mode of 132 columns does something (xterm's 40).
pub const COLUMNS: u32 = 1 << 13;
/// Going back from the first column goes to the end of the row before, where the line comes from there (xterm's 45).
pub const WRAP_BACK: u32 = 1 << 14;
/// Mouse: presses alone (X10).
pub const MOUSE_PRESS: u32 = 1 << 16;
/// Mouse: presses and releases.
pub const MOUSE: u32 = 1 << 17;
/// Mouse: moves with a button down as well.
pub const MOUSE_DRAG: u32 = 1 << 18;
/// Mouse: all moves.
pub const MOUSE_MOVE: u32 = 1 << 19;
/// Mouse: positions in UTF-8.
pub const MOUSE_UTF8: u32 = 1 << 20;
/// Mouse: positions in decimals (SGR).
pub const MOUSE_SGR: u32 = 1 << 21;

/// The private modes (`CSI ? N h`) that a bit is all there is to. The screens are switched elsewhere.
const PRIVATE: [(u16, u32); 17] = [
    (1, APPLICATION_CURSOR),
    (5, INVERTED),
    (6, ORIGIN),
    (7, WRAP),
    (9, MOUSE_PRESS),
    (12, BLINKS),
    (25, CURSOR),
    (40, COLUMNS),
    (45, WRAP_BACK),
    (1000, MOUSE),
    (1002, MOUSE_DRAG),
    (1003, MOUSE_MOVE),
    (1004, FOCUS),
    (1005, MOUSE_UTF8),
    (1006, MOUSE_SGR),
    (2004, PASTE),
    (2026, TOGETHER),
];

/// Those that only one of can be on.
const MICE: u32 = MOUSE_PRESS | MOUSE | MOUSE_DRAG | MOUSE_MOVE;

/// Those of which a terminal that shows the screen is told. Not [`PASTE`]: the user that types there has to know what is pasted in any case.
const SHOWN: u32 = APPLICATION_CURSOR | KEYPAD | FOCUS | MICE | MOUSE_UTF8 | MOUSE_SGR;

impl Default for Modes {
    fn default() -> Modes {
        Modes(WRAP | CURSOR)
    }
}

impl Modes {
    /// Whether one of these is on.
    pub fn has(self, mode: u32) -> bool {
        self.0 & mode != 0
    }

    /// Switches them.
    pub fn set(&mut self, mode: u32, on: bool) {
        let without = if mode & MICE != 0 { self.0 & !MICE } else { self.0 };
        self.0 = if on { without | mode } else { self.0 & !mode };
    }

    /// The bit of a private mode.
    pub fn of_private(number: u16) -> Option<u32> {
        PRIVATE.iter().find(|(n, _)| *n == number).map(|(_, bit)| *bit)
    }

    /// What brings a terminal that has the modes `from` into these, as far as it is about keys and mice.
    pub fn sequences(self, from: Modes, out: &mut Vec<u8>) {
        let differ = (self.0 ^ from.0) & SHOWN;
        // Off first: of the mice only one can be on.
        for on in [false, true] {
            let these = PRIVATE.iter().filter(|(_, bit)| differ & bit != 0 && self.has(*bit) == on);
            these.for_each(|(n, _)| out.extend(format!("\x1b[?{n}{}", if on { 'h' } else { 'l' }).bytes()));
        }
        if differ & KEYPAD != 0 {
            out.extend(if self.has(KEYPAD) { b"\x1b=" } else { b"\x1b>" });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_mice_one_is_on() {
        let mut modes = Modes::default();
        modes.set(MOUSE, true);
        modes.set(MOUSE_MOVE, true);
        assert!(modes.has(MOUSE_MOVE) && !modes.has(MOUSE) && modes.has(WRAP));
        let mut out = Vec::new();
        modes.sequences(Modes::default(), &mut out);
        assert_eq!(out, b"\x1b[?1003h");
    }
}
