//! `chappe top` on a terminal. [`state`] is what is shown and what a key does to it, without a terminal; [`draw`] puts it on one. A thread of
//! its own takes the snapshots, so that the keys answer while an arena does not.

mod draw;
mod inside;
mod state;

use super::looked::{Looked, Looker};
use super::views::View;
use crate::said::tell;
use crate::{signals, within};
use anyhow::{Result, anyhow};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use state::{After, State};
use std::mem::ManuallyDrop;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How often the keyboard is looked at.
const KEYS: Duration = Duration::from_millis(100);

/// Looks until nobody wants it; whenever the other side asks.
fn look_on(arena: Option<String>, wanted: &Receiver<View>, seen: &Sender<Result<Looked>>) {
    let mut looker = Looker::new(arena);
    while let Ok(view) = wanted.recv() {
        if seen.send(looker.look(view)).is_err() {
            return;
        }
    }
}

/// Shows it until a key or a signal ends it.
pub fn run(arena: Option<String>, interval: Duration, view: View) -> Result<()> {
    let (want, wanted) = channel();
    let (tell_seen, seen) = channel();
    // They are taken between two looks at the keyboard, so that the terminal is always put right. Blocked before any thread begins:
    // the kernel would give them to one that does not block them.
    let ends = signals::Set::of(&signals::heeded(&[libc::SIGTERM, libc::SIGHUP, libc::SIGINT]));
    ends.block();
    within::thread("chappe-look", move || look_on(arena, &wanted, &tell_seen))?;
    let mut terminal = ratatui::try_init().map_err(|e| anyhow!("cannot draw on this terminal: {e}"))?;
    let ended = interact(&mut terminal, &want, &seen, State::new(interval, view), &ends);
    let (shown, restored) = (terminal.show_cursor(), ratatui::try_restore());
    // It would show the cursor once more, and say on stderr that it cannot, which panics where stderr has gone, too.
    let _terminal = ManuallyDrop::new(terminal);
    if has_gone(Duration::ZERO) {
        // Nobody is there to be told anything.
        signals::die_by(ended.ok().flatten().unwrap_or(libc::SIGHUP));
    }
    if let Err(e) = shown.and(restored) {
        tell(format_args!("chappe: cannot put the terminal right, `reset` does: {e}"));
    }
    if let Some(signal) = ended? {
        signals::die_by(signal);
    }
    Ok(())
}

/// Waits for keys, so long at most. Whether the terminal has gone instead: to look for keys there would not end.
fn has_gone(most: Duration) -> bool {
    let mut keys = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor, which is written to until the call ends.
    unsafe { libc::poll(&raw mut keys, 1, most.as_millis() as libc::c_int) };
    keys.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

/// Answers the signal that ended it, if one did.
fn interact(
    terminal: &mut ratatui::DefaultTerminal,
    want: &Sender<View>,
    seen: &Receiver<Result<Looked>>,
    mut state: State,
    ends: &signals::Set,
) -> Result<Option<i32>> {
    // It is drawn when something has changed: with no key and no look it stays as it is.
    let (mut asked, mut due, mut changed) = (false, std::time::Instant::now(), true);
    loop {
        if !asked && !state.paused && std::time::Instant::now() >= due {
            due = std::time::Instant::now() + state.interval;
            asked = want.send(state.view).is_ok();
        }
        match seen.recv_timeout(Duration::ZERO) {
            Ok(now) => {
                (asked, changed) = (false, true);
                state.update(now);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(anyhow!("the thread that looks has ended")),
        }
        if std::mem::take(&mut changed) {
            terminal.draw(|frame| draw::all(frame, &mut state))?;
        }
        if let Some(came) = ends.wait(Some(Duration::ZERO)) {
            return Ok(Some(came.signal));
        }
        if has_gone(KEYS) {
            return Ok(Some(libc::SIGHUP));
        }
        if !event::poll(Duration::ZERO)? {
            continue;
        }
        let came = event::read()?;
        // A key, or another size.
        changed = true;
        let Event::Key(key) = came else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match state.key(key) {
            After::GoOn => {}
            After::Look => due = std::time::Instant::now(),
            After::Stop => {
                ratatui::try_restore()?;
                signals::stop_by(libc::SIGTSTP);
                *terminal = ratatui::try_init()?;
            }
            After::End => return Ok(None),
        }
    }
}
