//! Questions about CSV, JSON and lines.

use crate::place::{Place, Ran, Running, feed, until};
use crate::terminal::Screen;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const TRADES: &str = "sym,px,qty\nA,10.5,2\nB,9,1\nA,12.25,4\n";

/// The command, fed with this.
fn fed(place: &Place, args: &[&str], input: &str) -> Ran {
    let mut command = place.command(&[&["query"], args].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    feed(&mut child, input.as_bytes());
    Running::from(child).end()
}

#[test]
fn files_and_stdin_are_asked() {
    let place = Place::new();
    let (csv, json) = (place.file("trades.csv"), place.file("log.jsonl"));
    std::fs::write(&csv, TRADES).unwrap();
    std::fs::write(&json, "{\"level\":\"error\",\"ms\":7}\n{\"level\":\"info\"}\n{\"level\":\"error\",\"ms\":2.5}\n")
        .unwrap();
    let (csv, json) = (csv.to_str().unwrap(), json.to_str().unwrap());
    let by_sym = "where px > 9 select sym, sum(qty * px) as value by sym";
    assert_eq!(place.ok(&["query", by_sym, csv]), "sym,value\nA,70.0\n");
    assert_eq!(place.ok(&["query", "where px > 99 select px", csv, "--format", "table"]), "px\n--\n");
    assert_eq!(place.ok(&["query", by_sym, csv, csv, "--format", "table"]), "sym  value\n---  -----\nA    140.0\n");
    let errors = "where level == $level select count() as n, max(ms) as most";
    let asked = ["query", errors, json, "--param", "level=error"];
    assert_eq!(place.ok(&asked), "n,most\n2,7.0\n");
    let zip = ["--schema", "zip: str", "--param", "zip=02139", "where zip == $zip && n > $n", "--param", "n=0"];
    assert_eq!(fed(&place, &zip, "zip,n\n02139,1\n2139,1\n").out, "zip,n\n02139,1\n");
    let wrong = fed(&place, &["where n > $n", "--param", "n=many"], "n\n1\n").err;
    assert!(wrong.contains("parameter `$n` is of type int: `many` does not fit"), "{wrong}");
    let as_json = place.run(&[&asked[..], &["--json"]].concat());
    assert_eq!(as_json.out, "{\"n\":2,\"most\":7.0}\n");
    assert!(
        as_json.err.starts_with("{\"bad\":0,\"late\":0,\"ms\":") && as_json.err.contains("\"records\":3"),
        "{}",
        as_json.err
    );
    assert_eq!(place.ok(&["query", "select *", csv, "--print-schema"]), "sym: str, px: f64, qty: i64\n");
    // What comes on stdin says by its first character what it is.
    assert_eq!(fed(&place, &[by_sym], TRADES).out, "sym,value\nA,70.0\n");
    assert_eq!(fed(&place, &["select a"], " {\"a\":1}").out, "a\n1\n");
    assert_eq!(fed(&place, &["select b", "-d;"], "a;b\n1;2\n").out, "b\n2\n");
    assert_eq!(fed(&place, &["select b", "--lines", "{a}={b}"], "x=y\n").out, "b\ny\n");
    assert_eq!(fed(&place, &["select c2", "--no-header"], "1,2\n").out, "c2\n2\n");
    assert_eq!(fed(&place, &["select sum(n)", "--no-header", "--schema", "k: str, n: i64"], "1,2\n").out, "sum_n\n2\n");
    let told = fed(&place, &["select count() as n"], "1,A,2.5\n2,B,3\n").err;
    assert!(told.contains("the first line was taken for names, and `1` is a number: --no-header"), "{told}");
    let wrong = fed(&place, &["select a", "--no-header", "--from", "json"], "{}").err;
    assert!(wrong.contains("--no-header is for CSV, and stdin is JSON"), "{wrong}");
    let more = "{\"a\":1}\n".repeat(1000) + "{\"a\":2,\"late\":3}\n";
    let told = fed(&place, &["select * top 1"], &more);
    assert_eq!(told.out, "a\n1\n");
    assert!(told.err.contains("were left out: `late` (stdin:1001); --schema 'late: str' reads one"), "{}", told.err);
}

#[test]
fn an_error_in_a_query_or_its_data_is_reported_with_its_place() {
    let place = Place::new();
    let csv = place.file("t.csv");
    std::fs::write(&csv, format!("{TRADES}C,dear,1\n")).unwrap();
    let name = csv.to_str().unwrap();
    let typed = ["query", "select sum(px) as s", name, "--schema", "px: f64"];
    let why = place.fails(1, &typed);
    assert!(why.contains("t.csv:5: `px` is `dear`, and no f64; --on-bad skip"), "{why}");
    let skipped = place.run(&[&typed[..], &["--on-bad", "skip"]].concat());
    assert_eq!((skipped.status, skipped.out.as_str()), (Some(0), "s\n31.75\n"));
    assert!(
        skipped.err.contains("1 line had something wrong:\n") && skipped.err.contains("t.csv:5: `px` is `dear`"),
        "{}",
        skipped.err
    );
    let why = place.fails(1, &["query", "where pxx > 3", name]);
    assert!(
        why.contains("there is no field `pxx`: is it `px`? (line 1, column 7)") && why.contains("\n        ^^^"),
        "{why}"
    );
    assert!(
        place
            .fails(1, &["query", "select a", "/nowhere/x.csv"])
            .contains("cannot read /nowhere/x.csv: No such file or directory")
    );
    assert!(place.fails(1, &["query", "select a", "/"]).contains("/ is a directory"));
    assert!(
        place
            .fails(1, &["query", "select a", name, "--lines", "{a}{b}"])
            .contains("nothing stands between {a} and {b}")
    );
    assert!(place.fails(2, &["query", "select a", name, "--memory", "x"]).contains("number of bytes"));
    assert!(
        place
            .fails(1, &["query", "select sym, count() by sym", name, "--memory", "10"])
            .contains("--memory allows more")
    );
    // What is no query is told before anything comes.
    let mut command = place.command(&["query", "selec *"]);
    let mut waits = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pipe = waits.stdin.take();
    let ended = waits.wait_with_output().unwrap();
    drop(pipe);
    assert!(String::from_utf8_lossy(&ended.stderr).contains("a query begins with `where` or `select`"), "{ended:?}");
    let why = place.fails(1, &["query", "--follow", "where a == 'x", name]);
    assert!(why.contains("line 1, column"), "{why}");
    let list = fed(&place, &["select a"], "[\n  {\"a\":1}]").err;
    assert!(list.contains("it is a list, and an object a line is read: `jq -c '.[]'`"), "{list}");
    assert!(fed(&place, &["select a"], "").err.contains("nothing to read in stdin"));
}

#[test]
fn more_files_are_asked_than_a_process_has_at_a_time() {
    let place = Place::new();
    let names: Vec<String> = (0..80).map(|n| place.file(&format!("{n}.csv")).display().to_string()).collect();
    names.iter().enumerate().for_each(|(n, name)| std::fs::write(name, format!("k,v\n{n},\n{n},{n}\n")).unwrap());
    let all = names.join(" ");
    let script = format!("ulimit -n 40; exec \"$0\" query 'select sum(v) as s, count() as n, max(w) as w' {all}");
    let mut command = place.program("sh", &["-c", &script, env!("CARGO_BIN_EXE_chappe")]);
    let ran = Place::spawn(&mut command).end();
    assert!(ran.err.contains("there is no field `w`"), "{}", ran.err);
    let script = script.replace(", max(w) as w", "");
    let ran = Place::spawn(&mut place.program("sh", &["-c", &script, env!("CARGO_BIN_EXE_chappe")])).end();
    assert_eq!(ran.out, "s,n\n3160,160\n", "{}", ran.err);
    assert_eq!(fed(&place, &["select *", "--format", "json"], "{}\n{}\n").out, "{}\n{}\n");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let place = Place::new();
    let rows: String = "n\n".to_owned() + &(0..200_000).map(|n| format!("{n}\n")).collect::<String>();
    let file = place.file("n.csv");
    std::fs::write(&file, rows).unwrap();
    let mut command = place.command(&["query", "select n"]);
    let child = command.arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut child = child;
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}

/// `chappe query --follow` whose rows go to a file.
struct Following {
    running: Running,
    out: std::path::PathBuf,
}

impl Following {
    fn begin(place: &Place, args: &[&str]) -> Following {
        let out = place.file("followed");
        let mut command = place.command(&[&["query", "--follow", "--format", "csv"], args].concat());
        command.stdin(Stdio::null()).stdout(std::fs::File::create(&out).unwrap()).stderr(Stdio::piped());
        Following { running: Running::from(command.spawn().expect("it starts")), out }
    }

    fn has(&self, rows: &str) {
        let mut last = String::new();
        let what = format!("it writes {rows:?}");
        until(&what, || {
            last = std::fs::read_to_string(&self.out).unwrap();
            (last == rows).then_some(())
        });
    }

    /// Until it has read these files to their present ends: by then Ctrl-C ends it in good order, too.
    fn has_read(&self, files: &[&Path]) {
        let process = Path::new("/proc").join(self.running.pid().to_string());
        let is_read = |file: &Path| {
            let len = std::fs::metadata(file).ok()?.len();
            let open = std::fs::read_dir(process.join("fd")).ok()?.flatten();
            let mut open = open.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == file));
            let facts = std::fs::read_to_string(process.join("fdinfo").join(open.next()?.file_name())).ok()?;
            facts.starts_with(&format!("pos:\t{len}\n")).then_some(())
        };
        files.iter().for_each(|file| until(&format!("it has read {}", file.display()), || is_read(file)));
    }

    /// Ctrl-C: what it has written by then, and said.
    fn end(self) -> (String, String) {
        self.running.kill(libc::SIGINT);
        let ran = self.running.end();
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        (std::fs::read_to_string(&self.out).unwrap(), ran.err)
    }
}

