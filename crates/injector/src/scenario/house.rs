//! An arena after everything: what is listed is what should be, and every slot of it can be used.

use chappe::owned::RobustSemaphore;
use chappe::{Arena, Mutex, ObjectError, ObjectState, Pool};

use super::Scene::Met;
use super::world::{DATA, World, fault, fine};
use crate::board::{Fault, Verdict};

impl World<'_> {
    /// Whether the victim has made what was then looked for: it must have if it came to its end.
    pub fn has_made<T>(&self, found: Result<T, ObjectError>) -> Result<bool, (Fault, String)> {
        match found {
            Ok(_) => Ok(true),
            Err(ObjectError::Unknown { .. }) if !self.was_done() => Ok(false),
            Err(e) => fault(Fault::Torn, format!("after its creation: {e}")),
        }
    }

    /// Whether the victim has removed what was then looked for: it must have if it came to its end, but the process that met it may have
    /// made it again.
    pub fn has_removed<T>(&self, found: Result<T, ObjectError>) -> Result<bool, (Fault, String)> {
        match found {
            Ok(_) if self.was_done() && self.scene() != Met => fault(Fault::Torn, "removed, it is still there"),
            Ok(_) => Ok(false),
            Err(ObjectError::Unknown { .. }) => Ok(true),
            Err(e) => fault(Fault::Torn, format!("after its removal: {e}")),
        }
    }

    /// The one permit of pool `p` is to be had, and arena `default` has these objects and no other.
    pub fn in_order(&self, names: &[&str]) -> Verdict {
        self.audit("p", 1)?;
        self.full_house("default", names)
    }

    /// The arena has these objects and no other; every slot of it can be used.
    pub fn full_house(&self, arena: &str, names: &[&str]) -> Verdict {
        // All that can be had is had; what follows is whether it all is in its place.
        self.stage().settle();
        let handle = fine("opening the arena", Arena::open(arena))?;
        let all = handle.objects();
        let there: Vec<&str> = all.iter().map(|o| o.name.as_str()).collect();
        if there != names {
            return fault(Fault::Torn, format!("arena {arena} lists {there:?} instead of {names:?}"));
        }
        let members = || {
            // Sweeps the dead.
            chappe::doctor().map_or(u32::MAX, |_| handle.capacity().members_used)
        };
        // The keeper, which with a tube is two of them, and no other: helpers may still be on their
        // way out.
        let own = || handle.members().iter().filter(|m| m.pid == std::process::id()).count() as u32;
        if !self.stage().until(|| members() <= own().max(1)) {
            let who: Vec<_> = handle.members().iter().map(|m| (m.pid, m.tid, m.life)).collect();
            return fault(Fault::Leaked, format!("members of arena {arena} remain: {who:?}"));
        }
        // A slot that a reaper has just claimed is no longer listed while it is being swept: what
        // stays out of use is leaked.
        let room = |what: &str, make: &dyn Fn() -> Result<(), String>| {
            let mut got = Ok(());
            self.stage().until(|| {
                got = make();
                got.is_ok()
            });
            got.map_err(|e| (Fault::Leaked, format!("{what} of arena {arena}: {e}")))
        };
        let pool = |name: &str, permits| Pool::create_in(handle, name, permits).map(drop).map_err(|e| e.to_string());
        let full = |object: &str| format!("{arena}/{object}");
        let capacity = handle.capacity();
        // The slots that are free by now, before any removal makes a searching process look at them
        // anew.
        // A tube takes two, and so does an owned semaphore.
        let twofold = |state: &ObjectState| matches!(state, ObjectState::Tube(_) | ObjectState::Owned { .. });
        let more = all.iter().filter(|o| twofold(&o.state)).count();
        for i in all.len() + more..capacity.objects as usize {
            room("all further objects", &|| pool(&format!("f{i}"), 1))?;
        }
        for object in &handle.objects() {
            if matches!(object.state, ObjectState::Owned { .. }) {
                let found = RobustSemaphore::in_arena(&handle, &object.name);
                fine("removing an owned semaphore", found.and_then(|it| it.remove(false)))?;
                continue;
            }
            let gone = handle.remove_object(&object.name, false);
            gone.map_err(|e| (Fault::Torn, format!("removing {}: {e}", full(&object.name))))?;
        }
        let capacity = handle.capacity();
        if capacity.objects_used != 0 || capacity.cells_used != 0 {
            return fault(Fault::Leaked, format!("emptied, arena {arena} has {capacity:?}"));
        }
        room("all cells", &|| pool("all", capacity.cells + 1))?;
        fine("removing all cells", Pool::remove(&full("all"), false))?;
        for i in 0..capacity.objects {
            room("all objects", &|| pool(&format!("o{i}"), 1))?;
        }
        for i in 0..capacity.data / DATA {
            fine("removing an object", Pool::remove(&full(&format!("o{i}")), false))?;
            let name = full(&format!("data{i}"));
            let data = || Mutex::create(&name, [0u64; DATA as usize / 8]).map(drop).map_err(|e| e.to_string());
            room("all data", &data)?;
        }
        Ok(())
    }

    /// The directory holds these arenas, and no other files but locks and leases.
    pub fn files(&self, arenas: &[&str]) -> Verdict {
        let directory = fine("finding the directory", chappe::directory())?;
        let mut names: Vec<String> = fine("listing the directory", std::fs::read_dir(directory))?
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name != ".lock" && !name.starts_with(".lease-"))
            .collect();
        names.sort();
        if names == arenas {
            return Ok(());
        }
        fault(Fault::Leaked, format!("the directory holds {names:?} instead of {arenas:?}"))
    }
}
