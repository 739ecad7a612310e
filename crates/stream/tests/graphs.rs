//! Graphs that run: what comes out, what is counted, what is said when something is wrong.

use chappe_stream::{
    Block, Body, Complaint, Element, Fault, Graph, Kind, Kinds, Options, Out, Plan, RunError, Stage, Type, Wrong, run,
};
use std::path::Path;
use std::sync::{Arc, Mutex};

fn wrong(text: &str) -> String {
    Graph::new(text).map(|g| format!("{g:?}")).unwrap_err().to_string()
}

/// A sink that keeps what comes.
fn kept() -> (Arc<Mutex<Vec<f32>>>, Options) {
    struct Keep(Arc<Mutex<Vec<f32>>>);
    impl Stage for Keep {
        fn put(&mut self, mut block: Block, _: &mut dyn Out) -> Result<(), Fault> {
            self.0.lock().unwrap().append(block.numbers());
            Ok(())
        }
    }
    let all = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&all);
    let mut kinds = Kinds::standard();
    kinds.add(Kind::new("keep", "", "for tests", move |call| {
        call.floats()?;
        let to = Arc::clone(&to);
        Ok(Plan::sink(move || Ok(Body::Stage(Box::new(Keep(to))))))
    }));
    (all, Options { kinds, ..Options::default() })
}

fn result(text: &str) -> Vec<f32> {
    let (all, options) = kept();
    let report = Graph::with(text, options)
        .unwrap_or_else(|e| panic!("{e}"))
        .run()
        .unwrap()
        .wait()
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(report.dropped(), 0, "{report:?}");
    std::mem::take(&mut *all.lock().unwrap())
}

#[test]
fn a_mismatch_names_both_types_and_the_place() {
    assert_eq!(
        wrong("sine 440 | lowpass 800\n  | where \"x > 1\" | null"),
        "`where` takes records, and this is f32 at 48000 Hz: `parse` makes them of text, and `records FILE SCHEMA` reads them (line 2, column 5)\n    | where \"x > 1\" | null\n      ^^^^^"
    );
    let rates = wrong("mix (sine 1 rate=44100) (sine 1) | null");
    assert!(
        rates.contains(
            "input 1 is f32 at 44100 Hz, input 2 is f32 at 48000 Hz: put `resample 44100` before it (line 1, column 1)"
        ),
        "{rates}"
    );
    let shapes = wrong("merge (sine 1 channels=2) (sine 1) | null");
    assert!(shapes.contains("f32 x 2 at 48000 Hz and f32 at 48000 Hz"), "{shapes}");
}

