//! `... | jack` in graphs, against a JACK server without a card: `jackd -d dummy`, of the package jackd2.

use crate::place::{Place, kill, until};
use std::io::Read;
use std::process::{Child, Command, Output, Stdio};

/// A server of our own.
struct Server {
    name: String,
    jackd: Child,
}

impl Server {
    fn new(test: &str, rate: u32, period: u32) -> Server {
        // A name for each test: a server that was killed keeps its entry in JACK's registry, of which there are eight, until one of its name begins.
        let name = format!("chappe-test-{test}");
        let mut command = Command::new("jackd");
        command.args(["-n", &name, "-r", "-d", "dummy", "-r", &rate.to_string(), "-p", &period.to_string()]);
        let jackd = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Server { name, jackd: jackd.expect("these tests need jackd (package jackd2)") };
        until("the server answers", || (server.tool("jack_wait", &["-c"]).trim() == "running").then_some(()));
        server
    }

    fn tool(&self, tool: &str, args: &[&str]) -> String {
        let ran = Command::new(tool).args(args).env("JACK_DEFAULT_SERVER", &self.name).output().unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    /// A graph at this server.
    fn graph(&self, here: &Place, file: &str, text: &str) -> Command {
        let path = here.path().join(file);
        std::fs::write(&path, text).unwrap();
        let mut command = here.command(&["graph", "run", &path.display().to_string()]);
        command.env("JACK_DEFAULT_SERVER", &self.name).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, here: &Place, text: &str) -> Output {
        self.graph(here, "x.graph", text).output().unwrap()
    }

    /// Waits until a client has ports.
    fn wait_for(&self, port: &str) {
        until(port, || self.tool("jack_lsp", &[]).lines().any(|l| l == port).then_some(()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        kill(self.jackd.id(), libc::SIGCONT);
        kill(self.jackd.id(), libc::SIGTERM);
        let _ = self.jackd.wait();
        // A server that was killed leaves these.
        for entry in std::fs::read_dir("/dev/shm").unwrap().flatten() {
            if entry.file_name().to_string_lossy().contains(&self.name) {
                let _ = std::fs::remove_file(entry.path()).or_else(|_| std::fs::remove_dir_all(entry.path()));
            }
        }
    }
}

fn said(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned() + &String::from_utf8_lossy(&ran.stdout)
}

#[test]
fn without_a_server_it_is_said_which_one_is_missing() {
    let here = Place::new();
    let path = here.file("x.graph");
    for text in ["sine 440 seconds=1 | jack", "jack | null"] {
        std::fs::write(&path, text).unwrap();
        let mut command = here.command(&["graph", "run", &path.display().to_string()]);
        let ran = command.env("JACK_DEFAULT_SERVER", "chappe-none").output().unwrap();
        let said = said(&ran);
        let missing = said.contains("there is no JACK server: start one (`jackd -d alsa`");
        let library = said.contains("the JACK library cannot be loaded: install it");
        assert!(!ran.status.success() && (missing || library) && said.contains("line 1, column"), "{said}");
    }
}

#[test]
#[ignore = "storm: needs jackd, and seconds"]
fn the_recorded_sound_is_the_played_one() {
    let (here, server) = (Place::new(), Server::new("plays", 48_000, 256));
    let wav = here.file("heard.wav");
    let recorder = format!("jack ear channels=1 ports=\"\" | take 96000 | wav {wav:?} bits=f32");
    let recorder = server.graph(&here, "ear.graph", &recorder).spawn().unwrap();
    server.wait_for("ear:in_1");
    let ran = server.run(&here, "sine 441 seconds=1 level=0.5 | jack mouth ports=\"ear:in_1\"");
    assert!(ran.status.success(), "{}", said(&ran));
    assert!(said(&ran).contains("48000 frames in "), "{}", said(&ran));
    let heard = recorder.wait_with_output().unwrap();
    assert!(heard.status.success(), "{}", said(&heard));
    let mut bytes = Vec::new();
    std::fs::File::open(&wav).unwrap().read_to_end(&mut bytes).unwrap();
    let samples: Vec<f32> =
        bytes[bytes.len() - 4 * 96_000..].as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let begins = samples.iter().position(|x| *x != 0.0).expect("something was heard") - 1;
    let sine = |i: usize| 0.5 * (std::f64::consts::TAU * 441.0 * i as f64 / 48_000.0).sin();
    // A period that comes late beside other tests is silence in between: the first one is there whole.
    for (i, x) in samples[begins..begins + 256].iter().enumerate() {
        assert!((f64::from(*x) - sine(i)).abs() < 1e-5, "{i}: {x}, not {}", sine(i));
    }
}

#[test]
#[ignore = "storm: needs jackd, and seconds"]
fn another_rate_is_refused_and_another_period_is_not() {
    let (here, server) = (Place::new(), Server::new("rate", 44_100, 512));
    let wrong = said(&server.run(&here, "sine 440 seconds=1 | jack"));
    let expected = "the JACK server runs at 44100 Hz, and this is 48000 Hz: put `resample 44100` before it";
    assert!(wrong.contains(expected) && wrong.contains("line 1, column"), "{wrong}");
    let recorded = said(&server.run(&here, "jack | take 4410 | lowpass 30000 | null"));
    assert!(recorded.contains("not below half of the rate"), "{recorded}");
    let playing = server.graph(&here, "x.graph", "sine 440 seconds=2 | resample 44100 | jack").spawn().unwrap();
    server.wait_for("chappe:out_1");
    server.tool("jack_bufsize", &["128"]);
    server.tool("jack_bufsize", &["2048"]);
    let ran = playing.wait_with_output().unwrap();
    assert!(ran.status.success() && said(&ran).contains("88200 frames in "), "{}", said(&ran));
    let unknown = said(&server.run(&here, "sine 440 seconds=1 rate=44100 | jack ports=\"nobody:in\""));
    assert!(
        unknown.contains("does not connect chappe:out_1 with nobody:in") && unknown.contains("jack_lsp"),
        "{unknown}"
    );
}

#[test]
#[ignore = "storm: needs jackd, and seconds"]
fn a_server_that_ends_or_hangs_is_told_and_what_it_had_is_counted() {
    for (signal, expected) in [
        (libc::SIGKILL, "the JACK server has ended, or has put this client out"),
        (libc::SIGTERM, "the JACK server has ended, or has put this client out"),
        (libc::SIGSTOP, "the JACK server has called no period for 5 s: it hangs, or is stopped"),
    ] {
        for text in ["sine 440 | jack", "jack | null"] {
            let (here, server) = (Place::new(), Server::new("ends", 48_000, 256));
            let mut running = server.graph(&here, "x.graph", text).spawn().unwrap();
            server.wait_for(if text.starts_with("sine") { "chappe:out_1" } else { "chappe:in_1" });
            std::thread::sleep(std::time::Duration::from_millis(300));
            kill(server.jackd.id(), signal);
            until("the graph ends", || running.try_wait().unwrap());
            let ran = running.wait_with_output().unwrap();
            let said = said(&ran);
            assert!(!ran.status.success() && said.contains(expected), "{signal} {text}: {:?} {said}", ran.status);
        }
    }
}
