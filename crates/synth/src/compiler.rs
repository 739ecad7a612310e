//! What using a query has cost, and the thread that compiles where that will pay.

use crate::cost::{break_even, machine_ns};
use crate::form::Form;
use crate::version::Version;
use chappe_plat::process;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};

/// What one form of a query has cost one evaluator.
#[derive(Default, Debug)]
pub struct Measured {
    records: u64,
    uses: u64,
    /// The use that is measured next.
    next: u64,
}

impl Measured {
    /// So many records more. Whether this use is to be measured: the 16th, 64th, 256th ..., and the one at which machine code is
    /// expected to pay, until it was asked for; before that, uses of many records at the 1st and 4th.
    #[inline]
    pub fn counts(&mut self, records: u64) -> bool {
        self.records += records;
        self.uses += 1;
        self.uses >= self.next && self.comes()
    }

    /// How many uses of one record each come before one that is to be looked at, at most so many: they count as made.
    pub fn ahead(&mut self, most: u64) -> u64 {
        let free = self.next.saturating_sub(self.uses + 1).min(most);
        self.uses += free;
        self.records += free;
        free
    }

    #[cold]
    fn comes(&mut self) -> bool {
        self.next = self.uses.saturating_mul(4);
        self.uses >= 16 || self.records >= 256
    }

    /// A use took so long for each record: asks for machine code if it will pay.
    pub fn took(&mut self, version: &Arc<Version>, form: Form, ns: f64) {
        let ops = version.bound.program().ops.len();
        let Some(even) = break_even(ns, machine_ns(ops, form)).filter(|_| cfg!(feature = "jit")) else { return };
        let enough = even / 4;
        if self.records >= enough {
            if ask(version.clone(), form) {
                self.next = u64::MAX;
            }
            return;
        }
        // As many records a use as before: then it is this use.
        let uses = (enough as f64 / self.records as f64 * self.uses as f64).ceil() as u64;
        self.next = self.next.min(uses.max(self.uses + 1));
    }
}

type Work = (Arc<Version>, Form);

/// The channel to the compiling thread, and the incarnation of the process that has it: a forked child has another, and
/// no such thread.
static COMPILER: Mutex<Option<(u64, Sender<Work>)>> = Mutex::new(None);

/// Has a version compiled by the thread for that. False: not now.
fn ask(version: Arc<Version>, form: Form) -> bool {
    // Taken: by another that asks, or, in a forked child, for ever: then it goes without.
    let Ok(mut compiler) = COMPILER.try_lock() else { return false };
    let here = process::incarnation();
    if compiler.as_ref().is_none_or(|(process, _)| *process != here) {
        let (send, receive) = mpsc::channel::<Work>();
        let body = move || {
            for (version, form) in receive {
                version.compile(form);
            }
        };
        if chappe_plat::thread::background_with("chappe-synth", 1 << 21, body).is_err() {
            return false;
        }
        if let Some(others) = compiler.replace((here, send)) {
            // The parent's: its other end is in memory that nobody serves here.
            std::mem::forget(others);
        }
    }
    compiler.as_ref().is_some_and(|(_, send)| send.send((version, form)).is_ok())
}
