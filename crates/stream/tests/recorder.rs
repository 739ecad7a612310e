//! A network recorder: `packets` to a capture file and to a named tube, on frames that are sent here, in a network of this test's own.
//!
//! Such a network needs CAP_SYS_ADMIN; a test that has none says so, and passes.

use chappe_plat::packets::Link;
use chappe_stream::node::packets::{each, whole};
use chappe_stream::{Block, Body, Fault, Graph, Kind, Kinds, Options, Out, Plan, Stage, run};
use chappe_sync::tube::named::{Tube, TubeOptions};
use std::ffi::CString;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A protocol that is kept for such things, so that nothing else sends it.
const KIND: [u8; 2] = [0x88, 0xb5];

/// Runs something on a thread of its own, in a network of its own; says so if it may not.
fn alone(test: impl FnOnce() + Send + 'static) {
    let ran = std::thread::spawn(move || {
        // SAFETY: touches no memory; this thread alone goes to another network, and ends.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            println!("skipped: a network of its own needs CAP_SYS_ADMIN: {}", io::Error::last_os_error());
            return;
        }
        test();
    });
    ran.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn number(name: &str) -> i32 {
    let name = CString::new(name).unwrap();
    // SAFETY: the name is a text.
    unsafe { libc::if_nametoindex(name.as_ptr()) as i32 }
}

/// Sends frames through an interface.
struct Sends {
    fd: i32,
    at: libc::sockaddr_ll,
}

impl Sends {
    fn through(name: &str) -> Sends {
        // SAFETY: touches no memory of ours.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: a plain struct of numbers.
        let mut at: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        (at.sll_family, at.sll_ifindex, at.sll_halen) = (libc::AF_PACKET as u16, number(name), 6);
        Sends { fd, at }
    }

    fn send(&self, frame: &[u8]) {
        let length = size_of_val(&self.at) as libc::socklen_t;
        // SAFETY: the frame and the address live through the call.
        let sent = unsafe {
            libc::sendto(self.fd, frame.as_ptr().cast(), frame.len(), 0, (&raw const self.at).cast(), length)
        };
        assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
    }
}

impl Drop for Sends {
    fn drop(&mut self) {
        // SAFETY: it is ours.
        unsafe { libc::close(self.fd) };
    }
}

/// Lets `lo` of the own network go.
fn up() {
    // SAFETY: a plain struct of numbers; the socket is closed below.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let mut request: libc::ifreq = std::mem::zeroed();
        (request.ifr_name[0], request.ifr_name[1]) = (b'l' as libc::c_char, b'o' as libc::c_char);
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        assert_eq!(libc::ioctl(fd, libc::SIOCSIFFLAGS, &raw const request), 0, "{}", io::Error::last_os_error());
        libc::close(fd);
    }
}

/// The n-th frame: of a length of its own, every seventh with a VLAN tag.
fn frame(n: u32, least: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if n.is_multiple_of(7) {
        frame.extend([0x81, 0x00, 0x00, 42]);
    }
    frame.extend(KIND);
    frame.extend(n.to_le_bytes());
    frame.resize(least + (n as usize * 37) % 900, n as u8);
    frame
}

fn packets(file: &Path) -> Vec<(u64, Vec<u8>)> {
    let bytes = std::fs::read(file).unwrap();
    each(&bytes[24..]).map(|one| (one.at, one.bytes.to_vec())).collect()
}

