//! What can be written after `chappe pipe`.

use crate::pipe::Kind;
use crate::{size, time};
use std::path::PathBuf;
use std::time::Duration;

/// `chappe pipe`.
#[derive(clap::Args, Debug)]
pub struct Pipe {
    /// The pipeline, as one word, in sh's language
    #[arg(required_unless_present = "attach", value_name = "PIPELINE")]
    pub pipeline: Option<String>,
    /// Steer a pipeline that runs already: the one that this process is in
    #[arg(long, value_name = "PID", conflicts_with = "pipeline", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub attach: Option<u32>,
    /// How many bytes a second go through the first pipe (192K): says how far behind it is, and keeps reservations of stages that take all they get
    #[arg(long, value_name = "BYTES", value_parser = rate)]
    pub rate: Option<u64>,
    /// When it is to be done, from now (30s, 5m): says whether it will be, where the size is known
    #[arg(long, value_name = "DURATION", value_parser = deadline)]
    pub deadline: Option<Duration>,
    /// How many bytes there are to do (1G); of stdin, if it is a file, that is known
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub size: Option<u64>,
    /// How important it is: of pipelines that together need more processors than there are until their deadlines, the least important one is ended
    #[arg(long, value_name = "N", value_parser = importance, requires = "deadline", conflicts_with = "attach", allow_hyphen_values = true)]
    pub importance: Option<f64>,
    /// What `sh -c` runs if it is ended for a more important one
    #[arg(long, value_name = "COMMAND", requires = "importance")]
    pub emergency: Option<String>,
    /// How full a pipe may be before its reader gets more: 25%
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "25%")]
    pub fill: f64,
    /// The first means to try
    #[arg(long, value_enum, default_value = "deadline")]
    pub means: Kind,
    /// How often to report, with --json and in the view
    #[arg(long, short, value_name = "DURATION", value_parser = interval, default_value = "1s")]
    pub interval: Duration,
    /// Write a page with what happened to this file, at the end
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print only errors and warnings, and draw nothing
    #[arg(long, short)]
    pub quiet: bool,
    /// Draw the view also where the pipeline's own output goes to the terminal
    #[arg(long, conflicts_with = "quiet")]
    pub view: bool,
    /// Keep the stages in chappe's process group, for callers that end jobs by `kill -9 -GROUP`
    #[arg(long)]
    pub foreground: bool,
}

/// A rate: bytes, not zero.
fn rate(text: &str) -> Result<u64, String> {
    match size::parse(text.strip_suffix("/s").unwrap_or(text))? {
        0 => Err("a rate of 0 is no rate: write how many bytes come in a second, such as 192K".into()),
        rate => Ok(rate),
    }
}

fn deadline(text: &str) -> Result<Duration, String> {
    let deadline = time::parse(text)?;
    if deadline.is_zero() {
        Err("a deadline of 0 has passed: write when it is to be done, such as 5m".into())
    } else {
        Ok(deadline)
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = time::parse(text)?;
    let within = interval >= Duration::from_millis(100) && interval <= Duration::from_secs(3600);
    if within { Ok(interval) } else { Err(format!("`{text}` is no interval: from 100ms to 1h")) }
}

fn importance(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|n| n.is_finite());
    number.ok_or_else(|| format!("`{text}` is no importance: write a number; the larger, the more important"))
}

/// `25%` or `0.25`.
fn share(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.parse::<f64>().ok();
    let value = match text.strip_suffix('%') {
        Some(percent) => number(percent).map(|p| p / 100.0),
        None => number(text),
    };
    let value = value.filter(|v| (0.0..=0.9).contains(v));
    value.ok_or_else(|| format!("`{text}` is no fill: write a share from 0% to 90%, such as 25% or 0.25"))
}

/// The end of its short help.
pub const SHORT: &str = "\
Examples:
  chappe pipe 'arecord -t raw | ./filter | aplay -t raw'
  chappe pipe --attach $(pgrep -x filter)

Exit status: as `set -o pipefail` has it; 125 chappe failed; 2 the pipeline has a syntax error";

/// The end of its help.
pub const END: &str = "\
Examples:
  chappe pipe 'arecord -t raw | ./filter | aplay -t raw'
  chappe pipe --rate 192K --report out.html './device | ./a | ./b'
  chappe pipe --deadline 10m 'gzip -9 | ssh host \"cat >x\"' <big
  chappe pipe --deadline 1h --importance 1 --emergency 'touch cut' 'gzip | ssh host \"cat >x\"' <big
  chappe pipe --attach $(pgrep -x filter)

What it does:
  Each stage is run by `sh -c`, as the shell would run it, with pipes
  between. Every 4 ms it is seen how full each pipe is and how much
  processor each stage uses, with all that it has started; and the stage
  gets that much, a margin, and more while data piles up before it.

