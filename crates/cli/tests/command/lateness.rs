//! `chappe lateness`: what it answers, not how late anything was.

use crate::place::Place;

#[test]
fn it_says_what_it_got_and_what_each_window_came_to() {
    let here = Place::new();
    let svg = std::env::temp_dir().join(format!("chappe-lateness-{}.svg", std::process::id()));
    let path = svg.display().to_string();
    let told = here.json(&["lateness", "--seconds", "1", "--hogs", "1", "--policy", "other", "--svg", &path]);
    assert_eq!((&told["policy"], told["refused"].is_null()), (&"other".into(), true));
    let windows = told["windows"].as_array().unwrap();
    assert_eq!(windows.len(), 5);
    assert_eq!(windows[0]["window"], "no lock");
    for window in windows {
        // On a busy machine every period of a window may be missed; then it says so.
        assert!(window["periods"].as_u64().unwrap() + window["missed"].as_u64().unwrap() > 0, "{window}");
        let at = |name: &str| window[name].as_f64().unwrap();
        assert!(at("p50_us") <= at("p99_9_us") && at("p99_9_us") <= at("max_us"), "{window}");
    }
    assert!(std::fs::read_to_string(&svg).unwrap().contains("HelpLock, steps"));
    std::fs::remove_file(svg).unwrap();
}
