//! What only the library promises: who came first is served first.

use crate::stage::{Stage, compiled, well};

#[test]
fn who_gives_and_takes_again_overtakes_nobody() {
    let Some(program) = compiled("order") else { return };
    let stage = Stage::new();
    let wanted = "private: 0 overtaken\nshared: 0 overtaken\nnamed: 0 overtaken\n";
    assert_eq!(well(&mut stage.under(&program)), wanted);
    assert_eq!(well(&mut stage.owned(&program)), wanted);
}
