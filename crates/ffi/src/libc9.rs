//! What programs for Plan 9's libthread use of its C library, as `include/chappe/libc9.h` has it: print and its verbs, the error string. The rest
//! are inline functions of the header.
//!
//! print(2): verbs d o x X b e E f g G c C s q p r %, flags `- + space # 0 , u h l ll`, width and precision, each of which may be `*`. What an
//! argument is, is asked of the header (`fetch`), since only C can look into a `va_list`.

use crate::libthread::task::error_text;
use std::ffi::{CStr, c_char, c_int, c_void};

/// An argument, as the header has it.
#[repr(C)]
pub union Argument {
    number: i64,
    float: f64,
    pointer: *const c_void,
}

/// Gets the next argument: of kind `i` (int), `l` (long), `v` (long long), `d` (double) or `p` (a pointer).
type Fetch = unsafe extern "C" fn(*mut c_void, c_int, *mut Argument);

/// errno after `werrstr`: no error of the system's.
const SAID: c_int = 0x9e44;

fn errno() -> &'static mut c_int {
    // SAFETY: the kernel thread's own.
    unsafe { &mut *libc::__errno_location() }
}

/// What `%r` prints.
fn error(errno: c_int) -> Vec<u8> {
    if errno == SAID {
        return error_text(|text| text.clone().into_bytes());
    }
    let mut text = [0; 256];
    // SAFETY: room for that many.
    unsafe { libc::strerror_r(errno, text.as_mut_ptr(), text.len()) };
    // SAFETY: it ends with a 0.
    unsafe { CStr::from_ptr(text.as_ptr()) }.to_bytes().to_vec()
}

#[derive(Default, Clone, Copy)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    sharp: bool,
    zero: bool,
    comma: bool,
    unsigned: bool,
    long: u8,
    short: u8,
    width: usize,
    precision: Option<usize>,
}

struct Arguments {
    fetch: Fetch,
    list: *mut c_void,
}

impl Arguments {
    fn next(&mut self, kind: u8) -> Argument {
        let mut argument = Argument { number: 0 };
        // SAFETY: the header's, of the caller's list.
        unsafe { (self.fetch)(self.list, kind.into(), &raw mut argument) };
        argument
    }

    fn number(&mut self, kind: u8) -> i64 {
        // SAFETY: as it was asked for.
        unsafe { self.next(kind).number }
    }

    fn string(&mut self) -> Option<Vec<u8>> {
        // SAFETY: as it was asked for.
        let at = unsafe { self.next(b'p').pointer };
        // SAFETY: the caller's string.
        (!at.is_null()).then(|| unsafe { CStr::from_ptr(at.cast()) }.to_bytes().to_vec())
    }
}