#[test]
fn an_error_in_a_graph_is_reported_with_its_place() {
    let loop_ = wrong("a: sine 1 | b: merge | c: gain 0.5 | tee (null) | b");
    assert!(loop_.contains("this is a loop") && loop_.contains("b | c | tee | b"), "{loop_}");
    assert!(
        wrong("sine 1 | lowpas 800 | null")
            .contains("there is no stage `lowpas`: is it `lowpass`? (line 1, column 10)")
    );
    assert!(wrong("sine 1 | gain | null").contains("`gain` needs a number: factor"));
    assert!(
        wrong("sine 1 | gain 1 2 | null")
            .contains("knows nothing of this: its use is `gain FACTOR` (line 1, column 17)")
    );
    assert!(wrong("sine 1 | lowpass 30000 | null").contains("not below half of the rate"));
    assert!(wrong("gain 2 | null").contains("needs something before it"));
    assert!(wrong("sine 1 | sine 2 | null").contains("is a source"));
    assert!(wrong("sine 1 | null | gain 2").contains("`null` gives nothing to whatever is behind it, and `gain` is"));
    assert!(wrong("a: sine 1 | null\na: sine 2 | null").contains("two stages of the name `a`"));
    assert!(wrong("gain: sine 1 | null").contains("is a kind of stage"));
    assert!(wrong("wav \"/nonexistent/x.wav\" | null").contains("cannot read /nonexistent/x.wav"));
    assert!(
        wrong("stdin @dsp | null").contains("`stdin` belongs to the process that runs the graph, and not to `@dsp`")
    );
    assert!(
        wrong("clock 100 lock=card | null")
            .contains("there is no `reference card` in this graph: put it where the frames go by (line 1, column 11)")
    );
    let apart = wrong("clock 100 lock=card @ticks | null\nsine 1 | reference card | null");
    assert!(apart.contains("`reference card` is in another process"), "{apart}");
    let two = wrong("sine 1 | reference card | null\nsine 1 | reference card | null");
    assert!(two.contains("there are two references `card` (line 2"), "{two}");
    let own = wrong("clock 100 lock=card | reference card | null");
    assert!(own.contains("`clock` is locked to what waits for its own ticks, so neither would ever begin"), "{own}");
    assert!(own.contains("clock | reference card -> clock (`->` is `lock=`)"), "{own}");
    assert!(own.contains("or leave `lock=` out (line 1, column 11)"), "{own}");
    let ring = wrong("slow: clock 10 lock=b | reference a | null\nclock 10 lock=a | tee (reference b | null) (null)");
    assert!(ring.contains("slow | reference a -> clock | tee | reference b -> slow ("), "{ring}");
    assert!(ring.contains("(line 1, column 16)"), "{ring}");
    // The ring stands in the text behind what it does not concern.
    let behind = wrong(
        "clock 1 lock=c | null\nsine 1 | reference c | null\nclock 5 lock=a | count | rate 5 | reference a | null",
    );
    assert!(behind.contains("(line 3, column 9)"), "{behind}");
    let long = (0..6).map(|n| format!("clock 1 lock=r{n} | reference r{}\n", (n + 1) % 6)).collect::<String>();
    assert!(wrong(&long).contains("clock | reference r1 -> clock | reference r2 -> clock | ... "), "{}", wrong(&long));
    // Two clocks of one reference, and one that is locked to a clock that is locked, are no ring.
    for right in [
        "sine 1 | reference card | null\nclock 10 lock=card | null\nclock 20 lock=card | null",
        "sine 1 | reference card | null\nclock 10 lock=card | reference next | null\nclock 20 lock=next | null",
    ] {
        Graph::new(right).unwrap();
    }
    assert!(wrong("sine 1 | reference ntp | null").contains("`ntp` is the system's time"));
    assert!(wrong("stdin | reference card | null").contains("`rate 48000` before it"));
    assert!(wrong("").contains("no stage"));
    assert!(wrong("sine 1 | gain 2 (null) | null").contains("has no branches"));
}

#[test]
fn ten_thousand_stages_run() {
    let text = format!("sine 440 frames=600 | {} keep", "offset 1 | ".repeat(10_000));
    let (all, options) = kept();
    Graph::with(&text, options).unwrap().run().unwrap().wait().unwrap();
    let all = all.lock().unwrap();
    assert_eq!(all.len(), 600);
    assert!(all.iter().all(|x| (*x - 10_000.0).abs() <= 1.5));
}

#[test]
fn every_way_to_join_gives_the_same() {
    let plain = result("sine 440 frames=5000 | gain 0.5 | keep");
    assert_eq!(plain.len(), 5000);
    for text in [
        "sine 440 frames=5000 ends=active | gain 0.5 | keep ends=active",
        "sine 440 frames=5000 ends=poll | gain 0.5 | keep",
        "sine 440 frames=5000 | gain 0.5 | keep ends=active",
        "sine 440 frames=5000 | queue 2 | gain 0.5 | queue 1 | keep",
        "sine 440 frames=5000 | pump | gain 0.5 | pump | keep",
        "sine 440 frames=5000 block=7 | buffer 100 | gain 0.5 | keep",
        "sine 440 frames=5000 | unbuffer | gain 0.5 | keep",
        "a: sine 440 frames=5000\nmix (a | gain 0.25) (a | gain 0.25) | keep",
        "sine 440 frames=5000 | merge | gain 0.5 | keep",
        "sine 440 frames=5000 | tee (gain 3 | null) | gain 0.5 | tee (null ends=active) | keep ends=active",
    ] {
        assert_eq!(result(text), plain, "{text}");
    }
}

