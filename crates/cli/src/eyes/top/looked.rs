//! What `chappe top` sees at a look, and what it says of that to programs.

use super::views::View;
use crate::eyes::figures::ALL;
use crate::eyes::light::{self, LightSeen};
use crate::eyes::pipes::{PipeSeen, Pipes};
use crate::eyes::snapshot::Snapshot;
use crate::eyes::terminals::{self, TerminalSeen};
use crate::look::facts_view;
use anyhow::Result;
use chappe::ObjectState;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The shortest interval.
pub const SHORTEST: Duration = Duration::from_millis(50);

/// What is seen at one look.
pub struct Looked {
    /// Arenas and their objects.
    pub snapshot: Arc<Snapshot>,
    /// Pipes, where they are shown.
    pub pipes: Option<Arc<Pipes>>,
    /// Light threads, where they are shown.
    pub light: Option<Vec<LightSeen>>,
    /// Terminals, where they are shown.
    pub terminals: Option<Vec<TerminalSeen>>,
}

/// Looks again and again.
pub struct Looker {
    arena: Option<String>,
    last: Option<Arc<Snapshot>>,
    pipes: Option<Arc<Pipes>>,
    light: light::Looker,
    terminals: terminals::Looker,
}

impl Looker {
    pub fn new(arena: Option<String>) -> Looker {
        Looker {
            arena,
            last: None,
            pipes: None,
            light: light::Looker::default(),
            terminals: terminals::Looker::default(),
        }
    }

    /// What a view does not show is not looked for.
    pub fn look(&mut self, view: View) -> Result<Looked> {
        let snapshot = Snapshot::take(self.arena.as_deref(), self.last.as_deref()).map(Arc::new);
        // The next one's rates need what this one counted.
        self.last = snapshot.as_ref().ok().cloned();
        let snapshot = snapshot?;
        self.pipes = (view == View::Pipes).then(|| Arc::new(Pipes::look(self.pipes.as_deref())));
        let light = (view == View::Light).then(|| self.light.look());
        let terminals = (view == View::Terminals).then(|| self.terminals.look());
        Ok(Looked { snapshot, pipes: self.pipes.clone(), light, terminals })
    }
}

pub fn as_json(looked: &Looked) -> String {
    let s = &looked.snapshot;
    let objects: Vec<Value> = s
        .objects
        .iter()
        .map(|o| {
            let mut all = Map::new();
            all.insert("name".into(), json!(o.name));
            all.insert("arena".into(), json!(o.arena.name()));
            all.insert("kind".into(), json!(o.info.kind));
            if let ObjectState::Facts(facts) = &o.info.state {
                all.extend(facts_view(facts));
            }
            for figure in ALL {
                if let Some(value) = (figure.of)(o) {
                    // Whole numbers as such.
                    let value =
                        if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) };
                    all.insert(format!("{}{}", figure.name, figure.suffix), value);
                }
            }
            Value::Object(all)
        })
        .collect();
    let arenas: Vec<Value> = s
        .arenas
        .iter()
        .map(|a| {
            json!({ "name": a.name, "members_used": a.members.0, "members": a.members.1, "objects_used": a.objects.0, "objects": a.objects.1 })
        })
        .collect();
    let processes: Vec<Value> = s
        .processes()
        .into_iter()
        .map(|p| {
            json!({ "pid": p.pid, "label": p.label, "waiting": p.waiting, "waiting_light": p.light, "longest_wait_seconds": p.longest.as_secs_f64(), "wants": p.wants })
        })
        .collect();
    let refused: Vec<Value> = s.refused.iter().map(|(arena, why)| json!({ "arena": arena, "error": why })).collect();
    let mut all = json!({ "arenas": arenas, "objects": objects, "processes": processes, "refused": refused });
    if let Some(pipes) = &looked.pipes {
        all["pipes"] = pipes.all.iter().map(PipeSeen::as_json).collect();
    }
    if let Some(light) = &looked.light {
        all["light"] = light.iter().map(LightSeen::as_json).collect();
    }
    if let Some(terminals) = &looked.terminals {
        all["terminals"] = terminals.iter().map(TerminalSeen::as_json).collect();
    }
    format!("{all}\n")
}
