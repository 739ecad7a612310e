//! One process, led from point to point (ptrace).
//!
//! The victim offers itself ([`offer`]: trace-me, then a breakpoint instruction), the director takes it
//! ([`Victim::take`]), and from then on it moves only when told: by one instruction ([`Victim::step`]), or freely until
//! it comes to an address ([`Victim::run_to`]), which a debug register of the processor watches, so that the way to the
//! ten-thousandth instruction costs one stop instead of ten thousand. Only the thread that offered itself is traced:
//! threads that the operation starts run freely, and die with it.
//!
//! A move that ends in a blocking system call does not come back by itself. The director tells the two apart by the
//! victim's state in /proc: 'S' seen twice, and still no stop, is [`Move::Asleep`]; a later [`Victim::again`] completes
//! the move. Most instructions cannot sleep: a step over one of them simply waits.
//!
//! A repeated string instruction traps once an iteration. It counts as one instruction, and its iterations are
//! run through.
//!
//! Instructions are read from the director's *own* memory: the victim is a fork of it, so text lies at the same
//! addresses. Each address is read once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What an instruction is to the injector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing but the thread's own registers and plain memory.
    Plain,
    /// A string instruction under a repeat prefix, of so many bytes.
    Repeated(u8),
    /// Locked, or an exchange with memory: a point where shared state changes hands.
    Atomic,
    /// A system call.
    Call,
}

/// What one move came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Stopped again, further on.
    Stopped,
    /// In a system call that blocks.
    Asleep,
    /// The process has ended by itself, with this wait status.
    Ended(i32),
}

/// Why a victim could not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It ended before it offered itself, with this wait status.
    Ended(i32),
    /// It did not offer itself in time, or never will.
    Never,
}

/// A process of which one thread is traced. It is killed and reaped when dropped.
pub struct Victim {
    pid: libc::pid_t,
    tid: libc::pid_t,
    /// Signal to deliver with the next move.
    signal: i32,
    gone: bool,
}

/// How long a system call may take before /proc is asked.
const PATIENCE: Duration = Duration::from_micros(300);

/// Offers the calling thread to the director and stops. False if the system refuses (a container's seccomp filter,
/// Yama, a debugger that is there already): then nothing has happened.
#[inline(always)]
pub fn offer() -> bool {
    // SAFETY: no pointers; the process was forked by a director that waits for it.
    if unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } != 0 {
        return false;
    }
    here();
    true
}

/// A stop for the director to see. Only in a process that is traced.
#[inline(always)]
pub fn here() {
    // SAFETY: traps to the tracer, which goes on after the instruction; no register or memory changes.
    unsafe { std::arch::asm!("int3", options(nostack, preserves_flags)) };
}