#[test]
fn a_graph_whose_input_says_nothing_more_stops_with_its_sums() {
    let place = Place::new();
    let (graph, out) = (place.file("sums.g"), place.file("sums.csv"));
    for form in ["lines", "bytes"] {
        let text = format!("stdin as={form} | parse csv \"a: i64\" | select \"sum(a) as s every 2\" | csv | print\n");
        std::fs::write(&graph, text).unwrap();
        let mut command = place.command(&["graph", "run", "--quiet", graph.to_str().unwrap()]);
        command.stdin(Stdio::piped()).stdout(std::fs::File::create(&out).unwrap()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut to = child.stdin.take().expect("a pipe");
        to.write_all(b"a\n1\n2\n5\n7").expect("it reads");
        let running = Running::from(child);
        until("it has the first window", || {
            (std::fs::read_to_string(&out).unwrap() == "window,s\n0,3\n").then_some(())
        });
        running.kill(libc::SIGINT);
        let ran = running.end();
        // Half a line is no record.
        assert_eq!((ran.status, std::fs::read_to_string(&out).unwrap().as_str()), (Some(0), "window,s\n0,3\n2,5\n"));
        drop(to);
    }
}

#[test]
fn ctrl_c_ends_what_is_read_with_the_sums_and_says_so() {
    let place = Place::new();
    let out = place.file("sums.csv");
    let mut command = place.command(&["query", "select sum(a) as s every 2"]);
    command.stdin(Stdio::piped()).stdout(std::fs::File::create(&out).unwrap()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut to = child.stdin.take().expect("a pipe");
    to.write_all(b"a\n1\n2\n5\n7").expect("it reads");
    let running = Running::from(child);
    until("it has the first window", || (std::fs::read_to_string(&out).unwrap() == "window,s\n0,3\n").then_some(()));
    running.kill(libc::SIGINT);
    let ran = running.end();
    drop(to);
    // A shell that waits for it ends a script, too: the answer is a part.
    assert_eq!(ran.status, None, "{}", ran.err);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "window,s\n0,3\n2,5\n");
    assert!(ran.err.contains("Ctrl-C ended it: the answer is of the 3 records that had been read"), "{}", ran.err);
    assert!(ran.err.contains("stdin had half a record where Ctrl-C ended it, which was left out"), "{}", ran.err);
    // Before anything came there is no answer.
    let mut command = place.command(&["query", "select sum(a)"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let to = child.stdin.take();
    let running = Running::from(child);
    until("it heeds signals", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap();
        status.lines().any(|l| l.starts_with("SigBlk") && l.ends_with('2')).then_some(())
    });
    running.kill(libc::SIGINT);
    let ran = running.end();
    drop(to);
    assert!(ran.status.is_none() && ran.err.contains("the answer is of the 0 records"), "{ran:?}");
}

#[test]
fn ctrl_c_ends_query_at_a_fifo_and_before_a_file_that_was_looked_at() {
    let place = Place::new();
    let (fifo, small) = (place.file("fifo.csv"), place.file("small.csv"));
    let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
    // SAFETY: a plain call with a text that ends with zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    std::fs::write(&small, "a,b\n5,6\n").unwrap();
    let args = ["query", "select sum(a) as s, sum(b) as t", fifo.to_str().unwrap(), small.to_str().unwrap()];
    let query = || Running::from(place.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    // It waits for a writer.
    let running = query();
    until("it opens the FIFO", || {
        let at = std::fs::read_to_string(format!("/proc/{}/wchan", running.pid())).unwrap();
        (at == "fifo_open" || at == "wait_for_partner").then_some(())
    });
    running.kill(libc::SIGINT);
    assert_eq!(running.end().status, None);
    // `b` has no value at the first file's begin: the small one is read to its end before the first goes on.
    let running = query();
    let mut to = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    to.write_all(b"a,b\n1,\n2,\n").unwrap();
    until("it has read what is there and waits for more", || {
        // SAFETY: a plain call with a valid place for the answer.
        let left = unsafe {
            let mut left = 0;
            assert_eq!(libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&to), libc::FIONREAD, &mut left), 0);
            left
        };
        let at = std::fs::read_to_string(format!("/proc/{}/wchan", running.pid())).unwrap();
        (left == 0 && at.contains("poll")).then_some(())
    });
    running.kill(libc::SIGINT);
    let ran = running.end();
    assert!(ran.status.is_none() && ran.err.contains("Ctrl-C ended it: the answer is of the 2 records"), "{ran:?}");
    assert_eq!(ran.out, "s,t\n3,\n");
    drop(to);
}

#[test]
fn ctrl_c_ends_recv_with_the_sums_of_what_it_has_taken() {
    let place = Place::new();
    let create = ["tube", "create", "--schema", "n: i64"];
    for (tube, kind, follow) in
        [("t", None, true), ("u", None, false), ("b", Some("--broadcast"), true), ("c", Some("--broadcast"), false)]
    {
        // A tube of its own: a record that another round has left in it, without a sender, is the whole stream.
        place.ok(&create.into_iter().chain(kind).chain([tube]).collect::<Vec<_>>());
        let out = place.file(&format!("sums-{tube}"));
        let args = ["recv", tube, "--select", "sum(n) as s every 2", "--format", "csv", "-f"];
        let mut command = place.command(&args[..if follow { 7 } else { 6 }]);
        command.stdout(std::fs::File::create(&out).unwrap()).stderr(Stdio::piped());
        let running = Running::from(command.spawn().expect("it starts"));
        let mut command = place.command(&["send", "--format", "csv", tube]);
        let mut sends = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut to = sends.stdin.take().expect("a pipe");
        to.write_all(b"n\n").unwrap();
        // A subscriber may come later than the first records.
        until("it has a window", || {
            to.write_all(b"1\n").ok()?;
            std::fs::read_to_string(&out).unwrap().contains("\n0,2\n").then_some(())
        });
        running.kill(libc::SIGINT);
        let ran = running.end();
        assert_eq!(ran.status, follow.then_some(0), "{ran:?}");
        assert!(follow || ran.err.contains("Ctrl-C ended it: the answer is of what had come ("), "{ran:?}");
        let rows = std::fs::read_to_string(&out).unwrap();
        assert!(rows.starts_with("window,s\n0,2\n") && rows.ends_with('\n'), "{rows}");
        drop(to);
        Running::from(sends).end();
    }
}

#[test]
fn a_bar_shows_on_a_terminal_how_far_it_is_until_there_is_a_row() {
    let place = Place::new();
    let path = place.file("rows");
    for query in ["select sum(a) as s", "where a > 1 select a"] {
        let made = place.program("mkfifo", &[path.to_str().unwrap()]).status().unwrap();
        assert!(made.success());
        let mut screen = Screen::run(&place, &format!("$CHAPPE query '{query}' rows; echo do''ne"));
        let mut to = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        to.write_all(b"a\n").unwrap();
        until("there is a bar", || {
            to.write_all(b"1\n").unwrap();
            screen.has("B/s").then_some(())
        });
        let mut to = Some(to);
        if query.starts_with("where") {
            to.iter_mut().for_each(|to| to.write_all(b"2\n").unwrap());
        } else {
            to = None;
        }
        screen.expect("-");
        to.iter_mut().for_each(|to| (0..100).for_each(|_| to.write_all(b"1\n").unwrap()));
        drop(to);
        let behind = screen.expect("done");
        assert!(!behind.contains("B/s"), "{behind}");
        screen.end();
        std::fs::remove_file(&path).unwrap();
    }
}

fn append(path: &std::path::Path, text: &str) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn a_file_is_followed_as_it_grows_is_replaced_and_truncated() {
    let place = Place::new();
    let log = place.file("log.csv");
    append(&log, "sym,qty\nA,1\nB,");
    let following = Following::begin(&place, &["where qty != 3 select sym, qty", log.to_str().unwrap()]);
    following.has("sym,qty\nA,1\n");
    // Half a line waits for its end.
    append(&log, "2\nC,3\nD,");
    following.has("sym,qty\nA,1\nB,2\n");
    append(&log, "4\n");
    following.has("sym,qty\nA,1\nB,2\nD,4\n");
    // Renamed, still written to, and another one in its place, which has its columns in another order.
    let old = place.file("log.csv.1");
    std::fs::rename(&log, &old).unwrap();
    append(&old, "E,5\n");
    append(&log, "qty,sym\n6,F\n");
    until("both are read", || {
        let out = std::fs::read_to_string(&following.out).unwrap();
        (out.contains("E,5\n") && out.contains("F,6\n")).then_some(())
    });
    append(&old, "G,7\n");
    until("who writes it may not know yet", || {
        std::fs::read_to_string(&following.out).unwrap().contains("G,7\n").then_some(())
    });
    std::fs::write(&log, "sym,qty\n").unwrap();
    append(&log, "H,8\n");
    until("it begins anew", || std::fs::read_to_string(&following.out).unwrap().contains("H,8\n").then_some(()));
    // What has no line end may go on.
    append(&log, "I,9");
    let (out, said) = following.end();
    assert!(out.ends_with("H,8\n"), "{out}");
    let mut rows: Vec<&str> = out.lines().skip(1).collect();
    rows.sort_unstable();
    assert_eq!(rows, ["A,1", "B,2", "D,4", "E,5", "F,6", "G,7", "H,8"]);
    assert!(said.contains("log.csv had half a record at its end, which was left out"), "{said}");
    assert!(said.contains("log.csv was truncated: it is read from its begin"), "{said}");
}

#[test]
fn a_directory_is_followed_and_sums_come_window_by_window_and_at_the_end() {
    let place = Place::new();
    let dir = place.file("logs");
    std::fs::create_dir(&dir).unwrap();
    let in_it = |name: &str| dir.join(name);
    append(&in_it(".hidden"), "no json\n");
    // As logrotate leaves them: named, and left out.
    std::fs::write(in_it("a.log.2.gz"), b"\x1f\x8b\x08\0\0\n").unwrap();
    std::fs::create_dir(in_it("within")).unwrap();
    let dir_name = dir.to_str().unwrap();
    // Nothing is there yet: the first file says what they are.
    let sums = Following::begin(&place, &["select k, sum(n) as s by k", dir_name]);
    append(&in_it("a.log"), "{\"k\":\"x\",\"n\":1}\n");
    append(&in_it("b.log"), "{\"k\":\"y\",\"n\":2}\n{\"k\":\"x\",\"n\":4}\n");
    std::fs::rename(in_it("a.log"), in_it("a.log.1")).unwrap();
    append(&in_it("a.log"), "{\"k\":\"z\",\"n\":8}\n");
    let windows = {
        let other = Place::new();
        let following = Following::begin(&other, &["select sum(n) as s every 10 on n", dir_name]);
        append(&in_it("c.log"), "{\"k\":\"x\",\"n\":25}\n");
        following.has("window,s\n0,15\n");
        append(&in_it("c.log"), "{\"k\":\"x\",\"n\":50}\n");
        following.has("window,s\n0,15\n20,25\n");
        following.end().0
    };
    assert_eq!(windows, "window,s\n0,15\n20,25\n50,50\n");
    sums.has_read(&["a.log", "b.log", "c.log"].map(in_it).each_ref().map(PathBuf::as_path));
    let (out, said) = sums.end();
    let mut rows: Vec<&str> = out.lines().collect();
    rows.sort_unstable();
    assert_eq!(rows, ["k,s", "x,80", "y,2", "z,8"]);
    assert!(said.contains("a.log.2.gz: ") && said.ends_with("makes text of it; it is left out\n"), "{said}");
    let named = place.fails(1, &["query", "--follow", "select n", in_it("a.log.2.gz").to_str().unwrap()]);
    assert!(named.contains("a.log.2.gz: it is compressed, and no text: `zcat`"), "{named}");
    let csv = place.file("t.csv");
    std::fs::write(&csv, TRADES).unwrap();
    let why = place.fails(1, &["query", "select count() as n", csv.to_str().unwrap(), "x.jsonl"]);
    assert!(why.contains("cannot read x.jsonl"), "{why}");
    std::fs::write(place.file("x.jsonl"), "{}\n").unwrap();
    let why = place.fails(1, &["query", "select count() as n", csv.to_str().unwrap(), "x.jsonl"]);
    assert!(why.contains("x.jsonl is JSON, as its name says, and") && why.contains("t.csv is not"), "{why}");
    // What the query makes no sense of ends it.
    let why = place.fails(1, &["query", "--follow", "select q", in_it("c.log").to_str().unwrap(), "--from", "json"]);
    assert!(why.contains("there is no field `q`"), "{why}");
    let why = place.fails(1, &["query", "--follow", "select n", "/nowhere/x"]);
    assert!(why.contains("cannot read /nowhere/x: No such file"), "{why}");
    let why = place.fails(1, &["query", "--follow", "select n", "/dev/null"]);
    assert!(why.contains("/dev/null is neither a file nor a directory"), "{why}");
    assert_eq!(fed(&place, &["--follow", "select sum(a) as s"], "a\n1\n2").out, "s\n3\n");
}

#[test]
fn a_file_that_shrinks_while_it_is_read_gives_no_answer() {
    let place = Place::new();
    let [first, last] = ["first", "last"].map(|name| place.file(name));
    for fifo in [&first, &last] {
        assert!(place.program("mkfifo", &[fifo.to_str().unwrap()]).status().unwrap().success());
    }
    let (shrinks, columns) = (place.file("shrinks.csv"), "id,text\n");
    std::fs::write(&shrinks, format!("{columns}1,one\n2,two\n")).unwrap();
    let mut command = place.command(&["query", "select count() as n, max(id) as m, last(text) as l"]);
    command.args([first.as_os_str(), "-".as_ref(), last.as_os_str()]);
    command.stdin(std::fs::File::open(&shrinks).unwrap());
    let asks = Place::spawn(&mut command);
    // The inputs are opened in their order: when the last one is open, the length of the one before it is known.
    let write = |path| std::fs::File::options().write(true).open(path).unwrap();
    let mut before = write(&first);
    drop(write(&last));
    write(&shrinks).set_len(columns.len() as u64 + 8).unwrap();
    before.write_all(columns.as_bytes()).unwrap();
    drop(before);
    let ran = asks.end();
    assert_eq!((ran.status, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
    let why = "cannot read stdin: the file had 20 bytes, and has become shorter while it was read: it ends after 16";
    assert!(ran.err.contains(why), "{}", ran.err);
}

#[test]
fn a_table_has_no_commands_for_the_terminal() {
    let place = Place::new();
    let csv = "\u{1b}]0;pwned\u{7}na\u{1b}[31mme,b\n1,\u{1b}[2J\u{9b}m\n";
    let table = fed(&place, &["select *", "--format", "table"], csv).out;
    assert!(table.contains("na [31mme") && !table.contains(|c: char| c.is_control() && c != '\n'), "{table:?}");
}

#[test]
fn a_binary_is_not_taken_for_a_csv() {
    let place = Place::new();
    let capture = [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    for (begin, why) in [(&capture[..], "it is a capture of packets"), (b"a\0b,c\n1,2\n", "has NUL bytes")] {
        let file = place.file("binary");
        std::fs::write(&file, begin).unwrap();
        let ran = place.run(&["query", "select *", file.to_str().unwrap()]);
        assert!(ran.status == Some(1) && ran.out.is_empty() && ran.err.contains(why), "{ran:?}");
    }
}
