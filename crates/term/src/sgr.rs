//! SGR: what `CSI ... m` makes of a style.

use crate::cell::{Colour, FLAGS, Style};

/// The style after the sequence of these parameters, each with those behind its colons. What is not known is skipped.
pub fn apply<'a>(mut style: Style, mut rest: impl Iterator<Item = &'a [u16]>) -> Style {
    while let Some(values) = rest.next() {
        match values[0] {
            0 => style = Style::default(),
            // `4:0` is no line; 4:1 to 4:5 are kinds of lines.
            4 if values.get(1) == Some(&0) => style.flags &= !crate::cell::UNDERLINE,
            6 => style.flags |= crate::cell::BLINK,
            21 => style.flags |= crate::cell::UNDERLINE,
            n @ 30..=37 => style.foreground = Colour::of_palette(n as u8 - 30),
            38 => style.foreground = colour(values, &mut rest).unwrap_or(style.foreground),
            39 => style.foreground = Colour::OWN,
            n @ 40..=47 => style.background = Colour::of_palette(n as u8 - 40),
            48 => style.background = colour(values, &mut rest).unwrap_or(style.background),
            49 => style.background = Colour::OWN,
            // The colour of the line: read, so that its parameters are not taken for others.
            58 => _ = colour(values, &mut rest),
            n @ 90..=97 => style.foreground = Colour::of_palette(n as u8 - 82),
            n @ 100..=107 => style.background = Colour::of_palette(n as u8 - 92),
            n @ 1..=9 => style.flags |= FLAGS.iter().find(|(_, on, _)| *on == n).map_or(0, |(flag, ..)| *flag),
            n => FLAGS.iter().filter(|(.., off)| *off == n).for_each(|(flag, ..)| style.flags &= !flag),
        }
    }
    style
}

/// `38:5:N`, `38:2:R:G:B`, `38:2:SPACE:R:G:B`, or the same with `;`.
fn colour<'a>(values: &[u16], rest: &mut impl Iterator<Item = &'a [u16]>) -> Option<Colour> {
    let part = |value: u16| u8::try_from(value).ok();
    let rgb = |parts: &[u16]| Some(Colour::rgb(part(parts[0])?, part(parts[1])?, part(parts[2])?));
    match values {
        [_, 5, n, ..] => part(*n).map(Colour::of_palette),
        [_, 2, parts @ ..] if parts.len() == 3 => rgb(parts),
        [_, 2, _, parts @ ..] if parts.len() >= 3 => rgb(parts),
        [_] => {
            let mut next = || rest.next().map(|values| values[0]);
            match next()? {
                5 => part(next()?).map(Colour::of_palette),
                2 => rgb(&[next()?, next()?, next()?]),
                _ => None,
            }
        }
        _ => None,
    }
}
