//! The two ends of a cut: a sink that sends blocks to a named tube, and a source that receives them in another process.
//!
//! A message is `kind of elements, again, 0 x 6 | elements, little-endian`. A block that is longer than a message goes
//! as several; no message ends within a frame, a line or a packet.
//!
//! The receiving end has a kernel thread of its own, `graph-tube`: a loan of a named tube belongs to the thread that
//! took it, and a light thread may move to another kernel thread. `graph-tube` borrows a message, hands its block to
//! the light thread, and releases the loan when the light thread asks for the next block. By then all calls to which
//! the block led have returned (P1). If the process dies earlier, the tube redelivers the message, marked.

use crate::node::packets;
use crate::stage::{Fault, Out, Source, Stage};
use crate::types::{Block, Data, Element, Type};
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::thread;
use chappe_sync::tube;
use chappe_sync::tube::named::{NotReceived, NotSent, Receiver, Sender, Tube, TubeOptions};
use std::sync::Arc;
use std::time::Duration;

/// Bytes before the elements.
const HEAD: usize = 8;
/// Bytes of a record's elements, unless a frame has more.
const BYTES: usize = 16_384;
/// How long the sender or the receiver waits at a tube before it checks whether the graph still needs it.
pub const LOOK: Duration = Duration::from_millis(20);

/// Records that a tube has room for.
pub const SLOTS: u32 = 16;

/// Bytes of a record for such a link.
fn room(of: &Type) -> usize {
    if matches!(of.element, Element::Packet(_)) {
        return packets::HEAD + packets::SNAP;
    }
    let frame = of.frame_bytes();
    frame * (BYTES / frame).max(1)
}

/// What the tube of a cut is made as.
pub fn options(of: &Type) -> TubeOptions {
    TubeOptions { slots: SLOTS, size: (HEAD + room(of)) as u32, ..TubeOptions::default() }
}

fn record(kind: u8, again: bool, bytes: &[u8]) -> Vec<u8> {
    let mut record = vec![kind, u8::from(again), 0, 0, 0, 0, 0, 0];
    record.extend_from_slice(bytes);
    record
}

/// A block as records of at most `most` bytes of elements.
pub fn records(block: &Block, of: &Type, most: usize) -> Result<Vec<Vec<u8>>, Fault> {
    let bytes = block.to_bytes();
    let kind = match block.data {
        Data::F32(_) => 0,
        Data::I16(_) => 1,
        Data::Bytes(_) => 2,
    };
    let mut records = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let mut take = rest.len().min(most);
        if take < rest.len() && of.has_no_frames() {
            let lines = of.element == Element::Line;
            let whole = if lines {
                rest[..take].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1)
            } else {
                packets::whole(&rest[..take])
            };
            if whole == 0 {
                let what = if lines { "line" } else { "packet" };
                let why =
                    format!("a {what} is longer than the {most} bytes that go from one process to another at a time");
                return Err(Fault(why));
            }
            take = whole;
        }
        records.push(record(kind, block.again, &rest[..take]));
        rest = &rest[take..];
    }
    Ok(records)
}

/// The block of a record.
pub fn block(record: &[u8], again: bool) -> Result<Block, Fault> {
    let (head, bytes) = record.split_at_checked(HEAD).ok_or_else(|| Fault("a record without a head".into()))?;
    let element = match head[0] {
        0 => Element::F32,
        1 => Element::I16,
        2 => Element::Byte,
        other => return Err(Fault(format!("a record of elements of no kind ({other})"))),
    };
    let mut block = Block::from_bytes(&element, bytes);
    block.again = again || head[1] != 0;
    Ok(block)
}

/// What keeps the arena as long as it is there.
pub type Keeps = Arc<dyn Send + Sync>;

/// The sending end.
pub struct ToTube {
    sender: Option<Sender<[u8]>>,
    of: Type,
    /// Keeps the arena.
    _parts: Option<Keeps>,
}

impl ToTube {
    /// That of a tube.
    pub fn new(name: &str, of: Type, parts: Option<Keeps>) -> Result<ToTube, Fault> {
        let sender = Tube::<[u8]>::open(name).and_then(|t| t.sender()).map_err(Fault::new)?;
        Ok(ToTube { sender: Some(sender), of, _parts: parts })
    }
}

