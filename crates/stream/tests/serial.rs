//! Serial lines, on pseudo-terminals: what the other end wrote comes, what is written goes out at the line's rate, and a line that goes away is
//! told, or waited for.

use crate::patience::{WATCHDOG, ended, until};
use chappe_stream::{Graph, Lost, Running};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The device's side of a line, and the name of ours. A descriptor of ours is kept, so that the line does not hang up between two programs.
pub struct Device {
    pub outer: File,
    pub name: String,
    inner: OwnedFd,
}

impl Device {
    pub fn new() -> Device {
        let (mut outer, mut inner) = (-1, -1);
        let mut name = [0u8; 64];
        // SAFETY: both point to a number each, the name has room; raw settings from the begin, so that no byte comes back as an echo.
        unsafe {
            let mut raw: libc::termios = std::mem::zeroed();
            libc::cfmakeraw(&mut raw);
            raw.c_cc[libc::VMIN] = 1;
            assert_eq!(libc::openpty(&mut outer, &mut inner, name.as_mut_ptr().cast(), &raw, std::ptr::null()), 0);
        }
        let name = String::from_utf8(name.iter().copied().take_while(|b| *b != 0).collect()).unwrap();
        // SAFETY: they were opened just now, and are nobody else's.
        unsafe { Device { outer: File::from_raw_fd(outer), name, inner: OwnedFd::from_raw_fd(inner) } }
    }

    fn speed(&self) -> u32 {
        // SAFETY: numbers, and a place for them.
        unsafe {
            let mut now: libc::termios2 = std::mem::zeroed();
            assert_eq!(libc::ioctl(self.inner.as_raw_fd(), libc::TCGETS2, &raw mut now), 0);
            now.c_ospeed
        }
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn quoted(path: &Path) -> String {
    format!("{:?}", path.display().to_string())
}

#[test]
fn every_byte_that_a_device_sends_comes() {
    let dir = tempfile::tempdir().unwrap();
    let (out, mut device) = (dir.path().join("out"), Device::new());
    let text = format!("serial {:?} 19200 parity=even stop=2 | take 3000 | file {}", device.name, quoted(&out));
    let graph = Graph::new(&text).unwrap();
    assert_ne!(device.speed(), 19_200, "it is as it was until the graph begins");
    let running = graph.run().unwrap();
    assert_eq!(device.speed(), 19_200);
    device.outer.write_all(&bytes(3000)).unwrap();
    let report = ended(running).unwrap();
    assert!(std::fs::read(&out).unwrap() == bytes(3000));
    assert_eq!(report.node("serial").unwrap().says.as_deref(), Some("3000 bytes"));
    assert_ne!(device.speed(), 19_200, "and as it was behind its end");
}

#[test]
fn bytes_go_at_the_rate_of_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let (from, device) = (dir.path().join("in"), Device::new());
    std::fs::write(&from, bytes(2304)).unwrap();
    let mut outer = device.outer.try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut all = vec![0; 2304];
        outer.read_exact(&mut all).unwrap();
        all
    });
    let began = Instant::now();
    let running =
        Graph::new(&format!("file {} | serial {:?} 115200", quoted(&from), device.name)).unwrap().run().unwrap();
    // Behind its end, so that nobody reads for ever what a graph that has failed does not write.
    let report = ended(running).unwrap();
    assert!(reader.join().unwrap() == bytes(2304));
    // 2,304 bytes of ten bits each; a pseudo-terminal would take them at once.
    assert!(began.elapsed() >= Duration::from_millis(199), "{:?}", began.elapsed());
    assert_eq!((report.dropped(), report.node("serial").unwrap().says.as_deref()), (0, Some("2304 bytes")));
}

