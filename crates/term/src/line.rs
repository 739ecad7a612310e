//! A row as text with the sequences of its styles, as the history keeps it and a terminal shows it.

use crate::cell::{Cell, Glyph, Style};
use crate::intern::{Cluster, Table};
use unicode_width::UnicodeWidthChar;

/// Appends the text of a row. It begins in the terminal's own style; what is empty at its end is left out.
pub fn encode(row: &[Cell], styles: &Table<Style>, clusters: &Table<Cluster>, out: &mut Vec<u8>) {
    let used = row.iter().rposition(|cell| cell.0 != 0).map_or(0, |last| last + 1);
    let (mut style, mut rest) = (0, &row[..used]);
    while let [cell, others @ ..] = rest {
        if cell.style() != style {
            style = cell.style();
            styles.value(style).sequence(out);
        }
        let run = Cell::ascii_run(rest, style);
        if run > 0 {
            out.extend(rest[..run].iter().map(|cell| cell.ascii()));
            rest = &rest[run..];
            continue;
        }
        rest = others;
        match cell.glyph() {
            _ if cell.is_tail() => {}
            Glyph::Nothing => out.push(b' '),
            Glyph::Char(c) if c.is_ascii() => out.push(c as u8),
            Glyph::Char(c) => out.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            Glyph::Cluster(number) => out.extend(clusters.value(number).text().bytes()),
        }
    }
    if style != 0 {
        Style::default().sequence(out);
    }
}

/// The text of an encoded row, without the sequences and the spaces at its end.
pub fn plain(encoded: &[u8]) -> String {
    let mut text = written(encoded);
    text.truncate(text.trim_end_matches(' ').len());
    text
}

/// The text of an encoded row, without the sequences.
pub fn written(encoded: &[u8]) -> String {
    let mut out = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some(at) = rest.iter().position(|byte| *byte == 0x1b) {
        out.extend(&rest[..at]);
        let end = rest[at..].iter().position(|byte| *byte == b'm').map_or(rest.len(), |end| at + end + 1);
        rest = &rest[end..];
    }
    out.extend(rest);
    String::from_utf8_lossy(&out).into_owned()
}

/// A sum of the text before a cursor, without the spaces at its end.
pub fn sum(text: &str) -> u64 {
    // FNV-1a: the same in every build.
    let mix = |sum: u64, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.trim_end_matches(' ').bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// How many columns a text has.
pub fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// How many bytes of a row's text stand before a column.
pub fn before(text: &str, column: usize) -> usize {
    let mut columns = 0;
    for (at, c) in text.char_indices() {
        let width = c.width().unwrap_or(0);
        // A mark belongs to the character before it.
        if width > 0 && columns >= column {
            return at;
        }
        columns += width;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{BOLD, Colour};

    #[test]
    fn a_column_is_found_in_a_text() {
        let text = "a中e\u{301}x";
        let parts: Vec<&str> = (0..7).map(|column| &text[..before(text, column)]).collect();
        assert_eq!(parts, ["", "a", "a中", "a中", "a中e\u{301}", text, text]);
    }

    #[test]
    fn a_row_is_written_and_read_back() {
        let (mut styles, mut clusters) = (Table::new(8), Table::new(8));
        let red = styles.number(Style { foreground: Colour::of_palette(1), flags: BOLD, ..Style::default() });
        let accented = clusters.number(Cluster::of("e\u{301}").unwrap_or_default()).unwrap_or(0);
        let row = [
            Cell::narrow('a', 0),
            Cell::narrow('b', red.unwrap_or(0)),
            Cell::wide('中', 0),
            Cell::tail(0),
            Cell::narrow('e', 0).with_cluster(accented),
            Cell::default(),
        ];
        let mut out = Vec::new();
        encode(&row, &styles, &clusters, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), "a\x1b[0;1;31mb\x1b[0m中e\u{301}");
        assert_eq!(plain(&out), "ab中e\u{301}");
    }
}
