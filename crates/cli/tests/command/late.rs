//! What a program that loads our code late needs of it.

/// libchappe, the package of Python and the shim for POSIX semaphores are loaded late by some: then all thread-locals of a library lie in what the C
/// library keeps for such ones, some 1,600 bytes for all together (see `tls` in plat). One that has more cannot be loaded at all. The command
/// has all there is in any of them.
#[test]
fn thread_locals_have_room_in_a_library_that_is_loaded_late() {
    const TLS: u32 = 7;
    let elf = std::fs::read(env!("CARGO_BIN_EXE_chappe")).unwrap();
    let half = |at: usize| u16::from_le_bytes(elf[at..at + 2].try_into().unwrap()) as usize;
    let word = |at: usize| u32::from_le_bytes(elf[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from_le_bytes(elf[at..at + 8].try_into().unwrap());
    assert_eq!(&elf[..5], b"\x7fELF\x02", "64 bits");
    let (headers, each, count) = (long(0x20) as usize, half(0x36), half(0x38));
    let segments = (0..count).map(|at| headers + at * each).filter(|at| word(*at) == TLS);
    let bytes: u64 = segments.map(|at| long(at + 0x28)).sum();
    assert!((1..=1_024).contains(&bytes), "{bytes} bytes of thread-locals");
}