#[test]
fn merges_lose_nothing_whatever_the_ends() {
    for (p, c) in [("active", "active"), ("active", "passive"), ("passive", "active"), ("passive", "passive")] {
        let source = |level| format!("impulse every=1 frames=3000 ends={p} | gain {level}");
        let sum: f32 = result(&format!("merge ({}) ({}) | keep ends={c}", source(1), source(2))).iter().sum();
        assert_eq!(sum, 9000.0, "{p} {c}");
        let shared: f32 = result(&format!(
            "impulse every=1 frames=3000 ends={p} | share (gain 1 | m) (gain 1 | m)\nm: merge | keep ends={c}"
        ))
        .iter()
        .sum();
        assert_eq!(shared, 3000.0, "{p} {c}");
    }
}

#[test]
fn a_queue_that_may_drop_counts_what_it_drops() {
    for how in ["drop", "drop-old"] {
        let graph =
            Graph::new(&format!("impulse every=1 frames=25600 | q: queue 4 full={how} | pace 1000000 | count | null"))
                .unwrap();
        let report = graph.run().unwrap().wait().unwrap();
        let through = report.node("count").unwrap().counts.elements;
        assert_eq!(through + report.node("q").unwrap().counts.dropped, 25_600, "{how}: {report:?}");
    }
}

#[test]
fn a_stage_that_nobody_reads_counts_what_it_gives() {
    let report = run("sine 1 frames=1000 channels=2 | gain 1").unwrap();
    assert_eq!(report.node("gain").unwrap().counts.dropped, 1000);
    let text = chappe_stream::explain::text(&Graph::new("sine 1 | gain 1").unwrap());
    assert!(text.contains("nobody reads it"), "{text}");
}

#[test]
fn take_ends_its_line_and_the_source_with_it() {
    assert_eq!(result("sine 440 | take 1000 | keep").len(), 1000);
    assert_eq!(result("sine 440 ends=active | take 1000 | queue 2 | keep").len(), 1000);
    assert_eq!(result("sine 440 | queue 2 | take 1000 | keep").len(), 1000);
    assert_eq!(result("sine 440 frames=100 | skip 30 | keep").len(), 70);
}

#[test]
fn a_stage_that_fails_is_named_with_its_place() {
    struct Fails(u32);
    impl Stage for Fails {
        fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
            self.0 += 1;
            if self.0 == 3 { Err(Fault::new("the third block is bad")) } else { out.put(block) }
        }
    }
    struct Panics;
    impl Stage for Panics {
        fn put(&mut self, _: Block, _: &mut dyn Out) -> Result<(), Fault> {
            panic!("ouch {}", 1)
        }
    }
    let mut kinds = Kinds::standard();
    kinds.add(Kind::new("fails", "", "", |call| {
        Ok(Plan::filter(call.input()?.clone(), || Ok(Body::Stage(Box::new(Fails(0))))))
    }));
    kinds.add(Kind::new("panics", "", "", |call| {
        Ok(Plan::filter(call.input()?.clone(), || Ok(Body::Stage(Box::new(Panics)))))
    }));
    let said = |text: &str| {
        let options = Options { kinds: kinds.clone(), ..Options::default() };
        Graph::with(text, options).unwrap().run().unwrap().wait().unwrap_err().to_string()
    };
    for text in [
        "sine 1 | fails | null",
        "sine 1 ends=active | fails | null ends=active",
        "sine 1 | queue 1 | fails | queue 1 | null",
    ] {
        let said = said(text);
        assert!(said.contains("`fails` failed: the third block is bad (line 1, column"), "{said}");
    }
    assert!(said("sine 1 | panics | null").contains("panicked: ouch 1"));
    let error = Graph::new("sine 1 frames=1 | wav \"/nonexistent/a.wav\"").unwrap().run().unwrap_err();
    assert!(
        matches!(&error, RunError::Stage(c) if c.to_string().contains("cannot write /nonexistent/a.wav")),
        "{error}"
    );
}

