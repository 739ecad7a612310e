//! How much room a buffer needs: the least that keeps a device busy (synthesis, 6.4.3, figures 6.8 and 6.9).
//!
//! Two processes at the two ends of one disk can keep it busy with large buffers, filled and emptied in turn by a plan made before (figure 6.8). The thesis
//! has the scheduler find "the smallest buffer that maintains the nominal transfer rate" (figure 6.9). Here that is a loop of its own: the room shrinks a little
//! while the device is busy, and grows at once when it was idle for longer than is allowed.
//!
//! ```text
//! room[k+1] = room[k] * (1 + grow * min(1, (idle - allowed) / allowed))    idle above `allowed`
//!             room[k] * (1 - shrink)                                       else, but never below what was idle lately
//! ```
//!
//! I1: the room is within `[least, most]`. I2: a room at which the device was idle is not tried again for [`MEMORY`] windows, so that the loop rests a step above
//! the least room that does, instead of swinging about it.

/// So many windows a room that was too small is remembered.
pub const MEMORY: u32 = 64;
const GROW: f64 = 0.5;
const SHRINK: f64 = 0.1;

/// The controller of one buffer's size.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    least: f64,
    most: f64,
    allowed: f64,
    now: f64,
    /// The largest room at which the device was idle, and for how long that is still believed.
    bad: f64,
    left: u32,
}

impl Room {
    /// One that begins with the most, and lets the device be idle for such a part of the time: 0.01.
    ///
    /// ```
    /// use chappe_feedback::Room;
    /// let mut room = Room::new(4_096.0, 102_400.0, 0.01);
    /// // The device was busy all the time: less will do.
    /// assert!(room.next(0.0) < 102_400.0);
    /// ```
    pub fn new(least: f64, most: f64, allowed: f64) -> Room {
        Room { least, most, allowed: allowed.max(1e-6), now: most, bad: 0.0, left: 0 }
    }

