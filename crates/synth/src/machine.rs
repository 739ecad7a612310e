//! The third engine: machine code, by Cranelift.
//!
//! One function for each form in which a query is used, so that filter, projection and aggregates are one loop over the records, with
//! their values in registers (collapsing layers, Synthesis 3.2.2):
//!
//! | form | does | answers |
//! |---|---|---|
//! | [`Form::Test`] | one record | 1 if it passes |
//! | [`Form::Select`] | writes the number of each record that passes | how many |
//! | [`Form::Project`] | writes a row for each record that passes | how many |
//! | [`Form::Fold`] | adds the records that pass to the aggregates' states | how many |
//!
//! The filter has no branches: a predicate of a few terms is cheaper than the branch that is foretold wrongly. A row is computed
//! behind one branch; aggregates choose by a conditional move.
//!
//! What protects the program that it runs in:
//! - Only [`Verified`] programs are compiled: each load has a constant place within the record (I2 of the program's form), no value is ever
//!   used as an address.
//! - Leaf code: no calls, hence no relocations (checked), and one back edge, which counts records.
//! - No instruction traps: division is guarded, conversions saturate.
//! - The code lies in pages that are never writable where they are executable ([`crate::code`]).
//!
//! The records may change while they are looked at, as shared memory may: then what is computed is nonsense, and nothing worse.

use crate::code::Piece;
use crate::form::{Form, MachineError};
use crate::ir::{Aggregate, Bin, Fold, Id, Op, Source, Type, Un, Verified};
use crate::records::Records;
use crate::schema::Scalar;
use chappe_plat::{Made, process};
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::immediates::Ieee64;
use cranelift_codegen::ir::types::{F32, F64, I8, I16, I32, I64};
use cranelift_codegen::ir::{
    AbiParam, Block, BlockArg, Function, InstBuilder, MemFlagsData, Signature, Type as ClType, UserFuncName, Value,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// More operations than this take too long to compile for what they save.
const MOST: usize = 2048;

/// A program as machine code, in one form.
pub struct Machine {
    piece: Piece,
    form: Form,
    record: usize,
    row: usize,
    folds: usize,
    bytes: Vec<u8>,
    took: Duration,
}

/// What there is to see of a function.
pub struct Listing {
    /// Cranelift's own form.
    pub clif: String,
    /// Instructions.
    pub assembly: String,
    /// Their bytes.
    pub bytes: Vec<u8>,
}

pub(crate) fn isa() -> Result<&'static OwnedTargetIsa, MachineError> {
    static ISA: Made<Result<OwnedTargetIsa, String>> = Made::new();
    let isa = ISA.get_or(|| {
        let mut flags = settings::builder();
        let set = |b: &mut settings::Builder, name: &str, value: &str| b.set(name, value).map_err(|e| e.to_string());
        set(&mut flags, "opt_level", "speed")?;
        set(&mut flags, "enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" })?;
        set(&mut flags, "unwind_info", "false")?;
        set(&mut flags, "is_pic", "true")?;
        // Nothing is read at an address that was computed from a value.
        set(&mut flags, "enable_heap_access_spectre_mitigation", "false")?;
        set(&mut flags, "enable_table_access_spectre_mitigation", "false")?;
        let name = concat_name();
        let mut builder = cranelift_codegen::isa::lookup_by_name(&name).map_err(|e| e.to_string())?;
        host_features(&mut builder);
        builder.finish(settings::Flags::new(flags)).map_err(|e| e.to_string())
    });
    isa.as_ref().map_err(|e| MachineError::Processor(e.clone()))
}

fn concat_name() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

#[cfg(target_arch = "x86_64")]
fn host_features(builder: &mut cranelift_codegen::isa::Builder) {
    let mut has = |there: bool, name: &str| {
        if there {
            // A name that this Cranelift does not have is left out: it is for speed alone.
            let _ = builder.enable(name);
        }
    };
    has(is_x86_feature_detected!("sse3"), "has_sse3");
    has(is_x86_feature_detected!("ssse3"), "has_ssse3");
    has(is_x86_feature_detected!("sse4.1"), "has_sse41");
    has(is_x86_feature_detected!("sse4.2"), "has_sse42");
    has(is_x86_feature_detected!("avx"), "has_avx");
    has(is_x86_feature_detected!("avx2"), "has_avx2");
    has(is_x86_feature_detected!("bmi1"), "has_bmi1");
    has(is_x86_feature_detected!("bmi2"), "has_bmi2");
}