#[test]
fn an_unknown_stage_is_an_error_only_when_data_comes_if_linked_lazily() {
    let options = || Options { lazy: true, ..Options::default() };
    let text = "sine 1 frames=10 | tee (take 1 | later) | null";
    assert!(Graph::new(text).is_err());
    let said = Graph::with(text, options()).unwrap().run().unwrap().wait().unwrap_err().to_string();
    assert!(said.contains("there is no stage `later`, and data has reached it"), "{said}");
    Graph::with("silence frames=0 | later | null", options()).unwrap().run().unwrap().wait().unwrap();
}

#[test]
fn a_stage_is_replaced_between_two_blocks() {
    let (all, options) = kept();
    let text = "impulse every=1 frames=200000 block=100 | s: gain 1 | queue 1 | keep";
    let running = Graph::with(text, options).unwrap().run().unwrap();
    while running.report().node("s").unwrap().counts.blocks < 20 {
        std::thread::yield_now();
    }
    running.replace("s", "gain 2").unwrap();
    let wrong = running.replace("s", "cast i16").unwrap_err().to_string();
    assert!(wrong.contains("gives i16 at 48000 Hz") && wrong.contains("f32 at 48000 Hz"), "{wrong}");
    assert!(running.replace("t", "gain 2").is_err());
    assert!(running.replace("s", "gain 2 | gain 3").is_err());
    let report = running.wait().unwrap();
    let all = all.lock().unwrap();
    assert_eq!(all.len(), 200_000);
    if report.node("s").unwrap().counts.replaced == 1 {
        let change = all.iter().position(|x| *x == 2.0).unwrap();
        assert!(
            change % 100 == 0 && all[..change].iter().all(|x| *x == 1.0) && all[change..].iter().all(|x| *x == 2.0)
        );
    }
}

#[test]
fn the_callout_late_is_called_by_whoever_is_late() {
    /// Is late with every block, once it may be.
    struct Overdue(Arc<Mutex<()>>);
    impl Stage for Overdue {
        fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
            drop(self.0.lock().unwrap());
            out.late(0.5);
            out.put(block)
        }
    }
    let gate = Arc::new(Mutex::new(()));
    let (_, mut options) = kept();
    let waits_at = Arc::clone(&gate);
    options.kinds.add(Kind::new("overdue", "", "", move |call| {
        let gate = Arc::clone(&waits_at);
        Ok(Plan::filter(call.input()?.clone(), move || Ok(Body::Stage(Box::new(Overdue(gate))))))
    }));
    let closed = gate.lock().unwrap();
    let running = Graph::with("sine 1 frames=3000 block=1000 | o: overdue | null", options).unwrap().run().unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&told);
    running.on_late(move |label, by| to.lock().unwrap().push((label.to_owned(), by)));
    drop(closed);
    let report = running.wait().unwrap();
    assert_eq!(*told.lock().unwrap(), vec![("o".to_owned(), 0.5); 3]);
    assert_eq!(report.late(), 3);
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