impl Victim {
    /// Takes the child `pid` once a thread of it, which `thread` knows (0: not yet), has offered itself; gives up after
    /// `limit`, or when `hopeless`.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn take(
        pid: libc::pid_t,
        thread: impl Fn() -> libc::pid_t,
        limit: Duration,
        hopeless: impl Fn() -> bool,
    ) -> Result<Victim, Refusal> {
        let mut victim = Victim { pid, tid: pid, signal: 0, gone: false };
        let mut came = None;
        crate::patience::within(limit, || {
            let tid = thread();
            victim.tid = if tid == 0 { pid } else { tid };
            came = victim.poll();
            came.is_some() || hopeless()
        });
        match came {
            Some(status) if libc::WIFSTOPPED(status) => {}
            Some(status) => {
                victim.gone = true;
                return Err(Refusal::Ended(status));
            }
            None => {
                victim.gone = true;
                return Err(Refusal::Never);
            }
        }
        // SAFETY: `tid` is our stopped tracee; the option has no pointer.
        unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, victim.tid, 0, libc::PTRACE_O_EXITKILL) };
        Ok(victim)
    }

    /// Its process.
    pub fn pid(&self) -> libc::pid_t {
        self.pid
    }

    /// The address of the next instruction.
    pub fn at(&self) -> u64 {
        let offset = std::mem::offset_of!(libc::user_regs_struct, rip);
        // SAFETY: `tid` is our stopped tracee, and the offset is that of a register in its user area.
        unsafe { libc::ptrace(libc::PTRACE_PEEKUSER, self.tid, offset, 0) as u64 }
    }

    /// Runs one instruction; `kind` is that of the instruction at [`Victim::at`].
    pub fn step(&mut self, kind: Kind) -> Move {
        match kind {
            Kind::Plain | Kind::Atomic => {
                if self.resume(libc::PTRACE_SINGLESTEP) {
                    self.wait()
                } else {
                    self.again()
                }
            }
            Kind::Call => {
                self.resume(libc::PTRACE_SINGLESTEP);
                self.again()
            }
            Kind::Repeated(length) => {
                let from = self.at();
                if self.watch(from + u64::from(length)) {
                    self.resume(libc::PTRACE_CONT);
                    return self.wait();
                }
                loop {
                    self.resume(libc::PTRACE_SINGLESTEP);
                    let came = self.wait();
                    if came != Move::Stopped || self.at() != from {
                        return came;
                    }
                }
            }
        }
    }

    /// Runs until it comes to `address`, or stops by itself ([`here`]). Call once more, at that address, for the next
    /// time it comes there. False: this machine has no debug registers to give.
    pub fn run_to(&mut self, address: u64) -> Option<Move> {
        if !self.watch(address) {
            return None;
        }
        self.resume(libc::PTRACE_CONT);
        Some(self.again())
    }

    /// Runs until it stops by itself or falls asleep.
    pub fn run(&mut self) -> Move {
        self.watch(0);
        self.resume(libc::PTRACE_CONT);
        self.again()
    }

    /// Has the processor trap before the instruction at `address` (0: nowhere).
    fn watch(&self, address: u64) -> bool {
        let registers = std::mem::offset_of!(libc::user, u_debugreg);
        let set = |number: usize, value: u64| {
            // SAFETY: `tid` is our stopped tracee, the offset that of a debug register in its user area.
            unsafe { libc::ptrace(libc::PTRACE_POKEUSER, self.tid, registers + number * 8, value) == 0 }
        };
        // Register 7 switches register 0 on (bit 0), for execution (bits 16 to 19 zero). Off first: an address is
        // taken only then.
        set(7, 0) && (address == 0 || set(0, address) && set(7, 1))
    }

    /// False if it is not there to be resumed: killed by another process while it was stopped.
    fn resume(&mut self, how: libc::c_uint) -> bool {
        let signal = std::mem::take(&mut self.signal);
        // SAFETY: `tid` is our stopped tracee; no pointers.
        unsafe { libc::ptrace(how, self.tid, 0, signal) == 0 }
    }

    /// Waits for a move that was [`Move::Asleep`]; the same again if it still sleeps.
    pub fn again(&mut self) -> Move {
        let start = Instant::now();
        let mut sleepy = false;
        loop {
            if let Some(status) = self.poll() {
                return self.came(status);
            }
            if start.elapsed() < PATIENCE {
                std::thread::yield_now();
                continue;
            }
            let sleeps = state(self.tid) == Some(b'S');
            if sleeps && sleepy {
                return self.poll().map_or(Move::Asleep, |status| self.came(status));
            }
            sleepy = sleeps;
            crate::patience::pause();
        }
    }

    fn poll(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: `status` is a valid place for the duration of the call.
        let got = unsafe { libc::waitpid(self.tid, &mut status, libc::WNOHANG | libc::__WALL) };
        (got == self.tid).then_some(status)
    }

    fn wait(&mut self) -> Move {
        let mut status = 0;
        // SAFETY: `status` is a valid place for the duration of the call.
        while unsafe { libc::waitpid(self.tid, &mut status, libc::__WALL) } != self.tid {}
        self.came(status)
    }

    fn came(&mut self, status: i32) -> Move {
        if !libc::WIFSTOPPED(status) {
            self.gone = true;
            return Move::Ended(status);
        }
        let signal = libc::WSTOPSIG(status);
        if signal != libc::SIGTRAP {
            self.signal = signal;
        }
        Move::Stopped
    }

    /// Kills the process where it is, and returns once the kernel has taken it down.
    pub fn kill(&mut self) {
        if !self.gone {
            end(self.pid, self.tid);
            self.gone = true;
        }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Kills a child of ours and reaps it; first its thread that is traced, without which its end is not heard of.
pub fn end(pid: libc::pid_t, traced: libc::pid_t) {
    // SAFETY: `pid` is a child that we have not reaped, so the number is still its own.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    if traced != pid {
        reap(traced);
    }
    reap(pid);
}