#[test]
fn a_line_that_goes_away_is_told_or_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let (name, out) = (dir.path().join("line"), dir.path().join("out"));
    let plugged = || {
        let device = Device::new();
        let link = dir.path().join("new");
        std::os::unix::fs::symlink(&device.name, &link).unwrap();
        std::fs::rename(link, &name).unwrap();
        device
    };
    let device = plugged();
    let running = Graph::new(&format!("serial {} | file {}", quoted(&name), quoted(&out))).unwrap().run().unwrap();
    drop(device);
    let why = ended(running).unwrap_err().to_string();
    assert!(why.contains("has gone after 0 bytes: `lost=wait` waits for it"), "{why}");
    // The same, waited for: what each of two devices sends.
    let has = |count: u64, running: &Running| {
        until("bytes come", || running.report().node("count").unwrap().counts.elements >= count);
    };
    let mut device = plugged();
    let text = format!("serial {} lost=wait | take 200 | count | file {}", quoted(&name), quoted(&out));
    let running = Graph::new(&text).unwrap().run().unwrap();
    let (tell, told) = channel();
    running.on_lost(move |label, what| tell.send((label.to_owned(), what)).unwrap());
    device.outer.write_all(&bytes(100)).unwrap();
    has(100, &running);
    drop(device);
    // Told when it goes, and not when it is back.
    assert_eq!(told.recv_timeout(WATCHDOG).unwrap(), ("serial".to_owned(), Lost::Gone));
    device = plugged();
    assert!(matches!(told.recv_timeout(WATCHDOG).unwrap(), (_, Lost::Back(away)) if away > 0.0));
    device.outer.write_all(&bytes(200)[100..]).unwrap();
    let report = ended(running).unwrap();
    assert!(std::fs::read(&out).unwrap() == bytes(200));
    let says = report.node("serial").unwrap().says.clone().unwrap();
    assert!(says.starts_with("200 bytes, 1 times lost, for "), "{says}");
}

#[test]
fn the_example_of_a_serial_line_makes_a_table_of_what_it_hears() {
    let dir = tempfile::tempdir().unwrap();
    let (out, mut device) = (dir.path().join("high.csv"), Device::new());
    let text = include_str!("../../../examples/graphs/serial.graph");
    let text = text.replace("\"/dev/ttyUSB0\"", &format!("{:?}", device.name)).replace("\"high.csv\"", &quoted(&out));
    let running = Graph::new(&text).unwrap().run().unwrap();
    device.outer.write_all(b"1 3.2\n2 3.5\n3 5\n4 0.1\n").unwrap();
    until("lines come", || running.report().node("serial").unwrap().counts.elements >= 22);
    running.stop();
    assert_eq!(ended(running).unwrap().dropped(), 0);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "at,volts\n2,3.5\n3,5.0\n");
}

#[test]
fn a_stop_ends_a_line_on_which_nothing_happens() {
    let device = Device::new();
    let running = Graph::new(&format!("serial {:?} | null", device.name)).unwrap().run().unwrap();
    running.stop();
    ended(running).unwrap();
}

#[test]
fn a_device_that_is_no_free_serial_line_is_refused() {
    let failed = |text: &str| match Graph::new(text) {
        Err(wrong) => wrong.to_string(),
        Ok(graph) => graph.run().unwrap_err().to_string(),
    };
    let device = Device::new();
    for (text, why) in [
        ("serial \"/dev/no-such-line\" | null".to_owned(), "there is no serial line /dev/no-such-line: No such file"),
        ("serial \"/dev\" | null".to_owned(), "/dev is no device, so no serial line"),
        (
            "serial \"/dev/null\" | null".to_owned(),
            "cannot use the serial line /dev/null at 115200 baud: it is no serial line",
        ),
        (format!("serial {:?} 10 | null", device.name), "`baud` of `serial` is 10, and must be from 50 to 4000000"),
        (format!("serial {:?} bits=9 | null", device.name), "must be from 5 to 8"),
        (format!("sine 440 | serial {:?}", device.name), "`serial` takes bytes or lines, and this is f32"),
    ] {
        let said = failed(&text);
        assert!(said.contains(why), "{text}: {said}");
    }
    let other = File::open(&device.name).unwrap();
    other.lock().unwrap();
    assert!(failed(&format!("serial {:?} | null", device.name)).contains("another program has it"));
    drop(other);
    // Neither looked at nor used: `Graph::new` opens no line.
    let before = device.speed();
    Graph::new(&format!("serial {:?} 9600 | null", device.name)).unwrap();
    assert_eq!(device.speed(), before);
}

