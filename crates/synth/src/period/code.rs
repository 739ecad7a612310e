//! The routine as machine code: one loop over the samples for all active sources, as figure 3.5 puts the code of the second input behind
//! that of the first.
//!
//! ```text
//!   for each source:   full = written != read              (recording: room = written - read != depth)
//!                      at   = full ? ring + (read & mask) * size : silence
//!   for each 16 bytes: out[c] = at1[i] * gain1 + at2[i] * gain2 ...;  at3[i] = in[c][i]
//!   for each source:   read += full; missed += !full       (recording: written += room)
//! ```
//!
//! Addresses of rings and counters are constants: the routine's list of sources keeps the rings, and stays as long as the code. No value
//! that a sample has is used as an address; counters choose a period of a ring, by its mask. Leaf code without relocations, one back edge.

use super::ring::{Shape, Source, Spare, Way};
use crate::code::Piece;
use crate::machine::isa;
use chappe_plat::atomic::AtomicU64;
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::immediates::Ieee32;
use cranelift_codegen::ir::types::{F32X4, I64};
use cranelift_codegen::ir::{AbiParam, BlockArg, Function, InstBuilder, MemFlagsData, Signature, UserFuncName, Value};
use cranelift_codegen::isa::CallConv;

/// Rings, counters and samples are there. Samples lie at multiples of 4 bytes only.
const MEMORY: MemFlagsData = MemFlagsData::new().with_notrap();
/// A vector of four samples.
const STEP: usize = 16;

/// A routine's code.
pub(super) struct Code {
    piece: Piece,
    len: usize,
}

/// A source while the code is made: where its period lies, and what its counter becomes.
struct Lowered<'a> {
    source: &'a Source,
    at: Value,
    there: Value,
    counter: Value,
}

impl Code {
    /// None where no code can be made: then the list of sources does the same.
    pub(super) fn new(shape: Shape, sources: &[Source], spare: &Spare) -> Option<Code> {
        let isa = isa().ok()?;
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params.extend([AbiParam::new(I64), AbiParam::new(I64)]);
        let mut context = Context::for_function(Function::with_name_signature(UserFuncName::user(0, 1), signature));
        lower(&mut context.func, shape, sources, spare);
        let code = context.compile(&**isa, &mut ControlPlane::default()).ok()?;
        if !code.buffer.relocs().is_empty() {
            return None;
        }
        let bytes = code.code_buffer();
        Some(Code { piece: Piece::new(bytes).ok()?, len: bytes.len() })
    }

    /// In bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether it may be called: not in a forked child.
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        self.piece.is_here()
    }

    /// A period.
    ///
    /// # Safety
    /// Both slices have the shape's lengths, the caller is the one callback, and the code [is here](Self::is_here).
    #[inline]
    pub(super) unsafe fn run(&self, input: &[f32], output: &mut [f32]) {
        // SAFETY: the signature that it was compiled for.
        unsafe {
            let f = std::mem::transmute::<*const u8, unsafe extern "C" fn(*const f32, *mut f32)>(self.piece.entry());
            f(input.as_ptr(), output.as_mut_ptr());
        }
    }
}

/// Reads a counter that another thread writes.
fn acquire(at: &mut FuncCursor<'_>, counter: &AtomicU64) -> Value {
    let address = at.ins().iconst(I64, std::ptr::from_ref(counter) as i64);
    // Acquire: pairs with the other side's release. A plain load is one on x86-64, and Cranelift moves none over another.
    if cfg!(target_arch = "x86_64") {
        at.ins().load(I64, MEMORY, address, 0)
    } else {
        at.ins().atomic_load(I64, MEMORY, address)
    }
}

/// Writes a counter that another thread reads.
fn release(at: &mut FuncCursor<'_>, value: Value, counter: &AtomicU64) {
    let address = at.ins().iconst(I64, std::ptr::from_ref(counter) as i64);
    // Release: the samples were read or written before. A plain store is one on x86-64.
    if cfg!(target_arch = "x86_64") {
        at.ins().store(MEMORY, value, address, 0);
    } else {
        at.ins().atomic_store(MEMORY, value, address);
    }
}