/// The head of a WAVE file of 16 bits, and the bytes behind it.
fn wave(channels: u16, rate: u32, bits: u16, says: u32, data: &[u8]) -> Vec<u8> {
    let frame = channels * bits.div_ceil(8);
    let mut file = b"RIFF".to_vec();
    file.extend((36 + says).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0\x01\0");
    file.extend(channels.to_le_bytes());
    file.extend(rate.to_le_bytes());
    file.extend((rate * u32::from(frame)).to_le_bytes());
    file.extend(frame.to_le_bytes());
    file.extend(bits.to_le_bytes());
    file.extend(b"data");
    file.extend(says.to_le_bytes());
    file.extend(data);
    file
}

#[test]
fn a_file_that_is_no_sound_is_refused_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| path(dir.path(), name);
    let noise: Vec<u8> = (0..3000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let data = [1; 400];
    for (name, bytes, says) in [
        ("noise", noise, "no RIFF tag"),
        ("empty", Vec::new(), "enough bytes"),
        ("head", wave(2, 48_000, 16, 400, &[])[..30].to_vec(), "enough bytes"),
        ("no-channels", wave(0, 48_000, 16, 400, &data), "zero channels"),
        ("no-rate", wave(2, 0, 16, 400, &data), "its rate is 0 Hz"),
        ("odd-bits", wave(2, 48_000, 7, 400, &data), "bits"),
    ] {
        std::fs::write(at(name), bytes).unwrap();
        let said = wrong(&format!("wav {:?} | null", at(name)));
        assert!(said.contains(&format!("cannot read {}", at(name))) && said.contains(says), "{name}: {said}");
    }
    // The data that is there is handed on before the end is missed.
    for (name, says) in [("cut", 1000), ("endless", 0xffff_fff0u32 - 36)] {
        std::fs::write(at(name), wave(2, 48_000, 16, says, &data)).unwrap();
        let (all, options) = kept();
        let graph = Graph::with(&format!("wav {:?} block=10 | keep", at(name)), options).unwrap();
        let said = graph.run().unwrap().wait().unwrap_err().to_string();
        assert!(said.contains("the sound file is damaged"), "{name}: {said}");
        assert_eq!(all.lock().unwrap().len(), 200, "{name}");
    }
}

#[test]
fn bytes_that_make_no_whole_element_are_told_of_after_all_that_do() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| path(dir.path(), name);
    for (stages, rest, whole) in [
        ("cast f32", 3, 4),
        ("cast f32", 1, 600),
        ("cast i16", 1, 5),
        ("skip 1 | cast i16 | cast f32", 2, 5),
        ("buffer 3 | cast f32", 2, 1),
    ] {
        let size = if stages.contains("i16") { 2 } else { 4 };
        std::fs::write(at("odd"), vec![0; whole * size + rest]).unwrap();
        let (all, options) = kept();
        let text = format!("file {:?} block=7 | {stages} | cast f32 | keep", at("odd"));
        let said = Graph::with(&text, options).unwrap().run().unwrap().wait().unwrap_err().to_string();
        let rest = if stages.contains("skip") { rest - 1 } else { rest };
        assert!(
            said.contains(&format!("the last {rest} bytes are no whole element of {size} bytes")),
            "{stages}: {said}"
        );
        assert_eq!(all.lock().unwrap().len(), whole, "{stages}");
    }
    std::fs::write(at("odd"), [0; 4 * 300 + 3]).unwrap();
    let (all, options) = kept();
    let graph = Graph::with(&format!("raw {:?} | keep", at("odd")), options).unwrap();
    let said = graph.run().unwrap().wait().unwrap_err().to_string();
    assert!(said.contains("the last 3 bytes are no whole frame of 4 bytes"), "{said}");
    assert_eq!(all.lock().unwrap().len(), 300);
}

#[test]
fn samples_that_make_no_whole_window_are_counted() {
    for (stage, frames, windows, left) in [
        ("spectrum 16", 40, 2, 8),
        ("spectrum 16 hop=8", 44, 4, 4),
        ("spectrum 16 hop=8", 10, 0, 10),
        ("spectrum 16 hop=24", 24 + 10, 1, 10),
        ("correlate 16 4", 40, 2, 8),
    ] {
        let report = run(&format!("noise frames={frames} block=5 | {stage} | count | null")).unwrap();
        let name = stage.split(' ').next().unwrap();
        assert_eq!(report.node(name).unwrap().counts.dropped, left, "{stage} of {frames}");
        assert_eq!(report.node("count").unwrap().says.as_deref(), Some(&*format!("{windows} frames")), "{stage}");
    }
}