impl Stage for ToTube {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let Some(sender) = &self.sender else { return Ok(()) };
        for record in records(&block, &self.of, room(&self.of))? {
            let mut sent = sender.try_send(&record);
            while matches!(sent, Err(NotSent::Full(()) | NotSent::Timeout(()) | NotSent::Interrupted(()))) {
                // The light threads of this proc go on meanwhile.
                sent = chappe_thread::block_in_place(|| sender.send_timeout(&record, LOOK));
            }
            match sent {
                Ok(()) => {}
                // The receiver wants no more, or has failed: the keeper reports that fault.
                Err(NotSent::Disconnected { .. } | NotSent::Dead { .. }) => {
                    self.sender = None;
                    out.finish();
                    return Ok(());
                }
                Err(e) => return Err(Fault::new(e)),
            }
        }
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Out) -> Result<(), Fault> {
        self.sender = None;
        Ok(())
    }
}

/// How what comes through a tube has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It has not, or all senders have ended well.
    Well,
    /// A sender died, or stopped with an error: what came may be a part.
    Broken,
    /// The tube was removed.
    Removed,
}

/// What the two threads of a receiving end tell each other.
#[derive(Default)]
struct Told {
    /// The light thread has gone.
    gone: AtomicU32,
    /// An [`Ended`].
    ended: AtomicU32,
}

/// The receiving end.
pub struct FromTube {
    blocks: tube::Receiver<Result<Block, Fault>>,
    done: tube::Sender<()>,
    /// The light thread has one in work.
    busy: bool,
    told: Arc<Told>,
}

fn hand_over(
    receiver: &Receiver<[u8]>,
    awaits: &mut dyn FnMut() -> bool,
    blocks: &tube::Sender<Result<Block, Fault>>,
    done: &tube::Receiver<()>,
    told: &Told,
    block: impl Fn(&[u8], bool) -> Result<Block, Fault>,
) {
    let mut some = false;
    // Relaxed: a wish to end, which has no other data.
    while told.gone.load(Ordering::Relaxed) == 0 {
        match receiver.borrow_timeout(LOOK) {
            Ok(loan) => {
                some = true;
                let sent = blocks.send(block(&loan, loan.again()));
                // An error: the light thread has gone, so the graph has ended.
                if sent.is_err() || done.recv().is_err() {
                    return;
                }
                // If the release fails, the tube redelivers the finished message, marked.
                let _ = loan.release();
            }
            Err(NotReceived::Timeout | NotReceived::Empty | NotReceived::Interrupted) => {}
            // The stream has not begun.
            Err(NotReceived::Disconnected { .. }) if !some && awaits() => std::thread::sleep(LOOK),
            // No sender is left. If one was killed, the keeper has restarted its part before, or ends the graph.
            Err(NotReceived::Disconnected { .. }) => return,
            Err(e @ (NotReceived::SenderDied { .. } | NotReceived::Dead { .. })) => {
                let ended = if matches!(e, NotReceived::Dead { .. }) { Ended::Removed } else { Ended::Broken };
                // Relaxed: it is read when `blocks` has ended, whose end orders the two.
                return told.ended.store(ended as u32, Ordering::Relaxed);
            }
            Err(e) => {
                let _ = blocks.send(Err(Fault::new(e)));
                return;
            }
        }
    }
}

impl FromTube {
    /// That of a tube.
    pub fn new(name: &str, parts: Option<Keeps>) -> Result<FromTube, Fault> {
        let receiver = Tube::<[u8]>::open(name).and_then(|t| t.receiver()).map_err(Fault::new)?;
        FromTube::with(receiver, parts, || false, block)
    }