#[cfg(not(target_arch = "x86_64"))]
fn host_features(_builder: &mut cranelift_codegen::isa::Builder) {}

impl Machine {
    /// Compiles a program for one form. Takes 50 to some 500 us: never on a thread that must answer in time.
    ///
    /// # Errors
    /// Where there can be none: the caller uses another engine.
    pub fn compile(program: &Verified, form: Form) -> Result<Machine, MachineError> {
        let start = Instant::now();
        let (bytes, _) = compile(program, form, false)?;
        let piece = Piece::new(&bytes)?;
        let (record, row) = (program.record as usize, program.row as usize);
        let folds = program.aggregates.len();
        Ok(Machine { piece, form, record, row, folds, bytes, took: start.elapsed() })
    }

    /// What would be compiled, to read.
    ///
    /// # Errors
    /// As [`Machine::new`].
    pub fn listing(program: &Verified, form: Form) -> Result<Listing, MachineError> {
        let (bytes, text) = compile(program, form, true)?;
        let (clif, assembly) = text.unwrap_or_default();
        Ok(Listing { clif, assembly, bytes })
    }

    /// How it was compiled.
    pub fn form(&self) -> Form {
        self.form
    }

    /// How long that took.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// The code.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it may be called: not in a forked child.
    #[inline(always)]
    pub fn is_here(&self) -> bool {
        self.piece.is_here()
    }

    /// Whether a record passes.
    ///
    /// # Panics
    /// When it was compiled for another form, or the record is shorter than the program's. Not to be called in a forked child.
    #[inline]
    pub fn test(&self, record: &[u8]) -> bool {
        assert!(self.form == Form::Test && record.len() >= self.record, "another form, or a short record");
        // SAFETY: compiled for this form and signature; it reads `self.record` bytes, which are there.
        unsafe {
            let f = std::mem::transmute::<*const u8, unsafe extern "C" fn(*const u8) -> u8>(self.piece.entry());
            f(record.as_ptr()) != 0
        }
    }

    fn check(&self, form: Form, records: Records<'_>) {
        assert!(self.form == form && records.size() >= self.record, "another form, or short records");
    }

    /// Appends the numbers of the records that pass.
    ///
    /// # Panics
    /// As [`Machine::test`].
    pub fn select(&self, records: Records<'_>, out: &mut Vec<u32>) {
        self.check(Form::Select, records);
        // One number more than can be: each is written before it is known whether it stays.
        out.reserve(records.len() + 1);
        // SAFETY: compiled for this form and signature; it reads as many records as there are, and writes at most one number
        // for each, where room was made.
        unsafe {
            let f = std::mem::transmute::<*const u8, unsafe extern "C" fn(*const u8, u64, u64, *mut u32) -> u64>(
                self.piece.entry(),
            );
            let room = out.as_mut_ptr().add(out.len());
            let n = f(records.bytes().as_ptr(), records.stride() as u64, records.len() as u64, room);
            out.set_len(out.len() + n as usize);
        }
    }

    /// Appends a row for each record that passes. How many.
    ///
    /// # Panics
    /// As [`Machine::test`].
    pub fn project(&self, records: Records<'_>, out: &mut Vec<u8>) -> usize {
        self.check(Form::Project, records);
        let start = out.len();
        // Zeroed: what lies between the columns is nothing that was there before.
        out.resize(start + records.len() * self.row, 0);
        // SAFETY: as in `select`: at most one row for each record.
        let n = unsafe {
            let f = std::mem::transmute::<*const u8, unsafe extern "C" fn(*const u8, u64, u64, *mut u8) -> u64>(
                self.piece.entry(),
            );
            let room = out.as_mut_ptr().add(start);
            f(records.bytes().as_ptr(), records.stride() as u64, records.len() as u64, room)
        };
        out.truncate(start + n as usize * self.row);
        n as usize
    }

