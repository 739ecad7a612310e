//! `chappe graph repl`: a graph by commands: written line by line, run, looked at, changed while it runs; and single stages, called by hand (the
//! monitor of the thesis).

use super::file::shown;
use crate::said::{Failure, failed};
use anyhow::{Context, anyhow};
use chappe::stream::text::parse;
use chappe::stream::{Block, Body, Call, Data, Element, Graph, Kept, Kinds, Running, Stage, Type, explain};
use std::io::{BufRead, Write};
use std::path::Path;

const HELP: &str = "\
add LINE            one more line of the graph's text (before `run`)
text                the text as it stands
explain             how it is linked
run                 begins it
report              what each stage has done until now
replace NAME STAGE  another stage in the place of one, between two blocks
stop                asks it to stop
wait                waits for its end, and says what each stage has done
make STAGE          makes a single stage that takes f32 at 48000 Hz
put NUMBER ...      calls it with a block, and shows what it hands on
end                 says that nothing more comes to it
quit                leaves; a graph that runs is stopped";

/// What the commands work on.
#[derive(Default)]
struct Session {
    text: String,
    running: Option<Running>,
    stage: Option<Box<dyn Stage>>,
}

fn block(block: &Block) -> String {
    match &block.data {
        Data::F32(d) => d.iter().map(f32::to_string).collect::<Vec<_>>().join(" "),
        Data::I16(d) => d.iter().map(i16::to_string).collect::<Vec<_>>().join(" "),
        Data::Bytes(d) => String::from_utf8_lossy(d).trim_end().to_owned(),
    }
}

fn handed(kept: &Kept) -> String {
    let mut lines: Vec<String> = kept.blocks.iter().map(block).collect();
    if kept.dropped > 0 {
        lines.push(format!("({} frames given up)", kept.dropped));
    }
    if kept.finished {
        lines.push("(it wants no more)".into());
    }
    if lines.is_empty() { "(nothing)".into() } else { lines.join("\n") }
}

impl Session {
    /// Does one command. Answers what to print; nothing to leave.
    fn command(&mut self, line: &str) -> anyhow::Result<Option<String>> {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let rest = rest.trim();
        let said = match word {
            "" => String::new(),
            "help" => HELP.into(),
            "add" => {
                let text = if self.text.is_empty() { rest.to_owned() } else { format!("{}\n{rest}", self.text) };
                Graph::new(&text)?;
                self.text = text;
                String::new()
            }
            "text" => self.text.clone(),
            "explain" => explain::text(&Graph::new(&self.text)?).trim_end().to_owned(),
            "run" => {
                if self.running.is_some() {
                    return Err(anyhow!("it runs already: `wait` or `stop` first"));
                }
                self.running = Some(Graph::new(&self.text)?.run()?);
                String::new()
            }
            "report" => shown(&self.running()?.report()).trim_end().to_owned(),
            "replace" => {
                let (name, stage) = rest.split_once(' ').ok_or_else(|| anyhow!("write `replace NAME STAGE`"))?;
                self.running()?.replace(name, stage)?;
                String::new()
            }
            "stop" => {
                self.running()?.stop();
                String::new()
            }
            "wait" => {
                self.running()?;
                let running = self.running.take().context("nothing runs")?;
                shown(&running.wait()?).trim_end().to_owned()
            }
            "make" => {
                self.stage = Some(made(rest)?);
                String::new()
            }
            "put" => {
                let numbers: Result<Vec<f32>, _> = rest.split_ascii_whitespace().map(str::parse).collect();
                let numbers = numbers.map_err(|e| anyhow!("`{rest}`: {e}; write numbers, such as `put 1 0 0`"))?;
                let mut kept = Kept::default();
                self.stage()?.put(Block::f32(numbers), &mut kept)?;
                handed(&kept)
            }
            "end" => {
                let mut kept = Kept::default();
                let stage = self.stage()?;
                stage.end(&mut kept)?;
                let says = stage.says().map_or(String::new(), |s| format!("\n{s}"));
                self.stage = None;
                format!("{}{says}", handed(&kept))
            }
            "quit" => return Ok(None),
            other => return Err(anyhow!("there is no command `{other}`: `help` lists them")),
        };
        Ok(Some(said))
    }

    fn running(&self) -> anyhow::Result<&Running> {
        self.running.as_ref().ok_or_else(|| anyhow!("nothing runs: `run` begins the graph"))
    }

