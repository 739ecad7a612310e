//! Static probes (USDT): places in the machine code where perf, bpftrace or a debugger can stop and look.
//!
//! Each probe is one `nop`, and a note of type 3 in the section `.note.stapsdt` (SystemTap's format), which says where the `nop` is and in which
//! registers its arguments are. Nothing reads the note until a tracer attaches; then the kernel puts a breakpoint in place of the `nop`. So
//! a probe without a tracer costs a call of a function that does nothing. All probes stand where a thread queues up, serves a queued
//! thread, or recovers after a death: none is on a path that finds an object free. Each is a function that is never inlined: so there is
//! one place to look at, and no note can be left over from code which the linker has dropped.
//!
//! | probe | when | arguments |
//! |---|---|---|
//! | `wait` | a thread has queued up at an object; a choice does so at each of its arms | arena, object, index, member |
//! | `grant` | a waiter was given what it waits for, or told so | arena, object, index, member, permit |
//! | `wake` | a waiter that sleeps is woken | arena, member |
//! | `death` | a member was found dead, before what it held is given back; once for each thread that recovers it | arena, member, generation, pid |
//! | `redelivery` | a message is to be delivered once more, because its receiver died | arena, object, index, member, slot |
//!
//! `arena` and `object` are addresses of text in the arena, zero-padded, at most 47 bytes; both are empty for what is private to a process.
//! `index` is the object's slot, `member` that of the thread in the arena. The provider is `chappe`. The explorers have no probes.

/// Puts the probe here: its name, how its arguments are described (`8@` and the register), the arguments.
#[cfg(all(not(any(feature = "sim", feature = "loom")), any(target_arch = "x86_64", target_arch = "aarch64")))]
macro_rules! here {
    ($name:literal, $layout:literal, $($value:expr),+) => {{
        // SAFETY: one `nop`, which changes nothing; the note lies in a section of its own that is not loaded as code.
        unsafe {
            std::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt, \"?\", \"note\"",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                ".8byte _.stapsdt.base",
                // No counter of attached tracers: the arguments cost nothing to prepare.
                ".8byte 0",
                ".asciz \"chappe\"",
                concat!(".asciz \"", $name, "\""),
                concat!(".asciz \"", $layout, "\""),
                "994: .balign 4",
                ".popsection",
                // By this address tools find out how far the notes were moved by prelinking.
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                $(in(reg) $value,)+
                // The notes name registers as AT&T's assembler does.
                #[cfg(target_arch = "x86_64")]
                options(att_syntax),
                options(readonly, nostack, preserves_flags),
            );
        }
    }};
}

#[cfg(not(all(not(any(feature = "sim", feature = "loom")), any(target_arch = "x86_64", target_arch = "aarch64"))))]
macro_rules! here {
    ($name:literal, $layout:literal, $($value:expr),+) => {{
        let _ = ($($value),+);
    }};
}

/// Each probe: what it is called, how its arguments are described, what they are.
macro_rules! probe {
    ($(#[$doc:meta])* $name:ident, $text:literal, $layout:literal, $($arg:ident),+) => {
        $(#[$doc])*
        #[inline(never)]
        fn $name($($arg: u64),+) {
            here!($text, $layout, $($arg),+);
        }
    };
}

probe!(at_wait, "wait", "8@{0} 8@{1} 8@{2} 8@{3}", arena, object, index, member);
probe!(at_grant, "grant", "8@{0} 8@{1} 8@{2} 8@{3} 8@{4}", arena, object, index, member, permit);
probe!(at_wake, "wake", "8@{0} 8@{1}", arena, member);
probe!(at_death, "death", "8@{0} 8@{1} 8@{2} 8@{3}", arena, member, generation, pid);
probe!(at_redelivery, "redelivery", "8@{0} 8@{1} 8@{2} 8@{3} 8@{4}", arena, object, index, member, slot);

/// The address of a text.
#[inline(always)]
fn at<T>(text: &T) -> u64 {
    std::ptr::from_ref(text) as u64
}

/// A thread has queued up at an object. `arena` is the arena's name, `object` the object's: a byte with its length, and the name.
#[inline(always)]
pub fn wait<A, O>(arena: &A, object: &O, index: u32, member: u32) {
    at_wait(at(arena), at(object) + 1, index.into(), member.into());
}

/// A waiter was given what it waits for.
#[inline(always)]
pub fn grant<A, O>(arena: &A, object: &O, index: u32, member: u32, permit: u32) {
    at_grant(at(arena), at(object) + 1, index.into(), member.into(), permit.into());
}

/// A waiter that sleeps is woken.
#[inline(always)]
pub fn wake<A>(arena: &A, member: u32) {
    at_wake(at(arena), member.into());
}

/// A member was found dead. `pid` loads its process' number; the explorers, where that would be a step, do not.
#[inline(always)]
pub fn death<A>(arena: &A, member: u32, generation: u32, pid: impl FnOnce() -> u32) {
    let pid = if cfg!(any(feature = "sim", feature = "loom")) { 0 } else { pid() };
    at_death(at(arena), member.into(), generation.into(), pid.into());
}

/// A message is to be delivered once more.
#[inline(always)]
pub fn redelivery<A, O>(arena: &A, object: &O, index: u32, member: u32, slot: u32) {
    at_redelivery(at(arena), at(object) + 1, index.into(), member.into(), slot.into());
}