    /// Adds the records that pass to the states. How many.
    ///
    /// # Panics
    /// As [`Machine::test`], or when the states are not the program's.
    pub fn fold(&self, records: Records<'_>, states: &mut [u64]) -> usize {
        self.check(Form::Fold, records);
        assert_eq!(states.len(), self.folds, "one state for each aggregate");
        // SAFETY: as in `select`; it reads and writes as many states as there are.
        unsafe {
            let f = std::mem::transmute::<*const u8, unsafe extern "C" fn(*const u8, u64, u64, *mut u64) -> u64>(
                self.piece.entry(),
            );
            f(records.bytes().as_ptr(), records.stride() as u64, records.len() as u64, states.as_mut_ptr()) as usize
        }
    }
}

/// Machine code for one record, with all that a call needs side by side: it is asked for each record by itself.
pub struct Test {
    entry: unsafe extern "C" fn(*const u8) -> u8,
    record: usize,
    /// The low half, which no child has.
    incarnation: u32,
    /// Keeps the code.
    _machine: Arc<Machine>,
}

impl Test {
    /// Of a query's code.
    ///
    /// # Panics
    /// When it was compiled for another form.
    pub fn new(machine: Arc<Machine>) -> Test {
        assert_eq!(machine.form, Form::Test, "another form");
        // SAFETY: compiled for this form and signature, and kept by `_machine`.
        let entry =
            unsafe { std::mem::transmute::<*const u8, unsafe extern "C" fn(*const u8) -> u8>(machine.piece.entry()) };
        Test { entry, record: machine.record, incarnation: machine.piece.incarnation() as u32, _machine: machine }
    }

    /// Whether it may be called: not in a forked child.
    #[inline(always)]
    pub fn is_here(&self) -> bool {
        process::is_still(self.incarnation)
    }

    /// Whether a record passes.
    ///
    /// # Panics
    /// When the record is shorter than the program's. Not to be called in a forked child.
    #[inline(always)]
    pub fn test(&self, record: &[u8]) -> bool {
        assert!(record.len() >= self.record, "a short record");
        // SAFETY: it reads `self.record` bytes, which are there.
        unsafe { (self.entry)(record.as_ptr()) != 0 }
    }
}

type Texts = Option<(String, String)>;

fn compile(program: &Verified, form: Form, listing: bool) -> Result<(Vec<u8>, Texts), MachineError> {
    if program.ops.len() > MOST {
        return Err(MachineError::Unsupported("it has too many operations"));
    }
    if program.ops.iter().any(|op| matches!(op, Op::Param(..) | Op::Match { .. } | Op::Text { .. })) {
        return Err(MachineError::Unsupported("it compares long texts, or its parameters have no values yet"));
    }
    // What the compiler allocates is kept for the next function of the same thread.
    thread_local! {
        // In a box: it has 7 KB, and a library that is loaded late has less than 2 KB for all of its thread-locals.
        static CONTEXT: std::cell::RefCell<Box<Context>> = std::cell::RefCell::new(Box::new(Context::new()));
    }
    CONTEXT.with_borrow_mut(|context| {
        context.clear();
        compile_in(context, program, form, listing)
    })
}

fn compile_in(
    context: &mut Context,
    program: &Verified,
    form: Form,
    listing: bool,
) -> Result<(Vec<u8>, Texts), MachineError> {
    let isa = isa()?;
    let mut signature = Signature::new(CallConv::SystemV);
    let params = if form == Form::Test { 1 } else { 4 };
    signature.params.extend((0..params).map(|_| AbiParam::new(I64)));
    signature.returns.push(AbiParam::new(if form == Form::Test { I8 } else { I64 }));
    (context.func.name, context.func.signature) = (UserFuncName::user(0, 0), signature);
    Lower::new(program, &mut context.func).function(form);
    let clif = listing.then(|| context.func.display().to_string());
    context.set_disasm(listing);
    let mut plane = ControlPlane::default();
    let code = context.compile(&**isa, &mut plane).map_err(|e| MachineError::Compiler(format!("{:?}", e.inner)))?;
    if !code.buffer.relocs().is_empty() {
        return Err(MachineError::Unsupported("it needs a function of the run time on this processor"));
    }
    let texts = clif.map(|clif| (clif, code.vcode.clone().unwrap_or_default()));
    Ok((code.code_buffer().to_owned(), texts))
}