fn reap(id: libc::pid_t) {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid place for the duration of the call.
        let got = unsafe { libc::waitpid(id, &mut status, libc::__WALL) };
        if got == -1 || (got == id && !libc::WIFSTOPPED(status)) {
            return;
        }
    }
}

/// The state letter of a process in /proc.
pub fn state(pid: libc::pid_t) -> Option<u8> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let name_end = text.iter().rposition(|&b| b == b')')?;
    text.get(name_end + 2).copied()
}

/// What lies at each address met so far.
#[derive(Default)]
pub struct Reader {
    known: HashMap<u64, Kind>,
}

impl Reader {
    /// The kind of the instruction at `address`.
    pub fn kind(&mut self, address: u64) -> Kind {
        *self.known.entry(address).or_insert_with(|| read(address))
    }
}

fn read(address: u64) -> Kind {
    let mut bytes = [0u8; 16];
    let to = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let from = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: `to` is ours and as long as it says; a bad `from` is an error, not a fault, for this call.
    let got = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    // Text that this process does not have (mapped after the fork): treat as a call, which is always right, only slower.
    if got <= 0 { Kind::Call } else { classify(&bytes[..got as usize]) }
}

/// Recognises `syscall`, a lock prefix, `xchg` with memory (locked without a prefix), and repeated string instructions.
fn classify(bytes: &[u8]) -> Kind {
    if bytes.starts_with(&[0x0f, 0x05]) {
        return Kind::Call;
    }
    let mut repeated = false;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            0xf0 => return Kind::Atomic,
            0xf2 | 0xf3 => repeated = true,
            // Operand size, address size, segment and REX prefixes.
            0x66 | 0x67 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 | 0x40..=0x4f => {}
            // movs, cmps, stos, lods, scas.
            0xa4..=0xa7 | 0xaa..=0xaf if repeated => return Kind::Repeated(at as u8 + 1),
            // xchg: the upper two bits of the next byte are 3 for a register, which is no access to memory.
            0x86 | 0x87 if bytes.get(at + 1).is_some_and(|modrm| modrm >> 6 != 3) => return Kind::Atomic,
            _ => return Kind::Plain,
        }
    }
    Kind::Plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_exchange_repeat_and_call_instructions_are_told_from_plain_ones() {
        for (bytes, kind) in [
            (&[0x0f, 0x05][..], Kind::Call),
            (&[0xf0, 0x48, 0x0f, 0xc1, 0x07], Kind::Atomic), // lock xadd [rdi], rax
            (&[0x66, 0xf0, 0x0f, 0xb1, 0x0f], Kind::Atomic), // lock cmpxchg [rdi], cx
            (&[0x48, 0x87, 0x07], Kind::Atomic),             // xchg [rdi], rax
            (&[0x87, 0x07], Kind::Atomic),                   // xchg [rdi], eax
            (&[0x48, 0x87, 0xc7], Kind::Plain),              // xchg rdi, rax
            (&[0x48, 0x89, 0x07], Kind::Plain),              // mov [rdi], rax
            (&[0xf3, 0xaa], Kind::Repeated(2)),              // rep stosb
            (&[0xf3, 0x48, 0xa5], Kind::Repeated(3)),        // rep movsq
            (&[0xa4], Kind::Plain),                          // movsb
            (&[0xf3, 0x0f, 0x1e, 0xfa], Kind::Plain),        // endbr64
        ] {
            assert_eq!(classify(bytes), kind, "{bytes:x?}");
        }
    }
}