#[test]
fn each_packet_is_in_the_file_and_in_the_tube_bit_for_bit() {
    alone(|| {
        up();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("p.pcap");
        let tube = format!("test-recorder-{}/packets", std::process::id());
        let options = TubeOptions { slots: 128, size: 2048, ..TubeOptions::default() };
        let heard = Tube::<[u8]>::create(&tube, &options).and_then(|t| t.receiver()).unwrap();
        let example = format!("{}/../../examples/graphs/recorder.graph", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(example).unwrap();
        let named = [("\"eth0\"", "\"lo\" count=100".to_owned()), ("\"packets\"", format!("{tube:?}"))];
        let text = named.iter().fold(text, |text, (name, ours)| text.replace(name, ours));
        let text = text.replace("\"eth0.pcap\"", &format!("{:?}", file.display().to_string()));
        let running = Graph::new(&text).unwrap().run().unwrap();
        let frames: Vec<Vec<u8>> = (0..100).map(|n| frame(n, 60)).collect();
        let sends = Sends::through("lo");
        frames.iter().for_each(|f| sends.send(f));
        let report = running.wait().unwrap();
        assert_eq!(report.dropped(), 0, "{report:?}");
        let kept = packets(&file);
        assert_eq!(kept.iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(), frames.iter().collect::<Vec<_>>());
        assert!(kept.is_sorted_by_key(|(at, _)| *at));
        for bytes in &frames {
            let message = heard.recv().unwrap();
            assert_eq!((whole(&message), &each(&message).next().unwrap().bytes.to_vec()), (message.len(), bytes));
        }
        // The file read, cut to what a tube has room for, and printed.
        let cut = format!("test-recorder-{}/cut", std::process::id());
        let heard = Tube::<[u8]>::create(&cut, &TubeOptions { slots: 128, size: 64, ..options });
        let heard = heard.and_then(|t| t.receiver()).unwrap();
        let report = run(&format!("pcap {:?} | c: count | tube {cut:?}", file.display())).unwrap();
        assert_eq!(report.node("c").unwrap().says.as_deref(), Some("100 packets"));
        let message = heard.recv().unwrap();
        let one = each(&message).next().unwrap();
        assert_eq!((one.bytes, one.length as usize), (&frames[0][..48], frames[0].len()));
        chappe_sync::Arena::remove(tube.split('/').next().unwrap(), true).unwrap();
    });
}

#[test]
fn packets_without_room_are_counted_and_the_rest_kept() {
    /// Takes nothing while the gate is closed.
    struct Waits(Arc<Mutex<()>>, Arc<Mutex<u64>>);
    impl Stage for Waits {
        fn put(&mut self, mut block: Block, _: &mut dyn Out) -> Result<(), Fault> {
            drop(self.0.lock().unwrap());
            *self.1.lock().unwrap() += each(block.octets()).count() as u64;
            Ok(())
        }
    }
    alone(|| {
        up();
        let (gate, kept) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(0)));
        let mut kinds = Kinds::standard();
        let (waits_at, counts) = (Arc::clone(&gate), Arc::clone(&kept));
        kinds.add(Kind::new("waits", "", "", move |_| {
            let both = (Arc::clone(&waits_at), Arc::clone(&counts));
            Ok(Plan::sink(move || Ok(Body::Stage(Box::new(Waits(both.0, both.1))))))
        }));
        let options = Options { kinds, ..Options::default() };
        let closed = gate.lock().unwrap();
        let running = Graph::with("p: packets \"lo\" buffer=4096 | waits", options).unwrap().run().unwrap();
        let sends = Sends::through("lo");
        (0..500).for_each(|n| sends.send(&frame(n, 1000)));
        drop(closed);
        let told = |running: &chappe_stream::Running| running.report().node("p").unwrap().counts.dropped;
        let began = Instant::now();
        while *kept.lock().unwrap() + told(&running) < 500 && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(10));
        }
        running.stop();
        let report = running.wait().unwrap();
        let (kept, dropped) = (*kept.lock().unwrap(), report.node("p").unwrap().counts.dropped);
        assert_eq!(kept + dropped, 500);
        assert!(dropped > 0 && kept > 0, "{kept} {dropped}");
    });
}

#[test]
fn an_interface_that_is_down_missing_or_goes_away_is_said_to_be() {
    alone(|| {
        let said = |text: &str| match Graph::new(text) {
            Ok(graph) => graph.run().unwrap_err().to_string(),
            Err(why) => why.to_string(),
        };
        let down = said("packets \"lo\" | null");
        assert!(down.contains("the network interface `lo` is down: `ip link set lo up`"), "{down}");
        let missing = said("packets \"veth0\" | null");
        assert!(missing.contains("there is no network interface `veth0`"), "{missing}");
    });
}

#[test]
fn without_its_capability_a_recorder_says_which_it_needs() {
    let ran = std::thread::spawn(|| {
        // The head of version 3, and three sets of 64 bits: none.
        let (head, none) = ([0x2008_0522u32, 0], [0u32; 6]);
        // SAFETY: both live through the call, which takes from this thread alone what it may.
        let given_up = unsafe { libc::syscall(libc::SYS_capset, head.as_ptr(), none.as_ptr()) };
        assert_eq!(given_up, 0, "{}", io::Error::last_os_error());
        Graph::new("packets \"lo\" | null").unwrap().run().unwrap_err().to_string()
    });
    let said = ran.join().unwrap();
    assert!(
        said.contains("`packets`: packets of `lo` may be taken with the capability CAP_NET_RAW alone: run it as root"),
        "{said}"
    );
}

