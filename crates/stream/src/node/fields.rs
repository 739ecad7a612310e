//! The fields of packets, as records: Ethernet with VLAN tags, or what else captures begin with; IPv4 and IPv6, TCP and UDP, and the name that a
//! DNS message asks for.
//!
//! What a packet has not, or what was cut off, is NULL. Nothing that stands in a packet is trusted: each number is looked at before it is a place.

use super::packets::{self, One};
use crate::kind::{Call, Kind, Plan, Wrong};
use crate::stage::{Fault, Out, Stage, stage};
use crate::types::{Block, Element, Type};
use chappe_plat::packets::Link;
use chappe_synth::ir::NO_TEXT;
use chappe_synth::{FieldType, Schema};
use core::net::{Ipv4Addr, Ipv6Addr};
use std::fmt::{Display, Write};
use std::sync::Arc;

/// What a record has: `kept` are the bytes that the capture has of the packet's `length`, `payload` those behind TCP's or UDP's head.
const FIELDS: &str = "time: time?, length: u32?, kept: u32?, smac: str, dmac: str, vlan: u16?, ether: u16?, src: str, dst: str, proto: str, \
                      ttl: u8?, sport: u16?, dport: u16?, flags: str, seq: u32?, ack: u32?, window: u16?, payload: u32?, dns: str, dns_type: u16?, \
                      dns_answer: bool?";

/// A DNS name has at most so many bytes.
const NAME: usize = 255;

/// A record that is made, and the texts that it names.
struct Row<'a> {
    schema: &'a Schema,
    record: &'a mut [u8],
    texts: &'a mut Vec<u8>,
}

impl Row<'_> {
    fn int(&mut self, name: &str, value: u64) {
        let Some(field) = self.schema.field(name) else { return };
        if let FieldType::Maybe(scalar) = field.kind {
            let (at, width) = (field.at as usize, scalar.width() as usize);
            self.record[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            self.record[at + width] = 1;
        }
    }

    fn text(&mut self, name: &str, value: &dyn Display) {
        let Some(field) = self.schema.field(name) else { return };
        let mut text = String::new();
        let _ = write!(text, "{value}");
        let word = (text.len() as u64) << 32 | self.texts.len() as u64;
        self.texts.extend_from_slice(text.as_bytes());
        self.record[field.at as usize..][..8].copy_from_slice(&word.to_le_bytes());
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// An address of Ethernet.
struct Mac<'a>(&'a [u8]);

impl Display for Mac<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if at == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// All of a packet; none: it ends there.
fn packet(link: Link, one: &One<'_>, row: &mut Row<'_>) -> Option<()> {
    row.int("time", one.at);
    row.int("length", one.length.into());
    row.int("kept", one.bytes.len() as u64);
    let bytes = one.bytes;
    let (mut ether, mut rest) = match link {
        Link::ETHERNET => {
            row.text("dmac", &Mac(bytes.get(..6)?));
            row.text("smac", &Mac(bytes.get(6..12)?));
            (u16_at(bytes, 12)?, bytes.get(14..)?)
        }
        // What Linux has of all interfaces at once, in its two kinds.
        Link(113) => (u16_at(bytes, 14)?, bytes.get(16..)?),
        Link(276) => (u16_at(bytes, 0)?, bytes.get(20..)?),
        // BSD's loopback: the family, by the machine's own order of bytes.
        Link(0 | 108) => {
            let is_ipv6 = bytes.get(..4)?.iter().any(|family| matches!(family, 24 | 28 | 30));
            (if is_ipv6 { IPV6 } else { IPV4 }, bytes.get(4..)?)
        }
        Link(101 | 228 | 229) => (if bytes.first()? >> 4 == 6 { IPV6 } else { IPV4 }, bytes),
        _ => return None,
    };
    // The outer tag is the one that is told.
    let mut tags = 0;
    while matches!(ether, 0x8100 | 0x88a8 | 0x9100) && tags < 8 {
        let tag = u16_at(rest, 0)?;
        if tags == 0 {
            row.int("vlan", u64::from(tag & 0x0fff));
        }
        (ether, rest, tags) = (u16_at(rest, 2)?, rest.get(4..)?, tags + 1);
    }
    row.int("ether", ether.into());
    match ether {
        IPV4 => ipv4(rest, row),
        IPV6 => ipv6(rest, row),
        _ => None,
    }
}

fn ipv4(bytes: &[u8], row: &mut Row<'_>) -> Option<()> {
    let head = usize::from(bytes.first()? & 0x0f) * 4;
    let total = usize::from(u16_at(bytes, 2)?);
    row.int("ttl", (*bytes.get(8)?).into());
    let (src, dst) = (u32_at(bytes, 12)?, u32_at(bytes, 16)?);
    row.text("src", &Ipv4Addr::from(src));
    row.text("dst", &Ipv4Addr::from(dst));
    let is_first = u16_at(bytes, 6)? & 0x1fff == 0;
    // Segments that the card cuts have no length yet.
    let total = if total == 0 { bytes.len() } else { total };
    transport(bytes[9], bytes.get(head.max(20)..)?, total.checked_sub(head)?, is_first, row)
}

fn ipv6(bytes: &[u8], row: &mut Row<'_>) -> Option<()> {
    let mut left = usize::from(u16_at(bytes, 4)?);
    let (mut next, hops) = (*bytes.get(6)?, *bytes.get(7)?);
    row.int("ttl", hops.into());
    let address = |at: usize| Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(at..at + 16)?).ok()?));
    row.text("src", &address(8)?);
    row.text("dst", &address(24)?);
    let mut rest = bytes.get(40..)?;
    if left == 0 {
        left = rest.len();
    }
    let mut is_first = true;
    // Each head names the next one.
    while let 0 | 43 | 44 | 51 | 60 = next {
        let words = usize::from(*rest.get(1)?);
        let length = match next {
            44 => 8,
            51 => 4 * (words + 2),
            _ => 8 * (words + 1),
        };
        if next == 44 {
            is_first &= u16_at(rest, 2)? >> 3 == 0;
        }
        next = rest[0];
        (rest, left) = (rest.get(length..)?, left.checked_sub(length)?);
    }
    transport(next, rest, left, is_first, row)
}

