//! What keys send: xterm's sequences, by the names that people give keys.

use crate::modes::{self, Modes};

/// Keys with a final letter: cursor keys, whose sequences the program can change.
const CURSOR: [(&str, char); 6] =
    [("up", 'A'), ("down", 'B'), ("right", 'C'), ("left", 'D'), ("home", 'H'), ("end", 'F')];

/// Keys with a number.
const NUMBERED: [(&str, u8); 16] = [
    ("insert", 2),
    ("delete", 3),
    ("pageup", 5),
    ("pagedown", 6),
    ("f5", 15),
    ("f6", 17),
    ("f7", 18),
    ("f8", 19),
    ("f9", 20),
    ("f10", 21),
    ("f11", 23),
    ("f12", 24),
    ("f1", 11),
    ("f2", 12),
    ("f3", 13),
    ("f4", 14),
];

/// Keys that are a character.
const PLAIN: [(&str, &str); 6] =
    [("enter", "\r"), ("tab", "\t"), ("escape", "\x1b"), ("esc", "\x1b"), ("space", " "), ("backspace", "\x7f")];

/// What a key sends: `Enter`, `Up`, `F5`, `C-c`, `M-x`, `C-Up`, or a character. None: there is no such key.
pub fn bytes(name: &str, modes: Modes) -> Option<Vec<u8>> {
    let (mut rest, mut alt, mut control, mut shift) = (name, false, false, false);
    while let Some((prefix, more)) = rest.split_once('-').filter(|(_, more)| !more.is_empty()) {
        match prefix {
            "C" | "c" | "Ctrl" | "ctrl" => control = true,
            "M" | "m" | "Alt" | "alt" => alt = true,
            "S" | "Shift" | "shift" => shift = true,
            _ => return None,
        }
        rest = more;
    }
    let small = rest.to_ascii_lowercase();
    let modifier = 1 + u8::from(shift) + 2 * u8::from(alt) + 4 * u8::from(control);
    if let Some((_, last)) = CURSOR.iter().find(|(key, _)| *key == small) {
        let begin = if modes.has(modes::APPLICATION_CURSOR) { 'O' } else { '[' };
        let text = if modifier == 1 { format!("\x1b{begin}{last}") } else { format!("\x1b[1;{modifier}{last}") };
        return Some(text.into_bytes());
    }
    if let Some((_, number)) = NUMBERED.iter().find(|(key, _)| *key == small) {
        let text = match (number, modifier) {
            (11..=14, 1) => format!("\x1bO{}", char::from(b'P' + number - 11)),
            (11..=14, _) => format!("\x1b[1;{modifier}{}", char::from(b'P' + number - 11)),
            (_, 1) => format!("\x1b[{number}~"),
            _ => format!("\x1b[{number};{modifier}~"),
        };
        return Some(text.into_bytes());
    }
    if small == "tab" && shift {
        return Some(b"\x1b[Z".to_vec());
    }
    let plain = PLAIN.iter().find(|(key, _)| *key == small).map(|(_, text)| *text);
    let text = plain.or_else(|| (rest.chars().count() == 1).then_some(rest))?;
    let mut out: Vec<u8> = if alt { b"\x1b".to_vec() } else { Vec::new() };
    match text.as_bytes() {
        [byte @ (b'@'..=b'_' | b'a'..=b'z')] if control => out.push(byte.to_ascii_uppercase() & 0x1f),
        [b' '] if control => out.push(0),
        [b'?'] if control => out.push(0x7f),
        _ if control => return None,
        bytes => out.extend(bytes),
    }
    Some(out)
}

/// What comes before a pasted text where the program has asked for it.
pub const PASTE_BEGINS: &[u8] = b"\x1b[200~";

/// What stands behind it.
pub const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Text as it is pasted: marked where the program wants to know, and without what would end the mark.
pub fn paste(text: &[u8], modes: Modes) -> Vec<u8> {
    if !modes.has(modes::PASTE) {
        // As a keyboard has it: Enter sends a carriage return.
        return text.iter().map(|byte| if *byte == b'\n' { b'\r' } else { *byte }).collect();
    }
    let inner = text.iter().copied().filter(|byte| *byte != 0x1b);
    PASTE_BEGINS.iter().copied().chain(inner).chain(PASTE_ENDS.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_send_what_xterm_sends() {
        let own = Modes::default();
        let mut application = own;
        application.set(modes::APPLICATION_CURSOR, true);
        for (name, modes, sent) in [
            ("Enter", own, Some("\r")),
            ("C-c", own, Some("\x03")),
            ("C-[", own, Some("\x1b")),
            ("M-x", own, Some("\x1bx")),
            ("Up", own, Some("\x1b[A")),
            ("Up", application, Some("\x1bOA")),
            ("C-Up", application, Some("\x1b[1;5A")),
            ("F1", own, Some("\x1bOP")),
            ("S-F5", own, Some("\x1b[15;2~")),
            ("PageDown", own, Some("\x1b[6~")),
            ("S-Tab", own, Some("\x1b[Z")),
            ("é", own, Some("é")),
            ("-", own, Some("-")),
            ("Nonsense", own, None),
            ("X-a", own, None),
            ("C-é", own, None),
        ] {
            assert_eq!(bytes(name, modes), sent.map(|s| s.as_bytes().to_vec()), "{name}");
        }
    }

    #[test]
    fn pasted_text_cannot_end_its_bracket() {
        let mut modes = Modes::default();
        assert_eq!(paste(b"a\nb", modes), b"a\rb");
        modes.set(modes::PASTE, true);
        assert_eq!(paste(b"a\x1b[201~\nb", modes), b"\x1b[200~a[201~\nb\x1b[201~");
    }
}
