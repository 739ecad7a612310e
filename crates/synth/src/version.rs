//! One version of a query, with all that was made of it.

use crate::closure::Closures;
use crate::cost::Machine;
use crate::form::Form;
use crate::query::Bound;
use crate::refused::Trust;
use crate::vector::Vectors;
use chappe_plat::Made;
use std::sync::Arc;

/// One version of a query, with everything that was made of it.
pub struct Version {
    /// The query and its parameters.
    pub bound: Bound,
    pub closures: Option<Closures>,
    /// Made for the first batch: many queries never see one.
    pub vectors: Made<Vectors>,
    /// By form. Full: it was tried; with nothing: in vain.
    pub machines: [Made<Option<Arc<Machine>>>; 4],
}

impl Version {
    pub fn new(bound: Bound, trust: Trust) -> Version {
        let closures = Closures::new(bound.program());
        let version = Version { bound, closures, vectors: Made::new(), machines: Default::default() };
        if trust == Trust::Foreign {
            version.machines.iter().for_each(|m| _ = m.get_or(|| None));
        }
        version
    }

    pub fn vectors(&self) -> &Vectors {
        self.vectors.get_or(|| Vectors::new(self.bound.program()))
    }

    #[inline(always)]
    pub fn machine(&self, form: Form) -> Option<&Arc<Machine>> {
        self.machines[form as usize].get()?.as_ref().filter(|m| m.is_here())
    }

    /// Compiles it for one form, unless that was tried.
    pub(crate) fn compile(&self, form: Form) {
        self.machines[form as usize].get_or(|| Machine::new(self.bound.program(), form).ok().map(Arc::new));
    }
}
