//! What has been seen, for strips and for the page: points a tenth of a second apart, and twice as far apart whenever there are too many.

use super::control::Row;

/// At most so many points are kept.
const MOST: usize = 2_400;
/// A strip has so many marks.
const STRIP: usize = 30;
const MARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One stage at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Shares of a processor.
    pub used: f64,
    pub share: f64,
    /// The most in this time, of 1.
    pub fill: f64,
    /// Bytes in all.
    pub bytes: f64,
}

/// All stages over time.
#[derive(Debug, Default)]
pub struct History {
    /// Seconds since the begin, of each point.
    pub times: Vec<f64>,
    /// Of each stage.
    pub stages: Vec<Vec<Point>>,
    /// So many looks go into a point.
    each: usize,
    since: Vec<Vec<Point>>,
}

/// Bytes that went through a stage: into it, or out of the first one.
pub fn through(row: &Row) -> u64 {
    row.moved.0.max(row.moved.1)
}

fn mean(points: &[Point]) -> Point {
    let count = points.len().max(1) as f64;
    let sum = |of: fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / count;
    Point {
        used: sum(|p| p.used),
        share: sum(|p| p.share),
        fill: points.iter().map(|p| p.fill).fold(0.0, f64::max),
        bytes: points.last().map_or(0.0, |p| p.bytes),
    }
}

impl History {
    /// Takes a look.
    pub fn add(&mut self, seconds: f64, rows: &[Row]) {
        self.each = self.each.max(1);
        self.stages.resize(rows.len(), Vec::new());
        self.since.resize(rows.len(), Vec::new());
        for (since, row) in self.since.iter_mut().zip(rows) {
            let share = row.reserved.unwrap_or(row.share);
            let fill = row.fill.map_or(0.0, |f| f.1);
            since.push(Point { used: row.used, share, fill, bytes: through(row) as f64 });
        }
        if self.since.first().is_none_or(|s| s.len() < self.each) {
            return;
        }
        self.times.push(seconds);
        for (stage, since) in self.stages.iter_mut().zip(&mut self.since) {
            stage.push(mean(since));
            since.clear();
        }
        if self.times.len() > MOST {
            self.each *= 2;
            self.times = self.times.iter().skip(1).step_by(2).copied().collect();
            for stage in &mut self.stages {
                *stage = stage.chunks(2).map(mean).collect();
                stage.truncate(self.times.len());
            }
        }
    }
}

/// The last fills of a stage.
#[derive(Clone, Debug, Default)]
pub struct Strip(Vec<f64>);

impl Strip {
    /// Takes one more.
    pub fn add(&mut self, fill: f64) {
        self.0.push(fill);
        if self.0.len() > STRIP {
            self.0.remove(0);
        }
    }

    /// As marks, so many at most, the last ones.
    pub fn marks(&self, most: usize) -> String {
        let from = self.0.len().saturating_sub(most);
        self.0[from..].iter().map(|f| MARKS[((f * 8.0) as usize).min(7)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_get_wider_apart_and_none_is_forgotten() {
        let mut history = History::default();
        let row = |fill: f64| Row { used: 0.5, fill: Some((fill, fill)), ..Row::default() };
        for k in 0..10_000 {
            history.add(f64::from(k) / 10.0, &[row(if k == 5_000 { 1.0 } else { 0.1 }), row(0.0)]);
        }
        let points = &history.stages[0];
        assert!(points.len() <= MOST && points.len() == history.times.len());
        // The one peak is still seen, and means are means.
        assert_eq!(points.iter().filter(|p| p.fill == 1.0).count(), 1);
        assert!(points.iter().all(|p| p.used == 0.5));
        assert!(history.times.is_sorted());
    }

    #[test]
    fn a_strip_has_the_last_marks() {
        let mut strip = Strip::default();
        (0..40).for_each(|k| strip.add(f64::from(k) / 39.0));
        assert_eq!(strip.marks(100).chars().count(), STRIP);
        assert!(strip.marks(3) == "███" && strip.marks(100).starts_with('▃'), "{}", strip.marks(100));
    }
}