/// A WAVE file of one channel of 64-bit floating point, in the short form or the extensible one.
fn doubles(extensible: bool, samples: &[f64], missing: usize) -> Vec<u8> {
    let mut file = b"RIFF\0\0\0\0WAVEfmt ".to_vec();
    file.extend(if extensible { 40u32 } else { 16 }.to_le_bytes());
    file.extend(if extensible { 0xfffeu16 } else { 3 }.to_le_bytes());
    file.extend(1u16.to_le_bytes());
    file.extend(8000u32.to_le_bytes());
    file.extend(64_000u32.to_le_bytes());
    file.extend(8u16.to_le_bytes());
    file.extend(64u16.to_le_bytes());
    if extensible {
        file.extend([22, 0, 64, 0, 0, 0, 0, 0, 3, 0]);
        file.extend([0; 14]);
    }
    file.extend(b"LIST\x03\0\0\0abc\0data");
    file.extend((8 * samples.len() as u32).to_le_bytes());
    file.extend(samples.iter().flat_map(|s| s.to_le_bytes()));
    file.truncate(file.len() - missing);
    file
}

#[test]
fn sound_of_64_bits_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let at = path(dir.path(), "x.wav");
    let samples: Vec<f64> = (0..1000).map(|n| f64::from(n) / 1024.0).collect();
    for extensible in [false, true] {
        std::fs::write(&at, doubles(extensible, &samples, 0)).unwrap();
        let read = result(&format!("wav {at:?} block=300 | keep"));
        assert_eq!(read, samples.iter().map(|s| *s as f32).collect::<Vec<_>>());
    }
    std::fs::write(&at, doubles(false, &samples, 8 * 100 + 3)).unwrap();
    let (all, options) = kept();
    let graph = Graph::with(&format!("wav {at:?} | keep"), options).unwrap();
    let said = graph.run().unwrap().wait().unwrap_err().to_string();
    assert!(said.contains("the sound file is damaged"), "{said}");
    assert_eq!(all.lock().unwrap().len(), 899);
}

#[test]
fn no_sound_file_is_written_where_its_length_cannot_be_said() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = path(dir.path(), "pipe");
    let name = std::ffi::CString::new(fifo.clone()).unwrap();
    // SAFETY: a C string.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let said = wrong(&format!("sine 1 frames=1 | wav {fifo:?}"));
    assert!(said.contains(&format!("cannot write {fifo}")) && said.contains("`raw` writes samples alone"), "{said}");
    run("sine 1 frames=1 | wav \"/dev/null\"").unwrap();
}

#[test]
fn files_are_read_and_written_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| path(dir.path(), name);
    let bytes: Vec<u8> = (0..100_003u32).map(|i| (i * 7 % 251) as u8).collect();
    std::fs::write(at("a"), &bytes).unwrap();
    let report =
        run(&format!("file {:?} | buffer 999 | unbuffer | buffer 8191 | hash | file {:?}", at("a"), at("b"))).unwrap();
    assert_eq!(std::fs::read(at("b")).unwrap(), bytes);
    assert!(report.node("hash").unwrap().says.is_some());
    std::fs::write(at("text"), "one\ntwo, \"three\"\nfour").unwrap();
    run(&format!("lines {:?} | queue 1 | lines {:?}", at("text"), at("text2"))).unwrap();
    assert_eq!(std::fs::read_to_string(at("text2")).unwrap(), "one\ntwo, \"three\"\nfour\n");
    run(&format!("file {:?} block=3 | lines | onlcr | tabs 4 | file {:?}", at("text"), at("text3"))).unwrap();
    assert_eq!(std::fs::read_to_string(at("text3")).unwrap(), "one\r\ntwo, \"three\"\r\nfour\r\n");
    for bits in ["f32", "i16", "i24"] {
        run(&format!("sine 440 channels=2 frames=4800 level=0.9 | wav {:?} bits={bits}", at("s.wav"))).unwrap();
        let read = result(&format!("wav {:?} | keep", at("s.wav")));
        let error =
            read.iter().zip(result("sine 440 channels=2 frames=4800 level=0.9 | keep")).map(|(a, b)| (a - b).abs());
        assert!(read.len() == 9600 && error.fold(0.0, f32::max) <= if bits == "i16" { 5e-5 } else { 1e-6 }, "{bits}");
    }
    run(&format!("sine 1 frames=100 | cast i16 | raw {:?}", at("r"))).unwrap();
    assert_eq!(result(&format!("raw {:?} as=i16 rate=48000 | cast f32 | keep", at("r"))).len(), 100);
    run(&format!("noise frames=96000 | spectrum 1024 as=dB | png {:?}", at("s.png"))).unwrap();
    assert_eq!(&std::fs::read(at("s.png")).unwrap()[1..4], b"PNG");
    std::fs::write(at("odd"), [0; 7]).unwrap();
    let odd = run(&format!("raw {:?} | null", at("odd"))).unwrap_err().to_string();
    assert!(odd.contains("the last 3 bytes are no whole frame of 4 bytes"), "{odd}");
}

