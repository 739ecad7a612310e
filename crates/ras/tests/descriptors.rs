//! What the kernel and debuggers read of each section, as it lies in this program.

#![cfg(all(not(feature = "sim"), any(target_arch = "x86_64", target_arch = "aarch64")))]

use chappe_ras::{Counter, FreeList, Index, PairCounter};

/// The kernel's `struct rseq_cs`.
#[repr(C, align(32))]
struct Descriptor {
    version: u32,
    flags: u32,
    start: *const u8,
    length: u64,
    abort: *const u8,
}

// SAFETY: the linker names both ends of a section whose name is a C identifier.
unsafe extern "C" {
    #[link_name = "__start___rseq_cs_ptr_array"]
    safe static FIRST: [&'static Descriptor; 0];
    #[link_name = "__stop___rseq_cs_ptr_array"]
    safe static END: [&'static Descriptor; 0];
    #[link_name = "__start___rseq_exit_point_array"]
    safe static FIRST_EXIT: [[*const u8; 2]; 0];
    #[link_name = "__stop___rseq_exit_point_array"]
    safe static END_EXIT: [[*const u8; 2]; 0];
}

fn all<T>(first: &'static [T; 0], end: &'static [T; 0]) -> &'static [T] {
    let (first, end) = (first.as_ptr(), end.as_ptr());
    // SAFETY: the linker has put all of them between the two.
    unsafe { std::slice::from_raw_parts(first, (end as usize - first as usize) / size_of::<T>()) }
}

/// Six operations' sections are part of this program.
fn use_some() {
    let (counter, pair) = (Counter::new(Index::Cpu), PairCounter::new(Index::Cpu));
    counter.add(1);
    pair.add(1, 1);
    assert_eq!((counter.drain(), pair.sum()), (Ok(1), (1, 1)));
    assert!(FreeList::new(Index::Cpu, 1, || ()).take().is_some());
}

fn bytes(at: *const u8, back: usize) -> &'static [u8] {
    // SAFETY: code of this program, in front of which there is more.
    unsafe { std::slice::from_raw_parts(at.sub(back), back) }
}

/// Whether the instruction that ends there stores to the area's word for descriptors.
#[cfg(target_arch = "x86_64")]
fn arms(start: *const u8) -> bool {
    // fs, REX.W, mov, the operands' byte, with r12 one more, and the distance.
    let is = |code: &[u8]| code[0] == 0x64 && code[1] & 0xf8 == 0x48 && code[2] == 0x89 && code[code.len() - 1] == 8;
    // The self-test's has the area's address in hand.
    let by_address = |code: &[u8]| code[0] & 0xf8 == 0x48 && code[1] == 0x89 && code[3] == 8;
    is(bytes(start, 5)) || is(bytes(start, 6)) || by_address(bytes(start, 4))
}

#[cfg(target_arch = "aarch64")]
fn arms(start: *const u8) -> bool {
    // str xT, [xN, #8]
    u32::from_le_bytes(bytes(start, 4).try_into().expect("four")) & 0xffff_fc00 == 0xf900_0400
}

#[test]
fn each_section_begins_right_behind_what_arms_it_and_ends_where_its_descriptor_says() {
    use_some();
    let (sections, exits) = (all(&FIRST, &END), all(&FIRST_EXIT, &END_EXIT));
    assert!(sections.len() >= 6, "{}", sections.len());
    for d in sections {
        assert_eq!((d.version, d.flags, std::ptr::from_ref(*d).addr() % 32), (0, 0, 0));
        assert!((8..2048).contains(&d.length), "{}", d.length);
        assert!(arms(d.start), "between arming and the first instruction there is another: {:x?}", bytes(d.start, 12));
        assert_eq!(bytes(d.abort, 4), chappe_plat::rseq::SIGNATURE.to_le_bytes());
        let outside = !(d.start.addr()..d.start.addr() + d.length as usize).contains(&d.abort.addr());
        assert!(outside, "the abort address must not be within");
    }
    assert!(exits.len() >= sections.len());
    for [start, exit] in exits {
        let d = sections.iter().find(|d| d.start == *start).expect("each exit is a section's");
        assert!(!(start.addr()..start.addr() + d.length as usize).contains(&exit.addr()));
    }
}

#[test]
fn each_section_has_a_symbol_that_debuggers_and_profilers_show() {
    use_some();
    let Ok(symbols) = std::process::Command::new("nm").arg(std::env::current_exe().expect("it is known")).output()
    else {
        println!("not tested: each_section_has_a_symbol_that_debuggers_and_profilers_show: there is no nm here");
        return;
    };
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    for name in ["add", "fetch", "add_two", "push", "pop", "compare_store"] {
        assert!(symbols.contains(&format!(" chappe_ras_{name}_1\n")), "{name}");
    }
}