/// A program on its way into a function.
struct Lower<'a> {
    program: &'a Verified,
    at: FuncCursor<'a>,
    /// Each operation's value, once it was emitted.
    values: Vec<Option<Value>>,
    record: Value,
}

/// Records are there, whole, for as long as the call lasts, and nothing that is written here lies in them.
const READ: MemFlagsData = MemFlagsData::new().with_notrap().with_readonly();
/// What is written is there.
const WRITE: MemFlagsData = MemFlagsData::new().with_notrap();

impl<'a> Lower<'a> {
    fn new(program: &'a Verified, func: &'a mut Function) -> Lower<'a> {
        let values = vec![None; program.ops.len()];
        let mut at = FuncCursor::new(func);
        let entry = at.func.dfg.make_block();
        at.insert_block(entry);
        let record = at.func.dfg.append_block_param(entry, I64);
        Lower { program, at, values, record }
    }

    fn block(&mut self, types: &[ClType]) -> (Block, Vec<Value>) {
        let block = self.at.func.dfg.make_block();
        let values = types.iter().map(|t| self.at.func.dfg.append_block_param(block, *t)).collect();
        (block, values)
    }

    fn function(mut self, form: Form) {
        if form == Form::Test {
            let passes = self.filter();
            self.at.ins().return_(&[passes]);
            return;
        }
        let entry = self.at.current_block().expect("just inserted");
        let base = self.record;
        let stride = self.at.func.dfg.append_block_param(entry, I64);
        let count = self.at.func.dfg.append_block_param(entry, I64);
        let out = self.at.func.dfg.append_block_param(entry, I64);
        match form {
            Form::Select => self.select(base, stride, count, out),
            Form::Project => self.project(base, stride, count, out),
            _ => self.fold(base, stride, count, out),
        }
    }

    /// A loop over the records: carries the record, its number, and `more`; `body` answers what these become. Returns the first of them, or
    /// the last state of all to `end`.
    fn over(
        &mut self,
        [base, stride, count]: [Value; 3],
        more: &[(ClType, Value)],
        body: impl FnOnce(&mut Self, Value, &[Value]) -> Vec<Value>,
        end: impl FnOnce(&mut Self, &[Value]),
    ) {
        let types: Vec<ClType> = [I64, I64].into_iter().chain(more.iter().map(|(t, _)| *t)).collect();
        let (head, carried) = self.block(&types);
        let (done, results) = self.block(&types[2..]);
        let zero = self.at.ins().iconst(I64, 0);
        let first: Vec<Value> = more.iter().map(|(_, v)| *v).collect();
        let enter: Vec<BlockArg> = [base, zero].iter().chain(&first).map(|v| BlockArg::Value(*v)).collect();
        let leave: Vec<BlockArg> = first.iter().map(|v| BlockArg::Value(*v)).collect();
        self.at.ins().brif(count, head, &enter, done, &leave);
        self.at.insert_block(head);
        self.record = carried[0];
        let next = body(self, carried[1], &carried[2..]);
        let record = self.at.ins().iadd(carried[0], stride);
        let number = self.at.ins().iadd_imm_s(carried[1], 1);
        let goes_on = self.at.ins().icmp(IntCC::UnsignedLessThan, number, count);
        let again: Vec<BlockArg> = [record, number].iter().chain(&next).map(|v| BlockArg::Value(*v)).collect();
        let leave: Vec<BlockArg> = next.iter().map(|v| BlockArg::Value(*v)).collect();
        self.at.ins().brif(goes_on, head, &again, done, &leave);
        self.at.insert_block(done);
        end(self, &results);
    }

    fn select(&mut self, base: Value, stride: Value, count: Value, out: Value) {
        let body = |s: &mut Self, number: Value, carried: &[Value]| {
            let passes = s.filter();
            let short = s.at.ins().ireduce(I32, number);
            s.at.ins().store(WRITE, short, carried[0], 0);
            let wide = s.at.ins().uextend(I64, passes);
            let step = s.at.ins().ishl_imm_s(wide, 2);
            vec![s.at.ins().iadd(carried[0], step)]
        };
        self.over([base, stride, count], &[(I64, out)], body, |s, results| {
            let bytes = s.at.ins().isub(results[0], out);
            let n = s.at.ins().ushr_imm_s(bytes, 2);
            s.at.ins().return_(&[n]);
        });
    }

    fn project(&mut self, base: Value, stride: Value, count: Value, out: Value) {
        let zero = self.at.ins().iconst(I64, 0);
        let body = |s: &mut Self, _number: Value, carried: &[Value]| {
            let row = i64::from(s.program.row);
            if s.program.filter.is_none() {
                s.row(carried[0]);
                return vec![s.at.ins().iadd_imm_s(carried[0], row), s.at.ins().iadd_imm_s(carried[1], 1)];
            }
            let passes = s.filter();
            let (write, _) = s.block(&[]);
            let (next, results) = s.block(&[I64, I64]);
            let same = [BlockArg::Value(carried[0]), BlockArg::Value(carried[1])];
            s.at.ins().brif(passes, write, &[], next, &same);
            s.at.insert_block(write);
            s.row(carried[0]);
            let behind = s.at.ins().iadd_imm_s(carried[0], row);
            let more = s.at.ins().iadd_imm_s(carried[1], 1);
            s.at.ins().jump(next, &[BlockArg::Value(behind), BlockArg::Value(more)]);
            s.at.insert_block(next);
            results
        };
        self.over([base, stride, count], &[(I64, out), (I64, zero)], body, |s, results| {
            s.at.ins().return_(&[results[1]]);
        });
    }

    /// Writes the columns of the record.
    fn row(&mut self, to: Value) {
        let columns = self.program.columns.clone();
        for c in columns {
            match c.source {
                Source::Copy { from, width } => {
                    let mut done = 0;
                    while done < width {
                        let (part, t) = match width - done {
                            8.. => (8, I64),
                            4.. => (4, I32),
                            2.. => (2, I16),
                            _ => (1, I8),
                        };
                        let v = self.at.ins().load(t, READ, self.record, (from + done) as i32);
                        self.at.ins().store(WRITE, v, to, (c.at + done) as i32);
                        done += part;
                    }
                }
                Source::Value(id) => {
                    let v = self.value(id);
                    let v = if self.program.type_of(id) == Type::Double { self.settle(v) } else { v };
                    self.at.ins().store(WRITE, v, to, c.at as i32);
                }
            }
        }
    }

    /// The one NaN instead of any.
    fn settle(&mut self, v: Value) -> Value {
        let nan = self.at.ins().f64const(Ieee64::with_bits(f64::NAN.to_bits()));
        let is = self.at.ins().fcmp(FloatCC::Unordered, v, v);
        self.at.ins().select(is, nan, v)
    }

    fn fold(&mut self, base: Value, stride: Value, count: Value, states: Value) {
        let aggregates: Vec<Aggregate> = self.program.aggregates.clone();
        let typed = |a: &Aggregate| match a.fold {
            Fold::MinDouble | Fold::MaxDouble => F64,
            _ => I64,
        };
        let mut start = vec![(I64, self.at.ins().iconst(I64, 0))];
        for (i, a) in aggregates.iter().enumerate() {
            let t = typed(a);
            start.push((t, self.at.ins().load(t, WRITE, states, 8 * i as i32)));
        }
        let kinds = aggregates.clone();
        let body = |s: &mut Self, _number: Value, carried: &[Value]| {
            let passes = s.filter();
            let one = s.at.ins().uextend(I64, passes);
            let mut next = vec![s.at.ins().iadd(carried[0], one)];
            for (a, state) in kinds.iter().zip(&carried[1..]) {
                let stepped = s.step(*a, *state);
                next.push(if s.program.filter.is_none() {
                    stepped
                } else {
                    s.at.ins().select(passes, stepped, *state)
                });
            }
            next
        };
        self.over([base, stride, count], &start, body, |s, results| {
            for (i, v) in results[1..].iter().enumerate() {
                s.at.ins().store(WRITE, *v, states, 8 * i as i32);
            }
            s.at.ins().return_(&[results[0]]);
        });
    }

    fn step(&mut self, a: Aggregate, state: Value) -> Value {
        let Some(id) = a.value else { return self.at.ins().iadd_imm_s(state, 1) };
        let mut v = self.value(id);
        match (a.fold, self.program.type_of(id)) {
            (Fold::Last, Type::Bool) => v = self.at.ins().uextend(I64, v),
            (Fold::Last, Type::Double) => v = self.at.ins().bitcast(I64, MemFlagsData::new(), v),
            _ => {}
        }
        let mut choose = |cc: IntCC| {
            let better = self.at.ins().icmp(cc, v, state);
            self.at.ins().select(better, v, state)
        };
        match a.fold {
            Fold::Count => self.at.ins().iadd_imm_s(state, 1),
            Fold::MinS => choose(IntCC::SignedLessThan),
            Fold::MinU => choose(IntCC::UnsignedLessThan),
            Fold::MaxS => choose(IntCC::SignedGreaterThan),
            Fold::MaxU => choose(IntCC::UnsignedGreaterThan),
            Fold::MinDouble | Fold::MaxDouble => {
                let (x, y) = if a.fold == Fold::MinDouble { (v, state) } else { (state, v) };
                let better = self.at.ins().fcmp(FloatCC::LessThan, x, y);
                self.at.ins().select(better, v, state)
            }
            Fold::Last => v,
        }
    }

    /// Whether the record passes: 0 or 1 in 8 bits.
    fn filter(&mut self) -> Value {
        match self.program.filter {
            Some(id) => self.value(id),
            None => self.at.ins().iconst(I8, 1),
        }
    }

    /// A value, here: it and all that it is made of are emitted in this block, unless they were before it.
    fn value(&mut self, id: Id) -> Value {
        let mut needed = vec![false; id as usize + 1];
        needed[id as usize] = true;
        for at in (0..=id as usize).rev() {
            if needed[at] && self.values[at].is_none() {
                self.program.ops[at].operands().for_each(|o| needed[o as usize] = true);
            }
        }
        for (at, _) in needed.iter().enumerate().filter(|(_, needed)| **needed) {
            if self.values[at].is_none() {
                let op = self.program.ops[at];
                self.values[at] = Some(self.emit(op));
            }
        }
        self.values[id as usize].expect("emitted")
    }

    fn emit(&mut self, op: Op) -> Value {
        let values = &self.values;
        let v = |id: Id| values[id as usize].expect("operands stand before");
        let ins = self.at.ins();
        match op {
            Op::Word(n) => ins.iconst(I64, n as i64),
            Op::Double(bits) => ins.f64const(Ieee64::with_bits(bits)),
            Op::Bool(b) => ins.iconst(I8, i64::from(b)),
            Op::Load { at, kind } => self.load(at, kind),
            Op::Un(op, a) => {
                let a = v(a);
                match op {
                    Un::NegWord => ins.ineg(a),
                    Un::NotWord => ins.bnot(a),
                    Un::NegDouble => ins.fneg(a),
                    Un::Not => ins.bxor_imm_s(a, 1),
                    Un::IntToDouble => ins.fcvt_from_sint(F64, a),
                    Un::UintToDouble => ins.fcvt_from_uint(F64, a),
                    Un::DoubleToInt => ins.fcvt_to_sint_sat(I64, a),
                    Un::DoubleToUint => ins.fcvt_to_uint_sat(I64, a),
                    Un::BoolToWord => ins.uextend(I64, a),
                }
            }
            Op::Bin(op, a, b) => {
                let (a, b) = (v(a), v(b));
                self.binary(op, a, b)
            }
            Op::Select(c, a, b) => {
                let (c, a, b) = (v(c), v(a), v(b));
                ins.select(c, a, b)
            }
            Op::Param(..) | Op::Match { .. } | Op::Text { .. } => unreachable!("refused before"),
        }
    }

    fn load(&mut self, at: u32, kind: Scalar) -> Value {
        let (from, at) = (self.record, at as i32);
        match kind {
            Scalar::Bool => {
                let byte = self.at.ins().load(I8, READ, from, at);
                self.at.ins().icmp_imm_s(IntCC::NotEqual, byte, 0)
            }
            Scalar::I8 => self.at.ins().sload8(I64, READ, from, at),
            Scalar::I16 => self.at.ins().sload16(I64, READ, from, at),
            Scalar::I32 => self.at.ins().sload32(READ, from, at),
            Scalar::U8 => self.at.ins().uload8(I64, READ, from, at),
            Scalar::U16 => self.at.ins().uload16(I64, READ, from, at),
            Scalar::U32 => self.at.ins().uload32(READ, from, at),
            Scalar::I64 | Scalar::U64 | Scalar::Time => self.at.ins().load(I64, READ, from, at),
            Scalar::F64 => self.at.ins().load(F64, READ, from, at),
            Scalar::F32 => {
                let v = self.at.ins().load(F32, READ, from, at);
                self.at.ins().fpromote(F64, v)
            }
        }
    }

    fn binary(&mut self, op: Bin, a: Value, b: Value) -> Value {
        let ins = self.at.ins();
        match op {
            Bin::Add => ins.iadd(a, b),
            Bin::Sub => ins.isub(a, b),
            Bin::Mul => ins.imul(a, b),
            Bin::DivS | Bin::RemS | Bin::DivU | Bin::RemU => self.divide(op, a, b),
            Bin::AndWord | Bin::And => ins.band(a, b),
            Bin::OrWord | Bin::Or => ins.bor(a, b),
            Bin::XorWord | Bin::Xor => ins.bxor(a, b),
            Bin::Shl => ins.ishl(a, b),
            Bin::ShrU => ins.ushr(a, b),
            Bin::AddDouble => ins.fadd(a, b),
            Bin::SubDouble => ins.fsub(a, b),
            Bin::MulDouble => ins.fmul(a, b),
            Bin::DivDouble => ins.fdiv(a, b),
            Bin::Eq => ins.icmp(IntCC::Equal, a, b),
            Bin::Ne => ins.icmp(IntCC::NotEqual, a, b),
            Bin::LtS => ins.icmp(IntCC::SignedLessThan, a, b),
            Bin::LeS => ins.icmp(IntCC::SignedLessThanOrEqual, a, b),
            Bin::LtU => ins.icmp(IntCC::UnsignedLessThan, a, b),
            Bin::LeU => ins.icmp(IntCC::UnsignedLessThanOrEqual, a, b),
            Bin::EqDouble => ins.fcmp(FloatCC::Equal, a, b),
            Bin::NeDouble => ins.fcmp(FloatCC::NotEqual, a, b),
            Bin::LtDouble => ins.fcmp(FloatCC::LessThan, a, b),
            Bin::LeDouble => ins.fcmp(FloatCC::LessThanOrEqual, a, b),
        }
    }

    /// Division by a divisor that is never 0, nor -1 where signed; what these two answer is chosen afterwards.
    fn divide(&mut self, op: Bin, a: Value, b: Value) -> Value {
        let one = self.at.ins().iconst(I64, 1);
        let zero = self.at.ins().iconst(I64, 0);
        let by_zero = self.at.ins().icmp_imm_s(IntCC::Equal, b, 0);
        match op {
            Bin::DivU | Bin::RemU => {
                let safe = self.at.ins().select(by_zero, one, b);
                if op == Bin::DivU {
                    let q = self.at.ins().udiv(a, safe);
                    return self.at.ins().select(by_zero, zero, q);
                }
                let r = self.at.ins().urem(a, safe);
                self.at.ins().select(by_zero, a, r)
            }
            _ => {
                let by_minus_one = self.at.ins().icmp_imm_s(IntCC::Equal, b, -1);
                let special = self.at.ins().bor(by_zero, by_minus_one);
                let safe = self.at.ins().select(special, one, b);
                if op == Bin::DivS {
                    let q = self.at.ins().sdiv(a, safe);
                    let minus = self.at.ins().ineg(a);
                    let q = self.at.ins().select(by_minus_one, minus, q);
                    return self.at.ins().select(by_zero, zero, q);
                }
                let r = self.at.ins().srem(a, safe);
                // By 1, and so by -1: 0.
                self.at.ins().select(by_zero, a, r)
            }
        }
    }
}