/// So many characters, not bytes, of a text.
fn count(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

fn pad(out: &mut Vec<u8>, text: &[u8], spec: Spec) {
    let space = spec.width.saturating_sub(count(text));
    if !spec.left {
        out.extend(std::iter::repeat_n(b' ', space));
    }
    out.extend_from_slice(text);
    if spec.left {
        out.extend(std::iter::repeat_n(b' ', space));
    }
}

fn integer(out: &mut Vec<u8>, verb: u8, spec: Spec, arguments: &mut Arguments) {
    let raw = arguments.number(match spec.long {
        0 => b'i',
        1 => b'l',
        _ => b'v',
    });
    let signed = verb == b'd' && !spec.unsigned;
    let bits = match (spec.short, spec.long) {
        (1, _) => 16,
        (2.., _) => 8,
        (0, 0) => 32,
        _ => 64,
    };
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let value = if signed { raw << (64 - bits) >> (64 - bits) } else { 0 };
    let magnitude = if signed { value.unsigned_abs() } else { raw as u64 & mask };
    let mut digits = match verb {
        b'o' => format!("{magnitude:o}"),
        b'x' => format!("{magnitude:x}"),
        b'X' => format!("{magnitude:X}"),
        b'b' => format!("{magnitude:b}"),
        _ => magnitude.to_string(),
    };
    if spec.comma {
        let (step, mark) = if verb == b'd' { (3, ',') } else { (4, ':') };
        let len = digits.len();
        let marked = |(at, digit)| {
            let marks = at > 0 && (len - at) % step == 0;
            marks.then_some(mark).into_iter().chain([digit])
        };
        digits = digits.chars().enumerate().flat_map(marked).collect();
    }
    let sign = match () {
        () if value < 0 => "-",
        () if spec.plus && signed => "+",
        () if spec.space && signed => " ",
        () => "",
    };
    let base = match verb {
        b'x' if spec.sharp => "0x",
        b'X' if spec.sharp => "0X",
        b'o' if spec.sharp => "0",
        _ => "",
    };
    let least = match spec.precision {
        Some(precision) => precision,
        None if spec.zero && !spec.left => spec.width.saturating_sub(sign.len() + base.len()),
        None => 0,
    };
    let zeros = "0".repeat(least.saturating_sub(digits.len()));
    pad(out, format!("{sign}{base}{zeros}{digits}").as_bytes(), spec);
}

fn float(out: &mut Vec<u8>, verb: u8, spec: Spec, value: f64) {
    let mut how = String::from("%");
    for (flag, letter) in [(spec.left, '-'), (spec.plus, '+'), (spec.space, ' '), (spec.sharp, '#'), (spec.zero, '0')] {
        if flag {
            how.push(letter);
        }
    }
    how.push_str("*.*");
    how.push(verb as char);
    how.push('\0');
    let (width, precision) = (spec.width as c_int, spec.precision.map_or(6, |precision| precision as c_int));
    let mut text = vec![0u8; 512 + spec.width + spec.precision.unwrap_or(0)];
    // SAFETY: room for that many; the format has two ints and a double.
    let len =
        unsafe { libc::snprintf(text.as_mut_ptr().cast(), text.len(), how.as_ptr().cast(), width, precision, value) };
    text.truncate(usize::try_from(len).unwrap_or(0));
    out.extend_from_slice(&text);
}

/// As rc(1) reads it.
fn quoted(text: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./-+:,@%".contains(byte) || *byte >= 0x80;
    if !text.is_empty() && text.iter().all(plain) {
        return text.to_vec();
    }
    let mut out = vec![b'\''];
    for byte in text {
        out.extend(std::iter::repeat_n(*byte, if *byte == b'\'' { 2 } else { 1 }));
    }
    out.push(b'\'');
    out
}

fn string(out: &mut Vec<u8>, text: &[u8], spec: Spec) {
    let most = spec.precision.unwrap_or(usize::MAX);
    let starts = text.iter().enumerate().filter(|(_, byte)| **byte & 0xc0 != 0x80).map(|(at, _)| at);
    let end = starts.take(most.saturating_add(1)).nth(most).unwrap_or(text.len());
    pad(out, &text[..end], spec);
}

fn format(format: &[u8], arguments: &mut Arguments, error_number: c_int) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        out.extend_from_slice(&rest[..at]);
        let whole = &rest[at..];
        rest = &rest[at + 1..];
        let mut spec = Spec::default();
        loop {
            let Some((&letter, after)) = rest.split_first() else {
                out.extend_from_slice(whole);
                return out;
            };
            rest = after;
            match letter {
                b'-' => spec.left = true,
                b'+' => spec.plus = true,
                b' ' => spec.space = true,
                b'#' => spec.sharp = true,
                b'0' => spec.zero = true,
                b',' => spec.comma = true,
                b'u' => spec.unsigned = true,
                b'l' => spec.long += 1,
                b'h' => spec.short += 1,
                b'1'..=b'9' | b'*' | b'.' => {
                    let point = letter == b'.';
                    if !point {
                        // The first digit, or the star, belongs to the number.
                        rest = &whole[whole.len() - rest.len() - 1..];
                    }
                    let number = if rest.first() == Some(&b'*') {
                        rest = &rest[1..];
                        arguments.number(b'i')
                    } else {
                        let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                        let digits = std::str::from_utf8(&rest[..len]).unwrap_or_default();
                        rest = &rest[len..];
                        digits.parse().unwrap_or(0)
                    };
                    if point {
                        spec.precision = usize::try_from(number).ok();
                    } else {
                        spec.left |= number < 0;
                        spec.width = usize::try_from(number.unsigned_abs()).unwrap_or(0).min(1 << 16);
                    }
                }
                b'd' | b'o' | b'x' | b'X' | b'b' => break integer(&mut out, letter, spec, arguments),
                b'e' | b'E' | b'f' | b'g' | b'G' => {
                    // SAFETY: as it was asked for.
                    let value = unsafe { arguments.next(b'd').float };
                    break float(&mut out, letter, spec, value);
                }
                b'c' | b'C' => {
                    let letter = u32::try_from(arguments.number(b'i')).ok().and_then(char::from_u32);
                    let mut place = [0; 4];
                    break pad(&mut out, letter.unwrap_or('\u{fffd}').encode_utf8(&mut place).as_bytes(), spec);
                }
                b's' => {
                    let text = arguments.string().unwrap_or_else(|| b"<nil>".to_vec());
                    break string(&mut out, &text, spec);
                }
                b'q' => {
                    let text = quoted(&arguments.string().unwrap_or_default());
                    break string(&mut out, &text, spec);
                }
                b'p' => {
                    // SAFETY: as it was asked for.
                    let at = unsafe { arguments.next(b'p').pointer };
                    break pad(&mut out, format!("{:#x}", at as usize).as_bytes(), spec);
                }
                b'r' => break string(&mut out, &error(error_number), spec),
                b'%' => break out.push(b'%'),
                _ => break out.extend_from_slice(&whole[..whole.len() - rest.len()]),
            }
        }
    }
    out.extend_from_slice(rest);
    out
}

/// What print(2) makes of a format and its arguments, in memory of malloc's; NULL: there is none. errno stays.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_vsmprint(text: *const c_char, fetch: Option<Fetch>, list: *mut c_void) -> *mut c_char {
    let (Some(fetch), false) = (fetch, text.is_null()) else { return std::ptr::null_mut() };
    let before = *errno();
    // SAFETY: the caller's string.
    let text = unsafe { CStr::from_ptr(text) }.to_bytes();
    let made = format(text, &mut Arguments { fetch, list }, before);
    // SAFETY: a block with room for the text and its end.
    let at = unsafe {
        let at: *mut u8 = libc::malloc(made.len() + 1).cast();
        if !at.is_null() {
            at.copy_from_nonoverlapping(made.as_ptr(), made.len());
            at.add(made.len()).write(0);
        }
        at
    };
    *errno() = before;
    at.cast()
}

/// `werrstr`, with the text as it is to be.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_werrstr(text: *const c_char) {
    let new = crate::libthread::text(text).into_owned();
    error_text(|text| *text = new);
    *errno() = SAID;
}

/// `nsec`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_nsec() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(i64::MAX))
}

/// `sleep`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_sleep(ms: std::ffi::c_long) -> c_int {
    let time = libc::timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 };
    // SAFETY: a valid place.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) }
}