fn lower(func: &mut Function, shape: Shape, sources: &[Source], spare: &Spare) {
    let mut at = FuncCursor::new(func);
    let entry = at.func.dfg.make_block();
    at.insert_block(entry);
    let input = at.func.dfg.append_block_param(entry, I64);
    let output = at.func.dfg.append_block_param(entry, I64);
    let size = shape.frames * size_of::<f32>();

    let lowered: Vec<Lowered<'_>> = sources.iter().map(|source| begin(&mut at, source, spare, size)).collect();

    let (turn, turns) = turns(shape, sources, size);
    // One loop, over byte offsets.
    let (head, done) = (at.func.dfg.make_block(), at.func.dfg.make_block());
    let offset = at.func.dfg.append_block_param(head, I64);
    let zero = at.ins().iconst(I64, 0);
    at.ins().jump(head, &[BlockArg::Value(zero)]);
    at.insert_block(head);
    let samples = |at: &mut FuncCursor<'_>, base: Value| at.ins().iadd(base, offset);
    let (from, to) = (samples(&mut at, input), samples(&mut at, output));
    let places: Vec<Value> = lowered.iter().map(|l| samples(&mut at, l.at)).collect();
    for step in (0..turn).step_by(STEP) {
        for channel in 0..shape.outputs {
            let mut sum = None;
            for (l, place) in lowered.iter().zip(&places).filter(|(l, _)| l.source.channel == channel) {
                let Way::Play(gain) = l.source.way else { continue };
                let mut sample = at.ins().load(F32X4, MEMORY, *place, step as i32);
                if gain != 1.0 {
                    let gain = at.ins().f32const(Ieee32::with_float(gain));
                    let gain = at.ins().splat(F32X4, gain);
                    sample = at.ins().fmul(sample, gain);
                }
                sum = Some(match sum {
                    Some(sum) => at.ins().fadd(sum, sample),
                    None => sample,
                });
            }
            let sum = sum.unwrap_or_else(|| {
                let none = at.ins().f32const(Ieee32::with_float(0.0));
                at.ins().splat(F32X4, none)
            });
            at.ins().store(MEMORY, sum, to, (channel * size + step) as i32);
        }
        for (l, place) in lowered.iter().zip(&places).filter(|(l, _)| l.source.way == Way::Record) {
            let sample = at.ins().load(F32X4, MEMORY, from, (l.source.channel * size + step) as i32);
            at.ins().store(MEMORY, sample, *place, step as i32);
        }
    }
    if turns == 1 {
        at.ins().jump(done, &[]);
    } else {
        let next = at.ins().iadd_imm_s(offset, turn as i64);
        let more = at.ins().icmp_imm_s(IntCC::UnsignedLessThan, next, size as i64);
        at.ins().brif(more, head, &[BlockArg::Value(next)], done, &[]);
    }

    at.insert_block(done);
    for l in &lowered {
        let counter = if l.source.way == Way::Record { &l.source.ring.written.0 } else { &l.source.ring.read.0 };
        let moved = at.ins().iadd(l.counter, l.there);
        release(&mut at, moved, counter);
        let missed = at.ins().iconst(I64, std::ptr::from_ref(&l.source.ring.missed.0) as i64);
        let absent = at.ins().bxor_imm_s(l.there, 1);
        let before = at.ins().load(I64, MEMORY, missed, 0);
        let after = at.ins().iadd(before, absent);
        at.ins().store(MEMORY, after, missed, 0);
    }
    at.ins().return_(&[]);
}

/// How many bytes of each channel a turn of the loop does, and how many turns there are: one, where that is short code.
fn turns(shape: Shape, sources: &[Source], size: usize) -> (usize, usize) {
    const LONGEST: usize = 96;
    let vectors = (size / STEP) * (sources.len() + shape.outputs);
    let turn = match () {
        () if vectors <= LONGEST => size,
        // More samples a turn where few sources leave registers for it.
        () if sources.len() <= 4 && size.is_multiple_of(4 * STEP) => 4 * STEP,
        () => STEP,
    };
    (turn, size / turn)
}

/// Where the source's period lies: in its ring, or in the spare place.
fn begin<'a>(at: &mut FuncCursor<'_>, source: &'a Source, spare: &Spare, size: usize) -> Lowered<'a> {
    let ring = &*source.ring;
    let written = acquire(at, &ring.written.0);
    let read = acquire(at, &ring.read.0);
    let (counter, there, absent) = if source.way == Way::Record {
        let used = at.ins().isub(written, read);
        (written, at.ins().icmp_imm_s(IntCC::NotEqual, used, ring.depth as i64), spare.nowhere.as_ptr() as i64)
    } else {
        (read, at.ins().icmp(IntCC::NotEqual, written, read), spare.silence.as_ptr() as i64)
    };
    let slot = at.ins().band_imm_s(counter, ring.mask as i64);
    let bytes = at.ins().imul_imm_s(slot, size as i64);
    let base = at.ins().iconst(I64, ring.samples.as_ptr() as i64);
    let place = at.ins().iadd(base, bytes);
    let absent = at.ins().iconst(I64, absent);
    let place = at.ins().select(there, place, absent);
    let there = at.ins().uextend(I64, there);
    Lowered { source, at: place, there, counter }
}