By which means, the best that is permitted:
  deadline  so many microseconds in each 4 ms, whatever else runs:
            SCHED_DEADLINE. Needs CAP_SYS_NICE. At most 80 % of a
            processor a thread, and all together what the system admits
            (95 %, less what it keeps)
  weight    a control group for each stage with cpu.weight (in v1
            cpu.shares). Needs a group that we may make others in
  nice      a niceness below zero and a short slice; where that is
            refused, the slice alone. Counts among the programs of one
            terminal alone where the kernel groups them (autogroup)
  none      nothing
  stderr says which it got, and when one is refused in mid-run which
  comes next. While a stage takes all it is given, and its input does
  not get emptier for it, the pipeline needs no help: it is left to the
  scheduler as any program, and looked at ten times a second, unless
  --rate says that data comes at a pace.

Pipelines with --importance, of one user, see what each needs: the
  processor time that its bytes still take, by the time until its
  deadline. When all together need more processors than there are, by
  more than chance explains, and a more important one can be done in time
  without it, by what its busiest stage can do and by what both have of
  the processors beside other programs, the least important one ends: its stages get SIGTERM (5 s
  later SIGKILL), and then its --emergency runs, and writes to stderr.
  They meet in the map `pipelines` of the arena; one that is killed
  counts no more.

Exit status, as `set -o pipefail` has it:
  that of the last stage that failed (128+n: by signal n), 0 if none did;
       with `!` before the pipeline 0 and 1 are swapped
  124  it was ended early, for a more important one
  125  chappe failed
  2    the pipeline is not sh's language, or an option is wrong
  With --attach: 0 when the pipeline has ended.

Signals:
  Ctrl-C and Ctrl-Z reach all stages, which have a process group of
  their own, and the terminal when chappe has it. TERM, INT, HUP, QUIT,
  USR1 and USR2 that chappe gets are passed on. At the end all stages
  are as they were: their scheduling, their control groups.

When something ends:
  a stage  the others learn of it by their pipes, as ever: no end of a
           pipe is kept here. stderr says if it was killed, and when one
           is stopped, or takes nothing for 5 s though data waits.
  chappe   by kill -9: the stages go on, with the share that they had;
           what they start has none. No byte is lost: all data is in the
           kernel's pipes. A control group is removed by the next
           `chappe pipe` that uses weights.

On a terminal:
  If the pipeline's output goes elsewhere, a line for each stage: rate,
  how full its input is, what it uses of its share, how much of the time
  it waits for input and output, how old what it reads is, and the fill
  of the last half minute; with --deadline what part of the time that is
  left is needed (above 100 %: late), with --rate how late it is.

With --json, on stderr, one object a line:
  {\"event\": \"started\", \"attached\": BOOL, \"stages\": [{\"stage\": N,
    \"command\": TEXT, \"pid\": N}]}
  {\"event\": \"means\", \"stage\": N, \"means\": \"deadline\", \"weight\",
    \"nice\" or \"none\", \"refused\": TEXT or null}
  {\"event\": \"look\", \"seconds\": N, \"stages\": [{\"stage\": N, \"bytes\": N,
    \"bytes_per_second\": N, \"fill\": N or null, \"fill_most\": N or null,
    \"used\": N, \"share\": N, \"reserved\": N or null, \"waits_in\": N,
    \"waits_out\": N, \"age_ms\": N or null, \"processes\": N,
    \"stopped\": BOOL, \"left_alone\": BOOL}], \"estimate\": N or null,
    \"ends_in_seconds\": N or null, \"late\": BOOL or null,
    \"behind_ms\": N or null}
  {\"event\": \"warning\", \"stage\": N, \"kind\": \"stopped\", \"hangs\",
    \"killed\", \"too-slow\", \"takes-all\", \"late\", \"no-size\",
    \"emergency\" or \"alone\", \"what\": TEXT}
  {\"event\": \"ended\", \"status\": N or null, \"seconds\": N, \"used\": N,
    \"reserved\": N, \"stages\": [{\"stage\": N, \"status\": N or null,
    \"signal\": N or null, \"bytes\": N, \"used\": N, \"reserved\": N,
    \"means\": TEXT}]}
  {\"error\": TEXT, \"status\": N}
  where shares are of one processor, and fills of 1; used and reserved at
  the end are means over the whole time.

Paper: synthesis, 6.3.1 and 6.4.2; docs/feedback.md has the controller.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_or_refused_with_what_would_do() {
        assert_eq!((rate("192K"), rate("10/s")), (Ok(192 * 1024), Ok(10)));
        assert_eq!((share("25%"), share("0.5"), share("0")), (Ok(0.25), Ok(0.5), Ok(0.0)));
        for text in ["-1", "100%", "2", "x", "", "nan", "%"] {
            assert!(share(text).unwrap_err().contains("from 0% to 90%"), "{text}");
        }
        assert!(rate("0").unwrap_err().contains("192K") && rate("fast").is_err());
        assert!(deadline("0").unwrap_err().contains("has passed") && deadline("5m").is_ok());
        assert!(interval("1ms").unwrap_err().contains("from 100ms") && interval("1s").is_ok());
    }
}
