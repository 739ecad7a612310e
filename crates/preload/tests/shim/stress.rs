//! stress-ng's own check of POSIX semaphores.

use crate::stage::{Stage, is_there, not_tested, well};

#[test]
#[ignore = "storm: stress-ng for seconds"]
fn stress_ng_verifies() {
    if !is_there("stress-ng") {
        return not_tested("stress-ng --sem: there is no stress-ng");
    }
    let stage = Stage::new();
    // It goes on until the time is up, however many operations it is asked for.
    let args = ["--sem", "4", "--timeout", "3s", "--verify", "--metrics-brief", "--temp-path"];
    for mut command in [stage.under("stress-ng"), stage.owned("stress-ng")] {
        let said = well(command.args(args).arg(stage.path()));
        assert!(!said.contains("fail"), "{said}");
    }
}