    fn stage(&mut self) -> anyhow::Result<&mut Box<dyn Stage>> {
        self.stage.as_mut().ok_or_else(|| anyhow!("there is no stage: `make gain 2` makes one"))
    }
}

/// A single stage that numbers can be put into.
fn made(text: &str) -> anyhow::Result<Box<dyn Stage>> {
    let lines = parse(text)?;
    let [line] = &lines[..] else { return Err(anyhow!("write one stage, such as `make gain 2`")) };
    let [written] = &line[..] else { return Err(anyhow!("write one stage, such as `make gain 2`")) };
    let takes = [Type { element: Element::F32, shape: 1, rate: Some(48_000.0) }];
    let plan = Kinds::standard().plan(&Call::new(written, &takes, true)).map_err(|e| anyhow!("{}", e.what))?;
    match (plan.make)()? {
        Body::Stage(stage) => Ok(stage),
        _ => Err(anyhow!("`{}` is no stage that something is put into", written.kind)),
    }
}

/// Takes commands until there are no more. A command that fails is told, and the next one is taken.
///
/// # Errors
/// The file that it begins with, or stdin, cannot be read.
pub fn repl(file: Option<&Path>) -> Result<u8, Failure> {
    let mut session = Session::default();
    if let Some(file) = file {
        session.text = super::file::text_of(file)?.trim_end().to_owned();
        Graph::new(&session.text).map_err(|e| failed(anyhow!("{}: {e}", file.display())))?;
    }
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stdin());
    let mut failures = 0u8;
    let prompt = || {
        if terminal {
            print!("> ");
            let _ = std::io::stdout().flush();
        }
    };
    prompt();
    for line in std::io::stdin().lock().lines() {
        let line = line.context("cannot read commands").map_err(failed)?;
        match session.command(&line) {
            Ok(None) => break,
            Ok(Some(said)) if said.is_empty() => {}
            Ok(Some(said)) => crate::said::write(format!("{said}\n").as_bytes())?,
            Err(why) => {
                failures = 1;
                crate::said::tell(format_args!("chappe: {}", crate::look::chain(&why)));
            }
        }
        prompt();
    }
    if let Some(running) = session.running {
        running.stop();
        running.wait().map_err(|e| failed(anyhow!("{e}")))?;
    }
    // As a script has it: something went wrong.
    Ok(if terminal { 0 } else { failures })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_made_and_called_by_hand() {
        let mut session = Session::default();
        let mut says =
            |line: &str| session.command(line).map(Option::unwrap_or_default).unwrap_or_else(|e| e.to_string());
        assert_eq!(says("put 1"), "there is no stage: `make gain 2` makes one");
        assert_eq!(says("make gain 2"), "");
        assert_eq!(says("put 1 -0.5 3"), "2 -1 6");
        assert_eq!(says("make take 2"), "");
        assert_eq!(says("put 1 2 3"), "1 2\n(it wants no more)");
        assert_eq!(says("end"), "(nothing)");
        assert_eq!(says("put 1"), "there is no stage: `make gain 2` makes one");
        assert!(says("put x").contains("write numbers"));
        assert!(says("make gian 2").contains("is it `gain`?"));
        assert!(says("make sine 440").contains("sine"));
        assert!(says("fly").contains("there is no command `fly`"));
    }

    #[test]
    fn a_graph_is_written_run_changed_and_looked_at() {
        let mut session = Session::default();
        let mut says =
            |line: &str| session.command(line).map(Option::unwrap_or_default).unwrap_or_else(|e| e.to_string());
        assert_eq!(says("report"), "nothing runs: `run` begins the graph");
        assert_eq!(says("add a: clock 200 | count | null"), "");
        assert!(says("add a | lowpas 3").contains("`lowpas`"));
        assert_eq!(says("text"), "a: clock 200 | count | null");
        assert!(says("explain").starts_with("3 stages, "));
        assert_eq!(says("run"), "");
        assert!(says("run").contains("runs already"));
        assert_eq!(says("replace count skip 3"), "");
        assert!(says("replace nobody skip 3").contains("there is no stage of this name"));
        assert!(says("report").starts_with("STAGE"));
        assert_eq!(says("stop"), "");
        assert!(says("wait").contains("null"));
        assert_eq!(session.command("quit").unwrap(), None);
    }
}