#[test]
fn records_are_chosen_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| path(dir.path(), name);
    let mut bytes = Vec::new();
    for i in 0..1000u32 {
        bytes.extend(f64::from(i).to_le_bytes());
        bytes.extend(i.to_le_bytes());
        bytes.extend(*b"a\"b\0");
    }
    std::fs::write(at("r"), &bytes).unwrap();
    let from = format!("records {:?} \"price: f64, n: u32, sym: str[4]\"", at("r"));
    run(&format!(
        "{from} | where \"price >= 10.0 && price < 12.0\" | tee (csv | lines {:?}) | json | lines {:?}",
        at("c"),
        at("j")
    ))
    .unwrap();
    assert_eq!(std::fs::read_to_string(at("c")).unwrap(), "price,n,sym\n10.0,10,\"a\"\"b\"\n11.0,11,\"a\"\"b\"\n");
    assert_eq!(
        std::fs::read_to_string(at("j")).unwrap().lines().next(),
        Some("{\"price\":10.0,\"n\":10,\"sym\":\"a\\\"b\"}")
    );
    let twice = result(&format!("{from} | select \"price * 2.0 as twice\" | field twice | keep"));
    assert!(twice.len() == 1000 && twice[7] == 14.0);
    let wrong = Graph::new(&format!("{from} | where \"prize > 1.0\" | null")).unwrap_err().to_string();
    assert!(wrong.contains("prize") && wrong.contains("line 1"), "{wrong}");
    assert!(Graph::new(&format!("{from} | field sym | null")).unwrap_err().to_string().contains("is a text"));
}

#[test]
fn lines_are_edited_as_a_terminal_does() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| path(dir.path(), name);
    std::fs::write(at("keys"), b"helo\x7flo wrld\x17world\rxyz\x15\xc3\xa4\xc3\xb6\x7f\n\x16\x7f!\x04\x04never")
        .unwrap();
    run(&format!("file {:?} block=1 | cook | file {:?}", at("keys"), at("out"))).unwrap();
    assert_eq!(std::fs::read(at("out")).unwrap(), b"hello world\n\xc3\xa4\n\x7f!");
}

#[test]
fn a_kind_of_ones_own_and_ones_types_are_checked_alike() {
    let mut kinds = Kinds::standard();
    kinds.add(Kind::new("stereo", "", "", |call| {
        let input = call.input()?;
        match input {
            Type { element: Element::F32, shape: 2, .. } => Ok(Plan::sink(|| Err(Fault::new("never made")))),
            other => Err(Wrong::new(format!("stereo takes two channels, and this is {other}"))),
        }
    }));
    let with = |text: &str| -> Result<Graph, Complaint> {
        Graph::with(text, Options { kinds: kinds.clone(), ..Options::default() })
    };
    assert!(with("sine 1 channels=2 | stereo").is_ok());
    assert!(with("sine 1 | stereo").unwrap_err().to_string().contains("this is f32 at 48000 Hz"));
}

