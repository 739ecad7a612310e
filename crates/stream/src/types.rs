//! What flows along a link: the element, how many make a frame, how many frames a second; and the blocks in which it flows.
//!
//! A link carries one [`Type`]. The linker works it out from the sources on, and refuses two ends that do not agree (synthesis, chapter 8: the
//! run-time types that the thesis leaves as a wish). Elements lie in blocks one frame behind the other.

use chappe_plat::packets::Link;
use chappe_synth::{FieldType, Schema};
use std::fmt;
use std::sync::Arc;

/// One element.
#[derive(Clone, PartialEq, Debug)]
pub enum Element {
    /// A number, in sound from -1 to 1.
    F32,
    /// A sample as devices have it.
    I16,
    /// A byte of a stream without structure.
    Byte,
    /// A line of text; a block has whole lines, each with its newline.
    Line,
    /// A record of fixed size with named fields.
    Record(Arc<Schema>),
    /// A packet of a network, with a head that says when it went by: see [`crate::node::packets`]. A block has whole packets.
    Packet(Link),
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::F32 => f.write_str("f32"),
            Element::I16 => f.write_str("i16"),
            Element::Byte => f.write_str("bytes"),
            Element::Line => f.write_str("lines"),
            Element::Record(schema) => write!(f, "records {{{schema}}}"),
            Element::Packet(link) => write!(f, "packets ({link})"),
        }
    }
}

/// The type of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct Type {
    /// Of what.
    pub element: Element,
    /// How many make a frame: channels of sound, bins of a spectrum.
    pub shape: u32,
    /// Frames a second, where something has a clock.
    pub rate: Option<f64>,
}

impl Type {
    /// Sound: numbers of one or more channels at a rate.
    pub fn sound(channels: u32, rate: f64) -> Type {
        Type { element: Element::F32, shape: channels, rate: Some(rate) }
    }

    /// Elements that are as long as they are: there are no frames of a fixed size.
    pub fn has_no_frames(&self) -> bool {
        matches!(self.element, Element::Line | Element::Packet(_))
    }

    /// One element a frame, and no clock.
    pub fn of(element: Element) -> Type {
        Type { element, shape: 1, rate: None }
    }

    /// Records that name texts of any length, which lie beside them: see [`Block::texts`].
    pub fn names_texts(&self) -> bool {
        let Element::Record(schema) = &self.element else { return false };
        schema.fields().iter().any(|f| f.kind == FieldType::Str)
    }

    /// Bytes of one frame; 1 where frames have no fixed size.
    pub fn frame_bytes(&self) -> usize {
        let one = match &self.element {
            Element::F32 => 4,
            Element::I16 => 2,
            Element::Byte | Element::Line | Element::Packet(_) => 1,
            Element::Record(schema) => schema.size() as usize,
        };
        one * self.shape as usize
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.element.fmt(f)?;
        if self.shape != 1 {
            write!(f, " x {}", self.shape)?;
        }
        match self.rate {
            Some(rate) => write!(f, " at {rate} Hz"),
            None => Ok(()),
        }
    }
}

/// The elements of a block.
#[derive(Clone, PartialEq, Debug)]
pub enum Data {
    /// Of [`Element::F32`].
    F32(Vec<f32>),
    /// Of [`Element::I16`].
    I16(Vec<i16>),
    /// Of all others.
    Bytes(Vec<u8>),
}

/// Some frames that go along a link together: never a part of a frame, a record or a line. A block may be empty.
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// The elements.
    pub data: Data,
    /// Where the texts of any length lie that records name (the fields `str` of their schema); none: they name none.
    pub texts: Option<Arc<Vec<u8>>>,
    /// The block may have come before: the process that was working on it was killed, and the tube between two
    /// processes has redelivered it.
    pub again: bool,
}

impl Block {
    /// A block of numbers.
    pub fn f32(data: Vec<f32>) -> Block {
        Block::of(Data::F32(data))
    }

    /// A block of samples.
    pub fn i16(data: Vec<i16>) -> Block {
        Block::of(Data::I16(data))
    }

    /// A block of bytes, lines or records.
    pub fn bytes(data: Vec<u8>) -> Block {
        Block::of(Data::Bytes(data))
    }

    /// A block of elements.
    pub fn of(data: Data) -> Block {
        Block { data, texts: None, again: false }
    }

    /// Other elements in place of a block's, which were made of them: they may have come before if it may.
    #[must_use]
    pub fn instead(&self, data: Data) -> Block {
        Block { again: self.again, ..Block::of(data) }
    }

    /// The bytes in which the texts lie that its records name.
    pub fn texts(&self) -> &[u8] {
        self.texts.as_ref().map_or(&[], |texts| texts)
    }

    /// How many elements; of records how many bytes.
    pub fn len(&self) -> usize {
        match &self.data {
            Data::F32(d) => d.len(),
            Data::I16(d) => d.len(),
            Data::Bytes(d) => d.len(),
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers.
    ///
    /// # Panics
    /// If it has others: links are checked, so that a stage that takes `f32` gets nothing else.
    pub fn numbers(&mut self) -> &mut Vec<f32> {
        match &mut self.data {
            Data::F32(d) => d,
            other => panic!("a block of f32 was promised by its link, and this is {other:?}"),
        }
    }

    /// The bytes.
    ///
    /// # Panics
    /// As [`Block::numbers`].
    pub fn octets(&mut self) -> &mut Vec<u8> {
        match &mut self.data {
            Data::Bytes(d) => d,
            other => panic!("a block of bytes was promised by its link, and this is {other:?}"),
        }
    }

    /// As it lies in a file: little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        match &self.data {
            Data::F32(d) => d.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Data::I16(d) => d.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Data::Bytes(d) => d.clone(),
        }
    }

    /// A block of this element from bytes; what is no whole element is left.
    pub fn from_bytes(element: &Element, bytes: &[u8]) -> Block {
        match element {
            Element::F32 => Block::f32(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()),
            Element::I16 => Block::i16(bytes.as_chunks().0.iter().map(|b| i16::from_le_bytes(*b)).collect()),
            _ => Block::bytes(bytes.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_say_what_they_are() {
        assert_eq!(Type::sound(2, 44_100.0).to_string(), "f32 x 2 at 44100 Hz");
        assert_eq!(Type::of(Element::Line).to_string(), "lines");
        let trade = Schema::parse("price: f64").unwrap();
        assert_eq!(Type::of(Element::Record(Arc::new(trade))).to_string(), "records {price: f64 @ 0; size 8}");
    }

    #[test]
    fn blocks_go_to_bytes_and_back() {
        for (element, block) in [
            (Element::F32, Block::f32(vec![0.5, -1.0])),
            (Element::I16, Block::i16(vec![3, -32_768])),
            (Element::Byte, Block::bytes(vec![1, 2, 3])),
        ] {
            assert_eq!(Block::from_bytes(&element, &block.to_bytes()), block);
        }
        assert_eq!(Block::from_bytes(&Element::I16, &[1, 0, 9]).len(), 1);
    }
}