/// Of `left` bytes, of which not all need be there; of later fragments nothing more is known.
fn transport(proto: u8, bytes: &[u8], left: usize, is_first: bool, row: &mut Row<'_>) -> Option<()> {
    match proto {
        1 => row.text("proto", &"icmp"),
        2 => row.text("proto", &"igmp"),
        6 => row.text("proto", &"tcp"),
        17 => row.text("proto", &"udp"),
        47 => row.text("proto", &"gre"),
        50 => row.text("proto", &"esp"),
        58 => row.text("proto", &"icmp6"),
        132 => row.text("proto", &"sctp"),
        other => row.text("proto", &other),
    }
    if !is_first || !matches!(proto, 6 | 17 | 132) {
        return None;
    }
    let (from, to) = (u16_at(bytes, 0)?, u16_at(bytes, 2)?);
    row.int("sport", from.into());
    row.int("dport", to.into());
    let has_names = [from, to].iter().any(|port| matches!(port, 53 | 5353 | 5355));
    if proto == 17 {
        row.int("payload", left.checked_sub(8)? as u64);
        return if has_names { dns(bytes.get(8..)?, row) } else { None };
    }
    if proto != 6 {
        return None;
    }
    row.int("seq", u32_at(bytes, 4)?.into());
    row.int("ack", u32_at(bytes, 8)?.into());
    let (offset, flags) = (*bytes.get(12)?, *bytes.get(13)?);
    let all = [(0x02, 'S'), (0x10, 'A'), (0x01, 'F'), (0x04, 'R'), (0x08, 'P'), (0x20, 'U'), (0x40, 'E'), (0x80, 'C')];
    row.text("flags", &all.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, letter)| *letter).collect::<String>());
    row.int("window", u16_at(bytes, 14)?.into());
    let head = usize::from(offset >> 4) * 4;
    row.int("payload", left.checked_sub(head)? as u64);
    // Over TCP its length comes first.
    if has_names { dns(bytes.get(head.max(20) + 2..)?, row) } else { None }
}

/// The first question of a DNS message.
fn dns(bytes: &[u8], row: &mut Row<'_>) -> Option<()> {
    if u16_at(bytes, 4)? == 0 {
        return None;
    }
    let (mut name, mut at) = (String::new(), 12);
    loop {
        let length = usize::from(*bytes.get(at)?);
        if length == 0 {
            break;
        }
        // A first question has nothing before it to point at.
        let label = bytes.get(at + 1..at + 1 + length).filter(|_| length < 64 && name.len() <= NAME)?;
        for byte in label {
            // As files of zones write it.
            let _ = match byte {
                b'.' | b'\\' => write!(name, "\\{}", char::from(*byte)),
                0x21..=0x7e => write!(name, "{}", char::from(*byte)),
                other => write!(name, "\\{other:03}"),
            };
        }
        name.push('.');
        at += 1 + length;
    }
    let kind = u16_at(bytes, at + 1)?;
    row.text("dns", &if name.len() > 1 { name.trim_end_matches('.') } else { "." });
    row.int("dns_type", kind.into());
    row.int("dns_answer", (bytes[2] >> 7).into());
    Some(())
}

/// Makes a record of each packet.
struct ToRecords {
    link: Link,
    schema: Arc<Schema>,
}

impl Stage for ToRecords {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let size = self.schema.size() as usize;
        let (mut records, mut texts) = (Vec::new(), Vec::new());
        let again = block.again;
        for one in packets::each(block.octets()) {
            let start = records.len();
            records.resize(start + size, 0);
            for field in self.schema.fields().iter().filter(|f| f.kind == FieldType::Str) {
                records[start + field.at as usize..][..8].copy_from_slice(&NO_TEXT.to_le_bytes());
            }
            let record = &mut records[start..];
            // Where it ends its fields end.
            let _ = packet(self.link, &one, &mut Row { schema: &self.schema, record, texts: &mut texts });
        }
        out.put(Block { texts: Some(Arc::new(texts)), again, ..Block::bytes(records) })
    }
}