#[test]
fn a_plan_is_shown_as_text_and_as_a_picture() {
    let graph = Graph::new("a: sine 440 ends=active | gain 2 | tee (spectrum 1024 | null) | lowpass 800 | pace | q: queue 4 full=drop | null").unwrap();
    let text = chappe_stream::explain::text(&graph);
    for part in [
        "thread 1 `a` (its own end calls)",
        "calls gain 2  -> f32 at 48000 Hz",
        "each block:",
        "queue 1: 4 blocks",
        "drops the new block",
        "a pump",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let svg = chappe_stream::explain::svg(&graph);
    assert!(
        svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.matches("<rect").count() == graph.nodes().len() + 1
    );
    let long = Graph::new(&format!("sine 1 | {} null", "gain 1 | ".repeat(2000))).unwrap();
    assert!(chappe_stream::explain::svg(&long).contains("more stages"));
}

/// What a sink of each kind of file needs before it.
fn before(kind: &str) -> &'static str {
    match kind {
        "file" | "disk" | "raw" | "records" | "frame" => "sine 1 seconds=0.01",
        "lines" => "stdin",
        "wav" => "sine 1 seconds=0.01",
        "png" => "sine 1 seconds=0.01 | spectrum 64",
        "pcap" => "pcap \"CAPTURE\"",
        other => panic!("how is `{other}` written? It names a file"),
    }
}

#[test]
fn no_stage_writes_a_file_that_its_graph_reads_or_writes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (text, capture) = (at("text"), at("capture"));
    std::fs::write(&text, "kept\n").unwrap();
    let head = [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 1].map(u32::to_le_bytes);
    std::fs::write(&capture, head.concat()).unwrap();
    std::fs::hard_link(&text, at("hard")).unwrap();
    std::os::unix::fs::symlink("text", at("soft")).unwrap();
    let names = [text.clone(), format!("{}/./text", dir.path().display()), at("hard"), at("soft")];
    let kinds = Kinds::standard();
    let sinks: Vec<&Kind> =
        kinds.iter().filter(|k| k.usage.contains("FILE") && !["midi", "cache"].contains(&k.name)).collect();
    assert!(sinks.len() >= 8, "{sinks:?}");
    for kind in sinks {
        let sink =
            |name: &str| format!("{} | {} file=\"{name}\"", before(kind.name), kind.name).replace("CAPTURE", &capture);
        for name in &names {
            let sink = sink(name);
            Graph::new(&sink).unwrap_or_else(|e| panic!("{e}"));
            let why = wrong(&format!("file \"{text}\" | null\n{sink}"));
            assert!(
                why.contains(&format!("would write over {name} while `file` reads it: write another file")),
                "{why}"
            );
            // The sink may stand before the source.
            let why = wrong(&format!("{sink}\ncache \"{text}\" \"c\" | null"));
            assert!(why.contains("while `cache` reads it") && why.contains("(line 1, column"), "{why}");
        }
        // A file that is to come.
        let (new, dotted) = (at("new"), format!("{}/./new", dir.path().display()));
        let why = wrong(&format!("sine 1 | file \"{new}\"\n{}", sink(&dotted)));
        assert!(why.contains("new, which `file` writes: give each a file of its own"), "{why}");
    }
    assert_eq!(std::fs::read(&text).unwrap(), b"kept\n");
    // Nothing in a device of this kind is lost, and many may read one file.
    for good in ["file \"/dev/null\" | file \"/dev/null\"", "file \"TEXT\" | null\nlines \"TEXT\" | null"] {
        Graph::new(&good.replace("TEXT", &text)).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn a_stage_that_is_replaced_does_not_write_what_its_graph_reads() {
    let dir = tempfile::tempdir().unwrap();
    let (text, other) = (dir.path().join("text").display().to_string(), dir.path().join("other").display().to_string());
    std::fs::write(&text, "kept\n").unwrap();
    let graph = Graph::new(&format!("file \"{text}\" | null\nsine 1 | to: file \"{other}\"")).unwrap();
    let running = graph.run().unwrap();
    let why = running.replace("to", &format!("file \"{text}\"")).unwrap_err().to_string();
    assert!(why.contains("while `file` reads it"), "{why}");
    running.replace("to", &format!("file \"{other}\"")).unwrap();
    running.stop();
    running.wait().unwrap();
    assert_eq!(std::fs::read(&text).unwrap(), b"kept\n");
}
