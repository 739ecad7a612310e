//! Which points of an operation are tried.

use crate::lead::{Mark, Point};
use crate::step::Kind;
use crate::trial::Scenario;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// Which points, and how.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Every so-manieth instruction from which a victim goes on, or with `each` at which it dies; 1 for all.
    pub stride: u64,
    /// How many of the times that the victim comes to one address.
    pub turns: u32,
    /// It dies at instructions, not in states.
    pub each: bool,
    /// Every so-manieth of the trials chosen so far is made; 1 for all.
    pub part: u64,
    /// After every so-manieth first fault a second one is tried; 0 for none.
    pub doubles: u64,
    /// Which of so many: in each scenario others.
    pub seed: u64,
    /// The watchdog.
    pub limit: Duration,
    /// So many wedges or leaks are enough: each costs a watchdog.
    pub enough: u64,
}

impl Plan {
    /// Everything.
    pub fn all() -> Plan {
        let limit = Duration::from_secs(20);
        Plan { stride: 1, turns: 16, each: false, part: 1, doubles: 1, seed: 0, limit, enough: 4 }
    }

    /// All states; of what is more, every `stride`-th, and where shared state changes hands.
    pub fn share(stride: u64) -> Plan {
        Plan { stride, turns: 2, doubles: stride, ..Plan::all() }
    }

    /// A death in each state is enough.
    pub fn by_state(self) -> Plan {
        Plan { each: false, ..self }
    }

    /// First faults alone.
    pub fn single(self) -> Plan {
        Plan { doubles: 0, ..self }
    }

    /// The same in every run with this seed, and another in each scenario.
    pub fn offset(&self, scenario: &dyn Scenario) -> u64 {
        let name = format!("{}, {}", scenario.name(), scenario.scene());
        let mix = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        (name.bytes().fold(0xcbf2_9ce4_8422_2325, mix) >> 32).wrapping_add(self.seed)
    }

    /// The part that is tried: one at least.
    pub fn part_of(&self, aims: Vec<Aim>, offset: u64) -> Vec<Aim> {
        let first = (offset % self.part.max(1)).min(aims.len().saturating_sub(1) as u64);
        aims.into_iter().skip(first as usize).step_by(self.part.max(1) as usize).collect()
    }
}

/// One trial to be made, and of which instructions of the path it tells.
pub struct Aim {
    /// Where.
    pub point: Point,
    /// The victim goes on.
    pub spare: bool,
    /// The same for people.
    pub whence: String,
    /// The places in the path.
    pub covers: Vec<usize>,
}

/// A recorded path, each instruction with its place: the address, and the so-manieth time there.
pub struct Path<'a> {
    marks: &'a [Mark],
    /// Their addresses, and the so-manieth time that the process came there.
    pub places: Vec<(u64, u32)>,
}

impl<'a> Path<'a> {
    /// Counts the times.
    pub fn of(marks: &'a [Mark]) -> Path<'a> {
        let mut times: HashMap<u64, u32> = HashMap::new();
        let place = |mark: &Mark| {
            let time = times.entry(mark.address).or_default();
            *time += 1;
            (mark.address, *time)
        };
        Path { marks, places: marks.iter().map(place).collect() }
    }

    /// Where a process is killed: in each state, at the first of its instructions that comes early enough; or at each.
    pub fn deaths(&self, plan: Plan) -> Vec<Aim> {
        if plan.each {
            return self.chosen(plan, 0, false);
        }
        let all: Vec<usize> = (0..self.marks.len()).collect();
        all.chunk_by(|a, b| self.marks[*a].state == self.marks[*b].state)
            .filter_map(|same| {
                let at = *same.iter().find(|at| self.places[**at].1 <= plan.turns)?;
                Some(self.aim(at, false, same.to_vec()))
            })
            .collect()
    }

    /// From where it goes on.
    pub fn spared(&self, plan: Plan, offset: u64) -> Vec<Aim> {
        let stride = plan.stride.max((self.marks.len() / SHORT) as u64);
        self.chosen(Plan { stride, ..plan }, offset, true)
    }

    fn chosen(&self, plan: Plan, offset: u64, spare: bool) -> Vec<Aim> {
        let chosen = choose(self.marks, plan.stride, offset).into_iter();
        chosen.filter(|at| self.places[*at].1 <= plan.turns).map(|at| self.aim(at, spare, vec![at])).collect()
    }

    fn aim(&self, at: usize, spare: bool, covers: Vec<usize>) -> Aim {
        let (address, time) = self.places[at];
        let how = if spare { ", spared" } else { "" };
        let whence = format!("instruction {at}, {}{how}", shown(address, time));
        Aim { point: Point::Before(address, time), spare, whence, covers }
    }

    /// How many states these have.
    pub fn states<'i>(&self, places: impl Iterator<Item = &'i usize>) -> u64 {
        let states: BTreeSet<u32> = places.map(|at| self.marks[*at].state).collect();
        states.len() as u64
    }
}

