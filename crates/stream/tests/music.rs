//! `beat` on music that has a known beat: the MIDI files of package openttd-openmsx that keep one tempo, as fluidsynth plays them, with aubio beside.
//!
//! A beat of the truth is each quarter from the file's begin on. A tracker's beats are judged from four seconds on, by which it has to be locked: the F-measure of
//! those within 70 ms. *Any level* is the best of that with quarters, halves and eighths as the beat, since nothing in the sound says which of them a person counts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SECONDS: f64 = 60.0;
const LOCKED: f64 = 4.0;

/// The share of beats that are right, and of right ones that are told.
fn f_measure(beats: &[f64], every: f64, until: f64) -> f64 {
    let truth: Vec<f64> =
        (0..).map(|k| f64::from(k) * every).take_while(|t| *t <= until).filter(|t| *t >= LOCKED).collect();
    let told: Vec<f64> = beats.iter().copied().filter(|b| (LOCKED..=until).contains(b)).collect();
    let (mut right, mut at) = (0, 0);
    for beat in &told {
        while at < truth.len() && truth[at] < beat - 0.07 {
            at += 1;
        }
        if at < truth.len() && (truth[at] - beat).abs() <= 0.07 {
            (right, at) = (right + 1, at + 1);
        }
    }
    2.0 * f64::from(right) / (truth.len() + told.len()).max(1) as f64
}

/// Seconds of a quarter, and of the whole, if the tempo never changes.
fn tempo(file: &Path) -> Option<(f64, f64)> {
    let bytes = std::fs::read(file).unwrap();
    let smf = midly::Smf::parse(&bytes).unwrap();
    let midly::Timing::Metrical(quarter) = smf.header.timing else { return None };
    let (mut tempi, mut last) = (Vec::new(), 0u64);
    for track in &smf.tracks {
        let mut tick = 0u64;
        for event in track {
            tick += u64::from(u32::from(event.delta));
            match event.kind {
                midly::TrackEventKind::Meta(midly::MetaMessage::Tempo(us)) => tempi.push(u32::from(us)),
                midly::TrackEventKind::Midi { .. } => last = last.max(tick),
                _ => {}
            }
        }
    }
    let (least, most) = (tempi.iter().min()?, tempi.iter().max()?);
    let every = f64::from(*most) / 1e6;
    (f64::from(*least) > 0.99 * f64::from(*most)).then(|| (every, last as f64 / f64::from(u16::from(quarter)) * every))
}

fn tool(program: &str, args: &[&str]) -> String {
    let ran = Command::new(program).args(args).stderr(Stdio::null()).output();
    let ran = ran.unwrap_or_else(|e| {
        panic!("{program}: {e}: packages openttd-openmsx fluidsynth fluid-soundfont-gm aubio-tools")
    });
    assert!(ran.status.success(), "{program} {args:?}: {}", ran.status);
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

fn beats(wav: &Path, out: &Path) -> Vec<f64> {
    chappe_stream::run(&format!("wav {wav:?} | take {} | mono | beat | csv | lines {out:?}", SECONDS * 22_050.0))
        .unwrap();
    let text = std::fs::read_to_string(out).unwrap();
    text.lines().filter_map(|l| l.split(',').next()?.parse().ok()).collect()
}

#[test]
#[ignore = "storm: needs fluidsynth, aubio and music, and minutes"]
fn the_beat_of_music_of_constant_tempo_is_found_more_often_than_by_aubio() {
    let dir = tempfile::tempdir().unwrap();
    let music = Path::new("/usr/share/games/openttd/baseset/openmsx");
    let mut files: Vec<PathBuf> = std::fs::read_dir(music)
        .unwrap_or_else(|e| panic!("{}: {e}: package openttd-openmsx", music.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "mid"))
        .collect();
    files.sort();
    let (mut ours, mut any, mut theirs, mut theirs_any) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for file in files {
        let Some((every, whole)) = tempo(&file) else { continue };
        let (wav, out) = (dir.path().join("x.wav"), dir.path().join("x.csv"));
        let [midi, sound] = [&file, &wav].map(|p| p.display().to_string());
        let font = "/usr/share/sounds/sf2/FluidR3_GM.sf2";
        tool("fluidsynth", &["-q", "-n", "-i", "-F", &sound, "-r", "22050", "-O", "s16", font, &midi]);
        let until = whole.min(SECONDS);
        let level = |beats: &[f64], by: f64| f_measure(beats, every * by, until);
        let best = |beats: &[f64]| [0.5, 1.0, 2.0].map(|by| level(beats, by)).into_iter().fold(0.0, f64::max);
        let found = beats(&wav, &out);
        let aubio: Vec<f64> =
            tool("aubiotrack", &["-i", &sound]).lines().filter_map(|l| l.trim().parse().ok()).collect();
        println!(
            "{:<26} {:5.1} a minute: beat {:.2} (any level {:.2}), aubio {:.2} ({:.2})",
            file.file_stem().unwrap().to_string_lossy(),
            60.0 / every,
            level(&found, 1.0),
            best(&found),
            level(&aubio, 1.0),
            best(&aubio)
        );
        ours.push(level(&found, 1.0));
        any.push(best(&found));
        theirs.push(level(&aubio, 1.0));
        theirs_any.push(best(&aubio));
        std::fs::remove_file(&wav).unwrap();
    }
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    println!(
        "{} files: beat {:.2} (any level {:.2}), aubio {:.2} ({:.2})",
        ours.len(),
        mean(&ours),
        mean(&any),
        mean(&theirs),
        mean(&theirs_any)
    );
    assert!(ours.len() >= 20, "{}", ours.len());
    assert!(mean(&ours) > mean(&theirs) && mean(&any) > mean(&theirs_any));
    // What was reached when this was written, less a little; the aim is 0.85.
    assert!(mean(&ours) >= 0.78, "{:.2}", mean(&ours));
}
