//! Prints the map of `docs/feedback.svg`.

fn main() {
    print!("{}", chappe_feedback::stability::map());
}