/// How long the kernel has let the graph's threads wait for a processor, as `/proc` counts it: a wait is added when it ends.
#[derive(Default)]
struct Waits {
    /// By its thread, nanoseconds.
    seen: HashMap<String, u64>,
    /// The sum of those that were longer than a limit.
    long: u64,
}

impl Waits {
    fn look(&mut self, limit: u64) {
        for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
            let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let Some(now) = read("schedstat").split(' ').nth(1).and_then(|n| n.parse().ok()) else { continue };
            let before = self.seen.entry(task.file_name().into_string().unwrap()).or_insert(now);
            let waited = now - std::mem::replace(before, now);
            if waited > limit && read("comm").starts_with("chappe") {
                self.long += waited;
            }
        }
    }
}

/// A device that sends on a timer, waits for nobody, and counts what found no room. How many bytes were refused, and for how many seconds threads of the
/// graph waited each for longer than a third of what fills the kernel's 4 KiB: a byte goes through two of them at most.
fn sent_on_a_timer(device: &mut Device, rate: f64, all: &[u8]) -> (usize, f64) {
    // SAFETY: plain calls on our descriptor.
    unsafe {
        let fd = device.outer.as_raw_fd();
        assert_eq!(libc::fcntl(fd, libc::F_SETFL, libc::fcntl(fd, libc::F_GETFL) | libc::O_NONBLOCK), 0);
    }
    let (mut last, mut sent, mut refused, mut waits) = (Instant::now(), 0, 0, Waits::default());
    while sent < all.len() {
        std::thread::sleep(Duration::from_millis(1));
        // Where this thread did not run, the device did not either: what a line brings in ten milliseconds is the most that comes at once.
        let due = (last.elapsed().as_secs_f64().min(0.01) * rate) as usize;
        last = Instant::now();
        let part = &all[sent..(sent + due).min(all.len())];
        refused += part.len() - device.outer.write(part).unwrap_or(0);
        sent += part.len();
        waits.look((4096.0 / rate * 1e9 / 3.0) as u64);
    }
    (refused, waits.long as f64 / 1e9)
}

#[test]
#[ignore = "storm: eight hogs, seconds of each rate"]
fn no_rate_loses_a_byte_under_eight_hogs() {
    use std::sync::atomic::{AtomicBool, Ordering};
    static OVER: AtomicBool = AtomicBool::new(false);
    // Relaxed: a hog that goes round once more does no harm.
    let hogs: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(|| {
                while !OVER.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    let dir = tempfile::tempdir().unwrap();
    for baud in [19_200, 57_600, 115_200, 230_400, 460_800, 921_600] {
        let (out, mut device) = (dir.path().join("out"), Device::new());
        let all = bytes(baud as usize / 10 * 3);
        let text = format!("serial {:?} {baud} | take {} | file {}", device.name, all.len(), quoted(&out));
        let running = Graph::new(&text).unwrap().run().unwrap();
        let rate = f64::from(baud) / 10.0;
        let (refused, waited) = sent_on_a_timer(&mut device, rate, &all);
        println!("{baud} baud: {refused} of {} bytes refused; threads waited for {waited:.3} s too long", all.len());
        // What came while the machine ran none of them is not the stage's loss.
        assert!(refused as f64 <= rate * waited, "{baud} baud: {refused}");
        running.stop();
        ended(running).unwrap();
        assert!(refused > 0 || std::fs::read(&out).unwrap() == all, "{baud} baud");
    }
    // Relaxed: as above.
    OVER.store(true, Ordering::Relaxed);
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
}