    /// One that makes blocks of records in its own way; of each it hears whether it comes again. `awaits`: whether a sender may come yet, where nothing
    /// and no sender was there.
    pub fn with(
        receiver: Receiver<[u8]>,
        parts: Option<Keeps>,
        mut awaits: impl FnMut() -> bool + Send + 'static,
        block: impl Fn(&[u8], bool) -> Result<Block, Fault> + Send + 'static,
    ) -> Result<FromTube, Fault> {
        let (hand, blocks) = tube::bounded(1);
        let (done, over) = tube::bounded(1);
        let told = Arc::<Told>::default();
        let ours = Arc::clone(&told);
        thread::background("graph-tube", move || {
            hand_over(&receiver, &mut awaits, &hand, &over, &ours, block);
            // In this order: when `hand` goes the graph may end, and the arena of its parts is to have gone by then.
            drop((receiver, parts, hand));
        })?;
        Ok(FromTube { blocks, done, busy: false, told })
    }
}

impl FromTube {
    /// The last block is done with.
    fn release(&mut self) {
        if std::mem::take(&mut self.busy) {
            // An error is: the thread has gone.
            let _ = self.done.send(());
        }
    }

    /// How it has ended, when there is no next block.
    pub fn ended(&self) -> Ended {
        // Relaxed: as where it is stored.
        match self.told.ended.load(Ordering::Relaxed) {
            word if word == Ended::Broken as u32 => Ended::Broken,
            word if word == Ended::Removed as u32 => Ended::Removed,
            _ => Ended::Well,
        }
    }

    /// The next block, or `idle` if none comes for [`LOOK`].
    pub fn get_or(&mut self, idle: impl FnOnce() -> Block) -> Result<Option<Block>, Fault> {
        self.release();
        match self.blocks.recv_timeout(LOOK) {
            Ok(block) => {
                self.busy = true;
                block.map(Some)
            }
            Err(e) if e.is_timeout() => Ok(Some(idle())),
            Err(_) => Ok(None),
        }
    }
}

impl Source for FromTube {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        self.release();
        match self.blocks.recv() {
            Ok(block) => {
                self.busy = true;
                block.map(Some)
            }
            Err(_) => Ok(None),
        }
    }
}

impl Drop for FromTube {
    fn drop(&mut self) {
        // Relaxed: as above.
        self.told.gone.store(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(all: &Block, of: &Type, most: usize) -> Block {
        let mut back = Block::bytes(Vec::new());
        for (at, record) in records(all, of, most).unwrap().iter().enumerate() {
            assert!(record.len() <= HEAD + most);
            let one = block(record, false).unwrap();
            match (&mut back.data, one.data) {
                (Data::F32(a), Data::F32(b)) => a.extend(b),
                (Data::I16(a), Data::I16(b)) => a.extend(b),
                (Data::Bytes(a), Data::Bytes(b)) if at > 0 => a.extend(b),
                (data, one) => *data = one,
            }
            back.again = one.again;
        }
        back
    }

    #[test]
    fn blocks_go_through_records_whole_and_marked() {
        let stereo = Type::sound(2, 48_000.0);
        let numbers = Block { again: true, ..Block::f32((0..1000).map(|i| i as f32).collect()) };
        assert_eq!(there_and_back(&numbers, &stereo, 64), numbers);
        let samples = Block::i16((0..77).collect());
        assert_eq!(there_and_back(&samples, &Type::of(Element::I16), 10), samples);
        let lines = Block::bytes(b"one\ntwo\nthree\n".to_vec());
        assert_eq!(there_and_back(&lines, &Type::of(Element::Line), 8), lines);
        let parts = records(&lines, &Type::of(Element::Line), 8).unwrap();
        assert!(parts.iter().all(|p| p.last() == Some(&b'\n')) && parts.len() == 2);
        assert!(records(&lines, &Type::of(Element::Line), 5).unwrap_err().0.contains("longer than the 5 bytes"));
        assert!(block(&[0; 3], false).is_err() && block(&[9, 0, 0, 0, 0, 0, 0, 0], false).is_err());
        assert!(block(&records(&lines, &Type::of(Element::Line), 99).unwrap()[0], true).unwrap().again);
    }

    #[test]
    fn a_frame_that_is_larger_than_a_record_has_a_larger_record() {
        let wide = Type { shape: 10_000, ..Type::sound(1, 1.0) };
        assert_eq!(options(&wide).size as usize, HEAD + 40_000);
        assert_eq!(options(&Type::of(Element::Byte)).size as usize, HEAD + BYTES);
        assert_eq!(room(&Type { shape: 3, ..Type::sound(1, 1.0) }) % 12, 0);
    }
}