fn tool(words: &str) -> bool {
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command.args(words).stdout(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// The same packets as `tcpdump -w` has, on a pair of virtual interfaces; and one of the pair is taken away while the recorder goes on.
#[test]
#[ignore = "storm: needs tcpdump and ip, and measures"]
fn a_recorder_on_a_veth_pair_has_what_tcpdump_has() {
    alone(|| {
        assert!(tool("ip link add veth0 type veth peer name veth1"), "ip: package iproute2");
        assert!(tool("ip link set veth0 up") && tool("ip link set veth1 up"));
        let dir = tempfile::tempdir().unwrap();
        let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
        let mut tcpdump = Command::new("tcpdump");
        tcpdump
            .args(["-i", "veth0", "-U", "--time-stamp-precision=nano", "-Z", "root", "-B", "65536", "-w"])
            .arg(&theirs);
        let mut tcpdump = tcpdump.stderr(Stdio::piped()).spawn().expect("tcpdump: package tcpdump");
        let mut said = io::BufReader::new(tcpdump.stderr.take().unwrap());
        io::BufRead::read_line(&mut said, &mut String::new()).unwrap();
        let text = format!("p: packets \"veth0\" buffer=67108864 | pcap {:?}", ours.display());
        let running = Graph::new(&text).unwrap().run().unwrap();
        const COUNT: u32 = 50_000;
        let sends = Sends::through("veth1");
        let began = Instant::now();
        (0..COUNT).for_each(|n| sends.send(&frame(n, 60)));
        let took = began.elapsed().as_secs_f64();
        let of_ours = |file: &Path| -> Vec<(u64, Vec<u8>)> {
            let theirs = |bytes: &[u8]| bytes[12..14] == KIND || bytes[12..18] == [0x81, 0, 0, 42, KIND[0], KIND[1]];
            packets(file).into_iter().filter(|(_, bytes)| theirs(bytes)).collect()
        };
        let began = Instant::now();
        while [&ours, &theirs].iter().any(|f| of_ours(f).len() < COUNT as usize) && began.elapsed().as_secs() < 20 {
            std::thread::sleep(Duration::from_millis(300));
        }
        running.stop();
        let report = running.wait().unwrap();
        // SAFETY: our own child.
        unsafe { libc::kill(tcpdump.id() as i32, libc::SIGINT) };
        tcpdump.wait().unwrap();
        let (ours, theirs) = (of_ours(&ours), of_ours(&theirs));
        let dropped = report.node("p").unwrap().counts.dropped;
        let alike = ours.iter().zip(&theirs).filter(|(a, b)| a.0 == b.0).count();
        println!(
            "{COUNT} packets in {took:.2} s: {} and {dropped} dropped, tcpdump {}; {alike} times are the same to the nanosecond",
            ours.len(),
            theirs.len()
        );
        assert_eq!((ours.len(), dropped), (COUNT as usize, 0));
        let bytes = |all: &[(u64, Vec<u8>)]| all.iter().map(|(_, b)| b.clone()).collect::<Vec<_>>();
        assert!(theirs.len() < COUNT as usize || bytes(&ours) == bytes(&theirs));
        let all: Vec<Vec<u8>> = (0..COUNT).map(|n| frame(n, 60)).collect();
        assert!(bytes(&ours) == all);
        let running = Graph::new("packets \"veth0\" | null").unwrap().run().unwrap();
        assert!(tool("ip link del veth0"));
        let gone = running.wait().unwrap_err().to_string();
        assert!(gone.contains("`packets` failed: the network interface `veth0` has gone down, or away"), "{gone}");
    });
}

#[test]
fn packets_are_no_numbers_and_of_one_kind_of_link() {
    let wrong = |text: &str| Graph::new(text).unwrap_err().to_string();
    let said = wrong("packets \"lo\" | lowpass 800 | null");
    assert!(said.contains("`lowpass` takes f32, and this is packets (Ethernet): `cast bytes`"), "{said}");
    assert!(wrong("packets \"lo\" | take 5 | null").contains("lines and packets have none"));
    assert!(wrong("sine 1 | pcap \"x\"").contains("`packets INTERFACE` takes them"));
    let merged = wrong("merge (packets \"lo\") (tube \"t\" as=packets link=101) | null");
    assert!(merged.contains("packets (Ethernet) and packets (raw IP)"), "{merged}");
    assert_eq!(Link::ETHERNET, Link(1));
}