/// An address as `addr2line` wants it: relative to where this program was loaded.
fn shown(address: u64, time: u32) -> String {
    // SAFETY: asks the linker about an address; it writes only to `info`.
    let (base, file) = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address as *const libc::c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return format!("{address:#x}, time {time}");
        }
        (info.dli_fbase as u64, std::ffi::CStr::from_ptr(info.dli_fname).to_string_lossy().into_owned())
    };
    let file = file.rsplit('/').next().unwrap_or_default().to_owned();
    format!("{file}+{:#x}, time {time}", address - base)
}

/// A path of so many instructions is short.
pub const SHORT: usize = 1000;

fn choose(path: &[Mark], stride: u64, offset: u64) -> BTreeSet<usize> {
    let (count, stride) = (path.len(), stride.max(1));
    let mut chosen: BTreeSet<usize> = ((offset % stride) as usize..count).step_by(stride as usize).collect();
    for (at, mark) in path.iter().enumerate() {
        let stored = path.get(at + 1).is_some_and(|next| next.state != mark.state);
        if stored || matches!(mark.kind, Kind::Atomic | Kind::Call) {
            // Before it has happened, and after.
            chosen.extend(at..(at + 2).min(count));
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(atomic: usize) -> Vec<Mark> {
        let kind = |at| if at == atomic { Kind::Atomic } else { Kind::Plain };
        (0..100).map(|at| Mark { address: at as u64, kind: kind(at), state: u32::from(at > atomic) }).collect()
    }

    #[test]
    fn a_full_sweep_goes_on_from_every_instruction() {
        assert_eq!(choose(&path(50), 1, 7), (0..100).collect());
    }

    #[test]
    fn a_share_goes_on_before_and_after_each_atomic_instruction() {
        assert_eq!(choose(&path(50), 100, 7), [7, 50, 51].into());
    }

    #[test]
    fn one_death_in_each_state_tells_of_all_its_instructions() {
        let marks = path(50);
        let path = Path::of(&marks);
        let deaths = path.deaths(Plan::all());
        let points: Vec<Point> = deaths.iter().map(|aim| aim.point).collect();
        assert_eq!(points, [Point::Before(0, 1), Point::Before(51, 1)]);
        let covered: Vec<usize> = deaths.iter().flat_map(|aim| aim.covers.clone()).collect();
        assert_eq!(covered, (0..100).collect::<Vec<_>>());
        assert_eq!(path.deaths(Plan { each: true, ..Plan::all() }).len(), 100);
    }

    #[test]
    fn a_loop_is_told_apart_by_its_turns() {
        let turn = |state| Mark { address: 7, kind: Kind::Plain, state };
        let plan = Plan { turns: 2, ..Plan::all() };
        let points = |marks: &[Mark], plan| -> Vec<Point> {
            let path = Path::of(marks);
            path.deaths(plan).iter().map(|aim| aim.point).collect()
        };
        assert_eq!(points(&[turn(0), turn(1), turn(2)], plan), [Point::Before(7, 1), Point::Before(7, 2)]);
        assert_eq!(points(&[turn(0), turn(0), turn(0)], plan), [Point::Before(7, 1)]);
    }

    #[test]
    fn each_side_of_a_store_to_shared_memory_is_gone_on_from() {
        let mut marks = path(50);
        marks[50].kind = Kind::Plain;
        assert_eq!(choose(&marks, 100, 7), [7, 50, 51].into());
    }

    #[test]
    fn the_parts_of_all_seeds_are_the_whole_and_none_is_empty() {
        let marks = path(50);
        let path = Path::of(&marks);
        let plan = Plan { each: true, part: 7, ..Plan::all() };
        let part = |offset| plan.part_of(path.deaths(plan), offset).into_iter().flat_map(|aim| aim.covers);
        let mut all: Vec<usize> = (0..7).flat_map(part).collect();
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
        let by_state = Plan { part: 7, ..Plan::all() };
        assert!((0..7).all(|offset| by_state.part_of(path.deaths(by_state), offset).len() == 1));
        assert!(plan.part_of(Vec::new(), 3).is_empty());
    }
}
