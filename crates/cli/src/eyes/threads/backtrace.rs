//! The stacks of light threads of another process, by symbols.
//!
//! A thread that is not running has left its stack pointer in its record, and three words on its stack: from these the frames are walked by the unwind
//! tables of the files that the process has mapped, as a debugger does. The process may be stopped.

use super::read::Frame;
use addr2line::Loader;
use chappe::thread::image::{Image, Seen};
use framehop::{
    CacheNative, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module, UnwindRegsNative,
    Unwinder as _, UnwinderNative,
};
use object::{Object as _, ObjectSection as _, ObjectSegment as _};
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

/// At most so many frames.
const MOST: usize = 200;

/// A file that the process has mapped.
struct File {
    range: Range<u64>,
    /// Add to an address of the process: one of the file.
    shift: u64,
    symbols: Option<Loader>,
}

/// Walks stacks.
pub struct Walker {
    unwinder: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    files: Vec<File>,
}

/// The files that a process has, or had, mapped as code: from where to where, and where the first byte lies.
fn mapped(image: &Image) -> Vec<(PathBuf, Range<u64>, u64)> {
    match image.mapped() {
        Some(files) => files.iter().map(|file| (file.path.clone(), file.range.clone(), file.begin)).collect(),
        None => mapped_now(image.pid()),
    }
}

fn mapped_now(pid: u32) -> Vec<(PathBuf, Range<u64>, u64)> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut all: HashMap<&str, (Range<u64>, u64, bool)> = HashMap::new();
    for line in maps.lines() {
        let mut words = line.splitn(6, ' ');
        let (Some(range), Some(rights), Some(offset)) = (words.next(), words.next(), words.next()) else { continue };
        let Some(path) = words.nth(2).map(str::trim).filter(|path| path.starts_with('/')) else { continue };
        let number = |hex: &str| u64::from_str_radix(hex, 16).ok();
        let Some((from, to)) = range.split_once('-').and_then(|(a, b)| Some((number(a)?, number(b)?))) else {
            continue;
        };
        let begin = from.wrapping_sub(number(offset).unwrap_or(0));
        let entry = all.entry(path).or_insert((from..to, begin, false));
        entry.0 = entry.0.start.min(from)..entry.0.end.max(to);
        entry.1 = entry.1.min(begin);
        entry.2 |= rights.contains('x');
    }
    let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let file = |path: &str| {
        // The program itself also if it was replaced since.
        if exe.as_os_str() == path {
            format!("/proc/{pid}/exe").into()
        } else {
            format!("/proc/{pid}/root{path}").into()
        }
    };
    all.into_iter().filter(|(_, m)| m.2).map(|(path, (range, begin, _))| (file(path), range, begin)).collect()
}

impl Walker {
    /// For the process as it is now.
    pub fn of(image: &Image) -> Walker {
        let mut walker = Walker { unwinder: UnwinderNative::new(), cache: CacheNative::new(), files: Vec::new() };
        for (path, range, begin) in mapped(image) {
            let Ok(bytes) = std::fs::read(&path) else { continue };
            let Ok(elf) = object::File::parse(&*bytes) else { continue };
            let base = elf.segments().map(|s| s.address()).min().unwrap_or(0);
            let base = base & !0xfff;
            let section = |name: &str| elf.section_by_name(name);
            let place = |name: &str| section(name).map(|s| s.address()..s.address() + s.size());
            let data = |name: &str| section(name).and_then(|s| s.data().ok()).map(<[u8]>::to_vec);
            let info = ExplicitModuleSectionInfo {
                base_svma: base,
                text_svma: place(".text"),
                text: data(".text"),
                got_svma: place(".got"),
                eh_frame_svma: place(".eh_frame"),
                eh_frame: data(".eh_frame"),
                eh_frame_hdr_svma: place(".eh_frame_hdr"),
                eh_frame_hdr: data(".eh_frame_hdr"),
                debug_frame: data(".debug_frame"),
                ..Default::default()
            };
            let name = path.display().to_string();
            walker.unwinder.add_module(Module::new(name, range.clone(), begin, info));
            walker.files.push(File { range, shift: base.wrapping_sub(begin), symbols: Loader::new(&path).ok() });
        }
        walker
    }

    /// The frames of a thread, the innermost first; none if it is running.
    pub fn frames(&mut self, image: &Image, thread: &Seen) -> Vec<Frame> {
        let Ok(Some(context)) = image.context(thread) else { return Vec::new() };
        #[cfg(target_arch = "x86_64")]
        let registers = UnwindRegsNative::new(context.ip, context.sp, context.fp);
        #[cfg(target_arch = "aarch64")]
        let registers = UnwindRegsNative::new(0, context.sp, context.fp);
        let mut read = |at: u64| {
            let mut word = [0; 8];
            image.read(at, &mut word).map(|()| u64::from_le_bytes(word)).map_err(drop)
        };
        let mut addresses = Vec::new();
        let mut frames = self.unwinder.iter_frames(context.ip, registers, &mut self.cache, &mut read);
        while let Ok(Some(frame)) = frames.next() {
            addresses.push(frame);
            if addresses.len() == MOST {
                break;
            }
        }
        addresses.into_iter().flat_map(|address| self.named(address)).collect()
    }

    /// An address in words: one frame, or several that were put into one.
    fn named(&self, address: FrameAddress) -> Vec<Frame> {
        let (at, look) = (address.address(), address.address_for_lookup());
        let unknown = || vec![Frame { at, function: None, place: None }];
        let Some(file) = self.files.iter().find(|file| file.range.contains(&look)) else { return unknown() };
        let Some(symbols) = &file.symbols else { return unknown() };
        let probe = look.wrapping_add(file.shift);
        let mut all = Vec::new();
        if let Ok(mut frames) = symbols.find_frames(probe) {
            while let Ok(Some(frame)) = frames.next() {
                let function =
                    frame.function.as_ref().and_then(|f| f.demangle().ok()).map(std::borrow::Cow::into_owned);
                let place = frame.location.as_ref().and_then(|l| Some(format!("{}:{}", l.file?, l.line?)));
                all.push(Frame { at, function, place });
            }
        }
        if all.iter().all(|frame| frame.function.is_none()) {
            let symbol =
                symbols.find_symbol(probe).map(|name| addr2line::demangle_auto(name.into(), None).into_owned());
            all = vec![Frame { at, function: symbol, place: None }];
        }
        all
    }
}