fn fields(call: &Call<'_>) -> Result<Plan, Wrong> {
    let input = call.input()?;
    let Element::Packet(link) = input.element else {
        return Err(call.mismatch(input, "packets", "`packets INTERFACE` takes them, `pcap FILE` reads them"));
    };
    let schema = Arc::new(Schema::parse_columns(FIELDS).map_err(|e| Wrong::new(e.message()))?);
    let gives = Type::of(Element::Record(Arc::clone(&schema)));
    Ok(Plan::filter(gives, move || stage(ToRecords { link, schema })))
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![Kind::new(
        "fields",
        "",
        "packets as records: time, addresses, ports, flags, the name that DNS asks for: ... | fields | select \"src, dst, sum(length) as n by src, dst\"",
        fields,
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use chappe_rows::{Style, Writer};

    fn json(link: Link, packet: &[u8]) -> String {
        let schema = Arc::new(Schema::parse_columns(FIELDS).unwrap());
        let mut bytes = Vec::new();
        packets::push(&mut bytes, &One { at: 1_500_000_000, bytes: packet, length: 99 });
        let mut made = crate::stage::Kept::default();
        ToRecords { link, schema: Arc::clone(&schema) }.put(Block::bytes(bytes), &mut made).unwrap();
        let mut out = Vec::new();
        for block in &made.blocks {
            let crate::types::Data::Bytes(records) = &block.data else { panic!("records") };
            Writer::new(Style::Json, &schema).rows(records, block.texts(), &mut out);
        }
        let object = String::from_utf8(out).unwrap();
        // What is NULL is left out.
        object
            .trim()
            .trim_matches(['{', '}'])
            .split(',')
            .filter(|m| !m.ends_with(":null"))
            .collect::<Vec<_>>()
            .join(",")
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let digit = |b: u8| char::from(b).to_digit(16).unwrap() as u8;
        digits.chunks_exact(2).map(|two| 16 * digit(two[0]) + digit(two[1])).collect()
    }

    /// A question for `ab.example`, through a VLAN.
    fn question() -> Vec<u8> {
        bytes(
            "020000000001 020000000002 8100 0064 0800 45000038000100004011f9c5 0a000001 08080808 c3500035 0024 0000 \
             1234 0100 0001 0000 0000 0000 02 6162 07 6578616d706c65 00 0001 0001",
        )
    }

    #[test]
    fn a_packet_s_fields_are_typed() {
        let head = "\"time\":\"1970-01-01T00:00:01.5Z\",\"length\":99,";
        assert_eq!(
            json(Link::ETHERNET, &question()),
            format!(
                "{head}\"kept\":{},\"smac\":\"02:00:00:00:00:02\",\"dmac\":\"02:00:00:00:00:01\",\"vlan\":100,\"ether\":2048,\
                 \"src\":\"10.0.0.1\",\"dst\":\"8.8.8.8\",\"proto\":\"udp\",\"ttl\":64,\"sport\":50000,\"dport\":53,\"payload\":28,\
                 \"dns\":\"ab.example\",\"dns_type\":1,\"dns_answer\":false",
                question().len()
            )
        );
        // IPv6 behind an options' head, with no link's head before it.
        let syn = bytes(
            "60000000 001c 0040 20010db8000000000000000000000001 20010db8000000000000000000000002 \
             0600010400000000 01bb d431 00000007 00000009 5012 ffff 0000 0000",
        );
        assert_eq!(
            json(Link::RAW, &syn),
            format!(
                "{head}\"kept\":{},\"ether\":34525,\"src\":\"2001:db8::1\",\"dst\":\"2001:db8::2\",\"proto\":\"tcp\",\"ttl\":64,\
                 \"sport\":443,\"dport\":54321,\"flags\":\"SA\",\"seq\":7,\"ack\":9,\"window\":65535,\"payload\":0",
                syn.len()
            )
        );
        let cooked = [&bytes("0000 0001 0006 020000000002 0000 0800")[..], &question()[18..]].concat();
        assert!(json(Link(113), &cooked).contains("\"dns\":\"ab.example\""));
        // A later fragment has no ports.
        let mut fragment = question();
        fragment[18 + 7] = 1;
        assert!(json(Link::ETHERNET, &fragment).ends_with("\"proto\":\"udp\",\"ttl\":64"));
    }

    #[test]
    fn a_packet_that_is_cut_or_lies_has_what_is_there() {
        let whole = question();
        for kept in 0..whole.len() - 2 {
            let some = json(Link::ETHERNET, &whole[..kept]);
            assert!(some.contains("\"kept\"") && !some.contains("\"dns\""), "{kept}: {some}");
        }
        // Any byte may be anything.
        let mut seed = 1u64;
        for _ in 0..2000 {
            let mut packet = whole.clone();
            for _ in 0..3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (seed >> 33) as usize % packet.len();
                packet[at] = (seed >> 20) as u8;
            }
            for link in [1, 0, 101, 113, 276, 147] {
                assert!(json(Link(link), &packet).contains("\"kept\""));
            }
        }
    }
}