    /// Takes for which part of the last window the device was idle. Answers the room for the next one.
    pub fn next(&mut self, idle: f64) -> f64 {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.bad = 0.0;
        }
        if idle > self.allowed {
            (self.bad, self.left) = (self.bad.max(self.now), MEMORY);
            self.now *= 1.0 + GROW * ((idle - self.allowed) / self.allowed).min(1.0);
        } else {
            let less = self.now * (1.0 - SHRINK);
            // I2.
            if less > self.bad {
                self.now = less;
            }
        }
        self.now = self.now.clamp(self.least.min(self.most), self.most);
        self.now
    }

    /// The room as it is now.
    pub fn now(&self) -> f64 {
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes a millisecond: of the disk, and of each process.
    const DISK: f64 = 2_000.0;
    const PROCESS: f64 = 1_000.0;
    /// What a request costs the disk beside its bytes, in milliseconds.
    const REQUEST: f64 = 0.02;
    const STEP: f64 = 0.02;

    /// What came of a run, over its last half: the part of the time in which the disk moved bytes, bytes a millisecond, and room in all.
    #[derive(Debug)]
    struct Ran {
        busy: f64,
        rate: f64,
        room: f64,
    }

    /// Figure 6.8: process 1 reads a buffer, works on it, hands it on; process 2 works on that, and writes it. Each has `buffers` of 100 KB.
    fn static_plan(buffers: usize) -> Ran {
        let size = 100_000.0;
        let (read, work) = (size / DISK + REQUEST, size / PROCESS);
        // When each buffer was read, done by 1, done by 2, written.
        let mut all: Vec<[f64; 4]> = Vec::new();
        let mut disk = 0.0f64;
        let mut written = 0;
        let mut busy = Vec::new();
        for k in 0..400usize {
            // A buffer of process 1 is free when what was in it has been worked on, and one of process 2 when it is written.
            while written < all.len() && (k >= written + buffers && all[written][2] <= disk.max(all[k - buffers][1])) {
                let begin = disk.max(all[written][2]);
                disk = begin + read;
                busy.push((begin + REQUEST, disk));
                all[written][3] = disk;
                written += 1;
            }
            let free = if k >= buffers { all[k - buffers][1] } else { 0.0 };
            let begin = disk.max(free);
            disk = begin + read;
            busy.push((begin + REQUEST, disk));
            let one = disk.max(all.last().map_or(0.0, |b| b[1])) + work;
            let two = one.max(all.last().map_or(0.0, |b| b[2])) + work;
            all.push([disk, one, two, f64::INFINITY]);
        }
        let (from, to) = (disk / 2.0, disk);
        let moved: f64 = busy.iter().map(|(a, b)| (b.min(to) - a.max(from)).max(0.0)).sum();
        let rate = moved * DISK / 2.0 / (to - from);
        Ran { busy: moved / (to - from), rate, room: 2.0 * buffers as f64 * size }
    }

    /// Figure 6.9: the disk takes requests of half a buffer, and serves whichever buffer is nearer to making a process wait. The room follows the loop.
    fn by_feedback() -> Ran {
        let mut room = Room::new(2_000.0, 100_000.0, 0.01);
        let (mut input, mut pipe, mut output) = (0.0f64, 0.0f64, 0.0f64);
        // What the disk does: bytes that are left, and whether it writes.
        let mut request: Option<(f64, f64, bool)> = None;
        let (mut idle, mut window, mut counted) = (0.0, 0.0, (0.0, 0.0, 0.0, 0.0f64));
        let mut now = 0.0;
        while now < 20_000.0 {
            let size = room.now();
            let chunk = size / 2.0;
            if request.is_none() {
                // The emptier the input and the fuller the output, the sooner somebody waits.
                let (read, write) = (input + chunk <= size, output >= chunk);
                request = match (read, write) {
                    (true, true) => Some((REQUEST, chunk, output > size - input)),
                    (true, false) => Some((REQUEST, chunk, false)),
                    (false, true) => Some((REQUEST, chunk, true)),
                    (false, false) => None,
                };
            }
            let mut moves = 0.0;
            match &mut request {
                Some((wait, ..)) if *wait > 0.0 => *wait -= STEP,
                Some((_, left, writes)) => {
                    moves = (DISK * STEP).min(*left);
                    *left -= moves;
                    if *writes {
                        output -= moves
                    } else {
                        input += moves
                    }
                    if *left <= 1e-9 {
                        request = None;
                    }
                }
                None => {}
            }
            if moves == 0.0 {
                idle += STEP;
            }
            let first = (PROCESS * STEP).min(input).min((size - pipe).max(0.0));
            (input, pipe) = (input - first, pipe + first);
            let second = (PROCESS * STEP).min(pipe).min((size - output).max(0.0));
            (pipe, output) = (pipe - second, output + second);
            window += STEP;
            if window >= 200.0 {
                room.next(idle / window);
                (idle, window) = (0.0, 0.0);
            }
            now += STEP;
            if now > 10_000.0 {
                counted.0 += moves;
                counted.1 += STEP;
                counted.2 += f64::from(u8::from(moves > 0.0)) * STEP;
                counted.3 = counted.3.max(3.0 * size);
            }
        }
        Ran { busy: counted.2 / counted.1, rate: counted.0 / 2.0 / counted.1, room: counted.3 }
    }

    #[test]
    fn figure_6_8_a_plan_needs_large_buffers_and_figure_6_9_feedback_a_quarter_of_them() {
        let (one, two, feedback) = (static_plan(1), static_plan(2), by_feedback());
        assert!(one.busy < 0.7, "with one buffer each the disk waits: {one:?}");
        assert!(feedback.busy >= 0.98, "{feedback:?}");
        assert!(feedback.rate >= two.rate * 0.98, "{feedback:?} {two:?}");
        assert!(feedback.room <= two.room / 4.0, "{feedback:?} {two:?}");
    }

    #[test]
    fn the_room_rests_a_step_above_the_least_that_does() {
        let mut room = Room::new(1.0, 1_000.0, 0.01);
        let enough = 120.0;
        let idle = |now: f64| if now < enough { (enough - now) / enough } else { 0.0 };
        let (mut below, mut largest) = (0, 0.0f64);
        for k in 0..500 {
            let now = room.next(idle(room.now()));
            assert!((1.0..=1_000.0).contains(&now)); // I1
            if k > 100 {
                below += u32::from(idle(now) > 0.01);
                largest = largest.max(now);
            }
        }
        // Each time that it is forgotten how little was too little, it is tried again.
        assert!(below <= 2 * (400 / MEMORY + 1), "{below}");
        assert!(largest < enough * 1.6, "{largest}");
    }
}
